//! How many nodes Karpenter starts for many pods, and which pods are left over.
//!
//! Karpenter takes pending pods by CPU, then memory, both descending. A pod goes to the node of this batch that has the
//! fewest pods and room; otherwise a new node is started from the first pool that admits it. The instance types of such
//! a node narrow with each pod, and of the pool's limits it counts the most that any of its remaining types has. When
//! all pods were tried, each node becomes the cheapest of its types; pods that are left over are tried again with the
//! next batch, in which only what was started counts.
//!
//! Equal pods are counted, not placed one by one: nodes that are alike are one entry with a number.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::catalog::{InstanceType, TypeSet, cheapest_first, retired};
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::decide::{Candidate, NotAdmitted, Scheduler};
use crate::karpenter::scheduling::input::{HostPort, Pod, ResourceList};
use crate::karpenter::scheduling::instance_types::{filter_types, launch_order, unmet_min_values};
use crate::karpenter::scheduling::pod_requirements::{
    Relaxation, effective_tolerations, host_ports_conflict, pod_requirements,
};
use crate::karpenter::scheduling::resources::{
    NodeResources, POD_ENI, add, allocatable, capacity, pod_requests,
};
use crate::karpenter::scheduling::verdict::Uncertainty;

/// Most batches that are tried one after the other. Each that starts a node leaves less to do.
const MAX_BATCHES: usize = 5000;
const NODES: &str = "nodes";

/// Pods that are all alike.
#[derive(Debug, Clone)]
pub struct Batch<'a> {
    /// One of them.
    pub pod: &'a Pod,
    /// How many there are.
    pub count: u64,
    /// Which pods must not share a node with one of these.
    pub required: Vec<HostRule>,
    /// The same as preferences, in the order in which Karpenter drops them: before preferred node affinity.
    pub anti_affinity: Vec<HostRule>,
    /// The same for spread with `ScheduleAnyway`, which is dropped after preferred node affinity.
    pub spread: Vec<HostRule>,
}

/// A bound on pods that share a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// The pods that count, as positions of their batches.
    pub counts: Vec<usize>,
    /// How many of them a node may have before another pod is added to it.
    pub before: u64,
    /// Whether the pods that count also keep out pods with this rule, as required anti-affinity does.
    pub mutual: bool,
}

/// Nodes for many pods.
#[derive(Debug, Clone, Default)]
pub struct Packing {
    /// The nodes, in the order of their start.
    pub nodes: Vec<NodesOf>,
    /// Pods without a node.
    pub left: Vec<Left>,
}

/// Nodes that are alike.
#[derive(Debug, Clone)]
pub struct NodesOf {
    /// The position of their pool.
    pub pool: usize,
    /// The type that is cheapest by list price.
    pub instance: &'static InstanceType,
    /// The capacity types in the order in which Karpenter prefers them.
    pub capacity_types: Vec<&'static str>,
    /// How many nodes there are.
    pub nodes: u64,
    /// The pods of each, by the position of their batch.
    pub pods: BTreeMap<usize, u64>,
}

/// Pods of a batch without a node.
#[derive(Debug, Clone)]
pub struct Left {
    /// The position of the batch.
    pub batch: usize,
    /// How many pods.
    pub pods: u64,
    /// The pools that admit them and have reached a limit.
    pub full: Vec<Full>,
    /// What it depends on whether another pool takes them; empty if none does.
    pub uncertainties: Vec<Uncertainty>,
}

/// A pool that has reached its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// Its position.
    pub pool: usize,
    /// The limits that leave no type for the pod.
    pub limits: Vec<String>,
}

impl Scheduler<'_> {
    /// The nodes that Karpenter starts for pods, beginning with none. NodeOverlays do not count.
    #[must_use]
    pub fn pack(&self, batches: &[Batch<'_>], region: Option<&str>) -> Packing {
        Packer::new(self, batches, region).run()
    }
}

