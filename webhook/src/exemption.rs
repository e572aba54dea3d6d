//! Requests that are allowed without running rules: because of their sender, their namespace, or because a controller
//! created the object from one that is checked.
//!
//! An owner reference alone is not a proof, because any client may write one. It is accepted if controllers create
//! objects of that kind from owners of that kind, and the owner exists: the cache has it with the same uid. Objects
//! that controllers of kube-system create need no proof, because the requests of these accounts are exempt.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gpulint_rules::{Cluster, Engine, Kind, Lookup, Object};
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

/// Namespaced kinds that controllers create, by the kind of the owner: group and kind of the owner, then of the
/// created object. Denying a Pod would not undo its Deployment; it would only prevent running Pods from being
/// replaced.
const MADE_BY_CONTROLLERS: &[(Kind, &[Kind])] = &[
    (Kind::DEPLOYMENT, &[Kind::REPLICA_SET]),
    (Kind::REPLICA_SET, &[Kind::POD]),
    (Kind::STATEFUL_SET, &[Kind::POD]),
    (Kind::DAEMON_SET, &[Kind::POD]),
    (Kind::JOB, &[Kind::POD]),
    (Kind::CRON_JOB, &[Kind::JOB]),
    (Kind::new("", "ReplicationController"), &[Kind::POD]),
    (Kind::POD, &[Kind::RESOURCE_CLAIM, Kind::STATEFUL_SET]),
    (Kind::SCALED_OBJECT, &[Kind::HPA]),
    (Kind::SCALED_JOB, &[Kind::JOB]),
    (Kind::new("argoproj.io", "Rollout"), &[Kind::REPLICA_SET]),
    (Kind::new("argoproj.io", "Workflow"), &[Kind::POD]),
    (Kind::new("batch.volcano.sh", "Job"), &[Kind::POD]),
    (Kind::new("jobset.x-k8s.io", "JobSet"), &[Kind::JOB]),
    (Kind::new("kubeflow.org", "JAXJob"), &[Kind::POD]),
    (Kind::new("kubeflow.org", "MPIJob"), &[Kind::POD, Kind::JOB]),
    (Kind::new("kubeflow.org", "Notebook"), &[Kind::STATEFUL_SET]),
    (Kind::new("kubeflow.org", "PaddleJob"), &[Kind::POD]),
    (Kind::new("kubeflow.org", "PyTorchJob"), &[Kind::POD]),
    (Kind::new("kubeflow.org", "TFJob"), &[Kind::POD]),
    (Kind::new("kubeflow.org", "XGBoostJob"), &[Kind::POD]),
    (Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), &[Kind::STATEFUL_SET]),
    (Kind::new("ray.io", "RayCluster"), &[Kind::POD]),
    (Kind::new("ray.io", "RayJob"), &[Kind::new("ray.io", "RayCluster"), Kind::JOB]),
    (Kind::new("ray.io", "RayService"), &[Kind::new("ray.io", "RayCluster")]),
    (
        Kind::new("serving.kserve.io", "InferenceService"),
        &[Kind::DEPLOYMENT, Kind::HPA, Kind::SCALED_OBJECT, Kind::new("serving.knative.dev", "Service")],
    ),
    (Kind::new("sparkoperator.k8s.io", "SparkApplication"), &[Kind::POD]),
    (Kind::new("trainer.kubeflow.org", "TrainJob"), &[Kind::new("jobset.x-k8s.io", "JobSet")]),
];

/// The uids of objects that were created by controllers, by kind, namespace and name. Rules do not see these objects,
/// but they may own others: the ReplicaSet of a Deployment owns Pods.
#[derive(Debug, Default)]
pub(crate) struct DerivedOwners(BTreeMap<(Kind, String, String), String>);

impl DerivedOwners {
    pub(crate) fn insert(&mut self, kind: Kind, namespace: String, name: String, uid: String) {
        self.0.insert((kind, namespace, name), uid);
    }
}

/// Whether requests of this kind, sender and namespace are exempt, regardless of their object.
pub(crate) fn is_exempt(engine: &Engine, request: &Request<'_>) -> bool {
    let is_write = matches!(request.operation.as_str(), "CREATE" | "UPDATE")
        && request.sub_resource.as_deref().unwrap_or_default().is_empty();
    let namespaces = &engine.settings().webhook.exempt_namespaces;
    let namespace = request.namespace.as_ref();
    !is_write || is_exempt_sender(engine, request) || namespace.is_some_and(|n| namespaces.matches(n))
}

/// Whether the sender is exempt. Karpenter annotates NodePools and creates NodeClaims; denying those would stop
/// provisioning. Controllers apply what others have written.
fn is_exempt_sender(engine: &Engine, request: &Request<'_>) -> bool {
    let webhook = &engine.settings().webhook;
    let user = &request.user_info;
    if user.username == KUBE_CONTROLLER_MANAGER
        || user.groups.iter().any(|g| webhook.exempt_groups.contains(g))
    {
        return true;
    }
    let account = user.username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    account.is_some_and(|(namespace, name)| {
        let listed = |a: &String| a.split_once('/') == Some((namespace, name));
        (namespace == "kube-system" && KUBE_CONTROLLERS.contains(&name))
            || webhook.exempt_accounts.iter().any(listed)
    })
}

