//! A pool that can start nodes for pods: the nodes that it can start, and whether one of them takes a pod.
//!
//! The order of the checks is that of Karpenter 1.14: `NodeClaim.CanAdd` and `filterInstanceTypesByRequirements` of
//! `pkg/controllers/provisioning/scheduling/nodeclaim.go`, after the limits, which `Scheduler.addToNewNodeClaim` applies.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::super::requirement::{Operator, Requirement, Requirements};
use super::resources::{POD_ENI, add, allocatable, capacity, pod_requests};
use super::verdict::{Admission, Outcome, RejectionStage, Uncertainty, sorted_unique};
use crate::catalog::{CAPACITY_TYPE, INSTANCE_TYPE, InstanceType, REGION, TypeSet, ZONE, ZONE_ID};
use crate::karpenter::scheduling::input::{
    AmiFamily, BlockDevice, DaemonSet, EvictionThreshold, HostPort, Kubelet, NodeClass, Overlay, Pod, Pool,
    ResourceList, SchedulerOptions, Taint, Term, Toleration,
};
use crate::karpenter::scheduling::instance_types::{
    Admitted, admitted, all_retired, crashing_keys, filter_types, launch_order, pool_requirements,
    uncatalogued_types, unmet_min_values, validation_error,
};
use crate::karpenter::scheduling::pod_requirements::{
    Relaxation, host_ports_conflict, pod_requirements, tolerates,
};
use crate::steps;