/// What is the same for all nodes.
struct Packer<'s, 'a> {
    scheduler: &'s Scheduler<'a>,
    region: Option<&'s str>,
    pods: Vec<Prepared<'s>>,
    /// The types of each candidate that EC2 still offers.
    types: Vec<TypeSet>,
    /// What is left of the limits of each candidate.
    remaining: Vec<Vec<(String, i128)>>,
    /// What nodes have for pods, by candidate and type.
    free: RefCell<HashMap<(usize, &'static str), Rc<Free>>>,
    open: Vec<Open>,
}

/// What a node of a type has for pods.
struct Free {
    node: NodeResources,
    /// What the pods of DaemonSets need of it.
    daemons: ResourceList,
}

impl Free {
    fn get(&self, resource: &str) -> i128 {
        self.node.get(resource) - self.daemons.get(resource).copied().unwrap_or(0)
    }
}

/// A batch with what follows from its pod.
struct Prepared<'s> {
    batch: Batch<'s>,
    left: u64,
    need: ResourceList,
    ports: Vec<&'s HostPort>,
    states: Vec<State<'s>>,
    /// What each candidate makes of it, by state.
    admitted: Vec<Vec<Option<TypeSet>>>,
    doubts: Vec<Uncertainty>,
}

/// A state of relaxation.
struct State<'s> {
    relaxation: Relaxation<'s>,
    dropped_anti_affinity: usize,
    dropped_spread: usize,
}

/// Nodes that are alike and may take more pods.
#[derive(Clone)]
struct Open {
    candidate: usize,
    requirements: Requirements,
    types: TypeSet,
    used: ResourceList,
    pods: BTreeMap<usize, u64>,
    total: u64,
    nodes: u64,
    launched: bool,
    /// The most of each resource that any of the types has left.
    most: ResourceList,
}

/// How many pods of a batch a node has room for, and what the node is then.
struct Room {
    pods: u64,
    requirements: Requirements,
    types: TypeSet,
}

impl<'s, 'a> Packer<'s, 'a> {
    fn new(scheduler: &'s Scheduler<'a>, batches: &[Batch<'s>], region: Option<&'s str>) -> Self {
        let current = |candidate: &Candidate<'_>| {
            let current = candidate.nodes.types.without(retired());
            if current.is_empty() { candidate.nodes.types } else { current }
        };
        let candidates = &scheduler.candidates;
        let pods = batches.iter().map(|batch| prepare(scheduler, batch)).collect();
        let mut packer = Packer {
            scheduler,
            region,
            pods,
            types: candidates.iter().map(current).collect(),
            remaining: candidates.iter().map(|candidate| candidate.pool.limits.clone()).collect(),
            free: RefCell::default(),
            open: Vec::new(),
        };
        packer.add_port_rules();
        packer
    }

    /// Pods that use one port of the host do not share a node.
    fn add_port_rules(&mut self) {
        let with_ports: Vec<usize> =
            (0..self.pods.len()).filter(|at| !self.pods[*at].ports.is_empty()).collect();
        for at in &with_ports {
            let own = &self.pods[*at].ports;
            let clashes = |other: &&usize| {
                let ports = &self.pods[**other].ports;
                ports.iter().any(|port| own.iter().any(|mine| host_ports_conflict(mine, port)))
            };
            let counts: Vec<usize> = with_ports.iter().filter(clashes).copied().collect();
            self.pods[*at].batch.required.push(HostRule { counts, before: 0, mutual: false });
        }
    }

    fn run(mut self) -> Packing {
        let mut order: Vec<usize> = (0..self.pods.len()).collect();
        let size = |at: &usize, resource: &str| self.pods[*at].need.get(resource).copied().unwrap_or(0);
        order.sort_by_key(|at| std::cmp::Reverse((size(at, "cpu"), size(at, "memory"))));
        for _ in 0..MAX_BATCHES {
            let before = self.pending();
            // Karpenter tries the pods that are left as long as that places one.
            loop {
                let pending = self.pending();
                for at in &order {
                    self.place(*at);
                }
                if self.pending() == pending || self.pending() == 0 {
                    break;
                }
            }
            self.launch();
            if self.pending() == before || self.pending() == 0 {
                break;
            }
        }
        let left = order.iter().filter(|at| self.pods[**at].left > 0).map(|at| self.left(*at)).collect();
        let nodes = self.open.iter().filter_map(|open| {
            let class = self.candidate(open).pool.class.as_ref();
            Some(NodesOf {
                pool: self.candidate(open).position,
                instance: open.types.iter().next()?,
                capacity_types: launch_order(&open.requirements, &open.types, class),
                nodes: open.nodes,
                pods: open.pods.clone(),
            })
        });
        Packing { nodes: nodes.collect(), left }
    }

