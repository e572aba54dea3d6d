//! The claims of a pod, and the objects that they name.

use crate::kind::Kind;
use crate::lint::context::Context;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::dra::class_blocks;
use crate::workload::template::Template;

/// The device classes of NVIDIA's driver, old ones included.
pub(super) const NVIDIA_CLASSES: [&str; 6] = [
    "gpu.nvidia.com",
    "mig.nvidia.com",
    "vfio.gpu.nvidia.com",
    "compute-domain-daemon.nvidia.com",
    "compute-domain-default-channel.nvidia.com",
    "imex.nvidia.com",
];

pub(super) fn claims<'a>(template: &Template<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    template.spec.get("resourceClaims").items().filter(Node::is_mapping)
}

/// The field of a claim that names an object, with the kind of that object.
pub(super) fn target<'a>(claim: &Node<'a>) -> Option<(Kind, Node<'a>)> {
    let fields = [
        (Kind::RESOURCE_CLAIM, "resourceClaimName"),
        (Kind::RESOURCE_CLAIM_TEMPLATE, "resourceClaimTemplateName"),
    ];
    fields.into_iter().map(|(kind, field)| (kind, claim.get(field))).find(|(_, node)| node.is_set())
}

/// The object that a claim of a pod names, if the input has exactly one.
pub(super) fn resolve<'i>(owner: &Object, claim: &Node<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let (kind, node) = target(claim)?;
    ctx.partner(kind, owner.namespace_or_default(), node.text()?)
}

/// Whether a claim asks for GPUs of NVIDIA's driver, whole or MIG slices.
pub(super) fn asks_for_gpus(claim: &Object) -> bool {
    let classes = class_blocks(claim);
    classes
        .iter()
        .any(|block| matches!(block.get("deviceClassName").text(), Some("gpu.nvidia.com" | "mig.nvidia.com")))
}

/// Whether a claim asks for devices that containers use: accelerators, by the name of a device class.
pub(super) fn is_of_accelerators(claim: &Object) -> bool {
    let has_sign = |name: &str| {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| matches!(word, "gpu" | "gpus" | "mig" | "neuron" | "tpu" | "gaudi" | "npu" | "xpu"))
    };
    class_blocks(claim).iter().any(|block| block.get("deviceClassName").text().is_some_and(has_sign))
}

/// The claims that the containers of a pod use, by name.
pub(super) fn used<'a>(template: &Template<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    template.all_containers().flat_map(|container| container.path(&["resources", "claims"]).items())
}
