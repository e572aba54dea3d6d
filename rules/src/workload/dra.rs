//! Device requests of dynamic resource allocation, in every version of the API.
//!
//! `v1beta1` has the fields of a request next to its name; `v1beta2` and `v1` have them under `exactly`. In all
//! versions `firstAvailable` is a list of alternatives.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// The fields of `exactly`, which `v1beta1` has next to the name of the request.
const EXACT_FIELDS: &[&str] =
    &["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// Whether a version has the fields of a request under `exactly`; `None` for versions without such requests.
pub(crate) fn nests_in_exactly(version: &str) -> Option<bool> {
    match version {
        "v1" | "v1beta2" => Some(true),
        "v1beta1" => Some(false),
        _ => None,
    }
}

/// The `devices` field of a ResourceClaim or ResourceClaimTemplate.
pub fn devices(object: &Object) -> Node<'_> {
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        object.path(&["spec", "spec", "devices"])
    } else {
        object.path(&["spec", "devices"])
    }
}

/// The requests of a claim, without items that are not mappings.
pub fn requests(object: &Object) -> impl Iterator<Item = Node<'_>> {
    devices(object).get("requests").items().filter(Node::is_mapping)
}

/// Every mapping that can name a device class: requests with flat fields, `exactly`, alternatives.
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

/// The fields of a request next to its name, as in `v1beta1`.
pub(crate) fn flat_fields<'a>(request: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    let request = request.clone();
    EXACT_FIELDS.iter().map(move |f| request.get(f)).filter(|n| !n.is_absent())
}
