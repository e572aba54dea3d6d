//! Evaluates requirements to sets of instance types.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::super::pool_facts::may_be_new;
use super::super::provider::Provider;
use super::super::requirement::{
    LIFECYCLE_LABELS, Operator, Requirement, Requirements, is_restricted, normalise,
};
use super::candidate::PREFER_NO_SCHEDULE;
use super::resources::allocatable;
use super::verdict::{Cause, Conflict, Uncertainty};
use crate::catalog::{
    ARCH, CAPACITY_TYPE, INSTANCE_FAMILY, INSTANCE_TYPE, InstanceType, Label, OS, REGION, TENANCY, TypeSet,
    ZONE, ZONE_ID, find, index, regions, retired,
};
use crate::facts::names::{is_label_value, is_qualified_name};
use crate::facts::region::of_zone_id;
use crate::karpenter::labels::value::MissingZone;
use crate::karpenter::scheduling::input::{
    AmiFamily, Kubelet, NodeClass, Pool, RequirementSpec, Reservation, Reservations, SchedulerOptions, Taint,
    Zone,
};
use crate::steps;

/// The part of the catalogue that a pool's own requirements admit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The types. Empty if there is a conflict other than `minValues`.
    pub types: TypeSet,
    /// What excluded the last type, if none is left. Karpenter then skips the pool, although it stays Ready.
    pub conflict: Option<Conflict>,
    /// Other things that the result depends on.
    pub uncertainties: Vec<Uncertainty>,
}

/// The types that a pool admits by its requirements, labels and class, with default settings.
pub(crate) fn admitted_types(pool: &Pool) -> Admitted {
    admitted(pool, &pool_requirements(pool), &DEFAULT)
}

static DEFAULT: LazyLock<SchedulerOptions> = LazyLock::new(SchedulerOptions::default);

/// The types that requirements admit if the class is not known, with default settings.
pub(crate) fn admitted_without_class(requirements: &Requirements) -> Admitted {
    let is_auto_mode = requirements.provider() == Provider::AutoMode;
    let class = is_auto_mode.then(NodeClass::assumed_in_auto_mode);
    admitted_for_class(requirements, class.as_ref(), &DEFAULT)
}

/// [`admitted_types`] with requirements that are already built, and with settings.
pub fn admitted(pool: &Pool, requirements: &Requirements, settings: &SchedulerOptions) -> Admitted {
    admitted_for_class(requirements, pool.class.as_ref(), settings)
}

