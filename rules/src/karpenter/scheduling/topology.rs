//! What volumes, spread and pod affinity require of the first node for a pod.

use std::collections::{BTreeMap, BTreeSet};

use super::super::provider::Provider;
use super::super::requirement::{Operator, Requirement, Requirements, is_well_known, normalise};
use super::candidate::{NotAdmitted, PREFER_NO_SCHEDULE};
use super::scheduler::Scheduler;
use super::verdict::{RejectionStage, Uncertainty};
use crate::catalog::{CAPACITY_TYPE, HOSTNAME, OS, REGION, TENANCY, TypeSet, ZONE, ZONE_ID, index, retired};
use crate::karpenter::scheduling::input::{
    AmiFamily, NodeClass, Pod, Pool, RequirementSpec, Reservations, SchedulerOptions, Selected, Taint,
    Toleration, TopologyKind, TopologyRule,
};
use crate::karpenter::scheduling::instance_types::{RESERVATION_KEYS, filter_types};
use crate::karpenter::scheduling::pod_requirements::{Relaxation, pod_requirements, tolerates};
use crate::steps;

const NODEPOOL: &str = "karpenter.sh/nodepool";

/// The values of labels that nodes can be told apart by, of all pools together (`buildDomainGroups` of Karpenter 1.15).
#[derive(Default)]
pub(super) struct Domains {
    /// The values that pools list in their requirements and labels, by key.
    listed: BTreeMap<String, BTreeSet<String>>,
    /// The values of the other requirements of pools: Karpenter takes the values of `NotIn` for domains as well.
    excluded: BTreeMap<String, BTreeSet<String>>,
    /// The keys for which classes of the pools have values: reservations, placement groups and the build of Windows.
    of_classes: BTreeSet<&'static str>,
    /// The taints and requirements of each pool, where a taint of some pool only prefers other pods.
    preferring: Vec<(Vec<Taint>, Requirements)>,
}

impl Domains {
    /// The domains of pools. What Karpenter itself adds to the labels of nodes (the names of the pool and of the class) is no domain.
    pub(super) fn of<'p>(pools: impl Iterator<Item = &'p Pool> + Clone) -> Self {
        let mut domains = Self::default();
        let prefers = |taint: &Taint| taint.effect == PREFER_NO_SCHEDULE;
        let some_prefers = pools.clone().any(|pool| pool.taints.iter().any(prefers));
        for pool in pools {
            domains.of_classes.extend(keys_of_class(pool.class.as_ref()));
            let own = written(pool);
            for (key, requirement) in own.iter() {
                let is_list = requirement.operator() == Operator::In;
                let by_key = if is_list { &mut domains.listed } else { &mut domains.excluded };
                by_key.entry(key.to_owned()).or_default().extend(requirement.values.iter().cloned());
            }
            if some_prefers {
                domains.preferring.push((pool.taints.clone(), own));
            }
        }
        domains
    }

    /// The values that pools list for a label. `None` if no pool lists any.
    pub(super) fn listed(&self, key: &str) -> Option<&BTreeSet<String>> {
        self.listed.get(key)
    }

    /// The domains of a label that neither types nor classes have values for.
    fn closed(&self, key: &str) -> Vec<&String> {
        self.listed.get(key).into_iter().chain(self.excluded.get(key)).flatten().collect()
    }

    /// Whether pod affinity and anti-affinity over a label find a domain that a node can have: only pools count of which the pod
    /// tolerates all taints, also those that only prefer other pods (`ForEachDomain` without a taint policy).
    fn is_found(&self, key: &str, known: Option<&Requirement>, tolerations: &[Toleration]) -> bool {
        let is_tolerated = |taint: &Taint| tolerations.iter().any(|one| tolerates(one, taint));
        let has_domain = |own: &Requirements| match (own.get(key), known) {
            (Some(own), Some(known)) => own.overlaps(known),
            _ => true,
        };
        let counts =
            |(taints, own): &(Vec<Taint>, Requirements)| taints.iter().all(is_tolerated) && has_domain(own);
        self.preferring.is_empty() || self.preferring.iter().any(counts)
    }

    /// Whether the types or the classes of pools have values for a label, whatever pools list.
    fn is_open(&self, key: &str, provider: Provider) -> bool {
        // Karpenter looks the key up as it is written: the old spellings of labels have no domains.
        let is_of_types = normalise(key) == key && index(&provider.catalogue_key(key)).is_some();
        is_of_types
            || matches!(key, ZONE | ZONE_ID | REGION | CAPACITY_TYPE | OS | TENANCY)
            || self.of_classes.contains(key)
    }
}