/// Whether a controller created the object of a request from a known owner, by uid, that is checked itself.
pub(crate) fn is_derived(
    cluster: &Cluster,
    derived: Option<&DerivedOwners>,
    raw: Option<&RawValue>,
    request: &Request<'_>,
) -> bool {
    // Controllers create no cluster-scoped objects from an owner that is checked.
    let Some(namespace) = request.namespace.as_deref().filter(|n| !n.is_empty()) else {
        return false;
    };
    // Pods of ReplicaSets and similar objects are most of a cluster's requests: only their metadata is parsed, and
    // nothing if they cannot have an owner.
    let raw = raw.filter(|raw| raw.get().contains(r#""ownerReferences""#));
    let Some(object) = raw.and_then(|raw| serde_json::from_str::<PartialObjectMetadata<'_>>(raw.get()).ok())
    else {
        return false;
    };
    let made = (group_of(&object.api_version), &*object.kind);
    object.metadata.owner_references.iter().any(|owner| {
        let kind = owner_kind((group_of(&owner.api_version), &owner.kind), made).filter(|_| owner.controller);
        kind.is_some_and(|kind| exists(cluster, derived, kind, namespace, owner))
    })
}

/// Whether an owner is in the cache, with its uid.
fn exists(
    cluster: &Cluster,
    derived: Option<&DerivedOwners>,
    kind: Kind,
    namespace: &str,
    owner: &OwnerReference<'_>,
) -> bool {
    if owner.uid.is_empty() {
        return false;
    }
    if let Lookup::Found(object) = cluster.find(kind, namespace, &owner.name) {
        return object.path(&["metadata", "uid"]).text() == Some(&*owner.uid);
    }
    let key = (kind, namespace.to_owned(), owner.name.clone().into_owned());
    derived.and_then(|derived| derived.0.get(&key)).is_some_and(|uid| *uid == *owner.uid)
}

/// Whether the metadata of an object states that a controller created it from an owner of a kind that is checked.
pub(crate) fn has_checked_controller(object: &Object) -> bool {
    let id = object.id();
    let owners = object.path(&["metadata", "ownerReferences"]);
    id.namespace().is_some()
        && owners.items().any(|owner| {
            let (version, kind) = (owner.get("apiVersion"), owner.get("kind"));
            let named = version.text().zip(kind.text());
            owner.get("controller").bool() == Some(true)
                && named.is_some_and(|(version, kind)| {
                    owner_kind((group_of(version), kind), (&id.group, &id.kind)).is_some()
                })
        })
}

/// Whether controllers create objects from objects of this kind.
pub(crate) fn may_own(object: &Object) -> bool {
    // A Pod rarely owns objects, and there are many of them.
    !object.is(Kind::POD) && MADE_BY_CONTROLLERS.iter().any(|(owner, _)| object.is(*owner))
}

/// The kind of an owner, if it is checked and controllers create objects of the other kind from it.
fn owner_kind(owner: (&str, &str), made: (&str, &str)) -> Option<Kind> {
    let is = |kind: &Kind, (group, name): (&str, &str)| kind.group == group && kind.kind == name;
    let (owner, kinds) = MADE_BY_CONTROLLERS.iter().find(|(kind, _)| is(kind, owner))?;
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
        let all = MADE_BY_CONTROLLERS.iter().flat_map(|(owner, made)| made.iter().chain([owner]));
        let fits = |kind: &Kind| {
            kinds::is_checked(kind.group, kind.kind) && kind.info().is_some_and(|row| row.namespaced)
        };
        let wrong: Vec<&Kind> = all.filter(|kind| !fits(kind)).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(KUBE_CONTROLLERS.is_sorted());
    }

    #[test]
    fn an_owner_counts_where_controllers_make_the_kind_and_the_uid_is_known() {
        let mut cluster = Cluster::new(true);
        let mut derived = DerivedOwners::default();
        derived.insert(Kind::REPLICA_SET, "ml".into(), "web-1".into(), "7e1a".into());
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "ml", "uid": "90ab"},
            "spec": {"template": {"spec": {"containers": []}}}});
        cluster.apply(Object::from_json(&job).unwrap());
        let is_derived = |object: &Value, namespace: Value| {
            let body = json!({"uid": "u", "operation": "CREATE", "namespace": namespace, "object": object});
            let body = body.to_string();
            let request = request(&body);
            super::is_derived(&cluster, Some(&derived), request.object, &request)
        };
        let known = replica_set();
        let with = |key: &str, value: Value| {
            let mut owner = known.clone();
            owner[key] = value;
            pod(&owner)
        };
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "90ab", "controller": true});
        assert!(is_derived(&pod(&known), "ml".into()));
        assert!(is_derived(&pod(&job), "ml".into()));
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
            (pod(&known), "other".into()),
            (pod(&known), Value::Null),
            (pod(&json!("odd")), "ml".into()),
            (json!([1]), "ml".into()),
        ] {
            assert!(!is_derived(&object, namespace), "{object}");
        }
        // Controllers create no NodePool, and no Deployment from a Job.
        for (version, kind) in [("karpenter.sh/v1", "NodePool"), ("apps/v1", "Deployment")] {
            let mut object = pod(&job);
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            assert!(!is_derived(&object, "ml".into()), "{kind}");
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
