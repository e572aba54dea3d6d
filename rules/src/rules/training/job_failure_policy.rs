//! A GPU Job counts evictions and Spot reclaims as its own failures.
//!
//! # Why
//! A pod that is preempted, evicted or lost with its node counts against `backoffLimit` like one that
//! failed by itself. A few reclaimed nodes then fail the whole Job, although the run did nothing wrong.
//! A `podFailurePolicy` that ignores the condition `DisruptionTarget` starts such pods again without
//! counting them. This is a warning where the pods ask for Spot nodes. In the Jobs of a ScaledJob,
//! which the API server does not check, a policy beside another `restartPolicy` than `Never` is an
//! error: each of its Jobs is rejected.
//!
//! # Fix
//! Ignore `DisruptionTarget` in the `podFailurePolicy`. It requires `restartPolicy: Never`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//! -spec: # <-
//! +spec:
//! +  podFailurePolicy:
//! +    rules:
//! +      - action: Ignore
//! +        onPodConditions: [{type: DisruptionTarget}]
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    parallelism: 2
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
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy>
//! - <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions>

use crate::cluster::placement::requested_capacity_types;
use crate::rules::prelude::*;
use crate::rules::training::{JOBS, job_spec};
use crate::workload::devices::accelerator_names;
use crate::workload::template::is_short_lived;

pub(crate) static RULE: Rule = Rule {
    id: "job-failure-policy",
    kinds: JOBS,
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("job_failure_policy.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !uses_accelerators(object) || object.is_owned() {
        return None;
    }
    let spec = job_spec(object);
    let policy = spec.get("podFailurePolicy");
    let templates = templates(object);
    let template = templates.first()?;
    let restart = template.spec.get("restartPolicy");
    if policy.is_set() {
        // KEDA sets OnFailure by default.
        if object.is(Kind::SCALED_JOB) && !restart.is_unknown() && restart.text() != Some("Never") {
            let message =
                "`podFailurePolicy` requires `restartPolicy: Never`: every Job of the ScaledJob is rejected";
            ctx.report(&restart, message)
                .severity(Severity::Error)
                .help("write `restartPolicy: Never`; `backoffLimit` starts failed pods again")
                .fix(Fix::new("write `Never`", Safety::Unsafe).set(&restart, json!("Never")));
        }
        return None;
    }
    // A single attempt has no retries to count, and a queue retries by its own rules.
    let once = spec.get("backoffLimit").int() == Some(0);
    let classified = ctx.class_of(object);
    let counts = matches!(classified.class, WorkloadClass::Training | WorkloadClass::Batch);
    if once || !counts || spec.has_unknown_key() || is_short_lived(object) || is_test(object) {
        return None;
    }
    let spot = requested_capacity_types(template).is_some_and(|types| types.contains("spot"));
    let severity = if spot { Severity::Warning } else { Severity::Info };
    let name = object.display_name();
    let (device, _) = accelerator_names(object);
    let cause = if spot { "Spot reclaims" } else { "evictions" };
    let finding = ctx.report(
        &policy,
        format!("{device} Job `{name}` counts {cause} as failures: it has no `podFailurePolicy`"),
    );
    finding.severity(severity);
    if restart.text() == Some("Never") {
        let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
        let fix = Fix::new("ignore disruptions; this field is immutable", Safety::Unsafe);
        finding
            .help("ignore the pod condition `DisruptionTarget` in a `podFailurePolicy`")
            .fix(fix.set(&policy, json!({"rules": [rule]})));
    } else {
        finding
            .help("write `restartPolicy: Never`, then a `podFailurePolicy` that ignores `DisruptionTarget`");
    }
    None
}
