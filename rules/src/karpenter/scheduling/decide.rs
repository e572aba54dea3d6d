//! The scheduling decision: for each relaxation of the pod, pools are tried in order; the first that admits
//! it wins.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, OnceLock};

use super::super::requirement::{Operator, Requirement, Requirements};
use super::resources::{POD_ENI, add, allocatable, capacity, crashes, pod_requests};
use super::verdict::{Admission, Outcome, RejectionStage, Uncertainty, Unschedulable, Verdict};
use crate::catalog::{CAPACITY_TYPE, InstanceType, REGION, TypeSet, ZONE, ZONE_ID, retired};
use crate::karpenter::scheduling::input::{
    AmiFamily, BlockDevice, DaemonSet, EvictionThreshold, HostPort, Kubelet, NodeClass, Overlay, Pod, Pool,
    ResourceList, SchedulerOptions, Taint, Term, Toleration,
};
use crate::karpenter::scheduling::instance_types::{
    Admitted, admitted, all_retired, crashing_keys, filter_types, launch_order, pool_requirements,
    uncatalogued_types, unmet_min_values, validation_error,
};
use crate::karpenter::scheduling::pod_requirements::{
    Relaxation, effective_tolerations, host_ports_conflict, ignore_reason, pod_requirements, preferences,
    tolerates,
};
use crate::steps;

const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
const AWS_GROUP: &str = "karpenter.k8s.aws";

/// Whether Karpenter starts a node for the pod, from which pool and of which types.
pub fn decide(pod: &Pod, pools: &[Pool], daemonsets: &[DaemonSet], settings: &SchedulerOptions) -> Verdict {
    Scheduler::new(pools, daemonsets, settings).decide(pod)
}

/// Pools and DaemonSets, prepared for scheduling many pods.
pub struct Scheduler<'a> {
    pools: &'a [Pool],
    daemonsets: Vec<&'a DaemonSet>,
    pub(super) settings: SchedulerOptions,
    /// The overlays that count, lowest priority first.
    overlays: Vec<&'a Overlay>,
    /// In the order in which Karpenter tries them.
    pub(super) candidates: Vec<Candidate<'a>>,
    excluded: Vec<(usize, RejectionStage)>,
    crash: Vec<Uncertainty>,
    /// The same without DaemonSets that have several node selector terms.
    without_multi_term_daemonsets: OnceLock<Box<Scheduler<'a>>>,
    /// The same with nodes that have all the memory that EC2 states.
    without_memory_overhead: OnceLock<Box<Scheduler<'a>>>,
    /// The same with overlays, if there are any that give types resources.
    with_overlays: Option<Box<Scheduler<'a>>>,
}

/// A pool that can start nodes for pods.
pub(super) struct Candidate<'a> {
    pub(super) position: usize,
    pub(super) pool: &'a Pool,
    pub(super) nodes: Arc<PoolNodes>,
    pub(super) daemons: Vec<DaemonPod<'a>>,
    /// The types of the pool by what DaemonSets request on them.
    daemon_requests: Vec<(TypeSet, ResourceList)>,
    /// The overlays for the types of the pool, lowest priority first.
    overlays: Vec<(TypeSet, &'a ResourceList)>,
}

/// The nodes that a pool can start.
pub(super) struct PoolNodes {
    pub(super) requirements: Requirements,
    pub(super) types: TypeSet,
    /// The subset of `types` within the limits of the pool.
    within_limits: TypeSet,
    uncertainties: Vec<Uncertainty>,
}

/// What does not depend on pods, DaemonSets and overlays in the decisions about a pool, computed once for many schedulers.
pub struct PreparedPool(Result<Arc<PoolNodes>, RejectionStage>);

impl PreparedPool {
    /// Applies the requirements and the limits of a pool. Pods that EKS changes are not a part of it: `settings.eks`
    /// has no effect.
    pub fn new(pool: &Pool, settings: &SchedulerOptions) -> Self {
        Self(PoolNodes::new(pool, &[], settings).map(Arc::new))
    }
}