/// What a pool writes about the labels of its nodes.
fn written(pool: &Pool) -> Requirements {
    let mut own = Requirements::new();
    for spec in &pool.requirements {
        own.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
    }
    for (key, value) in &pool.labels {
        own.add(key, Requirement::is(value));
    }
    own
}

impl Scheduler<'_> {
    /// The domains of a label that count for a pod. Zones that nothing names are those that the pod asks for, if it asks for some.
    pub(crate) fn domains_for(
        &self,
        pod: &Pod,
        key: &str,
        counts: impl Fn(&[Taint]) -> bool,
    ) -> Option<BTreeSet<String>> {
        self.domains_of(key, counts).or_else(|| {
            let state = Relaxation {
                term: pod.terms.first().filter(|_| pod.terms.len() < 2),
                last_term: true,
                preference: None,
                dropped_rules: 0,
                tolerate_prefer_no_schedule: false,
            };
            let asked = pod_requirements(pod, &state);
            let asked = asked.get(key).filter(|asked| asked.operator() == Operator::In)?;
            Some(asked.values.iter().cloned().collect())
        })
    }

    /// The domains of a label that the pools with some taints make (`buildDomainGroups`). [`None`] if they are not known.
    fn domains_of(&self, key: &str, counts: impl Fn(&[Taint]) -> bool) -> Option<BTreeSet<String>> {
        // Karpenter counts the values of all types, whatever else the pool requires.
        let every = TypeSet::full().without(retired());
        let mut all = BTreeSet::new();
        for pool in self.candidates.iter().map(|candidate| candidate.pool) {
            if counts(&pool.taints) {
                let written = written(pool);
                let own = written.get(key);
                all.extend(domains_of_pool(pool, own, &every, key, self.settings.region.as_deref())?);
                // Listed values count even if no node can have them.
                let listed = own.filter(|own| own.operator() == Operator::In);
                all.extend(listed.into_iter().flat_map(|own| own.values.iter().cloned()));
            }
        }
        Some(all)
    }
}

/// The values of a label on nodes of a pool that have one of some types.
pub(crate) fn domains_of_pool(
    pool: &Pool,
    own: Option<&Requirement>,
    types: &TypeSet,
    key: &str,
    region: Option<&str>,
) -> Option<BTreeSet<String>> {
    let of = |values: &[&str]| -> BTreeSet<String> {
        let allowed = values.iter().filter(|value| own.is_none_or(|own| own.has(value)));
        allowed.map(|value| (*value).to_owned()).collect()
    };
    let class = pool.class.as_ref();
    let zones = class.map_or(&[][..], |class| class.zones.as_slice());
    let is_windows = class.is_some_and(|class| class.ami_family == AmiFamily::Windows);
    match key {
        // Karpenter looks the key up as it is written.
        _ if normalise(key) != key => return Some(BTreeSet::new()),
        CAPACITY_TYPE => {
            let reserved = class.is_some_and(|class| class.reservations != Reservations::None);
            let spot = types.iter().any(|t| t.spot);
            let all = [("on-demand", true), ("spot", spot), ("reserved", reserved)];
            let offered: Vec<&str> =
                all.into_iter().filter(|(_, is_offered)| *is_offered).map(|(name, _)| name).collect();
            return Some(of(&offered));
        }
        ZONE if !zones.is_empty() => {
            return Some(of(&zones.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>()));
        }
        ZONE_ID if zones.iter().any(|zone| !zone.id.is_empty()) => {
            return Some(of(&zones.iter().map(|zone| zone.id.as_str()).collect::<Vec<_>>()));
        }
        REGION if region.is_some() => return Some(of(&region.into_iter().collect::<Vec<_>>())),
        OS if !is_windows => return Some(of(&["linux"])),
        TENANCY => return Some(of(&["default", "dedicated"])),
        NODEPOOL => return Some(BTreeSet::new()),
        _ => {}
    }
    if let Some(index) = index(&pool.provider().catalogue_key(key)) {
        let on_types = |value: &&str| index.with(value).is_some_and(|with| !with.is_disjoint(types));
        return Some(of(&index.values().iter().copied().filter(on_types).collect::<Vec<_>>()));
    }
    match own {
        Some(own) if own.operator() == Operator::In => Some(own.values.iter().cloned().collect()),
        _ if is_well_known(key) => None,
        // Of a requirement that excludes values, Karpenter takes these for domains.
        own => Some(own.into_iter().flat_map(|own| own.values.iter().cloned()).collect()),
    }
}

