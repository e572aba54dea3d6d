//! What volumes, spread and pod affinity require of the first node for a pod.

use std::collections::{BTreeMap, BTreeSet};

use super::super::provider::Provider;
use super::super::requirement::{Operator, Requirement, Requirements, normalise};
use super::candidate::{NotAdmitted, PREFER_NO_SCHEDULE};
use super::verdict::{RejectionStage, Uncertainty};
use crate::catalog::{CAPACITY_TYPE, HOSTNAME, OS, REGION, TENANCY, TypeSet, ZONE, ZONE_ID, index, retired};
use crate::karpenter::scheduling::input::{
    AmiFamily, NodeClass, Pod, Pool, RequirementSpec, Reservations, SchedulerOptions, Selected, Taint,
    Toleration, TopologyKind, TopologyRule,
};
use crate::karpenter::scheduling::instance_types::{RESERVATION_KEYS, filter_types};
use crate::karpenter::scheduling::pod_requirements::{Relaxation, tolerates};
use crate::steps;

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
            let mut own = Requirements::new();
            for spec in &pool.requirements {
                own.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
            }
            for (key, value) in &pool.labels {
                own.add(key, Requirement::is(value));
            }
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
    for (_, rule) in state.rules(pod) {
        steps::take(20);
        let unsatisfied = || {
            let stage = RejectionStage::Topology { kind: rule.kind, key: rule.key.clone() };
            Err(NotAdmitted::Rejected(stage))
        };
        match (rule.kind, rule.selects) {
            (TopologyKind::Affinity, Selected::Nothing) => return unsatisfied(),
            (TopologyKind::Affinity, Selected::Others) => {
                uncertainties.extend(rule.required.then_some(Uncertainty::PodAffinity));
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

/// The key of a rule for which the first pod may get a domain in which the pool has no node for it: Karpenter takes any of those that
/// the requirements on the key allow, before it looks at types, and tries no other (`nextDomainTopologySpread`, `nextDomainAffinity`).
pub(super) fn misses_a_domain<'p>(
    both: &Requirements,
    pod: &'p Pod,
    state: &Relaxation,
    types: &TypeSet,
    (domains, class, settings): (&Domains, Option<&NodeClass>, &SchedulerOptions),
) -> Option<&'p str> {
    let takes_one = |rule: &&TopologyRule| match rule.kind {
        TopologyKind::Spread => true,
        TopologyKind::Affinity => rule.selects == Selected::Itself,
        TopologyKind::AntiAffinity => false,
    };
    let mut keys = state.rules(pod).map(|(_, rule)| rule).filter(takes_one).map(|rule| rule.key.as_str());
    keys.find(|key| {
        let key = *key;
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
        let has_none = |value: &String| {
            let mut there = both.clone();
            there.add(key, Requirement::is(value));
            filter_types(*types, &there, class, settings).is_empty()
        };
        values.iter().filter(|value| allowed(value)).any(has_none)
    })
}
