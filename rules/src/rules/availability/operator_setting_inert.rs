//! A setting of a Ray, Knative, KServe or Kubeflow object has no effect.
//!
//! # Why
//! Some settings are kept in the API and not read any more, or only read together with another one. What
//! their author expects does not happen: a RayService is not replaced after
//! `serviceUnhealthySecondThreshold`, a RayJob with `clusterSelector` never ends the cluster that it runs
//! on, a RayCluster without `enableInTreeAutoscaling` starts no worker. KubeRay keeps `replicas` of a worker
//! group between `minReplicas` and `maxReplicas`: a warning for workers with accelerators. A RayJob with
//! `ttlSecondsAfterFinished` and without `shutdownAfterJobFinishes` is refused by newer controllers, and a
//! Knative Service by its webhook where autoscaling annotations are on the Service: these are warnings, the
//! others information. A request of a Knative Service may take 600 seconds at most, unless the ConfigMap
//! `config-defaults` or the KnativeServing allows more. Of the keys in `serveConfigV2`,
//! `max_concurrent_queries` and `target_num_ongoing_requests_per_replica` have other names since Ray 2.10, and
//! are gone after 2.32.
//! KServe reads `minReplicas: 0` of an InferenceService without Knative as 1, because its HPA has no zero:
//! a GPU stays occupied, and that is a warning.
//! The Training Operator of Kubeflow counts failures against `backoffLimit` only for the restart policies
//! `OnFailure`, `Always` and `ExitCode`: with `Never` the first pod that fails ends the job, hours of training
//! included. That is a warning for jobs with accelerators. The launcher of an MPIJob `v2beta1` is a Job, which
//! counts them all. It does not read `replicas: 0` as none: it starts the first pod of that role and deletes it,
//! again and again.
//!
//! # Fix
//! Remove the setting, or write what it needs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayJob
//!  metadata: {name: nightly}
//!  spec:
//!    entrypoint: python score.py
//! -  shutdownAfterJobFinishes: true # <-
//!    clusterSelector: {ray.io/cluster: shared}
//! ```
//!
//! # References
//! - <https://github.com/ray-project/kuberay/issues/1685>
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html>
//! - <https://github.com/ray-project/ray/pull/46427>
//! - <https://github.com/ray-project/ray/pull/46392>
//! - <https://knative.dev/docs/serving/autoscaling/scale-bounds/>
//! - <https://knative.dev/docs/serving/configuration/config-defaults/>
//! - <https://github.com/kserve/kserve/issues/3514>
//! - <https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/core/job.go>

use super::knative;
use super::kserve::{self, Mode};
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::gpu::{has_device, has_device_in};
use crate::workload::ray::{Extent, cluster_spec, group_pods, has_deletion_rules, ray_version};

pub(crate) static RULE: Rule = Rule {
    id: "operator-setting-inert",
    kinds: &[
        Kind::RAY_CLUSTER,
        Kind::RAY_JOB,
        Kind::RAY_SERVICE,
        Kind::KNATIVE_SERVICE,
        Kind::INFERENCE_SERVICE,
        Kind::PYTORCH_JOB,
        Kind::MPI_JOB,
        Kind::TF_JOB,
        Kind::XGBOOST_JOB,
        Kind::PADDLE_JOB,
        Kind::JAX_JOB,
    ],
    reads: kserve::READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("operator_setting_inert.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    if object.is(Kind::KNATIVE_SERVICE) {
        return of_knative(object, ctx);
    }
    if object.is(Kind::INFERENCE_SERVICE) {
        return of_kserve(object, ctx);
    }
    if object.group() == "kubeflow.org" {
        return of_kubeflow(object, ctx);
    }
    let spec = object.get("spec");
    if object.is(Kind::RAY_SERVICE) {
        unread_thresholds(&spec, ctx);
        renamed_serve_keys(object, ctx);
    }
    // A kustomization may add what a setting needs.
    if object.may_lack_fields() {
        return None;
    }
    if object.is(Kind::RAY_JOB) {
        of_ray_job(&spec, ctx);
    }
    let cluster = cluster_spec(object);
    for group in cluster.get("workerGroupSpecs").items() {
        outside_of_bounds(&group, ctx);
    }
    let scaling = cluster.get("enableInTreeAutoscaling");
    if scaling.is_unknown() || scaling.bool() == Some(true) {
        return None;
    }
    let needs = "`enableInTreeAutoscaling` is not true: nothing reads";
    remove(&set([cluster.get("autoscalerOptions")]), &format!("{needs} `autoscalerOptions`"), ctx);
    let starts_gpus =
        |group: Node<'_>| has_device_in(&group) && group_pods(&cluster, &group, Extent::Most) != Some(0);
    for group in cluster.get("workerGroupSpecs").items() {
        remove(&set([group.get("idleTimeoutSeconds")]), &format!("{needs} `idleTimeoutSeconds`"), ctx);
        // Without the autoscaler the number of workers stays what it is at first.
        let (replicas, most) = (group.get("replicas"), group.get("maxReplicas"));
        if group_pods(&cluster, &group, Extent::Most) == Some(0)
            && most.int().is_some_and(|most| most > 0)
            && !is_scaled_elsewhere(object)
        {
            let message =
                "no worker of this group ever starts: 0 replicas, and `enableInTreeAutoscaling` is not true";
            let place = if replicas.is_set() { replicas } else { group.get("maxReplicas") };
            // Without its GPUs the cluster cannot do what it is for.
            let is_grave = has_device_in(&group) && !cluster.get("workerGroupSpecs").items().any(starts_gpus);
            ctx.report(&place, message)
                .severity(if is_grave { Severity::Warning } else { Severity::Info })
                .help("write `enableInTreeAutoscaling: true`, or the number of `replicas`");
        }
    }
    None
}

