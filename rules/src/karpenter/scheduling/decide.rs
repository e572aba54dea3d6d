//! The decision itself: states of relaxation outside, pools inside, the first admission wins.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{LazyLock, OnceLock};

use super::super::requirement::{Operator, Requirements};
use super::resources::{POD_ENI, add, allocatable, capacity, crashes, need};
use super::verdict::{Doubt, Misfit, Step, Verdict};
use crate::catalog::{REGION, TypeSet, ZONE, ZONE_ID};
use crate::karpenter::scheduling::input::{
    AmiFamily, Amounts, BlockDevice, DaemonSet, HostPort, Kubelet, NodeClass, Pod, Pool, Settings, Taint,
    Term, Threshold, Toleration,
};
use crate::karpenter::scheduling::instance_types::{
    Admitted, admitted, all_retired, crashing_keys, invalid, narrow, new_types, pool_requirements,
    too_few_values,
};
use crate::karpenter::scheduling::pod_requirements::{
    State, collide, ignored, preferences, tolerates, tolerations, wishes,
};

const PREFER: &str = "PreferNoSchedule";
const PROVIDER: &str = "karpenter.k8s.aws";

/// Whether Karpenter starts a node for the pod, from which pool and of which types.
pub fn decide(pod: &Pod, pools: &[Pool], daemonsets: &[DaemonSet], settings: &Settings) -> Verdict {
    Scheduler::new(pools, daemonsets, settings).decide(pod)
}

/// Pools and DaemonSets made ready to be asked for many pods.
pub struct Scheduler<'a> {
    pools: &'a [Pool],
    daemonsets: Vec<&'a DaemonSet>,
    settings: Settings,
    /// In the order in which Karpenter asks them.
    candidates: Vec<Candidate<'a>>,
    left_out: Vec<(usize, Step)>,
    crash: Vec<Doubt>,
    /// The same without DaemonSets that have several terms.
    simpler: OnceLock<Box<Scheduler<'a>>>,
    /// The same with nodes that have all the memory that EC2 states.
    roomier: OnceLock<Box<Scheduler<'a>>>,
}

/// A pool that takes part.
struct Candidate<'a> {
    position: usize,
    pool: &'a Pool,
    requirements: Requirements,
    types: TypeSet,
    /// Of `types`, those within the pool's limits.
    affordable: TypeSet,
    daemons: Vec<Daemon<'a>>,
    doubts: Vec<Doubt>,
}

/// A DaemonSet on the nodes of a pool.
struct Daemon<'a> {
    types: TypeSet,
    need: Amounts,
    ports: Vec<&'a HostPort>,
}

enum Answer {
    Yes(TypeSet),
    No(Step),
    Maybe(Vec<Doubt>),
}

impl<'a> Scheduler<'a> {
    /// Prepares pools: leaves out those that never take a pod, orders the rest, applies their own requirements.
    pub fn new(pools: &'a [Pool], daemonsets: &'a [DaemonSet], settings: &Settings) -> Self {
        Self::with(pools, daemonsets.iter().collect(), settings.clone())
    }

