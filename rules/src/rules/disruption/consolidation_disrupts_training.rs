//! Consolidation may evict the running pods of a training pool.
//!
//! # Why
//! `WhenEmptyOrUnderutilized` (also the default) and `Balanced` evict running pods when they fit
//! on fewer or cheaper nodes. A training pod cannot be moved: it starts again at its last
//! checkpoint, and in a distributed run all other workers wait or fail with it. Hours of eight
//! GPUs are lost to save minutes of one.
//!
//! # Fix
//! Use `WhenEmpty`, which only removes nodes whose work is done, or protect every training pod
//! with `karpenter.sh/do-not-disrupt: "true"`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-training}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        expireAfter: Never
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p4d, p5]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 32}
//!    disruption:
//! -    consolidationPolicy: WhenEmptyOrUnderutilized # <-
//! +    consolidationPolicy: WhenEmpty
//!      consolidateAfter: 30m
//!      budgets:
//!        - nodes: "1"
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#consolidation>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::cluster::views::{TRAINING_PROTECTION, TrainingProtection, Workload, training_protection};
use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "consolidation-disrupts-training",
    reads: TRAINING_PROTECTION,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("consolidation_disrupts_training.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (policy, unprotected) = evicting_policy(pool, ctx)?;
    let disruption = pool.disruption();
    let (node, after, budgets) = (
        disruption.get("consolidationPolicy"),
        disruption.get("consolidateAfter"),
        disruption.get("budgets"),
    );
    let how = if node.is_set() { "" } else { " by default" };
    let (title, help) = if budgets.is_set() {
        (
            "consolidate only empty nodes",
            "use `WhenEmpty`, or put `karpenter.sh/do-not-disrupt: \"true\"` on every training pod",
        )
    } else {
        (
            "consolidate only empty nodes, and replace one node at a time",
            "use `WhenEmpty` and write `budgets`, or put `karpenter.sh/do-not-disrupt: \"true\"` on every training pod",
        )
    };
    let fix = Fix::new(title, Safety::Unsafe);
    let fix = if disruption.is_set() {
        let mut fix = fix.set(&node, json!("WhenEmpty"));
        if !after.is_set() {
            // The API server requires it if `disruption` is set.
            fix = fix.set(&after, json!("5m"));
        }
        if budgets.is_set() { fix } else { fix.set(&budgets, json!([{"nodes": "1"}])) }
    } else {
        let whole = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m", "budgets": [{"nodes": "1"}]});
        fix.set(&disruption, whole)
    };
    let name = pool.object().display_name();
    let finding = ctx.report(&node, format!("training pool `{name}` evicts running pods{how} (`{policy}`)"));
    finding.help(help).fix(fix);
    if let Some(workload) = unprotected {
        let object = &workload.object;
        finding.related(object, &object.path(&["metadata", "name"]), "chooses the pool and is not protected");
    }
    None
}

/// The policy with which a pool evicts running pods of training runs, and one of them that is not protected.
fn evicting_policy<'p, 'c>(
    pool: &NodePool<'p>,
    ctx: &Context<'c>,
) -> Option<(&'p str, Option<&'c Workload>)> {
    let disruption = pool.disruption();
    let after = disruption.get("consolidateAfter");
    let never = after.is_unknown() || after.text() == Some("Never");
    if pool.is_static() || never || disruption.is_unknown() || protects_nodes(pool.object()) {
        return None;
    }
    let policy = pool
        .consolidation_policy()
        .filter(|policy| ["WhenEmptyOrUnderutilized", "Balanced"].contains(policy))?;
    let cluster = ctx.cluster();
    let Some((WorkloadClass::Training, _)) = cluster.views().purpose(pool) else { return None };
    // Budgets that never allow a used node to be disrupted have the effect of WhenEmpty.
    if pool.calendar()?.is_always(DisruptionReason::Underutilized, AllowanceState::Zero) {
        return None;
    }
    match training_protection(pool, cluster, ctx.platform()) {
        TrainingProtection::Protected => None,
        TrainingProtection::Unprotected(workload) => Some((policy, Some(workload))),
        TrainingProtection::None => Some((policy, None)),
    }
}

/// Whether this rule reports a pool. Where it has no budgets either, its finding and its fix are about both.
pub(super) fn is_reported(pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    ctx.is_rule_enabled(RULE.id) && evicting_policy(pool, ctx).is_some()
}
