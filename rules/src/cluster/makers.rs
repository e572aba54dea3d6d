//! What brings or makes objects that the input does not have: charts that are not rendered, other repositories, and objects from
//! which a tool or an operator makes others.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::together::{Company, folder, of_folders};
use crate::cluster::versions::{Fact, OutsideFact};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::charts::CHART_KINDS;

/// The fields of custom resources that name a Secret, in the documentation of their operators: the groups, the kind, the field with
/// one target or a list of them, the name in it, and the namespace, which is that of the object if the field is empty or absent.
/// Without a field for the name the Secret has that of the object.
const SECRETS: [(&str, &str, &[&str], &str, &str); 14] = [
    ("cert-manager.io", "Certificate", &["spec"], "secretName", ""),
    ("external-secrets.io", "ExternalSecret", &["spec", "target"], "name", ""),
    ("bitnami.com", "SealedSecret", &["spec", "template", "metadata"], "name", ""),
    ("secrets.hashicorp.com", "VaultStaticSecret", &["spec", "destination"], "name", ""),
    ("secrets.hashicorp.com", "VaultDynamicSecret", &["spec", "destination"], "name", ""),
    ("secrets.hashicorp.com", "VaultPKISecret", &["spec", "destination"], "name", ""),
    ("ricoberger.de", "VaultSecret", &[], "", ""),
    (
        "secrets.infisical.com",
        "InfisicalSecret",
        &["spec", "managedSecretReference"],
        "secretName",
        "secretNamespace",
    ),
    (
        "secrets.infisical.com",
        "InfisicalSecret",
        &["spec", "managedKubeSecretReferences"],
        "secretName",
        "secretNamespace",
    ),
    ("secrets.doppler.com", "DopplerSecret", &["spec", "managedSecret"], "name", "namespace"),
    ("onepassword.com", "OnePasswordItem", &[], "", ""),
    ("k8s.bitwarden.com", "BitwardenSecret", &["spec"], "secretName", ""),
    ("isindir.github.com", "SopsSecret", &["spec", "secretTemplates"], "name", ""),
    ("secrets-store.csi.x-k8s.io", "SecretProviderClass", &["spec", "secretObjects"], "secretName", ""),
];