/// Reports a number of workers that its own bounds override (`GetWorkerGroupDesiredReplicas` of KubeRay 1.0 to 1.7), or bounds that
/// exclude each other, which KubeRay rejects since 1.6 (`ValidateRayClusterSpec`).
fn outside_of_bounds(group: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (replicas, most) = (group.get("replicas"), group.get("maxReplicas"));
    let least = group.get("minReplicas").int_or(0)?;
    if most.int().is_some_and(|most| most < least) {
        let message = format!(
            "`maxReplicas` is below `minReplicas`, which is {least}: no pod starts with KubeRay 1.6 and later"
        );
        ctx.report(&most, message)
            .severity(Severity::Warning)
            .help("raise `maxReplicas`, or lower `minReplicas`");
        return None;
    }
    let suspend = group.get("suspend");
    if suspend.is_unknown() || suspend.bool() == Some(true) {
        return None;
    }
    // Beside a minimum, zero means that the number is that one.
    let count = replicas.int().filter(|count| *count > 0)?;
    let (kept, bound) = match most.int_or(i64::MAX)? {
        _ if count < least => (least, "minReplicas"),
        most if count > most => (most, "maxReplicas"),
        _ => return None,
    };
    // Nodes with accelerators are paid for unasked, or missing.
    let severity = if has_device_in(group) { Severity::Warning } else { Severity::Info };
    ctx.report(&replicas, format!("KubeRay keeps this group at {kept}, not {count}: `{bound}` is {kept}"))
        .severity(severity)
        .help(format!("write `replicas: {kept}`, or change `{bound}`"))
        .fix(Fix::unsafe_("write the number that KubeRay makes").set(&replicas, json!(kept)));
    None
}

/// Keys of deployments in Ray Serve, or of their autoscaling, and their names since Ray 2.10.
const RENAMED: [(&str, &str); 2] = [
    ("max_concurrent_queries", "max_ongoing_requests"),
    ("target_num_ongoing_requests_per_replica", "target_ongoing_requests"),
];
/// The last version of Ray with the old keys (ray-project/ray, pull requests 46392 and 46427).
const LAST_WITH_OLD_KEYS: Version = Version::new(2, 32);
/// The first one with the new keys.
const FIRST_WITH_NEW_KEYS: Version = Version::new(2, 10);

/// Reports keys of Ray Serve that the version of the cluster does not have.
fn renamed_serve_keys(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let config = object.path(&["spec", "serveConfigV2"]);
    let version = ray_version(&cluster_spec(object));
    if version.is_some_and(|version| version <= LAST_WITH_OLD_KEYS) {
        return None;
    }
    let found = with_embedded(config.text()?, |root| {
        let deployments: Vec<Node<'_>> =
            root.get("applications").items().flat_map(|app| app.get("deployments").items()).collect();
        let place = |old: &str| {
            let mut fields =
                deployments.iter().flat_map(|one| [one.get(old), one.path(&["autoscaling_config", old])]);
            let set = fields.find(Node::is_set)?;
            let key = set.key_span()?;
            Some(key.start as usize..key.end as usize)
        };
        Some(RENAMED.map(|(old, new)| Some((old, new, place(old)?))))
    })?;
    let severity = if version.is_some() { Severity::Warning } else { Severity::Info };
    for (old, new, part) in found.into_iter().flatten() {
        ctx.report(&config, format!("Ray Serve has no `{old}` after Ray {LAST_WITH_OLD_KEYS}"))
            .at_key()
            .at_part(object, &config, part)
            .severity(severity)
            .identified_by(old)
            .help(match version {
                Some(_) => format!("write `{new}`"),
                None => format!("write `{new}` if Ray is {FIRST_WITH_NEW_KEYS} or later"),
            });
    }
    None
}

