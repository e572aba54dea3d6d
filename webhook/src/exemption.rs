//! Requests that are allowed without running rules: because of their sender, their namespace, or because an operator
//! created the object from one that is checked.
//!
//! An owner reference is no proof, because any client may write one. It counts only in requests of the operators that
//! the configuration names, if operators create objects of that kind from owners of that kind, and the owner exists:
//! the cache has it with the same uid. The HPA of a ScaledObject counts in requests of any account if it has the name, the target
//! and the limits that KEDA gives it ([`is_hpa_of`]): KEDA may run in any namespace. Another one is an autoscaler of its own until
//! KEDA overwrites it. Objects that controllers of
//! kube-system create need no proof, because the requests of these accounts are exempt. For the rules, objects of all
//! other senders have no owner.
//!
//! Nor is an owner reference of a stored object a proof: rules that review other objects see it unless its owner exists
//! ([`is_of_owner`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::cluster::views::scale_target;
use gpulint_rules::facts::names::is_dns_label;
use gpulint_rules::keda::is_hpa_of;
use gpulint_rules::{Cluster, Draft, Engine, Kind, Lookup, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::kinds;
use crate::wire::Request;

/// The service accounts of kube-controller-manager, all in kube-system:
/// <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#controller-roles>.
pub(crate) const KUBE_CONTROLLERS: [&str; 38] = [
    "attachdetach-controller",
    "certificate-controller",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpoint-controller",
    "endpointslice-controller",
    "endpointslicemirroring-controller",
    "ephemeral-volume-controller",
    "expand-controller",
    "generic-garbage-collector",
    "horizontal-pod-autoscaler",
    "job-controller",
    "legacy-service-account-token-cleaner",
    "namespace-controller",
    "node-controller",
    "persistent-volume-binder",
    "pod-garbage-collector",
    "pv-protection-controller",
    "pvc-protection-controller",
    "replicaset-controller",
    "replication-controller",
    "resource-claim-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "route-controller",
    "selinux-warning-controller",
    "service-account-controller",
    "service-cidrs-controller",
    "service-controller",
    "statefulset-controller",
    "storage-version-migrator-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// The user of a kube-controller-manager whose controllers have no accounts of their own.
pub(crate) const KUBE_CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// Namespaced kinds that the controllers of kube-controller-manager create: the kind of the owner, then those of the
/// created objects. Denying a Pod would not undo its Deployment; it would only prevent running Pods from being
/// replaced.
const MADE_BY_KUBE_CONTROLLERS: &[(Kind, &[Kind])] = &[
    (Kind::DEPLOYMENT, &[Kind::REPLICA_SET]),
    (Kind::REPLICA_SET, &[Kind::POD]),
    (Kind::STATEFUL_SET, &[Kind::POD]),
    (Kind::DAEMON_SET, &[Kind::POD]),
    (Kind::JOB, &[Kind::POD]),
    (Kind::CRON_JOB, &[Kind::JOB]),
    (Kind::REPLICATION_CONTROLLER, &[Kind::POD]),
    (Kind::POD, &[Kind::RESOURCE_CLAIM]),
];

/// The kinds of objects that operators create from others, as `MADE_BY_KUBE_CONTROLLERS` has them.
const MADE_BY_OPERATORS: &[(Kind, &[Kind])] = &[
    // The workers of a LeaderWorkerSet, which their leader owns.
    (Kind::POD, &[Kind::STATEFUL_SET]),
    (Kind::SCALED_OBJECT, &[Kind::HPA]),
    (Kind::SCALED_JOB, &[Kind::JOB]),
    (Kind::new("argoproj.io", "CronWorkflow"), &[Kind::ARGO_WORKFLOW]),
    (Kind::ROLLOUT, &[Kind::REPLICA_SET]),
    (Kind::ARGO_WORKFLOW, &[Kind::POD]),
    (Kind::VOLCANO_JOB, &[Kind::POD]),
    (Kind::JOB_SET, &[Kind::JOB]),
    (Kind::JAX_JOB, &[Kind::POD]),
    (Kind::MPI_JOB, &[Kind::POD, Kind::JOB]),
    (Kind::new("kubeflow.org", "Notebook"), &[Kind::STATEFUL_SET]),
    (Kind::PADDLE_JOB, &[Kind::POD]),
    (Kind::PYTORCH_JOB, &[Kind::POD]),
    (Kind::TF_JOB, &[Kind::POD]),
    (Kind::XGBOOST_JOB, &[Kind::POD]),
    (Kind::LEADER_WORKER_SET, &[Kind::STATEFUL_SET]),
    (Kind::RAY_CLUSTER, &[Kind::POD]),
    (Kind::RAY_JOB, &[Kind::RAY_CLUSTER, Kind::JOB]),
    (Kind::RAY_SERVICE, &[Kind::RAY_CLUSTER]),
    (Kind::INFERENCE_SERVICE, &[Kind::DEPLOYMENT, Kind::HPA, Kind::SCALED_OBJECT, Kind::KNATIVE_SERVICE]),
    (Kind::new("sparkoperator.k8s.io", "SparkApplication"), &[Kind::POD]),
    (Kind::TRAIN_JOB, &[Kind::JOB_SET]),
];

/// Both tables.
const MADE: [&[(Kind, &[Kind])]; 2] = [MADE_BY_KUBE_CONTROLLERS, MADE_BY_OPERATORS];

/// Kinds of which a cluster may have as many objects as Pods. Those with an owner that is checked are not stored, and the
/// owner is not looked up.
pub(crate) const NUMEROUS: [Kind; 3] = [Kind::POD, Kind::REPLICA_SET, Kind::RESOURCE_CLAIM];

/// The objects that were created by controllers, by kind, namespace and name. Rules do not see these objects, but they may
/// own others: the JobSet of a TrainJob owns Jobs.
#[derive(Debug, Default)]
pub(crate) struct DerivedOwners(BTreeMap<(Kind, String, String), Object>);

impl DerivedOwners {
    pub(crate) fn insert(&mut self, kind: Kind, namespace: String, name: String, object: Object) {
        self.0.insert((kind, namespace, name), object);
    }

    /// An object that is in the cluster, or was created by a controller.
    pub(crate) fn find<'o>(
        derived: Option<&'o DerivedOwners>,
        cluster: &'o Cluster,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Lookup<'o> {
        match cluster.find(kind, namespace, name) {
            Lookup::Found(object) => Lookup::Found(object),
            other => {
                let key = (kind, namespace.to_owned(), name.to_owned());
                derived.and_then(|derived| derived.0.get(&key)).map_or(other, Lookup::Found)
            }
        }
    }
}

/// Whether requests of this kind, sender and namespace are exempt, regardless of their object, or the request only finishes a
/// deletion.
pub(crate) fn is_exempt(engine: &Engine, request: &Request<'_>) -> bool {
    let is_write = matches!(request.operation.as_str(), "CREATE" | "UPDATE")
        && request.sub_resource.as_deref().unwrap_or_default().is_empty();
    let namespaces = &engine.settings().webhook.exempt_namespaces;
    let namespace = request.namespace.as_ref();
    !is_write
        || is_exempt_sender(engine, request)
        || namespace.is_some_and(|n| namespaces.matches(n))
        || only_deletes(request)
}

/// Whether the sender is exempt. Karpenter annotates NodePools and creates NodeClaims; denying those would stop
/// provisioning. Controllers apply what others have written.
fn is_exempt_sender(engine: &Engine, request: &Request<'_>) -> bool {
    let webhook = &engine.settings().webhook;
    let user = &request.user_info;
    user.username == KUBE_CONTROLLER_MANAGER
        || user.groups.iter().any(|g| webhook.exempt_groups.contains(g))
        || service_account(request)
            .is_some_and(|(namespace, name)| namespace == "kube-system" && KUBE_CONTROLLERS.contains(&name))
        || is_account_of(&webhook.exempt_accounts, request)
}

/// The namespaces that the configuration names, in exemptions and accounts, and that do not exist. Who creates one of them is
/// not checked in it, or speaks for an operator. `None` if the namespaces are not known yet.
pub(crate) fn missing_namespaces(engine: &Engine, cluster: &Cluster) -> Option<Vec<String>> {
    if !cluster.is_complete_for(Kind::NAMESPACE) {
        return None;
    }
    let webhook = &engine.settings().webhook;
    let accounts = webhook.exempt_accounts.iter().chain(&webhook.operators);
    let accounts = accounts.filter_map(|account| Some(account.split_once('/')?.0));
    let exempt = webhook.exempt_namespaces.patterns().iter().map(String::as_str);
    let names: BTreeSet<&str> = accounts.chain(exempt.filter(|name| is_dns_label(name))).collect();
    let is_missing = |name: &&str| matches!(cluster.find(Kind::NAMESPACE, "default", name), Lookup::Missing);
    Some(names.into_iter().filter(is_missing).map(str::to_owned).collect())
}

/// What the sender of a request may say of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    /// Whether its suppressions count: those of the annotation.
    pub(crate) may_suppress: bool,
    /// Whether its owner references count: it is an operator.
    pub(crate) may_own: bool,
}

impl Standing {
    pub(crate) fn of(engine: &Engine, request: &Request<'_>) -> Standing {
        let webhook = &engine.settings().webhook;
        let user = &request.user_info;
        let suppressors = webhook.may_suppress.as_ref();
        Standing {
            may_suppress: suppressors.is_none_or(|who| who.include(&user.username, &user.groups)),
            may_own: is_account_of(&webhook.operators, request),
        }
    }
}

fn is_account_of(accounts: &[String], request: &Request<'_>) -> bool {
    let sender = service_account(request);
    sender.is_some_and(|sender| accounts.iter().any(|account| account.split_once('/') == Some(sender)))
}

/// Namespace and name of the service account that sent a request.
fn service_account<'r>(request: &'r Request<'_>) -> Option<(&'r str, &'r str)> {
    request.user_info.username.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// Whether an operator created the object of a request from a known owner, by uid, that is checked itself. An update
/// may also release such an object. An HPA as KEDA makes it needs no known account.
pub(crate) fn is_derived(
    engine: &Engine,
    cluster: &Cluster,
    derived: Option<&DerivedOwners>,
    request: &Request<'_>,
) -> bool {
    // Operators create no cluster-scoped objects from an owner that is checked.
    let Some(namespace) = request.namespace.as_deref().filter(|n| !n.is_empty()) else { return false };
    let is_operator = is_account_of(&engine.settings().webhook.operators, request);
    let old_object = request.old_object.filter(|_| is_operator);
    let is_made_by_keda = |owner: &Object| {
        owner.is(Kind::SCALED_OBJECT)
            && object_in(request, namespace).is_some_and(|hpa| is_hpa_of(&hpa, owner))
    };
    [request.object, old_object].into_iter().filter_map(partial_metadata).any(|object| {
        let made = (group_of(&object.api_version), &*object.kind);
        object.controllers().any(|owner| {
            let named = (group_of(&owner.api_version), &*owner.kind);
            let Some(kind) = owner_kind(MADE_BY_OPERATORS, named, made) else { return false };
            let Lookup::Found(found) = DerivedOwners::find(derived, cluster, kind, namespace, &owner.name)
            else {
                return false;
            };
            has_uid(found, &owner.uid) && (is_operator || is_made_by_keda(found))
        })
    })
}

/// The service account that sent the request, as `NAMESPACE/NAME`, if it gives the object an owner like an operator, but
/// is not one.
pub(crate) fn unnamed_operator(engine: &Engine, request: &Request<'_>) -> Option<String> {
    let (namespace, name) = service_account(request)?;
    let object = partial_metadata(request.object)?;
    let made = (group_of(&object.api_version), &*object.kind);
    let is_pair = |owner: &OwnerReference<'_>| {
        owner_kind(MADE_BY_OPERATORS, (group_of(&owner.api_version), &owner.kind), made).is_some()
    };
    let is_named = is_account_of(&engine.settings().webhook.operators, request);
    (!is_named && object.controllers().any(is_pair)).then(|| format!("{namespace}/{name}"))
}