fn admitted_for_class(
    requirements: &Requirements,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> Admitted {
    let mut types = usable_by_class(class);
    let mut conflict = None;
    for (key, requirement) in requirements.iter() {
        let Some(matching) = matching(key, requirement, class, settings) else { continue };
        let rest = types.and(&matching);
        if rest.is_empty() && conflict.is_none() {
            let cause = if matching.is_empty() { Cause::Alone } else { Cause::Together };
            conflict = Some(Conflict { key: key.to_owned(), requirement: requirement.clone(), cause });
        }
        types = rest;
    }
    if let Some(offered) = offered(requirements, class, settings) {
        let rest = types.and(&offered);
        if rest.is_empty() && conflict.is_none() {
            let requirement = requirements.get(CAPACITY_TYPE).cloned().unwrap_or_default();
            conflict = Some(Conflict { key: CAPACITY_TYPE.to_owned(), requirement, cause: Cause::Together });
        }
        types = rest;
    }
    if let Some(conflict) = &mut conflict
        && conflict.cause == Cause::Together
        && !without_class(requirements, class, settings).is_empty()
    {
        let is_auto_mode = class.is_some_and(|class| class.provider == Provider::AutoMode);
        conflict.cause = if is_auto_mode { Cause::AutoMode } else { Cause::Class };
    }
    if !types.is_empty() {
        let rest = types.without(&overcommitted(&types, class, settings));
        if rest.is_empty() {
            conflict = Some(Conflict {
                key: INSTANCE_TYPE.to_owned(),
                requirement: requirements.get(INSTANCE_TYPE).cloned().unwrap_or_default(),
                cause: Cause::Negative,
            });
        }
        types = rest;
    }
    if conflict.is_none()
        && !settings.best_effort_min_values
        && let Some((key, wanted, found)) = unmet_min_values(requirements, &types, class, settings)
    {
        let requirement = requirements.get(key).cloned().unwrap_or_default();
        conflict =
            Some(Conflict { key: key.to_owned(), requirement, cause: Cause::MinValues { wanted, found } });
    }
    let uncertainties = uncatalogued_types(requirements).into_iter().collect();
    Admitted { types, conflict, uncertainties }
}

/// The smallest set of the pool's keys that together leave no type, in the order of the keys. Empty if types
/// are left.
pub(crate) fn smallest_conflict(pool: &Pool, settings: &SchedulerOptions) -> Vec<String> {
    let class = pool.class.as_ref();
    let requirements = pool_requirements(pool);
    let sets: Vec<(&str, TypeSet)> =
        requirements.iter().filter_map(|(key, r)| Some((key, matching(key, r, class, settings)?))).collect();
    let rest = |keys: &[usize]| keys.iter().fold(usable_by_class(class), |types, at| types.and(&sets[*at].1));
    let everything: Vec<usize> = (0..sets.len()).collect();
    if !rest(&everything).is_empty() {
        return Vec::new();
    }
    let name = |keys: &[usize]| keys.iter().map(|at| sets[*at].0.to_owned()).collect::<Vec<_>>();
    for &a in &everything {
        if rest(&[a]).is_empty() {
            return name(&[a]);
        }
    }
    for &a in &everything {
        for b in a + 1..sets.len() {
            if rest(&[a, b]).is_empty() {
                return name(&[a, b]);
            }
        }
    }
    for &a in &everything {
        for b in a + 1..sets.len() {
            for c in b + 1..sets.len() {
                if rest(&[a, b, c]).is_empty() {
                    return name(&[a, b, c]);
                }
            }
        }
    }
    // Four or more keys: remove those that are not needed, one after the other.
    let mut keys = everything;
    for at in (0..keys.len()).rev() {
        let mut fewer = keys.clone();
        fewer.remove(at);
        if rest(&fewer).is_empty() {
            keys = fewer;
        }
    }
    name(&keys)
}

/// Everything that is known about the labels of a pool's nodes: requirements, labels, and labels that
/// Karpenter adds.
pub(crate) fn pool_requirements(pool: &Pool) -> Requirements {
    let mut set = Requirements::of(pool.provider());
    for spec in &pool.requirements {
        set.add(&spec.key, Requirement::new(spec.op, &spec.values, spec.min_values));
    }
    for (key, value) in &pool.labels {
        set.add(key, Requirement::is(value));
    }
    if pool.is_of_others() {
        set.add("karpenter.sh/nodepool", Requirement::default());
        return set;
    }
    set.add("karpenter.sh/nodepool", Requirement::is(&pool.name));
    let class = &pool.node_class;
    set.add(&format!("{}/{}", class.group, class.kind.to_lowercase()), Requirement::is(&class.name));
    if pool.provider() == Provider::AutoMode {
        set.add("eks.amazonaws.com/compute-type", Requirement::is("auto"));
    }
    for label in LIFECYCLE_LABELS {
        set.add(label, Requirement::is("true"));
    }
    set
}

/// The types that can meet a requirement. Unknown properties (zones, reservations) are assumed to match.
/// [`None`] if the key does not restrict types.
pub fn matching(
    key: &str,
    requirement: &Requirement,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> Option<TypeSet> {
    let when = |holds: bool| Some(if holds { TypeSet::full() } else { TypeSet::EMPTY });
    let windows = class.is_some_and(|class| class.ami_family == AmiFamily::Windows);
    let none = Reservations::None;
    let reservations = class.map_or(&none, |class| &class.reservations);
    let zones = class.map_or(&[][..], |class| class.zones.as_slice());
    // Whether an unknown string could match: the label must not be required to be absent or to be an integer.
    let unknown = requirement.operator() != Operator::DoesNotExist && !requirement.is_bounded();
    match key {
        OS if windows => {
            let amd64 = index(ARCH).and_then(|arch| arch.with("amd64")).copied().unwrap_or(TypeSet::EMPTY);
            let of = |holds: bool, types: TypeSet| if holds { types } else { TypeSet::EMPTY };
            Some(
                of(requirement.has("windows"), amd64)
                    .or(&of(requirement.allows_absence(), amd64.complement())),
            )
        }
        OS => when(requirement.has("linux")),
        CAPACITY_TYPE => {
            let mut types = when(requirement.has("on-demand"))?;
            if requirement.has("spot") {
                types = types.or(&if settings.listed_spot { *listed_spot() } else { TypeSet::full() });
            }
            if requirement.has("reserved") {
                types = types.or(&reserved_types(reservations, |_| true));
            }
            Some(types)
        }
        TENANCY => when(requirement.has("default") || requirement.has("dedicated")),
        REGION => when(settings.region.as_ref().map_or(unknown, |region| requirement.has(region))),
        ZONE | ZONE_ID => when(may_be_in_zone(key, requirement, zones, settings)),
        "node.kubernetes.io/windows-build" => match class.and_then(|class| class.windows_build) {
            Some(build) => when(requirement.has(build)),
            None => when(if windows { unknown } else { requirement.allows_absence() }),
        },
        RESERVATION_ID | RESERVATION_TYPE | RESERVATION_INTERRUPTIBLE => {
            let matching =
                reserved_types(reservations, |reservation| requirement.has(label_of(reservation, key)));
            if !requirement.allows_absence() {
                return Some(matching);
            }
            // The label of a type lists all reservations for it (`computeRequirements`), on demand as well.
            let has_label = match reservations {
                Reservations::Known(_) => reserved_types(reservations, |_| true),
                Reservations::None | Reservations::Unknown => TypeSet::EMPTY,
            };
            Some(has_label.complement().or(&matching))
        }
        _ => {
            let provider = class.map_or(Provider::Aws, |class| class.provider);
            // A label of another provider is a custom one, which says nothing about types.
            if provider == Provider::AutoMode && key.starts_with("karpenter.k8s.aws/") {
                return None;
            }
            matching_in_catalogue(&provider.catalogue_key(key), requirement)
        }
    }
}

/// Whether nodes can be in a zone that a requirement allows: one with a subnet where these are known, otherwise any of the region.
fn may_be_in_zone(key: &str, requirement: &Requirement, zones: &[Zone], settings: &SchedulerOptions) -> bool {
    let of = |zone: &Zone| if key == ZONE { zone.name.clone() } else { zone.id.clone() };
    if zones.iter().any(|zone| !of(zone).is_empty()) {
        return zones.iter().any(|zone| requirement.has(&of(zone)));
    }
    let region = settings.region.as_deref();
    let is_here = |value: &String| match key {
        ZONE => value.starts_with(region.unwrap_or_default()) && MissingZone::of(value) != MissingZone::Yes,
        _ => of_zone_id(value, regions().iter().copied()).is_none_or(|of| region.is_none_or(|own| of == own)),
    };
    requirement.operator() != Operator::DoesNotExist
        && !requirement.is_bounded()
        && (requirement.operator() != Operator::In || requirement.values.iter().any(is_here))
}

const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
const RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
const RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// The labels of nodes of capacity reservations.
pub(super) const RESERVATION_KEYS: [&str; 3] = [RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE];

/// The value of one of the labels of a reservation.
fn label_of<'r>(reservation: &'r Reservation, key: &str) -> &'r str {
    match key {
        RESERVATION_ID => &reservation.id,
        RESERVATION_TYPE => &reservation.reservation_type,
        _ if reservation.interruptible => "true",
        _ => "false",
    }
}

