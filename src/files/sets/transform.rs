//! The changes to the objects of a file before they are applied.

use std::sync::Arc;

use gpulint_rules::source::{ImageChange, PatchTarget, Source};
use gpulint_rules::{Membership, Node};

use crate::files::kustomization::{Kustomization, PatchEffect, is_for_all_kustomizations};

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
    /// The patches of the objects.
    pub(super) patched: Vec<PatchTarget>,
    /// The patches of all Kustomizations of Flux among the objects.
    pub(super) handed: Vec<Arc<str>>,
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
            patched: self.patched.clone(),
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
        // What they may add is known of the files; here it is what the set has instead of the written fields.
        let patches = all().flat_map(|one| &one.targets).filter(|target| !target.fields.is_empty());
        out.patched.extend(patches.cloned());
        out.handed.extend(all().flat_map(|one| one.handed.iter().cloned()));
        // A component changes what its includer lists before the includer itself does.
        let images =
            components.iter().copied().chain(std::iter::once(own)).flat_map(|one| one.images.clone());
        out.images = images.chain(out.images).collect();
        out
    }

    /// Adds a patch that a GitOps controller makes.
    pub(super) fn add_patch(&mut self, text: &str, target: &Node<'_>) {
        let effect = PatchEffect::of(&Source::from_text("patch", text), target);
        self.removed.extend(effect.removed);
        self.patched.extend(effect.changed);
        self.handed.extend(is_for_all_kustomizations(target).then(|| Arc::from(text)));
    }

    /// Adds what a component changes after the files have been listed: it comes before these changes.
    pub(super) fn add_component(&mut self, component: &Kustomization) {
        self.removed.extend(component.removed.iter().cloned());
        self.patched.extend(component.targets.iter().cloned());
        self.images.splice(0..0, component.images.iter().cloned());
    }

    /// Adds what a patch of the Kustomization that applies the files adds to it.
    pub(super) fn hand_down(&mut self, patch: &Transform) {
        self.removed.extend(patch.removed.iter().cloned());
        self.patched.extend(patch.patched.iter().cloned());
        self.images.extend(patch.images.iter().cloned());
        self.namespace = patch.namespace.clone().or(self.namespace.take());
    }
}

/// The files that something applies, each with the changes to its objects.
pub(super) type Reach = Vec<(usize, Transform)>;
