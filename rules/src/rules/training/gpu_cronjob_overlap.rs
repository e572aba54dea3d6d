//! A GPU CronJob starts a run while the last one is still running.
//!
//! # Why
//! `concurrencyPolicy` is `Allow` by default. A run that takes longer than the interval meets the next
//! one: each waits for GPUs that the other holds, Karpenter buys more nodes, and all of them write to
//! the same place.
//!
//! # Fix
//! Write `concurrencyPolicy: Forbid`, or `Replace` where only the newest run counts.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: CronJob
//!  metadata: {name: embed-nightly}
//! -spec: # <-
//! +spec:
//! +  concurrencyPolicy: Forbid
//!    schedule: 0 2 * * *
//!    jobTemplate:
//!      spec:
//!        backoffLimit: 2
//!        template:
//!          spec:
//!            restartPolicy: Never
//!            containers:
//!              - name: main
//!                image: example.com/embed:1.4.0
//!                resources:
//!                  requests: {cpu: 4, memory: 16Gi}
//!                  limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#concurrency-policy>

use crate::rules::prelude::*;
use crate::workload::devices::accelerator_names;
use crate::workload::template::is_short_lived;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-cronjob-overlap",
    kinds: &[Kind::CRON_JOB],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_cronjob_overlap.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let policy = spec.get("concurrencyPolicy");
    let overlaps = !policy.is_set() || policy.text() == Some("Allow");
    if !overlaps || !uses_accelerators(object) || spec.has_unknown_key() || is_short_lived(object) {
        return None;
    }
    if is_suspended(object) != Some(false) {
        return None;
    }
    let ((device, _), name) = (accelerator_names(object), object.display_name());
    let severity = if policy.is_set() { Severity::Info } else { Severity::Warning };
    ctx.report(
        &policy,
        format!("a run of {device} CronJob `{name}` may start while the last one still runs"),
    )
    .severity(severity)
    .help("write `concurrencyPolicy: Forbid`")
    .fix(Fix::new("let runs not overlap", Safety::Unsafe).set(&policy, json!("Forbid")));
    None
}