/// The types of the reservations that pass a test; all types if the reservations are not known.
fn reserved_types(reservations: &Reservations, test: impl Fn(&Reservation) -> bool) -> TypeSet {
    match reservations {
        Reservations::None => TypeSet::EMPTY,
        Reservations::Unknown => TypeSet::full(),
        Reservations::Known(list) => {
            let passing = list.iter().filter(|reservation| test(reservation));
            passing.filter_map(|reservation| find(&reservation.instance_type)).collect()
        }
    }
}

/// The types with an offering that meets all requirements at once, where it matters that one does: capacity type, zone and reservation of
/// an offering go together. [`None`] if each requirement by itself decides.
fn offered(
    requirements: &Requirements,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> Option<TypeSet> {
    let class = class?;
    let has = |key: &str, value: &str| requirements.get(key).is_none_or(|requirement| requirement.has(value));
    let zones = || class.zones.iter().filter(|zone| has(ZONE, &zone.name) && has(ZONE_ID, &zone.id));
    let has_ids = class.zones.iter().all(|zone| !zone.id.is_empty());
    let has_zone = class.zones.is_empty() || !has_ids || zones().next().is_some();
    let Reservations::Known(reservations) = &class.reservations else {
        return (!has_zone).then_some(TypeSet::EMPTY);
    };
    let may_be_unreserved =
        RESERVATION_KEYS.iter().all(|key| requirements.get(key).is_none_or(Requirement::allows_absence));
    let mut types = TypeSet::EMPTY;
    if may_be_unreserved && has_zone {
        types = if has(CAPACITY_TYPE, "on-demand") { TypeSet::full() } else { types };
        if has(CAPACITY_TYPE, "spot") {
            types = types.or(&if settings.listed_spot { *listed_spot() } else { TypeSet::full() });
        }
    }
    Some(types.or(&offered_by(reservations, requirements, class)))
}

/// The types with a reservation in which Karpenter starts nodes that meet all requirements.
fn offered_by(reservations: &[Reservation], requirements: &Requirements, class: &NodeClass) -> TypeSet {
    let has = |key: &str, value: &str| requirements.get(key).is_none_or(|requirement| requirement.has(value));
    let is_offered = |reservation: &&Reservation| {
        let in_subnet = || class.zones.iter().any(|zone| zone.name == reservation.zone);
        !reservation.expiring
            && has(CAPACITY_TYPE, "reserved")
            && has(ZONE, &reservation.zone)
            && (class.zones.is_empty() || in_subnet())
            && RESERVATION_KEYS.iter().all(|key| has(key, label_of(reservation, key)))
    };
    let offered = reservations.iter().filter(is_offered);
    offered.filter_map(|reservation| find(&reservation.instance_type)).collect()
}

fn matching_in_catalogue(key: &str, requirement: &Requirement) -> Option<TypeSet> {
    let index = index(key)?;
    steps::take(16 + 8 * requirement.values.len());
    let named = requirement.values.iter().filter_map(|value| index.with(value));
    let named = named.fold(TypeSet::EMPTY, |set, types| set.or(types));
    Some(match (requirement.operator(), requirement.is_bounded()) {
        (Operator::DoesNotExist, _) => index.absent().or(index.unknown()),
        (Operator::In, _) => named.or(index.unknown()),
        (Operator::Exists, false) => index.absent().complement(),
        (Operator::NotIn, false) => named.complement(),
        (operator, _) => {
            let inside = index.between(requirement.gte, requirement.lte).without(&named).or(index.unknown());
            if operator == Operator::NotIn { inside.or(index.absent()) } else { inside }
        }
    })
}

/// The types that EC2 lists as Spot.
fn listed_spot() -> &'static TypeSet {
    static SPOT: LazyLock<TypeSet> = LazyLock::new(|| TypeSet::matching(|instance| instance.spot));
    &SPOT
}

