//! References by name from one object to another: what scales a workload, and the class of a NodePool.

use std::collections::HashSet;

use gpulint_rules::{Kind, Object};

/// The kind, the namespace and the name of an object.
pub(super) type Target<'o> = (&'o str, &'o str, &'o str);

/// The identity of an object for references.
pub(super) fn target(object: &Object) -> Target<'_> {
    let id = object.id();
    (&id.kind, namespace(object), &id.name)
}

/// Whether an object names one of some others.
pub(super) fn names_any(objects: &[Object], others: &HashSet<Target<'_>>) -> bool {
    objects.iter().any(|object| {
        let reference = match object.id().kind.as_str() {
            _ if object.is(Kind::SCALED_OBJECT) || object.is(Kind::HPA) => {
                object.path(&["spec", "scaleTargetRef"])
            }
            "VerticalPodAutoscaler" => object.path(&["spec", "targetRef"]),
            _ if object.is(Kind::NODE_POOL) => object.path(&["spec", "template", "spec", "nodeClassRef"]),
            _ => return false,
        };
        let kind = reference.get("kind");
        let kind = if kind.is_set() { kind.text() } else { Some("Deployment") };
        let named = kind.zip(reference.get("name").text());
        named.is_some_and(|(kind, name)| {
            let namespace = if object.is(Kind::NODE_POOL) { CLUSTER } else { namespace(object) };
            others.contains(&(kind, namespace, name))
        })
    })
}

/// The namespace of objects of a cluster.
const CLUSTER: &str = "";

fn namespace(object: &Object) -> &str {
    if object.is(Kind::EC2_NODE_CLASS) || object.id().kind == "NodeClass" {
        return CLUSTER;
    }
    object.id().namespace_or_default()
}