/// Whether an update takes a controller from the object, or gives it another one. The object then stands for itself,
/// and nobody may have checked it before.
pub(crate) fn loses_controller(request: &Request<'_>) -> bool {
    let Some(old) = partial_metadata(request.old_object).filter(|_| request.operation == "UPDATE") else {
        return false;
    };
    let new = partial_metadata(request.object);
    let stays = |owner: &OwnerReference<'_>| {
        new.as_ref().is_some_and(|new| new.controllers().any(|other| other.is_same(owner)))
    };
    old.controllers().any(|owner| !stays(owner))
}

/// The metadata of an object that has owners. Nothing is parsed if it cannot have any: Pods are most of a cluster's
/// requests.
fn partial_metadata(raw: Option<&RawValue>) -> Option<PartialObjectMetadata<'_>> {
    let raw = raw.filter(|raw| raw.get().contains(r#""ownerReferences""#))?;
    serde_json::from_str(raw.get()).ok()
}

fn has_uid(object: &Object, uid: &str) -> bool {
    !uid.is_empty() && object.path(&["metadata", "uid"]).text() == Some(uid)
}

pub(crate) fn object_in(request: &Request<'_>, namespace: &str) -> Option<Object> {
    let mut draft = Draft::read(request.object?.get()).ok()?;
    draft.set_string(&["metadata", "namespace"], namespace);
    Object::from_draft(draft)
}

/// An owner that an object states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    kind: Kind,
    name: String,
    uid: String,
}

