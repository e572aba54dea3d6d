//! A GPU Job has no `backoffLimit`, so failed pods are retried six times.
//!
//! # Why
//! Without `backoffLimit` a Job starts a failed pod again up to six times. A run that fails on its own
//! configuration occupies GPU nodes seven times before it gives up; a run of days that meets a flaky
//! node may deserve more retries than that. The number is a decision.
//!
//! # Fix
//! Write `backoffLimit`: 0 to 3 for runs that fail for reasons of their own.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//! -spec: # <-
//! +spec:
//! +  backoffLimit: 2
//!    activeDeadlineSeconds: 7200
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
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy>

use crate::rules::prelude::*;
use crate::rules::training::{JOBS, job_spec};

pub(crate) static RULE: Rule = Rule {
    id: "job-backoff-implicit",
    kinds: JOBS,
    docs: docs(include_str!("job_backoff_implicit.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = job_spec(object);
    let written = ["backoffLimit", "backoffLimitPerIndex"].iter().any(|field| spec.get(field).is_set());
    if written || !uses_accelerators(object) || object.is_owned() || spec.has_unknown_key() || is_test(object)
    {
        return None;
    }
    let name = object.display_name();
    ctx.report(&spec.get("backoffLimit"), format!("GPU Job `{name}` has no `backoffLimit`, which is then 6"))
        .help("write how often a failed pod may start again: `backoffLimit: 2`");
    None
}
