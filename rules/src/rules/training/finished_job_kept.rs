//! A finished GPU Job and its pods stay until somebody deletes them.
//!
//! # Why
//! Without `ttlSecondsAfterFinished` a finished Job and its pods stay in the cluster. They use no GPU,
//! but a Job of the same name cannot be created again, and hundreds of finished runs slow down every
//! list of pods.
//!
//! # Fix
//! Write `ttlSecondsAfterFinished`, long enough to read the logs: a day is 86400.
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
use crate::rules::training::is_owned;

pub(crate) static RULE: Rule = Rule {
    id: "finished-job-kept",
    kinds: &[Kind::JOB],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("finished_job_kept.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Annotations of tools that delete the Jobs which they create.
const HOOKS: [&str; 3] = ["helm.sh/hook", "argocd.argoproj.io/hook", "kustomize.toolkit.fluxcd.io/force"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let ttl = spec.get("ttlSecondsAfterFinished");
    let hook = HOOKS.iter().any(|key| object.annotation(key).is_set());
    if ttl.is_set() || hook || !uses_accelerators(object) || is_owned(object) || spec.has_unknown_key() {
        return None;
    }
    let name = object.display_name();
    ctx.report(&ttl, format!("GPU Job `{name}` and its pods stay after it has finished"))
        .help("write `ttlSecondsAfterFinished: 86400`")
        .fix(Fix::new("delete it a day after it has finished", Safety::Unsafe).set(&ttl, json!(86400)));
    None
}