/// Reports what KubeRay does not read since 1.1, in one finding.
fn unread_thresholds(spec: &Node<'_>, ctx: &mut Context<'_>) {
    const FIELDS: [&str; 2] = ["serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold"];
    let found = set(FIELDS.map(|field| spec.get(field)));
    let names: Vec<String> = found.iter().filter_map(|node| node.pointer().steps().last().cloned()).collect();
    remove(&found, &format!("KubeRay no longer reads `{}`", names.join("` and `")), ctx);
}

/// Whether a person or a program suspends the object and starts it later, with other numbers.
fn is_scaled_elsewhere(object: &Object) -> bool {
    let labels = object.path(&["metadata", "labels"]);
    is_suspended(object) != Some(false)
        || labels.entries().iter().any(|(key, _)| key.starts_with("kueue.x-k8s.io/"))
}

fn of_ray_job(spec: &Node<'_>, ctx: &mut Context<'_>) {
    let (shutdown, ttl) = (spec.get("shutdownAfterJobFinishes"), spec.get("ttlSecondsAfterFinished"));
    let selects = !spec.get("clusterSelector").entries().is_empty();
    if shutdown.bool() == Some(true) && selects {
        let message = "KubeRay ends only clusters of its own: the one of `clusterSelector` stays";
        // The time alone is rejected.
        remove(&set([shutdown, ttl]), message, ctx);
    } else if (!shutdown.is_set() || shutdown.bool() == Some(false)) && ttl.int().is_some_and(|ttl| ttl > 0) {
        let message = "KubeRay ignores `ttlSecondsAfterFinished` without `shutdownAfterJobFinishes`, or rejects it (newer ones)";
        let finding = ctx.report(&ttl, message);
        finding.severity(Severity::Warning);
        // The other setting has no effect there, or is rejected beside the rules.
        if selects || has_deletion_rules(spec) {
            finding.help("remove the time").fix(Fix::unsafe_("remove the time").remove(&ttl));
        } else {
            finding
                .help("write `shutdownAfterJobFinishes: true`, or remove the time")
                .fix(Fix::unsafe_("end the cluster after the job").set(&shutdown, json!(true)));
        }
    }
}

/// The longest `timeoutSeconds` of a revision, unless `max-revision-timeout-seconds` of the ConfigMap `config-defaults` is
/// higher (`pkg/apis/config/defaults.go` of Knative 1.0 to 1.20).
const LONGEST_REQUEST: i64 = 600;

/// Reports a time for requests that the webhook of Knative rejects.
fn request_timeout(timeout: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let seconds = timeout.int().filter(|seconds| *seconds > LONGEST_REQUEST)?;
    if knative::setting(ctx, "defaults", "max-revision-timeout-seconds").is_some()
        || knative::is_of_cloud_run(ctx.object())
    {
        return None;
    }
    let message =
        format!("Knative rejects {seconds} s for a request: the most is {LONGEST_REQUEST} s by default");
    ctx.report(timeout, message).help(format!(
        "write {LONGEST_REQUEST} or less, or raise `max-revision-timeout-seconds` of ConfigMap `config-defaults`"
    ));
    None
}

fn of_knative(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    request_timeout(&object.path(&["spec", "template", "spec", "timeoutSeconds"]), ctx);
    for (key, value) in object.path(&["metadata", "annotations"]).entries() {
        if !key.starts_with("autoscaling.knative.dev/") {
            continue;
        }
        let target = object.path(&["spec", "template", "metadata", "annotations", key]);
        let message =
            format!("`{key}` belongs to `spec.template.metadata`: Knative rejects it on the Service");
        let finding = ctx.report(&value, message);
        finding.at_key().severity(Severity::Warning).help("move it to the annotations of the template");
        if target.is_absent() {
            finding.fix(Fix::unsafe_("move it to the template").move_to(&value, &target));
        }
    }
    None
}

/// Reports a minimum of zero pods that KServe makes one of, without Knative and with its own HPA (`createHPA` in
/// `pkg/controller/v1beta1/inferenceservice/reconcilers/hpa/hpa_reconciler.go` of KServe 0.11 to 0.17).
fn of_kserve(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let class = object.annotation("serving.kserve.io/autoscalerClass");
    if kserve::mode(object, ctx) != Some(Mode::Deployments)
        || class.is_set() && class.text() != Some("hpa")
        || object.may_lack_fields()
        || is_suspended(object) != Some(false)
    {
        return None;
    }
    for component in ["predictor", "transformer", "explainer"] {
        let spec = object.path(&["spec", component]);
        let least = spec.get("minReplicas");
        if least.int() != Some(0) {
            continue;
        }
        // The container of a model is a field of its own: `model`, or the name of a server.
        let uses_device = spec.get("containers").items().any(|container| has_device(&container))
            || spec.entries().iter().any(|(_, field)| has_device(field));
        let message = "`minReplicas: 0` is 1 without Knative: the HPA of KServe has no zero";
        ctx.report(&least, message)
            .severity(if uses_device { Severity::Warning } else { Severity::Info })
            .help("write 1, or scale it from outside: `serving.kserve.io/autoscalerClass: external`");
    }
    None
}

