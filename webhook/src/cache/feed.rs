//! The watches that fill the cache, one per kind.
//!
//! kube's `default_backoff` is reset by every event, and its watcher emits one (`Init`) before each list: a rejected
//! list would be repeated every second forever. Here only a completed list resets the backoff.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use gpulint_rules::{Draft, Kind};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::Cache;
use super::served::discover;
use super::watched::{Watched, typed};
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

    /// Logs the kinds that were found not to be served since the last call, in few lines: at the start these may be a hundred.
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
