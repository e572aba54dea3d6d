//! NodeOverlays: which apply, and to which types of which pools (`pkg/controllers/nodeoverlay` of Karpenter 1.15).

use super::super::requirement::{Requirement, Requirements, normalise};
use super::instance_types::filter_types;
use crate::catalog::{CAPACITY_TYPE, InstanceType, TypeSet, ZONE, index};
use crate::karpenter::scheduling::input::{Overlay, Pool, PriceChange, ResourceList, SchedulerOptions};

/// The types of a pool to which an overlay gives resources.
pub(super) type AppliedOverlay<'a> = (TypeSet, &'a ResourceList);

/// An overlay that does not contradict an earlier one, with the types of each pool that it is for, by the name of the pool.
pub(super) struct EffectiveOverlay<'a> {
    overlay: &'a Overlay,
    requirements: Requirements,
    types: Vec<(&'a str, TypeSet)>,
}

/// The overlays that are applied, given all with the highest weight first. An overlay that sets one property of a type differently from another of its
/// weight is left out as a whole (`validateAndUpdateInstanceTypeOverrides`).
pub(super) fn effective_overlays<'a>(
    overlays: &[&'a Overlay],
    pools: &'a [Pool],
    settings: &SchedulerOptions,
) -> Vec<EffectiveOverlay<'a>> {
    let mut out: Vec<EffectiveOverlay<'a>> = Vec::new();
    for overlay in overlays {
        let mut requirements = Requirements::new();
        for spec in &overlay.requirements {
            requirements.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
        }
        let types = pools.iter().map(|pool| (pool.name.as_str(), types_of(pool, &requirements, settings)));
        let one = EffectiveOverlay { overlay, types: types.collect(), requirements };
        if !out.iter().any(|other| contradict(other, &one)) {
            out.push(one);
        }
    }
    out
}

/// The resources that overlays give the types of a pool, highest weight first.
pub(super) fn of_pool<'a>(overlays: &[EffectiveOverlay<'a>], pool: &Pool) -> Vec<AppliedOverlay<'a>> {
    let of = |one: &EffectiveOverlay<'a>| {
        let (_, types) = one.types.iter().find(|(name, _)| *name == pool.name)?;
        (!one.overlay.capacity.is_empty()).then_some((*types, &one.overlay.capacity))
    };
    overlays.iter().filter_map(of).collect()
}

/// The price that an overlay sets for types of a pool, where nodes meet its requirements.
pub(super) struct PriceOverlay {
    types: TypeSet,
    requirements: Requirements,
    change: PriceChange,
}

/// The prices that overlays set for the types of a pool, highest weight first.
pub(super) fn prices_of(overlays: &[EffectiveOverlay<'_>], pool: &Pool) -> Vec<PriceOverlay> {
    let of = |one: &EffectiveOverlay<'_>| {
        let (_, types) = one.types.iter().find(|(name, _)| *name == pool.name)?;
        let requirements = one.requirements.clone();
        one.overlay.price.map(|change| PriceOverlay { types: *types, requirements, change })
    };
    overlays.iter().filter_map(of).collect()
}

/// The price of a type on a node with these requirements, in millionths of a dollar per hour, given its list price.
pub(super) fn overlaid_price(
    overlays: &[PriceOverlay],
    instance: &InstanceType,
    requirements: &Requirements,
    price: i128,
) -> i128 {
    let is_it = |one: &&PriceOverlay| {
        one.types.contains(instance) && one.requirements.intersects(requirements).is_ok()
    };
    overlays.iter().find(is_it).map_or(price, |one| one.change.of(price))
}

/// What overlays give a type of a resource, in thousandths. [`None`] if none says anything.
pub(super) fn overlaid(
    overlays: &[AppliedOverlay<'_>],
    instance: &InstanceType,
    resource: &str,
) -> Option<i128> {
    let mut of = overlays.iter().filter(|(types, _)| types.contains(instance));
    of.find_map(|(_, capacity)| capacity.get(resource)).copied()
}

/// The types of a pool that an overlay selects (`getOverlaidOfferings`): by the labels of the type, of its offerings and of the pool's
/// template, and by the name of the pool. The pool's requirements do not count.
fn types_of(pool: &Pool, wanted: &Requirements, settings: &SchedulerOptions) -> TypeSet {
    let mut of_type = Requirements::new();
    for (key, requirement) in wanted.iter() {
        if is_of_types(key) {
            of_type.add(key, requirement.clone());
            continue;
        }
        let label = match key {
            "karpenter.sh/nodepool" => Some(&pool.name),
            _ => pool.labels.iter().find(|(label, _)| normalise(label) == key).map(|(_, value)| value),
        };
        if !label.map_or(requirement.allows_absence(), |value| requirement.has(value)) {
            return TypeSet::EMPTY;
        }
    }
    filter_types(TypeSet::full(), &of_type, pool.class.as_ref(), settings)
}

/// Whether types or their offerings have a label.
fn is_of_types(key: &str) -> bool {
    let of_offerings = [CAPACITY_TYPE, ZONE, "topology.kubernetes.io/region", "topology.k8s.aws/zone-id"];
    let others =
        ["kubernetes.io/os", "node.kubernetes.io/windows-build", "karpenter.k8s.aws/instance-tenancy"];
    index(key).is_some()
        || of_offerings.contains(&key)
        || others.contains(&key)
        || key.starts_with("karpenter.k8s.aws/capacity-reservation-")
}

fn contradict(a: &EffectiveOverlay<'_>, b: &EffectiveOverlay<'_>) -> bool {
    let shares_types = || {
        let both = a.types.iter().zip(&b.types);
        both.into_iter().any(|((_, first), (_, second))| !first.is_disjoint(second))
    };
    let shares_resource = || a.overlay.capacity.keys().any(|name| b.overlay.capacity.contains_key(name));
    let shares_price = || {
        a.overlay.price.is_some()
            && b.overlay.price.is_some()
            && a.requirements.intersects(&b.requirements).is_ok()
    };
    a.overlay.weight == b.overlay.weight && (shares_resource() || shares_price()) && shares_types()
}