/// An object that something of the input makes: `None` where it may be any.
#[derive(Debug, PartialEq)]
struct Made {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Made {
    fn new(kind: &str, namespace: Option<&str>, name: Option<&str>) -> Made {
        Made {
            kind: Some(kind.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }

    fn fits(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let fits = |own: &Option<String>, wanted: &str| own.as_deref().is_none_or(|own| own == wanted);
        fits(&self.kind, kind.kind) && fits(&self.namespace, namespace) && fits(&self.name, name)
    }
}

/// The objects that the objects of the input make.
struct MadeObjects;

impl Query for MadeObjects {
    const SLOT: QuerySlot = QuerySlot::MadeObjects;
    const KINDS: &'static [Kind] = &CHART_KINDS;
    type Key = ();
    type Value = Arc<[Made]>;

    fn may_read(object: &Object) -> bool {
        !made_by(object).is_empty()
    }

    fn compute(cluster: &Cluster, (): &()) -> Arc<[Made]> {
        cluster.objects().iter().flat_map(made_by).collect()
    }
}

/// Whether an object of the input brings objects that are not rendered.
struct Charts;

impl Query for Charts {
    const SLOT: QuerySlot = QuerySlot::Charts;
    const KINDS: &'static [Kind] = &CHART_KINDS;
    type Key = ();
    type Value = bool;

    fn may_read(object: &Object) -> bool {
        CHART_KINDS.iter().chain(&[Kind::ARGO_APPLICATION_SET]).any(|kind| object.is(*kind))
            || is_chart_of_k3s(object)
    }

    fn compute(cluster: &Cluster, (): &()) -> bool {
        CHART_KINDS.iter().any(|kind| cluster.has_any(*kind))
            || cluster
                .objects()
                .iter()
                .any(|object| object.is(Kind::ARGO_APPLICATION_SET) || is_chart_of_k3s(object))
    }
}

/// Whether an object is a chart that K3s or RKE2 installs.
fn is_chart_of_k3s(object: &Object) -> bool {
    object.group() == "helm.cattle.io" && object.kind() == "HelmChart"
}

/// Whether charts, generated Applications, or resources of other repositories may bring objects that are not in the input.
pub(crate) fn may_bring_objects(cluster: &Cluster) -> bool {
    cluster.query::<Charts>(&()) || cluster.is_shown(&Fact::Elsewhere)
}

/// Whether a document that is not read, such as a template, has an object of this kind and name, or one whose name is not known.
pub(crate) fn may_be_unread(cluster: &Cluster, kind: &str, name: &str) -> bool {
    cluster.outside_facts().iter().any(|one| match &one.fact {
        Fact::Unread(own, of) => own == kind && of.as_deref().is_none_or(|of| of == name),
        _ => false,
    })
}

/// Whether a document that is not read has an object of one of these kinds, in the folder of an object, above or below.
pub(crate) fn has_unread_near(object: &Object, cluster: &Cluster, kinds: &[Kind]) -> bool {
    let Some(origin) = object.origin() else { return false };
    let here = folder(origin.source.path());
    let is_near = |path: &str| of_folders(here, folder(path)) != Company::Apart;
    cluster.outside_facts().iter().any(|one| match &one.fact {
        Fact::Unread(own, _) => kinds.iter().any(|kind| kind.kind == own) && is_near(&one.path),
        _ => false,
    })
}

/// Whether a tool or an operator makes an object of this kind and name of another one of the input, a kustomization generates it, or
/// a document that is not read has it.
pub(crate) fn may_be_made(cluster: &Cluster, kind: Kind, namespace: &str, name: &str) -> bool {
    cluster.query::<MadeObjects>(&()).iter().any(|made| made.fits(kind, namespace, name))
        || [Kind::SECRET, Kind::CONFIG_MAP].contains(&kind) && is_generated(cluster, name)
        || may_be_unread(cluster, kind.kind, name)
}

/// Whether a kustomization generates a ConfigMap or a Secret of this name, or adds keys to one.
pub(crate) fn is_generated(cluster: &Cluster, name: &str) -> bool {
    let is_it = |one: &OutsideFact| matches!(&one.fact, Fact::Generated(own) if own == name);
    cluster.outside_facts().iter().any(is_it)
}

fn made_by(object: &Object) -> Vec<Made> {
    match (object.group(), object.kind()) {
        ("eksctl.io", "ClusterConfig") => of_eksctl(object),
        ("kyverno.io", "ClusterPolicy" | "Policy") => of_kyverno(object),
        // The kinds are in expressions.
        ("policies.kyverno.io", "GeneratingPolicy" | "NamespacedGeneratingPolicy") => {
            vec![Made { kind: None, namespace: None, name: None }]
        }
        // A chart may bring anything.
        _ if is_chart_of_k3s(object) => vec![Made { kind: None, namespace: None, name: None }],
        // K3s brings RuntimeClasses for each runtime that it finds, `nvidia` among them (`manifests/runtimes.yaml`, from 1.29 on).
        ("helm.cattle.io" | "k3s.cattle.io", _) => vec![Made::new("RuntimeClass", None, None)],
        ("external-secrets.io", "ClusterExternalSecret") => {
            let spec = object.get("spec");
            let names =
                [spec.path(&["externalSecretSpec", "target", "name"]), spec.get("externalSecretName")];
            let name = names.into_iter().find(Node::is_set);
            vec![Made::new("Secret", None, name.map_or(Some(object.name()), |name| name.text()))]
        }
        _ => secrets_of(object),
    }
}

fn secrets_of(object: &Object) -> Vec<Made> {
    let rows = SECRETS.iter().filter(|(group, kind, ..)| object.group() == *group && object.kind() == *kind);
    let of_row = |(_, _, field, name, namespace): &(&str, &str, &[&str], &str, &str)| {
        let field = object.path(field);
        let targets: Vec<Node<'_>> =
            if field.is_sequence() { field.items().collect() } else { vec![field.clone()] };
        let made = move |target: Node<'_>| {
            let (name, place) = (target.get(name), target.get(namespace));
            let name = if name.is_set() { name.text() } else { Some(object.name()) };
            let place = if place.is_set() { place.text() } else { object.namespace() };
            Made::new("Secret", place, name)
        };
        targets.into_iter().map(made).collect::<Vec<_>>()
    };
    rows.flat_map(of_row).collect()
}

/// The ServiceAccounts that eksctl makes (`iam` and `karpenter` of the schema of `eksctl.io/v1alpha5`).
fn of_eksctl(object: &Object) -> Vec<Made> {
    let accounts = object.root().items_at(&["iam", "serviceAccounts"]).filter_map(|account| {
        let metadata = account.get("metadata");
        let is_made = account.get("roleOnly").bool() != Some(true);
        is_made.then(|| (metadata.get("namespace"), metadata.get("name")))
    });
    let associations = object.root().items_at(&["iam", "podIdentityAssociations"]).filter_map(|one| {
        let is_made = one.get("createServiceAccount").bool() == Some(true);
        is_made.then(|| (one.get("namespace"), one.get("serviceAccountName")))
    });
    let made = |(namespace, name): (Node<'_>, Node<'_>)| {
        let namespace = if namespace.is_set() { namespace.text() } else { Some("default") };
        Made::new("ServiceAccount", namespace, name.text())
    };
    let mut all: Vec<Made> = accounts.chain(associations).map(made).collect();
    if object.path(&["karpenter", "createServiceAccount"]).bool() == Some(true) {
        all.push(Made::new("ServiceAccount", None, Some("karpenter")));
    }
    all
}

/// The objects that rules of Kyverno generate. A name with a variable may be any.
fn of_kyverno(object: &Object) -> Vec<Made> {
    let rules = object.root().items_at(&["spec", "rules"]).map(|rule| rule.get("generate"));
    let targets = rules.flat_map(|rule| {
        let each: Vec<Node<'_>> = rule.get("foreach").items().collect();
        std::iter::once(rule).chain(each)
    });
    let made = |target: Node<'_>| {
        let plain = |field: &str| target.get(field).text();
        let kind = plain("kind").map(str::to_owned);
        let clones = target.path(&["cloneList", "kinds"]).is_set();
        (kind.is_some() || clones).then(|| Made {
            kind,
            namespace: plain("namespace").map(str::to_owned),
            name: plain("name").map(str::to_owned),
        })
    };
    targets.filter_map(made).collect()
}
