//! A GPU pool evicts running pods by the default consolidation policy.
//!
//! # Why
//! Without `spec.disruption`, Karpenter consolidates with `WhenEmptyOrUnderutilized` and no delay: as
//! soon as a cheaper way to place the pods appears, it evicts them. A model server then loads tens of
//! gigabytes again, for a saving of cents. If that is intended, set it explicitly, with a delay.
//!
//! # Fix
//! Write `spec.disruption` with the policy that is meant: `WhenEmpty` with some minutes, or
//! `WhenEmptyOrUnderutilized` with a `consolidateAfter` of at least half a minute. Pools for training
//! are consolidation-disrupts-training's.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec: # <-
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 16}
//!    weight: 10
//! +  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#consolidation>
//! - <https://karpenter.sh/docs/concepts/nodepools/#specdisruption>

use crate::facts::duration;
use crate::facts::duration::DurationField;
use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::rules::class_evidence::CLASSED_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "consolidation-defaulted-on-gpu",
    reads: CLASSED_WORKLOADS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("consolidation_defaulted_on_gpu.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let disruption = pool.disruption();
    if pool.is_static() || disruption.is_unknown() || !pool.is_gpu_intended() {
        return None;
    }
    let policy = disruption.get("consolidationPolicy");
    let after = disruption.get("consolidateAfter");
    if policy.is_unknown() || after.is_unknown() || after.text() == Some("Never") {
        return None;
    }
    // A block without `consolidateAfter` is rejected, which is reported separately.
    if disruption.is_set() && !after.is_set() {
        return None;
    }
    let at_once = after
        .text()
        .and_then(|text| duration::parse(DurationField::ConsolidateAfter, text).ok())
        .and_then(|span| span.seconds())
        == Some(0);
    let moves = pool.consolidation_policy() == Some("WhenEmptyOrUnderutilized");
    if !moves || (policy.is_set() && !at_once) || protects_nodes(object) {
        return None;
    }
    let (noun, name) = (pool.noun(), object.display_name());
    if let Some((WorkloadClass::Training, _)) = ctx.cluster().views().purpose(pool) {
        return None;
    }
    if pool.calendar()?.is_always(DisruptionReason::Underutilized, AllowanceState::Zero) {
        return None;
    }
    let fix = Fix::new("consolidate only empty nodes; check whether their pods may move", Safety::Unsafe);
    if !disruption.is_set() {
        ctx.report(
            &disruption,
            format!("{noun} `{name}` has no `consolidationPolicy`: by default Karpenter evicts pods from underutilized nodes"),
        )
        .help("write `disruption` with `WhenEmpty` and `consolidateAfter: 5m`, or what is meant")
        .fix(fix.set(&disruption, json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"})));
        return None;
    }
    let (node, message, help) = if at_once {
        (
            &after,
            format!("{noun} `{name}` evicts running pods as soon as that is a little cheaper"),
            "wait with `consolidateAfter: 30s` or more, or write `WhenEmpty`",
        )
    } else {
        (
            &policy,
            format!("{noun} `{name}` evicts running pods by default"),
            "write the policy that is meant: `WhenEmpty` or `WhenEmptyOrUnderutilized`",
        )
    };
    ctx.report(node, message).severity(Severity::Info).help(help).fix(fix.set(&policy, json!("WhenEmpty")));
    None
}
