//! The pods that keep a node for a long time, or need a long time to terminate.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::placement::feasibility::{PodShape, shape_of};
use crate::cluster::placement::termination_grace_period;
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::cluster::table::{View, ViewSlot};
use crate::cluster::views::disruptions::never_allows_eviction;
use crate::facts::duration::GoDuration;
use crate::karpenter::do_not_disrupt::{DO_NOT_DISRUPT, is_active_value};
use crate::kind::{Kind, kinds};
use crate::object::Object;
use crate::steps;
use crate::workload::template::{DEFAULT_GRACE, Template, WORKLOAD_KINDS, templates};

/// Protection that ends within a day is not considered long.
const DAY: i64 = 24 * 3600;

/// The kinds that decide whether a PDB allows an eviction.
const PDB_KINDS: &[Kind] = kinds![[Kind::PDB, Kind::HPA, Kind::SCALED_OBJECT], WORKLOAD_KINDS];

/// All kinds that are read to determine where pods are placed and what blocks their eviction.
pub(crate) const READS: &[Kind] = kinds![[Kind::NODE_POOL], PDB_KINDS];

/// A template whose pods keep a node for a long time, or need a long time to terminate.
pub(crate) struct EvictionBlocker {
    pub workload: Object,
    /// Whether its annotation prevents Karpenter from evicting it for more than a day.
    pub protected: bool,
    /// `terminationGracePeriodSeconds` or its default.
    pub grace: i64,
    /// The PDBs that prevent all evictions of its pods.
    pub pdb_block: Option<PdbBlock>,
    /// Whether its annotation prevents Karpenter from evicting it, even if only for a short time.
    pub(super) has_do_not_disrupt: bool,
    pub(super) shape: Arc<PodShape>,
}

/// Why the eviction API never evicts a pod.
pub(crate) enum PdbBlock {
    NoDisruptions(Object),
    /// Two PDBs, which the eviction API does not support for one pod.
    Overlapping(Object, Object),
}

/// Compares objects by identity of their handles.
impl PartialEq for PdbBlock {
    fn eq(&self, other: &PdbBlock) -> bool {
        match (self, other) {
            (PdbBlock::NoDisruptions(a), PdbBlock::NoDisruptions(b)) => a.ptr_eq(b),
            (PdbBlock::Overlapping(a, b), PdbBlock::Overlapping(c, d)) => a.ptr_eq(c) && b.ptr_eq(d),
            _ => false,
        }
    }
}

/// Compares objects by identity of their handles.
impl PartialEq for EvictionBlocker {
    fn eq(&self, other: &EvictionBlocker) -> bool {
        self.workload.ptr_eq(&other.workload)
            && self.pdb_block == other.pdb_block
            && (self.protected, self.has_do_not_disrupt) == (other.protected, other.has_do_not_disrupt)
            && self.grace == other.grace
            && self.shape.fingerprint() == other.shape.fingerprint()
    }
}

/// Whether a PDB certainly never allows an eviction.
pub(crate) struct PdbAllowsNone;

impl Query for PdbAllowsNone {
    const SLOT: QuerySlot = QuerySlot::PdbAllowsNone;
    const KINDS: &'static [Kind] = PDB_KINDS;
    type Key = ObjectKey;
    type Value = bool;

    fn compute(cluster: &Cluster, ObjectKey(pdb): &ObjectKey) -> bool {
        steps::limited(steps::SHARED, || never_allows_eviction(pdb, cluster)).0.unwrap_or_default()
    }

    fn keys_of(object: &Object) -> Vec<ObjectKey> {
        if object.is(Kind::PDB) { vec![ObjectKey(object.clone())] } else { Vec::new() }
    }
}

/// NodePools by the seconds that they allow for a drain.
pub(crate) struct PoolsByDrainTime;

impl View for PoolsByDrainTime {
    const SLOT: ViewSlot = ViewSlot::PoolsByDrainTime;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = i64;

    fn keys(object: &Object) -> Vec<i64> {
        termination_grace_period(object).into_iter().collect()
    }
}

/// The shortest time, in seconds, that a pool allows for a drain.
pub(crate) struct ShortestGrace;

impl Query for ShortestGrace {
    const SLOT: QuerySlot = QuerySlot::ShortestGrace;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Key = ();
    type Value = Option<i64>;

    fn compute(cluster: &Cluster, (): &()) -> Option<i64> {
        cluster.table::<PoolsByDrainTime>().keys().first().map(|seconds| **seconds)
    }
}

