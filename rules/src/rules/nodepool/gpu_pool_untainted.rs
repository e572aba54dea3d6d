//! A GPU pool has no taint that keeps other pods away.
//!
//! # Why
//! Without a NoSchedule or NoExecute taint every pod of the cluster may land on the pool's nodes.
//! A log shipper or a small web server then keeps a node alive that costs 5 to 100 dollars an
//! hour, and the GPU pods that come later find its CPU and memory taken. Startup taints go away
//! when the node is ready, so they do not count.
//!
//! # Fix
//! Taint the pool with the name of its accelerator resource. On EKS the API server adds the
//! matching toleration to every pod that asks for that resource, so GPU pods need no change;
//! DaemonSets that must run there do.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-inference}
//!  spec:
//!    template:
//!      spec: # <-
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +      taints:
//! +        - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespectaints>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::karpenter::nodepool::accelerator_resource;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-untainted",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_pool_untainted.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let taints = pool.template_spec().get("taints");
    if taints.is_unknown() || taints.items().any(|taint| may_keep_pods_away(&taint)) {
        return None;
    }
    if pool.hardware() != Hardware::Accelerated {
        return None;
    }
    let noun = pool.noun();
    let resource = accelerator_resource(&pool.types()?).unwrap_or("nvidia.com/gpu");
    let name = pool.object().display_name();
    ctx.report(&taints, format!("{noun} `{name}` has no taint that keeps other pods off its nodes"))
        .help(format!("add the taint `{resource}=true:NoSchedule`"))
        .fix(
            Fix::new(
                format!("taint the pool with `{resource}`; check that its DaemonSets tolerate it"),
                Safety::Unsafe,
            )
            .append(&taints, json!({"key": resource, "value": "true", "effect": "NoSchedule"}))
            .replaces_nodes(),
        );
    None
}

/// Whether a taint keeps pods away that do not tolerate it. A placeholder may stand for one that does.
pub(super) fn may_keep_pods_away(taint: &Node<'_>) -> bool {
    let effect = taint.get("effect");
    taint.is_unknown() || effect.is_unknown() || matches!(effect.text(), Some("NoSchedule" | "NoExecute"))
}