/// The controllers of kinds that are checked from which the object was created, as its metadata states.
pub(crate) fn claims(object: &Object) -> Vec<Claim> {
    let id = object.id();
    if id.namespace().is_none() {
        return Vec::new();
    }
    let owners = object.path(&["metadata", "ownerReferences"]);
    let claim = |owner: gpulint_rules::Node<'_>| {
        let text = |key: &str| owner.get(key).text();
        let (named, made) =
            ((group_of(text("apiVersion")?), text("kind")?), (id.group.as_str(), id.kind.as_str()));
        let kind = MADE.iter().find_map(|table| owner_kind(table, named, made))?;
        let is_controller = owner.get("controller").bool() == Some(true);
        let words = |key: &str| text(key).unwrap_or_default().to_owned();
        is_controller.then(|| Claim { kind, name: words("name"), uid: words("uid") })
    };
    owners.items().filter_map(claim).collect()
}

/// Whether a stored object was made by one of these owners: the owner exists, and KEDA's HPA is as KEDA makes it. What the
/// metadata states counts where the owner is not known.
pub(crate) fn is_of_owner<'o>(
    object: &Object,
    claims: &[Claim],
    find: impl Fn(Kind, &str, &str) -> Lookup<'o>,
) -> bool {
    let namespace = object.id().namespace().unwrap_or_default();
    claims.iter().any(|claim| match find(claim.kind, namespace, &claim.name) {
        _ if NUMEROUS.contains(&claim.kind) => true,
        Lookup::Found(owner) => has_uid(owner, &claim.uid) && scales_as_made(object, owner),
        Lookup::Missing => false,
        Lookup::Unknown => true,
    })
}

