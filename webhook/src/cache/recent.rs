//! Objects that this replica admitted and that the watches have not shown yet.
//!
//! A snapshot lags behind the API server by up to two seconds, so the second object of one `kubectl apply` is reviewed without the
//! first. Whether an admitted object was stored is not known here (another webhook may deny it), so a denial that rests on one
//! reads it from the API server first, like any other.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpulint_rules::{Draft, Kind, Object};
use serde_json::value::RawValue;

use super::object::{CachedObject, NamespacedName, cached_object, namespaced_name};
use super::served::resource;
use super::watched::{Watched, typed};
use crate::exemption::NUMEROUS;
use crate::kinds;
use crate::wire::Request;

/// Time after which an object is in the snapshot, or was not stored.
const KEPT: Duration = Duration::from_secs(5);
/// Maximum number of objects, and of the bytes of their texts.
const MAX_OBJECTS: usize = 256;
const MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Admitted>>);

#[derive(Debug)]
struct Admitted {
    kind: Kind,
    name: NamespacedName,
    new: CachedObject,
    /// The hash of the object that an update replaces.
    old: Option<u64>,
    bytes: usize,
    at: Instant,
}

impl Recent {
    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<Admitted>) -> T) -> T {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.front().is_some_and(|first| first.at.elapsed() > KEPT) {
            kept.pop_front();
        }
        work(&mut kept)
    }

    /// Whether objects of a kind are kept: of kinds that findings on two objects are about, but for those of which there are
    /// most.
    pub(super) fn keeps(kind: Kind) -> bool {
        kinds::related().contains_key(&kind) && !NUMEROUS.contains(&kind)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.with(|kept| kept.is_empty())
    }

    /// Keeps the object that a request writes.
    pub(super) fn admit(&self, kind: Kind, request: &Request<'_>) {
        if !request.dry_run.unwrap_or_default() {
            Admitted::of(kind, request).into_iter().for_each(|admitted| self.push(admitted));
        }
    }

    /// The current states of the objects that a finding on an object of this kind may depend on. `seen` gives what a watch has
    /// shown.
    pub(super) fn beside<'c>(
        &self,
        request: &Request<'_>,
        seen: impl Fn(Kind, &NamespacedName) -> Option<&'c CachedObject>,
    ) -> Vec<Object> {
        let related = kinds::related().iter().find(|(kind, _)| request.kind.is(**kind));
        let Some((_, related)) = related else { return Vec::new() };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let is_near = |one: &&Admitted| {
            let (of, name) = &one.name;
            let is_itself = request.kind.is(one.kind) && *name == request.name && of == namespace;
            related.contains(&one.kind) && (of == namespace || of.is_empty()) && !is_itself
        };
        let current = |one: &Admitted| {
            let shown = seen(one.kind, &one.name).filter(|seen| one.is_shown_by(seen));
            shown.unwrap_or(&one.new).object.clone()
        };
        self.with(|kept| kept.iter().filter(is_near).map(current).collect())
    }

    fn push(&self, admitted: Admitted) {
        self.with(|kept| {
            kept.retain(|other| other.kind != admitted.kind || other.name != admitted.name);
            kept.push_back(admitted);
            let mut bytes: usize = kept.iter().map(|one| one.bytes).sum();
            while kept.len() > MAX_OBJECTS || bytes > MAX_BYTES {
                bytes -= kept.pop_front().map_or(bytes, |gone| gone.bytes);
            }
        });
    }
}

impl Admitted {
    fn of(kind: Kind, request: &Request<'_>) -> Option<Admitted> {
        let read = |raw: &RawValue| {
            let watched: Watched = serde_json::from_str(raw.get()).ok()?;
            let version = watched.draft.string(&["apiVersion"])?.rsplit('/').next()?.to_owned();
            Some(typed(watched, &resource(kind, &version, kind.info()?.plural)))
        };
        let hash = |draft: Draft| cached_object(draft).map(|old| old.hash);
        let draft = read(request.object?)?;
        let old = request.old_object.filter(|_| request.operation == "UPDATE").and_then(read).and_then(hash);
        let (name, bytes) = (namespaced_name(&draft), draft.text_bytes());
        Some(Admitted { kind, name, new: cached_object(draft)?, old, bytes, at: Instant::now() })
    }

