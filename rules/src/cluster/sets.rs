//! Sets of manifests: which files are applied to one cluster together.
//!
//! Whoever reads files knows how they are applied (a configuration, Flux, Argo CD, kustomizations, folders) and says
//! it as a [`Partition`]. A run fills one [`Cluster`](crate::Cluster) for each set, so that rules see only objects
//! that share a set with the one that they check. Without sets, all files are one.

use std::sync::Arc;

use crate::object::Object;
use crate::source::PatchTarget;

/// How surely the objects of a set are in one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bond {
    /// A configuration, a GitOps controller or one kustomization says so.
    Certain,
    /// Several kustomizations that do not contradict each other.
    Likely,
    /// Nothing says so: files of folders that have nothing to do with each other are not compared.
    #[default]
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

/// The objects of a file as one of its memberships applies them.
#[derive(Debug)]
pub(crate) enum AppliedObjects {
    /// As they are written.
    Written,
    /// One for each object of the file; nothing for those that are removed, or that another membership of the same set
    /// applies under the same identity.
    Changed(Vec<Option<Object>>),
}

impl AppliedObjects {
    /// The object of a file with this number.
    pub(crate) fn get<'a>(&'a self, written: &'a [Object], at: usize) -> Option<&'a Object> {
        match self {
            AppliedObjects::Written => Some(&written[at]),
            AppliedObjects::Changed(objects) => objects[at].as_ref(),
        }
    }

    /// All objects that are applied.
    pub(crate) fn iter<'a>(&'a self, written: &'a [Object]) -> impl Iterator<Item = &'a Object> {
        (0..written.len()).filter_map(|at| self.get(written, at))
    }
}

/// The objects of a file as each of its memberships applies them, or once as they are written where no set has it.
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
    /// Whether a kustomization of the set removes an object.
    fn removes(&self, object: &Object) -> bool {
        let id = object.id();
        self.removed.iter().any(|target| target.fits(&id.kind, &id.name))
    }

    /// The object as it is applied in the set; `None` where a kustomization removes it.
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
        if namespace.is_none() && name.is_none() {
            return Some(object.clone());
        }
        Some(object.applied_as(namespace, name))
    }
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
