//! Which NodePools may start nodes for which pods, and which pods block the drain of a pool's nodes.
//!
//! ```text
//! NodePools ─► CandidatePools (table) ─► Feasible(pod) ─┐
//!                  Admissions: pool × pod ──┘           ├─► Placements ─► BlockersOn(pool)
//! workloads, PDBs, autoscalers ──► Blockers(workload) ──┘
//! ```
//!
//! `Admissions` is the only memo of verdicts. Everything else is a query of the cluster, derived from it.
//!
//! A pod is evaluated against each pool separately, with the scheduler's own decision. A blocker counts for
//! the pools of the highest weight among those that admit it, because its node is started there first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::dependencies::{Digest, Read, digest, record_read, untracked};
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::facts::duration::{DurationField, parse};
use crate::karpenter::do_not_disrupt::reads_durations;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::template::WORKLOAD_KINDS;

mod accelerators;
pub(crate) mod admission;
mod eviction;
mod feasibility;
mod other_nodes;
mod pools;
#[cfg(test)]
mod tests;

pub(crate) use accelerators::{AcceleratorPlacements, PoolUse, accelerators_on, evaluate_accelerators};
pub(crate) use admission::Fingerprint;
use eviction::BlockersKey;
pub(crate) use eviction::{
    Blockers, EvictionBlocker, NodeStarters, PdbBlock, PoolsByDrainTime, READS, ShortestGrace, starts_nodes,
};
use feasibility::{Evaluation, FeasibleKey, FeasiblePools};
pub(crate) use feasibility::{Feasibility, Feasible, PoolsFor, requested_capacity_types, requests_of};
use pools::PoolKey;
pub(crate) use pools::{CandidatePool, CandidatePools};

/// The properties of a platform that decide where pods are placed and what blocks their eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PlacementKey {
    /// Whether EKS adds tolerations to pods that request devices.
    eks: bool,
    /// Whether Karpenter accepts durations on pods.
    durations: bool,
}

impl PlacementKey {
    pub(crate) fn of(platform: &Platform) -> PlacementKey {
        PlacementKey { eks: platform.eks, durations: reads_durations(platform) }
    }

    const ALL: [PlacementKey; 4] = [
        PlacementKey { eks: false, durations: false },
        PlacementKey { eks: false, durations: true },
        PlacementKey { eks: true, durations: false },
        PlacementKey { eks: true, durations: true },
    ];
}

/// The pods that block drains, with the pools that admit them.
#[derive(Default)]
pub(crate) struct Placement {
    /// The blockers in the order of the index, with the pools that admit them.
    blockers: Vec<(Arc<EvictionBlocker>, FeasiblePools)>,
    /// The blockers by the address of the pool that is their first choice. `blockers` holds a handle of the
    /// pool, so that no other object can have this address.
    by_first_choice: HashMap<usize, Vec<Arc<EvictionBlocker>>>,
}

/// Compares `blockers` only; the other fields are derived from them.
impl PartialEq for Placement {
    fn eq(&self, other: &Placement) -> bool {
        self.blockers == other.blockers
    }
}

impl Placement {
    fn first_choice_of(&self, pool: &Object) -> &[Arc<EvictionBlocker>] {
        self.by_first_choice.get(&pool.ptr_id()).map_or(&[], Vec::as_slice)
    }
}

/// The part of a [`Placement`] that [`Placement::first_choice_of`] reads.
fn first_choice_part(pool: usize) -> Digest {
    digest(pool)
}

/// The placement of the pods that block drains.
pub(crate) struct Placements;

impl Query for Placements {
    const SLOT: QuerySlot = QuerySlot::Placements;
    const KINDS: &'static [Kind] = READS;
    type Key = PlacementKey;
    type Value = Arc<Placement>;

    fn changed_parts(old: &Arc<Placement>, new: &Arc<Placement>) -> Vec<Digest> {
        let (old, new) = (&old.by_first_choice, &new.by_first_choice);
        let changed = new.iter().filter(|(pool, blockers)| old.get(pool) != Some(blockers));
        let removed = old.keys().filter(|pool| !new.contains_key(pool));
        changed.map(|(pool, _)| pool).chain(removed).map(|pool| first_choice_part(*pool)).collect()
    }

    fn compute(cluster: &Cluster, key: &PlacementKey) -> Arc<Placement> {
        let mut placement = Placement::default();
        if !cluster.has_any(Kind::NODE_POOL) {
            return Arc::new(placement);
        }
        let shortest = cluster.query::<ShortestGrace>(&());
        let blocks = |blocker: &&Arc<EvictionBlocker>| {
            blocker.has_do_not_disrupt
                || blocker.pdb_block.is_some()
                || shortest.is_some_and(|shortest| blocker.grace > shortest)
        };
        // Records one read for the blockers of all workloads instead of one for each.
        record_read(|| Read::Results(Blockers::ID));
        let starters = cluster.table::<NodeStarters>();
        for object in WORKLOAD_KINDS.iter().flat_map(|kind| starters.get(kind)) {
            let workload = BlockersKey { workload: ObjectKey(object.clone()), durations: key.durations };
            let blockers = untracked(|| cluster.query::<Blockers>(&workload));
            placement.blockers.extend(blockers.iter().filter(blocks).map(|b| (Arc::clone(b), None)));
        }
        let mut shapes = BTreeMap::new();
        for (blocker, _) in &placement.blockers {
            let feasible = FeasibleKey { shape: Arc::clone(&blocker.shape), eks: key.eks };
            shapes.entry(blocker.shape.fingerprint()).or_insert(feasible);
        }
        let pools: BTreeMap<Fingerprint, FeasiblePools> = shapes
            .into_iter()
            .map(|(shape, key)| (shape, cluster.query::<Feasible>(&key).unwrap_or_default()))
            .collect();
        for (blocker, feasible) in &mut placement.blockers {
            *feasible = pools.get(&blocker.shape.fingerprint()).cloned().flatten();
            let pools = feasible.iter().flat_map(|pools| pools.iter());
            let heaviest = pools.clone().map(|pool| pool.weight()).max();
            for pool in pools.filter(|pool| Some(pool.weight()) == heaviest) {
                let first_choice = placement.by_first_choice.entry(pool.object().ptr_id());
                first_choice.or_default().push(Arc::clone(blocker));
            }
        }
        Arc::new(placement)
    }
}

