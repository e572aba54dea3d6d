//! The objects of the cluster that rules read, filled by watches.
//!
//! Requests read a snapshot: a [`Cluster`] with its views built, which is replaced as a whole. Fields that no rule
//! reads (managed fields, status, resource versions) are removed before an object is stored. Rules do not see objects whose
//! controller is checked itself; Pods and others of which there are as many are not even stored. An event that does not change the stored
//! part of an object, such as the status update of a node, builds no snapshot.
//!
//! [`Cache::handle`] does what `kube::runtime::reflector::store::Writer` does (buffer the objects of a
//! list, swap them in when it is complete), but the Writer itself does not fit:
//! - it replaces an object by every event, so that changed objects would have to be found by comparing
//!   the store before and after each event, and each list;
//! - a list replaces equal objects by new allocations, which discards what is memoized in them;
//! - its store is a hash map, so that every snapshot would have to sort all objects by name first;
//! - it has no state for kinds that the cluster does not have, or does not let us list. Readiness waits
//!   for neither, so `wait_until_ready` does not help.

mod feed;
mod kept;
mod object;
mod open_api;
mod recent;
mod served;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gpulint_rules::{Cluster, Draft, Kind, Lookup, Object, Platform};
use kube::runtime::watcher::Event;
use tokio::sync::Notify;

use crate::evaluation_cache::Versioned;
use crate::exemption::{DerivedOwners, is_of_owner, may_own};
use crate::logs::RateLimit;
use crate::metrics::Metrics;
use crate::wire::Request;

pub(crate) use feed::run_watches;
pub use kept::kept;
pub(crate) use open_api::OpenApi;
pub(crate) use served::resource;
pub(crate) use watched::{Watched, typed};

use object::{CachedObject, NamespacedName, cached_object, namespaced_name};
use recent::Recent;

/// Minimum time between two snapshots.
const MIN_SNAPSHOT_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of failed lists before readiness no longer waits for a kind: its conversion webhook may be broken or
/// a permission missing, and neither should keep the server from checking other kinds.
const MAX_LIST_FAILURES: u32 = 3;
/// Duty cycle: after a snapshot that took `t`, the next one is built `20 * t` later, at most
/// [`MAX_SNAPSHOT_INTERVAL`], so that snapshots use at most 5 % of one core unless one takes over 100 ms.
const SNAPSHOT_DUTY_DIVISOR: u32 = 20;
/// Maximum time between a change and the snapshot that contains it: a stale snapshot denies objects that refer to new
/// ones.
const MAX_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct KindState {
    objects: BTreeMap<NamespacedName, CachedObject>,
    /// The objects of a list in progress.
    listed: Option<BTreeMap<NamespacedName, CachedObject>>,
    availability: Availability,
    /// Number of failed lists since the last completed one.
    list_failures: u32,
    /// How often an object could not be read since the last list began; one that changes counts again.
    unreadable: usize,
}

/// Whether the objects of a kind are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Availability {
    /// No list was completed yet.
    #[default]
    Waiting,
    /// All of them are known.
    Listed,
    /// The API server serves the kind in no version, so there are none.
    NotServed,
    /// The API server has refused several lists, the last one for this reason. What was known before stays, but there
    /// may be more.
    Refused(String),
}

impl Availability {
    /// Whether no other objects of the kind exist.
    fn is_complete(&self) -> bool {
        matches!(self, Availability::Listed | Availability::NotServed)
    }
}

/// Each method returns whether a snapshot would differ.
impl KindState {
    fn begin_list(&mut self) -> bool {
        self.listed = Some(BTreeMap::new());
        self.unreadable = 0;
        false
    }

    fn add_listed(&mut self, name: NamespacedName, object: Option<CachedObject>) -> bool {
        if let Some(object) = object {
            // An unchanged object keeps its allocation, with what is memoized in it.
            let object = match self.objects.get(&name) {
                Some(old) if old.hash == object.hash => old.clone(),
                _ => object,
            };
            self.listed.get_or_insert_default().insert(name, object);
        }
        false
    }

