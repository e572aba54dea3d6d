//! A CustomResourceDefinition for tests.

use serde_json::{Map, Value, json};

/// The definition of the kind `Thing` of `cel.example.com/v1`, whose `spec` has these properties.
pub fn thing_definition(properties: &Map<String, Value>) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.cel.example.com"},
        "spec": {
            "group": "cel.example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": properties}},
            }}}],
        },
    })
}
