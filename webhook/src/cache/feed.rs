//! The watches that fill the cache, one per kind.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use gpulint_rules::Kind;
use kube::api::{DynamicObject, TypeMeta};
use kube::core::GroupVersion;
use kube::discovery;
use kube::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;

use super::Cache;
use crate::kinds;
use crate::serve::supervise::catch_panic;

/// Pause before discovery looks again for a kind that the cluster does not have.
const REDISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after discovery failed or a watch panicked.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// No rule reads this annotation, which contains the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Watches every kind that rules read, for as long as it is polled.
pub(crate) async fn run_watches(cache: Arc<Cache>, client: Client) {
    let watches =
        kinds::watched().iter().map(|kind| watch_with_retry(Arc::clone(&cache), client.clone(), *kind));
    futures::future::join_all(watches).await;
}

async fn watch_with_retry(cache: Arc<Cache>, client: Client, kind: Kind) {
    loop {
        match discover(&client, kind).await {
            Ok(Some(resource)) => {
                let watch = watch_kind(&cache, client.clone(), kind, &resource);
                if catch_panic("watch", &cache.metrics, watch).await.is_none() {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
            Ok(None) => {
                cache.mark_absent(kind);
                tokio::time::sleep(REDISCOVERY_INTERVAL).await;
            }
            Err(error) => {
                tracing::warn!(%kind, %error, "cannot ask the API server which kinds it serves");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
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

/// Watches a kind until the API server stops serving it. Other errors are retried with backoff; meanwhile
/// the cache keeps the objects that it has.
async fn watch_kind(cache: &Cache, client: Client, kind: Kind, resource: &ApiResource) {
    let api: Api<DynamicObject> = Api::all_with(client, resource);
    let config = watcher::Config::default().page_size(200);
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if matches!(event, Event::InitDone) {
                    tracing::info!(%kind, "synced");
                }
                cache.handle(kind, trimmed(event, resource));
            }
            Err(error) => {
                if is_not_found(&error) {
                    return;
                }
                if let watcher::Error::InitialListFailed(kube::Error::Api(_)) = &error {
                    cache.list_failed(kind);
                }
                tracing::warn!(%kind, %error, "the watch broke off; it is tried again");
            }
        }
    }
}

/// The event with its object as [`trim`] returns it.
fn trimmed(event: Event<DynamicObject>, resource: &ApiResource) -> Event<Value> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(trim(object, resource)),
        Event::Apply(object) => Event::Apply(trim(object, resource)),
        Event::Delete(object) => Event::Delete(trim(object, resource)),
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

/// The object as JSON, without fields that no rule reads, and with `apiVersion` and `kind`, which the API
/// server omits from the items of a list.
fn trim(mut object: DynamicObject, resource: &ApiResource) -> Value {
    object.types.get_or_insert_with(|| TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    let metadata = &mut object.metadata;
    metadata.managed_fields = None;
    metadata.resource_version = None;
    metadata.generation = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(data) = object.data.as_object_mut() {
        data.remove("status");
    }
    serde_json::to_value(object).unwrap_or_default()
}