/// Whether an object, if it is an autoscaler, scales what its owner makes it for: an HPA as KEDA makes it for a ScaledObject, or
/// a Deployment of an InferenceService, whose name begins with that of its owner.
fn scales_as_made(object: &Object, owner: &Object) -> bool {
    if object.is(Kind::HPA) && owner.is(Kind::SCALED_OBJECT) {
        return is_hpa_of(object, owner);
    }
    !owner.is(Kind::INFERENCE_SERVICE)
        || !(object.is(Kind::HPA) || object.is(Kind::SCALED_OBJECT))
        || scale_target(object).is_some_and(|(_, _, name)| {
            name.strip_prefix(owner.name()).is_some_and(|rest| rest.starts_with('-'))
        })
}

/// Whether there may be as many objects of its kind as Pods.
pub(crate) fn is_numerous(object: &Object) -> bool {
    NUMEROUS.iter().any(|kind| object.is(*kind))
}

/// Whether operators create objects from objects of its kind.
pub(crate) fn may_own(object: &Object) -> bool {
    MADE_BY_OPERATORS.iter().any(|(owner, _)| object.is(*owner))
}

/// The kind of an owner, if it is checked and controllers create objects of the other kind from it.
fn owner_kind(table: &[(Kind, &[Kind])], owner: (&str, &str), made: (&str, &str)) -> Option<Kind> {
    let is = |kind: &Kind, (group, name): (&str, &str)| kind.group == group && kind.kind == name;
    let (owner, kinds) = table.iter().find(|(kind, _)| is(kind, owner))?;
    (kinds.iter().any(|kind| is(kind, made)) && kinds::is_checked(owner.group, owner.kind)).then_some(*owner)
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The metadata of an object with its owners, deserialized without the rest. An object whose metadata has other types
/// has no owner.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialObjectMetadata<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    owner_references: Vec<OwnerReference<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: bool,
}

