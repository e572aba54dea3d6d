//! The identity of an object once it is applied.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use gpulint_rules::{Kind, Object, kind};

use super::transform::Transform;

/// The hash of the group, kind, namespace and name of an object once it is applied. `None` if they are not
/// known, for patches, and for namespaces, which several sources may define.
pub(super) fn applied(object: &Object, how: &Transform) -> Option<u64> {
    let id = object.id();
    if id.name.is_empty() || object.is_patch() || id.is(Kind::NAMESPACE) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (&id.group, &id.kind).hash(&mut hasher);
    if kind::find(&id.group, &id.kind).is_none_or(|info| info.namespaced) {
        if object.path(&["metadata", "namespace"]).is_unknown() && how.namespace.is_none() {
            return None;
        }
        let namespace = how.namespace.as_deref().or(id.namespace());
        namespace.or(how.default_namespace.as_deref()).unwrap_or("default").hash(&mut hasher);
    }
    for part in [how.prefix.as_str(), &id.name, &how.suffix] {
        hasher.write(part.as_bytes());
    }
    Some(hasher.finish())
}
