//! Reads the input of the scheduler from the objects of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::branch_interfaces;
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::cluster::together::company;
use crate::cluster::views::class_kind;
use crate::facts::quantity::Quantity;
use crate::fit::{expressions, settings, surroundings};
use crate::karpenter::auto_mode;
use crate::karpenter::auto_mode::{BUILT_IN_CLASS, built_in_pools as built_in_pools_of_auto_mode};
use crate::karpenter::kubelet;
use crate::karpenter::minors::has_open_kubelet;
use crate::karpenter::node_class::Ec2NodeClass;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::pod::{to_scheduling_pod, toleration};
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::Operator;
use crate::karpenter::scheduling::{
    AmiFamily, BlockDevice, DaemonSet, EvictionThreshold, Kubelet, NetworkInterface, NodeClass, Overlay, Pod,
    Pool, PriceChange, RequirementSpec, Reservation, Reservations, ResourceList, Toleration, Uncertainty,
    Zone,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::tree::node::Node;
use crate::workload::template::{Template, templates};

/// The objects of a kind, without patches. Of several objects with the same identity, only the one nearest to
/// `near` is included.
pub(crate) fn objects(cluster: &Cluster, kind: Kind, near: Option<&Object>) -> Vec<Object> {
    let mut out: Vec<Object> = Vec::new();
    for object in cluster.of(kind) {
        // Objects with the same identity are adjacent.
        match out.last_mut().filter(|known| known.is_same_resource(object)) {
            None => out.push(object.clone()),
            Some(known) => {
                if near.is_some_and(|near| company(near, object) < company(near, known)) {
                    *known = object.clone();
                }
            }
        }
    }
    out
}

/// Why a pool never starts nodes for pods.
pub(super) fn left_out(object: &Object, cluster: &Cluster, platform: &Platform) -> Option<String> {
    if object.path(&["metadata", "deletionTimestamp"]).is_set() {
        return Some("it is being deleted".to_owned());
    }
    let reference = object.path(&["spec", "template", "spec", "nodeClassRef"]);
    let kind = reference.get("kind").text()?;
    let name = reference.get("name").text()?;
    if let Some(class) = class_object(object, cluster).filter(|_| has_open_kubelet(platform.karpenter))
        && let Some(view) = Ec2NodeClass::new(&class)
        && let Some(rejected) =
            kubelet::rejected(&view).or_else(|| refused_expression(&view, cluster, platform))
    {
        let field = rejected.pointer().to_string().trim_start_matches('/').replace('/', ".");
        return Some(format!("its EC2NodeClass `{name}` is not Ready: Karpenter rejects `{field}`"));
    }
    // The class that EKS Auto Mode brings is in no file.
    let class = class_kind(&reference)?;
    let missing =
        cluster.is_complete_for(class) && cluster.all(class.group, kind, "default", name).is_empty();
    missing.then(|| format!("its {kind} `{name}` does not exist"))
}

/// An expression of a class where the gate for it is off.
fn refused_expression<'a>(
    class: &Ec2NodeClass<'a>,
    cluster: &Cluster,
    platform: &Platform,
) -> Option<Node<'a>> {
    let expression = kubelet::expressions(class).into_iter().next()?;
    (settings::gate("NodeClassCEL", platform, cluster) == Some(false)).then_some(expression)
}

/// The name of an object as it is written, where a placeholder hides it.
#[must_use]
pub fn shown_name(object: &Object) -> String {
    let written = || object.path(&["metadata", "name"]).raw_text().map(str::to_owned);
    let name = object.name();
    if name.is_empty() { written().unwrap_or_default() } else { name.to_owned() }
}

