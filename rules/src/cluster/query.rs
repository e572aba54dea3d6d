//! Memoised pure functions of the cluster, with their reads and early cut-off.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cluster::Cluster;
use crate::cluster::dependencies::{
    Dependents, Digest, Read, ReadId, by_slot, compact, digest, record_read, track, untracked,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;
use crate::steps::isolate;

/// Maximum number of results that are kept for a query, or the number of objects of the cluster if that is larger; a
/// server evaluates an unlimited number of pods.
const MAX_RESULTS: usize = 4_096;
/// [`MAX_RESULTS`] for clusters whose objects are replaced, where dependents are notified of dropped results.
const MAX_INCREMENTAL_RESULTS: usize = 65_536;

/// A pure function of the cluster and a key, whose results are cached. When a read of a result changes, the result is
/// computed again; its dependents are computed again only if it differs from the old one.
pub(crate) trait Query: Sized + 'static {
    const SLOT: QuerySlot;
    /// The kinds that it reads, directly and through other queries.
    const KINDS: &'static [Kind];
    /// The identity with which reads of its results are recorded.
    const ID: QueryId = QueryId(&QueryInfo { slot: Self::SLOT, kinds: Self::KINDS });
    type Key: Clone + Ord + Hash + Send + Sync;
    /// The result. Equal values must be interchangeable: object handles in them are compared by identity.
    type Value: Clone + PartialEq + Send + Sync;

    /// The function. It reads only the cluster and the key.
    fn compute(cluster: &Cluster, key: &Self::Key) -> Self::Value;

    /// Whether a result may depend on an object.
    fn may_read(object: &Object) -> bool {
        Self::KINDS.iter().any(|kind| object.is(*kind))
    }

    /// The parts in which two results differ. A computation that reads a result with [`Cluster::query_part`] is
    /// computed again only if its part is among them.
    fn changed_parts(_old: &Self::Value, _new: &Self::Value) -> Vec<Digest> {
        Vec::new()
    }

    /// The keys that contain an object: their results are removed with it.
    fn keys_of(_object: &Object) -> Vec<Self::Key> {
        Vec::new()
    }
}

/// An object as a key, compared by identity of the handle and not of the resource.
#[derive(Clone, Debug)]
pub(crate) struct ObjectKey(pub(crate) Object);

impl PartialEq for ObjectKey {
    fn eq(&self, other: &ObjectKey) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &ObjectKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &ObjectKey) -> Ordering {
        self.0.ptr_id().cmp(&other.0.ptr_id())
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.ptr_id().hash(state);
    }
}

/// A result with its reads. Threads that need the same result wait for the first of them.
type ResultCell<V> = Arc<OnceLock<(V, Box<[ReadId]>)>>;

struct State<Q: Query> {
    results: HashMap<Q::Key, ResultCell<Q::Value>>,
    /// Only used in clusters whose objects are replaced.
    dependents: Dependents<Q::Key>,
}

struct Results<Q: Query>(Mutex<State<Q>>);

impl<Q: Query> Default for Results<Q> {
    fn default() -> Self {
        Results(Mutex::new(State { results: HashMap::default(), dependents: Dependents::default() }))
    }
}

/// Runs a query. Records its reads in clusters whose objects are replaced.
fn run<Q: Query>(cluster: &Cluster, key: &Q::Key) -> (Q::Value, Box<[ReadId]>) {
    // The steps of a shared result are not counted for the computation that needs it first.
    let compute = || steps::unlimited(|| Q::compute(cluster, key));
    if !cluster.is_incremental() {
        return (untracked(compute), Box::default());
    }
    let (value, reads) = track(compute);
    #[cfg(test)]
    undeclared::note::<Q>(&reads);
    (value, compact(&reads))
}

