//! The pools that workloads with accelerators choose.
//!
//! The first choice of a pod is the pool with the highest weight among those that admit it. Among pools of
//! equal weight it is the one whose name sorts last.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::catalog::Accelerator;
use crate::cluster::Cluster;
use crate::cluster::placement::eviction::starts_nodes;
use crate::cluster::placement::feasibility::{Evaluation, Feasible, FeasibleKey, shape_of};
use crate::cluster::placement::pools::PoolKey;
use crate::cluster::placement::{CandidatePool, CandidatePools, Fingerprint};
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::views::ExtendedResources;
use crate::kind::{Kind, kinds};
use crate::object::Object;
use crate::steps;
use crate::workload::class::WorkloadClass;
use crate::workload::gpu::requests_accelerator;
use crate::workload::template::{WORKLOAD_KINDS, is_short_lived, templates};

/// Maximum number of workloads to keep for each pool. Workloads of other folders may not be in the cluster of
/// the pool.
const MOST_KEPT: usize = 16;

const KINDS: &[Kind] = kinds![[Kind::NODE_POOL, Kind::NAMESPACE], WORKLOAD_KINDS];

/// The workloads with accelerators of a pool, each list in the order of the index and cut at [`MOST_KEPT`].
#[derive(Clone, Default)]
pub(crate) struct PoolUse {
    pub admitted: Vec<Object>,
    /// Training runs whose first choice the pool is.
    pub training: Vec<Object>,
    /// Servers whose first choice the pool is.
    pub serving: Vec<Object>,
}

/// The purpose of a workload, as far as it affects the choice of a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Training,
    Serving,
    Other,
}

/// The workloads with accelerators by the pools that they choose.
#[derive(Default)]
pub(crate) struct AcceleratorPlacement {
    /// The workloads in the order of the index, with the positions of their pods' groups.
    workloads: Vec<(Object, Purpose, Vec<usize>)>,
    /// The groups in the order of their first workloads.
    groups: Vec<Group>,
    /// The workloads of a pool, by its address. `groups` holds a handle of the pool, so that no other object
    /// can have this address.
    by_pool: HashMap<usize, PoolUse>,
}

/// Workloads whose pods have equal requirements. There are far fewer groups than workloads.
struct Group {
    key: FeasibleKey,
    /// The pools that admit them, in the order in which Karpenter tries them.
    pools: Vec<Arc<CandidatePool>>,
    /// The positions of the workloads, without repetition.
    workloads: Vec<usize>,
    /// The positions of the training runs among them.
    training: Vec<usize>,
    /// The positions of the servers among them.
    serving: Vec<usize>,
}

/// Compares the fields that the others are derived from.
impl PartialEq for AcceleratorPlacement {
    fn eq(&self, other: &AcceleratorPlacement) -> bool {
        let same_pools = |a: &Group, b: &Group| {
            a.pools.len() == b.pools.len() && a.pools.iter().zip(&b.pools).all(|(a, b)| a == b)
        };
        self.workloads.len() == other.workloads.len()
            && self.groups.len() == other.groups.len()
            && self
                .workloads
                .iter()
                .zip(&other.workloads)
                .all(|(a, b)| a.0.ptr_eq(&b.0) && a.1 == b.1 && a.2 == b.2)
            && self.groups.iter().zip(&other.groups).all(|(a, b)| a.key == b.key && same_pools(a, b))
    }
}

/// The placement of the workloads with accelerators; the key is whether EKS adds tolerations.
pub(crate) struct AcceleratorPlacements;

impl Query for AcceleratorPlacements {
    const SLOT: QuerySlot = QuerySlot::AcceleratorPlacements;
    const KINDS: &'static [Kind] = KINDS;
    type Key = bool;
    type Value = Arc<AcceleratorPlacement>;