/// The capacity types of nodes with these requirements, in the order in which Karpenter prefers them at launch.
pub(super) fn launch_order(
    requirements: &Requirements,
    types: &TypeSet,
    class: Option<&NodeClass>,
) -> Vec<&'static str> {
    let allowed = |capacity: &str| requirements.get(CAPACITY_TYPE).is_none_or(|r| r.has(capacity));
    let mut order = Vec::new();
    let reserved = class.map(|class| match &class.reservations {
        Reservations::Known(list) => offered_by(list, requirements, class),
        other => reserved_types(other, |_| true),
    });
    if reserved.is_some_and(|reserved| !types.is_disjoint(&reserved)) && allowed("reserved") {
        order.push("reserved");
    }
    if allowed("spot") && !types.is_disjoint(listed_spot()) {
        order.push("spot");
    }
    if allowed("on-demand") {
        order.push("on-demand");
    }
    order
}

fn capacity_types(reservations: bool) -> impl Iterator<Item = &'static str> {
    ["on-demand", "spot", "reserved"].into_iter().take(if reservations { 3 } else { 2 })
}

/// The types of a set that meet the requirements. On-demand and spot capacity are assumed to be available
/// everywhere.
pub(super) fn filter_types(
    types: TypeSet,
    requirements: &Requirements,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> TypeSet {
    let types = requirements
        .iter()
        .filter_map(|(key, requirement)| matching(key, requirement, class, settings))
        .fold(types, |types, matching| types.and(&matching));
    offered(requirements, class, settings).map_or(types, |offered| types.and(&offered))
}

/// The types that nodes of a class can have, before any requirement is applied.
fn usable_by_class(class: Option<&NodeClass>) -> TypeSet {
    static A1: LazyLock<TypeSet> = LazyLock::new(|| TypeSet::matching(|instance| instance.family() == "a1"));
    static AMD64: LazyLock<TypeSet> =
        LazyLock::new(|| TypeSet::matching(|instance| instance.arch == "amd64"));
    static ACCELERATED_ARM64: LazyLock<TypeSet> = LazyLock::new(|| {
        let has = |instance: &InstanceType, key: &str| matches!(instance.label(key), Label::Is(_));
        TypeSet::matching(|instance| {
            instance.arch == "arm64"
                && (has(instance, "karpenter.k8s.aws/instance-gpu-count")
                    || has(instance, "karpenter.k8s.aws/instance-accelerator-count"))
        })
    });
    static NITRO: LazyLock<TypeSet> = LazyLock::new(|| {
        let types = index("karpenter.k8s.aws/instance-hypervisor").and_then(|index| index.with("nitro"));
        types.copied().unwrap_or(TypeSet::EMPTY)
    });
    let mut types = TypeSet::full();
    let Some(class) = class else { return types };
    if class.provider == Provider::AutoMode {
        return *auto_mode_types();
    }
    match class.ami_family {
        AmiFamily::Al2023 => types = types.without(&A1),
        AmiFamily::Windows => types = types.and(&AMD64),
        // Its image for accelerators is for amd64 alone.
        AmiFamily::Al2 if class.has_alias => types = types.without(&ACCELERATED_ARM64),
        AmiFamily::Al2 | AmiFamily::Bottlerocket | AmiFamily::Custom => {}
    }
    if !class.network_interfaces.is_empty() || class.enclaves || class.nested_virtualization {
        types = types.and(&TypeSet::matching(|instance| class.suits(instance)));
    }
    if class.connection_tracking { types.and(&NITRO) } else { types }
}

/// Families of EC2 from before 2024 that the list of EKS Auto Mode names neither in its version of December 2024 nor in
/// that of 2026 (awsdocs/amazon-eks-user-guide at 06faff14). Newer families may have joined since, and `p3` left.
const NOT_IN_AUTO_MODE: [&str; 26] = [
    "a1", "c1", "c3", "d2", "dl1", "dl2q", "f1", "g3", "g3s", "h1", "hpc6a", "hpc6id", "hpc7a", "hpc7g",
    "i2", "m1", "m2", "m3", "p2", "r3", "t1", "u-3tb1", "u-6tb1", "vt1", "x1", "x1e",
];

/// The types that EKS Auto Mode starts: those of more than one vCPU in families that it lists, except the sizes `nano`,
/// `micro` and `small` (<https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html>).
pub(crate) fn auto_mode_types() -> &'static TypeSet {
    static TYPES: LazyLock<TypeSet> = LazyLock::new(|| {
        let is_small = |size: &str| matches!(size, "nano" | "micro" | "small");
        TypeSet::matching(|instance| {
            instance.vcpu > 1 && !is_small(instance.size()) && !NOT_IN_AUTO_MODE.contains(&instance.family())
        })
    });
    &TYPES
}

