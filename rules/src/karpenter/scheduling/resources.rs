//! The capacity of a node of an instance type, the part available to pods, and the requests of a pod.
//! Integers in thousandths only.

use crate::catalog::InstanceType;
use crate::karpenter::scheduling::input::{
    AmiFamily, BlockDevice, Container, EvictionThreshold, NodeClass, Pod, ResourceList, SchedulerOptions,
};
use crate::steps;

/// Branch interfaces. Their number per type is not in the catalogue.
pub(crate) const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// Steps of putting a resource into a list of them.
const STEPS_PER_RESOURCE: usize = 12;
const MIB: i128 = (1 << 20) * 1000;
const GIB: i128 = (1 << 30) * 1000;

/// The resources of a node, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeResources {
    pub instance: &'static InstanceType,
    pub cpu: i128,
    /// Memory in thousandths of a byte.
    pub memory: i128,
    pub pods: i128,
    /// Disk space for pods, in thousandths of a byte.
    pub ephemeral_storage: i128,
    /// EFA interfaces.
    pub efa: i128,
    /// Addresses for pods on Windows, of which the resource controller of VPCs hands out those of one interface.
    pub addresses: i128,
}

impl NodeResources {
    /// The amount of a resource; 0 if the node does not have it.
    pub fn get(&self, resource: &str) -> i128 {
        match resource {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "pods" => self.pods,
            "ephemeral-storage" => self.ephemeral_storage,
            "vpc.amazonaws.com/efa" => self.efa,
            "vpc.amazonaws.com/PrivateIPv4Address" => self.addresses,
            device => i128::from(self.instance.devices(device)) * 1000,
        }
    }

    /// Whether an amount is below zero: such a type admits no pod.
    pub(crate) fn is_negative(&self) -> bool {
        self.cpu < 0 || self.memory < 0 || self.pods < 0 || self.ephemeral_storage < 0
    }

    /// The resources of which the node has less than `need`. Resources that are not in the catalogue are
    /// never reported.
    pub(crate) fn insufficient<'a>(&self, need: &'a ResourceList) -> impl Iterator<Item = &'a str> {
        steps::take(need.len());
        let node = *self;
        let unknown = move |name: &str| name == POD_ENI && node.instance.pod_eni.is_none();
        need.iter()
            .filter(move |(name, amount)| **amount > node.get(name) && !unknown(name))
            .inspect(|_| steps::take(STEPS_PER_RESOURCE))
            .map(|(name, _)| name.as_str())
    }
}

/// What Karpenter expects a new node to have, which is also what the limits of a NodePool count.
pub fn capacity(
    instance: &'static InstanceType,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> NodeResources {
    NodeResources {
        instance,
        cpu: i128::from(instance.vcpu) * 1000,
        memory: i128::from(instance.memory_capacity_mib(settings.memory_overhead)) * MIB,
        pods: i128::from(pods(instance, class, settings)) * 1000,
        ephemeral_storage: disk(instance, class),
        efa: efa(instance, class) * 1000,
        addresses: addresses(instance, class) * 1000,
    }
}

