//! A GPU pool admits both processor architectures.
//!
//! # Why
//! Most CUDA images are built for amd64 alone. The cheapest GPU instances, g5g, are arm64. A pool
//! that says nothing about the architecture takes them first, and a pod that was built for amd64
//! ends in `exec format error` on a node that is paid for.
//!
//! # Fix
//! Require `kubernetes.io/arch In [amd64]`. If the images are built for both, say so: list both
//! architectures, and the rule is quiet.
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
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g5g]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://docs.aws.amazon.com/dlami/latest/devguide/gpu.html>

use crate::catalog;
use crate::catalog::ARCH;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-arch-unpinned",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_pool_arch_unpinned.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // A requirement on the architecture is a deliberate choice, even if it allows both.
    if pool.hardware() != Hardware::Accelerated || pool.requirement(ARCH).is_some() {
        return None;
    }
    let types = pool.types()?;
    let index = catalog::index(ARCH)?;
    let some = |arch: &str| {
        let with = index.with(arch)?.and(&types);
        with.names().next()
    };
    let (Some(arm), Some(_)) = (some("arm64"), some("amd64")) else { return None };
    let requirements = pool.requirements();
    ctx.report(
        &requirements,
        format!("the {} admits arm64 machines, such as {arm}, next to amd64", pool.noun()),
    )
    .help("require `kubernetes.io/arch In [amd64]`, or list both if the images are built for both")
    .fix(
        Fix::new("require amd64; check that no image is for arm64 alone", Safety::Unsafe)
            .append(&requirements, json!({"key": ARCH, "operator": "In", "values": ["amd64"]}))
            .replaces_nodes(),
    );
    None
}
