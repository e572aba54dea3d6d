//! A limit names a resource that no instance type has.
//!
//! # Why
//! `spec.limits` takes any name. Karpenter adds up what its instance types offer, and a name that
//! none of them offers never counts anything: `gpu: 8` or `nvidia.com/GPU: 8` limits nothing, and
//! the pool grows as if no limit were there.
//!
//! # Fix
//! Write `cpu`, `memory`, `ephemeral-storage`, `pods`, `nodes`, or the full name of the
//! accelerator: `nvidia.com/gpu`, `amd.com/gpu`, `aws.amazon.com/neuron`, `habana.ai/gaudi`.
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
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//! -  limits:
//! -    gpu: 8 # <-
//! +  limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>
//! - <https://karpenter.sh/docs/concepts/scheduling/#accelerators-gpu-resources>
//! - <https://github.com/aws/karpenter-provider-aws/issues/2296>

use crate::karpenter::nodepool::accelerator_resource;
use crate::rules::prelude::*;
use crate::workload::gpu::INSTANCE_RESOURCES;

pub(crate) static RULE: Rule = Rule {
    id: "limit-key-unknown",
    reads: &[Kind::NODE_OVERLAY],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("limit_key_unknown.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // A static pool accepts no such limit, and other providers have other resources.
    if pool.is_static() || pool.is_other_provider() {
        return None;
    }
    let limits = pool.limits();
    for (key, node) in limits.entries() {
        let known = INSTANCE_RESOURCES.contains(&key) || key == "nodes";
        if known || is_placeholder(key) || ctx.cluster().views().may_be_overlaid(key) {
            continue;
        }
        let meant = meant(key, pool);
        let finding =
            ctx.report(&node, format!("no instance type has `{}`, so this limits nothing", ellipsize(key)));
        finding.at_key();
        match meant {
            Some(name) => {
                finding.help(format!("write `{name}`"));
                let target = limits.get(name);
                if target.is_absent() && !node.is_null() {
                    let title = format!("limit `{name}` instead; check what the pool has now");
                    finding.fix(Fix::new(title, Safety::Unsafe).move_to(&node, &target));
                }
            }
            None => {
                finding.help("limit `cpu`, `memory`, `nodes` or an accelerator by its full name");
            }
        }
    }
    None
}

fn meant(key: &str, pool: &NodePool<'_>) -> Option<&'static str> {
    let lower = key.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    if matches!(name, "gpu" | "gpus" | "nvidia-gpu" | "nvidia-gpus") {
        let own = pool.types().and_then(|types| accelerator_resource(&types));
        return match lower.split_once('/') {
            Some((domain, _)) if domain.contains("amd") => Some("amd.com/gpu"),
            Some((domain, _)) if domain.contains("nvidia") => Some("nvidia.com/gpu"),
            Some(_) => None,
            None => Some(own.unwrap_or("nvidia.com/gpu")),
        };
    }
    // `nvidia.com/mig-…` and similar names are not typing errors.
    if lower.contains("mig-") || lower.contains("shared") || lower.starts_with("hugepages-") {
        return None;
    }
    nearest(&lower, INSTANCE_RESOURCES.iter().copied().chain(["nodes"]))
}