/// A pool with its node class. A field that cannot be read becomes an uncertainty.
pub(super) fn pool(object: &Object, cluster: &Cluster, platform: &Platform) -> Pool {
    let unreadable = || Uncertainty::UnreadablePool(shown_name(object));
    let Some(view) = NodePool::new(object) else {
        let name = object.name().to_owned();
        return Pool { name, uncertainties: vec![unreadable()], ..Pool::default() };
    };
    let mut pool = view.to_pool();
    let spec = view.template_spec();
    let unknown = object.is_partial()
        || view.has_unknown_labels()
        || spec.get("taints").has_unknown()
        || view.limits().has_unknown()
        || object.path(&["spec", "weight"]).is_unknown();
    if unknown {
        pool.uncertainties.push(unreadable());
    }
    let Some(class) = class_object(object, cluster) else {
        let is_built_in = view.is_auto_mode() && pool.node_class.name == BUILT_IN_CLASS;
        pool.class = is_built_in.then(NodeClass::built_in).or(pool.class);
        return pool;
    };
    if view.is_auto_mode() {
        pool.class = auto_mode::node_class(&class).or(pool.class);
        return pool;
    }
    pool.class = node_class(&class);
    if let Some(read) = &mut pool.class
        && read.reservations != Reservations::None
        && settings::gate("ReservedCapacity", platform, cluster) == Some(false)
    {
        read.reservations = Reservations::None;
    }
    let has_expressions =
        || Ec2NodeClass::new(&class).is_some_and(|class| !kubelet::expressions(&class).is_empty());
    if has_open_kubelet(platform.karpenter) && has_expressions() {
        let is_on = settings::gate("NodeClassCEL", platform, cluster) == Some(true);
        let settings = class.path(&["spec", "kubelet"]);
        let computed = pool.class.as_mut().filter(|_| is_on);
        if computed.and_then(|class| expressions::compute(&settings, class)).is_none() {
            pool.uncertainties.push(Uncertainty::KubeletExpressions(class.name().to_owned()));
        }
    }
    pool
}

/// The class in the input that a pool refers to. Of several with the name, the one nearest to the pool.
pub(crate) fn class_object(pool: &Object, cluster: &Cluster) -> Option<Object> {
    class_of_reference(&pool.path(&["spec", "template", "spec", "nodeClassRef"]), pool, cluster)
}

/// The class in the input that a `nodeClassRef` of an object names. The reference of `v1beta1` has `apiVersion` and not
/// `group`, and both may be absent: the provider looks an EC2NodeClass up by its name alone (Karpenter 0.37,
/// pkg/cloudprovider/cloudprovider.go `resolveNodeClassFromNodePool`).
fn class_of_reference(reference: &Node<'_>, of: &Object, cluster: &Cluster) -> Option<Object> {
    let text = |field: &str| reference.get(field).text();
    let is_beta = of.version() == "v1beta1";
    let own = Kind::EC2_NODE_CLASS;
    let group = match text("group") {
        None if is_beta => text("apiVersion").map_or(own.group, |api| api.split('/').next().unwrap_or(api)),
        group => group?,
    };
    let name = text("kind").or_else(|| is_beta.then_some(own.kind))?;
    let is = |kind: &Kind| group == kind.group && name == kind.kind;
    let kind = [own, Kind::AUTO_MODE_NODE_CLASS].into_iter().find(is)?;
    let classes = cluster.written_as(kind, text("name")?);
    classes.min_by_key(|class| company(of, class)).cloned()
}

/// The class of a NodeClaim as input of the scheduler. `None` if it is not in the input, or its kubelet settings are expressions.
pub(crate) fn class_of_claim(claim: &Object, cluster: &Cluster) -> Option<NodeClass> {
    let class = class_of_reference(&claim.path(&["spec", "nodeClassRef"]), claim, cluster)?;
    let has_expressions = !kubelet::expressions(&Ec2NodeClass::new(&class)?).is_empty();
    if has_expressions || class.may_lack_fields() { None } else { node_class(&class) }
}

/// The NodePools that EKS Auto Mode brings and that are not in the input, if the cluster runs Auto Mode. A cluster whose
/// objects are read from its API server has those that are switched on among them.
struct BuiltInPools;

