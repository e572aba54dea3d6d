//! A manifest has the `resourceVersion` of the object that it was exported from.
//!
//! # Why
//! `kubectl get -o yaml` writes what the API server keeps about an object. A manifest with a
//! `resourceVersion` creates nothing: `resourceVersion should not be set on objects to be created`. Where the
//! object exists, it applies until somebody changes the object, and conflicts from then on.
//!
//! Nothing is said of files with the `status` of an object, which are pictures of a cluster and no manifests,
//! of objects that controllers write, such as a Lease, nor of standard input and objects of a cluster. A
//! ConfigMap and other kinds without a `spec` are information.
//!
//! # Fix
//! Remove the fields under `metadata` that the API server writes: `resourceVersion`, `uid`,
//! `creationTimestamp`, `generation` and `managedFields`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Service
//!  metadata:
//!    name: front
//! -  resourceVersion: "48213" # <-
//! -  uid: 0f6b2d7e-54f8-4d0c-9f3e-6a0c1f4b7d21
//!  spec:
//!    clusterIP: None
//!    ports: [{port: 80}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>

use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "exported-object",
    fix: Some(Safety::Safe),
    docs: docs(include_str!("exported_object.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// What the API server writes under `metadata`, besides the version.
const WRITTEN: [&str; 5] = ["creationTimestamp", "generation", "managedFields", "selfLink", "uid"];

/// Kinds whose objects components of Kubernetes and Karpenter write: a file has them only as a picture of a cluster.
const WRITTEN_BY_CONTROLLERS: [&str; 9] = [
    "CSINode",
    "ControllerRevision",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "Lease",
    "Node",
    "NodeClaim",
    "VolumeAttachment",
];

/// Grafana reads dashboards and folders of this form from disk, and keeps the fields.
const GRAFANA_GROUPS: &str = ".grafana.app";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.group().ends_with(GRAFANA_GROUPS) {
        return None;
    }
    let metadata = object.get("metadata");
    let version = metadata.get("resourceVersion");
    let is_version = version.string_or_number().is_some_and(|text| !text.is_empty() && text != "0");
    if !is_version || object.is_patch() || object.is_patched_by_kustomize() {
        return None;
    }
    let source = object.source().filter(|source| source.path() != "<stdin>")?;
    let is_picture = object.get("status").is_set()
        || object.controller().is_some()
        || WRITTEN_BY_CONTROLLERS.contains(&object.kind())
        || source.shows_status();
    if is_picture {
        return None;
    }
    let written = WRITTEN.into_iter().map(|name| metadata.get(name)).filter(Node::is_set);
    let fix = Fix::new("remove what the API server writes", Safety::Safe).remove(&version);
    let fix = written.fold(fix, |fix, node| fix.remove(&node));
    let finding = ctx.report(&version, "`resourceVersion` may not be set on an object that is created");
    finding.at_key().help("remove it, and the other fields that the API server writes").fix(fix);
    if is_example(object) || !object.get("spec").is_set() {
        finding.severity(Severity::Info);
    }
    None
}