    fn pending(&self) -> u64 {
        self.pods.iter().map(|pod| pod.left).sum()
    }

    fn candidate(&self, open: &Open) -> &'s Candidate<'a> {
        &self.scheduler.candidates[open.candidate]
    }

    /// Gives pods of a batch nodes, until none is left or nothing has room.
    fn place(&mut self, at: usize) {
        for state in 0..self.pods[at].states.len() {
            if self.pods[at].left == 0 {
                return;
            }
            self.fill(at, state);
            self.start(at, state);
        }
    }

    /// Adds pods to the nodes that are there: always to the one with the fewest pods.
    fn fill(&mut self, at: usize, state: usize) {
        let rooms: Vec<(usize, Room)> = (0..self.open.len())
            .filter(|node| self.open[*node].may_have_room(&self.pods[at].need))
            .filter_map(|node| Some((node, self.room(&self.open[node], at, state)?)))
            .collect();
        if rooms.is_empty() {
            return;
        }
        let all: u64 = rooms
            .iter()
            .map(|(node, room)| room.pods.saturating_mul(self.open[*node].nodes))
            .fold(0, u64::saturating_add);
        let left = self.pods[at].left;
        if left >= all {
            for (node, room) in rooms {
                let pods = room.pods;
                self.add(node, at, room, pods);
            }
            self.pods[at].left -= all;
            return;
        }
        // The level to which the nodes can be filled evenly.
        let at_level = |level: u64| -> u64 {
            let of = |(node, room): &(usize, Room)| {
                let open = &self.open[*node];
                level.saturating_sub(open.total).min(room.pods).saturating_mul(open.nodes)
            };
            rooms.iter().map(of).fold(0, u64::saturating_add)
        };
        let (mut low, mut high) =
            (0, rooms.iter().map(|(node, room)| self.open[*node].total + room.pods).max().unwrap_or(0));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if at_level(middle) <= left { low = middle } else { high = middle - 1 }
        }
        let mut more = left - at_level(low);
        for (node, room) in rooms {
            let total = self.open[node].total;
            let pods = low.saturating_sub(total).min(room.pods);
            // One more for the first nodes at the level.
            let extra =
                if pods < room.pods && total + pods == low { more.min(self.open[node].nodes) } else { 0 };
            more -= extra;
            if extra > 0 && extra < self.open[node].nodes {
                let mut others = self.open[node].clone();
                others.nodes -= extra;
                self.open[node].nodes = extra;
                self.open.push(others);
                let others = self.open.len() - 1;
                let same =
                    Room { pods: room.pods, requirements: room.requirements.clone(), types: room.types };
                self.add(others, at, same, pods);
            }
            self.add(node, at, room, pods + u64::from(extra > 0));
        }
        self.pods[at].left = 0;
    }

    /// Starts nodes for pods.
    fn start(&mut self, at: usize, state: usize) {
        while self.pods[at].left > 0 {
            let Some((mut node, room)) =
                (0..self.scheduler.candidates.len()).find_map(|candidate| self.fresh(candidate, at, state))
            else {
                return;
            };
            let candidate = node.candidate;
            let (left, each) = (self.pods[at].left, room.pods);
            let one = self.types_with_room(&node, at, &room.types, 1);
            let most = self.most_of_limits(candidate, &one);
            let possible = most.iter().zip(&self.remaining[candidate]);
            let possible = possible
                .filter(|(most, _)| **most > 0)
                .map(|(most, (_, remaining))| u64::try_from(remaining / most).unwrap_or(u64::MAX))
                .min()
                .unwrap_or(u64::MAX);
            let nodes = left.div_ceil(each).min(possible).max(1);
            for (most, (_, remaining)) in most.iter().zip(&mut self.remaining[candidate]) {
                *remaining -= most * i128::from(nodes);
            }
            let pods = left.min(nodes.saturating_mul(each));
            let (whole, rest) = (pods / each, pods % each);
            for (count, pods) in [(whole, each), (u64::from(rest > 0), rest)] {
                if count > 0 {
                    node.nodes = count;
                    self.open.push(node.clone());
                    let same = Room { pods, requirements: room.requirements.clone(), types: room.types };
                    self.add(self.open.len() - 1, at, same, pods);
                }
            }
            self.pods[at].left -= pods;
        }
    }

    /// A new node of a candidate within what is left of its limits, and its room for pods of a batch.
    fn fresh(&self, candidate: usize, at: usize, state: usize) -> Option<(Open, Room)> {
        let admitted = self.pods[at].admitted[state][candidate].as_ref()?;
        let types = self.within_limits(candidate, &admitted.and(&self.types[candidate]));
        let from = &self.scheduler.candidates[candidate];
        let node = Open {
            candidate,
            requirements: from.nodes.requirements.clone(),
            types,
            used: ResourceList::new(),
            pods: BTreeMap::new(),
            total: 0,
            nodes: 1,
            launched: false,
            most: ResourceList::new(),
        };
        let room = self.room(&node, at, state)?;
        Some((node, room))
    }

    /// The types of a set that what is left of the limits allows.
    fn within_limits(&self, candidate: usize, types: &TypeSet) -> TypeSet {
        let remaining = &self.remaining[candidate];
        if remaining.iter().any(|(name, left)| name == NODES && *left < 1000) {
            return TypeSet::EMPTY;
        }
        if remaining.is_empty() {
            return *types;
        }
        let class = self.scheduler.candidates[candidate].pool.class.as_ref();
        let fits = |instance: &&'static InstanceType| {
            let node = capacity(instance, class, &self.scheduler.settings);
            remaining.iter().all(|(name, left)| name == NODES || node.get(name) <= *left)
        };
        types.iter().filter(fits).collect()
    }

    /// For each limit of a candidate the most that a type counts of it.
    fn most_of_limits(&self, candidate: usize, types: &TypeSet) -> Vec<i128> {
        let class = self.scheduler.candidates[candidate].pool.class.as_ref();
        let mut most = vec![0; self.remaining[candidate].len()];
        for instance in types.iter() {
            let node = capacity(instance, class, &self.scheduler.settings);
            for (most, (name, _)) in most.iter_mut().zip(&self.remaining[candidate]) {
                *most = (*most).max(if name == NODES { 1000 } else { node.get(name) });
            }
        }
        most
    }

    /// How many pods of a batch a node has room for; [`None`]: it has none.
    fn room(&self, node: &Open, at: usize, state: usize) -> Option<Room> {
        let pod = &self.pods[at];
        pod.admitted[state][node.candidate].as_ref()?;
        let bound = self.host_bound(node, at, &pod.states[state]);
        if bound == 0 {
            return None;
        }
        let candidate = &self.scheduler.candidates[node.candidate];
        let class = candidate.pool.class.as_ref();
        let asked = pod_requirements(pod.batch.pod, &pod.states[state].relaxation);
        let mut requirements = node.requirements.clone();
        let mut types = node.types;
        if asked.iter().next().is_some() {
            requirements.compatible(&asked).ok()?;
            requirements.add_all(&asked);
        }
        types = filter_types(types, &requirements, class, &self.scheduler.settings);
        for daemon in candidate.daemons.iter().filter(|_| !pod.ports.is_empty()) {
            let taken =
                |port: &&'s HostPort| daemon.ports.iter().any(|other| host_ports_conflict(port, other));
            if pod.ports.iter().any(taken) {
                types = types.without(&daemon.types);
            }
        }
        let mut pods = types.iter().map(|instance| self.room_on(node, instance, at)).max()?.min(bound);
        if unmet_min_values(&requirements, &self.types_with_room(node, at, &types, pods), class).is_some() {
            let (mut low, mut high) = (0, pods);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                let with = self.types_with_room(node, at, &types, middle);
                if unmet_min_values(&requirements, &with, class).is_none() {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            pods = low;
        }
        (pods > 0).then_some(Room { pods, requirements, types })
    }

    /// How many pods of a batch the rules on neighbours allow on a node.
    fn host_bound(&self, node: &Open, at: usize, state: &State<'_>) -> u64 {
        let pod = &self.pods[at].batch;
        let preferred = pod.anti_affinity.iter().skip(state.dropped_anti_affinity);
        let spread = pod.spread.iter().skip(state.dropped_spread);
        let mut bound = u64::MAX;
        for rule in pod.required.iter().chain(preferred).chain(spread) {
            let there: u64 = rule.counts.iter().filter_map(|other| node.pods.get(other)).sum();
            let more = (rule.before + 1).saturating_sub(there);
            bound = bound.min(match (more, rule.counts.contains(&at)) {
                (0, _) => 0,
                (more, true) => more,
                (_, false) => u64::MAX,
            });
        }
        let keeps_out = |other: &usize| {
            let rules = &self.pods[*other].batch.required;
            rules.iter().any(|rule| rule.mutual && rule.counts.contains(&at))
        };
        if node.pods.keys().any(|other| *other != at && keeps_out(other)) { 0 } else { bound }
    }

    /// How many pods of a batch a node of a type has room for.
    fn room_on(&self, node: &Open, instance: &'static InstanceType, at: usize) -> u64 {
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

    /// What a node of a type has of a resource beside the pods of DaemonSets.
    fn free_of(&self, candidate: usize, instance: &'static InstanceType) -> Rc<Free> {
        let mut known = self.free.borrow_mut();
        let free = known.entry((candidate, instance.name)).or_insert_with(|| {
            let from = &self.scheduler.candidates[candidate];
            let mut daemons = ResourceList::new();
            for daemon in from.daemons.iter().filter(|daemon| daemon.types.contains(instance)) {
                add(&mut daemons, &daemon.requests);
            }
            let node = allocatable(instance, from.pool.class.as_ref(), &self.scheduler.settings);
            Rc::new(Free { node, daemons })
        });
        Rc::clone(free)
    }

    /// The types of a set that have room for so many pods of a batch.
    fn types_with_room(&self, node: &Open, at: usize, types: &TypeSet, pods: u64) -> TypeSet {
        types.iter().filter(|instance| self.room_on(node, instance, at) >= pods).collect()
    }

    /// Adds pods of a batch to each node of an entry.
    fn add(&mut self, node: usize, at: usize, room: Room, pods: u64) {
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
        self.note_most(node);
    }

    /// Notes the most that any type of a node has left.
    fn note_most(&mut self, node: usize) {
        let open = &self.open[node];
        let mut most = ResourceList::new();
        for instance in open.types.iter() {
            let free = self.free_of(open.candidate, instance);
            for name in ["cpu", "memory", "pods", "nvidia.com/gpu"] {
                let left = free.get(name) - open.used.get(name).copied().unwrap_or(0);
                let known = most.entry(name.to_owned()).or_insert(left);
                *known = (*known).max(left);
            }
        }
        self.open[node].most = most;
    }

    /// Ends a batch: each new node becomes the cheapest of its types, and limits count what there is.
    fn launch(&mut self) {
        for at in 0..self.open.len() {
            if self.open[at].launched {
                continue;
            }
            let open = &mut self.open[at];
            open.launched = true;
            if let Some(instance) = launched(&open.requirements, &open.types, self.region) {
                open.types = std::iter::once(instance).collect();
            }
            self.note_most(at);
        }
        let mut merged: Vec<Open> = Vec::new();
        for open in self.open.drain(..) {
            match merged.iter_mut().find(|known| known.is_like(&open)) {
                Some(known) => known.nodes += open.nodes,
                None => merged.push(open),
            }
        }
        self.open = merged;
        for (candidate, remaining) in self.remaining.iter_mut().enumerate() {
            remaining.clone_from(&self.scheduler.candidates[candidate].pool.limits);
        }
        for at in 0..self.open.len() {
            let open = &self.open[at];
            let (candidate, nodes) = (open.candidate, i128::from(open.nodes));
            let counted = self.most_of_limits(candidate, &open.types);
            for (amount, (_, remaining)) in counted.iter().zip(&mut self.remaining[candidate]) {
                *remaining -= amount * nodes;
            }
        }
    }

    /// Why pods of a batch are left over.
    fn left(&self, at: usize) -> Left {
        let pod = &self.pods[at];
        let mut full: Vec<Full> = Vec::new();
        for (number, candidate) in self.scheduler.candidates.iter().enumerate() {
            let Some(types) = pod.admitted.iter().rev().find_map(|state| state[number].as_ref()) else {
                continue;
            };
            let class = candidate.pool.class.as_ref();
            let over = |instance: &&'static InstanceType, name: &str, left: i128| {
                let amount = if name == NODES {
                    1000
                } else {
                    capacity(instance, class, &self.scheduler.settings).get(name)
                };
                amount > left
            };
            let types = types.and(&self.types[number]);
            let remaining = &self.remaining[number];
            let excluded = |all: bool| -> Vec<String> {
                let excludes = |(name, left): &&(String, i128)| {
                    let mut types = types.iter();
                    if all {
                        types.all(|t| over(&t, name, *left))
                    } else {
                        types.any(|t| over(&t, name, *left))
                    }
                };
                remaining.iter().filter(excludes).map(|(name, _)| name.clone()).collect()
            };
            let mut limits = excluded(true);
            if limits.is_empty() {
                limits = excluded(false);
            }
            full.push(Full { pool: candidate.position, limits });
        }
        Left { batch: at, pods: pod.left, full, uncertainties: pod.doubts.clone() }
    }
}

