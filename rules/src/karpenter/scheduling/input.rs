//! The input of the scheduler: pods, NodePools and node classes as plain data.
//!
//! Quantities are in thousandths (`1` cpu is 1000, `1Ki` of memory 1,024,000), so that comparisons are exact.
//! The caller reads the manifests and applies the defaults of the API server.

use std::borrow::Cow;
use std::collections::BTreeMap;

use litemap::LiteMap;

use super::super::provider::Provider;
use super::super::requirement::Operator;
use super::verdict::Uncertainty;
use crate::catalog::InstanceType;

/// One requirement or expression of node affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequirementSpec {
    pub key: String,
    pub op: Operator,
    /// The values as written.
    pub values: Vec<String>,
    pub min_values: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Taint {
    pub key: String,
    /// The value; empty if absent.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A toleration of a pod. Absent fields are empty strings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Toleration {
    /// Empty: every key.
    pub key: String,
    /// `Exists`, `Equal`, `Gt`, `Lt`; empty means `Equal`.
    pub operator: String,
    /// The value to compare with.
    pub value: String,
    /// Empty: every effect.
    pub effect: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct NodeClassRef {
    /// The API group, `karpenter.k8s.aws` on AWS.
    pub group: String,
    /// The kind, `EC2NodeClass` on AWS.
    pub kind: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Pool {
    pub name: String,
    /// `spec.weight`; absent counts as 0.
    pub weight: Option<i64>,
    /// The nodes of a static pool, for which Karpenter starts none for pending pods: `spec.replicas`, or `limits.nodes` if that
    /// is fewer. `None`: the pool is not static.
    pub replicas: Option<u64>,
    pub requirements: Vec<RequirementSpec>,
    /// `spec.template.metadata.labels`.
    pub labels: Vec<(String, String)>,
    /// `spec.template.spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.template.spec.startupTaints`. Only used to find duplicate taints.
    pub startup_taints: Vec<Taint>,
    /// `spec.limits` in thousandths.
    pub limits: Vec<(String, i128)>,
    pub node_class: NodeClassRef,
    /// That node class. `None` if it is not known and not one of EKS Auto Mode: the defaults of AL2023 are then assumed.
    pub class: Option<NodeClass>,
    /// Whether EKS Auto Mode brings the pool, so that a cluster has it unless somebody switched it off.
    pub is_built_in: bool,
    /// What is not known of the pool itself, so that it may or may not admit a pod.
    pub uncertainties: Vec<Uncertainty>,
}

impl Pool {
    /// Who makes its nodes.
    pub fn provider(&self) -> Provider {
        Provider::of_group_name(&self.node_class.group)
    }

    /// Whether something else than Karpenter starts its nodes: it has no name.
    pub(crate) fn is_of_others(&self) -> bool {
        self.name.is_empty()
    }

    /// What bounds its nodes, in thousandths: the limits, or the number of nodes of a static pool.
    pub fn bounds(&self) -> Cow<'_, [(String, i128)]> {
        match self.replicas {
            None => Cow::Borrowed(&self.limits),
            Some(nodes) => Cow::Owned(vec![("nodes".to_owned(), i128::from(nodes) * 1000)]),
        }
    }

    /// What the answers of the pool depend on because its class is not known.
    pub(crate) fn missing_class(&self) -> Option<Uncertainty> {
        let name = || self.node_class.name.clone();
        match &self.class {
            None => Some(Uncertainty::NoClass(name())),
            Some(class) => class.is_assumed.then(|| Uncertainty::NoAutoModeClass(name())),
        }
    }
}

/// A NodeOverlay, which gives types resources or prices. Karpenter applies it only if its feature gate is on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Overlay {
    pub name: String,
    /// `spec.weight`; absent counts as 0. Of two overlays of equal weight the one whose name sorts last counts.
    pub weight: i64,
    /// `spec.requirements`: the types and pools that it is for.
    pub requirements: Vec<RequirementSpec>,
    /// `spec.capacity` in thousandths.
    pub capacity: ResourceList,
    /// `spec.price` or `spec.priceAdjustment`.
    pub price: Option<PriceChange>,
}

/// What a NodeOverlay makes of the price of an offering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PriceChange {
    /// Millionths of a dollar per hour.
    Is(i128),
    /// A number of millionths of a dollar per hour that is added; the sum is at least 0.
    Plus(i128),
    /// Thousandths of a percent that are added.
    Percent(i128),
}

