//! An object as the cache stores it.

use std::hash::{DefaultHasher, Hasher};

use gpulint_rules::{Draft, Object};

use crate::exemption::{Claim, claims, is_numerous};

/// Namespace (empty if cluster-scoped) and name.
pub(super) type NamespacedName = (String, String);

#[derive(Clone, Debug)]
pub(super) struct CachedObject {
    pub(super) object: Object,
    /// The owners that are checked themselves, as it states.
    pub(super) claims: Vec<Claim>,
    /// Hash of its value, to recognize events without a relevant change.
    pub(super) hash: u64,
}

/// The object to store; `None` for one of the many whose controller is checked itself.
pub(super) fn cached_object(draft: Draft) -> Option<CachedObject> {
    let mut hasher = DefaultHasher::new();
    draft.hash_value(&mut hasher);
    let object = Object::from_draft(draft)?;
    let claims = claims(&object);
    let is_left_out = !claims.is_empty() && is_numerous(&object);
    (!is_left_out).then(|| CachedObject { object, claims, hash: hasher.finish() })
}

pub(super) fn namespaced_name(draft: &Draft) -> NamespacedName {
    let text = |key: &str| draft.string(&["metadata", key]).unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}