pub(super) const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
const AWS_GROUP: &str = "karpenter.k8s.aws";

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
    fn new(pool: &Pool, overlays: &[&Overlay], settings: &SchedulerOptions) -> Result<Self, RejectionStage> {
        // `Provisioner.NewScheduler` leaves out static pools and those that are not Ready. A pool with placeholders may be
        // valid once they are filled in.
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
        let Admitted { types, conflict, mut uncertainties } = admitted(pool, &requirements, settings);
        let foreign = !pool.node_class.group.is_empty() && pool.node_class.group != AWS_GROUP;
        if foreign {
            uncertainties.push(Uncertainty::OtherProvider(pool.node_class.name.clone()));
        }
        uncertainties.extend(pool.uncertainties.iter().cloned());
        let reserved = || requirements.get(CAPACITY_TYPE).is_some_and(|r| r.has("reserved"));
        if class.is_none() && conflict.is_some() && reserved() {
            uncertainties.push(Uncertainty::NoClass(pool.node_class.name.clone()));
        }
        // `NewScheduler` skips a pool whose requirements filter out all types.
        if uncertainties.is_empty() && conflict.is_some() {
            return Err(RejectionStage::NoTypes(conflict));
        }
        let overlays = overlays_of(overlays, &requirements, class, settings);
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
        overlays: &[&'a Overlay],
        settings: &SchedulerOptions,
    ) -> Result<Self, RejectionStage> {
        let nodes = PoolNodes::new(pool, overlays, settings)?;
        let of_pool = |set: &&'a DaemonSet| DaemonPod::new(set, pool, &nodes.requirements, settings);
        let daemons = daemonsets.iter().filter_map(of_pool).collect();
        let overlays = overlays_of(overlays, &nodes.requirements, pool.class.as_ref(), settings);
        Ok(Self::of_nodes(position, pool, Arc::new(nodes), daemons, overlays))
    }

    pub(super) fn of_nodes(
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

    /// The outcome of the pool for the pod by itself.
    pub(super) fn outcome(
        &self,
        pod: &Pod,
        states: &[Relaxation],
        tolerations: &[Toleration],
        need: &ResourceList,
        settings: &SchedulerOptions,
    ) -> Outcome {
        let mut uncertainties = Vec::new();
        let mut deepest: Option<RejectionStage> = None;
        for (relaxations, state) in states.iter().enumerate() {
            match self.admit(pod, state, tolerations, need, settings) {
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
        settings: &SchedulerOptions,
    ) -> Result<TypeSet, NotAdmitted> {
        let both = self.constrained(pod, state, tolerations)?;
        let class = self.pool.class.as_ref();
        let types = match self.remaining_types(pod, &both, need, class, settings) {
            Ok(types) => types,
            // A class that is not in the input may leave pods more than the defaults of AL2023 do.
            Err(RejectionStage::Resources(_) | RejectionStage::Requirements)
                if class.is_none()
                    && self
                        .remaining_types(pod, &both, need, Some(most_permissive_class()), settings)
                        .is_ok() =>
            {
                let class = Uncertainty::NoClass(self.pool.node_class.name.clone());
                return Err(NotAdmitted::Undecided(vec![class]));
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
        let mut uncertainties = cluster_uncertainties(self.pool, &both, &types, settings);
        if need.get(POD_ENI).is_some_and(|amount| *amount > 0) && types.iter().any(|t| t.pod_eni.is_none()) {
            uncertainties.push(Uncertainty::BranchInterfaces);
        }
        if uncertainties.is_empty() { Ok(types) } else { Err(NotAdmitted::Undecided(uncertainties)) }
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
            return Err(NotAdmitted::Rejected(RejectionStage::Label(clash)));
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
        // `SatisfiesMinValues` counts the values of the types that have room.
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

/// A class that leaves pods the most resources, for pools whose class is not in the input.
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
    let mut uncertainties = Vec::new();
    let wanted = |key: &str| both.get(key).is_some_and(|r| !r.allows_absence());
    let class = pool.class.as_ref();
    let has = |test: fn(&NodeClass) -> bool| class.is_some_and(test);
    if settings.region.is_none() && both.get(REGION).is_some_and(|r| r.operator() != Operator::Exists) {
        uncertainties.push(Uncertainty::Region);
    }
    if both.get(ZONE).is_some() && both.get(ZONE_ID).is_some() {
        uncertainties.push(Uncertainty::ZonePair);
    }
    if has(|class| class.capacity_reservations) {
        let keys =
            ["id", "type", "interruptible"].map(|end| format!("{AWS_GROUP}/capacity-reservation-{end}"));
        let only = both.get(CAPACITY_TYPE).is_some_and(|r| !r.has("on-demand") && !r.has("spot"));
        if only || keys.iter().any(|key| wanted(key)) {
            uncertainties.push(Uncertainty::Reservations);
        }
    }
    let placement = both.iter().any(|(key, _)| key.starts_with("karpenter.k8s.aws/placement-group-"));
    if placement && has(|class| class.placement_group) {
        uncertainties.push(Uncertainty::PlacementGroup);
    }
    for (key, wanted) in both.iter().filter_map(|(key, requirement)| Some((key, requirement.min_values?))) {
        // Every type has one value, and of 600 types that remain each is a value of the instance type.
        if wanted <= 1 || key == INSTANCE_TYPE {
            continue;
        }
        if matches!(key, ZONE | ZONE_ID | REGION) {
            uncertainties.push(Uncertainty::MinValuesOf(key.to_owned()));
        } else if types.len() > 600 {
            uncertainties.push(Uncertainty::MinValuesCut);
        }
    }
    if all_retired(types) {
        uncertainties.push(Uncertainty::Retired);
    }
    if !crashing_keys(both).is_empty() {
        uncertainties.push(Uncertainty::Crash(pool.name.clone()));
    }
    if has(|class| class.ami_family == AmiFamily::Windows) {
        uncertainties.push(Uncertainty::Windows);
    }
    if has(|class| class.network_interfaces_efa.is_some() || class.cpu_options) {
        uncertainties.push(Uncertainty::ClassNarrows(pool.node_class.name.clone()));
    }
    uncertainties
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
                &Relaxation { term, last_term: true, preference: None, tolerate_prefer_no_schedule: true },
            );
            if requirements.compatible(&required).is_ok() {
                types = types.or(&filter_types(TypeSet::full(), &required, pool.class.as_ref(), settings));
            }
        }
        let ports = pod.containers.iter().flat_map(|container| &container.host_ports).collect();
        (!types.is_empty()).then(|| Self { types, requests: pod_requests(pod), ports })
    }
}
