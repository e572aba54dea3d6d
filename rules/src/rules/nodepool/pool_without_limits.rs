//! A NodePool has no limits at all.
//!
//! # Why
//! `spec.limits` is the only ceiling that Karpenter has. Without it a Deployment that is scaled by
//! a broken metric, or a CronJob whose runs pile up, starts nodes until the account's quota ends.
//! A limit costs nothing while it is not reached.
//!
//! # Fix
//! Write a limit on `cpu`, `memory` or `nodes` that is well above what the pool needs on a busy
//! day. GPU pools are the business of gpu-pool-without-limit.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec: # <-
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +  limits: {cpu: 500, memory: 2000Gi}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pool-without-limits",
    docs: docs(include_str!("pool_without_limits.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // In a patch, null or `{}` does not change the limits.
    if object.is_partial() || pool.is_other_provider() || pool.is_static() {
        return None;
    }
    let limits = pool.limits();
    let written = limits.entries().iter().any(|(_, v)| v.is_set());
    if written || limits.is_unknown() || pool.is_gpu_intended() || pool.starts_no_node() {
        return None;
    }
    let name = object.display_name();
    let message = format!("NodePool `{name}` has no limits: nothing but the account's quota bounds it");
    ctx.report(&limits, message)
        .help("add `spec.limits` with `cpu`, `memory` or `nodes`, well above your peak");
    None
}
