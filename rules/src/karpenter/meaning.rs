//! One-line descriptions of node labels, durations and taint effects, for editors.
//!
//! The labels are those of <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>.

use std::borrow::Cow;

use crate::karpenter::labels::key::{KeyLocation, rejection};
use crate::karpenter::provider::{Provider, is_auto_mode_label, is_documented_in_auto_mode};
use crate::karpenter::requirement::normalise;
use crate::platform::Version;

/// The labels that a requirement can name, those that GPU pools use most first.
pub const LABELS: &[&str] = &[
    "node.kubernetes.io/instance-type",
    "karpenter.sh/capacity-type",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "topology.kubernetes.io/zone",
    "topology.k8s.aws/zone-id",
    "topology.kubernetes.io/region",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    "karpenter.k8s.aws/instance-capability-flex",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/windows-build",
];

/// The labels of [`LABELS`] that a requirement of an object of this kind can name in this version of
/// Karpenter.
pub fn requirement_labels(kind: &str, karpenter: Version) -> impl Iterator<Item = &'static str> {
    let place = match kind {
        "NodeClaim" => KeyLocation::Claim,
        "NodeOverlay" => KeyLocation::Overlay,
        _ => KeyLocation::Pool,
    };
    LABELS.iter().copied().filter(move |key| rejection(key, place, karpenter, true).is_none())
}

/// The labels that a requirement of a NodePool in EKS Auto Mode can name, as far as AWS documents them.
pub fn auto_mode_labels() -> impl Iterator<Item = Cow<'static, str>> {
    let named = LABELS.iter().copied().map(|key| Provider::AutoMode.provider_key(key));
    let left_out = ["karpenter.sh/nodepool", "node.kubernetes.io/windows-build"];
    named.filter(move |key| {
        let is_known = Provider::AutoMode.is_well_known(key) && !left_out.contains(&&**key);
        is_known && (!is_auto_mode_label(key) || is_documented_in_auto_mode(key))
    })
}

/// The description of a node label in one line, including the unit. `None` for labels that neither Karpenter
/// nor EKS Auto Mode sets.
pub fn of_label(key: &str) -> Option<&'static str> {
    let key = normalise(key);
    if let Some(name) = key.strip_prefix("karpenter.k8s.aws/") {
        return of_aws_label(name);
    }
    if let Some(name) = key.strip_prefix("eks.amazonaws.com/").filter(|name| name.starts_with("instance-")) {
        return of_aws_label(name);
    }
    Some(match key {
        "node.kubernetes.io/instance-type" => "the EC2 instance type",
        "karpenter.sh/capacity-type" => {
            "how the instance is bought: `reserved`, `spot` or `on-demand`; Karpenter prefers them in this order"
        }
        "karpenter.sh/nodepool" => "the NodePool that started the node",
        "kubernetes.io/arch" => "the architecture of the processor: `amd64` or `arm64`",
        "kubernetes.io/os" => "the operating system: `linux` or `windows`",
        "kubernetes.io/hostname" => "the name of the node, known only once it exists",
        "topology.kubernetes.io/zone" => {
            "the availability zone, such as `us-east-1a`; the name differs by AWS account"
        }
        "topology.k8s.aws/zone-id" => {
            "the id of the availability zone, such as `use1-az1`: the same in every AWS account"
        }
        "topology.kubernetes.io/region" => "the AWS region",
        "node.kubernetes.io/windows-build" => "the build of Windows",
        "eks.amazonaws.com/compute-type" => "who manages the node: `auto` in EKS Auto Mode",
        "eks.amazonaws.com/nodeclass" => "the NodeClass of EKS Auto Mode that the node was made by",
        _ => return None,
    })
}

fn of_aws_label(name: &str) -> Option<&'static str> {
    Some(match name {
        "capacity-reservation-id" => "the id of the capacity reservation that the instance runs in",
        "capacity-reservation-interruptible" => "whether EC2 may take the reserved instance back",
        "capacity-reservation-type" => "the type of the capacity reservation: `default` or `capacity-block`",
        "instance-accelerator-count" => {
            "how many accelerators other than GPUs (Inferentia, Trainium) the type has"
        }
        "instance-accelerator-manufacturer" => "who makes the accelerators that are not GPUs",
        "instance-accelerator-name" => "the accelerator that is not a GPU, such as `inferentia2`",
        "instance-capability-flex" => {
            "whether the type is a flex type, which has its full processor only most of the time"
        }
        "instance-category" => "the letters that the family begins with, such as `g` or `p`",
        "instance-cpu" => "the number of vCPUs",
        "instance-cpu-manufacturer" => "who makes the processor: `intel`, `amd` or `aws`",
        "instance-cpu-sustained-clock-speed-mhz" => "the clock of the processor under load, in MHz",
        "instance-ebs-bandwidth" => "the most that EBS volumes carry, in megabits a second",
        "instance-encryption-in-transit-supported" => {
            "whether traffic between instances is encrypted by the hardware"
        }
        "instance-family" => "the part of the type before the dot, such as `g6e`",
        "instance-generation" => "the number in the family: 6 for `g6e`",
        "instance-gpu-count" => "the number of GPUs",
        "instance-gpu-manufacturer" => "who makes the GPUs: `nvidia`, `amd` or `habana`",
        "instance-gpu-memory" => "the memory of each GPU, in MiB",
        "instance-gpu-name" => "the GPU, such as `l40s` or `h100`",
        "instance-hypervisor" => "the hypervisor: `nitro`, `xen`, or empty for bare metal",
        "instance-local-nvme" => {
            "the size of the local NVMe disks together, in GB; types without disks lack the label"
        }
        "instance-memory" => "the memory as EC2 states it, in MiB",
        "instance-network-bandwidth" => {
            "the network bandwidth that the type always has, in megabits a second"
        }
        "instance-size" => "the part of the type after the dot, such as `12xlarge`",
        "instance-tenancy" => "whether the hardware is shared: `default` or `dedicated`",
        "placement-group-id" => "the placement group of the instance",
        "placement-group-partition" => "the partition in the placement group",
        "ec2nodeclass" => "the EC2NodeClass of the node",
        _ => return None,
    })
}