/// The labels that a class gives values to, or may give if it is not known.
fn keys_of_class(class: Option<&NodeClass>) -> Vec<&'static str> {
    let has = |test: fn(&NodeClass) -> bool| class.is_none_or(test);
    let reserves = |class: &NodeClass| match &class.reservations {
        Reservations::None => false,
        Reservations::Unknown => true,
        Reservations::Known(list) => !list.is_empty(),
    };
    let mut keys = Vec::new();
    if has(reserves) {
        keys.extend(RESERVATION_KEYS);
    }
    if has(|class| class.placement_group) {
        keys.extend(["karpenter.k8s.aws/placement-group-id", "karpenter.k8s.aws/placement-group-partition"]);
    }
    if has(|class| class.ami_family == AmiFamily::Windows) {
        keys.push("node.kubernetes.io/windows-build");
    }
    keys
}

/// The requirements of a node with those of one alternative of the pod's volumes.
pub(super) fn with_volumes(
    mut both: Requirements,
    volumes: &[RequirementSpec],
) -> Result<Requirements, NotAdmitted> {
    let mut required = Requirements::new();
    for spec in volumes {
        required.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
    }
    both.compatible(&required).map_err(|clash| NotAdmitted::Rejected(RejectionStage::Volumes(clash)))?;
    both.add_all(&required);
    Ok(both)
}

/// Narrows the requirements of a node to the domains in which its rules of spread and pod affinity allow the first pod
/// (`Topology.AddRequirements` without other pods), and says what is not known of them.
pub(super) fn narrow_to_domains(
    both: &mut Requirements,
    pod: &Pod,
    state: &Relaxation,
    tolerations: &[Toleration],
    domains: &Domains,
) -> Result<Vec<Uncertainty>, NotAdmitted> {
    let mut uncertainties = Vec::new();
    for (_, rule) in state.rules(pod).filter(|(_, rule)| rule.selects != Selected::Placed) {
        steps::take(20);
        let unsatisfied = || {
            let stage = RejectionStage::Topology { kind: rule.kind, key: rule.key.clone() };
            Err(NotAdmitted::Rejected(stage))
        };
        match (rule.kind, rule.selects) {
            (TopologyKind::Affinity, Selected::Nothing) => return unsatisfied(),
            (TopologyKind::Affinity, Selected::Others) => {
                let key = if rule.key == HOSTNAME { NODEPOOL } else { &rule.key };
                let joined = rule.domains.as_ref().map(|values| {
                    let mut joined = Requirements::of(both.provider());
                    joined.add(key, Requirement::new(Operator::In, values, None));
                    joined
                });
                if joined.as_ref().is_some_and(|joined| both.compatible(joined).is_err()) {
                    return unsatisfied();
                }
                both.add_all(joined.as_ref().unwrap_or(&Requirements::new()));
                // Whether there is room on the nodes of the others is not known.
                let is_open = joined.is_none() || rule.key == HOSTNAME;
                uncertainties.extend((rule.required && is_open).then_some(Uncertainty::PodAffinity));
                continue;
            }
            // Each new node is a domain of its own.
            _ if rule.key == HOSTNAME => continue,
            _ => {}
        }
        let is_open = domains.is_open(&rule.key, both.provider());
        let domain = if is_open {
            Requirement::new::<&str>(Operator::Exists, &[], None)
        } else {
            Requirement::new(Operator::In, &domains.closed(&rule.key), None)
        };
        let known = both.get(&rule.key);
        if !is_open && known.is_none() || known.is_some_and(|known| !known.overlaps(&domain)) {
            return unsatisfied();
        }
        if rule.kind != TopologyKind::Spread && !domains.is_found(&rule.key, known, tolerations) {
            return unsatisfied();
        }
        if !is_open || index(&both.provider().catalogue_key(&rule.key)).is_some() {
            both.add(&rule.key, domain);
        }
    }
    Ok(uncertainties)
}

