//! The operator of a training job rejects its name, or the names of its containers.
//!
//! # Why
//! The operators make Services, Jobs and pods whose names begin with that of the job, and a Service needs a
//! name that begins with a letter, has no dot, and ends at 63 characters. Kubeflow's operator looks for the
//! container that it configures by its name: `pytorch` in a PyTorchJob, `tensorflow` in a TFJob. The schema of
//! the kind says nothing of either: a webhook rejects the job, or it fails without a pod. The webhook of Kueue
//! rejects a RayJob in a queue if its cluster stays when it has ended. KubeRay itself does not run a RayJob with
//! neither `rayClusterSpec` nor `clusterSelector`, one that is suspended while its cluster stays or belongs to
//! others, or, from 1.6 on, one with `backoffLimit` on a cluster of others: it is a condition in its status.
//!
//! # Fix
//! Begin the name with a letter and keep it short. Give the container the name that the operator looks for.
//! Set `shutdownAfterJobFinishes: true` in a RayJob that is queued or suspended.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v1
//!  kind: PyTorchJob
//!  metadata: {name: rank}
//!  spec:
//!    pytorchReplicaSpecs:
//!      Worker:
//!        replicas: 2
//!        template:
//!          spec:
//!            containers:
//! -            - name: trainer # <-
//! +            - name: pytorch
//!                image: registry.example.com/rank/train:1.9.0
//!                resources: {requests: {cpu: 2, memory: 4Gi}, limits: {memory: 4Gi}}
//! ```
//!
//! # References
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/>
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#rfc-1035-label-names>

use super::kueue::queue_name;
use crate::rules::prelude::*;
use crate::workload::ray::has_deletion_rules;