impl Query for BuiltInPools {
    const SLOT: QuerySlot = QuerySlot::BuiltInPools;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL, Kind::AUTO_MODE_NODE_CLASS];
    type Key = ();
    type Value = Arc<[ObjectKey]>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<[ObjectKey]> {
        let own = || cluster.of(Kind::NODE_POOL);
        let is_live = |object: &Object| object.path(&["metadata", "uid"]).is_set();
        if !cluster.views().has_auto_mode() || own().any(is_live) {
            return Arc::default();
        }
        let is_new = |pool: &&Object| !own().any(|own| own.name() == pool.name());
        built_in_pools_of_auto_mode().iter().filter(is_new).cloned().map(ObjectKey).collect()
    }
}

/// Whether EKS Auto Mode brings the cluster NodePools that are not in the input.
pub(crate) fn has_built_in_pools(cluster: &Cluster) -> bool {
    !cluster.query::<BuiltInPools>(&()).is_empty()
}

/// The [`BuiltInPools`] as input of the scheduler.
pub(super) fn built_in_pools(cluster: &Cluster, platform: &Platform) -> Vec<(Pool, Object)> {
    let read = |object: &Object| Pool { is_built_in: true, ..pool(object, cluster, platform) };
    let missing = cluster.query::<BuiltInPools>(&());
    missing.iter().map(|ObjectKey(object)| (read(object), object.clone())).collect()
}

/// A node class as input of the scheduler. `None` if a field that decides cannot be read.
fn node_class(object: &Object) -> Option<NodeClass> {
    let class = Ec2NodeClass::new(object)?;
    let deciding = [
        "kubelet",
        "blockDeviceMappings",
        "instanceStorePolicy",
        "networkInterfaces",
        "cpuOptions",
        "enclaveOptions",
    ];
    if object.is_partial() || deciding.iter().any(|name| class.get(name).has_unknown()) {
        return None;
    }
    let interface = |node: Node<'_>| {
        let index = |name: &str| u32::try_from(node.get(name).int()?).ok();
        let efa_only = node.get("interfaceType").text()? == "efa-only";
        Some(NetworkInterface { card: index("networkCardIndex")?, device: index("deviceIndex")?, efa_only })
    };
    Some(NodeClass {
        provider: Provider::Aws,
        is_assumed: false,
        ami_family: class.family()?,
        has_alias: class.alias().is_some(),
        windows_build: class.family_text().and_then(AmiFamily::windows_build),
        kubelet: kubelet(&class.get("kubelet"))?,
        block_devices: class.block_devices().map(|node| block_device(&node)).collect::<Option<_>>()?,
        instance_store_raid0: class.raid0()?,
        network_interfaces: class.get("networkInterfaces").items().map(interface).collect::<Option<_>>()?,
        reservations: reservations(&class, object)?,
        zones: zones(object),
        placement_group: class.get("placementGroupSelector").is_set(),
        connection_tracking: class.get("connectionTracking").is_set(),
        nested_virtualization: class.spec().path(&["cpuOptions", "nestedVirtualization"]).text()
            == Some("enabled"),
        enclaves: class.spec().path(&["enclaveOptions", "enabled"]).bool() == Some(true),
    })
}

/// The reservations of a class: those of its status, if it has one. `None` if an entry cannot be read.
fn reservations(class: &Ec2NodeClass<'_>, object: &Object) -> Option<Reservations> {
    if class.get("capacityReservationSelectorTerms").items().next().is_none() {
        return Some(Reservations::None);
    }
    let listed = object.path(&["status", "capacityReservations"]);
    if !listed.is_set() {
        return Some(Reservations::Unknown);
    }
    let text = |node: &Node<'_>, name: &str| node.get(name).text().map(str::to_owned);
    let reservation = |node: Node<'_>| {
        Some(Reservation {
            id: text(&node, "id")?,
            instance_type: text(&node, "instanceType")?,
            zone: text(&node, "availabilityZone")?,
            reservation_type: text(&node, "reservationType").unwrap_or_else(|| "default".to_owned()),
            interruptible: node.get("interruptible").bool() == Some(true),
            expiring: text(&node, "state").as_deref() == Some("expiring"),
        })
    };
    Some(Reservations::Known(listed.items().map(reservation).collect::<Option<_>>()?))
}

