//! A change of a ScaledJob deletes the Jobs that are running.
//!
//! # Why
//! Unless `rollout.strategy` is `gradual`, KEDA deletes all Jobs of the older version when the spec of a
//! ScaledJob changes, a new image tag included, and what they have computed is lost. That is a warning for
//! training and batch work on accelerators, and where the Jobs are long: they carry
//! `karpenter.sh/do-not-disrupt`, or have accelerators and an `activeDeadlineSeconds` of an hour or
//! more. Else it is advice.
//!
//! # Fix
//! Write `rollout: {strategy: gradual}`: running Jobs end by themselves, and new ones are made of the new
//! spec.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledJob
//!  metadata: {name: transcribe}
//! -spec: # <-
//! +spec:
//!    maxReplicaCount: 4
//! +  rollout: {strategy: gradual}
//!    jobTargetRef:
//!      template:
//!        spec:
//!          restartPolicy: Never
//!          containers:
//!            - name: main
//!              image: example.com/transcribe:1.0.0
//!              resources: {requests: {cpu: "1", memory: 1Gi}}
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=upload, value: "1"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledjob-spec/#rollout>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scaled-job-kills-running-jobs",
    kinds: &[Kind::SCALED_JOB],
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("scaled_job_kills_running_jobs.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let rollout = spec.get("rollout");
    let (strategy, old) = (rollout.get("strategy"), spec.get("rolloutStrategy"));
    if rollout.is_unknown() || spec.has_unknown_key() {
        return None;
    }
    let accelerated = uses_accelerators(object);
    let chosen = [&strategy, &old].into_iter().any(|node| node.is_set() || node.is_unknown());
    // An explicit `immediate` is deliberate.
    if chosen {
        return None;
    }
    let class = ctx.class_of(object).class;
    let heavy = accelerated && matches!(class, WorkloadClass::Training | WorkloadClass::Batch);
    let heavy = heavy || is_long(object);
    let name = ellipsize(object.name());
    ctx.report(&strategy, format!("every change of the spec of `{name}` deletes its running Jobs"))
        .help("write `rollout: {strategy: gradual}`: running Jobs then end by themselves")
        .severity(if heavy { Severity::Warning } else { Severity::Info })
        .fix(Fix::unsafe_("let running Jobs end").set(&strategy, json!("gradual")));
    None
}

/// Whether the Jobs say that they are long: Karpenter keeps their nodes, or their deadline is an hour or more.
fn is_long(object: &Object) -> bool {
    let job = object.path(&["spec", "jobTargetRef"]);
    let deadlines =
        [job.get("activeDeadlineSeconds"), job.path(&["template", "spec", "activeDeadlineSeconds"])];
    let kept = job.path(&["template", "metadata", "annotations", DO_NOT_DISRUPT]);
    kept.text().is_some_and(|text| text != "false")
        // For others it may be a guard far above what the work takes.
        || uses_accelerators(object) && deadlines.iter().any(|one| one.int().is_some_and(|seconds| seconds >= 3600))
}
