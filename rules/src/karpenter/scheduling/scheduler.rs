//! The scheduling decision: for each relaxation of the pod, pools are tried in order; the first that admits it wins.
//!
//! Comments name the functions of Karpenter 1.15 that make a step right, below `pkg/controllers/provisioning/scheduling`
//! of <https://github.com/kubernetes-sigs/karpenter> where no other folder is given.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use super::super::provider::Provider;
use super::candidate::{Candidate, Conditions, NotAdmitted, PREFER_NO_SCHEDULE, PreparedPool};
use super::overlay::effective_overlays;
use super::resources::{allocatable, crashes, pod_requests};
use super::topology::Domains;
use super::verdict::{Outcome, RejectionStage, Uncertainty, Unschedulable, Verdict, sorted_unique};
use crate::catalog::{InstanceType, TypeSet, ZONE, ZONE_ID, retired};
use crate::karpenter::scheduling::input::{
    DaemonSet, Overlay, Pod, Pool, ResourceList, SchedulerOptions, Selected, Taint, Term, TopologyKind,
    TopologyRule,
};
use crate::karpenter::scheduling::instance_types::launch_order;
use crate::karpenter::scheduling::pod_requirements::{
    Relaxation, effective_tolerations, ignore_reason, preferences,
};

/// Pools and DaemonSets, prepared for scheduling many pods.
pub struct Scheduler<'a> {
    pools: &'a [Pool],
    daemonsets: Vec<&'a DaemonSet>,
    pub(super) settings: SchedulerOptions,
    /// The overlays that count, highest weight first.
    overlays: Vec<&'a Overlay>,
    /// In the order in which Karpenter tries them.
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Pools that start no nodes for pending pods, with the reason.
    excluded: Vec<(usize, RejectionStage)>,
    /// The node classes that make Karpenter panic.
    crash: Vec<Uncertainty>,
    /// A scheduler without the DaemonSets that have several node selector terms, built for the first pod that needs it.
    without_multi_term_daemonsets: OnceLock<Box<Scheduler<'a>>>,
    /// A scheduler whose nodes have all the memory that EC2 states, built for the first pod that needs it.
    without_memory_overhead: OnceLock<Box<Scheduler<'a>>>,
    /// The domains of spread and pod affinity.
    domains: Domains,
    /// A scheduler in which overlays count, where that is not known and there are any that give types resources.
    other: Option<Box<Scheduler<'a>>>,
}

/// Which instance types of a pool can take a pod, apart from the amounts of resources that it needs. The sets are shared,
/// because a verdict is copied for each pod that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuitedTypes {
    /// Karpenter starts no node for the pod, whatever it needs.
    Nothing,
    /// Karpenter starts a node for the pod exactly if one of these has room for it.
    Types(Arc<TypeSet>),
    /// Karpenter starts no node if none of these has room for the pod; otherwise the decision depends on more.
    AtMost(Arc<TypeSet>),
    /// The decision depends on more.
    Undecided,
}

impl<'a> Scheduler<'a> {
    /// Prepares the pools: excludes those that never admit a pod, sorts the others, applies their
    /// requirements.
    pub fn new(pools: &'a [Pool], daemonsets: &'a [DaemonSet], settings: &SchedulerOptions) -> Self {
        Self::with(pools, daemonsets.iter().collect(), Vec::new(), settings.clone())
    }

    /// A scheduler in which overlays may count: their feature gate is off unless it is switched on. A verdict that
    /// depends on them is unknown.
    pub(crate) fn or_with_overlays(mut self, overlays: &'a [Overlay]) -> Self {
        if overlays.iter().any(|overlay| !overlay.capacity.is_empty()) {
            let plain = Self::with(self.pools, self.daemonsets.clone(), Vec::new(), self.settings.clone());
            self.other = Some(Box::new(plain.with_overlays(overlays)));
        }
        self
    }

