//! Finished GPU Jobs, and workers of MPIJobs and RayJobs, stay until deleted.
//!
//! # Why
//! Without `ttlSecondsAfterFinished` a finished Job and its pods stay in the cluster. They use no GPU,
//! but a Job of the same name cannot be created again, and hundreds of finished runs slow down every
//! list of pods.
//!
//! The workers of an MPIJob run an SSH server, which does not end with the run: with `cleanPodPolicy: None`,
//! the default of `v2beta1`, they keep their GPUs and nodes after it. That is a warning.
//!
//! A RayJob leaves the Ray cluster that it has made running, unless `shutdownAfterJobFinishes` is true: the
//! default is false. The workers of its groups, with the autoscaler the minimum of them, keep their GPUs. That is
//! a warning as well.
//!
//! A run that Argo CD with `selfHeal`, or Flux, applies is missing once its TTL has deleted it. They create
//! it again, and it runs again, forever: this is a warning for every kind with a TTL. Argo CD runs a hook
//! once for each sync.
//!
//! # Fix
//! Write `ttlSecondsAfterFinished`, long enough to read the logs: a day is 86400. For an MPIJob write
//! `cleanPodPolicy: Running`, which leaves finished pods and their logs, for a RayJob
//! `shutdownAfterJobFinishes: true`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//! -spec: # <-
//! +spec:
//! +  ttlSecondsAfterFinished: 86400
//!    activeDeadlineSeconds: 14400
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/>
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html>

use crate::rules::gitops::{DELIVERERS, delivery_of, gets_annotation};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::devices::accelerator_names;
use crate::workload::gpu::has_device_in;
use crate::workload::ray::{Extent, group_pods};