pub(crate) static RULE: Rule = Rule {
    id: "training-job-rejected",
    kinds: &[
        Kind::PYTORCH_JOB,
        Kind::TF_JOB,
        Kind::XGBOOST_JOB,
        Kind::PADDLE_JOB,
        Kind::JAX_JOB,
        Kind::MPI_JOB,
        Kind::TRAIN_JOB,
        Kind::JOB_SET,
        Kind::RAY_JOB,
    ],
    // `kubectl` has the API server look for unknown fields.
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("training_job_rejected.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

/// The longest name of a Service or a Job.
const LONGEST: usize = 63;

/// What the operators check (their webhooks and `validation.go`, read in November 2026).
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    if object.is(Kind::RAY_JOB) {
        queued_ray_job(object, ctx);
        return invalid_ray_job(object, ctx);
    }
    let (field, container) = match object.kind() {
        "PyTorchJob" => ("pytorchReplicaSpecs", "pytorch"),
        "TFJob" => ("tfReplicaSpecs", "tensorflow"),
        "XGBoostJob" => ("xgbReplicaSpecs", "xgboost"),
        "PaddleJob" => ("paddleReplicaSpecs", "paddle"),
        "JAXJob" => ("jaxReplicaSpecs", "jax"),
        _ => ("", ""),
    };
    for (_, group) in object.path(&["spec", field]).entries() {
        containers(object, &group.path(&["template", "spec", "containers"]), container, ctx);
    }
    // A prefix may be added to it.
    let name = object.path(&["metadata", "name"]);
    if object.is_patched_by_kustomize() {
        return None;
    }
    let text = name.text()?;
    let is_label = text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.contains('.');
    // Versions of the MPI operator differ in what they take as a name.
    if !is_label && !object.is(Kind::MPI_JOB) {
        // Other characters are invalid in all names.
        let is_valid =
            text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        if is_valid && !text.is_empty() {
            let message =
                format!("no {} can have this name: those of its Services begin with it", object.kind());
            ctx.report(&name, message).help("begin it with a letter, and write no dot");
        }
        return None;
    }
    let (longest, what) = longest(object, text)?;
    if longest.len() > LONGEST && text.len() <= LONGEST {
        let message = format!("`{longest}` has {} characters, and a {what} at most {LONGEST}", longest.len());
        ctx.report(&name, message).help(format!("make it {} characters shorter", longest.len() - LONGEST));
    }
    None
}

/// Reports a RayJob in a queue that keeps its cluster. Source: kueue 0.17 `pkg/controller/jobs/rayjob/rayjob_webhook.go` (`validateCreate`).
fn queued_ray_job(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    queue_name(object).text().filter(|name| !name.is_empty())?;
    let spec = object.get("spec");
    let ends = spec.get("shutdownAfterJobFinishes");
    let selector = spec.get("clusterSelector");
    let selects = selector.is_unknown() || !selector.entries().is_empty();
    let own = spec.get("rayClusterSpec").is_set() && !selects;
    let keeps = ends.is_absent() || ends.bool() == Some(false);
    if !own || !keeps || spec.has_unknown_key() || object.is_patched_by_kustomize() {
        return None;
    }
    let name = object.display_name();
    ctx.report(
        &ends,
        format!("Kueue rejects RayJob `{name}`: its cluster stays, and holds the quota of its queue"),
    )
    .severity(Severity::Warning)
    .help(if has_deletion_rules(&spec) {
        "write `shutdownAfterJobFinishes: true` in place of `deletionStrategy`"
    } else {
        "write `shutdownAfterJobFinishes: true`"
    });
    None
}

/// Reports a RayJob that KubeRay does not run. Source: `ValidateRayJobSpec` of KubeRay 1.2 to 1.7; that of `backoffLimit` came with 1.6.
fn invalid_ray_job(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (selector, cluster) = (spec.get("clusterSelector"), spec.get("rayClusterSpec"));
    if !spec.is_mapping() || spec.has_unknown_key() || object.may_lack_fields() || selector.is_unknown() {
        return None;
    }
    let selects = !selector.entries().is_empty() || selector.has_unknown_key();
    let (suspend, ends) = (spec.get("suspend"), spec.get("shutdownAfterJobFinishes"));
    let is_suspended = suspend.bool() == Some(true);
    let keeps = ends.is_absent() || ends.bool() == Some(false);
    if cluster.is_absent() && !selects {
        // A cluster under another name.
        let named = spec.entries().into_iter().find(|(_, value)| value.get("headGroupSpec").is_set());
        if let Some((name, value)) = named {
            let name = ellipsize(name);
            ctx.report(&value, format!("KubeRay does not run a RayJob without a cluster: `{name}` is none"))
                .at_key()
                .help("write it as `rayClusterSpec`")
                .rejected_by(Some(Authority::ApiServer))
                .fix(Fix::unsafe_("rename it to `rayClusterSpec`").move_to(&value, &cluster));
            return None;
        }
        ctx.report(&cluster, "KubeRay does not run a RayJob without a cluster").help(
            "write `rayClusterSpec`, or the name of a cluster as `clusterSelector: {ray.io/cluster: …}`",
        );
        return None;
    }
    if is_suspended && selects {
        ctx.report(
            &suspend,
            "KubeRay does not suspend a RayJob with `clusterSelector`, and does not run it either",
        )
        .help("remove `suspend`, or give the job a cluster of its own with `rayClusterSpec`")
        .related(object, &selector, "a cluster that the job does not end");
        return None;
    }
    // Kueue suspends the jobs of its queues, and rejects this one by itself.
    let is_queued = queue_name(object).is_set();
    if is_suspended && keeps && !is_queued {
        ctx.report(
            &suspend,
            "KubeRay does not suspend a RayJob whose cluster stays, and does not run it either",
        )
        .help("write `shutdownAfterJobFinishes: true`");
        return None;
    }
    let retries = spec.get("backoffLimit");
    if selects && retries.int().is_some_and(|retries| retries > 0) {
        ctx.report(
            &retries,
            "KubeRay 1.6 and later do not run a RayJob with `backoffLimit` and `clusterSelector`",
        )
        .severity(Severity::Warning)
        .help("remove `backoffLimit`")
        .related(object, &selector, "a cluster that the job does not end");
    }
    None
}

fn containers(object: &Object, containers: &Node<'_>, wanted: &str, ctx: &mut Context<'_>) -> Option<()> {
    let names: Option<Vec<&str>> = containers.items().map(|container| container.get("name").text()).collect();
    let names = names.filter(|names| !names.is_empty() && !names.contains(&wanted))?;
    let first = containers.items().next()?.get("name");
    let message = format!(
        "{} needs a container with the name `{wanted}`, and has `{}`",
        object.kind(),
        names.join("`, `")
    );
    ctx.report(&first, message).help(format!("call the container that trains `{wanted}`"));
    Some(())
}

/// The longest name that an operator makes of that of a job, and what has it.
fn longest(object: &Object, name: &str) -> Option<(String, &'static str)> {
    let spec = object.get("spec");
    if object.is(Kind::MPI_JOB) {
        let workers = spec.path(&["mpiReplicaSpecs", "Worker", "replicas"]).int_or(1)?.max(1);
        return Some((format!("{name}-worker-{}", workers - 1), "host"));
    }
    if !object.is(Kind::JOB_SET) {
        return None;
    }
    let names = spec.get("replicatedJobs").items().filter_map(|job| {
        let own = job.get("name").text()?;
        let last = job.get("replicas").int_or(1)?.max(1) - 1;
        let of_job = format!("{name}-{own}-{last}");
        let job = job.path(&["template", "spec"]);
        let is_indexed = matches!(job.get("completionMode").text(), None | Some("Indexed"));
        // Pods have a random end of five characters.
        match job.get("completions").int().filter(|_| is_indexed) {
            Some(pods) => Some((format!("{of_job}-{}-abcde", pods.max(1) - 1), "pod")),
            None => Some((of_job, "Job")),
        }
    });
    names.max_by_key(|(name, _)| name.len())
}
