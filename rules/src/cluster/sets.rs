//! Sets of manifests: which files are applied to one cluster together.
//!
//! The caller that reads the files knows how they are applied (a configuration, Flux, Argo CD, kustomizations,
//! folders) and describes it as a [`Partition`]. A run fills one [`Cluster`](crate::Cluster) for each set, so that
//! rules see only objects that share a set with the checked one. Without sets, all files form one.

use std::sync::Arc;

use crate::cluster::versions::OutsideFact;
use crate::object::Object;
use crate::source::{ImageChange, PatchTarget};

/// How certain it is that the objects of a set are in one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bond {
    /// They are part of one set in a configuration, a GitOps controller or one kustomization.
    Certain,
    /// Several kustomizations that do not contradict each other.
    Likely,
    /// Only their folders relate them: objects of unrelated folders are not compared.
    #[default]
    Folders,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestSet {
    /// The name in reports, unique in the input.
    pub name: Arc<str>,
    /// How certain it is that the objects are in one cluster.
    pub bond: Bond,
    /// Whether it may be the whole cluster if the configuration states that the input is complete. False for the set
    /// of files that no other set contains, because their cluster is unknown.
    pub may_be_complete: bool,
    /// What files of the set show that are no manifests.
    pub facts: Arc<[OutsideFact]>,
}

/// The membership of a file in a set. A file that is applied twice, in two namespaces, has two memberships of one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The number of the set in [`Partition::sets`].
    pub set: usize,
    /// The namespace that replaces that of namespaced objects.
    pub namespace: Option<Arc<str>>,
    /// The namespace of objects without a written one.
    pub default_namespace: Option<Arc<str>>,
    /// The prefix of all names, the outermost first.
    pub prefix: String,
    pub suffix: String,
    /// The objects that a kustomization of the set deletes.
    pub removed: Vec<PatchTarget>,
    /// The patches of the objects, by a GitOps controller or by kustomizations of the set.
    pub patched: Vec<PatchTarget>,
    /// The changes of images, in the order in which they are made.
    pub images: Vec<ImageChange>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The sets; empty if the whole input is one.
    pub sets: Vec<ManifestSet>,
    /// The memberships of each file of the run; empty for files in no set.
    pub files: Vec<Vec<Membership>>,
    /// What they show for the files in no set.
    pub facts: Arc<[OutsideFact]>,
    /// How certain it is that the files in no set are of one cluster.
    pub bond: Bond,
}

/// The objects of a file as one of its memberships applies them.
#[derive(Debug)]
pub(crate) enum AppliedObjects {
    Written,
    /// One for each object of the file; `None` for objects that are deleted, or that another membership of the same
    /// set applies under the same identity.
    Changed(Vec<Option<Object>>),
}

impl AppliedObjects {
    /// The applied form of an object, by its number in the file.
    pub(crate) fn get<'a>(&'a self, written: &'a [Object], at: usize) -> Option<&'a Object> {
        match self {
            AppliedObjects::Written => Some(&written[at]),
            AppliedObjects::Changed(objects) => objects[at].as_ref(),
        }
    }

    pub(crate) fn iter<'a>(&'a self, written: &'a [Object]) -> impl Iterator<Item = &'a Object> {
        (0..written.len()).filter_map(|at| self.get(written, at))
    }
}

/// The objects of a file as each of its memberships applies them, or once as written if the file is in no set.
pub(crate) fn apply(memberships: &[Membership], objects: &[Object]) -> Vec<AppliedObjects> {
    if memberships.is_empty() {
        return vec![AppliedObjects::Written];
    }
    let mut out: Vec<AppliedObjects> = Vec::with_capacity(memberships.len());
    for (number, membership) in memberships.iter().enumerate() {
        let earlier =
            || memberships[..number].iter().zip(&out).filter(|(other, _)| other.set == membership.set);
        let is_plain = *membership == Membership { set: membership.set, ..Membership::default() };
        if is_plain && earlier().next().is_none() {
            out.push(AppliedObjects::Written);
            continue;
        }
        let objects_of_membership = objects.iter().enumerate().map(|(at, written)| {
            let object = membership.applied(written)?;
            let is_applied = earlier().any(|(_, other)| {
                other.get(objects, at).is_some_and(|other| {
                    other.id() == object.id() && other.applied_name() == object.applied_name()
                })
            });
            (!is_applied).then_some(object)
        });
        let changed = objects_of_membership.collect();
        out.push(AppliedObjects::Changed(changed));
    }
    out
}

impl Membership {
    /// Whether a kustomization of the set deletes an object.
    fn removes(&self, object: &Object) -> bool {
        let id = object.id();
        self.removed.iter().any(|target| target.fits(&id.kind, &id.name))
    }

    /// The object as applied in the set; `None` if a kustomization deletes it.
    fn applied(&self, object: &Object) -> Option<Object> {
        if self.removes(object) {
            return None;
        }
        let id = object.id();
        let mut namespace = self.namespace.as_deref();
        if id.namespace().is_none() && !object.is_namespace_unknown() {
            namespace = namespace.or(self.default_namespace.as_deref());
        }
        let namespace = namespace.filter(|set| !object.is_cluster_scoped() && id.namespace() != Some(set));
        let keeps_names = self.prefix.is_empty() && self.suffix.is_empty();
        let name = (!keeps_names && !id.name.is_empty())
            .then(|| format!("{}{}{}", self.prefix, id.name, self.suffix));
        let images = object.changed_images(&self.images);
        // kustomize finds the target of a patch under each name that the object has had.
        let fits = |patch: &&PatchTarget| {
            patch.fits(&id.kind, &id.name) || name.as_ref().is_some_and(|name| patch.fits(&id.kind, name))
        };
        let patches: Vec<PatchTarget> = self.patched.iter().filter(fits).cloned().collect();
        if namespace.is_none() && name.is_none() && images.is_empty() && patches.is_empty() {
            return Some(object.clone());
        }
        Some(object.applied_as(namespace, name, images, patches))
    }
}

impl Partition {
    /// How certain it is that the objects of a set, or those in no set, are in one cluster.
    pub(crate) fn bond_of(&self, set: usize) -> Bond {
        self.sets.get(set).map_or(self.bond, |set| set.bond)
    }

    /// Whether the whole input is one set.
    pub fn is_whole(&self) -> bool {
        self.sets.is_empty()
    }

    /// What files that are no manifests show for a set, or for the files in no set.
    pub(crate) fn facts_of(&self, set: usize) -> Arc<[OutsideFact]> {
        Arc::clone(self.sets.get(set).map_or(&self.facts, |set| &set.facts))
    }

    /// The memberships of a file, by its number.
    pub fn memberships(&self, file: usize) -> &[Membership] {
        self.files.get(file).map_or(&[], Vec::as_slice)
    }
}
