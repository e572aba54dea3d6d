//! A GPU pool has no limit on its accelerators.
//!
//! # Why
//! Karpenter starts a node for every pod that fits the pool. Without a limit on accelerators the
//! only ceiling is the account's quota: an autoscaler that reads a broken metric, or a Job with
//! one zero too many, buys 8-GPU machines at 30 to 100 dollars an hour until somebody looks. CPU
//! and memory limits count something else, and a limit on `nodes` counts a small and a large
//! machine alike.
//!
//! # Fix
//! Write under `spec.limits` how many accelerators the pool may have in all, by the name of the
//! resource that pods ask for. gpulint cannot guess the number.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-inference}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6e]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//! -  limits: # <-
//! -    cpu: 1000
//! +  limits: {nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::karpenter::nodepool::hardware;
use crate::rules::prelude::*;
use crate::tree::placeholder::is_placeholder;
use crate::workload::gpu::KARPENTER_ACCELERATORS;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-without-limit",
    docs: docs(include_str!("gpu_pool_without_limit.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // The size of a static pool is fixed by its replicas.
    if pool.is_other_provider() || pool.is_static() {
        return None;
    }
    let resources = counted(pool);
    let &resource = resources.first()?;
    let limits = pool.limits();
    let entries = limits.entries();
    if limits.is_unknown() || entries.iter().any(|(key, _)| is_placeholder(key)) {
        return None;
    }
    if resources.iter().any(|r| limits.get(r).is_set()) {
        return None;
    }
    let name = object.display_name();
    let by_nodes = limits.get("nodes").is_set();
    let finding =
        ctx.report(&limits.get(resource), format!("GPU pool `{name}` has no limit on `{resource}`"));
    if by_nodes {
        finding
            .severity(Severity::Info)
            .help(format!("`nodes` counts machines of any size alike; add a limit on `{resource}`"));
    } else {
        finding.help(format!(
            "add `{resource}` to `spec.limits`, or a runaway autoscaler buys all that the quota allows"
        ));
    }
    None
}

/// The accelerator resources that can limit the pool, the most common first. Empty if the pool is not
/// intended for accelerators.
fn counted(pool: &NodePool<'_>) -> Vec<&'static str> {
    if let Some(types) = pool.types()
        && hardware(&types) == Hardware::Accelerated
    {
        let mut counts: Vec<(usize, &'static str)> = KARPENTER_ACCELERATORS
            .iter()
            .map(|r| (types.iter().filter(|t| t.devices(r) > 0).count(), *r))
            .filter(|(count, _)| *count > 0)
            .collect();
        counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        return counts.into_iter().map(|(_, resource)| resource).collect();
    }
    let tainted: Vec<&str> =
        pool.template_spec().get("taints").items().filter_map(|t| t.get("key").text()).collect();
    let named = |r: &&'static str| tainted.contains(r);
    let Some(first) = KARPENTER_ACCELERATORS.iter().copied().find(|r| named(r)) else {
        return Vec::new();
    };
    // The types are not known for sure: a limit on any accelerator is sufficient.
    let others = KARPENTER_ACCELERATORS.iter().copied();
    std::iter::once(first).chain(others.filter(|r| *r != first)).collect()
}
