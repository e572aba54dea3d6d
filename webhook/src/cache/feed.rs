//! The watches that fill the cache, one per kind.
//!
//! kube's `default_backoff` is reset by every event, and its watcher emits one (`Init`) before each list: a rejected
//! list would be repeated every second forever. Here only a completed list resets the backoff.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use gpulint_rules::{Draft, Kind};
use kube::api::ObjectMeta;
use kube::core::{DynamicResourceScope, GroupVersion};
use kube::discovery;
use kube::discovery::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};

use super::Cache;
use crate::cause::Cause;
use crate::kinds;
use crate::supervise::catch_panic;

/// Interval of discovery for a kind that the cluster does not have.
const REDISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// Pauses after errors: the first and the longest one. Each is twice as long as the previous one, with a jitter of a
/// quarter so that watches do not retry at the same time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An annotation that contains the whole object again; no rule reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Watches every kind that rules read, as long as the future is polled.
pub(crate) async fn run_watches(cache: Arc<Cache>, client: Client) {
    let log = Arc::new(WatchLog::default());
    let watches = kinds::watched()
        .iter()
        .map(|kind| watch_with_retry(Arc::clone(&cache), client.clone(), *kind, Arc::clone(&log)));
    futures::future::join_all(watches).await;
}

async fn watch_with_retry(cache: Arc<Cache>, client: Client, kind: Kind, log: Arc<WatchLog>) {
    let mut backoff = Backoff::default();
    loop {
        match discover(&client, kind).await {
            Ok(Some(resource)) => {
                let watch = watch_kind(&cache, client.clone(), kind, &resource, &mut backoff, &log);
                if catch_panic("watch", &cache.metrics, watch).await.is_none() {
                    tokio::time::sleep(backoff.next()).await;
                }
            }
            Ok(None) => {
                cache.mark_absent(kind);
                log.answered();
                tokio::time::sleep(REDISCOVERY_INTERVAL).await;
            }
            Err(error) => {
                log.failed(kind, Cause::of(&error));
                tokio::time::sleep(backoff.next()).await;
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
        tracing::info!(%kind, "synced");
    }

    fn answered(&self) {
        reconnected(&mut self.lock());
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

/// The resource of a kind in the version that the API server prefers; `None` if it does not serve the kind.
async fn discover(client: &Client, kind: Kind) -> kube::Result<Option<ApiResource>> {
    let Some(row) = kind.info() else {
        return Ok(None);
    };
    if kind.group.is_empty() {
        let version = GroupVersion::gv("", row.version);
        let gvk = version.with_kind(kind.kind);
        return Ok(Some(ApiResource::from_gvk_with_plural(&gvk, row.plural)));
    }
    match discovery::group(client, kind.group).await {
        Ok(group) => Ok(group.recommended_kind(kind.kind).map(|(r, _)| r)),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Watches a kind until the API server stops serving it. Other errors are retried with backoff; meanwhile the cache
/// keeps its objects.
async fn watch_kind(
    cache: &Cache,
    client: Client,
    kind: Kind,
    resource: &ApiResource,
    backoff: &mut Backoff,
    log: &WatchLog,
) {
    let api: Api<Watched> = Api::all_with(client, resource);
    let config = watcher::Config::default().page_size(200);
    let mut events = std::pin::pin!(watcher(api, config));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if matches!(event, Event::InitDone) {
                    backoff.reset();
                    log.synced(kind);
                }
                cache.handle(kind, typed_event(event, resource));
            }
            Err(error) => {
                if is_not_found(&error) {
                    return;
                }
                if let watcher::Error::InitialListFailed(kube::Error::Api(_)) = &error {
                    cache.list_failed(kind);
                }
                // Watches end and restart all the time, so only persistent errors are logged.
                if backoff.errors > 0 || !is_interruption(&error) {
                    log.failed(kind, Cause::of(&error));
                }
                tokio::time::sleep(backoff.next()).await;
            }
        }
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
    draft: Draft,
}

impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Watched, D::Error> {
        let mut draft = Draft::deserialize(deserializer)?;
        let resource_version = draft.string(&["metadata", "resourceVersion"]).map(str::to_owned);
        for key in ["managedFields", "resourceVersion", "generation"] {
            draft.remove(&["metadata", key]);
        }
        draft.remove(&["metadata", "annotations", LAST_APPLIED]);
        draft.remove(&["status"]);
        Ok(Watched { metadata: ObjectMeta { resource_version, ..ObjectMeta::default() }, draft })
    }
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

/// The object with `apiVersion` and `kind`, which the API server omits from the items of a list.
pub(crate) fn typed(object: Watched, resource: &ApiResource) -> Draft {
    let mut draft = object.draft;
    if draft.string(&["apiVersion"]).is_none() || draft.string(&["kind"]).is_none() {
        draft.set_string(&["apiVersion"], &resource.api_version);
        draft.set_string(&["kind"], &resource.kind);
    }
    draft
}

#[cfg(test)]
mod tests {
    use super::*;

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