impl Open {
    /// Whether a glance leaves it open that a pod has room.
    fn may_have_room(&self, need: &ResourceList) -> bool {
        self.most.iter().all(|(name, most)| need.get(name).is_none_or(|amount| amount <= most))
    }

    /// Whether these are nodes like others that were started before.
    fn is_like(&self, other: &Open) -> bool {
        self.candidate == other.candidate
            && self.types == other.types
            && self.pods == other.pods
            && self.requirements == other.requirements
    }
}

fn prepare<'s>(scheduler: &Scheduler<'_>, batch: &Batch<'s>) -> Prepared<'s> {
    let need = pod_requests(batch.pod);
    let tolerations = effective_tolerations(batch.pod, &scheduler.settings);
    let states = states(scheduler, batch);
    let mut doubts = Vec::new();
    let mut admitted = Vec::new();
    for state in &states {
        let of = |candidate: &Candidate<'_>| match candidate.admit(
            batch.pod,
            &state.relaxation,
            &tolerations,
            &need,
            &scheduler.settings,
        ) {
            Ok(types) => Some(types),
            Err(NotAdmitted::Rejected(_)) => None,
            Err(NotAdmitted::Undecided(why)) => {
                doubts.extend(why);
                None
            }
        };
        admitted.push(scheduler.candidates.iter().map(of).collect());
    }
    doubts.sort();
    doubts.dedup();
    Prepared {
        left: batch.count,
        need,
        ports: batch.pod.containers.iter().flat_map(|container| &container.host_ports).collect(),
        states,
        admitted,
        doubts,
        batch: batch.clone(),
    }
}

