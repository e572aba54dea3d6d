//! The watches that fill the cache, one per kind.
//!
//! kube's `default_backoff` is reset by every event, and its watcher emits one (`Init`) before each list: a rejected
//! list would be repeated every second forever. Here only a completed list resets the backoff.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use gpulint_rules::{Draft, Kind};
use kube::api::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::Cache;
use super::kept::{UNREAD_ANNOTATIONS, reduce};
use super::served::discover;
use crate::cause::Cause;
use crate::supervise::catch_panic;

/// Maximum number of kinds that are listed at a time: pages of all kinds at once would take more memory than the cache.
const LISTS: usize = 4;
/// Interval of discovery for a kind that the API server does not serve.
const REDISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time until it is logged that kinds are not served.
const TELLING_INTERVAL: Duration = Duration::from_secs(5);
/// Pauses after errors: the first and the longest one. Each is twice as long as the previous one, with a jitter of a
/// quarter so that watches do not retry at the same time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Number of objects in a page of a list. ConfigMaps are as large as the API server accepts, and anybody may create them.
const PAGE_SIZE: u32 = 200;
const CONFIG_MAPS_PAGE_SIZE: u32 = 20;
/// Selects Pods that have not ended: those that have hold no nodes, volumes or traffic.
const RUNNING: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// Maximum size of the values of a ConfigMap that are kept. Rules read the configurations of operators, which are shorter.
const MAX_CONFIG_MAP_BYTES: usize = 64 * 1024;
/// The end of a value that was cut: a placeholder, so that it is unknown to rules.
const LEFT_OUT: &str = "\n${LEFT_OUT}";

/// Watches the kinds of the cache, as long as the future is polled. `wanted` says which kinds these are, which changes
/// with the configuration.
pub(crate) async fn run_watches(
    cache: Arc<Cache>,
    client: Client,
    wanted: impl Fn() -> BTreeSet<Kind>,
    every: Duration,
) {
    let (log, lists) = (WatchLog::default(), Semaphore::new(LISTS));
    let shared = Arc::new(Watches { cache, client, log, lists });
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<Kind, AbortHandle> = BTreeMap::new();
    loop {
        let wanted = wanted();
        shared.cache.watch_only(&wanted);
        running.retain(|kind, watch| {
            let stays = wanted.contains(kind);
            if !stays {
                watch.abort();
            }
            stays
        });
        for kind in wanted {
            running.entry(kind).or_insert_with(|| {
                let shared = Arc::clone(&shared);
                tasks.spawn(async move { shared.watch_with_retry(kind).await })
            });
        }
        tokio::time::sleep(every.min(TELLING_INTERVAL)).await;
        shared.log.tell_not_served();
    }
}

/// What the watches of all kinds share.
struct Watches {
    cache: Arc<Cache>,
    client: Client,
    log: WatchLog,
    /// Turns at listing a kind.
    lists: Semaphore,
}

