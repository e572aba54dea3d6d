//! The catalogue of EC2 instance types, with the labels and resources that Karpenter gives to their nodes.
//!
//! The rows are data (`instances.csv`, written by `generate.py`, source and date in its header) and are parsed once.
//! [`crate::karpenter::scheduling`] decides what a NodePool admits; this module has the properties of types, the types
//! with a value ([`Index`]), and the known values.

mod accelerator;
mod index;
mod parse;
mod price;
mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, OnceLock};

pub(crate) use accelerator::Accelerator;
pub use index::{LabelValueIndex, index, keys};
pub use price::{ListPrice, cheapest_first, price_list};
pub use set::TypeSet;

/// Label key of the type's name.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Label key of the part of the name before the dot.
pub(crate) const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Label key of the processor architecture.
pub(crate) const ARCH: &str = "kubernetes.io/arch";
/// Label key of the operating system.
pub(crate) const OS: &str = "kubernetes.io/os";
/// Label key of on-demand, spot or reserved.
pub(crate) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Label key of the availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label key of the availability zone's id.
pub(crate) const ZONE_ID: &str = "topology.k8s.aws/zone-id";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
/// Label key of the name of the node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Label key of the tenancy. It is the only label of which Karpenter rejects some values.
pub const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// The GPUs of the largest nodes. Pods with all of them have no other pod with GPUs beside them.
pub(crate) const GPUS_OF_WHOLE_NODE: u32 = 8;

static CATALOGUE: LazyLock<parse::Catalogue> =
    LazyLock::new(|| parse::catalogue(include_str!("instances.csv")));

/// Names to rows.
static BY_NAME: LazyLock<HashMap<&'static str, usize>> =
    LazyLock::new(|| all().iter().enumerate().map(|(row, instance)| (instance.name, row)).collect());

/// One EC2 instance type. Numbers are those of EC2; [`crate::karpenter::scheduling`] subtracts what Karpenter
/// reserves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// For example `g6e.xlarge`.
    pub name: &'static str,
    /// `amd64` or `arm64`.
    pub arch: &'static str,
    /// Virtual processors.
    pub vcpu: u32,
    /// Memory as EC2 states it, in MiB.
    pub memory_mib: u32,
    /// Physical GPUs, as `nvidia.com/gpu`; 0 for fractional types.
    pub(crate) nvidia_gpu: u32,
    /// GPUs, as `amd.com/gpu`.
    pub(crate) amd_gpu: u32,
    /// Devices, as `aws.amazon.com/neuron`.
    pub(crate) neuron: u32,
    /// Cores, as `aws.amazon.com/neuroncore`.
    pub(crate) neuroncore: u32,
    /// Devices, as `habana.ai/gaudi`.
    pub(crate) gaudi: u32,
    /// Maximum number of EFA interfaces, as `vpc.amazonaws.com/efa`.
    pub efa: u32,
    /// Branch interfaces for pods, as `vpc.amazonaws.com/pod-eni`. [`None`] if unknown.
    pub(crate) pod_eni: Option<u32>,
    /// Network interfaces of the default network card.
    pub(crate) enis: u32,
    /// IPv4 addresses on each interface.
    pub(crate) ipv4_per_eni: u32,
    /// Instance store in GB, NVMe or not; 0 without.
    pub instance_store_gb: u32,
    /// GPU memory in MiB of each GPU; 0 without a GPU.
    pub gpu_memory_mib: u32,
    /// Whether EC2 sells it as spot (somewhere).
    pub spot: bool,
    /// The position in [`all`].
    row: u16,
    /// The interfaces of each network card, as `8+7` or `4*16`; `?` if they are not known.
    cards: &'static str,
    /// Letters: `n` for ENA, `e` for Nitro Enclaves, `v` for nested virtualization; `?` if that is not known.
    features: &'static str,
    /// Bit n: offered in region n of [`regions`].
    regions: u64,
    /// The cells of the row in the order of [`parse::COLUMNS`].
    cells: [&'static str; parse::LABEL_COLUMNS],
}

