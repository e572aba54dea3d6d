//! The PersistentVolumeClaims that workloads write to.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

pub(crate) struct ClaimUsers;

impl View for ClaimUsers {
    const SLOT: ViewSlot = ViewSlot::ClaimUsers;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    type Row = Object;
    /// Namespace and name.
    type Key = (String, String);

    fn keys(object: &Object) -> Vec<(String, String)> {
        let templates = templates(object);
        let names = templates.iter().flat_map(|template| claims(object, template));
        let namespace = object.namespace_or_default();
        names.filter_map(|name| Some((namespace.to_owned(), claim_of(name.text()?).to_owned()))).collect()
    }
}

/// The places of a template that name a claim of all its pods, for writing.
pub(crate) fn claims<'a>(object: &'a Object, template: &Template<'a>) -> Vec<Node<'a>> {
    // A template of the same name replaces the volume with a claim for each replica.
    let own = object.path(&["spec", "volumeClaimTemplates"]);
    let of_replica =
        |name: &Node<'_>| own.items().any(|one| one.path(&["metadata", "name"]).text() == name.text());
    let volumes = template.spec.get("volumes").items().filter(|volume| !of_replica(&volume.get("name")));
    let sources = volumes.map(|volume| volume.get("persistentVolumeClaim"));
    let mut out: Vec<Node<'a>> = sources
        .filter(|source| !source.get("readOnly").is_set())
        .map(|source| source.get("claimName"))
        .filter(Node::is_set)
        .collect();
    let model = template.spec.path(&["model", "storageUri"]);
    out.extend(model.text().is_some_and(|uri| uri.starts_with(BY_ADDRESS)).then_some(model));
    out
}

/// The beginning of the address of a model in a claim: `pvc://models/fraud/v3`.
const BY_ADDRESS: &str = "pvc://";

/// The name of a claim, written alone or in the address of a model.
pub(crate) fn claim_of(text: &str) -> &str {
    match text.strip_prefix(BY_ADDRESS) {
        Some(path) => path.split('/').next().unwrap_or(path),
        None => text,
    }
}
