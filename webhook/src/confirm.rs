//! Reads objects from the API server, because the snapshot may be out of date: if two objects are applied together, the
//! second is reviewed before the first has arrived. Read are the objects on which a denial depends, and, of an object that is
//! allowed and is new or gets another target, that target and its rivals: objects of kinds of which two may not be together,
//! such as ScaledObjects.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream;
use gpulint_rules::cluster::views::scale_target;
use gpulint_rules::{Cluster, Draft, Finding, Kind, Lookup, Object};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::cache::{Watched, resource, typed};
use crate::exemption::{DerivedOwners, claims, is_of_owner, object_in};
use crate::kinds;
use crate::wire::Request;

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

    fn is_same_resource(&self, other: &ObjectRef) -> bool {
        self.kind == other.kind && self.namespace == other.namespace && self.name == other.name
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.version.len() + self.namespace.as_ref().map_or(0, String::len) + self.name.len()
    }
}

/// Where the rivals of an object are, and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rivals {
    kinds: Vec<Kind>,
    namespace: Option<String>,
    target: Option<ObjectRef>,
}

impl Rivals {
    /// The rivals of an object of this kind that is new or gets another target; `None` if it has none.
    pub(crate) fn of(kind: Kind, request: &Request<'_>, cluster: &Cluster) -> Option<Rivals> {
        let kinds = kinds::rivals(kind);
        if kinds.is_empty() || !gets_target(request) {
            return None;
        }
        let namespace = request.namespace.clone();
        let object = object_in(request, namespace.as_deref().unwrap_or_default());
        let target = object.and_then(|object| target(&object, cluster));
        Some(Rivals { kinds, namespace, target })
    }
}

/// Whether the object of a request is new, or selects others than before.
fn gets_target(request: &Request<'_>) -> bool {
    let chosen = |raw: Option<&RawValue>| {
        let value = Draft::read(raw?.get()).ok()?.to_json();
        Some(["/spec/scaleTargetRef", "/spec/selector"].map(|at| value.pointer(at).cloned()))
    };
    match request.operation.as_str() {
        "CREATE" => true,
        "UPDATE" => chosen(request.object) != chosen(request.old_object),
        _ => false,
    }
}

/// The object that an autoscaler scales, if its kind is watched.
fn target(autoscaler: &Object, cluster: &Cluster) -> Option<ObjectRef> {
    let (namespace, kind, name) = scale_target(autoscaler)?;
    let (group, kind) = kind.split_once('/')?;
    let kind = *kinds::watched().iter().find(|known| known.group == group && known.kind == kind)?;
    if let Lookup::Found(known) = cluster.find(kind, &namespace, &name) {
        // In the version in which it is watched.
        return ObjectRef::new(known);
    }
    let row = kind.info()?;
    let namespace = row.namespaced.then_some(namespace);
    Some(ObjectRef { kind, version: row.version.to_owned(), namespace, name })
}

/// Objects that are newer than the snapshot: as they would be cached, or `None` if they do not exist. Objects that could not be
/// read are not in the map.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    objects: BTreeMap<ObjectRef, Option<Object>>,
    /// The objects that the API server was asked for.
    asked: BTreeSet<ObjectRef>,
    has_asked_for_rivals: bool,
    lacks_rivals: bool,
}

impl Confirmed {
    pub(crate) fn of(objects: Vec<Object>) -> Confirmed {
        let mut confirmed = Confirmed::default();
        objects.into_iter().for_each(|object| confirmed.set(object));
        confirmed
    }

    /// Whether rivals could not be read.
    pub(crate) fn lacks_rivals(&self) -> bool {
        self.lacks_rivals
    }

    /// Whether all these objects were read.
    pub(crate) fn holds(&self, refs: &[ObjectRef]) -> bool {
        refs.iter().all(|object| self.objects.contains_key(object))
    }

    fn set(&mut self, object: Object) {
        self.objects.extend(ObjectRef::new(&object).map(|key| (key, Some(object))));
    }

    /// These objects, and newer ones in place of them.
    pub(crate) fn updated_by(mut self, newer: &Confirmed) -> Confirmed {
        self.objects.retain(|one, _| !newer.objects.keys().any(|other| one.is_same_resource(other)));
        self.objects.extend(newer.objects.iter().map(|(key, object)| (key.clone(), object.clone())));
        self
    }

