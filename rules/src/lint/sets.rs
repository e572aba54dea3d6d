//! Sets of manifests: which files are applied to one cluster together.
//!
//! Whoever reads files knows how they are applied (a configuration, Flux, Argo CD, kustomizations, folders) and says
//! it as a [`Partition`]. A run fills one [`Cluster`](crate::Cluster) for each set, so that rules see only objects
//! that share a set with the one that they check. Without sets, all files are one.

use std::sync::Arc;

use crate::source::PatchTarget;

/// How surely the objects of a set are in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// A configuration, a GitOps controller or one kustomization says so.
    Certain,
    /// Several kustomizations that do not contradict each other.
    Likely,
    /// Nothing says so: files of folders that have nothing to do with each other are not compared.
    Folders,
}

/// What is applied to one cluster together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestSet {
    /// Its name in reports, unique in the input.
    pub name: Arc<str>,
    /// How surely its objects meet.
    pub bond: Bond,
    /// Whether it may be the whole cluster, where the configuration says that the input is complete. False for what
    /// no set claims beside others: nobody knows which cluster it is applied to.
    pub may_be_complete: bool,
}

/// How a file takes part in a set. A file that is reached twice, in two namespaces, takes part twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The number of the set in [`Partition::sets`].
    pub set: usize,
    /// The namespace that replaces that of its objects, except those without namespaces.
    pub namespace: Option<Arc<str>>,
    /// The namespace of objects that have none written.
    pub default_namespace: Option<Arc<str>>,
    /// What is put before all names, the outermost first.
    pub prefix: String,
    /// What is put behind all names.
    pub suffix: String,
    /// The objects that a kustomization of the set removes.
    pub removed: Vec<PatchTarget>,
}

/// The sets of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The sets; none where the whole input is one.
    pub sets: Vec<ManifestSet>,
    /// For each file of the run how it takes part; nothing for files that no set has.
    pub files: Vec<Vec<Membership>>,
}

impl Partition {
    /// Whether the whole input is one set.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.sets.is_empty()
    }

    /// How a file takes part, by its number.
    #[must_use]
    pub fn memberships(&self, file: usize) -> &[Membership] {
        self.files.get(file).map_or(&[], Vec::as_slice)
    }
}
