//! A GPU Job counts evictions and Spot reclaims as its own failures.
//!
//! # Why
//! A pod that is preempted, evicted or lost with its node counts against `backoffLimit` like one that
//! failed by itself. A few reclaimed nodes then fail the whole Job, although the run did nothing wrong. A
//! `podFailurePolicy` that ignores the condition `DisruptionTarget` starts such pods again without counting
//! them. This is a warning where the pods ask for Spot nodes. A training Job with `backoffLimit: 0` whose
//! pods run on Spot nodes alone has failed for good after the first reclaim, which is a warning as well; a
//! Job of a queue, or of a schedule, starts again by other rules. In the Jobs of a ScaledJob, which the API
//! server does not check, a policy beside another `restartPolicy` than `Never` is an error: each of its
//! Jobs is rejected.
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
use crate::rules::scheduling::PLACEMENT_READS;
use crate::rules::spot_use::{SpotUse, spot_use};
use crate::rules::training::{JOBS, job_spec};
use crate::workload::devices::accelerator_names;
use crate::workload::template::is_short_lived;

pub(crate) static RULE: Rule = Rule {
    id: "job-failure-policy",
    kinds: JOBS,
    reads: kinds![[Kind::NAMESPACE], PLACEMENT_READS],
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
    let classified = ctx.class_of(object);
    let trains = classified.is(WorkloadClass::Training);
    // Whether it is sure or not: the finding is an info unless the pods ask for Spot nodes.
    let counts = matches!(classified.class, WorkloadClass::Training | WorkloadClass::Batch);
    if !counts || spec.has_unknown_key() || is_short_lived(object) || is_test(object) {
        return None;
    }
    let limit = spec.get("backoffLimit");
    let once = limit.int() == Some(0);
    let name = object.display_name();
    let (device, _) = accelerator_names(object);
    let (finding, severity) = if once {
        // A single attempt has no retries to count, and a queue or a schedule retries by its own rules.
        if !trains || !object.is(Kind::JOB) || is_queued(object) {
            return None;
        }
        let pool = match spot_use(template, ctx)? {
            SpotUse::Required => None,
            SpotUse::Only(pool) => Some(pool),
            SpotUse::Tolerated(_) | SpotUse::Possible(_) => return None,
        };
        let message =
            format!("the first Spot reclaim fails {device} Job `{name}` for good: `backoffLimit: 0`");
        let finding = ctx.report(&limit, message);
        if let Some(pool) = pool {
            let pool = pool.object();
            finding.related(pool, &pool.path(&["metadata", "name"]), "the pool has only Spot nodes");
        }
        (finding, Severity::Warning)
    } else {
        let spot = requested_capacity_types(template).is_some_and(|types| types.contains("spot"));
        let cause = if spot { "Spot reclaims" } else { "evictions" };
        let message =
            format!("{device} Job `{name}` counts {cause} as failures: it has no `podFailurePolicy`");
        (ctx.report(&policy, message), if spot { Severity::Warning } else { Severity::Info })
    };
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

/// Whether a queue admits the Job, or a batch scheduler has it.
fn is_queued(object: &Object) -> bool {
    let labels = object.path(&["metadata", "labels"]);
    labels.has_unknown_key()
        || labels.entries().iter().any(|(key, _)| key.contains("queue"))
        || object.get("spec").get("suspend").bool() == Some(true)
}
