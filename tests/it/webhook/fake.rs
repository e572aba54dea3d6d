//! A fake API server for watches: discovery, lists and streams of changes. It validates nothing, so that it can hold
//! objects that a real one rejects.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::StreamExt;
use gpulint_rules::kind::KindInfo;
use gpulint_webhook::kinds;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::webhook::server::Folder;

#[derive(Default)]
struct Kept {
    refused: bool,
    lists: usize,
    objects: Vec<Value>,
    watches: Vec<UnboundedSender<Bytes>>,
}

type Kinds = Arc<Mutex<BTreeMap<(String, String), Kept>>>;

/// Listens until the test ends.
pub(crate) struct Fake {
    kinds: Kinds,
    url: String,
}

fn rows() -> impl Iterator<Item = &'static KindInfo> {
    kinds::watched().iter().filter_map(|kind| kind.info())
}

fn key(resource: &KindInfo) -> (String, String) {
    (resource.kind.group.to_owned(), resource.plural.to_owned())
}

impl Fake {
    pub(crate) async fn start() -> Fake {
        let kinds: Kinds = Arc::default();
        for row in rows() {
            kinds.lock().unwrap().entry(key(row)).or_default();
        }
        let router = Router::new()
            .route("/apis/{group}", get(group))
            .route("/apis/{group}/{version}", get(resources))
            .route("/apis/{group}/{version}/{plural}", get(objects))
            .route("/api/{version}/{plural}", get(core))
            .fallback(one)
            .with_state(Arc::clone(&kinds));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Fake { kinds, url }
    }

    pub(crate) fn kubeconfig(&self, folder: &Folder) -> PathBuf {
        folder.write("kubeconfig", &kubeconfig(&self.url))
    }

    /// Makes lists of a kind fail, or serves them again.
    pub(crate) fn refuse(&self, plural: &str, refused: bool) {
        let mut kinds = self.kinds.lock().unwrap();
        for (_, kept) in kinds.iter_mut().filter(|((_, name), _)| name == plural) {
            kept.refused = refused;
        }
    }

    /// Number of list requests for a kind, including failed ones.
    pub(crate) fn lists(&self, plural: &str) -> usize {
        let kinds = self.kinds.lock().unwrap();
        kinds.iter().filter(|((_, name), _)| name == plural).map(|(_, kept)| kept.lists).sum()
    }

    /// Replaces an object without notifying the watches, as if they lagged behind.
    pub(crate) fn change_unseen(&self, object: &Value) {
        let mut kinds = self.kinds.lock().unwrap();
        let row = rows().find(|row| is_of(object, row)).unwrap();
        let kept = kinds.get_mut(&key(row)).unwrap();
        kept.objects.retain(|o| o["metadata"]["name"] != object["metadata"]["name"]);
        kept.objects.push(object.clone());
    }

    /// Adds or removes an object.
    pub(crate) fn change(&self, event: &str, object: &Value) {
        let mut kinds = self.kinds.lock().unwrap();
        let row = rows().find(|row| is_of(object, row)).unwrap();
        let kept = kinds.get_mut(&key(row)).unwrap();
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = "2".into();
        kept.objects.retain(|o| o["metadata"]["name"] != object["metadata"]["name"]);
        if event != "DELETED" {
            kept.objects.push(object.clone());
        }
        let line = format!("{}\n", json!({"type": event, "object": object}));
        kept.watches.retain(|watch| watch.send(Bytes::from(line.clone())).is_ok());
    }

    /// Replaces all objects. Objects of kinds that are not watched are skipped.
    pub(crate) fn hold(&self, objects: &[Value]) {
        let mut kinds = self.kinds.lock().unwrap();
        for row in rows() {
            let kept = kinds.get_mut(&key(row)).unwrap();
            let mut new: Vec<Value> = objects.iter().filter(|o| is_of(o, row)).cloned().collect();
            for object in &mut new {
                object["metadata"]["resourceVersion"] = "2".into();
            }
            let gone = std::mem::replace(&mut kept.objects, new);
            let deleted = gone.iter().map(|o| ("DELETED", o));
            for (event, object) in deleted.chain(kept.objects.iter().map(|o| ("ADDED", o))) {
                let line = format!("{}\n", json!({"type": event, "object": object}));
                kept.watches.retain(|watch| watch.send(Bytes::from(line.clone())).is_ok());
            }
        }
    }
}

/// A kubeconfig file of a server without authentication.
pub(crate) fn kubeconfig(url: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "fake", "user": {}}],
    })
    .to_string()
}

