//! A GPU pool admits machines of both processor architectures.
//!
//! # Why
//!
//! Most CUDA images are built for amd64 alone. The cheapest GPU instances, g5g, are arm64. A pool
//! that says nothing about the architecture takes them first, and a pod that was built for amd64
//! ends in `exec format error` on a node that is paid for.
//!
//! # Fix
//!
//! Require `kubernetes.io/arch In [amd64]`. If the images are built for both, say so: list both
//! architectures, and the rule is quiet.
//!
//! # Bad
//!
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: gpu
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!       requirements: # <-
//!         - key: karpenter.k8s.aws/instance-family
//!           operator: In
//!           values: [g5, g5g]
//!         - key: karpenter.sh/capacity-type
//!           operator: In
//!           values: [on-demand]
//!       taints:
//!         - key: nvidia.com/gpu
//!           value: "true"
//!           effect: NoSchedule
//!   limits:
//!     nvidia.com/gpu: 8
//!   disruption:
//!     consolidationPolicy: WhenEmpty
//!     consolidateAfter: 5m
//! ```
//!
//! # Good
//!
//! ```yaml,fixed
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: gpu
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!       requirements:
//!         - key: karpenter.k8s.aws/instance-family
//!           operator: In
//!           values: [g5, g5g]
//!         - key: karpenter.sh/capacity-type
//!           operator: In
//!           values: [on-demand]
//!         - key: kubernetes.io/arch
//!           operator: In
//!           values: [amd64]
//!       taints:
//!         - key: nvidia.com/gpu
//!           value: "true"
//!           effect: NoSchedule
//!   limits:
//!     nvidia.com/gpu: 8
//!   disruption:
//!     consolidationPolicy: WhenEmpty
//!     consolidateAfter: 5m
//! ```
//!
//! # References
//!
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://docs.aws.amazon.com/dlami/latest/devguide/gpu.html>

use serde_json::json;

use crate::catalog;
use crate::karpenter::nodepool::{Hardware, NodePool, hardware};
use crate::kind::Kind;
use crate::lint::finding::Severity;
use crate::lint::fix::{Fix, Safety};
use crate::lint::rule::{Check, Context, Group, Rule, docs};
use crate::object::Object;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-arch-unpinned",
    group: Group::NodePool,
    severity: Severity::Warning,
    since: "0.1.0",
    kinds: &[Kind::NODE_POOL],
    reads: &[],
    params: &[],
    rejected_by: &[],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_pool_arch_unpinned.rs")),
    check: Check::Object(check),
};

const ARCH: &str = "kubernetes.io/arch";

fn check(object: &Object, ctx: &mut Context<'_>) {
    let Some(pool) = NodePool::new(object) else {
        return;
    };
    let Some(types) = pool.types() else {
        return;
    };
    // Whoever names the architecture has thought of it, both included.
    if hardware(&types) != Hardware::Accelerated || pool.requirement(ARCH).is_some() {
        return;
    }
    let Some(index) = catalog::index(ARCH) else {
        return;
    };
    let some = |arch: &str| {
        let with = index.with(arch)?.and(&types);
        with.names().next()
    };
    let (Some(arm), Some(_)) = (some("arm64"), some("amd64")) else {
        return;
    };
    let requirements = pool.requirements();
    ctx.report(&requirements, format!("the GPU pool admits arm64 machines, such as {arm}, next to amd64"))
        .help("require `kubernetes.io/arch In [amd64]`, or list both if the images are built for both")
        .fix(
            Fix::new("require amd64; check that no image is for arm64 alone", Safety::Unsafe)
                .append(&requirements, json!({"key": ARCH, "operator": "In", "values": ["amd64"]}))
                .replaces_nodes(),
        );
}
