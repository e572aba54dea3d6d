//! The nodes that Karpenter starts for many pods, and the pods that do not fit.
//!
//! Karpenter takes pending pods by CPU, then memory, both descending. A pod goes to the node of this batch that has the
//! fewest pods and room; otherwise a new node is started from the first pool that admits it. The instance types of such
//! a node narrow with each pod, and of the pool's limits it counts the most that any of its remaining types has. When
//! all pods were tried, each node becomes the cheapest of its types; pods that are left over are tried again with the
//! next batch, in which only what was started counts.
//!
//! Equal pods are counted, not placed one by one: equal nodes are one entry with their number.
//!
//! Comments name the functions of Karpenter 1.15 below `pkg/controllers/provisioning/scheduling`.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use crate::catalog::{Accelerator, InstanceType, TypeSet};
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::candidate::Candidate;
use crate::karpenter::scheduling::input::Pod;
use crate::karpenter::scheduling::instance_types::launch_order;
use crate::karpenter::scheduling::pod_requirements::host_ports_conflict;
use crate::karpenter::scheduling::scheduler::Scheduler;
use crate::karpenter::scheduling::verdict::Uncertainty;

mod index;
mod node;
mod pods;
mod topologies;

use index::Block;
use node::{FreeResources, NodeRoom, OpenNodes};
pub use pods::AskedPools;
use pods::PendingPods;
pub use topologies::DomainRule;
use topologies::Topology;

/// Maximum number of batches that are tried one after the other. Each that starts a node leaves less to do.
const MAX_BATCHES: usize = 5000;
const NODES: &str = "nodes";

/// Equal pods.
#[derive(Debug, Clone)]
pub struct PodGroup<'a> {
    pub pod: &'a Pod,
    /// What the pools of the scheduler answered about such a pod so far.
    pub asked: Arc<AskedPools>,
    pub count: u64,
    /// For each rule of spread and pod affinity of the pod, its bound on pods that share a node, if it is about the host name.
    pub on_host: Vec<Option<HostRule>>,
    /// For each of these rules, what it is about if that is another label of nodes whose values are known.
    pub on_domain: Vec<Option<DomainRule>>,
    /// The bounds by ports of the host, which the packer adds.
    pub ports: Vec<HostRule>,
}

/// A bound on pods that share a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// The pods that count, as positions of their groups.
    pub counts: Vec<usize>,
    /// The number of them that a node may have before another pod is added to it.
    pub before: u64,
    /// Whether the pods that count also keep out pods with this rule, as required anti-affinity does.
    pub mutual: bool,
    /// Whether a node needs one of the pods that count, as pod affinity does. Without such a pod anywhere, one that counts itself
    /// begins (`nextDomainAffinity` in topologygroup.go).
    pub joins: bool,
}

/// Nodes for many pods.
#[derive(Debug, Clone, Default)]
pub struct Packing {
    /// The nodes, in the order of their start.
    pub nodes: Vec<NodeGroup>,
    pub unplaced: Vec<UnplacedPods>,
    /// Whether it depends on which of several equal domains Karpenter takes.
    pub depends: bool,
}

/// Which of several equal domains is taken: Karpenter takes any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    First,
    Last,
}

/// Equal nodes.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    /// The position of their pool.
    pub pool: usize,
    /// The type that is cheapest by list price.
    pub instance: &'static InstanceType,
    /// The capacity types in the order in which Karpenter prefers them.
    pub capacity_types: Vec<&'static str>,
    pub nodes: u64,
    /// The number of pods on each, by the position of their group.
    pub pods: BTreeMap<usize, u64>,
}

#[derive(Debug, Clone)]
pub struct UnplacedPods {
    /// The position of the group.
    pub group: usize,
    pub pods: u64,
    /// The pools that admit them and have reached a limit.
    pub full: Vec<FullPool>,
    /// Why it is not known whether another pool takes them; empty if none does.
    pub uncertainties: Vec<Uncertainty>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FullPool {
    /// The position of the pool.
    pub pool: usize,
    /// The limits that leave no type for the pod.
    pub limits: Vec<String>,
}

impl Scheduler<'_> {
    /// The nodes that Karpenter starts for pods, beginning with none.
    pub(crate) fn pack(&self, groups: &[PodGroup<'_>], region: Option<&str>) -> Packing {
        let mut packing = Packer::new(self, groups, region, Tie::First).run();
        // Where both ends of the order lead to the same nodes, what lies between is taken to do so as well.
        if groups.iter().any(|group| group.on_domain.iter().any(Option::is_some)) {
            packing.depends = packing.sum() != Packer::new(self, groups, region, Tie::Last).run().sum();
        }
        packing
    }
}

/// The number of nodes by pool and type, and of pods that are left by group.
type Sum<'p> = (BTreeMap<(usize, &'p str), u64>, BTreeMap<usize, u64>);

