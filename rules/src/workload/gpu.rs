//! What containers ask of accelerators.

use crate::facts::quantity::Quantity;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// Extended resources that Karpenter finds on instance types (its documentation, "Accelerators").
pub const KARPENTER_ACCELERATORS: &[&str] = &[
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
];

/// The resources that instance types have for Karpenter, accelerators among them.
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

/// Whether a resource is an accelerator, or a share of one.
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

/// Whether the API server treats a resource as extended: a whole number, limit equal to request.
/// Names under kubernetes.io are native, and so are those without a domain.
#[must_use]
pub fn is_extended(resource: &str) -> bool {
    match resource.split_once('/') {
        Some((domain, _)) => !domain.contains("kubernetes.io") && !resource.starts_with("requests."),
        None => false,
    }
}

/// The network interfaces that bypass the kernel.
pub(crate) const EFA: &str = "vpc.amazonaws.com/efa";

/// The extended resources that containers of the template ask for; one may come several times.
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

/// Whether any container of the template asks for an accelerator: `Some(true)` or `Some(false)`,
/// `None` where a placeholder decides.
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
    amount.string_or_number().and_then(|t| Quantity::parse(&t).ok()).is_some_and(|q| q.is_zero())
}
