//! Reads objects from the API server, because the snapshot may be out of date: if two objects are applied together, the
//! second is reviewed before the first has arrived. Read are the objects on which a denial depends, and, of a new object
//! that is allowed, its rivals: objects of kinds of which two may not be together, such as ScaledObjects.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream;
use gpulint_rules::{Cluster, Finding, Kind, Lookup, Object};
use kube::api::ListParams;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use tokio::time::{Instant, timeout_at};

use crate::cache::{Watched, typed};
use crate::exemption::{DerivedOwners, claims, is_of_owner};
use crate::kinds;

/// Maximum number of objects that are read for one review; a denial that depends on more is not confirmed for the
/// rest.
pub(crate) const MAX_READS: usize = 16;
/// Maximum number of rivals of each kind that are read.
const MAX_RIVALS: u32 = 100;
/// Maximum number of concurrent reads of one review.
const CONCURRENT_READS: usize = 4;

/// An object on which a finding depends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectRef {
    kind: Kind,
    /// The version in which it is watched.
    version: String,
    namespace: Option<String>,
    name: String,
}

impl ObjectRef {
    /// The objects other than its own that a finding names: a rule that reads from the cluster names the objects that
    /// it read.
    pub(crate) fn of_finding(finding: &Finding) -> Vec<ObjectRef> {
        let own = finding.location.object();
        let others = finding.related.iter().filter_map(|related| related.location.object());
        let others = others.filter(|other| own.is_none_or(|own| !own.is_same_resource(other)));
        let refs: BTreeSet<ObjectRef> = others.filter_map(ObjectRef::new).collect();
        refs.into_iter().collect()
    }

    fn new(object: &Object) -> Option<ObjectRef> {
        let id = object.id();
        let kind = kinds::watched().iter().copied().find(|kind| id.is(*kind))?;
        Some(ObjectRef {
            kind,
            version: id.version.clone(),
            namespace: id.namespace().map(str::to_owned),
            name: id.name.clone(),
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.version.len() + self.namespace.as_ref().map_or(0, String::len) + self.name.len()
    }
}

/// Where the rivals of a new object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rivals {
    kinds: Vec<Kind>,
    namespace: Option<String>,
}

impl Rivals {
    /// The rivals of a new object of this kind; `None` if it has none.
    pub(crate) fn of(kind: Kind, namespace: Option<&str>) -> Option<Rivals> {
        let kinds = kinds::rivals(kind);
        (!kinds.is_empty()).then(|| Rivals { kinds, namespace: namespace.map(str::to_owned) })
    }
}

/// The current versions of some objects in the API server: the object as it would be cached, or `None` if it does not
/// exist. Objects that could not be read are not in the map.
#[derive(Debug, Default)]
pub(crate) struct Confirmed(BTreeMap<ObjectRef, Option<Object>>);

impl Confirmed {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all these objects were read.
    pub(crate) fn holds(&self, refs: &[ObjectRef]) -> bool {
        refs.iter().all(|object| self.0.contains_key(object))
    }

    /// The cluster with these objects in place of its own; `None` if that changes nothing. Those that were created by a
    /// controller from others are left out, as in the cluster.
    pub(crate) fn applied_to(&self, cluster: &Cluster, derived: Option<&DerivedOwners>) -> Option<Cluster> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (object, fresh) in &self.0 {
            let fresh = fresh.as_ref().filter(|fresh| !self.is_made(fresh, cluster, derived));
            let namespace = object.namespace.as_deref().unwrap_or("default");
            let known = match cluster.find(object.kind, namespace, &object.name) {
                Lookup::Found(known) => Some(known),
                _ => None,
            };
            if known.map(|known| known.root().to_json()) != fresh.map(|fresh| fresh.root().to_json()) {
                old.extend(known.cloned());
                new.extend(fresh.cloned());
            }
        }
        (!old.is_empty() || !new.is_empty()).then(|| cluster.with_replaced(&old, &new))
    }

    /// Whether a controller created an object from one of these, or of the cluster.
    fn is_made(&self, object: &Object, cluster: &Cluster, derived: Option<&DerivedOwners>) -> bool {
        let claims = claims(object);
        let find = |kind: Kind, namespace: &str, name: &str| {
            let is_it = |other: &&Object| {
                other.is(kind) && other.id().namespace() == Some(namespace) && other.name() == name
            };
            match self.0.values().flatten().find(is_it) {
                Some(fresh) => Lookup::Found(fresh),
                None => DerivedOwners::find(derived, cluster, kind, namespace, name),
            }
        };
        !claims.is_empty() && is_of_owner(object, &claims, find)
    }
}