    fn finish_list(&mut self) -> bool {
        if let Some(listed) = self.listed.take() {
            self.objects = listed;
        }
        self.availability = Availability::Listed;
        self.list_failures = 0;
        true
    }

    /// Adds, replaces or removes an object.
    fn set(&mut self, name: NamespacedName, object: Option<CachedObject>) -> bool {
        let Some(object) = object else {
            return self.objects.remove(&name).is_some();
        };
        if self.objects.get(&name).is_some_and(|old| old.hash == object.hash) {
            return false;
        }
        self.objects.insert(name, object);
        true
    }
}

/// A consistent view of the cluster for requests.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) cluster: Cluster,
    /// Other objects that may own those of requests.
    pub(crate) derived: DerivedOwners,
    /// A version that increases when the set of complete kinds changes.
    pub(crate) complete: u64,
}

/// The objects, and the current snapshot.
pub(crate) struct Cache {
    kinds: Mutex<BTreeMap<Kind, KindState>>,
    snapshot: ArcSwap<Versioned<Snapshot>>,
    changed: Notify,
    recent: Recent,
    metrics: Arc<Metrics>,
    has_cluster: bool,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl Cache {
    /// An empty cache for some kinds. Without a cluster it stays empty, and every kind is unknown.
    pub(crate) fn new(has_cluster: bool, kinds: BTreeSet<Kind>, metrics: Arc<Metrics>) -> Cache {
        let kinds = if has_cluster { kinds } else { BTreeSet::new() };
        Cache {
            kinds: Mutex::new(kinds.into_iter().map(|kind| (kind, KindState::default())).collect()),
            snapshot: ArcSwap::from_pointee(Versioned {
                version: 0,
                value: Snapshot {
                    cluster: Cluster::new(false),
                    derived: DerivedOwners::default(),
                    complete: 0,
                },
            }),
            changed: Notify::new(),
            recent: Recent::default(),
            metrics,
            has_cluster,
        }
    }

    pub(crate) fn has_cluster(&self) -> bool {
        self.has_cluster
    }

    /// The current snapshot with its version.
    pub(crate) fn snapshot(&self) -> Arc<Versioned<Snapshot>> {
        self.snapshot.load_full()
    }

    /// Kinds that are not complete in the snapshot. A completed list is not enough, because requests read the
    /// snapshot.
    pub(crate) fn unsynced(&self) -> Vec<Kind> {
        let snapshot = self.snapshot.load();
        let kinds = self.lock();
        let waiting = kinds.keys().filter(|kind| !snapshot.value.cluster.is_complete_for(**kind));
        waiting.copied().collect()
    }

    /// The [`unsynced`](Self::unsynced) kinds for which readiness waits.
    pub(crate) fn required_for_readiness(&self) -> Vec<Kind> {
        let mut kinds = self.unsynced();
        let known = self.lock();
        let is_refused = |state: &KindState| matches!(state.availability, Availability::Refused(_));
        kinds.retain(|kind| !known.get(kind).is_some_and(is_refused));
        kinds
    }

    /// What is known of each watched kind.
    pub(crate) fn availability(&self) -> Vec<(Kind, Availability)> {
        self.lock().iter().map(|(kind, state)| (*kind, state.availability.clone())).collect()
    }

    /// Changes which kinds are watched: others become unknown.
    fn watch_only(&self, wanted: &BTreeSet<Kind>) {
        let mut kinds = self.lock();
        let gone: Vec<Kind> = kinds.keys().filter(|kind| !wanted.contains(kind)).copied().collect();
        let new: Vec<Kind> = wanted.iter().filter(|kind| !kinds.contains_key(kind)).copied().collect();
        kinds.retain(|kind, _| wanted.contains(kind));
        kinds.extend(new.iter().map(|kind| (*kind, KindState::default())));
        gone.iter().for_each(|kind| self.metrics.not_cached(*kind));
        if !(gone.is_empty() && new.is_empty()) {
            self.changed.notify_one();
        }
    }

    /// Whether readiness waits for a kind.
    pub(crate) fn is_syncing(&self) -> bool {
        self.has_cluster
            && !self.snapshot.load().value.cluster.is_complete()
            && !self.required_for_readiness().is_empty()
    }

    /// The kinds with objects that could not be read, and how many.
    pub(crate) fn unreadable(&self) -> Vec<(Kind, usize)> {
        let kinds = self.lock();
        let counts = kinds.iter().map(|(kind, state)| (*kind, state.unreadable));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Leaves out an object that is no mapping.
    fn leave_out(&self, kind: Kind) {
        static UNREADABLE: RateLimit = RateLimit::new(5, Duration::from_secs(10));
        if let Some(left_out) = UNREADABLE.admit() {
            tracing::warn!(%kind, left_out, "an object cannot be read; rules do not see it");
        }
        self.update(kind, |state| {
            state.unreadable += 1;
            false
        });
    }

    /// Applies an event of a kind's watch.
    fn handle(&self, kind: Kind, event: Event<Draft>) {
        // Objects are created before the lock is taken.
        match event {
            Event::InitApply(draft) | Event::Apply(draft) if !draft.is_mapping(&[]) => self.leave_out(kind),
            Event::Init => self.update(kind, KindState::begin_list),
            Event::InitApply(draft) => {
                let (name, object) = (namespaced_name(&draft), cached_object(draft));
                self.update(kind, |state| state.add_listed(name, object));
            }
            Event::InitDone => self.update(kind, KindState::finish_list),
            Event::Apply(draft) => {
                let (name, object) = (namespaced_name(&draft), cached_object(draft));
                self.update(kind, |state| state.set(name, object));
            }
            Event::Delete(draft) => self.update(kind, |state| state.set(namespaced_name(&draft), None)),
        }
    }

    /// Records that the API server did not list a kind, and why.
    fn list_failed(&self, kind: Kind, cause: &str) {
        self.update(kind, |state| {
            state.list_failures = state.list_failures.saturating_add(1);
            if state.list_failures < MAX_LIST_FAILURES {
                return false;
            }
            let refused = Availability::Refused(cause.to_owned());
            if !matches!(state.availability, Availability::Refused(_)) {
                tracing::error!(%kind, "the API server does not list it; rules that read it are silent");
            }
            // The next snapshot updates the metrics.
            std::mem::replace(&mut state.availability, refused.clone()) != refused
        });
    }

    /// Records that the API server does not serve the kind, so that no objects of it exist.
    fn mark_absent(&self, kind: Kind) {
        self.update(kind, |state| {
            if state.availability == Availability::NotServed {
                return false;
            }
            *state = KindState { availability: Availability::NotServed, ..KindState::default() };
            true
        });
    }

    /// Changes the objects of a kind. `change` returns whether a snapshot would differ.
    fn update(&self, kind: Kind, change: impl FnOnce(&mut KindState) -> bool) {
        if self.lock().get_mut(&kind).is_some_and(change) {
            self.changed.notify_one();
        }
    }

    /// Publishes snapshots as long as the future is polled: immediately after a change, but no more often than
    /// [`SNAPSHOT_DUTY_DIVISOR`] allows. The views that reviews read are built for the configured `platform`.
    pub(crate) async fn run_snapshots(self: Arc<Self>, platform: impl Fn() -> Platform) {
        loop {
            self.changed.notified().await;
            let (cache, platform) = (Arc::clone(&self), platform());
            let began = Instant::now();
            if tokio::task::spawn_blocking(move || cache.rebuild_snapshot(&platform)).await.is_err() {
                tracing::error!("the cluster could not be made; the old one stays");
            }
            tokio::time::sleep(
                (began.elapsed() * SNAPSHOT_DUTY_DIVISOR).clamp(MIN_SNAPSHOT_INTERVAL, MAX_SNAPSHOT_INTERVAL),
            )
            .await;
        }
    }

    /// Publishes a snapshot of the current objects. Not called concurrently.
    fn rebuild_snapshot(&self, platform: &Platform) {
        let mut derived = DerivedOwners::default();
        // The lock is held while handles are copied, not while the snapshot is built from them: watches need it for
        // every event.
        let kinds: Vec<(Kind, Availability, Vec<Object>)> = {
            let kinds = self.lock();
            let find = |kind: Kind, namespace: &str, name: &str| find(&kinds, kind, namespace, name);
            let mut copy = |kind: Kind, state: &KindState| {
                let mut objects = Vec::with_capacity(state.objects.len());
                for ((namespace, name), CachedObject { object, claims, .. }) in &state.objects {
                    if claims.is_empty() || !is_of_owner(object, claims, find) {
                        objects.push(object.clone());
                    } else if may_own(object) {
                        derived.insert(kind, namespace.clone(), name.clone(), object.clone());
                    }
                }
                objects
            };
            let copies =
                kinds.iter().map(|(kind, state)| (*kind, state.availability.clone(), copy(*kind, state)));
            copies.collect()
        };
        // The cached admissions of pods by pools are passed on, so that the scheduler runs only for changed pools.
        let previous = self.snapshot.load();
        let before = &previous.value;
        let mut cluster = before.cluster.successor(kinds.iter().all(|(_, found, _)| found.is_complete()));
        let is_other =
            |kind: Kind, found: &Availability| found.is_complete() != before.cluster.is_complete_for(kind);
        let others = kinds.iter().any(|(kind, found, _)| is_other(*kind, found))
            || cluster.is_complete() != before.cluster.is_complete();
        let complete = before.complete + u64::from(others);
        let counts: Vec<(Kind, usize, Availability)> =
            kinds.iter().map(|(kind, found, objects)| (*kind, objects.len(), found.clone())).collect();
        for (kind, found, objects) in kinds {
            if found.is_complete() {
                cluster.mark_complete(kind);
            }
            for object in objects {
                cluster.apply(object);
            }
        }
        // Built before the snapshot is published, so that no request waits for it.
        cluster.build_views(platform);
        let version = previous.version + 1;
        self.snapshot.store(Arc::new(Versioned { version, value: Snapshot { cluster, derived, complete } }));
        // The metrics count the objects that reviews see, so they follow the snapshot.
        for (kind, objects, found) in counts {
            self.metrics.cached(
                kind,
                objects,
                found == Availability::Listed,
                found != Availability::NotServed,
            );
        }
        self.metrics.snapshot_built();
    }

    /// Keeps an object that a request writes, after its review has allowed it.
    pub(crate) fn admitted(&self, kind: Kind, request: &Request<'_>) {
        if self.keeps_admitted(kind) {
            self.recent.admit(kind, request);
        }
    }

    /// Whether objects of a kind are kept after they were admitted.
    pub(crate) fn keeps_admitted(&self, kind: Kind) -> bool {
        self.has_cluster && Recent::keeps(kind)
    }

    pub(crate) fn has_recent(&self) -> bool {
        !self.recent.is_empty()
    }

    /// The current states of the objects that were admitted a moment ago and that a finding on an object of this kind may depend
    /// on.
    pub(crate) fn recent_beside(&self, request: &Request<'_>) -> Vec<Object> {
        let kinds = self.lock();
        self.recent.beside(request, |kind, name| kinds.get(&kind).and_then(|state| state.objects.get(name)))
    }

    /// A poisoned lock is usable: every change is a single call on the map, so a panic leaves it consistent.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Kind, KindState>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object of the cache, also if rules do not see it.
fn find<'k>(kinds: &'k BTreeMap<Kind, KindState>, kind: Kind, namespace: &str, name: &str) -> Lookup<'k> {
    let Some(state) = kinds.get(&kind) else { return Lookup::Unknown };
    match state.objects.get(&(namespace.to_owned(), name.to_owned())) {
        Some(cached) => Lookup::Found(&cached.object),
        None if state.availability.is_complete() => Lookup::Missing,
        None => Lookup::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cache() -> Cache {
        Cache::new(true, crate::kinds::watched().iter().copied().collect(), Arc::new(Metrics::new()))
    }

    fn pool_value(name: &str) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
               "spec": {"template": {"spec": {}}}})
    }

    fn pool(name: &str) -> Draft {
        Draft::of(&pool_value(name))
    }

    fn find(cache: &Cache, name: &str) -> &'static str {
        cache.rebuild_snapshot(&Platform::default());
        match cache.snapshot().value.cluster.find(Kind::NODE_POOL, "default", name) {
            Lookup::Found(_) => "found",
            Lookup::Missing => "missing",
            Lookup::Unknown => "unknown",
        }
    }

    #[test]
    fn a_kind_is_unknown_until_its_list_is_in_the_snapshot() {
        let cache = cache();
        assert_eq!(find(&cache, "a"), "unknown");
        cache.handle(Kind::NODE_POOL, Event::Init);
        cache.handle(Kind::NODE_POOL, Event::InitApply(pool("a")));
        assert_eq!(find(&cache, "a"), "unknown", "the list is not complete");
        cache.handle(Kind::NODE_POOL, Event::InitDone);
        assert!(cache.unsynced().contains(&Kind::NODE_POOL), "the snapshot does not contain the list yet");
        assert_eq!(find(&cache, "a"), "found");
        assert_eq!(find(&cache, "b"), "missing");
        assert!(!cache.unsynced().contains(&Kind::NODE_POOL));
        assert!(!cache.snapshot().value.cluster.is_complete(), "other kinds are not listed");
    }

    #[test]
    fn events_change_the_snapshot_and_a_new_list_replaces_everything() {
        let cache = cache();
        cache.handle(Kind::NODE_POOL, Event::Init);
        cache.handle(Kind::NODE_POOL, Event::InitDone);
        cache.handle(Kind::NODE_POOL, Event::Apply(pool("a")));
        assert_eq!(find(&cache, "a"), "found");
        cache.handle(Kind::NODE_POOL, Event::Delete(pool("a")));
        assert_eq!(find(&cache, "a"), "missing");
        cache.handle(Kind::NODE_POOL, Event::Apply(pool("a")));
        cache.handle(Kind::NODE_POOL, Event::Init);
        assert_eq!(find(&cache, "a"), "found", "the old list is replaced when the new one is complete");
        cache.handle(Kind::NODE_POOL, Event::InitApply(pool("b")));
        cache.handle(Kind::NODE_POOL, Event::InitDone);
        assert_eq!(find(&cache, "a"), "missing");
        assert_eq!(find(&cache, "b"), "found");
    }

    #[test]
    fn a_kind_that_the_cluster_does_not_have_is_complete_and_empty() {
        let cache = cache();
        for kind in cache.unsynced() {
            cache.mark_absent(kind);
        }
        assert_eq!(find(&cache, "a"), "missing");
        assert!(cache.snapshot().value.cluster.is_complete());
    }

    #[test]
    fn pods_of_checked_controllers_are_not_stored() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "x",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": true}]},
            "spec": {"containers": []}});
        assert!(cached_object(Draft::of(&pod)).is_none());
        pod["metadata"]["ownerReferences"][0]["kind"] = "Widget".into();
        assert!(cached_object(Draft::of(&pod)).is_some());
        // Controllers do not create NodePools.
        let mut pool = pool_value("a");
        pool["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d",
            "controller": true}]);
        assert!(cached_object(Draft::of(&pool)).is_some());
    }

    #[test]
    fn what_operators_make_is_hidden_and_may_own_others() {
        let cache = cache();
        let owned_by = |kind: &str, version: &str, name: &str, uid: &str| json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
        let job_set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "llm", "namespace": "x", "uid": "7e1a",
                "ownerReferences": owned_by("TrainJob", "trainer.kubeflow.org/v1alpha1", "llm", "90ab")},
            "spec": {}});
        let train_job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "llm", "namespace": "x", "uid": "90ab"}, "spec": {}});
        cache.handle(Kind::TRAIN_JOB, Event::Init);
        cache.handle(Kind::TRAIN_JOB, Event::InitApply(Draft::of(&train_job)));
        cache.handle(Kind::TRAIN_JOB, Event::InitDone);
        let kind = Kind::JOB_SET;
        cache.handle(kind, Event::Init);
        cache.handle(kind, Event::InitApply(Draft::of(&job_set)));
        cache.handle(kind, Event::InitDone);
        cache.rebuild_snapshot(&Platform::default());
        let snapshot = cache.snapshot();
        assert!(matches!(snapshot.value.cluster.find(kind, "x", "llm"), Lookup::Missing));
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llm-0", "namespace": "x",
            "ownerReferences": owned_by("JobSet", "jobset.x-k8s.io/v1alpha2", "llm", "7e1a")}});
        let body = json!({"uid": "u", "operation": "CREATE", "namespace": "x", "object": job,
            "userInfo": {"username": "system:serviceaccount:jobset-system:jobset-controller-manager"}});
        let body = body.to_string();
        let request: crate::wire::Request<'_> = serde_json::from_str(&body).unwrap();
        let engine = gpulint_rules::Engine::new(gpulint_rules::Settings::default());
        let derived = Some(&snapshot.value.derived);
        assert!(crate::exemption::is_derived(&engine, &snapshot.value.cluster, derived, &request));
    }

    #[test]
    fn an_invented_owner_hides_nothing() {
        let cache = cache();
        let scaled = |name: &str, uid: &str| {
            json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
                "metadata": {"name": name, "namespace": "ml", "uid": uid},
                "spec": {"scaleTargetRef": {"name": "chat"}, "maxReplicaCount": 4}})
        };
        let hpa = |name: &str, owner: &str, uid: &str| {
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": name, "namespace": "ml", "ownerReferences": [{"apiVersion": "keda.sh/v1alpha1",
                    "kind": "ScaledObject", "name": owner, "uid": uid, "controller": true}]},
                "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
                    "minReplicas": 1, "maxReplicas": 4}})
        };
        let mut ghost = hpa("keda-hpa-ghost", "ghost", "7e1a");
        ghost["spec"]["scaleTargetRef"]["name"] = "other".into();
        let lists = [
            (
                Kind::HPA,
                vec![
                    hpa("keda-hpa-chat", "chat", "90ab"),
                    hpa("second", "chat", "90ab"),
                    hpa("keda-hpa-gone", "gone", "90ab"),
                    hpa("made-up", "chat", "7e1a"),
                    ghost,
                ],
            ),
            (Kind::SCALED_OBJECT, vec![scaled("chat", "90ab"), scaled("ghost", "7e1a")]),
        ];
        let seen = || {
            cache.rebuild_snapshot(&Platform::default());
            let snapshot = cache.snapshot();
            let hpas = snapshot.value.cluster.objects().iter().filter(|object| object.is(Kind::HPA));
            hpas.map(|hpa| hpa.name().to_owned()).collect::<Vec<_>>()
        };
        for (kind, objects) in lists {
            assert_eq!(seen(), Vec::<String>::new(), "the owners are not known yet");
            cache.handle(kind, Event::Init);
            objects.iter().for_each(|object| cache.handle(kind, Event::InitApply(Draft::of(object))));
            cache.handle(kind, Event::InitDone);
        }
        assert_eq!(seen(), ["keda-hpa-ghost", "keda-hpa-gone", "made-up", "second"]);
    }

    #[tokio::test]
    async fn only_a_change_that_rules_can_see_builds_a_snapshot() {
        let cache = cache();
        let is_notified = async || {
            let notified = tokio::time::timeout(Duration::ZERO, cache.changed.notified());
            notified.await.is_ok()
        };
        cache.handle(Kind::NODE_POOL, Event::Init);
        cache.handle(Kind::NODE_POOL, Event::InitApply(pool("a")));
        assert!(!is_notified().await);
        cache.handle(Kind::NODE_POOL, Event::InitDone);
        assert!(is_notified().await);
        cache.handle(Kind::NODE_POOL, Event::Apply(pool("a")));
        cache.handle(Kind::NODE_POOL, Event::Delete(pool("b")));
        assert!(!is_notified().await, "neither is a change");
        let mut changed = pool_value("a");
        changed["spec"]["weight"] = 1.into();
        cache.handle(Kind::NODE_POOL, Event::Apply(Draft::of(&changed)));
        assert!(is_notified().await);
        cache.handle(Kind::NODE_POOL, Event::Delete(pool("a")));
        assert!(is_notified().await);
    }
}