impl PartialObjectMetadata<'_> {
    fn controllers(&self) -> impl Iterator<Item = &OwnerReference<'_>> {
        self.metadata.owner_references.iter().filter(|owner| owner.controller)
    }
}

impl OwnerReference<'_> {
    fn is_same(&self, other: &OwnerReference<'_>) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.kind == other.kind
            && group_of(&self.api_version) == group_of(&other.api_version)
    }
}

/// Whether the object of an update is being deleted, and all but its metadata and status stays as it was: such updates remove
/// finalizers.
fn only_deletes(request: &Request<'_>) -> bool {
    const SIGN: &str = "\"deletionTimestamp\"";
    let (Some(new), Some(old)) = (request.object, request.old_object) else { return false };
    if !new.get().contains(SIGN) {
        return false;
    }
    let read = |raw: &RawValue| Draft::read(raw.get()).ok();
    let without_metadata = |mut draft: Draft| {
        draft.remove(&["metadata"]);
        draft.remove(&["status"]);
        draft.to_json()
    };
    let (Some(new), Some(old)) = (read(new), read(old)) else { return false };
    new.string(&["metadata", "deletionTimestamp"]).is_some() && without_metadata(new) == without_metadata(old)
}

#[cfg(test)]
mod tests {
    use gpulint_rules::Settings;
    use serde_json::{Value, json};

    use super::*;