/// Reads objects from the API server.
pub(crate) struct Reader(Client);

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Reader {
    pub(crate) fn new(client: Client) -> Reader {
        Reader(client)
    }

    /// Reads the rivals of a new object until a deadline, in addition to what was read before.
    pub(crate) async fn read_rivals(&self, rivals: &Rivals, deadline: Instant, confirmed: &mut Confirmed) {
        for kind in &rivals.kinds {
            let listed = list(self.0.clone(), *kind, rivals.namespace.as_deref());
            match timeout_at(deadline, listed).await {
                Ok(Ok(found)) => {
                    let refs =
                        found.into_iter().filter_map(|object| Some((ObjectRef::new(&object)?, object)));
                    confirmed.0.extend(refs.map(|(object, found)| (object, Some(found))));
                }
                Ok(Err(error)) => tracing::debug!(%kind, %error, "rivals were not read"),
                Err(_) => tracing::debug!(%kind, "rivals were not read in time"),
            }
        }
    }

    /// Reads objects until a deadline.
    pub(crate) async fn read(&self, refs: &[ObjectRef], deadline: Instant) -> Confirmed {
        let refs: Vec<ObjectRef> = refs.iter().take(MAX_READS).cloned().collect();
        let read = |object: ObjectRef| {
            let client = self.0.clone();
            async move {
                let answer = timeout_at(deadline, get(client, &object)).await;
                (object, answer)
            }
        };
        let answers: Vec<_> = stream::iter(refs).map(read).buffer_unordered(CONCURRENT_READS).collect().await;
        let mut confirmed = Confirmed::default();
        for (object, answer) in answers {
            match answer {
                Ok(Ok(found)) => {
                    confirmed.0.insert(object, found);
                }
                Ok(Err(error)) => tracing::debug!(kind = %object.kind, %error, "an object was not read"),
                Err(_) => tracing::debug!(kind = %object.kind, "an object was not read in time"),
            }
        }
        confirmed
    }
}

/// The objects of a kind as they would be cached.
async fn list(client: Client, kind: Kind, namespace: Option<&str>) -> kube::Result<Vec<Object>> {
    let Some(row) = kind.info() else {
        return Ok(Vec::new());
    };
    let gvk = GroupVersionKind::gvk(kind.group, row.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, row.plural);
    let api: Api<Watched> = match namespace {
        Some(namespace) if row.namespaced => Api::namespaced_with(client, namespace, &resource),
        _ => Api::all_with(client, &resource),
    };
    let found = api.list(&ListParams::default().limit(MAX_RIVALS)).await?;
    Ok(found.items.into_iter().filter_map(|found| Object::from_draft(typed(found, &resource))).collect())
}

/// An object as it would be cached; `None` if it does not exist.
async fn get(client: Client, object: &ObjectRef) -> kube::Result<Option<Object>> {
    let Some(row) = object.kind.info() else {
        return Ok(None);
    };
    let gvk = GroupVersionKind::gvk(object.kind.group, &object.version, object.kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, row.plural);
    let api: Api<Watched> = match &object.namespace {
        Some(namespace) if row.namespaced => Api::namespaced_with(client, namespace, &resource),
        _ => Api::all_with(client, &resource),
    };
    let found = api.get_opt(&object.name).await?;
    Ok(found.and_then(|found| Object::from_draft(typed(found, &resource))))
}

#[cfg(test)]
mod tests {
    use gpulint_rules::{Engine, Settings};
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluate::Evaluator;
    use crate::review::{Decision, ReviewContext, ReviewOutcome, review_with};

    fn object(value: &Value) -> Object {
        Object::from_json(value).unwrap()
    }

    /// A server whose containers may lack the request that its autoscaler measures.
    fn deployment(resources: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "ml"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "chat"}}, "template": {
                "metadata": {"labels": {"app": "chat"}},
                "spec": {"containers": [{"name": "chat", "image": "registry.example.com/chat:1",
                    "resources": resources}]}}}})
    }

    fn scaled_object() -> Value {
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat", "namespace": "ml"},
            "spec": {"scaleTargetRef": {"name": "chat"}, "minReplicaCount": 2, "maxReplicaCount": 4,
                "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}]}})
    }

    fn review(cluster: &Cluster, confirmed: &Confirmed) -> ReviewOutcome {
        let engine = Engine::new(Settings::default());
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "namespace": "ml", "object": scaled_object()}});
        let context =
            ReviewContext { from_api_server: true, cluster_is_fed: true, ..ReviewContext::default() };
        let evaluator = Evaluator::new(&engine, cluster).with_confirmed(confirmed);
        review_with(evaluator, context, body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_refusal_that_rests_on_another_object_needs_that_object() {
        let without = deployment(&json!({}));
        let mut cluster = Cluster::new(true);
        cluster.apply(object(&without));
        let first = review(&cluster, &Confirmed::default());
        assert_eq!(first.decision, Decision::Warned, "not read: it warns");
        assert_eq!(first.to_confirm.len(), 1, "{:?}", first.to_confirm);
        let answer = String::from_utf8(first.body.clone()).unwrap();
        assert!(answer.contains("1 of these would deny, but not all objects"), "{answer}");

        let read = |found: Option<&Value>| {
            Confirmed(BTreeMap::from([(first.to_confirm[0].clone(), found.map(object))]))
        };
        // As in the snapshot.
        let same = read(Some(&without));
        assert!(same.applied_to(&cluster, None).is_none());
        let outcome = review(&cluster, &same);
        assert_eq!((outcome.decision, outcome.to_confirm.len()), (Decision::Denied, 0));
        // Corrected a moment ago, or deleted.
        let repaired = deployment(&json!({"requests": {"cpu": "1"}}));
        for fresh in [read(Some(&repaired)), read(None)] {
            let newer = fresh.applied_to(&cluster, None).unwrap();
            let outcome = review(&newer, &fresh);
            assert_ne!(outcome.decision, Decision::Denied, "{outcome:?}");
            assert!(!outcome.rules.contains(&"missing-resource-request"), "{outcome:?}");
        }
    }
}