/// The zones of the subnets that the controller found for a class.
fn zones(object: &Object) -> Vec<Zone> {
    let zone = |node: Node<'_>| {
        let id = node.get("zoneID").text().unwrap_or_default().to_owned();
        Some(Zone { name: node.get("zone").text()?.to_owned(), id })
    };
    let mut zones: Vec<Zone> = object.path(&["status", "subnets"]).items().filter_map(zone).collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones.dedup();
    zones
}

fn kubelet(node: &Node<'_>) -> Option<Kubelet> {
    let count = |name: &str| -> Option<Option<u32>> {
        let node = node.get(name);
        // A text is an expression.
        if !node.is_set() || name == "maxPods" && node.text().is_some() {
            return Some(None);
        }
        u32::try_from(node.int()?).ok().map(Some)
    };
    let amounts = |name: &str| -> Option<Vec<(String, i128)>> {
        let entries = node.get(name).entries().into_iter();
        let is_expression =
            |value: &Node<'_>| value.text().is_some_and(|text| Quantity::decode(text).is_err());
        let written = entries.filter(|(_, value)| !is_expression(value));
        written.map(|(name, value)| Some((name.to_owned(), Quantity::at(&value)?.milli()))).collect()
    };
    let thresholds = node.get("evictionHard").entries().into_iter().map(|(signal, value)| {
        let text = value.string_or_number()?;
        let threshold = match text.strip_suffix('%') {
            // Thousandths of a percent, to stay exact.
            Some(number) => {
                EvictionThreshold::Percent(Quantity::decode(number).ok()?.milli().try_into().ok()?)
            }
            None => EvictionThreshold::Quantity(Quantity::decode(&text).ok()?.milli()),
        };
        Some((signal.to_owned(), threshold))
    });
    Some(Kubelet {
        max_pods: count("maxPods")?,
        pods_per_core: count("podsPerCore")?,
        kube_reserved: amounts("kubeReserved")?,
        system_reserved: amounts("systemReserved")?,
        eviction_hard: thresholds.collect::<Option<_>>()?,
        computed: BTreeMap::new(),
    })
}

fn block_device(node: &Node<'_>) -> Option<BlockDevice> {
    let size = node.path(&["ebs", "volumeSize"]);
    let volume_size = if size.is_set() { Some(Quantity::at(&size)?.milli()) } else { None };
    Some(BlockDevice {
        device_name: node.get("deviceName").text().map(str::to_owned),
        root_volume: node.get("rootVolume").bool() == Some(true),
        ebs: node.get("ebs").is_set(),
        volume_size,
    })
}

/// Quantities by name, in thousandths.
fn quantities(node: &Node<'_>) -> Option<ResourceList> {
    let entries = node.entries().into_iter();
    entries.map(|(name, value)| Some((name.to_owned(), Quantity::at(&value)?.milli()))).collect()
}

/// The additions of a RuntimeClass to the pods that name it. Admission makes them before a scheduler sees the
/// pod.
pub(super) struct RuntimeClass {
    overhead: ResourceList,
    node_selector: Vec<(String, String)>,
    tolerations: Vec<Toleration>,
}

/// The RuntimeClasses by name; `None` for one that cannot be read.
pub(super) type RuntimeClasses = BTreeMap<String, Option<RuntimeClass>>;

pub(super) fn runtime_classes(cluster: &Cluster, near: Option<&Object>) -> RuntimeClasses {
    let all = objects(cluster, Kind::RUNTIME_CLASS, near);
    all.iter().map(|object| (object.name().to_owned(), runtime_class(object))).collect()
}

