//! Accelerators that containers request.

use crate::facts::quantity::Quantity;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// Extended resources that Karpenter provisions instance types for:
/// <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>.
pub const KARPENTER_ACCELERATORS: &[&str] = &[
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
];

/// All resources that Karpenter knows of instance types, accelerators included.
pub(crate) const INSTANCE_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "vpc.amazonaws.com/efa",
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/PrivateIPv4Address",
    "eks.amazonaws.com/nitro-sandbox",
];

/// Whether a resource is an accelerator or a part of one.
#[must_use]
pub fn is_accelerator(resource: &str) -> bool {
    KARPENTER_ACCELERATORS.contains(&resource)
        || resource.starts_with("nvidia.com/mig-")
        || matches!(
            resource,
            "nvidia.com/gpu.shared"
                | "nvidia.com/pgpu"
                | "aws.amazon.com/neurondevice"
                | "google.com/tpu"
                | "gpu.intel.com/i915"
                | "gpu.intel.com/xe"
        )
}

/// Whether the API server treats a resource as extended: integers only, and limit equal to request. Names
/// without a domain or under `kubernetes.io` are native.
#[must_use]
pub fn is_extended(resource: &str) -> bool {
    match resource.split_once('/') {
        Some((domain, _)) => !domain.contains("kubernetes.io") && !resource.starts_with("requests."),
        None => false,
    }
}

/// Elastic Fabric Adapters: network interfaces that bypass the kernel.
pub(crate) const EFA: &str = "vpc.amazonaws.com/efa";

/// The extended resources that containers of a template request, with repetitions.
pub(crate) fn requested_extended_resources<'a>(template: &Template<'a>) -> Vec<&'a str> {
    let mut out = Vec::new();
    for container in template.all_containers() {
        for side in ["requests", "limits"] {
            let amounts = container.path(&["resources", side]).entries();
            let asked = amounts
                .into_iter()
                .filter(|(name, amount)| is_extended(name) && amount.is_set() && !is_zero(amount));
            out.extend(asked.map(|(name, _)| name));
        }
    }
    out
}

/// Whether any container of a template requests an accelerator; `None` if that depends on a placeholder.
#[must_use]
pub fn requests_accelerator(template: &Template<'_>) -> bool {
    template.all_containers().any(|container| {
        ["requests", "limits"].iter().any(|side| {
            container
                .path(&["resources", side])
                .entries()
                .iter()
                .any(|(name, amount)| is_accelerator(name) && !is_zero(amount))
        })
    })
}

fn is_zero(amount: &Node<'_>) -> bool {
    amount.string_or_number().and_then(|t| Quantity::decode(&t).ok()).is_some_and(|q| q.is_zero())
}