    fn request(body: &str) -> Request<'_> {
        serde_json::from_str(body).unwrap()
    }

    fn pod(owner: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1-a", "namespace": "ml",
            "ownerReferences": [owner]}, "spec": {"containers": []}})
    }

    fn replica_set() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "7e1a", "controller": true})
    }

    #[test]
    fn every_kind_of_the_table_is_checked_and_namespaced() {
        let all = MADE.iter().copied().flatten().flat_map(|(owner, made)| made.iter().chain([owner]));
        let fits = |kind: &Kind| {
            kinds::is_checked(kind.group, kind.kind) && kind.info().is_some_and(|row| row.namespaced)
        };
        let wrong: Vec<&Kind> = all.filter(|kind| !fits(kind)).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(KUBE_CONTROLLERS.is_sorted());
    }

    #[test]
    fn an_owner_counts_for_operators_that_make_the_kind_and_know_the_uid() {
        let mut cluster = Cluster::new(true);
        let mut derived = DerivedOwners::default();
        let job_set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "web-1", "namespace": "ml", "uid": "7e1a"}});
        derived.insert(Kind::JOB_SET, "ml".into(), "web-1".into(), Object::from_json(&job_set).unwrap());
        let scaled = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob",
            "metadata": {"name": "train", "namespace": "ml", "uid": "90ab"}, "spec": {}});
        cluster.apply(Object::from_json(&scaled).unwrap());
        let engine = Engine::new(Settings::default());
        let by = |user: &str, operation: &str, object: &Value, old: &Value, namespace: Value| {
            let body = json!({"uid": "u", "operation": operation, "namespace": namespace, "object": object,
                "oldObject": old, "userInfo": {"username": user}});
            let body = body.to_string();
            super::is_derived(&engine, &cluster, Some(&derived), &request(&body))
        };
        const KEDA: &str = "system:serviceaccount:keda:keda-operator";
        let is_derived =
            |object: &Value, namespace: Value| by(KEDA, "CREATE", object, &Value::Null, namespace);
        let job = |owner: &Value| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train-1", "namespace": "ml",
                "ownerReferences": [owner]}, "spec": {"template": {"spec": {"containers": []}}}})
        };
        let known = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "name": "train", "uid": "90ab",
            "controller": true});
        let with = |key: &str, value: Value| {
            let mut owner = known.clone();
            owner[key] = value;
            job(&owner)
        };
        let job_set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "web-1",
            "uid": "7e1a", "controller": true});
        assert!(is_derived(&job(&known), "ml".into()));
        assert!(is_derived(&job(&job_set), "ml".into()));
        // Of a release, the old object has the owner.
        let mut released = job(&known);
        released["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        assert!(by(KEDA, "UPDATE", &released, &job(&known), "ml".into()));
        for user in
            ["somebody", "system:serviceaccount:ml:keda-operator", "keda-operator", "keda/keda-operator"]
        {
            assert!(!by(user, "CREATE", &job(&known), &Value::Null, "ml".into()), "{user}");
        }
        // Invented, or in another namespace, or of an earlier object with the same name.
        for (object, namespace) in [
            (with("name", "made-up".into()), "ml".into()),
            (with("uid", "made-up".into()), "ml".into()),
            (with("uid", Value::Null), "ml".into()),
            (with("uid", "".into()), "ml".into()),
            (with("controller", false.into()), "ml".into()),
            (with("controller", "true".into()), "ml".into()),
            (with("apiVersion", "v1".into()), "ml".into()),
            (with("kind", "Widget".into()), "ml".into()),
            (job(&known), "other".into()),
            (job(&known), Value::Null),
            (job(&json!("odd")), "ml".into()),
            (json!([1]), "ml".into()),
        ] {
            assert!(!is_derived(&object, namespace), "{object}");
        }
        // Operators create no NodePool, no Deployment from a ScaledJob, and no Pod from a ReplicaSet.
        for (version, kind) in [("karpenter.sh/v1", "NodePool"), ("apps/v1", "Deployment")] {
            let mut object = job(&known);
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            assert!(!is_derived(&object, "ml".into()), "{kind}");
        }
        derived_pod_of_a_replica_set(&engine);
    }

    fn derived_pod_of_a_replica_set(engine: &Engine) {
        let mut derived = DerivedOwners::default();
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web-1", "namespace": "ml", "uid": "7e1a"}});
        derived.insert(Kind::REPLICA_SET, "ml".into(), "web-1".into(), Object::from_json(&owner).unwrap());
        let body = json!({"uid": "u", "operation": "CREATE", "namespace": "ml", "object": pod(&replica_set()),
            "userInfo": {"username": "system:serviceaccount:keda:keda-operator"}});
        let body = body.to_string();
        assert!(!super::is_derived(engine, &Cluster::new(true), Some(&derived), &request(&body)));
    }

    #[test]
    fn namespaces_that_are_named_and_do_not_exist_are_found() {
        let config = gpulint_rules::lint::config::Config::parse(
            "gpulint.yaml",
            "webhook: {exempt-namespaces: [kube-system, \"infra-*\"], exempt-accounts: [karpenter/karpenter], operators: [keda/keda-operator]}",
        );
        let engine = Engine::new(config.unwrap().resolve());
        let mut cluster = Cluster::new(false);
        assert_eq!(missing_namespaces(&engine, &cluster), None);
        let there = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
        cluster.apply(Object::from_json(&there).unwrap());
        cluster.mark_complete(Kind::NAMESPACE);
        assert_eq!(
            missing_namespaces(&engine, &cluster),
            Some(vec!["karpenter".to_owned(), "keda".to_owned()])
        );
    }

    #[test]
    fn an_hpa_as_keda_makes_it_is_kedas_in_any_namespace() {
        let scaled = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": {"name": "chat", "namespace": "ml", "uid": "90ab"},
            "spec": {"scaleTargetRef": {"name": "chat"}, "minReplicaCount": 0, "maxReplicaCount": 4}});
        let mut cluster = Cluster::new(true);
        cluster.apply(Object::from_json(&scaled).unwrap());
        let engine = Engine::new(Settings::default());
        let like_keda = |target: &str, limits: (u32, u32)| {
            json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
                "minReplicas": limits.0, "maxReplicas": limits.1})
        };
        let is_derived_with = |name: &str, uid: &str, user: &str, spec: Value| {
            let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": name, "namespace": "ml", "ownerReferences": [{"apiVersion": "keda.sh/v1alpha1",
                    "kind": "ScaledObject", "name": "chat", "uid": uid, "controller": true}]}, "spec": spec});
            let body = json!({"uid": "u", "operation": "CREATE", "namespace": "ml", "object": hpa,
                "userInfo": {"username": user}});
            super::is_derived(&engine, &cluster, None, &request(&body.to_string()))
        };
        let is_derived =
            |name: &str, uid: &str, user: &str| is_derived_with(name, uid, user, like_keda("chat", (1, 4)));
        const ELSEWHERE: &str = "system:serviceaccount:scaling:keda-operator";
        for (target, limits) in [("other", (1, 4)), ("chat", (2, 4)), ("chat", (1, 40))] {
            let spec = like_keda(target, limits);
            assert!(!is_derived_with("keda-hpa-chat", "90ab", ELSEWHERE, spec), "{target} {limits:?}");
        }
        assert!(is_derived("keda-hpa-chat", "90ab", ELSEWHERE));
        assert!(!is_derived("keda-hpa-chat", "made-up", ELSEWHERE));
        assert!(!is_derived("chat", "90ab", ELSEWHERE), "a second HPA");
        assert!(is_derived("chat", "90ab", "system:serviceaccount:keda:keda-operator"));
    }

    #[test]
    fn an_autoscaler_of_an_inference_service_scales_a_deployment_of_it() {
        let owner = json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
            "metadata": {"name": "llm", "namespace": "ml", "uid": "7e1a"}, "spec": {}});
        let owner = Object::from_json(&owner).unwrap();
        for (target, is_made) in
            [("llm-predictor", true), ("llm", false), ("llm2-predictor", false), ("other", false)]
        {
            let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "llm-predictor", "namespace": "ml", "ownerReferences": [
                    {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "llm",
                     "uid": "7e1a", "controller": true}]},
                "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}});
            let hpa = Object::from_json(&hpa).unwrap();
            let found = is_of_owner(&hpa, &claims(&hpa), |_, _, _| Lookup::Found(&owner));
            assert_eq!(found, is_made, "{target}");
        }
    }

    #[test]
    fn senders_are_exempt_by_account_and_group() {
        let settings = |text: &str| {
            let config = gpulint_rules::lint::config::Config::parse("gpulint.yaml", text).unwrap();
            config.resolve()
        };
        let is_exempt = |settings: Settings, user: &str, groups: &[&str]| {
            let body = json!({"uid": "u", "operation": "UPDATE", "namespace": "ml",
                "userInfo": {"username": user, "groups": groups}});
            super::is_exempt(&Engine::new(settings), &request(&body.to_string()))
        };
        let account = |name: &str| format!("system:serviceaccount:{name}");
        for user in [
            account("kube-system:karpenter"),
            account("karpenter:karpenter"),
            account("kube-system:generic-garbage-collector"),
            account("kube-system:replicaset-controller"),
            "system:kube-controller-manager".to_owned(),
        ] {
            assert!(is_exempt(Settings::default(), &user, &[]), "{user}");
        }
        for user in [
            account("ml:karpenter"),
            account("ml:replicaset-controller"),
            account("kube-system:default"),
            account("karpenter"),
            "karpenter/karpenter".to_owned(),
            "somebody".to_owned(),
        ] {
            assert!(!is_exempt(Settings::default(), &user, &[]), "{user}");
        }
        let listed =
            "webhook: {exempt-accounts: [ray/kuberay-operator], exempt-groups: [\"ops:break-glass\"]}";
        assert!(is_exempt(settings(listed), &account("ray:kuberay-operator"), &[]));
        assert!(is_exempt(settings(listed), "somebody", &["ops:break-glass"]));
        assert!(!is_exempt(settings(listed), &account("karpenter:karpenter"), &["ops"]));
    }
}
