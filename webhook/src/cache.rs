//! What is known of the cluster: the objects of the kinds that rules read, kept by watches.
//!
//! Requests read a snapshot, an [`Index`] with its views made, which is replaced as a whole. What
//! makes no difference to a rule is dropped before it is kept: managed fields, status, resource
//! versions, and objects that a controller makes from others that are known. So the heartbeats of
//! a busy cluster cost nothing.

mod feed;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gpulint_rules::{Index, Kind, Object};
use serde_json::Value;
use tokio::sync::Notify;

use crate::evaluate::has_checked_controller;
use crate::evaluation_cache::Versioned;
use crate::kinds;
use crate::metrics::Metrics;

pub(crate) use feed::run_watches;

/// Shortest time between two snapshots.
const MIN_SNAPSHOT_INTERVAL: Duration = Duration::from_millis(50);
/// A kind that the API server has refused to list so often is not waited for: its conversion
/// webhook may be broken, or a right missing, and neither must keep us from judging the rest.
const MAX_LIST_FAILURES: u32 = 3;
/// Of the time, one part in so many goes into making snapshots, as long as they are not older than
/// [`LONGEST_PAUSE`] for it.
const SNAPSHOT_DUTY_DIVISOR: u32 = 20;
/// Longest time between two snapshots: judging by what was true long ago denies what is right now.
const MAX_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(2);

type NamespacedName = (String, String);

/// The objects of a kind.
#[derive(Debug, Default)]
struct KindState {
    objects: BTreeMap<NamespacedName, CachedObject>,
    /// What a list that is not finished has brought so far.
    listed: Option<BTreeMap<NamespacedName, CachedObject>>,
    /// The list was finished once, or there is no such kind in the cluster.
    synced: bool,
    /// How often the API server has answered that it will not list them.
    list_failures: u32,
}

#[derive(Clone, Debug)]
struct CachedObject {
    object: Object,
    hash: u64,
}