impl PriceChange {
    /// The new price, in millionths of a dollar per hour (`AdjustedPrice` in `pkg/cloudprovider/types.go`).
    pub fn of(self, price: i128) -> i128 {
        match self {
            PriceChange::Is(price) => price,
            PriceChange::Plus(more) => (price + more).max(0),
            PriceChange::Percent(share) => (price + price * share / 100_000).max(0),
        }
    }
}

/// The AMI family: `spec.amiFamily`, otherwise the alias up to `@`, otherwise custom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    Al2,
    #[default]
    Al2023,
    Bottlerocket,
    Windows,
    /// Any other family.
    Custom,
}

impl AmiFamily {
    /// Parses a family or an alias, case-insensitively, with or without `@version`.
    pub fn parse(text: &str) -> Self {
        let name = text.split('@').next().unwrap_or_default().to_ascii_lowercase();
        match name.as_str() {
            "al2" => Self::Al2,
            "al2023" => Self::Al2023,
            "bottlerocket" => Self::Bottlerocket,
            name if name.starts_with("windows") => Self::Windows,
            _ => Self::Custom,
        }
    }

    /// The value of `node.kubernetes.io/windows-build` on nodes of a family or alias (`GetAMIFamily` of the AWS provider 1.15).
    pub(crate) fn windows_build(text: &str) -> Option<&'static str> {
        match text.split('@').next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "windows2019" => Some("10.0.17763"),
            "windows2022" => Some("10.0.20348"),
            "windows2025" => Some("10.0.26100"),
            _ => None,
        }
    }

    /// The name of the device that stores images and pods.
    pub(crate) fn pod_device(self) -> &'static str {
        match self {
            Self::Bottlerocket => "/dev/xvdb",
            Self::Windows => "/dev/sda1",
            Self::Al2 | Self::Al2023 | Self::Custom => "/dev/xvda",
        }
    }

    /// How messages call the family.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Windows => "Windows",
            Self::Custom => "Custom",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct NodeClass {
    /// Who makes the nodes.
    pub provider: Provider,
    /// Whether the class is not known, so that these are the defaults of the provider.
    pub is_assumed: bool,
    pub ami_family: AmiFamily,
    /// Whether its images are those that Amazon makes for the family.
    pub has_alias: bool,
    /// The build of Windows on the nodes.
    pub windows_build: Option<&'static str>,
    pub kubelet: Kubelet,
    pub block_devices: Vec<BlockDevice>,
    /// Whether `spec.instanceStorePolicy` is RAID0.
    pub instance_store_raid0: bool,
    /// `spec.networkInterfaces`. Empty: those of the type.
    pub network_interfaces: Vec<NetworkInterface>,
    pub reservations: Reservations,
    /// The zones of `status.subnets`, by name and id. Empty if they are not known.
    pub zones: Vec<Zone>,
    pub placement_group: bool,
    /// Whether `spec.connectionTracking` is set: only types with the nitro hypervisor are used.
    pub connection_tracking: bool,
    /// Whether `spec.cpuOptions.nestedVirtualization` is `enabled`.
    pub nested_virtualization: bool,
    /// Whether `spec.enclaveOptions.enabled` is true.
    pub enclaves: bool,
}

/// A network interface of each node of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct NetworkInterface {
    pub card: u32,
    pub device: u32,
    /// Whether it is `efa-only`, without IP addresses.
    pub efa_only: bool,
}

impl NodeClass {
    /// The interfaces for EFA of each node; [`None`] if those of its type are not overridden.
    pub(super) fn efa_interfaces(&self) -> Option<usize> {
        let interfaces = Some(&self.network_interfaces).filter(|list| !list.is_empty())?;
        Some(interfaces.iter().filter(|one| one.efa_only).count())
    }

    /// Whether nodes of a type can have what the class asks for (`IsCompatibleWithNodeClass` of the AWS provider 1.15, without AMI
    /// families and placement groups).
    pub(super) fn suits(&self, instance: &InstanceType) -> bool {
        let interfaces = &self.network_interfaces;
        let cards = if interfaces.is_empty() { Vec::new() } else { instance.network_cards() };
        let has_room =
            |one: &NetworkInterface| cards.get(one.card as usize).is_some_and(|most| one.device < *most);
        (!self.enclaves || instance.has_enclaves())
            && (!self.nested_virtualization || instance.nests_machines())
            && (interfaces.is_empty() || instance.has_ena())
            && interfaces.iter().all(has_room)
            && self.efa_interfaces().is_none_or(|wanted| wanted <= instance.efa as usize)
    }

