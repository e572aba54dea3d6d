//! Rewrites device requests of dynamic resource allocation between the layout of `resource.k8s.io/v1beta1`, which has
//! the fields of a request beside its name, and that of `v1beta2` and `v1`, which has them under `exactly`.

use serde_json::{Map, Value};

use crate::lint::fix::Fix;
use crate::tree::node::Node;
use crate::workload::dra::flat_fields;

/// Moves the flat fields of a request under `exactly`.
#[must_use]
pub(crate) fn nest(mut fix: Fix, request: &Node<'_>) -> Fix {
    let mut inner = Map::new();
    for node in flat_fields(request) {
        if let Some(name) = node.pointer().steps().last() {
            inner.insert(name.clone(), node.to_json());
        }
    }
    for node in flat_fields(request) {
        fix = fix.remove(&node);
    }
    fix.set(&request.get("exactly"), Value::Object(inner))
}

/// Moves the fields under `exactly` beside the name of the request.
#[must_use]
pub(crate) fn flatten(fix: Fix, request: &Node<'_>) -> Fix {
    let exactly = request.get("exactly");
    let mut fix = fix.remove(&exactly);
    for (name, node) in exactly.entries() {
        fix = fix.set(&request.get(name), node.to_json());
    }
    fix
}
