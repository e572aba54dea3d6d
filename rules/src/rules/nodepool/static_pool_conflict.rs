//! A static pool has fields that only a dynamic pool can have.
//!
//! # Why
//! A pool with `replicas` has that many nodes and takes part in no scheduling decision. The API
//! server rejects `weight` on it, and every limit but `nodes`. A consolidation policy and its timer
//! are taken and never looked at.
//!
//! # Fix
//! Remove what does not apply, or remove `replicas` (in a new pool: a stored one cannot change).
//! Static pools need Karpenter's feature gate StaticCapacity.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: base}
//!  spec:
//!    replicas: 3
//! -  weight: 10 # <-
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {nodes: 5}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#specreplicas>

use crate::karpenter::minors;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "static-pool-conflict",
    kinds: &[Kind::NODE_POOL],
    rejected_by: &[Authority::ApiServer],
    depends_on: &[Product::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("static_pool_conflict.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let pool = NodePool::new(object).filter(NodePool::is_static)?;
    // A version without static pools ignores `replicas`, which another rule reports.
    let version = pool.provider().karpenter_version(ctx.platform());
    if !minors::states(version, "NodePool", "spec/replicas", "field", "-") {
        return None;
    }
    let weight = object.path(&["spec", "weight"]);
    if weight.is_set() {
        ctx.report(&weight, "`weight` is not allowed on a static pool (`replicas`)")
            .help("remove `weight`")
            .fix(Fix::new("remove `weight`", Safety::Safe).remove(&weight));
    }
    // The server checks the list as a whole: an empty one is valid.
    for (key, node) in pool.limits().entries() {
        if key == "nodes" || is_placeholder(key) || node.is_null() {
            continue;
        }
        ctx.report(&node, format!("a static pool can only limit `nodes`, not `{}`", ellipsize(key)))
            .help("remove it: the number of nodes is `replicas`")
            .at_key();
    }
    let disruption = pool.disruption();
    let policy = disruption.get("consolidationPolicy");
    let after = disruption.get("consolidateAfter");
    let inert = if policy.text().is_some_and(|p| p != "WhenEmptyOrUnderutilized") {
        &policy
    } else if after.text().is_some_and(|a| !matches!(a, "0s" | "Never")) {
        &after
    } else {
        return None;
    };
    ctx.report(inert, "a static pool is never consolidated, so this has no effect")
        .severity(Severity::Info)
        .help("leave the default; budgets still bound how fast nodes are replaced");
    None
}
