//! A disruption block has no `consolidateAfter`.
//!
//! # Why
//! Up to Karpenter 1.14 the CRD requires `consolidateAfter` as soon as `spec.disruption` is written, so
//! the API server rejects the NodePool. Without the whole block the default is 0s, but adding a budget
//! or a policy makes the field mandatory; many examples on the web leave it out. From 1.15 on the
//! default is 0s there too.
//!
//! # Fix
//! Write how long a node must have been empty or underused: `0s` is the default of old; for GPU
//! pools a few minutes save a node that the next pod needs.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {karpenter: "1.14"}
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -  disruption: # <-
//! -    consolidationPolicy: WhenEmptyOrUnderutilized
//! +  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#specdisruption>

use crate::karpenter::minors;
use crate::rules::prelude::*;
use crate::schema;

pub(crate) static RULE: Rule = Rule {
    id: "consolidate-after-missing",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    owns: &[Ownership { path: "spec/disruption/consolidateAfter", aspect: Aspect::Missing }],
    docs: docs(include_str!("consolidate_after_missing.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let disruption = pool.disruption();
    let after = disruption.get("consolidateAfter");
    let merged = disruption.entries().iter().any(|(k, _)| is_placeholder(k));
    // In a patch null removes a field; the remaining object is not known.
    if !disruption.is_mapping() || after.is_set() || merged || pool.is_other_provider() || object.is_partial()
    {
        return None;
    }
    if !is_required(object, &after, ctx) {
        return None;
    }
    let plain = pool.hardware() == Hardware::NoAccelerator && !pool.has_accelerator_taint();
    let default = pool.consolidation_policy() == Some("WhenEmptyOrUnderutilized");
    let (value, safety) = if plain && default { ("0s", Safety::Safe) } else { ("5m", Safety::Unsafe) };
    ctx.report(&after, "`spec.disruption` has no `consolidateAfter`, so the API server rejects the NodePool")
        .help(format!("add `consolidateAfter: {value}`, or another duration or `Never`"))
        .fix(Fix::new(format!("add `consolidateAfter: {value}`"), safety).set(&after, json!(value)));
    None
}

/// Whether the CRD requires the field: that of the user, otherwise that of the stated version.
fn is_required(object: &Object, after: &Node<'_>, ctx: &Context<'_>) -> bool {
    let accepted = schema::accepted_by_definition(object, &after.pointer(), ctx.definitions());
    let version = ctx.platform().karpenter;
    accepted.map_or_else(
        || minors::states(version, "NodePool", "spec/disruption", "required", "consolidateAfter"),
        |accepted| !accepted,
    )
}