/// The effect of a taint on pods that do not tolerate it. `None` for an unknown effect.
pub fn of_taint_effect(effect: &str) -> Option<&'static str> {
    Some(match effect {
        "NoSchedule" => {
            "pods that do not tolerate it are not scheduled to the nodes; those that already run there stay"
        }
        "PreferNoSchedule" => {
            "pods that do not tolerate it go elsewhere if they can; Karpenter starts nodes for them here \
             if nothing else is left"
        }
        "NoExecute" => {
            "pods that do not tolerate it are not scheduled to the nodes, and are evicted from them"
        }
        _ => return None,
    })
}

/// The description of a duration of a NodePool, by the name of its field.
pub fn of_duration(field: &str) -> Option<&'static str> {
    Some(match field {
        "expireAfter" => "Karpenter drains and replaces a node that is this old, whatever the budgets allow",
        "consolidateAfter" => {
            "Karpenter waits so long after the last pod came to a node or left it before it consolidates the node"
        }
        "terminationGracePeriod" => {
            "a node that is being drained is removed after this time, whatever still runs on it or protects it"
        }
        "duration" => "how long each window of the budget lasts",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{LABELS, of_duration, of_label, of_taint_effect, requirement_labels};
    use crate::karpenter::requirement::{WELL_KNOWN_AWS, is_well_known};
    use crate::platform::Version;

    #[test]
    fn every_label_of_karpenter_has_a_meaning() {
        for name in WELL_KNOWN_AWS {
            assert!(of_label(&format!("karpenter.k8s.aws/{name}")).is_some(), "{name}");
        }
        for key in crate::catalog::keys() {
            assert!(of_label(key).is_some(), "{key}");
        }
        assert_eq!(of_label("beta.kubernetes.io/arch"), of_label("kubernetes.io/arch"));
        assert_eq!(
            of_label("eks.amazonaws.com/instance-family"),
            of_label("karpenter.k8s.aws/instance-family")
        );
        for key in ["example.com/team", "karpenter.k8s.aws/instance-pods", "eks.amazonaws.com/nodegroup", ""]
        {
            assert_eq!(of_label(key), None, "{key}");
        }
    }

    #[test]
    fn the_list_has_every_label() {
        for name in WELL_KNOWN_AWS {
            assert!(LABELS.contains(&format!("karpenter.k8s.aws/{name}").as_str()), "{name}");
        }
        for key in crate::catalog::keys() {
            assert!(LABELS.contains(&key), "{key}");
        }
        for key in LABELS {
            assert!(is_well_known(key) && of_label(key).is_some(), "{key}");
        }
    }

    #[test]
    fn versions_and_kinds_have_their_labels() {
        let has = |kind: &str, minor: u32, key: &str| {
            requirement_labels(kind, Version::new(1, minor)).any(|label| label == key)
        };
        assert!(has("NodePool", 9, "karpenter.k8s.aws/instance-tenancy"));
        assert!(!has("NodePool", 8, "karpenter.k8s.aws/instance-tenancy"));
        assert!(
            !has("NodePool", 14, "karpenter.sh/nodepool") && has("NodeOverlay", 14, "karpenter.sh/nodepool")
        );
        assert!(!has("NodeOverlay", 14, "karpenter.k8s.aws/capacity-reservation-id"));
    }

    #[test]
    fn meanings_are_a_line_without_a_full_stop() {
        let labels = WELL_KNOWN_AWS.iter().filter_map(|name| of_label(&format!("karpenter.k8s.aws/{name}")));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"].into_iter().filter_map(of_taint_effect);
        let fields = ["expireAfter", "consolidateAfter", "terminationGracePeriod", "duration"];
        for text in labels.chain(effects).chain(fields.into_iter().filter_map(of_duration)) {
            assert!(!text.ends_with('.') && !text.contains('\n') && text.len() <= 130, "{text}");
        }
    }
}