    /// A scheduler in which overlays count.
    pub(crate) fn with_overlays(self, overlays: &'a [Overlay]) -> Self {
        let mut sorted: Vec<&Overlay> = overlays.iter().collect();
        // `OrderByWeight`: an overlay that contradicts an earlier one of the same weight is not applied.
        sorted.sort_by_key(|overlay| std::cmp::Reverse((overlay.weight, &overlay.name)));
        Self::with(self.pools, self.daemonsets, sorted, self.settings)
    }

    pub(crate) fn for_pool(pool: &'a Pool, prepared: &PreparedPool, settings: &SchedulerOptions) -> Self {
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
            domains: Domains::of(std::iter::once(pool)),
            other: None,
        }
    }

    /// The types that suit a pod, in a scheduler for one pool and without DaemonSets and overlays.
    pub(crate) fn suited_types(&self, pod: &Pod) -> SuitedTypes {
        let is_simple = self.crash.is_empty()
            // The table of what types have room for holds for Karpenter's own nodes.
            && self.pools.iter().all(|pool| pool.provider() == Provider::Aws)
            && self.daemonsets.is_empty()
            && self.other.is_none()
            && self.candidates.len() < 2
            && pod.uncertainties.is_empty()
            && pod.volumes.is_empty()
            && pod.topology.is_empty();
        if !is_simple {
            return SuitedTypes::Undecided;
        }
        // A pool without types is not among Karpenter's templates (`NewScheduler`).
        let Some(candidate) = self.candidates.first() else {
            return SuitedTypes::Nothing;
        };
        // No pool is tried for such a pod (`Provisioner.GetPendingPods`).
        if ignore_reason(pod, &self.settings).is_some() {
            return SuitedTypes::Nothing;
        }
        let mut all = TypeSet::EMPTY;
        let tolerations = effective_tolerations(pod, &self.settings);
        let mut is_certain = true;
        for state in self.relaxations(pod) {
            let (types, counts_values) = candidate.suited(pod, &state, &tolerations, self.conditions());
            all = all.or(&types);
            is_certain &= !counts_values;
        }
        // A node of a type that EC2 no longer offers is not certain.
        let all = all.without(retired());
        match is_certain {
            _ if all.is_empty() => SuitedTypes::Nothing,
            true => SuitedTypes::Types(Arc::new(all)),
            false => SuitedTypes::AtMost(Arc::new(all)),
        }
    }

    /// Whether Karpenter certainly starts a node for the pod, in a scheduler for one pool. As [`Scheduler::decide`] says it,
    /// without working out why it does not.
    pub fn admits(&self, pod: &Pod) -> bool {
        self.crash.is_empty() && matches!(self.schedule_once(pod), Verdict::Fits { .. })
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
        let effective = effective_overlays(&overlays, pools, &settings);
        for (position, pool) in order {
            if pool.class.as_ref().is_some_and(crashes) {
                crash.push(Uncertainty::Crash(pool.node_class.name.clone()));
            }
            match Candidate::new(position, pool, &daemonsets, &effective, &settings) {
                Ok(candidate) => candidates.push(candidate),
                Err(stage) => excluded.push((position, stage)),
            }
        }
        let (without_multi_term_daemonsets, without_memory_overhead) = (OnceLock::new(), OnceLock::new());
        let domains = Domains::of(candidates.iter().map(|candidate| candidate.pool));
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
            domains,
            other: None,
        }
    }

    /// Whether Karpenter starts a node for the pod.
    pub fn decide(&self, pod: &Pod) -> Verdict {
        // Karpenter resolves the types of all pools before it takes a pod (`Provisioner.NewScheduler`): a class on which that
        // panics decides for every pod, whichever pool would take it.
        if !self.crash.is_empty() {
            return Verdict::Unknown { uncertainties: self.crash.clone() };
        }
        let verdict = self.schedule_with_overlays(pod);
        let (single_term, several): (Vec<_>, Vec<_>) =
            self.daemonsets.iter().partition(|set| set.pod.terms.len() < 2);
        if several.is_empty() {
            return self.note_memory_estimate(pod, verdict);
        }
        // `isDaemonPodCompatible` removes terms from the pod that it shares between pools and types: whether such a
        // DaemonSet counts depends on their order. Only a verdict that does not depend on it is certain.
        let simpler =
            || Box::new(Self::with(self.pools, single_term, self.overlays.clone(), self.settings.clone()));
        let without = self.without_multi_term_daemonsets.get_or_init(simpler).schedule_once(pod);
        if std::mem::discriminant(&verdict) != std::mem::discriminant(&without) {
            let uncertainties =
                several.iter().map(|set| Uncertainty::DaemonSetTerms(set.name.clone())).collect();
            return Verdict::Unknown { uncertainties };
        }
        self.note_memory_estimate(pod, verdict)
    }

    /// The verdict without overlays, or unknown if overlays would change it.
    fn schedule_with_overlays(&self, pod: &Pod) -> Verdict {
        let verdict = self.schedule_once(pod);
        // NodeOverlays are behind a feature gate that is off by default: without any, nothing depends on it.
        let Some(other) = &self.other else {
            return verdict;
        };
        let with = other.schedule_once(pod);
        let of_overlays = || other.overlays.iter().map(|overlay| Uncertainty::Overlay(overlay.name.clone()));
        if std::mem::discriminant(&verdict) != std::mem::discriminant(&with) {
            return Verdict::Unknown { uncertainties: sorted_unique(of_overlays().collect()) };
        }
        match (verdict, with) {
            (
                Verdict::Fits { pool, types, mut uncertainties },
                Verdict::Fits { pool: other_pool, types: other_types, .. },
            ) => {
                if (pool, types) != (other_pool, other_types) {
                    uncertainties.extend(of_overlays());
                }
                Verdict::Fits { pool, types, uncertainties: sorted_unique(uncertainties) }
            }
            (verdict, _) => verdict,
        }
    }

    /// The outcome of each pool for the pod by itself, in the order in which Karpenter tries the pools. Empty if Karpenter
    /// ignores the pod.
    pub(crate) fn survey(&self, pod: &Pod) -> Vec<(usize, Outcome)> {
        // No pool is tried for such a pod (`Provisioner.GetPendingPods`).
        if ignore_reason(pod, &self.settings).is_some() {
            return Vec::new();
        }
        let tolerations = effective_tolerations(pod, &self.settings);
        let need = pod_requests(pod);
        let states = self.relaxations(pod);
        let tried = self.candidates.iter().map(|candidate| {
            (candidate.position, candidate.outcome(pod, &states, &tolerations, &need, self.conditions()))
        });
        let excluded =
            self.excluded.iter().map(|(position, stage)| (*position, Outcome::Rejects(stage.clone())));
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
        Ok(self.candidate(position).map_or((TypeSet::EMPTY, Vec::new()), |candidate| {
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
    pub(crate) fn pods_on(&self, instance: &'static InstanceType, need: &ResourceList) -> i128 {
        self.candidates.first().map_or(0, |candidate| candidate.pods_on(instance, need, &self.settings))
    }

    /// The types with [`Scheduler::pods_on`] for the pool at a position, with all the memory that EC2 states.
    pub(crate) fn most_pods_on(
        &self,
        position: usize,
        types: &TypeSet,
        need: &ResourceList,
    ) -> Vec<(&'static InstanceType, i128)> {
        let settings = SchedulerOptions { memory_overhead: 0, ..self.settings.clone() };
        let candidate = self.candidate(position);
        let pods = |one| candidate.map_or(0, |candidate| candidate.pods_on(one, need, &settings));
        types.iter().map(|instance| (instance, pods(instance))).collect()
    }

    /// The capacity of a node of the first pool for its limits, in thousandths, with that of overlays.
    pub(crate) fn capacity_of(&self, instance: &'static InstanceType, resource: &str) -> i128 {
        let candidate = self.candidates.first();
        candidate.map_or(0, |candidate| candidate.capacity(instance, resource, &self.settings))
    }

    /// [`Scheduler::capacity_of`] for the pool at a position.
    pub(crate) fn capacity_on(
        &self,
        position: usize,
        instance: &'static InstanceType,
        resource: &str,
    ) -> i128 {
        let candidate = self.candidate(position);
        candidate.map_or(0, |candidate| candidate.capacity(instance, resource, &self.settings))
    }

    fn candidate(&self, position: usize) -> Option<&Candidate<'a>> {
        self.candidates.iter().find(|candidate| candidate.position == position)
    }

    /// Marks a rejection that is caused only by the estimate of the memory overhead.
    fn note_memory_estimate(&self, pod: &Pod, verdict: Verdict) -> Verdict {
        // More memory takes nothing away: a pod that fits stays one that fits.
        let Verdict::DoesNotFit(mut unschedulable) = verdict else {
            return verdict;
        };
        let lacks_memory = |stage: &RejectionStage| match stage {
            RejectionStage::Resources(names) => names.is_empty() || names.iter().any(|name| name == "memory"),
            _ => false,
        };
        // Karpenter takes VM_MEMORY_OVERHEAD_PERCENT off only until a node of the type has told its memory
        // (`memory` in `pkg/providers/instancetype/types.go` of the AWS provider).
        if self.settings.memory_overhead > 0
            && unschedulable.pools.iter().any(|(_, stage)| lacks_memory(stage))
        {
            let raw = SchedulerOptions { memory_overhead: 0, ..self.settings.clone() };
            let roomier =
                || Box::new(Self::with(self.pools, self.daemonsets.clone(), self.overlays.clone(), raw));
            let again = self.without_memory_overhead.get_or_init(roomier).schedule_once(pod);
            unschedulable.within_memory_estimate = matches!(again, Verdict::Fits { .. });
        }
        Verdict::DoesNotFit(unschedulable)
    }

    /// The verdict for fixed DaemonSets, overlays and settings. EKS Auto Mode and a Karpenter of one's own each look at all pods and at
    /// the pools of their own node classes alone.
    fn schedule_once(&self, pod: &Pod) -> Verdict {
        let is_auto = |candidate: &&Candidate<'a>| candidate.pool.provider() == Provider::AutoMode;
        let (auto, own): (Vec<_>, Vec<_>) = self.candidates.iter().partition(is_auto);
        match (own.is_empty(), auto.is_empty()) {
            (false, false) => self.together(self.schedule_on(pod, &own), self.schedule_on(pod, &auto)),
            (true, _) => self.schedule_on(pod, &auto),
            (_, true) => self.schedule_on(pod, &own),
        }
    }

    /// What two controllers do with a pod.
    fn together(&self, one: Verdict, other: Verdict) -> Verdict {
        match (one, other) {
            (
                Verdict::Fits { pool: a, types: of_a, uncertainties: why_a },
                Verdict::Fits { pool: b, types: of_b, uncertainties: why_b },
            ) => {
                let is_first = order(&self.pools[a], &self.pools[b]) == Ordering::Less;
                let (first, second) = if is_first { ((a, of_a, why_a), b) } else { ((b, of_b, why_b), a) };
                let (pool, types, mut uncertainties) = first;
                // On a node that stands the pod does not wait for another.
                if self.pools[pool].replicas.is_none() {
                    uncertainties.push(Uncertainty::OtherController(self.pools[second].name.clone()));
                }
                Verdict::Fits { pool, types, uncertainties: sorted_unique(uncertainties) }
            }
            (fits @ Verdict::Fits { .. }, _) | (_, fits @ Verdict::Fits { .. }) => fits,
            (Verdict::Unknown { uncertainties: mut all }, Verdict::Unknown { uncertainties }) => {
                all.extend(uncertainties);
                Verdict::Unknown { uncertainties: sorted_unique(all) }
            }
            (unknown @ Verdict::Unknown { .. }, _) | (_, unknown @ Verdict::Unknown { .. }) => unknown,
            (Verdict::DoesNotFit(mut all), Verdict::DoesNotFit(more)) => {
                let known: Vec<usize> = all.pools.iter().map(|(position, _)| *position).collect();
                all.pools.extend(more.pools.into_iter().filter(|(position, _)| !known.contains(position)));
                Verdict::DoesNotFit(all)
            }
        }
    }

    /// The verdict of one controller, on its pools.
    fn schedule_on(&self, pod: &Pod, candidates: &[&Candidate<'a>]) -> Verdict {
        // Pods that fail `Provisioner.Validate` are never given to the scheduler, and for pods with resource claims
        // `Scheduler.add` returns an error on which `trySchedule` does not relax them.
        if let Some(ignored) = ignore_reason(pod, &self.settings) {
            return Verdict::DoesNotFit(Box::new(Unschedulable {
                ignored: Some(ignored),
                ..Unschedulable::default()
            }));
        }
        let tolerations = effective_tolerations(pod, &self.settings);
        let need = pod_requests(pod);
        let mut uncertainties: Vec<Uncertainty> = Vec::new();
        let mut stages: Vec<Option<RejectionStage>> = vec![None; candidates.len()];
        // The pools that take the pod if they have subnets in a zone, and whether the types are the same in any zone.
        let mut doubts: Vec<(usize, bool)> = Vec::new();
        for state in self.relaxations(pod) {
            for (candidate, deepest) in candidates.iter().zip(&mut stages) {
                match candidate.admit(pod, &state, &tolerations, &need, self.conditions()) {
                    // `addToNewNodeClaim` takes the first pool in order, and `trySchedule` relaxes the pod only after
                    // all pools have rejected it: neither a later pool nor a later relaxation is tried.
                    Ok(_) if doubts.iter().any(|doubt| *doubt != (candidate.position, true)) => {
                        return Verdict::Unknown { uncertainties: sorted_unique(uncertainties) };
                    }
                    Ok(types) => return fits(pod, &state, candidate, types, uncertainties),
                    Err(NotAdmitted::Undecided(why)) => {
                        // The pod waits for a reservation that is full: no other pool is tried (`NewReservedOfferingError`). Nor is one after
                        // `minValues` that the list of types that is cut to 600 does not meet (`TruncateInstanceTypes`).
                        let may_wait = why == [Uncertainty::Reservations] && candidate.knows_reservations()
                            || why == [Uncertainty::MinValuesCut];
                        if why.iter().any(|one| matches!(one, Uncertainty::Subnets(_))) {
                            let is_about_zones = |term: &Term| {
                                term.expressions.iter().all(|one| matches!(one.key.as_str(), ZONE | ZONE_ID))
                            };
                            doubts.push((candidate.position, state.preference.is_none_or(is_about_zones)));
                        }
                        uncertainties.extend(why);
                        if may_wait {
                            return Verdict::Unknown { uncertainties: sorted_unique(uncertainties) };
                        }
                    }
                    Err(NotAdmitted::Rejected(stage)) => {
                        if deepest.as_ref().is_none_or(|known| known.depth() < stage.depth()) {
                            *deepest = Some(stage);
                        }
                    }
                }
            }
        }
        // One of the undecided pools may admit the pod.
        if !uncertainties.is_empty() {
            return Verdict::Unknown { uncertainties: sorted_unique(uncertainties) };
        }
        let rejected = candidates.iter().zip(stages).filter_map(|(c, stage)| Some((c.position, stage?)));
        let pools = rejected.chain(self.excluded.iter().cloned()).collect();
        Verdict::DoesNotFit(Box::new(Unschedulable { pools, ..Unschedulable::default() }))
    }

    /// The relaxations in the order in which Karpenter tries them (`Preferences.Relax`): required terms but the last, preferred
    /// pod affinity and anti-affinity, preferred node affinity by descending weight, spread with `ScheduleAnyway`, then
    /// `PreferNoSchedule` taints if any pool has one. A constraint that is dropped is not added again.
    pub(super) fn relaxations<'p>(&self, pod: &'p Pod) -> Vec<Relaxation<'p>> {
        let preferences = preferences(pod, &self.settings);
        let soft: Vec<TopologyKind> =
            pod.topology.iter().filter(|rule| !rule.required).map(|rule| rule.kind).collect();
        let around = soft.iter().filter(|kind| **kind != TopologyKind::Spread).count();
        let mut state = Relaxation {
            term: pod.terms.first(),
            last_term: pod.terms.len() < 2,
            preference: preferences.first().copied(),
            dropped_rules: if self.settings.ignore_preferences { soft.len() } else { 0 },
            tolerate_prefer_no_schedule: false,
        };
        let mut states = vec![state];
        for at in 1..pod.terms.len() {
            state = Relaxation { term: pod.terms.get(at), last_term: at + 1 == pod.terms.len(), ..state };
            states.push(state);
        }
        while state.dropped_rules < around {
            state.dropped_rules += 1;
            states.push(state);
        }
        for preference in preferences.iter().skip(1).copied().map(Some).chain([None]).take(preferences.len())
        {
            state.preference = preference;
            states.push(state);
        }
        while state.dropped_rules < soft.len() {
            state.dropped_rules += 1;
            states.push(state);
        }
        let is_soft = |taint: &Taint| taint.effect == PREFER_NO_SCHEDULE;
        if self.candidates.iter().any(|candidate| candidate.pool.taints.iter().any(is_soft)) {
            states.push(Relaxation { tolerate_prefer_no_schedule: true, ..state });
        }
        states
    }

    /// What decides about pods besides a pool.
    pub(super) fn conditions(&self) -> Conditions<'_> {
        Conditions { settings: &self.settings, domains: &self.domains }
    }
}

