//! The nodes of a batch: how many more pods they have room for, and what they are with these.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::index::CommonAmounts;
use super::pods::COMMON_RESOURCES;
use super::{HostRule, Packer};
use crate::catalog::{InstanceType, TypeSet};
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::candidate::Candidate;
use crate::karpenter::scheduling::input::{HostPort, RequirementSpec, ResourceList};
use crate::karpenter::scheduling::instance_types::{filter_types, unmet_min_values};
use crate::karpenter::scheduling::pod_requirements::{Relaxation, host_ports_conflict};
use crate::karpenter::scheduling::resources::{NodeResources, POD_ENI, add, allocatable};
use crate::karpenter::scheduling::topology::with_volumes;

/// The resources of a new node of a type for pods.
pub(super) struct FreeResources<'s, 'a> {
    from: &'s Candidate<'a>,
    node: NodeResources,
    /// The requests of the DaemonSets on it.
    daemons: ResourceList,
}

impl FreeResources<'_, '_> {
    fn get(&self, resource: &str) -> i128 {
        let whole = self.from.overlaid(self.node.instance, resource);
        whole.unwrap_or_else(|| self.node.get(resource)) - self.daemons.get(resource).copied().unwrap_or(0)
    }
}

/// Equal nodes of a batch.
#[derive(Clone)]
pub(super) struct OpenNodes {
    pub(super) candidate: usize,
    pub(super) requirements: Requirements,
    pub(super) types: TypeSet,
    pub(super) used: ResourceList,
    pub(super) pods: BTreeMap<usize, u64>,
    /// The pods that ran on each of them before this batch.
    pub(super) bound: BTreeMap<usize, u64>,
    pub(super) total: u64,
    pub(super) nodes: u64,
    pub(super) launched: bool,
    /// The most of each resource of [`COMMON_RESOURCES`] that any of the types has left, in thousandths.
    pub(super) most: CommonAmounts,
    /// Its block among those of the candidate.
    pub(super) block: usize,
}

/// The number of pods of a group that a node has room for, and the requirements and types of the node with them.
pub(super) struct NodeRoom {
    pub(super) pods: u64,
    pub(super) requirements: Requirements,
    pub(super) types: TypeSet,
}

impl<'s, 'a> Packer<'s, 'a> {
    /// A new node of a candidate within what is left of its limits, and its room for pods of a group.
    pub(super) fn new_node(
        &self,
        candidate: usize,
        at: usize,
        state: usize,
    ) -> Option<(OpenNodes, NodeRoom)> {
        let within_limits = self.within_limits(candidate);
        if within_limits.is_empty() {
            return None;
        }
        // `None` if the pool rejects the pod even on an empty node.
        let admitted = self.pods[at].admitted(self.scheduler, state, candidate)?;
        let types = admitted.and(within_limits);
        if types.is_empty() {
            return None;
        }
        let from = &self.scheduler.candidates[candidate];
        let node = OpenNodes::new(candidate, from.nodes.requirements.clone(), types);
        let room = self.room(&node, at, state)?;
        Some((node, room))
    }

    /// The room of a node for pods of a group, `None` if it has none: the checks of `NodeClaim.CanAdd`.
    pub(super) fn room(&self, node: &OpenNodes, at: usize, state: usize) -> Option<NodeRoom> {
        let pod = &self.pods[at];
        // The taints of the pool, and everything else that does not depend on the other pods of the node.
        pod.admitted(self.scheduler, state, node.candidate)?;
        // `Topology.AddRequirements` with the host name as the domain.
        let bound = self.host_bound(node, at, &pod.states[state].relaxation);
        if bound == 0 {
            return None;
        }
        // `tryVolumeAlternative` for one alternative after the other.
        match pod.group.pod.volumes.as_slice() {
            [] => self.room_with(node, at, state, bound, &[]),
            volumes => volumes.iter().find_map(|one| self.room_with(node, at, state, bound, one)),
        }
    }