impl Packing {
    fn sum(&self) -> Sum<'_> {
        let mut nodes = BTreeMap::new();
        for group in &self.nodes {
            *nodes.entry((group.pool, group.instance.name)).or_default() += group.nodes;
        }
        (nodes, self.unplaced.iter().map(|left| (left.group, left.pods)).collect())
    }
}

/// The pods that are placed, and the nodes so far.
struct Packer<'s, 'a> {
    scheduler: &'s Scheduler<'a>,
    region: Option<&'s str>,
    pods: Vec<PendingPods<'s>>,
    /// The types of each candidate that EC2 still offers.
    types: Vec<TypeSet>,
    /// The rest of the limits of each candidate, after the nodes so far.
    remaining: Vec<Vec<(String, i128)>>,
    /// The types of each candidate that fit into what is left of its limits, until that changes. With 86 pools, of which
    /// pods fill some up to their limits, a `plan` of 3,000 files takes a third less time.
    within_limits: Vec<OnceCell<TypeSet>>,
    /// The resources of a new node for pods, by candidate and type: they are read for each pod and node.
    free: RefCell<HashMap<(usize, &'static str), Rc<FreeResources<'s, 'a>>>>,
    open: Vec<OpenNodes>,
    topologies: Vec<Topology>,
    /// For each group, whether its pods are placed one by one.
    is_tied: Vec<bool>,
    tie: Tie,
    /// The nodes of each candidate.
    blocks: Vec<Vec<Block>>,
    /// The candidates that may start nodes, in order: their limits leave a type.
    starting: Vec<usize>,
}

impl<'s, 'a> Packer<'s, 'a> {
    fn new(scheduler: &'s Scheduler<'a>, groups: &[PodGroup<'s>], region: Option<&'s str>, tie: Tie) -> Self {
        let current = |candidate: &Candidate<'_>| candidate.nodes.types.offered();
        let candidates = &scheduler.candidates;
        let pods: Vec<_> = groups.iter().map(|group| PendingPods::new(scheduler, group)).collect();
        let is_tied = topologies::tied(&pods);
        let mut packer = Packer {
            scheduler,
            region,
            pods,
            types: candidates.iter().map(current).collect(),
            remaining: candidates.iter().map(|candidate| candidate.pool.limits.clone()).collect(),
            within_limits: candidates.iter().map(|_| OnceCell::new()).collect(),
            free: RefCell::default(),
            open: Vec::new(),
            topologies: Vec::new(),
            is_tied,
            tie,
            blocks: candidates.iter().map(|_| Vec::new()).collect(),
            starting: starting(candidates),
        };
        packer.add_port_rules();
        packer.stand();
        packer
    }

    /// Opens the nodes of static pools, which stand before any pod is there: of the cheapest of their types.
    fn stand(&mut self) {
        for (number, candidate) in self.scheduler.candidates.iter().enumerate() {
            let requirements = &candidate.nodes.requirements;
            let Some(nodes) = candidate.pool.replicas.filter(|nodes| *nodes > 0) else { continue };
            let Some(instance) = launched(candidate, requirements, &self.types[number], self.region) else {
                continue;
            };
            let at = self.open_nodes(OpenNodes {
                launched: true,
                nodes,
                ..OpenNodes::new(number, requirements.clone(), std::iter::once(instance).collect())
            });
            self.update_most(at);
        }
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
            self.pods[*at].group.ports.push(HostRule { counts, before: 0, mutual: false, joins: false });
        }
    }

