//! Which pools the workloads with accelerators choose.
//!
//! A pod's first choice is the pool of the highest weight among those that admit it; of equal weights it is the one whose name
//! sorts last.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::placement::eviction::starts_nodes;
use crate::cluster::placement::feasibility::{Evaluation, Feasible, FeasibleKey, FeasiblePools, shape_of};
use crate::cluster::placement::pools::PoolKey;
use crate::cluster::placement::{CandidatePool, CandidatePools, Fingerprint};
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::views::ExtendedResources;
use crate::cluster::views::fallback::COUNTED_ACCELERATORS;
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;
use crate::workload::class::WorkloadClass;
use crate::workload::gpu::requests_accelerator;
use crate::workload::template::{WORKLOAD_KINDS, is_short_lived, templates, with_workloads};

/// How many workloads of a pool are kept. Those of other folders may not be of the pool's cluster.
const MOST_KEPT: usize = 16;

const KINDS: &[Kind] = &{
    const MORE: [Kind; 2] = [Kind::NODE_POOL, Kind::NAMESPACE];
    with_workloads::<{ MORE.len() + WORKLOAD_KINDS.len() }>(&MORE)
};

/// The workloads with accelerators of a pool, each list in the order of the index and cut at [`MOST_KEPT`].
#[derive(Clone, Default)]
pub(crate) struct PoolUse {
    /// Those that the pool admits.
    pub admitted: Vec<Object>,
    /// Training runs whose first choice the pool is.
    pub training: Vec<Object>,
    /// Servers whose first choice the pool is.
    pub serving: Vec<Object>,
}

/// A workload with the distinct pods of it that ask for accelerators, and the pools that admit each.
type Placed = (Object, Vec<(FeasibleKey, FeasiblePools)>);

/// The workloads with accelerators by the pools that they choose.
#[derive(Default)]
pub(crate) struct AcceleratorPlacement {
    /// In the order of the index.
    workloads: Vec<Placed>,
    /// By the address of the pool. `workloads` contains a handle of it, so that no other object can have it.
    by_pool: HashMap<usize, PoolUse>,
}

/// Compares what decides: the other field is derived from it and from the classes of the workloads.
impl PartialEq for AcceleratorPlacement {
    fn eq(&self, other: &AcceleratorPlacement) -> bool {
        let alike =
            |a: &[Object], b: &[Object]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.ptr_eq(b));
        // Results that are as before are the very same.
        let same_pools = |a: &FeasiblePools, b: &FeasiblePools| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (a, b) => a.is_none() && b.is_none(),
        };
        let same = |a: &[(FeasibleKey, FeasiblePools)], b: &[(FeasibleKey, FeasiblePools)]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same_pools(&a.1, &b.1))
        };
        self.workloads.len() == other.workloads.len()
            && self.workloads.iter().zip(&other.workloads).all(|(a, b)| a.0.ptr_eq(&b.0) && same(&a.1, &b.1))
            && self.by_pool.len() == other.by_pool.len()
            && self.by_pool.iter().all(|(pool, a)| {
                other.by_pool.get(pool).is_some_and(|b| {
                    alike(&a.admitted, &b.admitted)
                        && alike(&a.training, &b.training)
                        && alike(&a.serving, &b.serving)
                })
            })
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
        let mut workloads: Vec<&Object> = Vec::new();
        for resource in COUNTED_ACCELERATORS {
            workloads.extend(cluster.table::<ExtendedResources>().get(&resource.to_owned()));
        }
        workloads.retain(|object| starts_nodes(object) && !is_short_lived(object));
        workloads.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        workloads.dedup_by(|a, b| a.ptr_eq(b));
        let mut groups: HashMap<(Fingerprint, bool), Group> = HashMap::new();
        let mut uses = Uses::default();
        for object in workloads {
            let mut placed = Vec::new();
            for key in shapes(object, *eks) {
                let group = groups.entry(key.content()).or_insert_with(|| uses.group(cluster, &key));
                uses.add(cluster, object, group);
                placed.push((key, group.feasible.clone()));
            }
            placement.workloads.push((object.clone(), placed));
        }
        let by_pool = uses.pools.iter().zip(uses.used);
        placement.by_pool = by_pool.map(|(pool, used)| (pool.object().ptr_id(), used)).collect();
        Arc::new(placement)
    }
}

/// The pools that admit any workload, and their workloads.
#[derive(Default)]
struct Uses {
    pools: Vec<Arc<CandidatePool>>,
    used: Vec<PoolUse>,
    /// The number of a pool by its address.
    numbers: HashMap<usize, usize>,
}