    fn compute(cluster: &Cluster, eks: &bool) -> Arc<AcceleratorPlacement> {
        let mut placement = AcceleratorPlacement::default();
        if !cluster.has_any(Kind::NODE_POOL) {
            return Arc::new(placement);
        }
        let workloads = workloads(cluster);
        let mut numbers: HashMap<(Fingerprint, bool), usize> = HashMap::new();
        let mut uses = Uses::default();
        for object in workloads {
            let purpose = Purpose::of(cluster, object);
            let mut of_object = Vec::new();
            for key in shapes(object, *eks) {
                let number = *numbers.entry(key.content()).or_insert_with(|| {
                    placement.groups.push(Group::new(cluster, &key));
                    uses.add_group(&placement.groups[placement.groups.len() - 1]);
                    placement.groups.len() - 1
                });
                placement.groups[number].add(placement.workloads.len(), purpose);
                uses.add(cluster, object, purpose, number);
                of_object.push(number);
            }
            placement.workloads.push((object.clone(), purpose, of_object));
        }
        let by_pool = uses.pools.iter().zip(uses.used);
        placement.by_pool = by_pool.map(|(pool, used)| (pool.object().ptr_id(), used)).collect();
        Arc::new(placement)
    }
}

/// The workloads with accelerators that run long enough for their pools to matter, in the order of the index.
fn workloads(cluster: &Cluster) -> Vec<&Object> {
    let mut workloads: Vec<&Object> = Vec::new();
    for resource in Accelerator::RESOURCES {
        workloads.extend(cluster.table::<ExtendedResources>().get(&resource.to_owned()));
    }
    workloads.retain(|object| matters(object));
    workloads.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    workloads.dedup_by(|a, b| a.ptr_eq(b));
    workloads
}

/// Whether the pods of an object start nodes, and run long enough for their pools to matter.
fn matters(object: &Object) -> bool {
    starts_nodes(object) && !is_short_lived(object)
}

/// Decides on all threads which pools admit the pods with accelerators, so that later queries find the
/// results.
pub(crate) fn evaluate_accelerators(cluster: &Cluster, eks: bool) {
    for resource in Accelerator::RESOURCES {
        let requesting = cluster.table::<ExtendedResources>().get(&resource.to_owned());
        requesting.par_iter().filter(|object| matters(object)).for_each(|object| {
            for key in shapes(object, eks) {
                let _ = cluster.query::<Feasible>(&key);
            }
        });
    }
}

impl Purpose {
    fn of(cluster: &Cluster, object: &Object) -> Purpose {
        let classified = cluster.views().class_of(object);
        if classified.is(WorkloadClass::Training) {
            Purpose::Training
        } else if classified.serves_requests() {
            Purpose::Serving
        } else {
            Purpose::Other
        }
    }
}

impl Group {
    fn new(cluster: &Cluster, key: &FeasibleKey) -> Group {
        let feasible = cluster.query::<Feasible>(key).unwrap_or_default();
        let mut pools: Vec<Arc<CandidatePool>> =
            feasible.iter().flat_map(|pools| pools.iter()).cloned().collect();
        pools.sort_by(|a, b| rank(b).cmp(&rank(a)));
        Group { key: key.clone(), pools, workloads: Vec::new(), training: Vec::new(), serving: Vec::new() }
    }

    fn add(&mut self, workload: usize, purpose: Purpose) {
        // Two templates of a workload may have equal requirements.
        if self.workloads.last() == Some(&workload) {
            return;
        }
        self.workloads.push(workload);
        match purpose {
            Purpose::Training => self.training.push(workload),
            Purpose::Serving => self.serving.push(workload),
            Purpose::Other => {}
        }
    }
}

/// The pools that admit any workload, and their workloads.
#[derive(Default)]
struct Uses {
    pools: Vec<Arc<CandidatePool>>,
    used: Vec<PoolUse>,
    /// The positions of the pools, by address.
    numbers: HashMap<usize, usize>,
    /// For each group the positions of its pools, in the order in which Karpenter tries them.
    orders: Vec<Vec<usize>>,
    /// For each group, whether each of its pools has reached [`MOST_KEPT`].
    are_full: Vec<bool>,
}

impl Uses {
    fn add_group(&mut self, group: &Group) {
        let number = |pool: &Arc<CandidatePool>| {
            *self.numbers.entry(pool.object().ptr_id()).or_insert_with(|| {
                self.pools.push(Arc::clone(pool));
                self.used.push(PoolUse::default());
                self.pools.len() - 1
            })
        };
        let order = group.pools.iter().map(number).collect();
        self.orders.push(order);
        self.are_full.push(false);
    }