impl Watches {
    async fn watch_with_retry(&self, kind: Kind) {
        let mut backoff = Backoff::default();
        loop {
            match discover(&self.client, kind).await {
                Ok(Some(resource)) => {
                    let watch = self.watch(kind, &resource, &mut backoff);
                    if catch_panic("watch", &self.cache.metrics, watch).await.is_none() {
                        tokio::time::sleep(backoff.next()).await;
                    }
                }
                Ok(None) => {
                    self.cache.mark_absent(kind);
                    self.log.not_served(kind);
                    tokio::time::sleep(REDISCOVERY_INTERVAL).await;
                }
                Err(error) => {
                    self.log.failed(kind, Cause::of(&error));
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }

    /// Watches a kind until the API server stops serving it. Other errors are retried with backoff; meanwhile the cache
    /// keeps its objects.
    async fn watch(&self, kind: Kind, resource: &ApiResource, backoff: &mut Backoff) {
        let api: Api<Watched> = Api::all_with(self.client.clone(), resource);
        let page_size = if kind == Kind::CONFIG_MAP { CONFIG_MAPS_PAGE_SIZE } else { PAGE_SIZE };
        let mut config = watcher::Config::default().page_size(page_size);
        config.field_selector = (kind == Kind::POD).then(|| RUNNING.to_owned());
        let mut events = std::pin::pin!(watcher(api, config));
        // Held from before the first page of a list until its end.
        let mut _turn = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    match event {
                        Event::Init => _turn = self.lists.acquire().await.ok(),
                        Event::InitDone => {
                            _turn = None;
                            backoff.reset();
                            self.log.synced(kind);
                        }
                        _ => {}
                    }
                    self.cache.handle(kind, typed_event(event, resource));
                }
                Err(error) => {
                    _turn = None;
                    if is_not_found(&error) {
                        return;
                    }
                    let cause = Cause::of(&error);
                    if let (watcher::Error::InitialListFailed(_), Cause::Answer(words)) = (&error, &cause) {
                        self.cache.list_failed(kind, words);
                    }
                    // Watches end and restart all the time, so only persistent errors are logged.
                    if backoff.errors > 0 || !is_interruption(&error) {
                        self.log.failed(kind, cause);
                    }
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }
}

/// The exponential backoff of one watch.
#[derive(Debug, Default)]
struct Backoff {
    errors: u32,
}

impl Backoff {
    /// The pause after a further error.
    fn next(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.errors.min(16)).min(LONGEST_PAUSE);
        self.errors = self.errors.saturating_add(1);
        // From three to five quarters.
        let random = RandomState::new().hash_one(self.errors) % 1000;
        pause.mul_f64(0.75 + 0.5 * random as f64 / 1000.0)
    }

    fn reset(&mut self) {
        self.errors = 0;
    }
}

/// Maximum number of kinds in a line about those that the API server does not serve.
const KINDS_IN_A_LINE: usize = 50;

/// Logs changes of the state of watches, not each error.
#[derive(Debug, Default)]
struct WatchLog {
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    /// Why the API server cannot be reached; `None` if it can.
    disconnected: Option<String>,
    /// Why kinds cannot be listed.
    failing: BTreeMap<Kind, String>,
    /// The kinds that the API server does not serve, and whether that was logged.
    not_served: BTreeMap<Kind, bool>,
}

impl WatchLog {
    /// A failed connection is logged once for all kinds.
    fn failed(&self, kind: Kind, cause: Cause) {
        let mut state = self.lock();
        match cause {
            Cause::Connection(words) => {
                if state.disconnected.as_ref() != Some(&words) {
                    tracing::warn!(cause = %words, "the API server is not reached; what is known of the cluster stays");
                    state.disconnected = Some(words);
                }
            }
            Cause::Answer(words) => {
                reconnected(&mut state);
                if state.failing.get(&kind) != Some(&words) {
                    tracing::warn!(%kind, cause = %words, "the kind cannot be watched; it is tried again");
                    state.failing.insert(kind, words);
                }
            }
        }
    }

    fn synced(&self, kind: Kind) {
        let mut state = self.lock();
        reconnected(&mut state);
        state.failing.remove(&kind);
        state.not_served.remove(&kind);
        tracing::info!(%kind, "synced");
    }

    fn not_served(&self, kind: Kind) {
        let mut state = self.lock();
        reconnected(&mut state);
        state.failing.remove(&kind);
        state.not_served.entry(kind).or_default();
    }

    /// Logs the kinds that the API server has not served since the last call: at the start these may be a hundred.
    fn tell_not_served(&self) {
        let mut state = self.lock();
        let new = state.not_served.iter_mut().filter_map(|(kind, told)| {
            let is_new = !std::mem::replace(told, true);
            is_new.then(|| kind.to_string())
        });
        let new: Vec<String> = new.collect();
        for kinds in new.chunks(KINDS_IN_A_LINE) {
            let kinds = kinds.join(", ");
            tracing::info!(kinds, "the API server does not serve these kinds; they are watched when it does");
        }
    }

    /// A poisoned lock is usable, because it only affects the log.
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reconnected(state: &mut WatchState) {
    if state.disconnected.take().is_some() {
        tracing::info!("the API server answers again");
    }
}

/// Whether a working watch has ended: the API server closed it, or no longer has its history.
fn is_interruption(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_))
}

/// The event with its object as [`typed`] returns it.
fn typed_event(event: Event<Watched>, resource: &ApiResource) -> Event<Draft> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(typed(object, resource)),
        Event::Apply(object) => Event::Apply(typed(object, resource)),
        Event::Delete(object) => Event::Delete(typed(object, resource)),
    }
}

fn is_not_found(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status,
        watcher::Error::WatchError(status) => status,
        _ => return false,
    };
    status.code == 404
}

/// An object of a list or a watch, without fields that no rule reads.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The metadata that kube's watcher reads: the resource version.
    metadata: ObjectMeta,
    pub(super) draft: Draft,
}

/// Each object is read on its own, so that one that cannot be read does not take others with it.
impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Watched, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let mut draft = Draft::read(raw.get()).unwrap_or_else(|_| Draft::of(&Value::Null));
        let resource_version = draft.string(&["metadata", "resourceVersion"]).map(str::to_owned);
        for key in ["managedFields", "resourceVersion", "generation"] {
            draft.remove(&["metadata", key]);
        }
        for annotation in UNREAD_ANNOTATIONS {
            draft.remove(&["metadata", "annotations", annotation]);
        }
        draft.remove(&["status"]);
        let draft = if is_large_config_map(&draft) { shortened(&draft) } else { draft };
        Ok(Watched { metadata: ObjectMeta { resource_version, ..ObjectMeta::default() }, draft })
    }
}

/// Whether it is a ConfigMap of which a part is kept. Items of a list have no `kind`: other kinds that are watched have no
/// `data`.
fn is_large_config_map(draft: &Draft) -> bool {
    draft.text_bytes() > MAX_CONFIG_MAP_BYTES
        && !draft.has(&["spec"])
        && (draft.has(&["data"]) || draft.has(&["binaryData"]))
}

