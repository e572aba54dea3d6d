//! A GPU pool admits instance types with fractional GPUs.
//!
//! # Why
//! The g6f and gr6f types have a part of an L4. Karpenter counts them with 0 GPUs, so a pod that asks
//! for `nvidia.com/gpu` never makes it start one, while any pod without such a wish that tolerates
//! the pool's taint may.
//!
//! # Fix
//! Require `karpenter.k8s.aws/instance-gpu-count Gt 0`. If the shares are meant, name the families,
//! and give them capacity with a NodeOverlay.
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
//!          - {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/instance-types/>
//! - <https://github.com/aws/karpenter-provider-aws/issues/8324>

use crate::catalog;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-fractional-gpus",
    reads: &[Kind::NODE_OVERLAY],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_pool_fractional_gpus.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::NodePool)
};

const COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if pool.is_auto_mode() || pool.hardware() != Hardware::Accelerated {
        return None;
    }
    let types = pool.types()?;
    let none = catalog::index(COUNT).and_then(|index| index.with("0"))?;
    let shares = none.and(&types);
    let first = shares.names().next()?;
    // A pool with only fractional GPUs is deliberate, and so are types that are named explicitly.
    if types.is_subset(&shares) || super::names_one_of(pool, &shares) {
        return None;
    }
    if ctx.cluster().views().may_be_overlaid("nvidia.com/gpu") {
        return None;
    }
    let requirements = pool.requirements();
    let message = format!("the pool admits fractional-GPU types such as {first}, which report 0 GPUs");
    ctx.report(&requirements, message)
        .help(format!("require `{COUNT} Gt 0`, or name the family if it is meant"))
        .fix(
            Fix::new("require whole GPUs; check that nothing runs on shares", Safety::Unsafe)
                .append(&requirements, json!({"key": COUNT, "operator": "Gt", "values": ["0"]}))
                .replaces_nodes(),
        );
    None
}
