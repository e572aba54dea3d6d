//! A pool that can start nodes for pods: the nodes that it can start, and whether one of them takes a pod.
//!
//! The order of the checks is that of Karpenter 1.15: `NodeClaim.CanAdd` and `filterInstanceTypesByRequirements` of
//! `pkg/controllers/provisioning/scheduling/nodeclaim.go`, after the limits, which `Scheduler.addToNewNodeClaim` applies.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::super::provider::Provider;
use super::super::requirement::{Operator, Requirements};
use super::overlay::{
    AppliedOverlay, EffectiveOverlay, PriceOverlay, of_pool, overlaid, overlaid_price, prices_of,
};
use super::resources::{NodeResources, add, allocatable, capacity, pod_requests};
use super::topology::{Domains, misses_a_domain, narrow_to_domains, with_volumes};
use super::unknown::{
    cluster_uncertainties, roomier_classes, undocumented_label, with_known_interfaces, with_known_labels,
    with_unknown,
};
use super::verdict::{Admission, Outcome, RejectionStage, Uncertainty, sorted_unique};
use crate::catalog::{CAPACITY_TYPE, InstanceType, TypeSet, ZONE, ZONE_ID, cheapest_first, retired};
use crate::karpenter::scheduling::input::{
    DaemonSet, HostPort, NodeClass, Pod, Pool, Reservations, ResourceList, SchedulerOptions, Taint, Term,
    Toleration,
};
use crate::karpenter::scheduling::instance_types::{
    Admitted, admitted, filter_types, launch_order, pool_requirements, uncatalogued_types, unmet_min_values,
    validation_error,
};
use crate::karpenter::scheduling::pod_requirements::{
    Relaxation, host_ports_conflict, pod_requirements, tolerates,
};
use crate::steps;

pub(crate) const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// The letters of the zones of a region in which subnets usually are.
const USUAL_ZONES: [char; 4] = ['a', 'b', 'c', 'd'];

pub(super) struct Candidate<'a> {
    pub(super) position: usize,
    pub(super) pool: &'a Pool,
    pub(super) nodes: Arc<PoolNodes>,
    pub(super) daemons: Vec<DaemonPod<'a>>,
    /// The types of the pool by what DaemonSets request on them.
    daemon_requests: Vec<(TypeSet, ResourceList)>,
    /// The overlays for the types of the pool, highest weight first.
    overlays: Vec<AppliedOverlay<'a>>,
    /// The prices that overlays set, highest weight first.
    prices: Vec<PriceOverlay>,
    room: Room,
}

/// What nodes of the types of a pool have for pods, kept from the second pod on: many schedulers are asked about one pod only.
#[derive(Default)]
struct Room {
    was_asked: AtomicBool,
    /// With the settings that it is for, by the address of the type.
    known: OnceLock<(SchedulerOptions, HashMap<usize, NodeResources>)>,
}

/// What decides about a pod besides the pool: settings, and the values that all pools list for labels.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'s> {
    pub(super) settings: &'s SchedulerOptions,
    pub(super) domains: &'s Domains,
}

pub(super) struct PoolNodes {
    pub(super) requirements: Requirements,
    pub(super) types: TypeSet,
    within_limits: TypeSet,
    uncertainties: Vec<Uncertainty>,
}

/// The part of a [`Scheduler`](super::Scheduler) for one pool that depends on the pool alone: its requirements, types and
/// limits. It takes most of the time of a decision, and is worked out once for all pods.
pub struct PreparedPool(pub(super) Result<Arc<PoolNodes>, RejectionStage>);

impl PreparedPool {
    /// Applies the requirements and the limits of a pool. Pods that EKS changes are not a part of it: `settings.eks`
    /// has no effect.
    pub fn new(pool: &Pool, settings: &SchedulerOptions) -> Self {
        Self(PoolNodes::new(pool, &[], settings).map(Arc::new))
    }
}