/// The order in which pods find nodes: those that stand come first (`addToExistingNode` in scheduler.go), then those that
/// Karpenter starts, by weight and name, both descending (`OrderByWeight` in `pkg/utils/nodepool`).
fn order(a: &Pool, b: &Pool) -> Ordering {
    let key = |pool: &Pool| (pool.replicas.is_some_and(|nodes| nodes > 0), pool.weight.unwrap_or(0));
    (key(b), &b.name).cmp(&(key(a), &a.name))
}

fn fits(
    pod: &Pod,
    state: &Relaxation,
    candidate: &Candidate,
    types: TypeSet,
    mut uncertainties: Vec<Uncertainty>,
) -> Verdict {
    let mut of_pod: Vec<Uncertainty> = pod.uncertainties.clone();
    // Preferred pod affinity that the cluster does not satisfy costs the pod this term: `Preferences.Relax` removes required
    // terms before it.
    let hopes_for_others = |rule: &TopologyRule| {
        !rule.required && rule.kind == TopologyKind::Affinity && rule.selects == Selected::Others
    };
    if pod.topology.iter().any(hopes_for_others) && !state.last_term {
        of_pod.push(Uncertainty::PreferredPodAffinity);
    }
    // Volumes and other pods may rule out every pool.
    if !of_pod.is_empty() {
        uncertainties.extend(of_pod);
        return Verdict::Unknown { uncertainties: sorted_unique(uncertainties) };
    }
    uncertainties.extend(candidate.pool.missing_class());
    let class = candidate.pool.class.as_ref();
    uncertainties.extend(class.and_then(|class| class.windows_build).map(|_| Uncertainty::Windows));
    Verdict::Fits { pool: candidate.position, types, uncertainties: sorted_unique(uncertainties) }
}