impl<Q: Query> Results<Q> {
    /// A poisoned lock is safe to use: every change is a single call.
    fn state(&self) -> MutexGuard<'_, State<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, cluster: &Cluster, key: &Q::Key) -> Q::Value {
        let cell = {
            let mut state = self.state();
            match state.results.get(key) {
                Some(cell) => Arc::clone(cell),
                None => {
                    let most = MAX_RESULTS.max(cluster.number_of_objects());
                    if !cluster.is_incremental() && state.results.len() >= most {
                        state.results.clear();
                    }
                    Arc::clone(state.results.entry(key.clone()).or_default())
                }
            }
        };
        let compute = || {
            let (value, reads) = run::<Q>(cluster, key);
            if cluster.is_incremental() {
                self.state().dependents.insert(reads.iter(), key);
            }
            (value, reads)
        };
        cell.get_or_init(compute).0.clone()
    }
}

trait AnyResults: Send + Sync {
    fn update(&self, cluster: &Cluster, removed: &[Object], invalid: &mut Vec<Read>);
    fn may_read(&self, object: &Object) -> bool;
    fn as_any(&self) -> &dyn Any;
}

impl<Q: Query> AnyResults for Results<Q> {
    fn update(&self, cluster: &Cluster, removed: &[Object], invalid: &mut Vec<Read>) {
        let mut changed = false;
        let mut state = self.state();
        for key in removed.iter().flat_map(Q::keys_of) {
            if let Some(cell) = state.results.remove(&key)
                && let Some((_, reads)) = cell.get()
            {
                state.dependents.remove(reads.iter(), &key);
                changed = true;
            }
        }
        let stale = state.dependents.dependents_of(invalid);
        drop(state);
        for key in stale {
            let Some(cell) = self.state().results.get(&key).cloned() else { continue };
            let Some((old, old_reads)) = cell.get() else { continue };
            let Ok((new, reads)) = isolate(|| run::<Q>(cluster, &key)) else {
                // A panic occurs again in each reader of the result, where it is isolated.
                let mut state = self.state();
                state.dependents.remove(old_reads.iter(), &key);
                state.results.remove(&key);
                invalid.extend([Read::Result(Q::ID, digest(&key)), Read::Dropped(Q::ID)]);
                changed = true;
                continue;
            };
            let equal = *old == new;
            let mut state = self.state();
            state.dependents.update(old_reads, &reads, &key);
            if !equal {
                invalid.push(Read::Result(Q::ID, digest(&key)));
                let parts = Q::changed_parts(old, &new).into_iter();
                invalid.extend(parts.map(|part| Read::ResultPart(Q::ID, digest((&key, part)))));
                changed = true;
            }
            // Equal values are interchangeable, and the old value may be shared.
            let value = if equal { old.clone() } else { new };
            state.results.insert(key, Arc::new(OnceLock::from((value, reads))));
        }
        let mut state = self.state();
        if state.results.len() > MAX_INCREMENTAL_RESULTS {
            let mut dropped: Vec<Read> =
                state.results.keys().map(|key| Read::Result(Q::ID, digest(key))).collect();
            dropped.sort_unstable();
            invalid.append(&mut dropped);
            invalid.push(Read::Dropped(Q::ID));
            *state = State { results: HashMap::default(), dependents: Dependents::default() };
            changed = true;
        }
        if changed {
            invalid.push(Read::Results(Q::ID));
        }
    }

