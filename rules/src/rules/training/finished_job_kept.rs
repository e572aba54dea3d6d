//! Finished GPU Jobs, or workers of an MPIJob, stay until somebody deletes them.
//!
//! # Why
//! Without `ttlSecondsAfterFinished` a finished Job and its pods stay in the cluster. They use no GPU,
//! but a Job of the same name cannot be created again, and hundreds of finished runs slow down every
//! list of pods.
//!
//! The workers of an MPIJob run an SSH server, which does not end with the run: with `cleanPodPolicy: None`,
//! the default of `v2beta1`, they keep their GPUs and nodes after it. That is a warning.
//!
//! # Fix
//! Write `ttlSecondsAfterFinished`, long enough to read the logs: a day is 86400. For an MPIJob write
//! `cleanPodPolicy: Running`, which leaves finished pods and their logs.
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

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "finished-job-kept",
    kinds: &[Kind::JOB, Kind::MPI_JOB],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("finished_job_kept.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Annotations of tools that delete the Jobs which they create.
const HOOKS: [&str; 3] = ["helm.sh/hook", "argocd.argoproj.io/hook", "kustomize.toolkit.fluxcd.io/force"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::MPI_JOB) {
        return workers(object, ctx);
    }
    let spec = object.get("spec");
    let ttl = spec.get("ttlSecondsAfterFinished");
    let hook = HOOKS.iter().any(|key| object.annotation(key).is_set());
    if ttl.is_set() || hook || !uses_accelerators(object) || object.is_owned() || spec.has_unknown_key() {
        return None;
    }
    let name = object.display_name();
    ctx.report(&ttl, format!("GPU Job `{name}` and its pods stay after it has finished"))
        .help("write `ttlSecondsAfterFinished: 86400`")
        .fix(Fix::new("delete it a day after it has finished", Safety::Unsafe).set(&ttl, json!(86400)));
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
    if !stay || object.is_partial() || object.get("spec").has_unknown_key() {
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
    let name = object.display_name();
    ctx.report(&policy, format!("the workers of `{name}` keep their GPUs after the run: none of them ends"))
        .severity(Severity::Warning)
        .help("write `cleanPodPolicy: Running`")
        .fix(Fix::unsafe_("end the workers with the run").set(&policy, json!("Running")));
    None
}