    /// That room with one alternative of the volumes of a pod.
    fn room_with(
        &self,
        node: &OpenNodes,
        at: usize,
        state: usize,
        bound: u64,
        volumes: &[RequirementSpec],
    ) -> Option<NodeRoom> {
        let pod = &self.pods[at];
        let candidate = &self.scheduler.candidates[node.candidate];
        let class = candidate.pool.class.as_ref();
        let required = &pod.states[state].required;
        let mut requirements = node.requirements.clone();
        let mut types = node.types;
        // The types of a node meet its requirements, which only pods with requirements narrow.
        if required.iter().next().is_some() {
            requirements.compatible(required).ok()?;
            requirements.add_all(required);
        }
        if !volumes.is_empty() {
            requirements = with_volumes(requirements, volumes).ok()?;
        }
        if self.is_tied[at] {
            requirements = self.within_domains(at, state, &requirements)?;
        }
        if requirements != node.requirements {
            types = filter_types(types, &requirements, class, &self.scheduler.settings);
        }
        for daemon in candidate.daemons.iter().filter(|_| !pod.ports.is_empty()) {
            let taken =
                |port: &&'s HostPort| daemon.ports.iter().any(|other| host_ports_conflict(port, other));
            if pod.ports.iter().any(taken) {
                types = types.without(&daemon.types);
            }
        }
        let mut pods = types.iter().map(|instance| self.room_on(node, instance, at)).max()?.min(bound);
        let settings = &self.scheduler.settings;
        // `addToNewNodeClaim` lowers `minValues` to what its first pod leaves, with the policy `BestEffort`.
        if settings.best_effort_min_values && node.total == 0 {
            let one = self.types_with_room(node, at, &types, 1);
            lower_min_values(&mut requirements, |all| {
                unmet_min_values(all, &one, class, settings).map(|(key, _, found)| (key.to_owned(), found))
            });
        }
        // A node that is there has one type, and its `minValues` no longer count (`ExistingNode.CanAdd`).
        let unmet = |types: &TypeSet| {
            !node.launched && unmet_min_values(&requirements, types, class, settings).is_some()
        };
        // Each pod narrows the types, and `SatisfiesMinValues` rejects the one that leaves too few values.
        if unmet(&self.types_with_room(node, at, &types, pods)) {
            let (mut low, mut high) = (0, pods);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                let with = self.types_with_room(node, at, &types, middle);
                if !unmet(&with) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            pods = low;
        }
        (pods > 0).then_some(NodeRoom { pods, requirements, types })
    }

    /// The rules about pods of a node that a state of relaxation leaves a group.
    fn kept_rules(&self, at: usize, state: &Relaxation<'_>) -> impl Iterator<Item = &HostRule> {
        let pod = &self.pods[at].group;
        let kept = state.rules(pod.pod).filter_map(|(rule, _)| pod.on_host.get(rule)?.as_ref());
        pod.ports.iter().chain(kept)
    }

    /// Whether a pod of a group has no pod to join, and may be the first.
    fn may_be_first(&self, at: usize, rule: &HostRule) -> bool {
        let is_there = |open: &OpenNodes| rule.counts.iter().any(|other| open.pods.contains_key(other));
        rule.counts.contains(&at) && !self.open.iter().any(is_there)
    }

    /// Whether the first pod of a group decides on the node of the others.
    pub(super) fn begins(&self, at: usize, state: usize) -> bool {
        let mut kept = self.kept_rules(at, &self.pods[at].states[state].relaxation);
        kept.any(|rule| rule.joins && self.may_be_first(at, rule))
    }

    /// The number of pods of a group that pod affinity, anti-affinity and spread allow on a node.
    fn host_bound(&self, node: &OpenNodes, at: usize, state: &Relaxation<'_>) -> u64 {
        let mut bound = u64::MAX;
        for rule in self.kept_rules(at, state) {
            let there: u64 = rule.counts.iter().filter_map(|other| node.pods.get(other)).sum();
            if rule.joins {
                if there == 0 && !self.may_be_first(at, rule) {
                    return 0;
                }
                continue;
            }
            let more = (rule.before + 1).saturating_sub(there);
            bound = bound.min(match (more, rule.counts.contains(&at)) {
                (0, _) => 0,
                (more, true) => more,
                (_, false) => u64::MAX,
            });
        }
        let keeps_out = |other: &usize| {
            let mut rules = self.pods[*other].group.on_host.iter().flatten();
            rules.any(|rule| rule.mutual && rule.counts.contains(&at))
        };
        if node.pods.keys().any(|other| *other != at && keeps_out(other)) { 0 } else { bound }
    }