pub(crate) static RULE: Rule = Rule {
    id: "finished-job-kept",
    kinds: &[
        Kind::JOB,
        Kind::MPI_JOB,
        Kind::PYTORCH_JOB,
        Kind::TF_JOB,
        Kind::XGBOOST_JOB,
        Kind::PADDLE_JOB,
        Kind::JAX_JOB,
        Kind::JOB_SET,
        Kind::VOLCANO_JOB,
        Kind::ARGO_WORKFLOW,
        Kind::RAY_JOB,
    ],
    reads: &DELIVERERS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("finished_job_kept.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Annotations of tools that delete the Jobs which they create.
const HOOKS: [&str; 3] = ["helm.sh/hook", "argocd.argoproj.io/hook", "kustomize.toolkit.fluxcd.io/force"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.is(Kind::RAY_JOB) {
        return ray_cluster(object, ctx);
    }
    let ttl = ttl_of(object);
    if ttl.is_set() {
        repeats(object, &ttl, ctx);
    }
    if object.is(Kind::MPI_JOB) {
        return workers(object, ctx);
    }
    // What applies it makes it again, or says that it is missing, when a TTL has deleted it.
    let is_applied = || delivery_of(object, &[], ctx).is_some();
    let is_hook = || HOOKS.iter().any(|key| has_annotation(object, key, ctx));
    if !object.is(Kind::JOB)
        || ttl.is_set()
        || !uses_accelerators(object)
        || is_hook()
        || is_applied()
        || object.is_owned()
        || spec.has_unknown_key()
    {
        return None;
    }
    let (device, name) = (accelerator_names(object).0, object.display_name());
    ctx.report(&ttl, format!("{device} Job `{name}` and its pods stay after it has finished"))
        .help("write `ttlSecondsAfterFinished: 86400`")
        .fix(Fix::new("delete it a day after it has finished", Safety::Unsafe).set(&ttl, json!(86400)));
    None
}

/// Whether an object has an annotation, or gets it when it is applied.
fn has_annotation(object: &Object, key: &str, ctx: &Context<'_>) -> bool {
    object.annotation(key).is_set() || gets_annotation(object, key, ctx)
}

/// The time after which a finished run is deleted. The operators of these kinds delete the object itself, unlike KubeRay.
fn ttl_of(object: &Object) -> Node<'_> {
    let spec = object.get("spec");
    if object.is(Kind::ARGO_WORKFLOW) {
        let strategy = spec.get("ttlStrategy");
        // A time after a failure alone leaves a run that succeeds.
        let times = ["secondsAfterCompletion", "secondsAfterSuccess"].map(|key| strategy.get(key));
        let [completion, _] = &times;
        return if times.iter().any(Node::is_set) { strategy } else { completion.clone() };
    }
    let of_policy = spec.path(&["runPolicy", "ttlSecondsAfterFinished"]);
    if of_policy.is_set() { of_policy } else { spec.get("ttlSecondsAfterFinished") }
}

/// Reports a run that is created again each time its TTL has deleted it.
fn repeats(object: &Object, ttl: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let delivery = delivery_of(object, &[], ctx).filter(|delivery| delivery.heals)?;
    let is_flux = delivery.by.is(Kind::FLUX_KUSTOMIZATION);
    // Argo CD does not compare hooks.
    let left_alone = if is_flux {
        has_annotation(object, "kustomize.toolkit.fluxcd.io/reconcile", ctx)
            || object.annotation("kustomize.toolkit.fluxcd.io/ssa").text() == Some("Ignore")
    } else {
        HOOKS[..2].iter().any(|key| has_annotation(object, key, ctx))
    };
    // Neither applies an object without a name, save a hook.
    let is_named = object.path(&["metadata", "name"]).is_set();
    if left_alone || !is_named || ttl.is_unknown() || object.is_owned() || is_suspended(object) != Some(false)
    {
        return None;
    }
    let name = object.display_name();
    let who = if is_flux { "Flux" } else { "Argo CD" };
    let message = format!("{who} creates `{name}` again once its TTL has deleted it: it runs over and over");
    let is_near = ctx.pairs_with(delivery.by);
    let finding = ctx.report(ttl, message).at_key();
    finding
        .severity(Severity::Warning)
        .help(if is_flux {
            "remove the TTL: `kustomize.toolkit.fluxcd.io/force: enabled` replaces the run when its manifest changes"
        } else {
            "remove the TTL, or make it a hook, which runs once for each sync: `argocd.argoproj.io/hook: Sync`"
        })
        .fix(Fix::unsafe_("keep it after it has finished").remove(ttl));
    if is_near {
        finding.related(delivery.by, &delivery.by.path(&["metadata", "name"]), "applies the manifest");
    }
    Some(())
}

/// Reports the cluster of a RayJob that stays after it, with accelerators. Sources: `ShutdownAfterJobFinishes` in `rayjob_types.go`, and
/// `deletionStrategy` in its place (KubeRay 1.4 to 1.7).
fn ray_cluster(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (ends, cluster) = (spec.get("shutdownAfterJobFinishes"), spec.get("rayClusterSpec"));
    let has_other = ["deletionStrategy", "clusterSelector", "ttlSecondsAfterFinished", "suspend"]
        .iter()
        .any(|field| spec.get(field).is_set());
    // A person works with the cluster, and ends it.
    let is_interactive = spec.get("submissionMode").is_unknown()
        || spec.get("submissionMode").text() == Some("InteractiveMode");
    if ends.is_unknown()
        || ends.bool() == Some(true)
        || !cluster.is_mapping()
        || has_other
        || is_interactive
        || object.may_lack_fields()
        || object.is_owned()
        || spec.has_unknown_key()
    {
        return None;
    }
    let extent = match cluster.get("enableInTreeAutoscaling").bool() {
        Some(true) => Extent::Least,
        _ => Extent::First,
    };
    let head = i64::from(has_device_in(&cluster.get("headGroupSpec")));
    let groups = cluster.get("workerGroupSpecs");
    let mut kept = groups.items().filter(has_device_in).map(|group| group_pods(&cluster, &group, extent));
    let pods = kept.try_fold(head, |sum, pods| Some(sum + pods?)).filter(|pods| *pods > 0)?;
    let workers = if pods == 1 { "one pod".to_owned() } else { format!("{pods} pods") };
    let message = format!(
        "the Ray cluster of `{}` stays after the job, with {workers} on accelerators",
        object.display_name()
    );
    let severity = if is_example(object) { Severity::Info } else { Severity::Warning };
    ctx.report(&ends, message)
        .severity(severity)
        .help("write `shutdownAfterJobFinishes: true`")
        .fix(Fix::unsafe_("end the cluster with the job").set(&ends, json!(true)));
    None
}

/// A time after which a finished MPIJob is deleted, with its workers, that nobody needs to shorten.
const SOON: i64 = 3600;

/// Reports workers with GPUs that run on after an MPIJob. The default is that of the MPI Operator 0.6.
fn workers(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let policy = object.path(&["spec", "runPolicy", "cleanPodPolicy"]);
    let ttl = object.path(&["spec", "runPolicy", "ttlSecondsAfterFinished"]);
    let stay = match policy.text() {
        Some(text) => text == "None",
        None => !policy.is_unknown() && object.version() == "v2beta1",
    };
    if !stay || object.may_lack_fields() || object.get("spec").has_unknown_key() {
        return None;
    }
    if ttl.is_unknown() || ttl.int().is_some_and(|seconds| seconds <= SOON) {
        return None;
    }
    let worker = object.path(&["spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers"]);
    let worker = worker.items().next()?;
    let command = worker.get("command");
    let is_sshd = |word: Node<'_>| word.raw_text().is_some_and(|text| text.contains("sshd"));
    if command.is_set() && !command.items().any(is_sshd) || !uses_accelerators(object) {
        return None;
    }
    let ((_, devices), name) = (accelerator_names(object), object.display_name());
    ctx.report(
        &policy,
        format!("the workers of `{name}` keep their {devices} after the run: none of them ends"),
    )
    .severity(Severity::Warning)
    .help("write `cleanPodPolicy: Running`")
    .fix(Fix::unsafe_("end the workers with the run").set(&policy, json!("Running")));
    None
}