/// The known objects, and the snapshot that requests read.
pub(crate) struct Cache {
    kinds: Mutex<BTreeMap<Kind, KindState>>,
    index: ArcSwap<Versioned<Index>>,
    changed: Notify,
    metrics: Arc<Metrics>,
    has_cluster: bool,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl Cache {
    /// A cache that watches feed; without a cluster (`fed` is false) it stays empty, and what is
    /// not in it is unknown.
    pub(crate) fn new(has_cluster: bool, metrics: Arc<Metrics>) -> Cache {
        let kinds = if has_cluster { kinds::watched() } else { &[] };
        Cache {
            kinds: Mutex::new(kinds.iter().map(|k| (*k, KindState::default())).collect()),
            index: ArcSwap::from_pointee(Versioned { version: 0, value: Index::new(false) }),
            changed: Notify::new(),
            metrics,
            has_cluster,
        }
    }

    /// Whether there is a cluster behind it.
    pub(crate) fn has_cluster(&self) -> bool {
        self.has_cluster
    }

    /// The snapshot, and which one it is.
    pub(crate) fn index(&self) -> Arc<Versioned<Index>> {
        self.index.load_full()
    }

    /// Kinds whose objects the snapshot does not hold yet: a list that is finished is not enough,
    /// because requests read the snapshot.
    pub(crate) fn unsynced(&self) -> Vec<Kind> {
        let index = self.index.load();
        let kinds = self.lock();
        let waiting = kinds.keys().filter(|kind| !index.value.is_complete_for(**kind));
        waiting.copied().collect()
    }

    /// Of those the ones that are worth waiting for.
    pub(crate) fn required_for_readiness(&self) -> Vec<Kind> {
        let mut kinds = self.unsynced();
        let known = self.lock();
        let refused = |kind: &Kind| known.get(kind).is_some_and(|k| k.list_failures >= MAX_LIST_FAILURES);
        kinds.retain(|kind| !refused(kind));
        kinds
    }

    /// The API server does not list a kind.
    fn list_failed(&self, kind: Kind) {
        let mut kinds = self.lock();
        let Some(known) = kinds.get_mut(&kind) else {
            return;
        };
        known.list_failures = known.list_failures.saturating_add(1);
        let refusals = known.list_failures;
        drop(kinds);
        if refusals == MAX_LIST_FAILURES {
            tracing::error!(%kind, "the API server does not list it; rules that read it are silent");
            // The metrics come with the next snapshot.
            self.changed.notify_one();
        }
    }

    /// A list begins: what it does not bring is gone at its end.
    fn begin_list(&self, kind: Kind) {
        if let Some(known) = self.lock().get_mut(&kind) {
            known.listed = Some(BTreeMap::new());
        }
    }

    /// The list is finished.
    fn finish_list(&self, kind: Kind) {
        if let Some(known) = self.lock().get_mut(&kind) {
            if let Some(listed) = known.listed.take() {
                known.objects = listed;
            }
            known.synced = true;
            known.list_failures = 0;
        }
        self.changed.notify_one();
    }

    /// The cluster has no such kind: none of its objects exists.
    fn mark_absent(&self, kind: Kind) {
        if let Some(known) = self.lock().get_mut(&kind) {
            if known.synced && known.objects.is_empty() {
                return;
            }
            *known = KindState { synced: true, ..KindState::default() };
        }
        self.changed.notify_one();
    }

    /// An object of a list that goes on.
    fn add_listed(&self, kind: Kind, value: &Value) {
        let Some((name, kept)) = cached_object(value) else {
            return;
        };
        if let Some(known) = self.lock().get_mut(&kind) {
            // One that is known already is kept as it is, so that memory is not held twice.
            let kept = match known.objects.get(&name) {
                Some(old) if old.hash == kept.hash => old.clone(),
                _ => kept,
            };
            known.listed.get_or_insert_default().insert(name, kept);
        }
    }

    /// An object was made or changed.
    fn apply(&self, kind: Kind, value: &Value) {
        let Some((name, kept)) = cached_object(value) else {
            return self.delete(kind, value);
        };
        if let Some(known) = self.lock().get_mut(&kind) {
            if known.objects.get(&name).is_some_and(|o| o.hash == kept.hash) {
                return;
            }
            known.objects.insert(name, kept);
        }
        self.changed.notify_one();
    }

    /// An object is gone.
    fn delete(&self, kind: Kind, value: &Value) {
        if let Some(known) = self.lock().get_mut(&kind)
            && known.objects.remove(&namespaced_name(value)).is_none()
        {
            return;
        }
        self.changed.notify_one();
    }

    /// Makes snapshots for as long as it is polled: at once after a change, then not before what
    /// the last one cost has become a small share of the time.
    pub(crate) async fn run_snapshots(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            let cache = Arc::clone(&self);
            let began = Instant::now();
            if tokio::task::spawn_blocking(move || cache.rebuild_snapshot()).await.is_err() {
                tracing::error!("the index could not be made; the old one stays");
            }
            tokio::time::sleep(
                (began.elapsed() * SNAPSHOT_DUTY_DIVISOR).clamp(MIN_SNAPSHOT_INTERVAL, MAX_SNAPSHOT_INTERVAL),
            )
            .await;
        }
    }

    /// Publishes a snapshot of the objects of this moment. Not called concurrently.
    fn rebuild_snapshot(&self) {
        // The lock is held while handles are copied, not while the index is built from them: watches
        // need it for every event.
        let kinds: Vec<(Kind, bool, Vec<Object>)> = {
            let kinds = self.lock();
            let copy = |state: &KindState| state.objects.values().map(|o| o.object.clone()).collect();
            kinds.iter().map(|(kind, state)| (*kind, state.synced, copy(state))).collect()
        };
        let mut index = Index::new(kinds.iter().all(|(_, synced, _)| *synced));
        for (kind, synced, objects) in kinds {
            self.metrics.cached(kind, objects.len(), synced);
            if synced {
                index.mark_complete(kind);
            }
            for object in objects {
                index.apply(object);
            }
        }
        // Built before the snapshot is published, so that no request waits for it.
        index.views().build_all();
        let version = self.index.load().version + 1;
        self.index.store(Arc::new(Versioned { version, value: index }));
        self.metrics.snapshot_built();
    }