/// The value of a label of nodes of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Is(&'static str),
    /// One of these, chosen at launch.
    OneOf(&'static [&'static str]),
    /// The type never has the label: conflicts with `In`, `Exists` and `Gt`.
    Absent,
    /// The type has the label with an unknown value (zones; some labels of retired types).
    Unknown,
    /// Not a label of instance types: custom keys, nodepool, placement groups.
    Undefined,
}

/// All types, by family and size.
pub fn all() -> &'static [InstanceType] {
    &CATALOGUE.types
}

pub fn regions() -> &'static [&'static str] {
    &CATALOGUE.regions
}

/// The types that are offered in a region; [`None`] for an unknown region.
pub fn offered_in(region: &str) -> Option<&'static TypeSet> {
    // As many as the bits of a type's regions.
    static SETS: [OnceLock<TypeSet>; 64] = [const { OnceLock::new() }; 64];
    let bit = regions().iter().position(|known| *known == region)?;
    let set = SETS.get(bit)?;
    Some(set.get_or_init(|| TypeSet::matching(|t| t.regions & (1 << bit) != 0)))
}

/// The types that are no longer offered in any region.
pub fn retired() -> &'static TypeSet {
    static SET: LazyLock<TypeSet> = LazyLock::new(|| TypeSet::matching(InstanceType::is_retired));
    &SET
}

/// The day on which the catalogue was generated, as `2026-01-31`.
pub fn date() -> &'static str {
    CATALOGUE.date
}

pub fn find(name: &str) -> Option<&'static InstanceType> {
    BY_NAME.get(name).map(|row| &all()[*row])
}

/// Every known value of a label key; [`None`] for keys whose values are not known in advance.
pub fn values(key: &str) -> Option<&'static BTreeSet<&'static str>> {
    static CONSTANT: LazyLock<HashMap<&'static str, BTreeSet<&'static str>>> = LazyLock::new(|| {
        HashMap::from([
            (CAPACITY_TYPE, BTreeSet::from(["on-demand", "spot", "reserved"])),
            (TENANCY, BTreeSet::from(["default", "dedicated"])),
            (OS, BTreeSet::from(["linux", "windows"])),
            (REGION, regions().iter().copied().collect()),
        ])
    });
    index(key).map(LabelValueIndex::values).or_else(|| CONSTANT.get(key))
}