/// The instance types of a pool that suit a pod, whatever the amounts of resources that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuitedTypes {
    /// Karpenter starts a node for the pod exactly if one of these has room for it.
    Types(TypeSet),
    /// It starts none if none of these has room for it; otherwise the decision depends on more.
    AtMost(TypeSet),
    /// The decision depends on more.
    Undecided,
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

impl<'a> Scheduler<'a> {
    /// Prepares the pools: excludes those that never admit a pod, sorts the others, applies their
    /// requirements.
    pub fn new(pools: &'a [Pool], daemonsets: &'a [DaemonSet], settings: &SchedulerOptions) -> Self {
        Self::with(pools, daemonsets.iter().collect(), Vec::new(), settings.clone())
    }

    /// The same, where overlays may count: their feature gate is off unless it is switched on. A verdict that depends
    /// on them is unknown.
    #[must_use]
    pub fn or_with_overlays(mut self, overlays: &'a [Overlay]) -> Self {
        let mut sorted: Vec<&Overlay> =
            overlays.iter().filter(|overlay| !overlay.capacity.is_empty()).collect();
        sorted.sort_by_key(|overlay| (overlay.weight, &overlay.name));
        if !sorted.is_empty() {
            let with = Self::with(self.pools, self.daemonsets.clone(), sorted, self.settings.clone());
            self.with_overlays = Some(Box::new(with));
        }
        self
    }

    /// The scheduler for one pool alone.
    pub fn of_prepared(pool: &'a Pool, prepared: &PreparedPool, settings: &SchedulerOptions) -> Self {
        let mut crash = Vec::new();
        if pool.class.as_ref().is_some_and(crashes) {
            crash.push(Uncertainty::Crash(pool.node_class.name.clone()));
        }
        let (candidates, excluded) = match &prepared.0 {
            Ok(nodes) => {
                let nodes = Arc::clone(nodes);
                (vec![Candidate::of_nodes(0, pool, nodes, Vec::new(), Vec::new())], Vec::new())
            }
            Err(stage) => (Vec::new(), vec![(0, stage.clone())]),
        };
        Self {
            pools: std::slice::from_ref(pool),
            daemonsets: Vec::new(),
            settings: settings.clone(),
            overlays: Vec::new(),
            candidates,
            excluded,
            crash,
            without_multi_term_daemonsets: OnceLock::new(),
            without_memory_overhead: OnceLock::new(),
            with_overlays: None,
        }
    }

    /// The types that suit a pod, in a scheduler for one pool and without DaemonSets and overlays.
    pub fn suited_types(&self, pod: &Pod) -> SuitedTypes {
        let simple = self.crash.is_empty()
            && self.daemonsets.is_empty()
            && self.with_overlays.is_none()
            && self.candidates.len() < 2
            && pod.uncertainties.is_empty()
            && !pod.preferred_pod_affinity;
        if !simple {
            return SuitedTypes::Undecided;
        }
        let mut all = TypeSet::EMPTY;
        let Some(candidate) = self.candidates.first() else {
            return SuitedTypes::Types(all);
        };
        if ignore_reason(pod, &self.settings).is_some() {
            return SuitedTypes::Types(all);
        }
        let tolerations = effective_tolerations(pod, &self.settings);
        let mut is_certain = true;
        for state in self.relaxations(pod) {
            let (types, counts_values) = candidate.suited(pod, &state, &tolerations, &self.settings);
            all = all.or(&types);
            is_certain &= !counts_values;
        }
        // A node of a type that EC2 no longer offers is not certain.
        let all = all.without(retired());
        if is_certain { SuitedTypes::Types(all) } else { SuitedTypes::AtMost(all) }
    }

