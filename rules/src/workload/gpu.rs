//! Accelerators that containers request.

use crate::facts::quantity::Quantity;
use crate::tree::node::Node;
use crate::workload::mig::is_mig_resource;
use crate::workload::template::Template;

/// Extended resources that Karpenter provisions instance types for:
/// <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>.
pub(crate) const KARPENTER_ACCELERATORS: &[&str] = &[
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
];

/// Whether what a node has of a resource depends only on its instance type, not on its class.
pub(crate) fn is_of_type(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || KARPENTER_ACCELERATORS.contains(&resource)
}

/// All resources that Karpenter provisions, including accelerators.
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

/// The resources that a pod can request on AWS, with the unit of each.
pub const RESOURCES: &[(&str, &str)] = &[
    ("cpu", "processors: `2`, or thousandths as in `500m`"),
    ("memory", "bytes of memory: `16Gi`"),
    ("ephemeral-storage", "bytes on the disk of the node: `100Gi`"),
    ("nvidia.com/gpu", "whole NVIDIA GPUs"),
    ("amd.com/gpu", "whole AMD GPUs"),
    ("aws.amazon.com/neuron", "Inferentia and Trainium devices"),
    ("aws.amazon.com/neuroncore", "cores of Inferentia and Trainium devices"),
    ("habana.ai/gaudi", "Gaudi accelerators"),
    ("vpc.amazonaws.com/efa", "Elastic Fabric Adapters, for traffic between the nodes of a training job"),
    ("vpc.amazonaws.com/pod-eni", "branch network interfaces, for security groups of pods"),
    ("nvidia.com/gpu.shared", "shares of NVIDIA GPUs, as time-slicing renames them"),
    ("nvidia.com/mig-1g.10gb", "MIG slices of an 80 GB GPU: a seventh of the processors, 10 GB"),
    ("nvidia.com/mig-2g.20gb", "MIG slices of an 80 GB GPU: two sevenths of the processors, 20 GB"),
    ("nvidia.com/mig-3g.40gb", "MIG slices of an 80 GB GPU: three sevenths of the processors, 40 GB"),
    ("hugepages-2Mi", "bytes of memory in pages of 2 MiB, which EFA needs"),
    ("hugepages-1Gi", "bytes of memory in pages of 1 GiB"),
];

/// Accelerators, and parts of them, for which Karpenter starts no node: those of the plugins of NVIDIA and Intel, of HAMi (`vgpu`; its
/// `values.yaml`, 2.6) and of Volcano.
const OTHER_ACCELERATORS: [&str; 9] = [
    "nvidia.com/gpu.shared",
    "nvidia.com/pgpu",
    "nvidia.com/vgpu",
    "volcano.sh/gpu-number",
    "volcano.sh/vgpu-number",
    "aws.amazon.com/neurondevice",
    "google.com/tpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
];

/// The beginning of the names of Huawei's devices, which the model follows. Their memory and cores are `-memory` and `-core`.
const ASCEND: &str = "huawei.com/Ascend";

/// Whether a resource is an accelerator or a part of one.
pub fn is_accelerator(resource: &str) -> bool {
    KARPENTER_ACCELERATORS.contains(&resource)
        || is_mig_resource(resource)
        || OTHER_ACCELERATORS.contains(&resource)
        || resource.starts_with(ASCEND) && !resource.ends_with("-memory") && !resource.ends_with("-core")
}

/// Whether a resource is a device of which a server has one process each. A process on Neuron devices or TPUs drives several.
pub(crate) fn has_own_process(resource: &str) -> bool {
    is_accelerator(resource)
        && !is_mig_resource(resource)
        && !resource.starts_with("aws.amazon.com/")
        && resource != "google.com/tpu"
}

/// Whether the API server treats a resource as extended: integers only, and limit equal to request. Names
/// without a domain or under `kubernetes.io` are native.
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
    template.all_containers().flat_map(|container| extended_resources_of(&container)).collect()
}

/// The extended resources that a container requests.
pub(crate) fn extended_resources_of<'a>(container: &Node<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let sides = ["requests", "limits"].map(|side| container.path(&["resources", side]).entries());
    let is_requested =
        |name: &str, amount: &Node<'_>| is_extended(name) && amount.is_set() && !is_zero(amount);
    sides.into_iter().flatten().filter_map(move |(name, amount)| is_requested(name, &amount).then_some(name))
}

/// Whether any container of a template requests an accelerator of a device plugin: an amount of an extended resource.
pub(crate) fn requests_accelerator(template: &Template<'_>) -> bool {
    template.all_containers().any(|container| requests_resource(&container))
}

fn requests_resource(container: &Node<'_>) -> bool {
    ["requests", "limits"].iter().any(|side| {
        let amounts = container.path(&["resources", side]).entries();
        amounts.iter().any(|(name, amount)| is_accelerator(name) && !is_zero(amount))
    })
}

/// Whether a container requests an accelerator, as a resource or through a claim.
pub(crate) fn has_device(container: &Node<'_>) -> bool {
    requests_resource(container) || container.path(&["resources", "claims"]).items().next().is_some()
}

/// Whether the pods of a role or a worker group, which has their `template`, request an accelerator.
pub(crate) fn has_device_in(role: &Node<'_>) -> bool {
    role.path(&["template", "spec", "containers"]).items().any(|container| has_device(&container))
}

/// Whether a template requests an accelerator, as a resource or through a claim.
pub(crate) fn uses_device(template: &Template<'_>) -> bool {
    template.all_containers().any(|container| has_device(&container))
}

fn is_zero(amount: &Node<'_>) -> bool {
    Quantity::at(amount).is_some_and(|q| q.is_zero())
}