impl InstanceType {
    /// The part of the name before the dot.
    pub fn family(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(family, _)| family)
    }

    /// The part of the name after the dot.
    pub(crate) fn size(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(_, size)| size)
    }

    /// The letters that the name starts with: `gr` for gr6, `u` for u-6tb1.
    pub(crate) fn category(&self) -> &'static str {
        let end = self.name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(self.name.len());
        &self.name[..end]
    }

    /// The digits after the category; high memory types write the memory between: u-6tb1 is generation 1.
    pub(crate) fn generation(&self) -> &'static str {
        let rest = &self.name[self.category().len()..];
        let rest = match rest.strip_prefix('-').and_then(|rest| rest.split_once("tb")) {
            Some((_, rest)) => rest,
            None => rest,
        };
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        &rest[..end]
    }

    /// The label of a type for a key, on Linux and without capacity reservations.
    pub fn label(&self, key: &str) -> Label {
        match key {
            OS => Label::Is("linux"),
            CAPACITY_TYPE => Label::OneOf(&["on-demand", "spot"]),
            TENANCY => Label::OneOf(&["default", "dedicated"]),
            ZONE | ZONE_ID | REGION => Label::Unknown,
            "node.kubernetes.io/windows-build"
            | "karpenter.k8s.aws/capacity-reservation-id"
            | "karpenter.k8s.aws/capacity-reservation-type"
            | "karpenter.k8s.aws/capacity-reservation-interruptible" => Label::Absent,
            _ => index::source(key).map_or(Label::Undefined, |source| source.of(self)),
        }
    }

    /// The capacity of a node of this type, in thousandths, with Karpenter's defaults: memory without the estimated
    /// overhead of the hypervisor, pods by network interfaces, 20 GiB of disk. 0 for other resources.
    pub(crate) fn capacity(&self, resource: &str) -> i128 {
        let whole = match resource {
            "cpu" => i128::from(self.vcpu),
            "memory" => i128::from(self.memory_capacity_mib(75_000)) << 20,
            "pods" => i128::from(self.eni_pods(0)),
            "ephemeral-storage" => 20 << 30,
            _ => i128::from(self.devices(resource)),
        };
        whole * 1000
    }

    /// Whether one node of this type stays within the limits of a pool, in thousandths. A limit on nodes excludes no type.
    pub fn is_within(&self, limits: &[(String, i128)]) -> bool {
        limits.iter().all(|(resource, limit)| self.capacity(resource) <= *limit)
    }

    /// Number of devices of a resource; 0 for other resources.
    pub fn devices(&self, resource: &str) -> u32 {
        match resource {
            "nvidia.com/gpu" => self.nvidia_gpu,
            "amd.com/gpu" => self.amd_gpu,
            "aws.amazon.com/neuron" => self.neuron,
            "aws.amazon.com/neuroncore" => self.neuroncore,
            "habana.ai/gaudi" => self.gaudi,
            "vpc.amazonaws.com/efa" => self.efa,
            "vpc.amazonaws.com/pod-eni" => self.pod_eni.unwrap_or(0),
            _ => 0,
        }
    }

    /// Number of accelerators; a type has those of one kind.
    pub(crate) fn accelerators(&self) -> u32 {
        self.nvidia_gpu.max(self.neuron).max(self.amd_gpu).max(self.gaudi)
    }

    /// The memory that Karpenter expects on a node, in MiB, for `VM_MEMORY_OVERHEAD_PERCENT` in millionths.
    pub(crate) fn memory_capacity_mib(&self, overhead: u32) -> u32 {
        // arm64 reserves 64 MiB for CMA.
        let memory = u64::from(if self.arch == "arm64" {
            self.memory_mib.saturating_sub(64)
        } else {
            self.memory_mib
        });
        let lost = (memory * u64::from(overhead)).div_ceil(1_000_000);
        u32::try_from(memory.saturating_sub(lost)).unwrap_or(u32::MAX)
    }

    /// Number of pods that the network interfaces support, without the reserved interfaces (`RESERVED_ENIS`).
    pub(crate) fn eni_pods(&self, reserved: u32) -> u32 {
        let enis = self.enis.saturating_sub(reserved);
        if enis == 0 { 0 } else { enis * self.ipv4_per_eni.saturating_sub(1) + 2 }
    }

    /// The most interfaces of each network card. Empty if they are not known.
    pub(crate) fn network_cards(&self) -> Vec<u32> {
        let run = |text: &str| {
            let (most, times) = text.split_once('*').unwrap_or((text, "1"));
            Some(std::iter::repeat_n(most.parse().ok()?, times.parse().ok()?))
        };
        self.cards.split('+').filter_map(run).flatten().collect()
    }

    /// Whether the type has the Elastic Network Adapter.
    pub(crate) fn has_ena(&self) -> bool {
        self.features.contains('n')
    }

    /// Whether instances of the type can have Nitro Enclaves.
    pub(crate) fn has_enclaves(&self) -> bool {
        self.features.contains('e')
    }

    /// Whether virtual machines can run in instances of the type.
    pub(crate) fn nests_machines(&self) -> bool {
        self.features.contains('v')
    }

    /// Whether the type is offered in a region; [`None`] for an unknown region.
    pub fn offered_in(&self, region: &str) -> Option<bool> {
        offered_in(region).map(|types| types.contains(self))
    }

    /// Whether the type is no longer offered in any region; some of its labels are [`Label::Unknown`].
    pub fn is_retired(&self) -> bool {
        self.regions == 0
    }

    /// Whether the type has a GPU, a fraction of one, or another machine learning accelerator.
    pub fn is_accelerated(&self) -> bool {
        ["karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-accelerator-name"]
            .iter()
            .any(|key| self.label(key) != Label::Absent)
    }

    pub(crate) fn is_metal(&self) -> bool {
        self.size().contains("metal")
    }

    /// The position in [`all`].
    pub(crate) fn index(&self) -> usize {
        usize::from(self.row)
    }
}