    /// A NodeClass of EKS Auto Mode, with the size of its volume in thousandths of a byte.
    ///
    /// The nodes run Bottlerocket with at most 110 pods, and join local disks for images and pods:
    /// <https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html>.
    pub(crate) fn in_auto_mode(volume_size: i128) -> Self {
        let volume = BlockDevice {
            root_volume: true,
            ebs: true,
            volume_size: Some(volume_size),
            ..BlockDevice::default()
        };
        Self {
            provider: Provider::AutoMode,
            ami_family: AmiFamily::Bottlerocket,
            kubelet: Kubelet { max_pods: Some(110), ..Kubelet::default() },
            block_devices: vec![volume],
            instance_store_raid0: true,
            ..Self::default()
        }
    }

    /// The class `default`, which EKS Auto Mode brings: a volume of 80 GiB.
    pub fn built_in() -> Self {
        Self::in_auto_mode((80 << 30) * 1000)
    }

    /// A class of EKS Auto Mode of which nothing is known.
    pub(crate) fn assumed_in_auto_mode() -> Self {
        Self { is_assumed: true, ..Self::built_in() }
    }
}

/// The capacity reservations that a class selects.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub enum Reservations {
    /// It selects none.
    #[default]
    None,
    /// It selects some, and its status does not say which.
    Unknown,
    /// The reservations of its status.
    Known(Vec<Reservation>),
}

/// An entry of `status.capacityReservations`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Reservation {
    pub id: String,
    pub instance_type: String,
    pub zone: String,
    /// `default` or `capacity-block`.
    pub reservation_type: String,
    pub interruptible: bool,
    /// Whether it ends soon, so that Karpenter starts nothing in it.
    pub expiring: bool,
}

/// A zone in which a class has a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Zone {
    pub name: String,
    /// The zone id; empty if it is not known.
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Kubelet {
    pub max_pods: Option<u32>,
    pub pods_per_core: Option<u32>,
    /// `kubeReserved`, in thousandths.
    pub kube_reserved: Vec<(String, i128)>,
    /// `systemReserved`, in thousandths.
    pub system_reserved: Vec<(String, i128)>,
    /// `evictionHard` by signal name.
    pub eviction_hard: Vec<(String, EvictionThreshold)>,
    /// What expressions give for each type, by its name. Empty without expressions.
    pub computed: BTreeMap<&'static str, ComputedKubelet>,
}

/// The kubelet settings of a type that expressions give.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct ComputedKubelet {
    pub max_pods: Option<u32>,
    /// `kubeReserved`, in thousandths.
    pub kube_reserved: Vec<(String, i128)>,
    /// `systemReserved`, in thousandths.
    pub system_reserved: Vec<(String, i128)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvictionThreshold {
    /// A quantity in thousandths.
    Quantity(i128),
    /// A percentage of the capacity, in thousandths of a percent: `5%` is 5000.
    Percent(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct BlockDevice {
    pub device_name: Option<String>,
    pub root_volume: bool,
    pub ebs: bool,
    /// `ebs.volumeSize` in thousandths of a byte.
    pub volume_size: Option<i128>,
}

/// Named quantities in thousandths. Each container has two lists; one of two resources takes 120 bytes, as a `BTreeMap` 480.
pub type ResourceList = LiteMap<String, i128>;

/// A pod, or the template of a DaemonSet, after the API server's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Pod {
    pub node_selector: Vec<(String, String)>,
    /// Required node affinity: one of the terms must be met. Empty: no requirement.
    pub terms: Vec<Term>,
    /// Preferred node affinity in the order of the manifest.
    pub preferences: Vec<Preference>,
    pub tolerations: Vec<Toleration>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    /// `spec.resources.requests`, at the level of the pod.
    pub requests: ResourceList,
    /// `spec.resources.limits`, at the level of the pod.
    pub limits: ResourceList,
    pub overhead: ResourceList,
    /// Whether `spec.resourceClaims` has an entry.
    pub resource_claims: bool,
    /// What the volumes require of nodes: one of the alternatives must be met. Empty: no requirement.
    pub volumes: Vec<Vec<RequirementSpec>>,
    /// Why Karpenter ignores the pod because of its volumes.
    pub volume_fault: Option<String>,
    /// Spread, pod affinity and anti-affinity: the required ones, then the others in the order in which Karpenter drops them.
    pub topology: Vec<TopologyRule>,
    /// Other constraints that can only be evaluated in the cluster and may prevent scheduling (volumes).
    pub uncertainties: Vec<Uncertainty>,
}

/// Spread over a label of nodes, or affinity to pods of nodes with the same value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopologyRule {
    pub kind: TopologyKind,
    /// `topologyKey`.
    pub key: String,
    /// Whether it is `DoNotSchedule` or required.
    pub required: bool,
    /// Which pods it selects.
    pub selects: Selected,
    /// The values of the label that the pods which required affinity joins may have, if they are known. For nodes themselves, the names of
    /// their pools.
    pub domains: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopologyKind {
    Affinity,
    AntiAffinity,
    Spread,
}

/// The pods that a rule selects, as far as one new pod in an empty cluster needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selected {
    /// The pod itself, and perhaps others.
    Itself,
    /// Other pods, which may exist.
    Others,
    /// No pod of the cluster.
    Nothing,
    /// Pods that are placed together with it, which decide later.
    Placed,
}

