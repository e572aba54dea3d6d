//! A GPU pool admits accelerators of more than one vendor.
//!
//! # Why
//! A pod asks for `nvidia.com/gpu` or `amd.com/gpu`, never for either. In a pool that says nothing
//! about the vendor, a pod that only tolerates the taint can make Karpenter start the cheapest
//! machine, which may be a g4ad with an AMD card, on an image with NVIDIA's drivers. EC2 no longer lists g4ad
//! and dl1; accounts may still have them, and others may come.
//!
//! # Fix
//! Require `karpenter.k8s.aws/instance-gpu-manufacturer In [nvidia]`, or name the families.
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
//!          - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +        - key: karpenter.k8s.aws/instance-gpu-manufacturer
//! +          operator: In
//! +          values: [nvidia]
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#accelerators-gpu-resources>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use crate::catalog::Accelerator;
use crate::karpenter::nodepool::hardware;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-mixed-vendors",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_pool_mixed_vendors.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::NodePool)
};

const VENDOR: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // EC2 lists no types of the other vendors today. An account may still have them, and others may come.
    let types = pool.admitted_types()?;
    if hardware(&types) != Hardware::Accelerated || pool.requirement(VENDOR).is_some() {
        return None;
    }
    let others = types.and(&Accelerator::Amd.types().or(Accelerator::Gaudi.types()));
    let first = others.names().next()?;
    // A type that is named explicitly is deliberate.
    if types.is_disjoint(Accelerator::Nvidia.types()) || super::names_one_of(pool, &others) {
        return None;
    }
    let key = if pool.is_auto_mode() { "eks.amazonaws.com/instance-gpu-manufacturer" } else { VENDOR };
    let requirements = pool.requirements();
    ctx.report(&requirements, format!("the GPU pool admits NVIDIA's types and others, such as {first}"))
        .help(format!("require `{key} In [nvidia]`, or name the families"))
        .fix(
            Fix::new("require nvidia; check that nothing needs the others", Safety::Unsafe)
                .append(&requirements, json!({"key": key, "operator": "In", "values": ["nvidia"]}))
                .replaces_nodes(),
        );
    None
}