fn runtime_class(object: &Object) -> Option<RuntimeClass> {
    let (overhead, scheduling) = (object.path(&["overhead", "podFixed"]), object.get("scheduling"));
    if overhead.has_unknown() || scheduling.has_unknown() {
        return None;
    }
    let selector = scheduling.get("nodeSelector").entries().into_iter();
    Some(RuntimeClass {
        overhead: quantities(&overhead)?,
        node_selector: selector
            .map(|(key, value)| Some((key.to_owned(), value.text()?.to_owned())))
            .collect::<Option<_>>()?,
        tolerations: scheduling.get("tolerations").items().map(|node| toleration(&node)).collect(),
    })
}

/// The pod of a template, with what its RuntimeClass and EKS add. `None` if a field that decides cannot be read.
pub(super) fn pod(template: &Template<'_>, classes: &RuntimeClasses, cluster: &Cluster) -> Option<Pod> {
    let mut pod = to_scheduling_pod(template)?;
    surroundings::resolve(&mut pod, template, cluster);
    let class = template.spec.get("runtimeClassName");
    if let Some(class) = class.text().and_then(|name| classes.get(name)) {
        let class = class.as_ref()?;
        if pod.overhead.is_empty() {
            pod.overhead.clone_from(&class.overhead);
        }
        // The API server rejects a pod whose node selector has another value for the same label.
        let missing = |(key, _): &&(String, String)| !pod.node_selector.iter().any(|(known, _)| known == key);
        let more: Vec<(String, String)> = class.node_selector.iter().filter(missing).cloned().collect();
        pod.node_selector.extend(more);
        pod.tolerations.extend(class.tolerations.iter().cloned());
    }
    branch_interfaces::add(&mut pod, template, cluster);
    Some(pod)
}

/// The DaemonSet as input of the scheduler, or `Err` with its name if it cannot be read.
pub(super) fn daemonset(
    object: &Object,
    classes: &RuntimeClasses,
    cluster: &Cluster,
) -> Result<DaemonSet, String> {
    let name = object.name().to_owned();
    match templates(object).first().and_then(|template| pod(template, classes, cluster)) {
        Some(pod) => Ok(DaemonSet { name, pod }),
        None => Err(name),
    }
}

/// What a NodeOverlay makes of prices. The outer `None`: it cannot be read.
fn price(spec: &Node<'_>) -> Option<Option<PriceChange>> {
    let micro = |text: &str| -> Option<i128> { Some((text.parse::<f64>().ok()? * 1e6).round() as i128) };
    let (price, adjustment) = (spec.get("price"), spec.get("priceAdjustment"));
    if price.is_set() {
        return Some(Some(PriceChange::Is(micro(&price.string_or_number()?)?)));
    }
    if !adjustment.is_set() {
        return Some(None);
    }
    let text = adjustment.string_or_number()?;
    Some(Some(match text.strip_suffix('%') {
        Some(share) => PriceChange::Percent(micro(share)? / 1000),
        None => PriceChange::Plus(micro(&text)?),
    }))
}

/// A NodeOverlay. `None` if it cannot be read.
pub(super) fn overlay(object: &Object) -> Option<Overlay> {
    let spec = object.get("spec");
    let requirement = |node: Node<'_>| {
        let op = node.get("operator").text()?.parse::<Operator>().ok()?;
        let values = node.get("values").items().filter_map(|v| v.string_or_number().map(|v| v.into_owned()));
        let key = node.get("key").text()?.to_owned();
        Some(RequirementSpec { key, op, values: values.collect(), min_values: None })
    };
    Some(Overlay {
        name: object.name().to_owned(),
        weight: spec.get("weight").int().unwrap_or(0),
        requirements: spec.get("requirements").items().map(requirement).collect::<Option<_>>()?,
        capacity: quantities(&spec.get("capacity"))?,
        price: price(&spec)?,
    })
}
