//! Minimum and maximum of an autoscaler are equal, so it never scales.
//!
//! # Why
//! With a minimum equal to the maximum an HPA computes its metrics and never changes the number of replicas.
//! A ScaledObject with these bounds has no effect either, except where `idleReplicaCount` scales it to zero.
//!
//! A comment that says that the number stays, such as `# keep at 1: one volume`, keeps it silent.
//!
//! # Fix
//! Widen the bounds, or remove the autoscaler and write `replicas`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: embedder}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: embedder}
//!    minReplicas: 3
//! -  maxReplicas: 3 # <-
//! +  maxReplicas: 6
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/>

use crate::keda::MIN_REPLICAS;
use crate::rules::comments::comments_on;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "autoscaler-without-range",
    kinds: &[Kind::HPA, Kind::SCALED_OBJECT],
    reads: &[Kind::CANARY],
    docs: docs(include_str!("autoscaler_without_range.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Flagger scales the workload of a Canary to zero and back.
    if is_of_canary(object, ctx) {
        return None;
    }
    let (count, min, max) = fixed_count(object)?;
    let is_meant = || [&min, &max].iter().any(|bound| is_pinned_by_comment(object, bound));
    if count >= 1 && !object.is_owned() && !is_meant() {
        let message = format!("minimum and maximum are both {count}: the number of replicas never changes");
        ctx.report(&max, message).help("widen the bounds, or remove the autoscaler");
    }
    None
}

/// The number of replicas that an autoscaler never changes, because its bounds are equal, with its bounds.
pub(super) fn fixed_count(object: &Object) -> Option<(i64, Node<'_>, Node<'_>)> {
    let spec = object.get("spec");
    // An overlay widens the bounds.
    if object.is_patched_by_kustomize() {
        return None;
    }
    let (min, max, least) = if object.is(Kind::HPA) {
        (spec.get("minReplicas"), spec.get("maxReplicas"), 1)
    } else if spec.get("idleReplicaCount").is_absent() {
        (spec.get("minReplicaCount"), spec.get("maxReplicaCount"), MIN_REPLICAS)
    } else {
        return None;
    };
    let count = max.int()?;
    (count == min.int_or(least)?).then_some((count, min, max))
}

/// Whether a Canary of Flagger names the autoscaler, which then holds the number of replicas of both of its workloads.
fn is_of_canary(autoscaler: &Object, ctx: &Context<'_>) -> bool {
    let mut canaries = ctx.cluster().in_namespace(Kind::CANARY, autoscaler.namespace_or_default());
    canaries.any(|canary| canary.path(&["spec", "autoscalerRef", "name"]).text() == Some(autoscaler.name()))
}

/// Whether a comment on a bound says that the number of replicas stays as it is.
fn is_pinned_by_comment(autoscaler: &Object, bound: &Node<'_>) -> bool {
    const SIGNS: [&str; 12] = [
        "keep at",
        "kept at",
        "keep it at",
        "pinned",
        "fixed at",
        "single replica",
        "only one",
        "exactly one",
        "singleton",
        "constraint",
        "cannot scale",
        "can't scale",
    ];
    comments_on(autoscaler, bound).iter().any(|comment| mentions(comment, &SIGNS))
}