    fn with(pools: &'a [Pool], daemonsets: Vec<&'a DaemonSet>, settings: Settings) -> Self {
        let mut order: Vec<(usize, &Pool)> = pools.iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| {
            (b.weight.unwrap_or(0), &b.name).cmp(&(a.weight.unwrap_or(0), &a.name))
        });
        let (mut candidates, mut left_out, mut crash) = (Vec::new(), Vec::new(), Vec::new());
        for (position, pool) in order {
            if pool.class.as_ref().is_some_and(crashes) {
                crash.push(Doubt::Crash(pool.node_class.name.clone()));
            }
            match Candidate::new(position, pool, &daemonsets, &settings) {
                Ok(candidate) => candidates.push(candidate),
                Err(step) => left_out.push((position, step)),
            }
        }
        let (simpler, roomier) = (OnceLock::new(), OnceLock::new());
        Self { pools, daemonsets, settings, candidates, left_out, crash, simpler, roomier }
    }

    /// Whether Karpenter starts a node for the pod.
    pub fn decide(&self, pod: &Pod) -> Verdict {
        if !self.crash.is_empty() {
            return Verdict::Unknown { doubts: self.crash.clone() };
        }
        let verdict = self.first(pod);
        let (simple, several): (Vec<_>, Vec<_>) =
            self.daemonsets.iter().partition(|set| set.pod.terms.len() < 2);
        if several.is_empty() {
            return self.with_memory_note(pod, verdict);
        }
        let simpler = || Box::new(Self::with(self.pools, simple, self.settings.clone()));
        let without = self.simpler.get_or_init(simpler).first(pod);
        if std::mem::discriminant(&verdict) != std::mem::discriminant(&without) {
            let doubts = several.iter().map(|set| Doubt::DaemonSetTerms(set.name.clone())).collect();
            return Verdict::Unknown { doubts };
        }
        self.with_memory_note(pod, verdict)
    }

    /// Marks misfits that only the estimate of the memory overhead causes.
    fn with_memory_note(&self, pod: &Pod, verdict: Verdict) -> Verdict {
        let Verdict::DoesNotFit(mut misfit) = verdict else {
            return verdict;
        };
        let short = |step: &Step| match step {
            Step::Resources(names) => names.is_empty() || names.iter().any(|name| name == "memory"),
            _ => false,
        };
        if self.settings.memory_overhead > 0 && misfit.pools.iter().any(|(_, step)| short(step)) {
            let raw = Settings { memory_overhead: 0, ..self.settings.clone() };
            let roomier = || Box::new(Self::with(self.pools, self.daemonsets.clone(), raw));
            let again = self.roomier.get_or_init(roomier).first(pod);
            misfit.within_memory_estimate = matches!(again, Verdict::Fits { .. });
        }
        Verdict::DoesNotFit(misfit)
    }

    fn first(&self, pod: &Pod) -> Verdict {
        if let Some(ignored) = ignored(pod, &self.settings) {
            return Verdict::DoesNotFit(Box::new(Misfit { ignored: Some(ignored), ..Misfit::default() }));
        }
        let tolerations = tolerations(pod, &self.settings);
        let need = need(pod);
        let mut doubts: Vec<Doubt> = Vec::new();
        let mut steps: Vec<Option<Step>> = vec![None; self.candidates.len()];
        for state in self.states(pod) {
            for (candidate, deepest) in self.candidates.iter().zip(&mut steps) {
                match candidate.admit(pod, &state, &tolerations, &need, &self.settings) {
                    Answer::Yes(types) => return fits(pod, &state, candidate, types, doubts),
                    Answer::Maybe(why) => doubts.extend(why),
                    Answer::No(step) => {
                        if deepest.as_ref().is_none_or(|known| known.depth() < step.depth()) {
                            *deepest = Some(step);
                        }
                    }
                }
            }
        }
        if !doubts.is_empty() {
            return Verdict::Unknown { doubts: sorted(doubts) };
        }
        let asked = self.candidates.iter().zip(steps).filter_map(|(c, step)| Some((c.position, step?)));
        let pools = asked.chain(self.left_out.iter().cloned()).collect();
        Verdict::DoesNotFit(Box::new(Misfit { pools, ..Misfit::default() }))
    }

    /// The states in the order in which Karpenter tries them. What is dropped never comes back.
    fn states<'p>(&self, pod: &'p Pod) -> Vec<State<'p>> {
        let preferences = preferences(pod, &self.settings);
        let heaviest = preferences.first().copied();
        let state = |term, last_term, preference| State { term, last_term, preference, soft: false };
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
        if self.candidates.iter().any(|c| c.pool.taints.iter().any(|taint| taint.effect == PREFER)) {
            states.push(State { term: last, last_term: true, preference: None, soft: true });
        }
        states
    }
}

fn fits(pod: &Pod, state: &State, candidate: &Candidate, types: TypeSet, mut doubts: Vec<Doubt>) -> Verdict {
    let mut firm: Vec<Doubt> = pod.doubts.clone();
    if pod.preferred_pod_affinity && !state.last_term {
        firm.push(Doubt::PreferredPodAffinity);
    }
    if !firm.is_empty() {
        doubts.extend(firm);
        return Verdict::Unknown { doubts: sorted(doubts) };
    }
    if candidate.pool.class.is_none() {
        doubts.push(Doubt::NoClass(candidate.pool.node_class.name.clone()));
    }
    Verdict::Fits { pool: candidate.position, types, doubts: sorted(doubts) }
}

fn sorted(mut doubts: Vec<Doubt>) -> Vec<Doubt> {
    doubts.sort();
    doubts.dedup();
    doubts
}