/// Kinds of the Training Operator 1.x with the field of their pods, and whether the policy that it sets is `Never` (`SetDefaults_*` of
/// `kubeflow.org/v1`).
const REPLICA_SPECS: [(Kind, &str, bool); 6] = [
    (Kind::PYTORCH_JOB, "pytorchReplicaSpecs", false),
    (Kind::PADDLE_JOB, "paddleReplicaSpecs", false),
    (Kind::TF_JOB, "tfReplicaSpecs", true),
    (Kind::XGBOOST_JOB, "xgbReplicaSpecs", true),
    (Kind::JAX_JOB, "jaxReplicaSpecs", true),
    (Kind::MPI_JOB, "mpiReplicaSpecs", true),
];

/// Reports a limit of failures that the Training Operator does not count (`PastBackoffLimit` in `pkg/core/job.go`, 1.9).
/// Reports roles without replicas. Source: `CalculatePodSliceSize` in `pkg/core/pod.go` of Training Operator 1.8 and 1.9, which is 1 at
/// least, and `ReconcilePods` in `pkg/controller.v1/common/pod.go` (issue 1709).
fn empty_roles(object: &Object, roles: &[(&str, Node<'_>)], ctx: &mut Context<'_>) -> Option<()> {
    if object.get("apiVersion").text() != Some("kubeflow.org/v1")
        || object.is(Kind::MPI_JOB)
        || object.may_lack_fields()
        || object.path(&["spec", "runPolicy", "suspend"]).bool() == Some(true)
    {
        return None;
    }
    for (role, spec) in roles {
        let replicas = spec.get("replicas");
        if replicas.int() != Some(0) {
            continue;
        }
        let message = format!(
            "`replicas: 0` does not mean none: the operator starts a {role} and deletes it, on and on"
        );
        ctx.report(&replicas, message)
            .severity(if has_device_in(spec) { Severity::Warning } else { Severity::Info })
            .help(format!("remove `{role}`"));
    }
    None
}

fn of_kubeflow(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (_, field, is_never) = REPLICA_SPECS.iter().find(|(kind, ..)| object.is(*kind))?;
    let spec = object.get("spec");
    let limit = spec.path(&["runPolicy", "backoffLimit"]);
    let roles = spec.get(field).entries();
    empty_roles(object, &roles, ctx);
    let never = |role: &Node<'_>| {
        let policy = role.get("restartPolicy");
        if policy.is_set() { policy.text() == Some("Never") } else { *is_never && !role.has_unknown_key() }
    };
    // A TFJob with dynamic workers goes on without one.
    if spec.get("enableDynamicWorker").is_set()
        || object.get("apiVersion").text() != Some("kubeflow.org/v1")
        || object.may_lack_fields()
        || object.is_owned()
        || roles.is_empty()
        || !roles.iter().all(|(_, role)| never(role))
    {
        return None;
    }
    let failures = limit.int().filter(|failures| *failures > 0)?;
    let policy = roles.first()?.1.get("restartPolicy");
    let message = format!(
        "`backoffLimit: {failures}` has no effect: with `Never` the first pod that fails ends the job"
    );
    ctx.report(&limit, message)
        .severity(if uses_accelerators(object) { Severity::Warning } else { Severity::Info })
        .help("write `restartPolicy: OnFailure` or `ExitCode`, which count, or remove the limit")
        .related(object, &policy, "the restart policy");
    None
}

fn set<const N: usize>(fields: [Node<'_>; N]) -> Vec<Node<'_>> {
    fields.into_iter().filter(Node::is_set).collect()
}

/// Reports fields that nothing reads, in one finding.
fn remove(fields: &[Node<'_>], message: &str, ctx: &mut Context<'_>) {
    let Some((first, others)) = fields.split_first() else { return };
    let object = ctx.object().clone();
    let (help, title) = match others {
        [] => ("remove it", "remove the setting"),
        _ => ("remove both", "remove the settings"),
    };
    let fix = fields.iter().fold(Fix::unsafe_(title), |fix, node| fix.remove(node));
    let finding = ctx.report(first, message);
    finding.at_key().help(help).fix(fix);
    for node in others {
        finding.related(&object, node, "this one too");
    }
}