/// Whether some pool allows less time for a drain than the default grace period of pods, so that pods without
/// an explicit grace period are affected as well.
pub(crate) struct UndercutsDefaultGrace;

impl Query for UndercutsDefaultGrace {
    const SLOT: QuerySlot = QuerySlot::UndercutsDefaultGrace;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Key = ();
    type Value = bool;

    fn compute(cluster: &Cluster, (): &()) -> bool {
        cluster.query::<ShortestGrace>(&()).is_some_and(|shortest| shortest < DEFAULT_GRACE)
    }
}

/// The templates of a workload whose pods keep a node for a long time, or need a long time to terminate.
pub(crate) struct Blockers;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockersKey {
    pub(super) workload: ObjectKey,
    /// Whether Karpenter accepts durations on pods.
    pub(super) durations: bool,
}

impl Query for Blockers {
    const SLOT: QuerySlot = QuerySlot::Blockers;
    const KINDS: &'static [Kind] = READS;
    type Key = BlockersKey;
    type Value = Arc<[Arc<EvictionBlocker>]>;

    fn compute(cluster: &Cluster, key: &BlockersKey) -> Arc<[Arc<EvictionBlocker>]> {
        let everyone = cluster.query::<UndercutsDefaultGrace>(&());
        let object = &key.workload.0;
        let of = |template: &Template<'_>| blocker(template, object, cluster, key.durations, everyone);
        let blockers = || templates(object).iter().filter_map(of).map(Arc::new).collect();
        // A workload whose evaluation exceeds the step limit is ignored.
        steps::limited(steps::SHARED, blockers).0.unwrap_or_default()
    }

    fn keys_of(object: &Object) -> Vec<BlockersKey> {
        let key = |durations| BlockersKey { workload: ObjectKey(object.clone()), durations };
        if starts_nodes(object) { [false, true].map(key).into() } else { Vec::new() }
    }
}

/// The workloads for whose pods nodes are started, by kind.
pub(crate) struct NodeStarters;

impl View for NodeStarters {
    const SLOT: ViewSlot = ViewSlot::NodeStarters;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    type Row = Object;
    type Key = Kind;

    fn keys(object: &Object) -> Vec<Kind> {
        let kind = WORKLOAD_KINDS.iter().find(|kind| object.is(**kind)).filter(|_| starts_nodes(object));
        kind.copied().into_iter().collect()
    }
}

/// Whether nodes are started for the pods of a workload: not for a DaemonSet, and not for pods with a
/// controller, which are evaluated in its template.
pub(crate) fn starts_nodes(object: &Object) -> bool {
    object.workload().is_some()
        && !object.is_partial()
        && !object.is(Kind::DAEMON_SET)
        && object.controller().is_none()
}

fn blocker(
    template: &Template<'_>,
    object: &Object,
    cluster: &Cluster,
    durations: bool,
    everyone: bool,
) -> Option<EvictionBlocker> {
    let annotation = template.annotation(DO_NOT_DISRUPT).text();
    let active = annotation.is_some_and(|text| is_active_value(text, durations));
    let grace = template.grace_seconds()?;
    let pdb_block = pdb_block(template, object, cluster);
    let slow = everyone || grace > DEFAULT_GRACE;
    if !active && !slow && pdb_block.is_none() {
        return None;
    }
    Some(EvictionBlocker {
        shape: shape_of(template)?,
        workload: object.clone(),
        protected: active && annotation.is_some_and(is_lasting),
        grace,
        pdb_block,
        has_do_not_disrupt: active,
    })
}

/// The PDBs that prevent all evictions of the pods of a template.
fn pdb_block(template: &Template<'_>, object: &Object, cluster: &Cluster) -> Option<PdbBlock> {
    let (mut pdbs, _) = cluster.views().pdbs_of(object.namespace_or_default(), template);
    pdbs.retain(|pdb| cluster.pairs(object, pdb));
    let allows_none = |pdb: &&&Object| cluster.query::<PdbAllowsNone>(&ObjectKey((**pdb).clone()));
    if let Some(pdb) = pdbs.iter().find(allows_none) {
        return Some(PdbBlock::NoDisruptions((*pdb).clone()));
    }
    let (first, more) = pdbs.split_first()?;
    let second = more.iter().find(|pdb| pdb.id() != first.id())?;
    Some(PdbBlock::Overlapping((*first).clone(), (*second).clone()))
}

/// Whether an annotation's value protects a pod for more than a day.
fn is_lasting(value: &str) -> bool {
    value == "true" || GoDuration::parse(value).is_ok_and(|length| length.seconds() > DAY)
}