    fn may_read(&self, object: &Object) -> bool {
        Q::may_read(object)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(crate) struct Queries([OnceLock<Arc<dyn AnyResults>>; QuerySlot::COUNT]);

impl Default for Queries {
    fn default() -> Queries {
        Queries([const { OnceLock::new() }; QuerySlot::COUNT])
    }
}

impl Queries {
    /// The results that depend on none of these objects. They are shared: a cluster that differs in the objects alone adds to them.
    pub(crate) fn without(&self, objects: &[&Object]) -> Queries {
        let stays = |results: &&Arc<dyn AnyResults>| !objects.iter().any(|object| results.may_read(object));
        let copy =
            |slot: &OnceLock<Arc<dyn AnyResults>>| slot.get().filter(stays).cloned().map(OnceLock::from);
        Queries(self.0.each_ref().map(|slot| copy(slot).unwrap_or_default()))
    }

    pub(crate) fn get<Q: Query>(&self, cluster: &Cluster, key: &Q::Key) -> Q::Value {
        record_read(|| Read::Result(Q::ID, digest(key)));
        self.result::<Q>(cluster, key)
    }

    /// A result of which only one part is read.
    pub(crate) fn get_part<Q: Query>(&self, cluster: &Cluster, key: &Q::Key, part: Digest) -> Q::Value {
        record_read(|| Read::ResultPart(Q::ID, digest((key, part))));
        record_read(|| Read::Dropped(Q::ID));
        self.result::<Q>(cluster, key)
    }

    fn result<Q: Query>(&self, cluster: &Cluster, key: &Q::Key) -> Q::Value {
        let results = self.0[Q::SLOT as usize].get_or_init(|| Arc::new(Results::<Q>::default()));
        let results: &Results<Q> =
            results.as_any().downcast_ref().expect("each query has a place of its own");
        results.get(cluster, key)
    }

    /// Updates the results after objects were replaced: `invalid` contains the reads that changed, to which
    /// changed results are added. A query comes after those that it reads, so that one pass is enough.
    pub(crate) fn update(&self, cluster: &Cluster, removed: &[Object], invalid: &mut Vec<Read>) {
        for results in self.0.iter().filter_map(OnceLock::get) {
            results.update(cluster, removed, invalid);
        }
    }
}

/// Records the reads that queries do not declare, for a test.
#[cfg(test)]
pub(crate) mod undeclared {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    use super::{Query, QuerySlot};
    use crate::cluster::dependencies::Read;

    /// The queries that ran, each with a read that it does not declare.
    pub(crate) type QueriesRun = BTreeMap<QuerySlot, Option<Read>>;

    static RUN: Mutex<QueriesRun> = Mutex::new(BTreeMap::new());

    pub(super) fn note<Q: Query>(reads: &[Read]) {
        let mut run = RUN.lock().unwrap_or_else(PoisonError::into_inner);
        let undeclared = run.entry(Q::SLOT).or_default();
        *undeclared = undeclared.or(Read::first_outside(reads, Q::KINDS));
    }

    /// The queries of clusters whose objects are replaced that ran so far.
    pub(crate) fn queries_run() -> QueriesRun {
        RUN.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The slot of a query among the queries of a cluster, each after those that it reads; each belongs to one
/// [`Query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum QuerySlot {
    NearestClasses,
    Fallbacks,
    KarpenterObject,
    Kubelets,
    PdbAllowsNone,
    PodMakers,
    ShortestGrace,
    UndercutsDefaultGrace,
    Blockers,
    Feasible,
    Placements,
    AcceleratorPlacements,
    BlockersOn,
    BuiltInPools,
    BusyGpuAlerts,
    Charts,
    ClusterAutoscalers,
    DcgmMonitors,
    DcgmExporters,
    PrometheusStack,
    DevicePluginConfigs,
    DevicePlugins,
    OneArchitecture,
    HidesAuthentication,
    HonorLabels,
    IdleGpuAlerts,
    KarpenterDeployments,
    KubeStateMetrics,
    MadeObjects,
    MayChangePods,
    MemoryShares,
    MetricsAdapters,
    ModelServers,
    NamedClaimTemplates,
    OpenTargets,
    OtherScalers,
    PrometheusStacks,
    SharingConfigs,
    MetricServers,
}

impl QuerySlot {
    const COUNT: usize = QuerySlot::MetricServers as usize + 1;
}

/// The identity of a query, with the kinds that it reads.
#[derive(Clone, Copy)]
pub(crate) struct QueryId(&'static QueryInfo);

struct QueryInfo {
    slot: QuerySlot,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares them with those that rules declare"))]
    kinds: &'static [Kind],
}

impl QueryId {
    #[cfg(test)]
    pub(crate) fn kinds(self) -> &'static [Kind] {
        self.0.kinds
    }

    /// A number that is unique among queries.
    pub(crate) fn number(self) -> u64 {
        self.0.slot as u64
    }
}

by_slot!(QueryId);
