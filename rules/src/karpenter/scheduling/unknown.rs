//! What no file tells about the nodes of a pool: labels and interfaces of types, classes outside of the input, capacity that
//! is left in reservations.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::super::provider::{Provider, is_auto_mode_label, is_documented_in_auto_mode};
use super::super::requirement::{Operator, Requirement, Requirements};
use super::input::{
    AmiFamily, BlockDevice, EvictionThreshold, Kubelet, NodeClass, Pool, Reservations, ResourceList,
    SchedulerOptions,
};
use super::instance_types::{RESERVATION_KEYS, all_retired, crashing_keys};
use super::resources::POD_ENI;
use super::verdict::Uncertainty;
use crate::catalog::{CAPACITY_TYPE, INSTANCE_TYPE, REGION, TENANCY, TypeSet, ZONE, ZONE_ID, index};
use crate::steps;

/// The types of a set whose labels are known to meet the requirements.
///
/// # Errors
/// There are none: whether the others meet them is not known.
pub(super) fn with_known_labels(
    types: &TypeSet,
    requirements: &Requirements,
) -> Result<TypeSet, Uncertainty> {
    let mut certain = *types;
    for (key, _) in requirements.iter() {
        let Some(unknown) = with_unknown(key, requirements) else { continue };
        certain = certain.without(unknown);
        if certain.is_empty() {
            return Err(Uncertainty::LabelValues(key.to_owned()));
        }
    }
    Ok(certain)
}

/// The types of which a label is not known that a requirement is about.
pub(super) fn with_unknown(key: &str, requirements: &Requirements) -> Option<&'static TypeSet> {
    let is_met_by_any = |one: &Requirement| one.operator() == Operator::Exists && !one.is_bounded();
    requirements.get(key).filter(|one| !is_met_by_any(one))?;
    Some(index(&requirements.provider().catalogue_key(key))?.unknown())
}

/// The types of a set of which the number of branch interfaces is known, where pods need some.
///
/// # Errors
/// It is known of none of them.
pub(super) fn with_known_interfaces(types: &TypeSet, need: &ResourceList) -> Result<TypeSet, Uncertainty> {
    if need.get(POD_ENI).is_none_or(|amount| *amount <= 0) {
        return Ok(*types);
    }
    let known: TypeSet = types.iter().filter(|instance| instance.pod_eni.is_some()).collect();
    if known.is_empty() { Err(Uncertainty::BranchInterfaces) } else { Ok(known) }
}

/// The first label that the pod asks for and of which AWS does not say whether nodes of EKS Auto Mode have it.
pub(super) fn undocumented_label(pool: &Requirements, pod: &Requirements) -> Option<Uncertainty> {
    if pool.provider() != Provider::AutoMode {
        return None;
    }
    let is_unknown = |key: &str, wanted: &Requirement| {
        is_auto_mode_label(key)
            && !is_documented_in_auto_mode(key)
            && !wanted.allows_absence()
            && pool.get(key).is_none()
    };
    let mut asked = pod.iter();
    asked.find(|(key, wanted)| is_unknown(key, wanted)).map(|(key, _)| {
        steps::take(key.len());
        Uncertainty::AutoModeLabel(key.to_owned())
    })
}

/// What is not known of the class of a pool, each with a class that leaves pods the most resources if that is so.
pub(super) fn roomier_classes(pool: &Pool) -> Vec<(Cow<'_, NodeClass>, Uncertainty)> {
    static UNKNOWN: LazyLock<NodeClass> = LazyLock::new(|| NodeClass {
        ami_family: AmiFamily::Al2,
        kubelet: Kubelet { max_pods: Some(10_000), ..unreserved() },
        block_devices: vec![LARGEST_DISK.clone()],
        reservations: Reservations::Unknown,
        ..NodeClass::default()
    });
    static LARGEST_DISK: LazyLock<BlockDevice> = LazyLock::new(|| BlockDevice {
        root_volume: true,
        ebs: true,
        volume_size: Some(1000 << 50),
        ..BlockDevice::default()
    });
    let missing = pool.missing_class();
    match (&pool.class, missing) {
        // A class that is not in the input may leave pods more than the defaults of AL2023 do.
        (None, missing) => missing.map(|missing| (Cow::Borrowed(&*UNKNOWN), missing)).into_iter().collect(),
        (Some(class), missing) if class.provider == Provider::AutoMode => {
            let kubelet = Kubelet { max_pods: class.kubelet.max_pods, ..unreserved() };
            let whole = NodeClass { kubelet, ..class.clone() };
            let unknown = missing.map(|missing| {
                let block_devices = vec![LARGEST_DISK.clone()];
                let reservations = Reservations::Unknown;
                let instance_store_raid0 = false;
                let class = NodeClass { block_devices, reservations, instance_store_raid0, ..whole.clone() };
                (Cow::Owned(class), missing)
            });
            let whole = (Cow::Owned(whole), Uncertainty::AutoModeReserve);
            std::iter::once(whole).chain(unknown).collect()
        }
        (Some(_), _) => Vec::new(),
    }
}