/// A DaemonSet on the nodes of a pool.
pub(super) struct DaemonPod<'a> {
    pub(super) types: TypeSet,
    pub(super) requests: ResourceList,
    pub(super) ports: Vec<&'a HostPort>,
}

/// Why a pool does not certainly admit a pod.
pub(super) enum NotAdmitted {
    Rejected(RejectionStage),
    Undecided(Vec<Uncertainty>),
}

impl PoolNodes {
    /// # Errors
    /// The pool starts no nodes for pending pods.
    fn new(
        pool: &Pool,
        overlays: &[EffectiveOverlay<'_>],
        settings: &SchedulerOptions,
    ) -> Result<Self, RejectionStage> {
        // `Provisioner.NewScheduler` leaves out static pools and those that are not Ready. A pool with placeholders may be
        // valid once they are filled in.
        if pool.replicas.is_some_and(|nodes| nodes == 0 || !settings.standing_nodes) {
            return Err(RejectionStage::Static);
        }
        if pool.uncertainties.is_empty()
            && !pool.is_of_others()
            && let Some(problem) = validation_error(pool)
        {
            return Err(RejectionStage::Invalid(problem));
        }
        let class = pool.class.as_ref();
        let requirements = pool_requirements(pool);
        let Admitted { types, conflict, mut uncertainties } = admitted(pool, &requirements, settings);
        if pool.provider() == Provider::Other {
            uncertainties.push(Uncertainty::OtherProvider(pool.node_class.name.clone()));
        }
        uncertainties.extend(pool.uncertainties.iter().cloned());
        let reserved = || requirements.get(CAPACITY_TYPE).is_some_and(|r| r.has("reserved"));
        if conflict.is_some() && reserved() {
            uncertainties.extend(pool.missing_class());
        }
        // `NewScheduler` skips a pool whose requirements filter out all types.
        if uncertainties.is_empty() && conflict.is_some() {
            return Err(RejectionStage::NoTypes(conflict));
        }
        let overlays = of_pool(overlays, pool);
        let affordable = types.iter().filter(|instance| {
            let node = capacity(instance, class, settings);
            let of = |name: &str| overlaid(&overlays, instance, name).unwrap_or_else(|| node.get(name));
            pool.limits.iter().all(|(name, limit)| of(name) <= *limit)
        });
        let within_limits = if pool.limits.is_empty() { types } else { affordable.collect() };
        Ok(Self { requirements, types, within_limits, uncertainties })
    }
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        position: usize,
        pool: &'a Pool,
        daemonsets: &[&'a DaemonSet],
        overlays: &[EffectiveOverlay<'a>],
        settings: &SchedulerOptions,
    ) -> Result<Self, RejectionStage> {
        let nodes = PoolNodes::new(pool, overlays, settings)?;
        let runs = |set: &&'a DaemonSet| DaemonPod::new(set, pool, &nodes.requirements, settings);
        let daemons = daemonsets.iter().filter_map(runs).collect();
        let prices = prices_of(overlays, pool);
        let overlays = of_pool(overlays, pool);
        Ok(Self { prices, ..Self::of_nodes(position, pool, Arc::new(nodes), daemons, overlays) })
    }

    pub(super) fn of_nodes(
        position: usize,
        pool: &'a Pool,
        nodes: Arc<PoolNodes>,
        daemons: Vec<DaemonPod<'a>>,
        overlays: Vec<AppliedOverlay<'a>>,
    ) -> Self {
        let mut daemon_requests = vec![(nodes.types, ResourceList::new())];
        for daemon in daemons.iter().filter(|daemon| !daemon.requests.is_empty()) {
            let mut split = Vec::with_capacity(daemon_requests.len());
            for (types, requests) in daemon_requests {
                let with = types.and(&daemon.types);
                let without = types.without(&daemon.types);
                if !with.is_empty() {
                    let mut requests = requests.clone();
                    add(&mut requests, &daemon.requests);
                    split.push((with, requests));
                }
                if !without.is_empty() {
                    split.push((without, requests));
                }
            }
            daemon_requests = split;
        }
        Self {
            position,
            pool,
            nodes,
            daemons,
            daemon_requests,
            overlays,
            prices: Vec::new(),
            room: Room::default(),
        }
    }

    /// The outcome of the pool for the pod by itself.
    pub(super) fn outcome(
        &self,
        pod: &Pod,
        states: &[Relaxation],
        tolerations: &[Toleration],
        need: &ResourceList,
        conditions: Conditions<'_>,
    ) -> Outcome {
        let mut uncertainties = Vec::new();
        let mut deepest: Option<RejectionStage> = None;
        for (relaxations, state) in states.iter().enumerate() {
            match self.admit(pod, state, tolerations, need, conditions) {
                // A pod that is scheduled is not relaxed further (`Scheduler.trySchedule`).
                Ok(types) => {
                    let mut both = self.nodes.requirements.clone();
                    both.add_all(&pod_requirements(pod, state));
                    let capacity_types = launch_order(&both, &types, self.pool.class.as_ref());
                    return Outcome::Admits(Admission { types, capacity_types, relaxations });
                }
                Err(NotAdmitted::Undecided(why)) => uncertainties.extend(why),
                Err(NotAdmitted::Rejected(stage)) => {
                    if deepest.as_ref().is_none_or(|known| known.depth() < stage.depth()) {
                        deepest = Some(stage);
                    }
                }
            }
        }
        match deepest {
            Some(stage) if uncertainties.is_empty() => Outcome::Rejects(stage),
            _ => Outcome::Undecided(sorted_unique(uncertainties)),
        }
    }

    /// The types of a new node for the pod in one state of relaxation, or why there is none (`NodeClaim.CanAdd`).
    pub(super) fn admit(
        &self,
        pod: &Pod,
        state: &Relaxation,
        tolerations: &[Toleration],
        need: &ResourceList,
        conditions: Conditions<'_>,
    ) -> Result<TypeSet, NotAdmitted> {
        let both = self.constrained(pod, state, tolerations)?;
        if pod.volumes.is_empty() {
            return self.admit_with(pod, state, tolerations, both, need, conditions);
        }
        // `tryVolumeAlternative` for one alternative after the other.
        let mut last = None;
        for volumes in &pod.volumes {
            let required = with_volumes(both.clone(), volumes);
            match required.and_then(|both| self.admit_with(pod, state, tolerations, both, need, conditions)) {
                Ok(types) => return Ok(types),
                Err(why) if matches!(last, Some(NotAdmitted::Undecided(_))) => drop(why),
                Err(why) => last = Some(why),
            }
        }
        Err(last.unwrap_or(NotAdmitted::Undecided(vec![Uncertainty::Volumes])))
    }

    /// The types of a new node that meets requirements, those of the pod and of its volumes included.
    fn admit_with(
        &self,
        pod: &Pod,
        state: &Relaxation,
        tolerations: &[Toleration],
        mut both: Requirements,
        need: &ResourceList,
        conditions: Conditions<'_>,
    ) -> Result<TypeSet, NotAdmitted> {
        let settings = conditions.settings;
        let mut uncertainties = narrow_to_domains(&mut both, pod, state, tolerations, conditions.domains)?;
        let class = self.pool.class.as_ref();
        let types = match self.remaining_types(pod, &both, need, class, settings) {
            Ok(types) => types,
            Err(stage @ (RejectionStage::Resources(_) | RejectionStage::Requirements)) => {
                let admits =
                    |class: &NodeClass| self.remaining_types(pod, &both, need, Some(class), settings).is_ok();
                let mut roomier = roomier_classes(self.pool).into_iter();
                return Err(match roomier.find(|(class, _)| admits(class)) {
                    Some((_, why)) => NotAdmitted::Undecided(vec![why]),
                    None => NotAdmitted::Rejected(stage),
                });
            }
            Err(stage) => return Err(NotAdmitted::Rejected(stage)),
        };
        // With the policy `Strict`, `filterInstanceTypesByRequirements` drops all types if they have too few values.
        if !settings.best_effort_min_values
            && let Some((key, wanted, found)) = unmet_min_values(&both, &types, class, settings)
        {
            let stage = RejectionStage::MinValues { key: key.to_owned(), wanted, found };
            return Err(NotAdmitted::Rejected(stage));
        }
        uncertainties.extend(cluster_uncertainties(self.pool, &both, &types, settings));
        uncertainties.extend(self.unknown_zone(pod, state, &both, conditions.domains));
        let missed = misses_a_domain(&both, pod, state, &types, (conditions.domains, class, settings));
        uncertainties.extend(missed);
        // Which of its types the nodes of a static pool have was decided when they were started.
        if self.pool.replicas.is_some() && !self.nodes.types.without(retired()).is_subset(&types) {
            uncertainties.push(Uncertainty::StandingTypes(self.pool.name.clone()));
        }
        if self.pool.is_built_in {
            uncertainties.push(Uncertainty::BuiltInPool(self.pool.name.clone()));
        }
        let types = match with_known_interfaces(&types, need) {
            Ok(types) => types,
            Err(unknown) => {
                uncertainties.push(unknown);
                types
            }
        };
        match with_known_labels(&types, &both) {
            Ok(certain) => {
                // The values may be enough only with types whose labels are not known to meet the requirements.
                let few = !settings.best_effort_min_values
                    && unmet_min_values(&both, &certain, class, settings).is_some();
                let is_unknown =
                    |key: &&str| with_unknown(key, &both).is_some_and(|of| !of.is_disjoint(&types));
                let unknown = both.iter().map(|(key, _)| key).find(is_unknown).filter(|_| few);
                uncertainties.extend(unknown.map(|key| Uncertainty::LabelValues(key.to_owned())));
                if uncertainties.is_empty() {
                    return Ok(certain);
                }
            }
            Err(unknown) => uncertainties.push(unknown),
        }
        Err(NotAdmitted::Undecided(uncertainties))
    }

    /// Whether the status of the class lists its reservations.
    pub(super) fn knows_reservations(&self) -> bool {
        let class = self.pool.class.as_ref();
        class.is_some_and(|class| matches!(class.reservations, Reservations::Known(_)))
    }

    /// A zone of the pod in which the class may have no subnet: neither the class nor a pool names it. Where no pool names any, subnets
    /// are taken to be in the first zones of the region, as most are.
    fn unknown_zone(
        &self,
        pod: &Pod,
        state: &Relaxation,
        both: &Requirements,
        domains: &Domains,
    ) -> Option<Uncertainty> {
        if self.pool.class.as_ref().is_some_and(|class| !class.zones.is_empty()) {
            return None;
        }
        let required = pod_requirements(pod, state);
        let key = if required.get(ZONE).is_some() { ZONE } else { ZONE_ID };
        let wanted = required.get(key)?;
        // That a zone is left which none of the usual ones is.
        let excludes = |letter: &char| {
            both.get(ZONE).is_some_and(|one| one.values.iter().any(|zone| zone.ends_with(*letter)))
        };
        if wanted.operator() == Operator::NotIn && USUAL_ZONES.iter().all(excludes) {
            return Some(Uncertainty::Subnets(format!("other than {}", wanted.values.join(", "))));
        }
        let wanted = Some(wanted).filter(|wanted| wanted.operator() == Operator::In)?;
        let is_usual = |zone: &String| match domains.listed(key) {
            Some(listed) => listed.contains(zone),
            // Not one of a Local Zone, such as `us-west-2-lax-1a`.
            None => key == ZONE && zone.ends_with(USUAL_ZONES) && zone.matches('-').count() < 4,
        };
        (!wanted.values.iter().any(is_usual)).then(|| Uncertainty::Subnets(wanted.values.join(", ")))
    }

    /// What the pool and the pod require of a node together, or what stops the pod before instance types are looked at.
    fn constrained(
        &self,
        pod: &Pod,
        state: &Relaxation,
        tolerations: &[Toleration],
    ) -> Result<Requirements, NotAdmitted> {
        let tolerated = |taint: &Taint| {
            steps::take(tolerations.len());
            (state.tolerate_prefer_no_schedule && taint.effect == PREFER_NO_SCHEDULE)
                || tolerations.iter().any(|toleration| tolerates(toleration, taint))
        };
        // The three checks of `NodeClaim.CanAdd` before instance types, of which the limit of nodes is one of
        // `addToNewNodeClaim`.
        if let Some(taint) = self.pool.taints.iter().find(|taint| !tolerated(taint)) {
            return Err(NotAdmitted::Rejected(RejectionStage::Taint(taint.clone())));
        }
        let required = pod_requirements(pod, state);
        if let Err(clash) = self.nodes.requirements.compatible(&required) {
            // A label or a requirement that cannot be read may be the one that the pod asks for.
            let unreadable =
                self.nodes.uncertainties.iter().find(|why| matches!(why, Uncertainty::UnreadablePool(_)));
            return Err(match unreadable.filter(|_| clash.ours.is_none()) {
                Some(why) => NotAdmitted::Undecided(vec![why.clone()]),
                None => NotAdmitted::Rejected(RejectionStage::Label(clash)),
            });
        }
        if self.pool.limits.iter().any(|(name, limit)| name == "nodes" && *limit == 0) {
            return Err(NotAdmitted::Rejected(RejectionStage::NodesLimit));
        }
        // No type has a capacity below zero, so that `filterByRemainingResources` leaves none.
        if let Some((name, _)) = self.pool.limits.iter().find(|(_, limit)| *limit < 0) {
            return Err(NotAdmitted::Rejected(RejectionStage::Limits(vec![name.clone()])));
        }
        steps::take(20 * self.nodes.requirements.len());
        let mut both = self.nodes.requirements.clone();
        both.add_all(&required);
        let mut uncertainties = self.nodes.uncertainties.clone();
        uncertainties.extend(uncatalogued_types(&both));
        uncertainties.extend(undocumented_label(&self.nodes.requirements, &required));
        // Which types there are is not known, so that no check of types is certain.
        if !uncertainties.is_empty() {
            return Err(NotAdmitted::Undecided(uncertainties));
        }
        Ok(both)
    }

    /// The types with which this state of the pod is certainly admitted, as far as that does not depend on the amounts of
    /// resources that it needs, and whether it depends on how many values of a label those with room have. A state that is
    /// rejected or undecided has none: another state may still be admitted.
    pub(super) fn suited(
        &self,
        pod: &Pod,
        state: &Relaxation,
        tolerations: &[Toleration],
        conditions: Conditions<'_>,
    ) -> (TypeSet, bool) {
        let settings = conditions.settings;
        let Ok(both) = self.constrained(pod, state, tolerations) else {
            return (TypeSet::EMPTY, false);
        };
        let class = self.pool.class.as_ref();
        let types = filter_types(self.nodes.types, &both, class, settings).and(&self.nodes.within_limits);
        if types.is_empty() {
            return (types, false);
        }
        // `SatisfiesMinValues` counts the values of the types that have room.
        if both.iter().any(|(_, requirement)| requirement.min_values.is_some()) {
            return (types, true);
        }
        let is_certain = cluster_uncertainties(self.pool, &both, &types, settings).is_empty()
            && self.unknown_zone(pod, state, &both, conditions.domains).is_none();
        let types = with_known_labels(&types, &both).unwrap_or(TypeSet::EMPTY);
        (if is_certain { types } else { TypeSet::EMPTY }, false)
    }

    /// What nodes have for pods if that is kept: for the class of the pool, and the settings that came first.
    fn room(
        &self,
        class: Option<&NodeClass>,
        settings: &SchedulerOptions,
    ) -> Option<&HashMap<usize, NodeResources>> {
        let own = self.pool.class.as_ref();
        let is_own = match (class, own) {
            (Some(class), Some(own)) => std::ptr::eq(class, own),
            (class, own) => class.is_none() && own.is_none(),
        };
        if !is_own || !self.room.was_asked.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (with, known) = self.room.known.get_or_init(|| {
            let of = |instance: &'static InstanceType| {
                (std::ptr::from_ref(instance).addr(), allocatable(instance, class, settings))
            };
            (settings.clone(), self.nodes.types.iter().map(of).collect())
        });
        (with == settings).then_some(known)
    }

    /// The types that remain after limits, requirements, host ports and resources, or the first stage that
    /// leaves none.
    fn remaining_types(
        &self,
        pod: &Pod,
        requirements: &Requirements,
        need: &ResourceList,
        class: Option<&NodeClass>,
        settings: &SchedulerOptions,
    ) -> Result<TypeSet, RejectionStage> {
        // `filterInstanceTypesByRequirements` combines all of these checks for each type; taken one after the other they leave
        // the same types, and the first that leaves none is the reason.
        let suited = filter_types(self.nodes.types, requirements, class, settings);
        if suited.is_empty() {
            return Err(RejectionStage::Requirements);
        }
        // `filterByRemainingResources`: a node of the type alone would exceed a limit.
        let mut types = suited.and(&self.nodes.within_limits);
        if types.is_empty() {
            return Err(RejectionStage::Limits(self.exceeded(&suited, settings)));
        }
        // `HostPortUsage.Conflicts` with the DaemonSets that run on the type.
        let ports: Vec<&HostPort> =
            pod.containers.iter().flat_map(|container| &container.host_ports).collect();
        for daemon in &self.daemons {
            steps::take(ports.len() * daemon.ports.len());
            if ports.iter().any(|port| daemon.ports.iter().any(|taken| host_ports_conflict(port, taken))) {
                types = types.without(&daemon.types);
            }
        }
        if types.is_empty() {
            return Err(RejectionStage::HostPort);
        }
        let mut room = TypeSet::EMPTY;
        let known = self.room(class, settings);
        let mut lacking: Option<Vec<String>> = None;
        // The pod and the DaemonSets of the type together (`DaemonOverheadGroup`).
        for (of, requests) in &self.daemon_requests {
            let of = types.and(of);
            if of.is_empty() {
                continue;
            }
            let mut total = Cow::Borrowed(need);
            if !requests.is_empty() {
                add(total.to_mut(), requests);
            }
            for instance in of.iter() {
                steps::take(10);
                let node = known.and_then(|known| known.get(&std::ptr::from_ref(instance).addr()));
                let node = node.copied().unwrap_or_else(|| allocatable(instance, class, settings));
                let short: BTreeSet<&str> = if self.overlays.is_empty() {
                    node.insufficient(&total).collect()
                } else {
                    let of = |name: &str| {
                        overlaid(&self.overlays, instance, name).unwrap_or_else(|| node.get(name))
                    };
                    let more = total.iter().filter(|(name, amount)| **amount > of(name));
                    more.map(|(name, _)| name.as_str()).collect()
                };
                if short.is_empty() {
                    room.insert(instance);
                } else if let Some(names) = &mut lacking {
                    names.retain(|name| short.contains(name.as_str()));
                } else {
                    lacking = Some(short.into_iter().map(str::to_owned).collect());
                }
            }
        }
        if room.is_empty() { Err(RejectionStage::Resources(lacking.unwrap_or_default())) } else { Ok(room) }
    }

    /// What a new node of a type counts towards the limit of a resource, overlays included.
    pub(super) fn capacity(
        &self,
        instance: &'static InstanceType,
        resource: &str,
        settings: &SchedulerOptions,
    ) -> i128 {
        overlaid(&self.overlays, instance, resource)
            .unwrap_or_else(|| capacity(instance, self.pool.class.as_ref(), settings).get(resource))
    }

    /// How many pods with these requests a node of a type has room for beside those of DaemonSets. 0 if they request nothing.
    pub(super) fn pods_on(
        &self,
        instance: &'static InstanceType,
        need: &ResourceList,
        settings: &SchedulerOptions,
    ) -> i128 {
        let node = allocatable(instance, self.pool.class.as_ref(), settings);
        let of_daemons = |resource: &str| {
            let daemons = self.daemons.iter().filter(|daemon| daemon.types.contains(instance));
            daemons.filter_map(|daemon| daemon.requests.get(resource)).sum::<i128>()
        };
        let requested = need.iter().filter(|(_, amount)| **amount > 0);
        let has = |name: &str| self.overlaid(instance, name).unwrap_or_else(|| node.get(name));
        requested.map(|(name, amount)| (has(name) - of_daemons(name)) / amount).min().unwrap_or(0)
    }

    /// The cheapest of some types on a node with these requirements, by list price and overlays.
    pub(super) fn cheapest(
        &self,
        types: &TypeSet,
        requirements: &Requirements,
        region: Option<&str>,
    ) -> Option<&'static InstanceType> {
        let mut sorted = cheapest_first(types.iter(), region);
        if !self.prices.is_empty() {
            sorted.sort_by_key(|instance| {
                let price = instance.list_price(region).map(|price| i128::from(price.micro_dollars));
                let price = price.map(|price| overlaid_price(&self.prices, instance, requirements, price));
                (price.is_none(), price)
            });
        }
        sorted.first().copied()
    }

