//! The annotations with which KEDA pauses the scaling of an object.

use crate::keda::value::boolean;
use crate::object::Object;

const PREFIX: &str = "autoscaling.keda.sh/";

/// Whether an annotation that is a boolean is on, given its name behind the prefix: every value but a false one switches it
/// on (`getBoolAnnotation` of `scaledobject_types.go`, KEDA 2.14 to 2.21). `None` if that is unknown.
pub(crate) fn is_on(object: &Object, name: &str) -> Option<bool> {
    let annotations = object.path(&["metadata", "annotations"]);
    let node = annotations.get(&format!("{PREFIX}{name}"));
    if node.is_set() {
        return node.text().map(|text| boolean(text) != Some(false));
    }
    (!annotations.is_unknown() && !annotations.has_unknown_key()).then_some(false)
}

/// Whether KEDA takes no replicas away from the target of a ScaledObject: it is paused, at a number or where it is, or does
/// not scale in. `None` if that is unknown.
pub(crate) fn never_scales_in(object: &Object) -> Option<bool> {
    if object.annotation("autoscaling.keda.sh/paused-replicas").is_set() {
        return Some(true);
    }
    Some(is_on(object, "paused")? || is_on(object, "paused-scale-in")?)
}
