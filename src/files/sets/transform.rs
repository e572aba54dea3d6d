//! The changes to the objects of a file before they are applied.

use std::sync::Arc;

use gpulint_rules::Membership;
use gpulint_rules::source::{ImageChange, PatchTarget};

use crate::files::kustomization::Kustomization;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transform {
    /// The namespace that replaces the written one.
    pub(super) namespace: Option<Arc<str>>,
    /// The namespace of objects that have none.
    pub(super) default_namespace: Option<Arc<str>>,
    pub(super) prefix: String,
    pub(super) suffix: String,
    /// The objects that are not applied.
    pub(super) removed: Vec<PatchTarget>,
    /// The changes of images, in the order in which they are made.
    pub(super) images: Vec<ImageChange>,
}

impl Transform {
    pub(super) fn membership(&self, set: usize) -> Membership {
        Membership {
            set,
            namespace: self.namespace.clone(),
            default_namespace: self.default_namespace.clone(),
            prefix: self.prefix.clone(),
            suffix: self.suffix.clone(),
            removed: self.removed.clone(),
            images: self.images.clone(),
        }
    }

    /// Adds the changes of a kustomization and its components, which are made before these.
    pub(super) fn with(&self, own: &Kustomization, components: &[&Kustomization]) -> Transform {
        let all = || std::iter::once(own).chain(components.iter().copied());
        let mut out = self.clone();
        if out.namespace.is_none() {
            out.namespace = all().find_map(|one| one.namespace.as_deref()).map(Arc::from);
        }
        for (prefix, suffix) in all().filter_map(|one| one.affixes.as_ref()) {
            out.prefix.push_str(prefix);
            out.suffix.insert_str(0, suffix);
        }
        out.removed.extend(all().flat_map(|one| one.removed.iter().cloned()));
        // A component changes what its includer lists before the includer itself does.
        let images =
            components.iter().copied().chain(std::iter::once(own)).flat_map(|one| one.images.clone());
        out.images = images.chain(out.images).collect();
        out
    }
}

/// The files that something applies, each with the changes to its objects.
pub(super) type Reach = Vec<(usize, Transform)>;
