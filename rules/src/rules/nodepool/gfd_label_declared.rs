//! A pool declares a label that GPU feature discovery sets itself.
//!
//! # Why
//! GPU feature discovery asks the driver and writes `nvidia.com/gpu.product`, `.memory`, `.count` and
//! their kin on the node, over whatever the pool declared. Karpenter plans with the declared value: if
//! it is not to the letter what the driver says (`Tesla-T4`, not `NVIDIA-T4`), a pod that selects it
//! gets a new node, the node is relabelled, the pod does not fit, and Karpenter starts the next one.
//! A pod that selects the real value never gets a node at all.
//!
//! # Fix
//! Take the label out and select GPUs by what Karpenter knows beforehand, such as
//! `karpenter.k8s.aws/instance-gpu-name`. If pods need the label, declare exactly what the driver says.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//! -    metadata:
//! -      labels:
//! -        nvidia.com/gpu.product: NVIDIA-T4 # <-
//! +    metadata: {labels: {nvidia.com/gpu.product: Tesla-T4}}
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g4dn]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md>
//! - <https://github.com/METR/hawk/issues/1486>

use std::collections::BTreeSet;

use crate::catalog::Label;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gfd-label-declared",
    kinds: &[Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gfd_label_declared.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

/// The labels with which the driver describes the GPUs. Not included are those that users set to configure
/// NVIDIA's components (`mig.config`, `device-plugin.config`, `gpu.deploy.…`), and `gpu.present`, which is
/// always `true`.
const FOUND: [&str; 16] = [
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver.major",
    "nvidia.com/cuda.runtime-version.full",
    "nvidia.com/cuda.runtime-version.major",
    "nvidia.com/cuda.runtime.major",
    "nvidia.com/gpu.compute.major",
    "nvidia.com/gpu.compute.minor",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/mig.capable",
    "nvidia.com/mig.strategy",
];

/// The driver's names of the GPUs of EC2, with dashes for spaces, by Karpenter's name.
const PRODUCTS: [(&str, &str); 6] = [
    ("a10g", "NVIDIA-A10G"),
    ("h100", "NVIDIA-H100-80GB-HBM3"),
    ("l4", "NVIDIA-L4"),
    ("l40s", "NVIDIA-L40S"),
    ("t4", "Tesla-T4"),
    ("t4g", "NVIDIA-T4G"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (pool, list) = (NodePool::new(object)?, ctx.requirements()?);
    if list.provider == Provider::Other {
        return None;
    }
    for (key, value) in pool.labels().entries() {
        if FOUND.contains(&key) {
            declared(&pool, key, &value, &value, ctx);
        }
    }
    for item in list.items() {
        let Some(key) = item.key().filter(|key| FOUND.contains(key)) else { continue };
        // A single value is declared as a label; no node can meet any other requirement as intended.
        let mut values = item.values().items();
        match (item.operator(), values.next(), values.next()) {
            (Some(Operator::In), Some(value), None) => {
                declared(&pool, key, &item.node.get("key"), &value, ctx);
            }
            (Some(Operator::DoesNotExist) | None, _, _) => {}
            _ => {
                let message = format!("`{key}` is written by GPU feature discovery, so this chooses nothing");
                ctx.report(&item.node.get("key"), message).help(
                    "require `karpenter.k8s.aws/instance-gpu-name` or another label of Karpenter instead",
                );
            }
        }
    }
    None
}

fn declared(pool: &NodePool<'_>, key: &str, node: &Node<'_>, value: &Node<'_>, ctx: &mut Context<'_>) {
    let Some(text) = value.text() else { return };
    let real = pool.types().and_then(|types| real(key, &types));
    // A name may have a suffix: `-SHARED` if GPUs are shared.
    let is_real = |real: &str| {
        let rest = text.strip_prefix(real);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if real.as_deref().is_some_and(is_real) {
        return;
    }
    let finding =
        ctx.report(node, format!("GPU feature discovery writes `{key}` itself, over what the pool says"));
    match real {
        Some(real) => {
            let title = format!("write `{real}`; check which pods select the label");
            finding
                .help(format!("on these types it writes `{real}`: write that, or take it out"))
                .fix(Fix::new(title, Safety::Unsafe).set(value, json!(real)).replaces_nodes());
        }
        None => {
            finding.help("take it out; pods select `karpenter.k8s.aws/instance-gpu-name`");
        }
    }
}

/// The value that GPU feature discovery sets on nodes of these types, if it is known and they have one value.
fn real(key: &str, types: &TypeSet) -> Option<String> {
    let one = |name: &str| -> Option<&'static str> {
        let all: Option<BTreeSet<&'static str>> = types
            .iter()
            .map(|t| match t.label(name) {
                Label::Is(value) => Some(value),
                _ => None,
            })
            .collect();
        let all = all?;
        (all.len() == 1).then(|| all.first().copied())?
    };
    let gpu = one("karpenter.k8s.aws/instance-gpu-name")?;
    let product = PRODUCTS.iter().find(|(name, _)| *name == gpu)?.1;
    // A fractional GPU has another name.
    if types.iter().any(|t| t.nvidia_gpu == 0) {
        return None;
    }
    match key {
        "nvidia.com/gpu.product" => Some(product.to_owned()),
        "nvidia.com/gpu.count" => one("karpenter.k8s.aws/instance-gpu-count").map(str::to_owned),
        _ => None,
    }
}