/// A term of required node affinity, or the term of a preference.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Term {
    /// `matchExpressions`; all must be met.
    pub expressions: Vec<RequirementSpec>,
    /// Whether the term uses `matchFields`.
    pub match_fields: bool,
    /// Whether an expression could not be read (unknown operator); Karpenter then ignores the pod.
    pub unreadable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Preference {
    /// 1 to 100.
    pub weight: i64,
    pub term: Term,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Container {
    pub requests: ResourceList,
    /// `resources.limits`, used for resources without a request.
    pub limits: ResourceList,
    /// `ports` that have a `hostPort`.
    pub host_ports: Vec<HostPort>,
    /// An init container with `restartPolicy: Always`.
    pub sidecar: bool,
}

/// A port of the node that a container uses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct HostPort {
    pub port: u32,
    /// `protocol`; empty means `TCP`.
    pub protocol: String,
    /// `hostIP`; empty means all addresses.
    pub ip: String,
}

/// A DaemonSet, whose pods use resources on every node that they can run on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct DaemonSet {
    pub name: String,
    pub pod: Pod,
}

/// Settings of the Karpenter installation that affect the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SchedulerOptions {
    /// `VM_MEMORY_OVERHEAD_PERCENT` in millionths: 0.075 is 75,000.
    pub memory_overhead: u32,
    pub reserved_enis: u32,
    /// `PREFERENCE_POLICY=Ignore`.
    pub ignore_preferences: bool,
    /// `MIN_VALUES_POLICY=BestEffort`.
    pub best_effort_min_values: bool,
    /// Whether `minValues` counts values that the requirement excludes, as Karpenter does before 1.14.3.
    pub all_values_count: bool,
    /// Whether a DaemonSet that fits a pool counts for all of its types, as before Karpenter 1.14, and not for those with
    /// the labels that it selects alone.
    pub daemonsets_on_all_types: bool,
    pub ignore_dra_requests: bool,
    /// Whether `karpenter.sh/registered` and `karpenter.sh/initialized` stay out of NodeClaims, as since Karpenter 1.14.
    pub simulates_lifecycle: bool,
    /// Whether types that EC2 does not list as Spot have no Spot offering. Otherwise every type has one: another
    /// region may differ.
    pub listed_spot: bool,
    /// Whether pods run on the nodes of static pools. Karpenter's own scheduler starts nodes only, and knows none that stand.
    pub standing_nodes: bool,
    /// Whether the API server adds tolerations for extended resources, as on EKS.
    pub eks: bool,
    pub region: Option<String>,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            memory_overhead: 75_000,
            reserved_enis: 0,
            ignore_preferences: false,
            best_effort_min_values: false,
            all_values_count: false,
            daemonsets_on_all_types: false,
            ignore_dra_requests: true,
            simulates_lifecycle: true,
            listed_spot: false,
            standing_nodes: false,
            eks: true,
            region: None,
        }
    }
}
