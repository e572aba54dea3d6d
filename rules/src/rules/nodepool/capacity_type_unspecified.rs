//! A pool does not say whether its nodes may be Spot.
//!
//! # Why
//! Without a requirement on `karpenter.sh/capacity-type` both Spot and on-demand are allowed, and
//! Karpenter takes Spot wherever it has some. EC2 takes such nodes back with two minutes' notice. On
//! GPU pools that ends in interrupted inference and lost training steps that nobody chose.
//!
//! # Fix
//! Say what is meant: `[on-demand]`, `[spot]` or both. Pools for training are the business of
//! training-pool-on-spot.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements: # <-
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//! +        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#capacity-type>
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>

use crate::rules::class_evidence::CLASSED_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "capacity-type-unspecified",
    reads: CLASSED_WORKLOADS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("capacity_type_unspecified.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let requirements = pool.requirements();
    let is_specified = pool.facts().capacity_types.is_some();
    if is_specified || pool.is_other_provider() || object.is_partial() || !requirements.is_sequence() {
        return None;
    }
    if pool.starts_no_node() {
        return None;
    }
    // A placeholder may be the requirement.
    let said = |key: Option<&str>| key == Some(CAPACITY_TYPE);
    let may_say = requirements
        .items()
        .any(|r| r.is_unknown() || r.get("key").is_unknown() || said(r.get("key").text()));
    let labels = pool.labels();
    let label = labels.is_unknown()
        || labels.entries().iter().any(|(key, _)| *key == CAPACITY_TYPE || is_placeholder(key));
    if may_say || label {
        return None;
    }
    let purpose = ctx.cluster().views().purpose(pool);
    if purpose.is_some_and(|(class, _)| class == WorkloadClass::Training) {
        return None;
    }
    let gpu = pool.is_gpu_intended();
    let name = object.display_name();
    let message = format!("pool `{name}` does not say which capacity it may use, so Karpenter prefers Spot");
    let finding = ctx.report(&requirements, message);
    finding.help("require `karpenter.sh/capacity-type`: on-demand, spot or both").fix(
        Fix::new("require on-demand; check whether Spot was meant", Safety::Unsafe)
            .append(&requirements, json!({"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}))
            .replaces_nodes(),
    );
    if !gpu {
        finding.severity(Severity::Info);
    }
    None
}