    /// The number of pods of a group that the resources of a type have room for.
    fn room_on(&self, node: &OpenNodes, instance: &'static InstanceType, at: usize) -> u64 {
        let free = self.free_of(node.candidate, instance);
        let amounts = self.pods[at].need.iter().filter(|(_, amount)| **amount > 0);
        let pods = amounts.filter_map(|(name, amount)| {
            if name == POD_ENI && instance.pod_eni.is_none() {
                return None;
            }
            let left = free.get(name) - node.used.get(name).copied().unwrap_or(0);
            Some(u64::try_from(left.max(0) / amount).unwrap_or(u64::MAX))
        });
        pods.min().unwrap_or(0)
    }

    /// The resources of a new node of a type for pods.
    fn free_of(&self, candidate: usize, instance: &'static InstanceType) -> Rc<FreeResources<'s, 'a>> {
        let mut known = self.free.borrow_mut();
        let free = known.entry((candidate, instance.name)).or_insert_with(|| {
            let from: &'s Candidate<'a> = &self.scheduler.candidates[candidate];
            let mut daemons = ResourceList::new();
            for daemon in from.daemons.iter().filter(|daemon| daemon.types.contains(instance)) {
                add(&mut daemons, &daemon.requests);
            }
            let node = allocatable(instance, from.pool.class.as_ref(), &self.scheduler.settings);
            Rc::new(FreeResources { from, node, daemons })
        });
        Rc::clone(free)
    }

    /// The types of a set that have room for a number of pods of a group.
    pub(super) fn types_with_room(&self, node: &OpenNodes, at: usize, types: &TypeSet, pods: u64) -> TypeSet {
        types.iter().filter(|instance| self.room_on(node, instance, at) >= pods).collect()
    }

    /// Adds pods of a group to each of some equal nodes (`NodeClaim.Add`).
    pub(super) fn add(&mut self, node: usize, at: usize, room: NodeRoom, pods: u64) {
        if pods == 0 {
            return;
        }
        let types = self.types_with_room(&self.open[node], at, &room.types, pods);
        let need = &self.pods[at].need;
        let open = &mut self.open[node];
        open.types = types;
        open.requirements = room.requirements;
        for (name, amount) in need {
            *open.used.entry(name.clone()).or_default() += amount * i128::from(pods);
        }
        *open.pods.entry(at).or_default() += pods;
        open.total += pods;
        self.update_most(node);
        self.record(node, at, pods);
    }

    /// Works out the most that any type of a node has left.
    pub(super) fn update_most(&mut self, node: usize) {
        let open = &self.open[node];
        let mut most = [i128::MIN; COMMON_RESOURCES.len()];
        for instance in open.types.iter() {
            let free = self.free_of(open.candidate, instance);
            for (most, name) in most.iter_mut().zip(COMMON_RESOURCES) {
                *most = (*most).max(free.get(name) - open.used.get(name).copied().unwrap_or(0));
            }
        }
        self.open[node].most = most;
        self.update_block(node);
    }
}

/// Lowers each `minValues` that is not met to the number of values that there are.
fn lower_min_values(
    requirements: &mut Requirements,
    unmet: impl Fn(&Requirements) -> Option<(String, usize)>,
) {
    while let Some((key, found)) = unmet(requirements) {
        let Some(mut lowered) = requirements.get(&key).cloned() else { return };
        lowered.min_values = u32::try_from(found).ok();
        requirements.remove(&key);
        requirements.add(&key, lowered);
    }
}

impl OpenNodes {
    /// One node without pods that this batch starts.
    pub(super) fn new(candidate: usize, requirements: Requirements, types: TypeSet) -> Self {
        Self {
            candidate,
            requirements,
            types,
            used: ResourceList::new(),
            pods: BTreeMap::new(),
            bound: BTreeMap::new(),
            total: 0,
            nodes: 1,
            launched: false,
            most: [i128::MAX; COMMON_RESOURCES.len()],
            block: 0,
        }
    }

    /// Whether these nodes equal others that were started before.
    pub(super) fn equals(&self, other: &OpenNodes) -> bool {
        self.candidate == other.candidate
            && self.types == other.types
            && self.pods == other.pods
            && self.requirements == other.requirements
    }
}