/// The states of relaxation, with preferences about neighbours: anti-affinity is dropped before preferred node affinity,
/// spread after it.
fn states<'s>(scheduler: &Scheduler<'_>, batch: &Batch<'s>) -> Vec<State<'s>> {
    let all = scheduler.relaxations(batch.pod);
    let terms = batch.pod.terms.len().max(1);
    let (anti_affinity, spread) = (batch.anti_affinity.len(), batch.spread.len());
    let mut out = Vec::new();
    let mut push = |relaxation: Relaxation<'s>, dropped_anti_affinity, dropped_spread| {
        out.push(State { relaxation, dropped_anti_affinity, dropped_spread });
    };
    let hard = all.iter().filter(|state| !state.tolerate_prefer_no_schedule).count();
    for (at, relaxation) in all.iter().enumerate() {
        let dropped = if at < terms { 0 } else { anti_affinity };
        push(*relaxation, dropped, if at < hard { 0 } else { spread });
        if at + 1 == terms {
            (1..=anti_affinity).for_each(|dropped| push(*relaxation, dropped, 0));
        }
        if at + 1 == hard {
            (1..=spread).for_each(|dropped| push(*relaxation, anti_affinity, dropped));
        }
    }
    out
}

/// The cheapest type by list price. Metal types and those with devices are left out where others remain.
fn launched(
    requirements: &Requirements,
    types: &TypeSet,
    region: Option<&str>,
) -> Option<&'static InstanceType> {
    let exotic = |instance: &InstanceType| {
        let devices = ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi"];
        instance.is_metal() || devices.iter().any(|device| instance.devices(device) > 0)
    };
    let plain: TypeSet = types.iter().filter(|instance| !exotic(instance)).collect();
    let all =
        plain.is_empty() || requirements.iter().any(|(_, requirement)| requirement.min_values.is_some());
    cheapest_first(if all { types } else { &plain }.iter(), region).into_iter().next()
}