    /// The cluster with these objects in place of its own; `None` if that changes nothing. Those that were created by a
    /// controller from others are left out, as in the cluster.
    pub(crate) fn applied_to(&self, cluster: &Cluster, derived: Option<&DerivedOwners>) -> Option<Cluster> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (object, fresh) in &self.objects {
            let fresh = fresh.as_ref().filter(|fresh| !self.is_made(fresh, cluster, derived));
            let namespace = object.namespace.as_deref().unwrap_or("default");
            let known = match cluster.find(object.kind, namespace, &object.name) {
                Lookup::Found(known) => Some(known),
                _ => None,
            };
            let differs = match (known, fresh) {
                (Some(known), Some(fresh)) => !known.root().has_value_of(&fresh.root()),
                _ => known.is_some() || fresh.is_some(),
            };
            if differs {
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
            match self.objects.values().flatten().find(is_it) {
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

    /// Reads what a review needs and was not asked for before, until a deadline. Returns whether something was read.
    pub(crate) async fn read_missing(
        &self,
        to_confirm: &[ObjectRef],
        rivals: Option<&Rivals>,
        deadline: Instant,
        confirmed: &mut Confirmed,
    ) -> bool {
        let before = confirmed.objects.len();
        let rivals = rivals.filter(|_| !confirmed.has_asked_for_rivals);
        let target = rivals.and_then(|rivals| rivals.target.as_ref());
        let missing = to_confirm.iter().chain(target).filter(|one| !confirmed.asked.contains(*one));
        let left = MAX_READS.saturating_sub(confirmed.asked.len());
        let missing: BTreeSet<ObjectRef> = missing.take(left).cloned().collect();
        self.read(missing, deadline, confirmed).await;
        if let Some(rivals) = rivals {
            confirmed.has_asked_for_rivals = true;
            self.read_rivals(rivals, deadline, confirmed).await;
        }
        confirmed.objects.len() > before
    }

    async fn read_rivals(&self, rivals: &Rivals, deadline: Instant, confirmed: &mut Confirmed) {
        for kind in &rivals.kinds {
            let listed = list(self.0.clone(), *kind, rivals.namespace.as_deref());
            match timeout_at(deadline, listed).await {
                Ok(Ok(found)) => found.into_iter().for_each(|object| confirmed.set(object)),
                // The API server does not serve the kind.
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
                Ok(Err(error)) => {
                    confirmed.lacks_rivals = true;
                    tracing::debug!(%kind, %error, "rivals were not read");
                }
                Err(_) => {
                    confirmed.lacks_rivals = true;
                    tracing::debug!(%kind, "rivals were not read in time");
                }
            }
        }
    }

    async fn read(&self, refs: BTreeSet<ObjectRef>, deadline: Instant, confirmed: &mut Confirmed) {
        confirmed.asked.extend(refs.iter().cloned());
        let read = |object: ObjectRef| {
            let client = self.0.clone();
            async move {
                let answer = timeout_at(deadline, get(client, &object)).await;
                (object, answer)
            }
        };
        let answers: Vec<_> = stream::iter(refs).map(read).buffer_unordered(CONCURRENT_READS).collect().await;
        for (object, answer) in answers {
            match answer {
                Ok(Ok(found)) => {
                    confirmed.objects.insert(object, found);
                }
                Ok(Err(error)) => tracing::debug!(kind = %object.kind, %error, "an object was not read"),
                Err(_) => tracing::debug!(kind = %object.kind, "an object was not read in time"),
            }
        }
    }
}

/// The objects of a kind as they would be cached.
async fn list(client: Client, kind: Kind, namespace: Option<&str>) -> kube::Result<Vec<Object>> {
    let Some(row) = kind.info() else {
        return Ok(Vec::new());
    };
    let resource = resource(kind, row.version, row.plural);
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
    let resource = resource(object.kind, &object.version, row.plural);
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
            let objects = BTreeMap::from([(first.to_confirm[0].clone(), found.map(object))]);
            Confirmed { objects, ..Confirmed::default() }
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