    /// Places all pods, batch by batch.
    fn run(mut self) -> Packing {
        // `byCPUAndMemoryDescending` in queue.go.
        let mut order: Vec<usize> = (0..self.pods.len()).collect();
        let size = |at: &usize, resource: &str| self.pods[*at].need.get(resource).copied().unwrap_or(0);
        order.sort_by_key(|at| std::cmp::Reverse((size(at, "cpu"), size(at, "memory"))));
        for _ in 0..MAX_BATCHES {
            let before = self.pending();
            self.count_domains();
            // `Queue.Pop` ends when all pods that are left have been tried without placing one.
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
            // Another batch would begin with the same nodes and the same pods.
            if self.pending() == before || self.pending() == 0 {
                break;
            }
        }
        let over_limits: Vec<OnceCell<Vec<TypeSet>>> =
            self.within_limits.iter().map(|_| OnceCell::new()).collect();
        let unplaced = order.iter().filter(|at| self.pods[**at].left > 0);
        let unplaced = unplaced.map(|at| self.unplaced(*at, &over_limits)).collect();
        let nodes = self.open.iter().filter_map(|open| {
            let class = self.candidate(open).pool.class.as_ref();
            Some(NodeGroup {
                pool: self.candidate(open).position,
                instance: open.types.iter().next()?,
                capacity_types: launch_order(&open.requirements, &open.types, class),
                nodes: open.nodes,
                pods: open.pods.clone(),
            })
        });
        Packing { nodes: nodes.collect(), unplaced, depends: false }
    }

    /// The number of pods without a node.
    fn pending(&self) -> u64 {
        self.pods.iter().map(|pod| pod.left).sum()
    }

    fn candidate(&self, open: &OpenNodes) -> &'s Candidate<'a> {
        &self.scheduler.candidates[open.candidate]
    }

    /// Gives the pods of a group nodes, until none is left or nothing has room. Per state of relaxation, nodes of this batch
    /// come before new ones (`Scheduler.add`), and a pod is relaxed only after both have failed (`trySchedule`).
    fn place(&mut self, at: usize) {
        if self.is_tied[at] {
            while self.pods[at].left > 0 && self.place_one(at) {}
            return;
        }
        for state in 0..self.pods[at].states.len() {
            if self.pods[at].left == 0 {
                return;
            }
            if self.begins(at, state) {
                // The others join the first pod.
                let others = self.pods[at].left - 1;
                self.pods[at].left = 1;
                self.fill(at, state);
                self.start(at, state);
                self.pods[at].left += others;
            }
            self.fill(at, state);
            self.start(at, state);
        }
    }

    /// Places one pod, whose domain decides about the next: on a node that stands, or on the planned one with the fewest pods, or on a
    /// new one.
    fn place_one(&mut self, at: usize) -> bool {
        for state in 0..self.pods[at].states.len() {
            self.ensure_topologies(at, state);
            let mut nodes = self.nodes_with_room(at, state);
            nodes.sort_by_key(|node| {
                let open = &self.open[*node];
                (!open.launched, if open.launched { 0 } else { open.total }, *node)
            });
            let found =
                nodes.into_iter().find_map(|node| Some((node, self.room(&self.open[node], at, state)?)));
            if let Some((node, room)) = found {
                if self.open[node].nodes > 1 {
                    let mut others = self.open[node].clone();
                    others.nodes -= 1;
                    self.open[node].nodes = 1;
                    self.open_nodes(others);
                }
                self.add(node, at, room, 1);
                self.pods[at].left -= 1;
                return true;
            }
            let left = std::mem::replace(&mut self.pods[at].left, 1);
            self.start(at, state);
            let is_placed = self.pods[at].left == 0;
            self.pods[at].left = left - u64::from(is_placed);
            if is_placed {
                return true;
            }
        }
        false
    }