    /// Adds a workload of a group to the pools that admit it.
    fn add(&mut self, cluster: &Cluster, object: &Object, purpose: Purpose, group: usize) {
        let order = &self.orders[group];
        if !self.are_full[group] {
            for number in order {
                keep(&mut self.used[*number].admitted, object);
            }
            self.are_full[group] = order.iter().all(|number| self.used[*number].admitted.len() >= MOST_KEPT);
        }
        if purpose == Purpose::Other {
            return;
        }
        // Pools of other clusters do not compete for pods.
        let pools = &self.pools;
        let first = order.iter().position(|number| cluster.pairs(object, pools[*number].object()));
        let Some(first) = first.map(|first| rank(&pools[order[first]])) else { return };
        let from_first = order.iter().skip_while(|number| rank(&pools[**number]) != first);
        for number in from_first.take_while(|number| rank(&pools[**number]) == first) {
            let used = &mut self.used[*number];
            keep(if purpose == Purpose::Training { &mut used.training } else { &mut used.serving }, object);
        }
    }
}

/// The rank of a pool: Karpenter tries the greatest first.
fn rank(pool: &CandidatePool) -> (i64, &str) {
    (pool.weight(), pool.object().name())
}

fn keep(list: &mut Vec<Object>, object: &Object) {
    if list.len() < MOST_KEPT && !list.iter().any(|known| known.ptr_eq(object)) {
        list.push(object.clone());
    }
}

/// The workloads with accelerators of a pool. The pool may be new, or another version of one in the cluster.
pub(crate) fn accelerators_on(cluster: &Cluster, object: &Object, eks: bool) -> PoolUse {
    let placement = cluster.query::<AcceleratorPlacements>(&eks);
    // Without such workloads, the pools that admit a pod need not be computed.
    if placement.workloads.is_empty() {
        return PoolUse::default();
    }
    let used = |pool: &Object| placement.by_pool.get(&pool.ptr_id()).cloned().unwrap_or_default();
    let same_name = cluster.table::<CandidatePools>().get(&PoolKey::Name(object.name().to_owned()));
    let known = same_name.iter().find(|pool| pool.object().is_same_resource(object));
    if placement.by_pool.contains_key(&object.ptr_id())
        || known.is_some_and(|known| known.object().ptr_eq(object))
    {
        return used(object);
    }
    let own = Arc::new(CandidatePool::new(object));
    if !own.is_candidate() {
        return PoolUse::default();
    }
    if let Some(known) = known.filter(|known| known.pool == own.pool) {
        return used(known.object());
    }
    let [mut admitted, mut training, mut serving] = [const { Vec::new() }; 3];
    for group in &placement.groups {
        let admits = Evaluation::new(cluster, &group.key).admit(std::slice::from_ref(&own));
        if admits != Some(vec![true]) {
            continue;
        }
        admitted.extend(group.workloads.iter().take(MOST_KEPT));
        let before = group.pools.iter().take_while(|pool| rank(pool) >= rank(&own));
        // A pool with the same name is another version of the same pool.
        let rivals: Vec<_> = before.filter(|pool| pool.object().name() != object.name()).collect();
        let is_first = |workload: &&usize| {
            let (workload, ..) = &placement.workloads[**workload];
            !rivals.iter().any(|pool| cluster.pairs(workload, pool.object()))
        };
        training.extend(group.training.iter().filter(is_first).take(MOST_KEPT));
        serving.extend(group.serving.iter().filter(is_first).take(MOST_KEPT));
    }
    let first = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().take(MOST_KEPT).map(|number| placement.workloads[number].0.clone()).collect()
    };
    PoolUse { admitted: first(admitted), training: first(training), serving: first(serving) }
}

/// The distinct pods of a workload that request accelerators.
fn shapes(object: &Object, eks: bool) -> Vec<FeasibleKey> {
    let read = || {
        let templates = templates(object);
        let asking = templates.iter().filter(|template| requests_accelerator(template));
        asking.filter_map(shape_of).map(|shape| FeasibleKey { shape, eks }).collect()
    };
    steps::limited(steps::SHARED, read).0.unwrap_or_default()
}