    /// What overlays give a type of a resource, in thousandths.
    pub(super) fn overlaid(&self, instance: &InstanceType, resource: &str) -> Option<i128> {
        overlaid(&self.overlays, instance, resource)
    }

    /// The limits that exclude some of the types.
    fn exceeded(&self, types: &TypeSet, settings: &SchedulerOptions) -> Vec<String> {
        let class = self.pool.class.as_ref();
        let over =
            |name: &str, limit: i128| types.iter().any(|t| capacity(t, class, settings).get(name) > limit);
        self.pool
            .limits
            .iter()
            .filter(|(name, limit)| over(name, *limit))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

impl<'a> DaemonPod<'a> {
    /// The DaemonSet on nodes of a pool. [`None`] if it does not run there.
    fn new(
        set: &'a DaemonSet,
        pool: &Pool,
        requirements: &Requirements,
        settings: &SchedulerOptions,
    ) -> Option<Self> {
        let pod = &set.pod;
        let tolerated = |taint: &Taint| {
            taint.effect == PREFER_NO_SCHEDULE || pod.tolerations.iter().any(|given| tolerates(given, taint))
        };
        // `buildDaemonOverheadGroups` leaves out pods with resource claims, and `isDaemonPodCompatible` tolerates
        // `PreferNoSchedule` for them.
        if (pod.resource_claims && settings.ignore_dra_requests) || !pool.taints.iter().all(tolerated) {
            return None;
        }
        let mut terms: Vec<Option<&Term>> = pod.terms.iter().map(Some).collect();
        if terms.is_empty() {
            terms.push(None);
        }
        let mut types = TypeSet::EMPTY;
        for term in terms {
            let required = pod_requirements(
                pod,
                &Relaxation {
                    term,
                    last_term: true,
                    preference: None,
                    dropped_rules: 0,
                    tolerate_prefer_no_schedule: true,
                },
            );
            if requirements.compatible(&required).is_err() {
                continue;
            }
            types = match settings.daemonsets_on_all_types {
                true => TypeSet::full(),
                false => types.or(&filter_types(TypeSet::full(), &required, pool.class.as_ref(), settings)),
            };
        }
        let ports = pod.containers.iter().flat_map(|container| &container.host_ports).collect();
        (!types.is_empty()).then(|| Self { types, requests: pod_requests(pod), ports })
    }
}