    fn with(
        pools: &'a [Pool],
        daemonsets: Vec<&'a DaemonSet>,
        overlays: Vec<&'a Overlay>,
        settings: SchedulerOptions,
    ) -> Self {
        let mut order: Vec<(usize, &Pool)> = pools.iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| self::order(a, b));
        let (mut candidates, mut excluded, mut crash) = (Vec::new(), Vec::new(), Vec::new());
        for (position, pool) in order {
            if pool.class.as_ref().is_some_and(crashes) {
                crash.push(Uncertainty::Crash(pool.node_class.name.clone()));
            }
            match Candidate::new(position, pool, &daemonsets, &overlays, &settings) {
                Ok(candidate) => candidates.push(candidate),
                Err(step) => excluded.push((position, step)),
            }
        }
        let (without_multi_term_daemonsets, without_memory_overhead) = (OnceLock::new(), OnceLock::new());
        Self {
            pools,
            daemonsets,
            settings,
            overlays,
            candidates,
            excluded,
            crash,
            without_multi_term_daemonsets,
            without_memory_overhead,
            with_overlays: None,
        }
    }

    /// Whether Karpenter starts a node for the pod.
    pub fn decide(&self, pod: &Pod) -> Verdict {
        if !self.crash.is_empty() {
            return Verdict::Unknown { uncertainties: self.crash.clone() };
        }
        let verdict = self.schedule_with_overlays(pod);
        let (simple, several): (Vec<_>, Vec<_>) =
            self.daemonsets.iter().partition(|set| set.pod.terms.len() < 2);
        if several.is_empty() {
            return self.note_memory_estimate(pod, verdict);
        }
        let simpler =
            || Box::new(Self::with(self.pools, simple, self.overlays.clone(), self.settings.clone()));
        let without = self.without_multi_term_daemonsets.get_or_init(simpler).schedule_once(pod);
        if std::mem::discriminant(&verdict) != std::mem::discriminant(&without) {
            let doubts = several.iter().map(|set| Uncertainty::DaemonSetTerms(set.name.clone())).collect();
            return Verdict::Unknown { uncertainties: doubts };
        }
        self.note_memory_estimate(pod, verdict)
    }

    /// The verdict without overlays, or unknown if overlays would change it.
    fn schedule_with_overlays(&self, pod: &Pod) -> Verdict {
        let verdict = self.schedule_once(pod);
        let Some(other) = &self.with_overlays else {
            return verdict;
        };
        let with = other.schedule_once(pod);
        let doubts = || other.overlays.iter().map(|overlay| Uncertainty::Overlay(overlay.name.clone()));
        if std::mem::discriminant(&verdict) != std::mem::discriminant(&with) {
            return Verdict::Unknown { uncertainties: sorted_unique(doubts().collect()) };
        }
        match (verdict, with) {
            (
                Verdict::Fits { pool, types, mut uncertainties },
                Verdict::Fits { pool: other_pool, types: other_types, .. },
            ) => {
                if (pool, types) != (other_pool, other_types) {
                    uncertainties.extend(doubts());
                }
                Verdict::Fits { pool, types, uncertainties: sorted_unique(uncertainties) }
            }
            (verdict, _) => verdict,
        }
    }

    /// What each pool makes of the pod by itself, in the order in which Karpenter tries the pools. Empty if Karpenter
    /// ignores the pod.
    pub fn survey(&self, pod: &Pod) -> Vec<(usize, Outcome)> {
        if ignore_reason(pod, &self.settings).is_some() {
            return Vec::new();
        }
        let tolerations = effective_tolerations(pod, &self.settings);
        let need = pod_requests(pod);
        let states = self.relaxations(pod);
        let tried = self.candidates.iter().map(|candidate| {
            (candidate.position, candidate.outcome(pod, &states, &tolerations, &need, &self.settings))
        });
        let excluded =
            self.excluded.iter().map(|(position, step)| (*position, Outcome::Rejects(step.clone())));
        let mut all: Vec<(usize, Outcome)> = tried.chain(excluded).collect();
        all.sort_by(|(a, _), (b, _)| order(&self.pools[*a], &self.pools[*b]));
        all
    }

    /// The positions of the pools in the order in which Karpenter tries them.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pools.len()).collect();
        order.sort_by(|a, b| self::order(&self.pools[*a], &self.pools[*b]));
        order
    }

    /// The types that a pool admits for any pod, and their capacity types in the order in which Karpenter prefers
    /// them.
    ///
    /// # Errors
    /// The pool starts no nodes for pending pods.
    pub fn admitted(&self, position: usize) -> Result<(TypeSet, Vec<&'static str>), &RejectionStage> {
        if let Some((_, stage)) = self.excluded.iter().find(|(at, _)| *at == position) {
            return Err(stage);
        }
        let candidate = self.candidates.iter().find(|candidate| candidate.position == position);
        Ok(candidate.map_or((TypeSet::EMPTY, Vec::new()), |candidate| {
            let (nodes, class) = (&candidate.nodes, candidate.pool.class.as_ref());
            (nodes.types, launch_order(&nodes.requirements, &nodes.types, class))
        }))
    }

    /// What a node of the first pool has left of a resource for other pods than those of DaemonSets, in thousandths.
    pub fn room(&self, instance: &'static InstanceType, resource: &str) -> i128 {
        let Some(candidate) = self.candidates.first() else {
            return 0;
        };
        let whole = allocatable(instance, candidate.pool.class.as_ref(), &self.settings).get(resource);
        let daemons = candidate.daemons.iter().filter(|daemon| daemon.types.contains(instance));
        whole - daemons.filter_map(|daemon| daemon.requests.get(resource)).sum::<i128>()
    }

    /// How many pods with these requests a node of the first pool has room for beside those of DaemonSets. 0 if they
    /// request nothing.
    pub fn pods_on(&self, instance: &'static InstanceType, need: &ResourceList) -> i128 {
        let Some(candidate) = self.candidates.first() else {
            return 0;
        };
        let node = allocatable(instance, candidate.pool.class.as_ref(), &self.settings);
        let of_daemons = |resource: &str| {
            let daemons = candidate.daemons.iter().filter(|daemon| daemon.types.contains(instance));
            daemons.filter_map(|daemon| daemon.requests.get(resource)).sum::<i128>()
        };
        let asked = need.iter().filter(|(_, amount)| **amount > 0);
        asked.map(|(name, amount)| (node.get(name) - of_daemons(name)) / amount).min().unwrap_or(0)
    }

    /// Marks a rejection that is caused only by the estimate of the memory overhead.
    fn note_memory_estimate(&self, pod: &Pod, verdict: Verdict) -> Verdict {
        let Verdict::DoesNotFit(mut misfit) = verdict else {
            return verdict;
        };
        let short = |step: &RejectionStage| match step {
            RejectionStage::Resources(names) => names.is_empty() || names.iter().any(|name| name == "memory"),
            _ => false,
        };
        if self.settings.memory_overhead > 0 && misfit.pools.iter().any(|(_, step)| short(step)) {
            let raw = SchedulerOptions { memory_overhead: 0, ..self.settings.clone() };
            let roomier =
                || Box::new(Self::with(self.pools, self.daemonsets.clone(), self.overlays.clone(), raw));
            let again = self.without_memory_overhead.get_or_init(roomier).schedule_once(pod);
            misfit.within_memory_estimate = matches!(again, Verdict::Fits { .. });
        }
        Verdict::DoesNotFit(misfit)
    }

    fn schedule_once(&self, pod: &Pod) -> Verdict {
        if let Some(ignored) = ignore_reason(pod, &self.settings) {
            return Verdict::DoesNotFit(Box::new(Unschedulable {
                ignored: Some(ignored),
                ..Unschedulable::default()
            }));
        }
        let tolerations = effective_tolerations(pod, &self.settings);
        let need = pod_requests(pod);
        let mut doubts: Vec<Uncertainty> = Vec::new();
        let mut steps: Vec<Option<RejectionStage>> = vec![None; self.candidates.len()];
        for state in self.relaxations(pod) {
            for (candidate, deepest) in self.candidates.iter().zip(&mut steps) {
                match candidate.admit(pod, &state, &tolerations, &need, &self.settings) {
                    Ok(types) => return fits(pod, &state, candidate, types, doubts),
                    Err(NotAdmitted::Undecided(why)) => doubts.extend(why),
                    Err(NotAdmitted::Rejected(step)) => {
                        if deepest.as_ref().is_none_or(|known| known.depth() < step.depth()) {
                            *deepest = Some(step);
                        }
                    }
                }
            }
        }
        if !doubts.is_empty() {
            return Verdict::Unknown { uncertainties: sorted_unique(doubts) };
        }
        let asked = self.candidates.iter().zip(steps).filter_map(|(c, step)| Some((c.position, step?)));
        let pools = asked.chain(self.excluded.iter().cloned()).collect();
        Verdict::DoesNotFit(Box::new(Unschedulable { pools, ..Unschedulable::default() }))
    }

    /// The relaxations in the order in which Karpenter tries them. A constraint that is dropped is not added
    /// again.
    pub(super) fn relaxations<'p>(&self, pod: &'p Pod) -> Vec<Relaxation<'p>> {
        let preferences = preferences(pod, &self.settings);
        let heaviest = preferences.first().copied();
        let state = |term, last_term, preference| Relaxation {
            term,
            last_term,
            preference,
            tolerate_prefer_no_schedule: false,
        };
        let mut states = Vec::new();
        match pod.terms.split_last() {
            None => states.push(state(None, true, heaviest)),
            Some((last, earlier)) => {
                states.extend(earlier.iter().map(|term| state(Some(term), false, heaviest)));
                states.push(state(Some(last), true, heaviest));
            }
        }
        let last = pod.terms.last();
        let rest = preferences.iter().skip(1).map(|term| Some(*term)).chain([None]);
        states.extend(rest.take(preferences.len()).map(|preference| state(last, true, preference)));
        if self
            .candidates
            .iter()
            .any(|c| c.pool.taints.iter().any(|taint| taint.effect == PREFER_NO_SCHEDULE))
        {
            states.push(Relaxation {
                term: last,
                last_term: true,
                preference: None,
                tolerate_prefer_no_schedule: true,
            });
        }
        states
    }
}

