//! The replicas of a fallback are outside the bounds of the ScaledObject.
//!
//! # Why
//! KEDA reports the fallback's replicas to the HPA as a metric, and the HPA keeps to its own minimum
//! and maximum. A larger fallback is cut to `maxReplicaCount`, 100 where it is not written; a smaller
//! one is raised to `minReplicaCount`.
//!
//! # Fix
//! Write a count between the bounds, or change the bound. A fallback of 0 beside a minimum of 0 is
//! kept as it is.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    maxReplicaCount: 8
//!    fallback:
//!      failureThreshold: 3
//! -    replicas: 12 # <-
//! +    replicas: 6
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#fallback>

use crate::keda::fallback::Fallback;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-fallback-out-of-bounds",
    kinds: &[Kind::SCALED_OBJECT],
    docs: docs(include_str!("keda_fallback_out_of_bounds.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let fallback = Fallback::of(object).filter(|f| !f.has_resource_triggers_only())?;
    let node = fallback.node.get("replicas");
    let behavior = fallback.node.get("behavior");
    let count = node.int().filter(|_| !behavior.is_unknown())?;
    let (min, max) = (min_replicas(object)?, max_replicas(object)?);
    // With a minimum of 0 the target can be at 0, and a fallback of 0 keeps it there.
    let low = count < min.max(1) && !(count == 0 && min <= 0);
    if count > max {
        ctx.report(&node, format!("a fallback of {count} replicas is cut to the maximum, {max}"))
            .help(format!("write {max} or less, or raise `maxReplicaCount`"));
    } else if low && matches!(behavior.text(), None | Some("static")) {
        ctx.report(&node, format!("a fallback of {count} replicas is raised to the minimum, {min}"))
            .help(format!("write {min} or more"));
    }
    None
}