/// The part of the capacity that is available to pods, including DaemonSets. Can be negative.
pub(crate) fn allocatable(
    instance: &'static InstanceType,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> NodeResources {
    let mut node = capacity(instance, class, settings);
    let family = class.map(|class| class.ami_family).unwrap_or_default();
    let density = match family {
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom => {
            i128::from(instance.eni_pods(settings.reserved_enis + without_addresses(class)))
        }
        AmiFamily::Bottlerocket | AmiFamily::Windows => node.pods / 1000,
    };
    let kubelet = class.map(|class| &class.kubelet);
    let computed = kubelet.and_then(|kubelet| kubelet.computed.get(instance.name));
    let reserved = |name: &str, default: i128| {
        let find =
            |list: &[(String, i128)]| list.iter().find(|(key, _)| key == name).map(|(_, amount)| *amount);
        let kube = kubelet.and_then(|kubelet| find(&kubelet.kube_reserved));
        let kube = kube.or_else(|| find(&computed?.kube_reserved)).unwrap_or(default);
        let system = kubelet.and_then(|kubelet| find(&kubelet.system_reserved));
        kube + system.or_else(|| find(&computed?.system_reserved)).unwrap_or(0)
    };
    let evicted = |signal: &str, capacity: i128, default: EvictionThreshold| {
        let set = kubelet.and_then(|kubelet| kubelet.eviction_hard.iter().find(|(name, _)| name == signal));
        threshold(set.map_or(default, |(_, threshold)| *threshold), capacity)
    };
    node.cpu -= reserved("cpu", reserved_cpu(instance.vcpu));
    node.memory -= reserved("memory", (255 + 11 * density) * MIB)
        + evicted("memory.available", node.memory, EvictionThreshold::Quantity(100 * MIB));
    node.ephemeral_storage -= reserved("ephemeral-storage", GIB)
        + evicted("nodefs.available", node.ephemeral_storage, EvictionThreshold::Percent(10_000));
    node
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the others, each rounded down
/// to millicores.
fn reserved_cpu(cores: u32) -> i128 {
    let share = |from: u32, to: u32, millionths: i128| {
        i128::from(cores.min(to).saturating_sub(from)) * millionths / 1000
    };
    share(0, 1, 60_000) + share(1, 2, 10_000) + share(2, 4, 5_000) + share(4, u32::MAX, 2_500)
}

/// A threshold in thousandths of a byte. Percentages are rounded up to a byte; 100 % disables the signal.
fn threshold(threshold: EvictionThreshold, capacity: i128) -> i128 {
    match threshold {
        EvictionThreshold::Quantity(amount) => amount,
        EvictionThreshold::Percent(100_000) => 0,
        EvictionThreshold::Percent(share) => {
            let part = capacity * i128::from(share);
            part.div_euclid(100_000_000) * 1000 + if part.rem_euclid(100_000_000) > 0 { 1000 } else { 0 }
        }
    }
}

fn pods(instance: &InstanceType, class: Option<&NodeClass>, settings: &SchedulerOptions) -> u32 {
    let family = class.map(|class| class.ami_family).unwrap_or_default();
    let kubelet = class.map(|class| &class.kubelet);
    let computed = || kubelet?.computed.get(instance.name)?.max_pods;
    let count =
        kubelet.and_then(|kubelet| kubelet.max_pods).or_else(computed).unwrap_or_else(|| match family {
            AmiFamily::Windows => 110,
            _ => instance.eni_pods(settings.reserved_enis + without_addresses(class)),
        });
    match kubelet.and_then(|kubelet| kubelet.pods_per_core) {
        Some(each) if each > 0 && family != AmiFamily::Bottlerocket => {
            count.min(each.saturating_mul(instance.vcpu))
        }
        _ => count,
    }
}

fn efa(instance: &InstanceType, class: Option<&NodeClass>) -> i128 {
    let of_class = class.and_then(NodeClass::efa_interfaces).and_then(|count| i128::try_from(count).ok());
    of_class.unwrap_or_else(|| i128::from(instance.efa))
}

/// What `privateIPv4Address` of the AWS provider 1.15 says of a type.
fn addresses(instance: &InstanceType, class: Option<&NodeClass>) -> i128 {
    let is_windows = class.is_some_and(|class| class.ami_family == AmiFamily::Windows);
    if is_windows { i128::from(instance.ipv4_per_eni.saturating_sub(1)) } else { 0 }
}

/// The interfaces of the first network card that have no addresses for pods (`ENILimitedPods`).
fn without_addresses(class: Option<&NodeClass>) -> u32 {
    let interfaces = class.map_or(&[][..], |class| class.network_interfaces.as_slice());
    interfaces.iter().filter(|one| one.card == 0 && one.efa_only).map(|_| 1).sum()
}

fn disk(instance: &InstanceType, class: Option<&NodeClass>) -> i128 {
    let Some(class) = class else { return 20 * GIB };
    if class.instance_store_raid0 && instance.instance_store_gb > 0 {
        return i128::from(instance.instance_store_gb) * 1_000_000_000 * 1000;
    }
    let default = if class.ami_family == AmiFamily::Windows { 50 * GIB } else { 20 * GIB };
    root(class).or_else(|| family_mapping(class)?.volume_size).unwrap_or(default)
}

fn root(class: &NodeClass) -> Option<i128> {
    class.block_devices.iter().find(|device| device.root_volume)?.volume_size
}

fn family_mapping(class: &NodeClass) -> Option<&BlockDevice> {
    if class.ami_family == AmiFamily::Custom {
        return class.block_devices.last();
    }
    let name = Some(class.ami_family.pod_device());
    class.block_devices.iter().find(|device| device.device_name.as_deref() == name)
}

/// The position of the mapping whose size counts as the disk of pods, and the name of its device.
pub(crate) fn pod_volume(class: &NodeClass) -> (Option<usize>, &str) {
    let device = class.ami_family.pod_device();
    let devices = || class.block_devices.iter();
    let at = match class.ami_family {
        _ if root(class).is_some() => devices().position(|one| one.root_volume),
        AmiFamily::Custom => class.block_devices.len().checked_sub(1),
        _ => devices().position(|one| one.device_name.as_deref() == Some(device)),
    };
    let name = at.and_then(|at| class.block_devices[at].device_name.as_deref());
    (at, name.unwrap_or(device))
}

/// Sets the size of the volume that counts as the disk of pods, in thousandths of a byte.
pub(crate) fn resize_pod_volume(class: &mut NodeClass, size: i128) {
    let (at, device) = pod_volume(class);
    let device_name = Some(device.to_owned());
    match at {
        Some(at) => class.block_devices[at].volume_size = Some(size),
        None => class.block_devices.push(BlockDevice {
            device_name,
            ebs: true,
            volume_size: Some(size),
            ..BlockDevice::default()
        }),
    }
}

/// Whether computing the disk size of this class makes Karpenter panic: the mapping that it uses has no
/// `ebs`, or a mapping without `deviceName` precedes the device of the family.
pub fn crashes(class: &NodeClass) -> bool {
    if class.block_devices.iter().find(|device| device.root_volume).is_some_and(|device| !device.ebs) {
        return true;
    }
    if root(class).is_some() {
        return false;
    }
    let custom = class.ami_family == AmiFamily::Custom;
    let name = Some(class.ami_family.pod_device());
    let nameless = class
        .block_devices
        .iter()
        .take_while(|device| device.device_name.as_deref() != name)
        .any(|device| device.device_name.is_none());
    (nameless && !custom) || family_mapping(class).is_some_and(|device| !device.ebs)
}

/// The resources that one pod needs on a node, including one of `pods`.
pub fn pod_requests(pod: &Pod) -> ResourceList {
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in &pod.init_containers {
        steps::take(STEPS_PER_RESOURCE * sidecars.len());
        let mut step = sidecars.clone();
        add(&mut step, &effective_requests(container));
        raise_to(&mut peak, &step);
        if container.sidecar {
            sidecars = step;
        }
    }
    let mut total = sidecars;
    for container in &pod.containers {
        add(&mut total, &effective_requests(container));
    }
    raise_to(&mut total, &peak);
    // The API server makes a limit of the pod its request where no container requests the resource
    // (`setDefaultPodLevelRequests`).
    let requested = |name: &str| {
        let containers = pod.containers.iter().chain(&pod.init_containers);
        pod.requests.contains_key(name)
            || containers.into_iter().any(|c| effective_requests(c).contains_key(name))
    };
    let defaulted = pod.limits.iter().filter(|(name, _)| !requested(name));
    for (name, amount) in defaulted.chain(&pod.requests) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            total.insert(name.clone(), *amount);
        }
    }
    add(&mut total, &pod.overhead);
    *total.entry("pods".to_owned()).or_default() += 1000;
    total
}

/// The requests of a container; limits are used for resources without a request.
pub(super) fn effective_requests(container: &Container) -> ResourceList {
    steps::take(STEPS_PER_RESOURCE * (container.limits.len() + container.requests.len()));
    let mut amounts = container.limits.clone();
    amounts.extend(container.requests.iter().map(|(name, amount)| (name.clone(), *amount)));
    amounts
}

pub(super) fn add(total: &mut ResourceList, more: &ResourceList) {
    steps::take(STEPS_PER_RESOURCE * more.len());
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

fn raise_to(total: &mut ResourceList, least: &ResourceList) {
    steps::take(STEPS_PER_RESOURCE * least.len());
    for (name, amount) in least {
        let present = total.entry(name.clone()).or_default();
        *present = (*present).max(*amount);
    }
}