/// The order in which Karpenter tries pools: by weight, then by name, both descending.
fn order(a: &Pool, b: &Pool) -> Ordering {
    (b.weight.unwrap_or(0), &b.name).cmp(&(a.weight.unwrap_or(0), &a.name))
}

fn fits(
    pod: &Pod,
    state: &Relaxation,
    candidate: &Candidate,
    types: TypeSet,
    mut doubts: Vec<Uncertainty>,
) -> Verdict {
    let mut firm: Vec<Uncertainty> = pod.uncertainties.clone();
    if pod.preferred_pod_affinity && !state.last_term {
        firm.push(Uncertainty::PreferredPodAffinity);
    }
    if !firm.is_empty() {
        doubts.extend(firm);
        return Verdict::Unknown { uncertainties: sorted_unique(doubts) };
    }
    if candidate.pool.class.is_none() {
        doubts.push(Uncertainty::NoClass(candidate.pool.node_class.name.clone()));
    }
    Verdict::Fits { pool: candidate.position, types, uncertainties: sorted_unique(doubts) }
}

fn sorted_unique(mut doubts: Vec<Uncertainty>) -> Vec<Uncertainty> {
    doubts.sort();
    doubts.dedup();
    doubts
}

impl PoolNodes {
    /// # Errors
    /// The pool starts no nodes for pending pods.
    fn new(pool: &Pool, overlays: &[&Overlay], settings: &SchedulerOptions) -> Result<Self, RejectionStage> {
        if pool.replicas {
            return Err(RejectionStage::Static);
        }
        if pool.uncertainties.is_empty()
            && let Some(problem) = validation_error(pool)
        {
            return Err(RejectionStage::Invalid(problem));
        }
        let class = pool.class.as_ref();
        let requirements = pool_requirements(pool);
        let Admitted { types, conflict, uncertainties: mut doubts } = admitted(pool, &requirements, settings);
        let foreign = !pool.node_class.group.is_empty() && pool.node_class.group != AWS_GROUP;
        if foreign {
            doubts.push(Uncertainty::OtherProvider(pool.node_class.name.clone()));
        }
        doubts.extend(pool.uncertainties.iter().cloned());
        let reserved = || requirements.get(CAPACITY_TYPE).is_some_and(|r| r.has("reserved"));
        if class.is_none() && conflict.is_some() && reserved() {
            doubts.push(Uncertainty::NoClass(pool.node_class.name.clone()));
        }
        if doubts.is_empty() && conflict.is_some() {
            return Err(RejectionStage::NoTypes(conflict));
        }
        let overlays = overlays_of(overlays, &requirements, class, settings);
        let affordable = types.iter().filter(|instance| {
            let node = capacity(instance, class, settings);
            let of = |name: &str| overlaid(&overlays, instance, name).unwrap_or_else(|| node.get(name));
            pool.limits.iter().all(|(name, limit)| of(name) <= *limit)
        });
        let within_limits = if pool.limits.is_empty() { types } else { affordable.collect() };
        Ok(Self { requirements, types, within_limits, uncertainties: doubts })
    }
}