impl<'a> Candidate<'a> {
    fn new(
        position: usize,
        pool: &'a Pool,
        daemonsets: &[&'a DaemonSet],
        settings: &Settings,
    ) -> Result<Self, Step> {
        if pool.replicas {
            return Err(Step::Static);
        }
        if let Some(problem) = invalid(pool) {
            return Err(Step::Invalid(problem));
        }
        let class = pool.class.as_ref();
        let requirements = pool_requirements(pool);
        let Admitted { types, conflict, mut doubts } = admitted(pool, &requirements, settings);
        let foreign = !pool.node_class.group.is_empty() && pool.node_class.group != PROVIDER;
        if foreign {
            doubts.push(Doubt::OtherProvider(pool.node_class.name.clone()));
        }
        if doubts.is_empty() && conflict.is_some() {
            return Err(Step::NoTypes(conflict));
        }
        let affordable = types.iter().filter(|instance| {
            let node = capacity(instance, class, settings);
            pool.limits.iter().all(|(name, limit)| node.get(name) <= *limit)
        });
        let affordable = if pool.limits.is_empty() { types } else { affordable.collect() };
        let daemons =
            daemonsets.iter().filter_map(|set| Daemon::new(set, pool, &requirements, settings)).collect();
        Ok(Self { position, pool, requirements, types, affordable, daemons, doubts })
    }

    fn admit(
        &self,
        pod: &Pod,
        state: &State,
        tolerations: &[Toleration],
        need: &Amounts,
        settings: &Settings,
    ) -> Answer {
        let tolerated = |taint: &Taint| {
            (state.soft && taint.effect == PREFER)
                || tolerations.iter().any(|toleration| tolerates(toleration, taint))
        };
        if let Some(taint) = self.pool.taints.iter().find(|taint| !tolerated(taint)) {
            return Answer::No(Step::Taint(taint.clone()));
        }
        let asked = wishes(pod, state);
        if let Err(clash) = self.requirements.compatible(&asked) {
            return Answer::No(Step::Label(clash));
        }
        if self.pool.limits.iter().any(|(name, limit)| name == "nodes" && *limit == 0) {
            return Answer::No(Step::NodesLimit);
        }
        if let Some((name, _)) = self.pool.limits.iter().find(|(_, limit)| *limit < 0) {
            return Answer::No(Step::Limits(vec![name.clone()]));
        }
        let mut both = self.requirements.clone();
        both.add_all(&asked);
        let mut doubts = self.doubts.clone();
        doubts.extend(new_types(&both));
        if !doubts.is_empty() {
            return Answer::Maybe(doubts);
        }
        let class = self.pool.class.as_ref();
        let types = match self.remaining(pod, &both, need, class, settings) {
            Ok(types) => types,
            Err(Step::Resources(_))
                if class.is_none()
                    && self.remaining(pod, &both, need, Some(roomiest_class()), settings).is_ok() =>
            {
                return Answer::Maybe(vec![Doubt::NoClass(self.pool.node_class.name.clone())]);
            }
            Err(step) => return Answer::No(step),
        };
        if !settings.best_effort_min_values
            && let Some((key, wanted, found)) = too_few_values(&both, &types, class)
        {
            return Answer::No(Step::MinValues { key: key.to_owned(), wanted, found });
        }
        let mut doubts = assumptions(self.pool, &both, &types, settings);
        if need.get(POD_ENI).is_some_and(|amount| *amount > 0) {
            doubts.push(Doubt::BranchInterfaces);
        }
        if doubts.is_empty() { Answer::Yes(types) } else { Answer::Maybe(doubts) }
    }

    /// The types left by limits, requirements, host ports and room, or the first of these that leaves none.
    fn remaining(
        &self,
        pod: &Pod,
        requirements: &Requirements,
        need: &Amounts,
        class: Option<&NodeClass>,
        settings: &Settings,
    ) -> Result<TypeSet, Step> {
        let suited = narrow(self.types, requirements, class, settings);
        if suited.is_empty() {
            return Err(Step::Requirements);
        }
        let mut types = suited.and(&self.affordable);
        if types.is_empty() {
            return Err(Step::Limits(self.exceeded(&suited, settings)));
        }
        let ports: Vec<&HostPort> =
            pod.containers.iter().flat_map(|container| &container.host_ports).collect();
        for daemon in &self.daemons {
            if ports.iter().any(|port| daemon.ports.iter().any(|taken| collide(port, taken))) {
                types = types.without(&daemon.types);
            }
        }
        if types.is_empty() {
            return Err(Step::HostPort);
        }
        let mut room = TypeSet::EMPTY;
        let mut lacking: Option<Vec<String>> = None;
        for instance in types.iter() {
            let node = allocatable(instance, class, settings);
            let mut total = Cow::Borrowed(need);
            for daemon in self.daemons.iter().filter(|daemon| daemon.types.contains(instance)) {
                add(total.to_mut(), &daemon.need);
            }
            let short: BTreeSet<&str> = node.lacking(&total).collect();
            if short.is_empty() {
                room.insert(instance);
            } else if let Some(names) = &mut lacking {
                names.retain(|name| short.contains(name.as_str()));
            } else {
                lacking = Some(short.into_iter().map(str::to_owned).collect());
            }
        }
        if room.is_empty() { Err(Step::Resources(lacking.unwrap_or_default())) } else { Ok(room) }
    }

    /// The limits that exclude some of the types.
    fn exceeded(&self, types: &TypeSet, settings: &Settings) -> Vec<String> {
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

/// A class that leaves pods as much room as any can, for pools whose class is not known.
fn roomiest_class() -> &'static NodeClass {
    static CLASS: LazyLock<NodeClass> = LazyLock::new(|| {
        let none = ["cpu", "memory", "ephemeral-storage"].map(|name| (name.to_owned(), 0)).to_vec();
        let off = ["memory.available", "nodefs.available"];
        let eviction_hard = off.map(|signal| (signal.to_owned(), Threshold::Percent(100_000))).to_vec();
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
            ..NodeClass::default()
        }
    });
    &CLASS
}

/// What an admission takes for granted, though it is known only in the cluster.
fn assumptions(pool: &Pool, both: &Requirements, types: &TypeSet, settings: &Settings) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let wanted = |key: &str| both.get(key).is_some_and(|r| !r.allows_absence());
    let class = pool.class.as_ref();
    let has = |test: fn(&NodeClass) -> bool| class.is_some_and(test);
    if settings.region.is_none() && both.get(REGION).is_some_and(|r| r.operator() != Operator::Exists) {
        doubts.push(Doubt::Region);
    }
    if both.get(ZONE).is_some() && both.get(ZONE_ID).is_some() {
        doubts.push(Doubt::ZonePair);
    }
    if has(|class| class.capacity_reservations) {
        let keys =
            ["id", "type", "interruptible"].map(|end| format!("{PROVIDER}/capacity-reservation-{end}"));
        let only =
            both.get(crate::catalog::CAPACITY_TYPE).is_some_and(|r| !r.has("on-demand") && !r.has("spot"));
        if only || keys.iter().any(|key| wanted(key)) {
            doubts.push(Doubt::Reservations);
        }
    }
    let placement = both.iter().any(|(key, _)| key.starts_with("karpenter.k8s.aws/placement-group-"));
    if placement && has(|class| class.placement_group) {
        doubts.push(Doubt::PlacementGroup);
    }
    for (key, _) in both.iter().filter(|(_, requirement)| requirement.min_values.is_some()) {
        if matches!(key, ZONE | ZONE_ID | REGION) {
            doubts.push(Doubt::MinValuesOf(key.to_owned()));
        } else if types.len() > 600 {
            doubts.push(Doubt::MinValuesCut);
        }
    }
    if all_retired(types) {
        doubts.push(Doubt::Retired);
    }
    if !crashing_keys(both).is_empty() {
        doubts.push(Doubt::Crash(pool.name.clone()));
    }
    if has(|class| class.ami_family == AmiFamily::Windows) {
        doubts.push(Doubt::Windows);
    }
    if has(|class| class.network_interfaces_efa.is_some() || class.cpu_options) {
        doubts.push(Doubt::ClassNarrows(pool.node_class.name.clone()));
    }
    doubts
}

impl<'a> Daemon<'a> {
    /// The DaemonSet on nodes of a pool; [`None`] if it does not run there.
    fn new(
        set: &'a DaemonSet,
        pool: &Pool,
        requirements: &Requirements,
        settings: &Settings,
    ) -> Option<Self> {
        let pod = &set.pod;
        let tolerated = |taint: &Taint| {
            taint.effect == PREFER || pod.tolerations.iter().any(|given| tolerates(given, taint))
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
            let asked = wishes(pod, &State { term, last_term: true, preference: None, soft: true });
            if requirements.compatible(&asked).is_ok() {
                types = types.or(&narrow(TypeSet::full(), &asked, pool.class.as_ref(), settings));
            }
        }
        let ports = pod.containers.iter().flat_map(|container| &container.host_ports).collect();
        (!types.is_empty()).then(|| Self { types, need: need(pod), ports })
    }
}