fn is_of(object: &Value, row: &KindInfo) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    group == row.kind.group && object["kind"] == row.kind.kind
}

/// The versions of a group; as in a real one, the preferred version does not have every kind.
async fn group(Path(group): Path<String>) -> Response {
    let mut versions: Vec<&str> =
        rows().filter(|row| row.kind.group == group).map(|row| row.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let version = |version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let Some(preferred) = versions.first().map(|first| version(first)) else {
        return axum::http::StatusCode::NOT_FOUND.into_response();
    };
    let versions: Vec<Value> = versions.into_iter().map(version).collect();
    answer(&json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions,
        "preferredVersion": preferred}))
}

async fn resources(Path((group, version)): Path<(String, String)>) -> Response {
    let resources = rows().filter(|row| row.kind.group == group && row.version == version).map(|row| {
        json!({"name": row.plural, "singularName": "", "namespaced": row.namespaced,
               "kind": row.kind.kind, "verbs": ["list", "watch"]})
    });
    let resources: Vec<Value> = resources.collect();
    let version = format!("{group}/{version}");
    answer(
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}),
    )
}

async fn core(
    kinds: State<Kinds>,
    Path((version, plural)): Path<(String, String)>,
    query: RawQuery,
) -> Response {
    objects(kinds, Path((String::new(), version, plural)), query).await
}

async fn objects(
    State(kinds): State<Kinds>,
    Path((group, _, plural)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let query: BTreeMap<&str, &str> =
        query.iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.split_once('=')).collect();
    let mut kinds = kinds.lock().unwrap();
    let kept = kinds.entry((group, plural)).or_default();
    kept.lists += usize::from(!query.contains_key("watch"));
    if kept.refused {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "not for you"});
        return (axum::http::StatusCode::FORBIDDEN, answer(&status)).into_response();
    }
    if !query.contains_key("watch") {
        // Lists are paged, as those of a real API server.
        let number = |key: &str| query.get(key).and_then(|n| n.parse::<usize>().ok());
        let from = number("continue").unwrap_or_default().min(kept.objects.len());
        let to = (from + number("limit").unwrap_or(usize::MAX / 2)).min(kept.objects.len());
        let mut metadata = json!({"resourceVersion": "1"});
        if to < kept.objects.len() {
            metadata["continue"] = to.to_string().into();
        }
        let items = &kept.objects[from..to];
        return answer(&json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}));
    }
    let (sender, receiver) = unbounded_channel();
    kept.watches.push(sender);
    let stream = futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|line| (line, receiver))
    });
    Body::from_stream(stream.map(Ok::<_, Infallible>)).into_response()
}

/// A single object, `/apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL/NAME`, or those of a namespace.
async fn one(State(kinds): State<Kinds>, uri: axum::http::Uri) -> Response {
    let steps: Vec<&str> = uri.path().split('/').skip(1).collect();
    let (group, rest) = match steps.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return axum::http::StatusCode::NOT_FOUND.into_response(),
    };
    let status = |code: u16, reason: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": reason});
        let code = axum::http::StatusCode::from_u16(code).unwrap();
        (code, answer(&status)).into_response()
    };
    if let ["namespaces", namespace, plural] = rest {
        let kinds = kinds.lock().unwrap();
        let kept = kinds.get(&(group.to_owned(), (*plural).to_owned()));
        if kept.is_some_and(|kept| kept.refused) {
            return status(403, "Forbidden");
        }
        let all = kept.map_or(&[][..], |kept| &kept.objects);
        let items: Vec<&Value> = all.iter().filter(|o| o["metadata"]["namespace"] == *namespace).collect();
        let metadata = json!({"resourceVersion": "1"});
        return answer(&json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}));
    }
    let (namespace, plural, name) = match rest {
        ["namespaces", namespace, plural, name] => (Some(*namespace), *plural, *name),
        [plural, name] => (None, *plural, *name),
        _ => return axum::http::StatusCode::NOT_FOUND.into_response(),
    };
    let kinds = kinds.lock().unwrap();
    let Some(kept) = kinds.get(&(group.to_owned(), plural.to_owned())) else {
        return status(404, "NotFound");
    };
    if kept.refused {
        return status(403, "Forbidden");
    }
    let is_it = |object: &&Value| {
        object["metadata"]["name"] == *name && object["metadata"]["namespace"].as_str() == namespace
    };
    kept.objects.iter().find(is_it).map_or_else(|| status(404, "NotFound"), answer)
}

fn answer(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}