/// A ConfigMap with all its keys, the beginning of its values, and no binary ones, which no rule reads.
fn shortened(config_map: &Draft) -> Draft {
    let mut value = config_map.to_json();
    if let Some(map) = value.get_mut("binaryData").and_then(Value::as_object_mut) {
        map.values_mut().for_each(|value| *value = Value::String(String::new()));
    }
    let mut left = MAX_CONFIG_MAP_BYTES;
    for text in value.get_mut("data").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Value::String(text) = text else { continue };
        if text.len() > left {
            text.truncate(text.floor_char_boundary(left));
            text.push_str(LEFT_OUT);
        }
        left = left.saturating_sub(text.len());
    }
    Draft::of(&value)
}

impl Resource for Watched {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The object with `apiVersion` and `kind`, which the API server omits from the items of a list, and with as much of it as
/// rules read.
pub(crate) fn typed(object: Watched, resource: &ApiResource) -> Draft {
    let mut draft = object.draft;
    if draft.string(&["apiVersion"]).is_none() || draft.string(&["kind"]).is_none() {
        draft.set_string(&["apiVersion"], &resource.api_version);
        draft.set_string(&["kind"], &resource.kind);
    }
    reduce(&mut draft, &resource.group, &resource.kind);
    draft.compact();
    draft
}

#[cfg(test)]
mod tests {
    use gpulint_rules::Object;
    use kube::core::GroupVersionKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_large_config_map_the_keys_and_the_beginning_are_kept() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ml"},
            "data": {"a.yaml": "x: 1", "b.txt": "ä".repeat(400_000), "c.yaml": "y: 1"},
            "binaryData": {"d": "AAAA".repeat(50_000)}});
        let watched: Watched = serde_json::from_value(map).unwrap();
        assert!(watched.draft.text_bytes() < MAX_CONFIG_MAP_BYTES + 1000, "{}", watched.draft.text_bytes());
        let object = Object::from_draft(watched.draft).unwrap();
        let value = |key: &str| object.path(&["data", key]);
        assert_eq!(value("a.yaml").text(), Some("x: 1"));
        assert!(value("b.txt").is_unknown() && value("b.txt").raw_text().unwrap().starts_with('ä'));
        assert!(value("c.yaml").is_unknown());
        assert!(object.path(&["binaryData", "d"]).is_set());
    }

    /// What a tenant may store in a ResourceClaim.
    #[test]
    fn one_odd_object_keeps_no_others_from_being_read() {
        let claim = |name: &str, parameters: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}", "namespace": "ml", "resourceVersion": "7"}}, "spec": {{"parameters": {parameters}}}}}"#
            )
        };
        let deep = format!("{}1{}", r#"{"a":"#.repeat(1600), "}".repeat(1600));
        let odd =
            [claim("deep", &deep), claim("large", "1e999"), claim("half", r#""\ud83d""#), "3".to_owned()];
        let items = [claim("a", "{}"), odd.join(","), claim("b", "{}")].join(",");
        let list = format!(
            r#"{{"kind": "ResourceClaimList", "metadata": {{"resourceVersion": "9"}}, "items": [{items}]}}"#
        );
        let list: kube::core::ObjectList<Watched> = serde_json::from_str(&list).unwrap();
        let names: Vec<_> = list.items.iter().map(|item| item.draft.string(&["metadata", "name"])).collect();
        assert_eq!(names, [Some("a"), Some("deep"), Some("large"), Some("half"), None, Some("b")]);
        let event = format!(r#"{{"type": "MODIFIED", "object": {}}}"#, claim("deep", &deep));
        let event: kube::core::WatchEvent<Watched> = serde_json::from_str(&event).unwrap();
        let kube::core::WatchEvent::Modified(changed) = event else { panic!() };
        assert_eq!(changed.metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn what_is_not_kept_takes_no_memory() {
        let long = "x".repeat(20_000);
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "managedFields": [{"manager": long}], "annotations": {
                "team": "ml", "kubectl.kubernetes.io/last-applied-configuration": long}},
            "spec": {"weight": 3}, "status": {"conditions": [{"message": long}]}});
        let watched: Watched = serde_json::from_value(pool).unwrap();
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool");
        let resource = ApiResource::from_gvk_with_plural(&kind, "nodepools");
        let draft = typed(watched, &resource);
        assert!(draft.text_bytes() < 200, "{}", draft.text_bytes());
        let wanted = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "annotations": {"team": "ml"}}, "spec": {"weight": 3}});
        assert_eq!(draft.to_json(), wanted);
    }

    #[test]
    fn pauses_grow_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::default();
        for wanted in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            let pause = backoff.next().as_secs_f64();
            assert!((0.75 * wanted..=1.25 * wanted).contains(&pause), "{pause} {wanted}");
        }
        backoff.reset();
        assert!(backoff.next() < 2 * FIRST_PAUSE);
    }
}