/// That the first pod may get a domain of a rule in which the pool has no node for it: Karpenter takes any of those that
/// the requirements on the key allow, before it looks at types, and tries no other (`nextDomainTopologySpread`, `nextDomainAffinity`).
pub(super) fn misses_a_domain(
    both: &Requirements,
    pod: &Pod,
    state: &Relaxation,
    types: &TypeSet,
    (domains, class, settings): (&Domains, Option<&NodeClass>, &SchedulerOptions),
) -> Option<Uncertainty> {
    let takes_one = |rule: &&TopologyRule| match rule.kind {
        _ if rule.selects == Selected::Placed => false,
        TopologyKind::Spread => true,
        TopologyKind::Affinity => rule.selects == Selected::Itself || joins(rule),
        TopologyKind::AntiAffinity => false,
    };
    let has_none = |key: &str, value: &str| {
        let mut there = both.clone();
        there.add(key, Requirement::is(value));
        filter_types(*types, &there, class, settings).is_empty()
    };
    let mut rules = state.rules(pod).map(|(_, rule)| rule).filter(takes_one);
    let missing = rules.find(|rule| {
        let key = rule.key.as_str();
        // The others may be in any of these.
        if let Some(values) = rule.domains.as_ref().filter(|_| joins(rule)) {
            return values.iter().any(|value| has_none(key, value));
        }
        let allowed = |value: &str| both.get(key).is_none_or(|known| known.has(value));
        if let Some(index) = index(&both.provider().catalogue_key(key)) {
            let current = types.without(retired());
            let mut values = index.values().iter().copied().filter(|value| allowed(value));
            return values.any(|value| {
                steps::take(8);
                let with = index.with(value).map_or(TypeSet::EMPTY, |with| with.without(retired()));
                !with.is_empty() && with.is_disjoint(&current)
            });
        }
        let mut values = domains.listed(key).cloned().unwrap_or_default();
        let zones = class.map_or(&[][..], |class| class.zones.as_slice());
        match key {
            ZONE => values.extend(zones.iter().map(|zone| zone.name.clone())),
            ZONE_ID => values.extend(zones.iter().map(|zone| zone.id.clone())),
            CAPACITY_TYPE => {
                let reserves = class.is_some_and(|class| class.reservations != Reservations::None);
                let all = ["on-demand", "spot", "reserved"].into_iter().take(if reserves { 3 } else { 2 });
                values.extend(all.map(str::to_owned));
            }
            _ => return false,
        }
        values.iter().filter(|value| allowed(value)).any(|value| has_none(key, value))
    });
    missing.map(|rule| match joins(rule) {
        true => Uncertainty::PodAffinity,
        false => Uncertainty::DomainTaken(rule.key.clone()),
    })
}

/// Whether a rule makes a pod join others of which it is known where they may be.
fn joins(rule: &TopologyRule) -> bool {
    rule.selects == Selected::Others && rule.domains.is_some() && rule.key != HOSTNAME
}
