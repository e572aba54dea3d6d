//! Who makes the nodes of a NodePool, and which labels these nodes have.

use std::borrow::Cow;

use crate::karpenter::requirement::{is_well_known, normalise};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::{Platform, Version};
use crate::tree::node::Node;

const AUTO_MODE_DOMAIN: &str = "eks.amazonaws.com/";
const AWS_INSTANCE: &str = "karpenter.k8s.aws/instance-";
const AUTO_MODE_INSTANCE: &str = "eks.amazonaws.com/instance-";

/// The names after `eks.amazonaws.com/instance-` that AWS documents for requirements of pools in EKS Auto Mode:
/// <https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html#auto-supported-labels>.
const AUTO_MODE_LABELS: [&str; 16] = [
    "category",
    "cpu",
    "cpu-manufacturer",
    "ebs-bandwidth",
    "encryption-in-transit-supported",
    "family",
    "generation",
    "gpu-count",
    "gpu-manufacturer",
    "gpu-memory",
    "gpu-name",
    "hypervisor",
    "local-nvme",
    "memory",
    "network-bandwidth",
    "size",
];

/// The names after `eks.amazonaws.com/` of labels that EKS gives to nodes of managed node groups alone.
const NODE_GROUP_LABELS: [&str; 5] =
    ["capacityType", "nodegroup", "nodegroup-image", "sourceLaunchTemplateId", "sourceLaunchTemplateVersion"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Karpenter with the AWS provider.
    #[default]
    Aws,
    /// EKS Auto Mode, whose nodes have other labels.
    AutoMode,
    Other,
}

impl Provider {
    /// The provider of the nodes of a NodePool or NodeClaim.
    pub(crate) fn of_object(object: &Object) -> Provider {
        let spec = object.get("spec");
        let template = spec.path(&["template", "spec"]);
        let spec = if object.is(Kind::NODE_POOL) { template } else { spec };
        Provider::of_group(&spec.path(&["nodeClassRef", "group"]))
    }

    /// The provider that the API group at a node belongs to. An absent group belongs to AWS.
    pub(crate) fn of_group(group: &Node<'_>) -> Provider {
        Provider::of_group_name(group.text().unwrap_or_default())
    }

    /// The provider that an API group of node classes belongs to; the empty text counts as that of AWS.
    pub fn of_group_name(group: &str) -> Provider {
        // A version in the group is reported by another rule and is ignored here.
        match group.split('/').next() {
            None | Some("" | "karpenter.k8s.aws") => Provider::Aws,
            Some("eks.amazonaws.com") => Provider::AutoMode,
            Some(_) => Provider::Other,
        }
    }

    /// The provider whose nodes a pod means that asks for a label.
    pub fn naming(key: &str) -> Provider {
        if is_auto_mode_label(key) { Provider::AutoMode } else { Provider::Aws }
    }

    /// Whether nodes can have a label, given its normalised key, although their pool does not name it.
    pub(crate) fn is_well_known(self, key: &str) -> bool {
        match self {
            Provider::AutoMode if key.starts_with("karpenter.k8s.aws/") => false,
            Provider::AutoMode => is_auto_mode_label(key) || is_well_known(key),
            Provider::Aws | Provider::Other => is_well_known(key),
        }
    }

    /// The name of a label in the catalogue: deprecated names are replaced, and instance labels of EKS Auto
    /// Mode are renamed to those of Karpenter.
    pub fn catalogue_key(self, key: &str) -> Cow<'_, str> {
        match key.strip_prefix(AUTO_MODE_INSTANCE) {
            Some(rest) if self == Provider::AutoMode => Cow::Owned(format!("{AWS_INSTANCE}{rest}")),
            _ => Cow::Borrowed(normalise(key)),
        }
    }

    /// The name under which this provider has one of Karpenter's instance labels.
    pub(crate) fn provider_key(self, key: &str) -> Cow<'_, str> {
        match key.strip_prefix(AWS_INSTANCE) {
            Some(rest) if self == Provider::AutoMode => Cow::Owned(format!("{AUTO_MODE_INSTANCE}{rest}")),
            _ => Cow::Borrowed(key),
        }
    }

    /// The version of Karpenter whose rules apply. The configured version is that of the AWS provider. EKS
    /// Auto Mode and other providers have their own version numbers, so the newest version is assumed for
    /// them.
    pub(crate) fn karpenter_version(self, platform: &Platform) -> Version {
        match self {
            Provider::Aws => platform.karpenter,
            Provider::AutoMode | Provider::Other => platform.karpenter.max(Platform::default().karpenter),
        }
    }
}

/// Whether a label is one that nodes of EKS Auto Mode have or may have, and no label of a managed node group.
pub(crate) fn is_auto_mode_label(key: &str) -> bool {
    key.starts_with(AUTO_MODE_DOMAIN) && !is_node_group_label(key)
}

/// Whether EKS gives a label to nodes of managed node groups alone.
pub(crate) fn is_node_group_label(key: &str) -> bool {
    key.strip_prefix(AUTO_MODE_DOMAIN).is_some_and(|name| NODE_GROUP_LABELS.contains(&name))
}

/// Whether only nodes that Karpenter starts have a label.
pub(crate) fn is_karpenter_label(key: &str) -> bool {
    let domain = normalise(key).split_once('/').map_or("", |(domain, _)| domain);
    matches!(domain, "karpenter.sh" | "karpenter.k8s.aws") || is_auto_mode_label(key)
}

/// Whether a label of the domain of EKS Auto Mode is one that AWS documents for its nodes, besides those of the class.
pub(crate) fn is_documented_in_auto_mode(key: &str) -> bool {
    key.strip_prefix(AUTO_MODE_INSTANCE).is_some_and(|name| AUTO_MODE_LABELS.binary_search(&name).is_ok())
}

/// Whether no provider gives its nodes a label, so that only pools and people do.
pub(crate) fn is_custom(key: &str) -> bool {
    !is_well_known(key) && !is_auto_mode_label(key)
}

#[cfg(test)]
mod tests {
    use super::{AUTO_MODE_LABELS, Provider, is_custom, is_documented_in_auto_mode};

    #[test]
    fn labels_belong_to_the_provider_of_the_nodes() {
        assert!(AUTO_MODE_LABELS.is_sorted());
        // Whether a node of Karpenter and one of Auto Mode can have it, and whether it belongs to neither.
        for (key, aws, auto, custom) in [
            ("karpenter.k8s.aws/instance-family", true, false, false),
            ("eks.amazonaws.com/instance-family", false, true, false),
            ("eks.amazonaws.com/instance-accelerator-count", false, true, false),
            ("eks.amazonaws.com/compute-type", false, true, false),
            ("eks.amazonaws.com/nodegroup", false, false, true),
            ("node.kubernetes.io/instance-type", true, true, false),
            ("karpenter.sh/capacity-type", true, true, false),
            ("topology.kubernetes.io/zone", true, true, false),
            ("example.com/team", false, false, true),
        ] {
            let known = [Provider::Aws, Provider::AutoMode].map(|provider| provider.is_well_known(key));
            assert_eq!((known, is_custom(key)), ([aws, auto], custom), "{key}");
        }
        assert!(is_documented_in_auto_mode("eks.amazonaws.com/instance-gpu-name"));
        assert!(!is_documented_in_auto_mode("eks.amazonaws.com/instance-tenancy"));
    }
}