    /// Whether a watch has shown the object, or a later state of it.
    fn is_shown_by(&self, seen: &CachedObject) -> bool {
        fn uid(cached: &CachedObject) -> &str {
            cached.object.path(&["metadata", "uid"]).text().unwrap_or_default()
        }
        uid(seen) == uid(&self.new) && self.old != Some(seen.hash)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gpulint_rules::{Cluster, Lookup, Platform};
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::Cache;
    use crate::confirm::Confirmed;
    use crate::metrics::Metrics;

    fn scaled_object(uid: &str, target: &str) -> Value {
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": {"name": "chat", "namespace": "ml", "uid": uid}, "spec": {"scaleTargetRef": {"name": target}}})
    }

    fn body(operation: &str, object: &Value, old: &Value, dry_run: bool) -> String {
        let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        json!({"uid": "u", "operation": operation, "namespace": "ml", "name": object["metadata"]["name"],
            "kind": {"group": group, "version": "v1", "kind": object["kind"]}, "object": object, "oldObject": old,
            "dryRun": dry_run})
        .to_string()
    }

    fn cache() -> Cache {
        Cache::new(true, kinds::watched().iter().copied().collect(), Arc::new(Metrics::new()))
    }

    fn admit(cache: &Cache, body: &str) {
        let request: Request<'_> = serde_json::from_str(body).unwrap();
        let kind = kinds::checked().iter().find(|kind| request.kind.is(**kind));
        kind.into_iter().for_each(|kind| cache.admitted(*kind, &request));
    }

    /// The target of the ScaledObject that a review of a Deployment sees.
    fn seen(cache: &Cache) -> Option<String> {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "ml"}});
        let body = body("CREATE", &deployment, &Value::Null, false);
        cache.rebuild_snapshot(&Platform::default());
        let snapshot = cache.snapshot();
        let newer = Confirmed::of(cache.recent_beside(&serde_json::from_str(&body).unwrap()));
        let laid_over = newer.applied_to(&snapshot.value.cluster, Some(&snapshot.value.derived));
        let cluster: &Cluster = laid_over.as_ref().unwrap_or(&snapshot.value.cluster);
        match cluster.find(Kind::SCALED_OBJECT, "ml", "chat") {
            Lookup::Found(found) => found.path(&["spec", "scaleTargetRef", "name"]).text().map(str::to_owned),
            _ => None,
        }
    }

    #[test]
    fn what_was_admitted_counts_until_the_watch_shows_it() {
        let cache = cache();
        let show = |object: &Value| cache.handle(Kind::SCALED_OBJECT, Event::Apply(Draft::of(object)));
        let (first, second, third) =
            (scaled_object("1", "a"), scaled_object("1", "b"), scaled_object("1", "c"));
        admit(&cache, &body("CREATE", &first, &Value::Null, true));
        assert_eq!(seen(&cache), None, "a dry run stores nothing");
        admit(&cache, &body("CREATE", &first, &Value::Null, false));
        assert_eq!(seen(&cache).as_deref(), Some("a"));
        // An earlier object of its name that the watch still shows.
        show(&scaled_object("0", "z"));
        assert_eq!(seen(&cache).as_deref(), Some("a"));
        show(&first);
        admit(&cache, &body("UPDATE", &second, &first, false));
        assert_eq!(seen(&cache).as_deref(), Some("b"));
        // Another replica admitted a later change.
        show(&third);
        assert_eq!(seen(&cache).as_deref(), Some("c"));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let cache = cache();
        let mut object = scaled_object("1", "a");
        for number in 0..2 * MAX_OBJECTS {
            object["metadata"]["name"] = format!("a-{number}").into();
            admit(&cache, &body("CREATE", &object, &Value::Null, false));
        }
        assert_eq!(cache.recent.with(|kept| kept.len()), MAX_OBJECTS);
        object["spec"]["triggers"] =
            json!([{"type": "cron", "metadata": {"start": "x".repeat(MAX_BYTES / 3)}}]);
        for number in 0..5 {
            object["metadata"]["name"] = format!("b-{number}").into();
            admit(&cache, &body("CREATE", &object, &Value::Null, false));
        }
        assert!(cache.recent.with(|kept| kept.len()) <= 3);
        let class =
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "a"}});
        admit(&cache, &body("CREATE", &class, &Value::Null, false));
        assert!(cache.recent.with(|kept| kept.iter().all(|one| one.kind == Kind::SCALED_OBJECT)));
    }
}