impl<'a> Candidate<'a> {
    fn new(
        position: usize,
        pool: &'a Pool,
        daemonsets: &[&'a DaemonSet],
        overlays: &[&'a Overlay],
        settings: &SchedulerOptions,
    ) -> Result<Self, RejectionStage> {
        let nodes = PoolNodes::new(pool, overlays, settings)?;
        let of_pool = |set: &&'a DaemonSet| DaemonPod::new(set, pool, &nodes.requirements, settings);
        let daemons = daemonsets.iter().filter_map(of_pool).collect();
        let overlays = overlays_of(overlays, &nodes.requirements, pool.class.as_ref(), settings);
        Ok(Self::of_nodes(position, pool, Arc::new(nodes), daemons, overlays))
    }

    fn of_nodes(
        position: usize,
        pool: &'a Pool,
        nodes: Arc<PoolNodes>,
        daemons: Vec<DaemonPod<'a>>,
        overlays: Vec<(TypeSet, &'a ResourceList)>,
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
        Self { position, pool, nodes, daemons, daemon_requests, overlays }
    }

    /// What the pool makes of the pod by itself.
    fn outcome(
        &self,
        pod: &Pod,
        states: &[Relaxation],
        tolerations: &[Toleration],
        need: &ResourceList,
        settings: &SchedulerOptions,
    ) -> Outcome {
        let mut doubts = Vec::new();
        let mut deepest: Option<RejectionStage> = None;
        for (relaxations, state) in states.iter().enumerate() {
            match self.admit(pod, state, tolerations, need, settings) {
                Ok(types) => {
                    let mut both = self.nodes.requirements.clone();
                    both.add_all(&pod_requirements(pod, state));
                    let capacity_types = launch_order(&both, &types, self.pool.class.as_ref());
                    return Outcome::Admits(Admission { types, capacity_types, relaxations });
                }
                Err(NotAdmitted::Undecided(why)) => doubts.extend(why),
                Err(NotAdmitted::Rejected(step)) => {
                    if deepest.as_ref().is_none_or(|known| known.depth() < step.depth()) {
                        deepest = Some(step);
                    }
                }
            }
        }
        match deepest {
            Some(step) if doubts.is_empty() => Outcome::Rejects(step),
            _ => Outcome::Undecided(sorted_unique(doubts)),
        }
    }

    pub(super) fn admit(
        &self,
        pod: &Pod,
        state: &Relaxation,
        tolerations: &[Toleration],
        need: &ResourceList,
        settings: &SchedulerOptions,
    ) -> Result<TypeSet, NotAdmitted> {
        let both = self.constrained(pod, state, tolerations)?;
        let class = self.pool.class.as_ref();
        let types = match self.remaining_types(pod, &both, need, class, settings) {
            Ok(types) => types,
            Err(RejectionStage::Resources(_) | RejectionStage::Requirements)
                if class.is_none()
                    && self
                        .remaining_types(pod, &both, need, Some(most_permissive_class()), settings)
                        .is_ok() =>
            {
                let class = Uncertainty::NoClass(self.pool.node_class.name.clone());
                return Err(NotAdmitted::Undecided(vec![class]));
            }
            Err(step) => return Err(NotAdmitted::Rejected(step)),
        };
        if !settings.best_effort_min_values
            && let Some((key, wanted, found)) = unmet_min_values(&both, &types, class)
        {
            let stage = RejectionStage::MinValues { key: key.to_owned(), wanted, found };
            return Err(NotAdmitted::Rejected(stage));
        }
        let mut doubts = cluster_uncertainties(self.pool, &both, &types, settings);
        if need.get(POD_ENI).is_some_and(|amount| *amount > 0) && types.iter().any(|t| t.pod_eni.is_none()) {
            doubts.push(Uncertainty::BranchInterfaces);
        }
        if doubts.is_empty() { Ok(types) } else { Err(NotAdmitted::Undecided(doubts)) }
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
        if let Some(taint) = self.pool.taints.iter().find(|taint| !tolerated(taint)) {
            return Err(NotAdmitted::Rejected(RejectionStage::Taint(taint.clone())));
        }
        let asked = pod_requirements(pod, state);
        if let Err(clash) = self.nodes.requirements.compatible(&asked) {
            return Err(NotAdmitted::Rejected(RejectionStage::Label(clash)));
        }
        if self.pool.limits.iter().any(|(name, limit)| name == "nodes" && *limit == 0) {
            return Err(NotAdmitted::Rejected(RejectionStage::NodesLimit));
        }
        if let Some((name, _)) = self.pool.limits.iter().find(|(_, limit)| *limit < 0) {
            return Err(NotAdmitted::Rejected(RejectionStage::Limits(vec![name.clone()])));
        }
        steps::take(20 * self.nodes.requirements.len());
        let mut both = self.nodes.requirements.clone();
        both.add_all(&asked);
        let mut doubts = self.nodes.uncertainties.clone();
        doubts.extend(uncatalogued_types(&both));
        if !doubts.is_empty() {
            return Err(NotAdmitted::Undecided(doubts));
        }
        Ok(both)
    }

    /// The types with which this state of the pod is certainly admitted, as far as that does not depend on the amounts of
    /// resources that it needs, and whether it depends on how many values of a label those with room have. A state that is
    /// rejected or undecided has none: another state may still be admitted.
    fn suited(
        &self,
        pod: &Pod,
        state: &Relaxation,
        tolerations: &[Toleration],
        settings: &SchedulerOptions,
    ) -> (TypeSet, bool) {
        let Ok(both) = self.constrained(pod, state, tolerations) else {
            return (TypeSet::EMPTY, false);
        };
        let class = self.pool.class.as_ref();
        let types = filter_types(self.nodes.types, &both, class, settings).and(&self.nodes.within_limits);
        if types.is_empty() {
            return (types, false);
        }
        if both.iter().any(|(_, requirement)| requirement.min_values.is_some()) {
            return (types, true);
        }
        let is_certain = cluster_uncertainties(self.pool, &both, &types, settings).is_empty();
        (if is_certain { types } else { TypeSet::EMPTY }, false)
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
        let suited = filter_types(self.nodes.types, requirements, class, settings);
        if suited.is_empty() {
            return Err(RejectionStage::Requirements);
        }
        let mut types = suited.and(&self.nodes.within_limits);
        if types.is_empty() {
            return Err(RejectionStage::Limits(self.exceeded(&suited, settings)));
        }
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
        let mut lacking: Option<Vec<String>> = None;
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
                let node = allocatable(instance, class, settings);
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

/// The overlays for the types of a pool.
fn overlays_of<'a>(
    overlays: &[&'a Overlay],
    requirements: &Requirements,
    class: Option<&NodeClass>,
    settings: &SchedulerOptions,
) -> Vec<(TypeSet, &'a ResourceList)> {
    let mut out = Vec::new();
    for overlay in overlays {
        let mut wanted = Requirements::new();
        for spec in &overlay.requirements {
            wanted.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
        }
        if requirements.compatible(&wanted).is_ok() {
            out.push((filter_types(TypeSet::full(), &wanted, class, settings), &overlay.capacity));
        }
    }
    out
}

/// What overlays give a type of a resource, in thousandths. [`None`] if none says anything.
fn overlaid(overlays: &[(TypeSet, &ResourceList)], instance: &InstanceType, resource: &str) -> Option<i128> {
    let mut of = overlays.iter().rev().filter(|(types, _)| types.contains(instance));
    of.find_map(|(_, capacity)| capacity.get(resource)).copied()
}

/// A class that leaves pods the most resources, for pools whose class is not known.
fn most_permissive_class() -> &'static NodeClass {
    static CLASS: LazyLock<NodeClass> = LazyLock::new(|| {
        let none = ["cpu", "memory", "ephemeral-storage"].map(|name| (name.to_owned(), 0)).to_vec();
        let off = ["memory.available", "nodefs.available"];
        let eviction_hard =
            off.map(|signal| (signal.to_owned(), EvictionThreshold::Percent(100_000))).to_vec();
        let max_pods = Some(10_000);
        let disk = BlockDevice {
            root_volume: true,
            ebs: true,
            volume_size: Some(1000 << 50),
            ..BlockDevice::default()
        };
        NodeClass {
            ami_family: AmiFamily::Al2,
            kubelet: Kubelet { max_pods, kube_reserved: none, eviction_hard, ..Kubelet::default() },
            block_devices: vec![disk],
            capacity_reservations: true,
            ..NodeClass::default()
        }
    });
    &CLASS
}

/// Assumptions of an admission that can only be confirmed in the cluster.
fn cluster_uncertainties(
    pool: &Pool,
    both: &Requirements,
    types: &TypeSet,
    settings: &SchedulerOptions,
) -> Vec<Uncertainty> {
    let mut doubts = Vec::new();
    let wanted = |key: &str| both.get(key).is_some_and(|r| !r.allows_absence());
    let class = pool.class.as_ref();
    let has = |test: fn(&NodeClass) -> bool| class.is_some_and(test);
    if settings.region.is_none() && both.get(REGION).is_some_and(|r| r.operator() != Operator::Exists) {
        doubts.push(Uncertainty::Region);
    }
    if both.get(ZONE).is_some() && both.get(ZONE_ID).is_some() {
        doubts.push(Uncertainty::ZonePair);
    }
    if has(|class| class.capacity_reservations) {
        let keys =
            ["id", "type", "interruptible"].map(|end| format!("{AWS_GROUP}/capacity-reservation-{end}"));
        let only = both.get(CAPACITY_TYPE).is_some_and(|r| !r.has("on-demand") && !r.has("spot"));
        if only || keys.iter().any(|key| wanted(key)) {
            doubts.push(Uncertainty::Reservations);
        }
    }
    let placement = both.iter().any(|(key, _)| key.starts_with("karpenter.k8s.aws/placement-group-"));
    if placement && has(|class| class.placement_group) {
        doubts.push(Uncertainty::PlacementGroup);
    }
    for (key, _) in both.iter().filter(|(_, requirement)| requirement.min_values.is_some()) {
        if matches!(key, ZONE | ZONE_ID | REGION) {
            doubts.push(Uncertainty::MinValuesOf(key.to_owned()));
        } else if types.len() > 600 {
            doubts.push(Uncertainty::MinValuesCut);
        }
    }
    if all_retired(types) {
        doubts.push(Uncertainty::Retired);
    }
    if !crashing_keys(both).is_empty() {
        doubts.push(Uncertainty::Crash(pool.name.clone()));
    }
    if has(|class| class.ami_family == AmiFamily::Windows) {
        doubts.push(Uncertainty::Windows);
    }
    if has(|class| class.network_interfaces_efa.is_some() || class.cpu_options) {
        doubts.push(Uncertainty::ClassNarrows(pool.node_class.name.clone()));
    }
    doubts
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
        if (pod.resource_claims && settings.ignore_dra_requests) || !pool.taints.iter().all(tolerated) {
            return None;
        }
        let mut terms: Vec<Option<&Term>> = pod.terms.iter().map(Some).collect();
        if terms.is_empty() {
            terms.push(None);
        }
        let mut types = TypeSet::EMPTY;
        for term in terms {
            let asked = pod_requirements(
                pod,
                &Relaxation { term, last_term: true, preference: None, tolerate_prefer_no_schedule: true },
            );
            if requirements.compatible(&asked).is_ok() {
                types = types.or(&filter_types(TypeSet::full(), &asked, pool.class.as_ref(), settings));
            }
        }
        let ports = pod.containers.iter().flat_map(|container| &container.host_ports).collect();
        (!types.is_empty()).then(|| Self { types, requests: pod_requests(pod), ports })
    }
}
