//! Claims of dynamic resource allocation: where their requests are, in every version.
//!
//! `v1beta1` writes a request's fields flat beside its name; `v1beta2` and `v1` put them under
//! `exactly`. `firstAvailable` is a list of alternatives in all of them. What a device class or a
//! driver offers is not known here.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// The fields that `exactly` holds, and that `v1beta1` writes flat.
pub const EXACT_FIELDS: &[&str] =
    &["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// Whether a version puts a request's fields under `exactly`; `None` for versions that have no
/// such requests.
#[must_use]
pub fn nests_in_exactly(version: &str) -> Option<bool> {
    match version {
        "v1" | "v1beta2" => Some(true),
        "v1beta1" => Some(false),
        _ => None,
    }
}

/// The `devices` block of a claim or of a template of claims.
#[must_use]
pub fn devices(object: &Object) -> Node<'_> {
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        object.path(&["spec", "spec", "devices"])
    } else {
        object.path(&["spec", "devices"])
    }
}

/// The requests that are mappings.
pub fn requests(object: &Object) -> impl Iterator<Item = Node<'_>> {
    devices(object).get("requests").items().filter(Node::is_mapping)
}

/// Every block that names a device class: flat requests, `exactly`, alternatives.
#[must_use]
pub fn class_blocks(object: &Object) -> Vec<Node<'_>> {
    let mut out = Vec::new();
    for request in requests(object) {
        if flat_fields(&request).next().is_some() {
            out.push(request.clone());
        }
        let exactly = request.get("exactly");
        if exactly.is_mapping() {
            out.push(exactly);
        }
        out.extend(request.get("firstAvailable").items().filter(Node::is_mapping));
    }
    out
}

/// The fields of a request that are written flat.
pub fn flat_fields<'a>(request: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    let request = request.clone();
    EXACT_FIELDS.iter().map(move |f| request.get(f)).filter(|n| !n.is_absent())
}