    /// Adds pods to the nodes of this batch: each to the one with the fewest pods (`Scheduler.add` sorts them so before
    /// `addToInflightNode`).
    fn fill(&mut self, at: usize, state: usize) {
        let rooms = self.rooms(at, state);
        if rooms.is_empty() {
            return;
        }
        let all: u64 = rooms
            .iter()
            .map(|(node, room)| room.pods.saturating_mul(self.open[*node].nodes))
            .fold(0, u64::saturating_add);
        let left = self.pods[at].left;
        // Every node is filled; the order does not matter.
        if left >= all {
            for (node, room) in rooms {
                let pods = room.pods;
                self.add(node, at, room, pods);
            }
            self.pods[at].left -= all;
            return;
        }
        // The level to which the nodes can be filled evenly.
        let at_level = |level: u64| self.pods_at_level(&rooms, level);
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
                let others = self.open_nodes(others);
                let same =
                    NodeRoom { pods: room.pods, requirements: room.requirements.clone(), types: room.types };
                self.add(others, at, same, pods);
            }
            self.add(node, at, room, pods + u64::from(extra > 0));
        }
        self.pods[at].left = 0;
    }

    /// The nodes of this batch that may get pods of a group, with their room. A node gets none, and is not asked, if the nodes
    /// with fewer pods take all that are left.
    fn rooms(&self, at: usize, state: usize) -> Vec<(usize, NodeRoom)> {
        let pod = &self.pods[at];
        let mut rooms: Vec<(usize, NodeRoom)> = Vec::new();
        let mut level = None;
        for node in self.nodes_with_room(at, state) {
            let open = &self.open[node];
            if level.replace(open.total) != Some(open.total)
                && self.pods_at_level(&rooms, open.total) > pod.left
            {
                break;
            }
            rooms.extend(self.room(open, at, state).map(|room| (node, room)));
        }
        rooms.sort_by_key(|(node, _)| *node);
        rooms
    }

    /// The number of pods that nodes take when each is filled up to `level` pods, as far as it has room.
    fn pods_at_level(&self, rooms: &[(usize, NodeRoom)], level: u64) -> u64 {
        let of = |(node, room): &(usize, NodeRoom)| {
            let open = &self.open[*node];
            level.saturating_sub(open.total).min(room.pods).saturating_mul(open.nodes)
        };
        rooms.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Starts nodes for the pods that are left (`addToNewNodeClaim`): from the first pool in order that admits them.
    fn start(&mut self, at: usize, state: usize) {
        while self.pods[at].left > 0 {
            let first = self.starting.iter().find_map(|candidate| self.new_node(*candidate, at, state));
            let Some((mut node, room)) = first else { return };
            let candidate = node.candidate;
            let (left, each) = (self.pods[at].left, room.pods);
            let one = self.types_with_room(&node, at, &room.types, 1);
            // The limit of nodes is not lowered within a batch: nodes of a batch before it count.
            let most = self.most_of_limits(candidate, &one, 0);
            let possible = most.iter().zip(&self.remaining[candidate]);
            let possible = possible
                .filter(|(most, _)| **most > 0)
                .map(|(most, (_, remaining))| u64::try_from(remaining / most).unwrap_or(u64::MAX))
                .min()
                .unwrap_or(u64::MAX);
            // Karpenter subtracts the largest of the node's types from the limits for each new node
            // (`subtractMax`). This is the number of equal nodes before the limits leave fewer types.
            let nodes = left.div_ceil(each).min(possible).max(1);
            for (most, (_, remaining)) in most.iter().zip(&mut self.remaining[candidate]) {
                *remaining -= most * i128::from(nodes);
            }
            self.within_limits[candidate].take();
            if self.within_limits(candidate).is_empty() {
                self.starting.retain(|other| *other != candidate);
            }
            let pods = left.min(nodes.saturating_mul(each));
            let (whole, rest) = (pods / each, pods % each);
            for (count, pods) in [(whole, each), (u64::from(rest > 0), rest)] {
                if count > 0 {
                    node.nodes = count;
                    let opened = self.open_nodes(node.clone());
                    let same = NodeRoom { pods, requirements: room.requirements.clone(), types: room.types };
                    self.add(opened, at, same, pods);
                }
            }
            self.pods[at].left -= pods;
        }
    }

    /// The types of a candidate that fit into what is left of its limits (`filterByRemainingResources`).
    fn within_limits(&self, candidate: usize) -> &TypeSet {
        self.within_limits[candidate].get_or_init(|| {
            let (types, remaining) = (&self.types[candidate], &self.remaining[candidate]);
            // `addToNewNodeClaim` checks the limit of nodes before any type.
            if remaining.iter().any(|(name, left)| name == NODES && *left < 1000) {
                return TypeSet::EMPTY;
            }
            if remaining.is_empty() {
                return *types;
            }
            let (from, settings) = (&self.scheduler.candidates[candidate], &self.scheduler.settings);
            let fits = |instance: &&'static InstanceType| {
                let is_left =
                    |(name, left): &(String, i128)| from.capacity(instance, name, settings) <= *left;
                remaining.iter().all(|limit| limit.0 == NODES || is_left(limit))
            };
            types.iter().filter(fits).collect()
        })
    }

    /// For each limit of a candidate, the most that one of the types counts towards it (`subtractMax`). `node` is what a node
    /// counts towards the limit of nodes, in thousandths.
    fn most_of_limits(&self, candidate: usize, types: &TypeSet, node: i128) -> Vec<i128> {
        let (from, settings) = (&self.scheduler.candidates[candidate], &self.scheduler.settings);
        let mut most = vec![0; self.remaining[candidate].len()];
        for instance in types.iter() {
            for (most, (name, _)) in most.iter_mut().zip(&self.remaining[candidate]) {
                let counts = || from.capacity(instance, name, settings);
                *most = (*most).max(if name == NODES { node } else { counts() });
            }
        }
        most
    }

    /// Ends a batch: each new node becomes the cheapest of its types, and limits count what there is.
    fn launch(&mut self) {
        for at in 0..self.open.len() {
            if self.open[at].launched {
                continue;
            }
            let from = self.candidate(&self.open[at]);
            let open = &mut self.open[at];
            open.launched = true;
            if let Some(instance) = launched(from, &open.requirements, &open.types, self.region) {
                open.types = std::iter::once(instance).collect();
            }
            self.open[at].requirements = self.pin_labels(at);
            self.update_most(at);
        }
        let mut merged: Vec<OpenNodes> = Vec::new();
        for open in std::mem::take(&mut self.open) {
            match merged.iter_mut().find(|known| known.equals(&open)) {
                Some(known) => known.nodes += open.nodes,
                None => merged.push(open),
            }
        }
        self.replace_open(merged);
        for open in &mut self.open {
            open.bound.clone_from(&open.pods);
        }
        self.starting = starting(&self.scheduler.candidates);
        for (candidate, remaining) in self.remaining.iter_mut().enumerate() {
            self.within_limits[candidate].take();
            remaining.clone_from(&self.scheduler.candidates[candidate].pool.limits);
        }
        for at in 0..self.open.len() {
            let open = &self.open[at];
            let (candidate, nodes) = (open.candidate, i128::from(open.nodes));
            let counted = self.most_of_limits(candidate, &open.types, 1000);
            for (amount, (_, remaining)) in counted.iter().zip(&mut self.remaining[candidate]) {
                *remaining -= amount * nodes;
            }
        }
    }

    /// For each limit of a candidate, the types that count more towards it than is left.
    fn over_limits(&self, number: usize) -> Vec<TypeSet> {
        let (candidate, settings) = (&self.scheduler.candidates[number], &self.scheduler.settings);
        let over = |(name, left): &(String, i128)| -> TypeSet {
            let counts =
                |instance| if name == NODES { 1000 } else { candidate.capacity(instance, name, settings) };
            self.types[number].iter().filter(|instance| *left < counts(instance)).collect()
        };
        self.remaining[number].iter().map(over).collect()
    }

    /// Why pods of a group have no node. `over_limits` keeps what is worked out for each candidate.
    fn unplaced(&self, at: usize, over_limits: &[OnceCell<Vec<TypeSet>>]) -> UnplacedPods {
        let pod = &self.pods[at];
        let admitted = |number: usize| {
            (0..pod.states.len()).rev().find_map(|state| pod.admitted(self.scheduler, state, number))
        };
        let mut full: Vec<FullPool> = Vec::new();
        for (number, candidate) in self.scheduler.candidates.iter().enumerate() {
            let Some(types) = admitted(number) else { continue };
            let types = types.and(&self.types[number]);
            let over = over_limits[number].get_or_init(|| self.over_limits(number));
            let excluded = |excludes: &dyn Fn(&TypeSet) -> bool| -> Vec<String> {
                let limits = self.remaining[number].iter().zip(over);
                limits.filter(|(_, over)| excludes(over)).map(|((name, _), _)| name.clone()).collect()
            };
            let mut limits = excluded(&|over| types.is_subset(over));
            if limits.is_empty() {
                limits = excluded(&|over| !types.is_disjoint(over));
            }
            full.push(FullPool { pool: candidate.position, limits });
        }
        UnplacedPods { group: at, pods: pod.left, full, uncertainties: pod.uncertainties(self.scheduler) }
    }
}

/// The candidates that start nodes for pods.
fn starting(candidates: &[Candidate<'_>]) -> Vec<usize> {
    (0..candidates.len()).filter(|candidate| candidates[*candidate].pool.replicas.is_none()).collect()
}

/// The cheapest type by list price and overlays. Metal types and those with devices are left out where others remain, unless `minValues`
/// keeps all types (`filterInstanceTypes` in `pkg/providers/instance` of the AWS provider).
fn launched(
    from: &Candidate<'_>,
    requirements: &Requirements,
    types: &TypeSet,
    region: Option<&str>,
) -> Option<&'static InstanceType> {
    let exotic = |instance: &InstanceType| {
        instance.is_metal() || Accelerator::RESOURCES.iter().any(|device| instance.devices(device) > 0)
    };
    let plain: TypeSet = types.iter().filter(|instance| !exotic(instance)).collect();
    let all =
        plain.is_empty() || requirements.iter().any(|(_, requirement)| requirement.min_values.is_some());
    from.cheapest(if all { types } else { &plain }, requirements, region)
}