fn without_class(
    requirements: &Requirements,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> TypeSet {
    filter_types(TypeSet::full(), requirements, class, settings)
}

/// The types of a set whose reservations exceed their capacity.
fn overcommitted(types: &TypeSet, class: Option<&NodeClass>, settings: &SchedulerOptions) -> TypeSet {
    static PLAIN: LazyLock<TypeSet> =
        LazyLock::new(|| of(&TypeSet::full(), None, &SchedulerOptions::default()));
    fn of(types: &TypeSet, class: Option<&NodeClass>, settings: &SchedulerOptions) -> TypeSet {
        types.iter().filter(|instance| allocatable(instance, class, settings).is_negative()).collect()
    }
    let plain = class.is_none_or(|class| {
        matches!(class.ami_family, AmiFamily::Al2 | AmiFamily::Al2023)
            && class.kubelet == Kubelet::default()
            && class.block_devices.is_empty()
            && !class.instance_store_raid0
    });
    if plain && settings.memory_overhead == 75_000 && settings.reserved_enis == 0 {
        return *PLAIN;
    }
    of(types, class, settings)
}

/// The first key for which the types have fewer distinct values than `minValues` requires: key, required
/// number, actual number. Only values that the requirements allow count (`SatisfiesMinValues` of Karpenter 1.15); before 1.14.3 all
/// values of the types did, with `settings.all_values_count`.
pub(super) fn unmet_min_values<'a>(
    requirements: &'a Requirements,
    types: &TypeSet,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> Option<(&'a str, u32, usize)> {
    // EC2 does not list retired types, so Karpenter does not count them.
    let types = &types.offered();
    let allowed =
        |requirement: &Requirement, value: &str| settings.all_values_count || requirement.has(value);
    requirements.iter().find_map(|(key, requirement)| {
        let wanted = requirement.min_values?;
        let found = match key {
            _ if types.is_empty() => 0,
            ZONE | ZONE_ID if class.is_some_and(|class| !class.zones.is_empty()) => {
                let zones = class.map_or(&[][..], |class| class.zones.as_slice());
                let name = |zone: &Zone| if key == ZONE { zone.name.clone() } else { zone.id.clone() };
                let values: BTreeSet<String> =
                    zones.iter().map(name).filter(|name| allowed(requirement, name)).collect();
                values.len()
            }
            // How many zones there are is not known, but a list of them is the most that can count.
            ZONE | ZONE_ID | REGION
                if !settings.all_values_count && requirement.operator() == Operator::In =>
            {
                requirement.values.len()
            }
            ZONE | ZONE_ID | REGION => return None,
            CAPACITY_TYPE => {
                let reserved =
                    class.map_or(TypeSet::EMPTY, |class| reserved_types(&class.reservations, |_| true));
                let of_types = capacity_types(!types.is_disjoint(&reserved));
                of_types.filter(|capacity| allowed(requirement, capacity)).count()
            }
            RESERVATION_ID | RESERVATION_TYPE | RESERVATION_INTERRUPTIBLE => {
                let list = match class.map(|class| &class.reservations) {
                    Some(Reservations::Known(list)) => list.as_slice(),
                    Some(Reservations::Unknown) => return None,
                    Some(Reservations::None) | None => &[],
                };
                let of_types =
                    list.iter().filter(|one| find(&one.instance_type).is_some_and(|t| types.contains(t)));
                let values: BTreeSet<&str> = of_types.map(|one| label_of(one, key)).collect();
                values.into_iter().filter(|value| allowed(requirement, value)).count()
            }
            TENANCY => {
                ["default", "dedicated"].iter().filter(|tenancy| allowed(requirement, tenancy)).count()
            }
            OS => 1,
            _ => index(&requirements.provider().catalogue_key(key)).map_or(0, |index| index.distinct(types)),
        };
        (found < wanted as usize).then_some((key, wanted, found))
    })
}

/// The names of types or families, if the requirements allow only names that are not in the catalogue.
pub(super) fn uncatalogued_types(requirements: &Requirements) -> Option<Uncertainty> {
    [INSTANCE_TYPE, INSTANCE_FAMILY].iter().find_map(|key| {
        let requirement = requirements.get(&requirements.provider().provider_key(key));
        let requirement = requirement.filter(|requirement| requirement.operator() == Operator::In)?;
        let known = |name: &String| match *key {
            INSTANCE_TYPE => find(name).is_some(),
            _ => index(key).is_some_and(|index| index.with(name).is_some()),
        };
        if requirement.values.iter().any(known) {
            return None;
        }
        let may_be_new: Vec<String> =
            requirement.values.iter().filter(|name| may_be_new(key, name)).cloned().collect();
        (!may_be_new.is_empty()).then_some(Uncertainty::NewTypes(may_be_new))
    })
}

/// Whether all of the types are no longer listed by EC2.
pub(super) fn all_retired(types: &TypeSet) -> bool {
    types.is_subset(retired())
}

/// Why Karpenter's own validation rejects a pool, so that it never becomes Ready.
pub(super) fn validation_error(pool: &Pool) -> Option<String> {
    let keys = pool.requirements.iter().map(|spec| &spec.key).chain(pool.labels.iter().map(|(key, _)| key));
    for key in keys {
        if is_restricted(key) || normalise(key) == "karpenter.sh/nodepool" {
            return Some(format!("{key} is set by Karpenter and must not be required"));
        }
        if !is_qualified_name(key) {
            return Some(format!("{key} is not a label key"));
        }
    }
    if let Some(problem) = pool.requirements.iter().find_map(requirement_error) {
        return Some(problem);
    }
    if let Some((key, value)) = pool.labels.iter().find(|(_, value)| !is_label_value(value)) {
        return Some(format!("{value} is not a value for the label {key}"));
    }
    let taints: Vec<&Taint> = pool.taints.iter().chain(&pool.startup_taints).collect();
    let is_effect = |effect: &str| matches!(effect, "NoSchedule" | PREFER_NO_SCHEDULE | "NoExecute" | "");
    if let Some(wrong) = taints.iter().find(|taint| !is_effect(&taint.effect)) {
        return Some(format!("{} is not an effect of taints", wrong.effect));
    }
    let twice =
        |at: usize| taints[..at].iter().any(|t| t.key == taints[at].key && t.effect == taints[at].effect);
    (0..taints.len()).find(|at| twice(*at)).map(|at| format!("the taint {} is there twice", taints[at].key))
}

fn requirement_error(spec: &RequirementSpec) -> Option<String> {
    let key = &spec.key;
    let wanted = spec.min_values.map_or(0, |wanted| wanted as usize);
    if let Some(value) = spec.values.iter().find(|value| !is_label_value(value)) {
        return Some(format!("{value} is not a value for the label {key}"));
    }
    match spec.op {
        Operator::In if spec.values.is_empty() => Some(format!("{key} In needs a value")),
        Operator::In if spec.values.len() < wanted => Some(format!("{key} has fewer values than minValues")),
        Operator::In => {
            let valid = valid_values(key)?;
            let count = spec.values.iter().filter(|value| valid.contains(&value.as_str())).count();
            (count == 0 || count < wanted).then(|| format!("{key} has too few valid values"))
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte if !is_bound(&spec.values) => {
            Some(format!("{key} {} needs one integer, not negative", spec.op))
        }
        _ => None,
    }
}

/// The only values that Karpenter accepts for a key.
pub(super) fn valid_values(key: &str) -> Option<&'static [&'static str]> {
    match normalise(key) {
        CAPACITY_TYPE => Some(&["on-demand", "spot", "reserved"]),
        TENANCY => Some(&["default", "dedicated"]),
        _ => None,
    }
}

/// Whether the values are valid for `Gt` and `Lt`: one non-negative integer.
pub(super) fn is_bound(values: &[String]) -> bool {
    matches!(values, [value] if value.parse::<i64>().is_ok_and(|number| number >= 0))
}

/// The custom keys for which Karpenter would have to choose a value from an empty range, which makes it
/// panic.
pub(super) fn crashing_keys(requirements: &Requirements) -> BTreeSet<&str> {
    let provider = requirements.provider();
    let crash = |(key, r): &(&str, &Requirement)| !provider.is_well_known(key) && r.is_empty_range();
    requirements.iter().filter(crash).map(|(key, _)| key).collect()
}