/// Workloads whose pods require the same: there are far fewer of these than workloads.
struct Group {
    feasible: FeasiblePools,
    /// The numbers of these pools, first what Karpenter tries first.
    order: Vec<usize>,
    /// Whether each of them has as many workloads as are kept.
    is_full: bool,
}

impl Uses {
    fn group(&mut self, cluster: &Cluster, key: &FeasibleKey) -> Group {
        let feasible = cluster.query::<Feasible>(key).unwrap_or_default();
        let mut order = Vec::new();
        for pool in feasible.iter().flat_map(|pools| pools.iter()) {
            let number = *self.numbers.entry(pool.object().ptr_id()).or_insert_with(|| {
                self.pools.push(Arc::clone(pool));
                self.used.push(PoolUse::default());
                self.pools.len() - 1
            });
            order.push(number);
        }
        order.sort_by(|a, b| rank(&self.pools[*b]).cmp(&rank(&self.pools[*a])));
        Group { feasible, order, is_full: false }
    }

    /// Adds a workload to the pools that admit it.
    fn add(&mut self, cluster: &Cluster, object: &Object, group: &mut Group) {
        if !group.is_full {
            for number in &group.order {
                keep(&mut self.used[*number].admitted, object);
            }
            group.is_full = group.order.iter().all(|number| self.used[*number].admitted.len() >= MOST_KEPT);
        }
        // Pools of other clusters do not compete.
        let pools = &self.pools;
        let first = group.order.iter().position(|number| cluster.pairs(object, pools[*number].object()));
        let Some(first) = first.map(|first| rank(&pools[group.order[first]])) else {
            return;
        };
        let equal = group.order.iter().filter(|number| rank(&pools[**number]) == first);
        for number in equal {
            self.used[*number].add_first_choice(cluster, object);
        }
    }
}

/// What Karpenter tries first is greatest.
fn rank(pool: &CandidatePool) -> (i64, &str) {
    (pool.weight(), pool.object().name())
}

fn keep(list: &mut Vec<Object>, object: &Object) {
    if list.len() < MOST_KEPT && !list.iter().any(|known| known.ptr_eq(object)) {
        list.push(object.clone());
    }
}

impl PoolUse {
    /// Adds a workload whose first choice the pool is.
    fn add_first_choice(&mut self, cluster: &Cluster, object: &Object) {
        if self.training.len() >= MOST_KEPT && self.serving.len() >= MOST_KEPT {
            return;
        }
        let classified = cluster.views().class_of(object);
        if classified.is(WorkloadClass::Training) {
            keep(&mut self.training, object);
        } else if classified.serves_requests() {
            keep(&mut self.serving, object);
        }
    }
}

/// The workloads with accelerators of a pool, which may be new, or another version of one in the cluster.
pub(crate) fn accelerators_on(cluster: &Cluster, object: &Object, eks: bool) -> PoolUse {
    let placement = cluster.query::<AcceleratorPlacements>(&eks);
    // Without them nobody has to know what the pools admit.
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
    let own = CandidatePool::new(object);
    if !own.is_candidate() {
        return PoolUse::default();
    }
    if let Some(known) = known.filter(|known| known.pool == own.pool) {
        return used(known.object());
    }
    let mut answers: HashMap<Fingerprint, bool> = HashMap::new();
    let mut out = PoolUse::default();
    for (workload, keys) in &placement.workloads {
        for (key, feasible) in keys {
            let admits = *answers
                .entry(key.shape.fingerprint())
                .or_insert_with(|| Evaluation::new(cluster, key).decide(&own) == Some(true));
            if admits {
                let feasible = feasible.iter().flat_map(|pools| pools.iter());
                // What has its name is another version of it.
                let is_other = |pool: &&Arc<CandidatePool>| {
                    pool.object().name() != object.name() && cluster.pairs(workload, pool.object())
                };
                keep(&mut out.admitted, workload);
                let mut others = feasible.filter(is_other);
                if others.all(|pool| rank(pool) < rank(&own)) {
                    out.add_first_choice(cluster, workload);
                }
            }
        }
    }
    out
}

/// The distinct pods of a workload that ask for accelerators.
fn shapes(object: &Object, eks: bool) -> Vec<FeasibleKey> {
    let read = || {
        let templates = templates(object);
        let asking = templates.iter().filter(|template| requests_accelerator(template));
        asking.filter_map(shape_of).map(|shape| FeasibleKey { shape, eks }).collect()
    };
    steps::limited(steps::SHARED, read).0.unwrap_or_default()
}