    /// A panic elsewhere leaves the map whole: every change is one call.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Kind, KindState>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The object as it is kept; `None` where it is derived from another that rules know.
fn cached_object(value: &Value) -> Option<(NamespacedName, CachedObject)> {
    let object = Object::from_json(value).filter(|object| !has_checked_controller(object))?;
    let name = namespaced_name(value);
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    let hash = hasher.finish();
    Some((name, CachedObject { object, hash }))
}

/// Namespace and name as the API server has them.
fn namespaced_name(value: &Value) -> NamespacedName {
    let metadata = &value["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpulint_rules::Lookup;
    use serde_json::json;

    fn cache() -> Cache {
        Cache::new(true, Arc::new(Metrics::new()))
    }

    fn pool(name: &str) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
               "spec": {"template": {"spec": {}}}})
    }

    fn find(cache: &Cache, name: &str) -> &'static str {
        cache.rebuild_snapshot();
        match cache.index().value.find(Kind::NODE_POOL, "default", name) {
            Lookup::Found(_) => "found",
            Lookup::Missing => "missing",
            Lookup::Unknown => "unknown",
        }
    }

    #[test]
    fn what_is_not_listed_yet_is_unknown_and_then_missing() {
        let cache = cache();
        assert_eq!(find(&cache, "a"), "unknown");
        cache.begin_list(Kind::NODE_POOL);
        cache.add_listed(Kind::NODE_POOL, &pool("a"));
        assert_eq!(find(&cache, "a"), "unknown", "a list that goes on says nothing");
        cache.finish_list(Kind::NODE_POOL);
        assert!(
            cache.unsynced().contains(&Kind::NODE_POOL),
            "requests read a snapshot that does not have it yet"
        );
        assert_eq!(find(&cache, "a"), "found");
        assert_eq!(find(&cache, "b"), "missing");
        assert!(!cache.unsynced().contains(&Kind::NODE_POOL));
        assert!(!cache.index().value.is_complete(), "other kinds are not known");
    }

    #[test]
    fn events_change_the_snapshot_and_a_new_list_replaces_everything() {
        let cache = cache();
        cache.begin_list(Kind::NODE_POOL);
        cache.finish_list(Kind::NODE_POOL);
        cache.apply(Kind::NODE_POOL, &pool("a"));
        assert_eq!(find(&cache, "a"), "found");
        cache.delete(Kind::NODE_POOL, &pool("a"));
        assert_eq!(find(&cache, "a"), "missing");
        cache.apply(Kind::NODE_POOL, &pool("a"));
        cache.begin_list(Kind::NODE_POOL);
        assert_eq!(find(&cache, "a"), "found", "the old list holds until the new one is whole");
        cache.add_listed(Kind::NODE_POOL, &pool("b"));
        cache.finish_list(Kind::NODE_POOL);
        assert_eq!(find(&cache, "a"), "missing");
        assert_eq!(find(&cache, "b"), "found");
    }

    #[test]
    fn a_kind_that_the_cluster_does_not_have_is_known_to_be_empty() {
        let cache = cache();
        for kind in cache.unsynced() {
            cache.mark_absent(kind);
        }
        assert_eq!(find(&cache, "a"), "missing");
        assert!(cache.index().value.is_complete());
    }

    #[test]
    fn pods_of_known_controllers_are_not_kept() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "x",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": true}]},
            "spec": {"containers": []}});
        assert!(cached_object(&pod).is_none());
        pod["metadata"]["ownerReferences"][0]["kind"] = "Widget".into();
        assert!(cached_object(&pod).is_some());
    }
}
