//! `limits.nodes` leaves a static NodePool no node to replace one with.
//!
//! # Why
//! Karpenter starts the node that replaces a drifted one before it drains that, and counts both towards
//! `limits.nodes`. Where the limit is `replicas`, no such node is ever started: nodes keep their old image
//! and settings, and nothing says so. A limit below `replicas` also keeps nodes from being started at all.
//!
//! # Fix
//! Let `limits.nodes` be larger than `replicas` by as many nodes as are replaced at a time, or leave it
//! out. Where a capacity reservation has no instance to spare, replace nodes by deleting their NodeClaims.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: base}
//!  spec:
//!    replicas: 3
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -  limits: {nodes: 3} # <-
//! +  limits: {nodes: 4}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#specreplicas>
//! - <https://github.com/aws/karpenter-provider-aws/issues/8873>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "static-pool-without-spare",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("static_pool_without_spare.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let replicas = object.path(&["spec", "replicas"]).int().filter(|replicas| *replicas > 0)?;
    let node = pool.limits().get("nodes");
    // A limit that is no whole number counts down to one (`ReserveNodeCount` of Karpenter's `StateNodePool`).
    let limit = Quantity::at(&node)?.milli() / 1000;
    if limit > i128::from(replicas) || object.is_partial() {
        return None;
    }
    let name = object.display_name();
    let message = if limit < i128::from(replicas) {
        format!("static pool `{name}` has {replicas} replicas, and `limits.nodes` allows {limit} nodes")
    } else {
        format!("`limits.nodes` of static pool `{name}` leaves no node to replace a drifted one with")
    };
    let spare = replicas.saturating_add(1);
    ctx.report(&node, message)
        .help(format!("write {spare} or more: the new node counts before the old one is gone"))
        .fix(
            Fix::new("allow one node more than `replicas`; check that it may cost as much", Safety::Unsafe)
                .set(&node, json!(spare)),
        );
    None
}
