//! Pods that run on nodes with accelerators on purpose.

use crate::catalog::{INSTANCE_TYPE, InstanceType, REGION, ZONE, ZONE_ID, index};
use crate::facts::text::mentions;
use crate::tree::node::Node;
use crate::workload::node_labels::{
    LabelReference, LabelUse, names_nodes, referenced_labels, shared_topologies,
};
use crate::workload::template::Template;

/// Words in labels, and in the values of node selectors, that name accelerators.
const WORDS: [&str; 9] =
    ["gpu", "nvidia", "accelerator", "neuron", "gaudi", "cuda", "trainium", "inferentia", "amd.com"];
/// Vendors of accelerators in the labels of Node Feature Discovery, such as `feature.node.kubernetes.io/pci-10de.present`:
/// NVIDIA, AMD, Habana. Amazon's own number stands for its disks and network cards as well.
const PCI_VENDORS: [&str; 3] = ["10de", "1002", "1da3"];

/// Whether the pods run only on nodes with accelerators, by their node selector or a required affinity: a label that names
/// them, a vendor in a label of Node Feature Discovery, or types and families of instances that all have accelerators.
pub(crate) fn requires_gpu_nodes(template: &Template<'_>) -> bool {
    let required = |label: &LabelReference<'_>| label.usage == LabelUse::Required;
    referenced_labels(template).iter().filter(|label| required(label)).any(|label| {
        // The values of a node selector name pools as well.
        let mut selected = label.values.iter().filter(|_| label.selector.is_some());
        names_accelerators(label.key)
            || is_pci_label(label.key)
            || selected.any(|value| value.raw_text().is_some_and(names_accelerators))
            || has_only_gpu_types(label)
    })
}

/// Whether pods that do not state it may run only on nodes with accelerators: they name their nodes, must run beside other pods, or
/// require values that are not known.
pub(crate) fn may_require_gpu_nodes(template: &Template<'_>) -> bool {
    let selector = template.spec.get("nodeSelector");
    let is_near = |key: Node<'_>| !matches!(key.text(), Some(ZONE | ZONE_ID | REGION));
    selector.has_unknown()
        || selector.has_unknown_key()
        || template.spec.get("affinity").is_unknown()
        || template.required_terms().has_unknown()
        || names_nodes(template)
        || shared_topologies(template).any(is_near)
}

fn names_accelerators(text: &str) -> bool {
    mentions(text, &WORDS)
}

fn is_pci_label(key: &str) -> bool {
    let name = key.strip_prefix("feature.node.kubernetes.io/pci-");
    name.is_some_and(|name| name.split(['_', '.']).any(|part| PCI_VENDORS.contains(&part)))
}

/// Whether each value of a label of instances belongs to types with accelerators alone.
fn has_only_gpu_types(label: &LabelReference<'_>) -> bool {
    let key = if label.key == "beta.kubernetes.io/instance-type" { INSTANCE_TYPE } else { label.key };
    let Some(values) = index(key).filter(|_| !label.values.is_empty()) else { return false };
    label.values.iter().all(|value| {
        let types = value.text().and_then(|text| values.with(text));
        types.is_some_and(|types| !types.is_empty() && types.iter().all(InstanceType::is_accelerated))
    })
}