/// The settings of a kubelet that reserves nothing and evicts no pod.
fn unreserved() -> Kubelet {
    let none = ["cpu", "memory", "ephemeral-storage"].map(|name| (name.to_owned(), 0)).to_vec();
    let off = ["memory.available", "nodefs.available"];
    let eviction_hard = off.map(|signal| (signal.to_owned(), EvictionThreshold::Percent(100_000))).to_vec();
    Kubelet { kube_reserved: none, eviction_hard, ..Kubelet::default() }
}

/// Assumptions of an admission that can only be confirmed in the cluster.
pub(super) fn cluster_uncertainties(
    pool: &Pool,
    both: &Requirements,
    types: &TypeSet,
    settings: &SchedulerOptions,
) -> Vec<Uncertainty> {
    let mut uncertainties = Vec::new();
    let wanted = |key: &str| both.get(key).is_some_and(|r| !r.allows_absence());
    let class = pool.class.as_ref();
    let has = |test: fn(&NodeClass) -> bool| class.is_some_and(test);
    if settings.region.is_none() && both.get(REGION).is_some_and(|r| r.operator() != Operator::Exists) {
        uncertainties.push(Uncertainty::Region);
    }
    let has_ids = has(|class| class.zones.iter().any(|zone| !zone.id.is_empty()));
    if both.get(ZONE).is_some() && both.get(ZONE_ID).is_some() && !has_ids {
        uncertainties.push(Uncertainty::ZonePair);
    }
    // How many instances a reservation has left is in no file: they may all be taken.
    if has(|class| class.reservations != Reservations::None) {
        let only = both.get(CAPACITY_TYPE).is_some_and(|r| !r.has("on-demand") && !r.has("spot"));
        if only || RESERVATION_KEYS.iter().any(|key| wanted(key)) {
            uncertainties.push(Uncertainty::Reservations);
        }
    }
    let placement = both.iter().any(|(key, _)| key.starts_with("karpenter.k8s.aws/placement-group-"));
    if placement && has(|class| class.placement_group) {
        uncertainties.push(Uncertainty::PlacementGroup);
    }
    // With the policy `BestEffort`, no number of values stops a node.
    let counted = both.iter().filter(|_| !settings.best_effort_min_values);
    for (key, wanted) in counted.filter_map(|(key, requirement)| Some((key, requirement.min_values?))) {
        // Every type has one value, and of 600 types that remain each is a value of the instance type.
        if wanted <= 1 || key == INSTANCE_TYPE {
            continue;
        }
        if matches!(key, ZONE | ZONE_ID | REGION) {
            let is_known = key != REGION && has(|class| !class.zones.is_empty());
            uncertainties.extend((!is_known).then(|| Uncertainty::MinValuesOf(key.to_owned())));
        } else if types.len() > MOST_TYPES
            && !holds_for_any(&both.provider().catalogue_key(key), wanted, types)
        {
            uncertainties.push(Uncertainty::MinValuesCut);
        }
    }
    if all_retired(types) {
        uncertainties.push(Uncertainty::Retired);
    }
    if !crashing_keys(both).is_empty() {
        uncertainties.push(Uncertainty::Crash(pool.name.clone()));
    }
    uncertainties
}

/// The number of types that Karpenter keeps for a node, the cheapest.
const MOST_TYPES: usize = 600;

/// Whether the types that Karpenter keeps have `wanted` values of a key, whichever it keeps.
fn holds_for_any(key: &str, wanted: u32, types: &TypeSet) -> bool {
    let Some(index) = index(key) else {
        // Almost every type has on-demand and Spot capacity, and every one has both tenancies.
        return matches!(key, CAPACITY_TYPE | TENANCY) && wanted <= 2;
    };
    let mut sizes: Vec<usize> = index.groups(types).collect();
    sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
    // The fewest values are left if the most frequent ones fill the list.
    let mut left = MOST_TYPES;
    let fewest = sizes.iter().take_while(|size| {
        let more = left > 0;
        left = left.saturating_sub(**size);
        more
    });
    fewest.count() >= wanted as usize
}