/// The pods that block the drain of a pool's nodes.
pub(crate) struct BlockersOn;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockersOnKey {
    pool: ObjectKey,
    placement: PlacementKey,
}

impl Query for BlockersOn {
    const SLOT: QuerySlot = QuerySlot::BlockersOn;
    const KINDS: &'static [Kind] = READS;
    type Key = BlockersOnKey;
    type Value = Arc<[Arc<EvictionBlocker>]>;

    fn compute(cluster: &Cluster, key: &BlockersOnKey) -> Arc<[Arc<EvictionBlocker>]> {
        compute_blockers_on(cluster, &key.pool.0, key.placement)
    }

    fn keys_of(object: &Object) -> Vec<BlockersOnKey> {
        if !object.is(Kind::NODE_POOL) {
            return Vec::new();
        }
        let key = |placement| BlockersOnKey { pool: ObjectKey(object.clone()), placement };
        PlacementKey::ALL.map(key).into()
    }
}

/// The blockers for which a pool is the first choice, or one of several of equal weight. The pool may be new,
/// or another version of the one in the cluster.
pub(crate) fn blockers_on(
    cluster: &Cluster,
    object: &Object,
    platform: &Platform,
) -> Arc<[Arc<EvictionBlocker>]> {
    let placement = PlacementKey::of(platform);
    // Results are kept only for objects of the cluster, because they are removed with the object.
    if cluster.is_incremental() {
        return cluster.query::<BlockersOn>(&BlockersOnKey { pool: ObjectKey(object.clone()), placement });
    }
    compute_blockers_on(cluster, object, placement)
}

fn compute_blockers_on(cluster: &Cluster, object: &Object, key: PlacementKey) -> Arc<[Arc<EvictionBlocker>]> {
    let all = all_blockers_on(cluster, object, key);
    let pairs = |blocker: &&Arc<EvictionBlocker>| cluster.pairs(object, &blocker.workload);
    if all.iter().all(|blocker| pairs(&blocker)) {
        return all;
    }
    all.iter().filter(pairs).cloned().collect()
}

/// Computes [`blockers_on`] for a pool, including workloads that may be in other clusters.
fn all_blockers_on(cluster: &Cluster, object: &Object, key: PlacementKey) -> Arc<[Arc<EvictionBlocker>]> {
    // Only the part that concerns this pool is recorded as read, because most changes concern the blockers of
    // few pools.
    let placement = if cluster.is_incremental() {
        cluster.query_part::<Placements>(&key, first_choice_part(object.ptr_id()))
    } else {
        cluster.query::<Placements>(&key)
    };
    // No pod blocks a drain on any pool.
    if placement.blockers.is_empty() && !cluster.is_incremental() {
        return Arc::default();
    }
    let same_name = cluster.table::<CandidatePools>().get(&PoolKey::Name(object.name().to_owned()));
    let known = same_name.iter().find(|pool| pool.object().is_same_resource(object));
    // The pool is the one in the cluster, for which the placement has the answer.
    if let Some(known) = known.filter(|known| known.object().ptr_eq(object)) {
        return placement.first_choice_of(known.object()).into();
    }
    let placement = cluster.query::<Placements>(&key);
    let own = Arc::new(CandidatePool::new(object));
    // Pending pods do not start nodes of a static pool. For an unreadable pool this is not known.
    if !own.is_candidate() {
        return Arc::default();
    }
    // The update does not change any field that the scheduler reads.
    if let Some(known) = known.filter(|known| known.pool == own.pool) {
        return placement.first_choice_of(known.object()).into();
    }
    let mut answers: HashMap<Fingerprint, bool> = HashMap::new();
    let mut out = Vec::new();
    for (blocker, feasible) in &placement.blockers {
        let goes = *answers.entry(blocker.shape.fingerprint()).or_insert_with(|| {
            let feasible = feasible.iter().flat_map(|pools| pools.iter());
            let mut others = feasible.filter(|pool| known != Some(*pool));
            let evaluated = FeasibleKey { shape: Arc::clone(&blocker.shape), eks: key.eks };
            Evaluation::new(cluster, &evaluated).decide(&own) == Some(true)
                && others.all(|pool| pool.weight() <= own.weight())
        });
        if goes {
            out.push(Arc::clone(blocker));
        }
    }
    out.into()
}

/// `terminationGracePeriod` in seconds. It is a day on EKS Auto Mode unless it is written.
pub(crate) fn termination_grace_period(pool: &Object) -> Option<i64> {
    let spec = pool.path(&["spec", "template", "spec"]);
    let node = spec.get("terminationGracePeriod");
    let group = spec.path(&["nodeClassRef", "group"]);
    if !node.is_set() && group.text() == Some(Kind::AUTO_MODE_NODE_CLASS.group) {
        return Some(AUTO_MODE_GRACE);
    }
    let span = parse(DurationField::TerminationGracePeriod, node.text()?).ok()?;
    i64::try_from(span.seconds()?).ok()
}

/// The grace period of EKS Auto Mode, in seconds.
pub(crate) const AUTO_MODE_GRACE: i64 = 24 * 3600;
