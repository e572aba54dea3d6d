//! The known objects, by kind, namespace and name.
//!
//! [`Objects::find`] returns Found, Missing or Unknown: unless the input is the whole cluster, an object that
//! is not in it may still exist, and a rule about absence reports only objects that are Missing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::dependencies::{Invalidations, KindId, Read, digest, record_read};
use crate::kind::Kind;
use crate::object::Object;

/// Result of a lookup.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// The object.
    Found(&'a Object),
    /// The object does not exist.
    Missing,
    /// The object is not in the input, but may exist.
    Unknown,
}

/// Objects of one kind by namespace and name.
type ByName = BTreeMap<String, BTreeMap<String, IndexEntry>>;

/// Objects with one identity: nearly always one.
#[derive(Debug)]
enum IndexEntry {
    One(Object),
    Many(Vec<Object>),
}

impl IndexEntry {
    fn as_slice(&self) -> &[Object] {
        match self {
            IndexEntry::One(object) => std::slice::from_ref(object),
            IndexEntry::Many(objects) => objects,
        }
    }

    /// In the order of their files, so that the result does not depend on the order of reading.
    fn insert_sorted(&mut self, object: Object) {
        match self {
            IndexEntry::One(first) => {
                *self = IndexEntry::Many(vec![first.clone()]);
                self.insert_sorted(object);
            }
            IndexEntry::Many(objects) => {
                let at = objects.partition_point(|other| other.sort_key() <= object.sort_key());
                objects.insert(at, object);
            }
        }
    }

    /// Returns whether none is left.
    fn remove(&mut self, object: &Object) -> bool {
        match self {
            IndexEntry::One(one) => one.ptr_eq(object),
            IndexEntry::Many(objects) => {
                objects.retain(|other| !other.ptr_eq(object));
                objects.is_empty()
            }
        }
    }
}

/// Whether an object was added or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectChange {
    Added,
    Removed,
}

/// Whether there are objects of the kind of an object.
struct Existence {
    /// Any that is complete.
    any: bool,
    /// One with its namespace, for each of its names.
    named: Vec<bool>,
}

/// The names under which an object is found: as it is written, because kustomize rewrites references to it, and as it
/// is applied.
fn names(object: &Object) -> impl Iterator<Item = &str> {
    std::iter::once(object.name()).chain(object.applied_name())
}

/// The objects of a namespace, each once: by the name that is written.
fn listed(by_name: &BTreeMap<String, IndexEntry>) -> impl Iterator<Item = &Object> {
    by_name
        .iter()
        .flat_map(|(name, entry)| entry.as_slice().iter().filter(move |object| object.name() == name))
}

/// The known objects.
#[derive(Default)]
pub struct Objects {
    /// By kind, then by group: few kinds have the same name in several groups.
    kinds: BTreeMap<String, Vec<(String, ByName)>>,
    objects: Vec<Object>,
    complete: bool,
    complete_kinds: BTreeSet<Kind>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("objects", &self.objects.len())
            .field("complete", &self.complete)
            .finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) fn new(complete: bool) -> Objects {
        Objects { complete, ..Objects::default() }
    }

    pub(super) fn mark_complete(&mut self, kind: Kind) {
        self.complete_kinds.insert(kind);
    }

    /// Whether a missing object of this kind is known not to exist.
    #[must_use]
    pub fn is_complete_for(&self, kind: Kind) -> bool {
        self.complete || self.complete_kinds.contains(&kind)
    }

    /// Adds an object to the list of all, after [`Objects::change`].
    pub(super) fn push(&mut self, object: Object) {
        self.objects.push(object);
    }

    /// Replaces objects in the list of all, after [`Objects::change`].
    pub(super) fn splice(&mut self, old: &[Object], new: &[Object]) {
        let mut gone: Vec<usize> = old.iter().map(Object::ptr_id).collect();
        gone.sort_unstable();
        let is_gone = |object: &Object| gone.binary_search(&object.ptr_id()).is_ok();
        let at = match old.first() {
            Some(first) => self.objects.iter().position(|o| o.ptr_eq(first)),
            None => None,
        };
        if !gone.is_empty() {
            self.objects.retain(|object| !is_gone(object));
        }
        let at = at.unwrap_or(self.objects.len()).min(self.objects.len());
        self.objects.splice(at..at, new.iter().cloned());
    }

    /// Adds or removes an object, and collects the lookups whose results change.
    pub(super) fn change(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>) {
        invalid.add(|| Read::All);
        if object.is_partial() {
            return;
        }
        let before = invalid.is_enabled().then(|| self.existence(object));
        for name in names(object) {
            match change {
                ObjectChange::Added => self.insert(object, name),
                ObjectChange::Removed => self.remove(object, name),
            }
        }
        let Some(before) = before else {
            return;
        };
        let now = self.existence(object);
        let id = object.id();
        let kind = KindId::of(&id.group, &id.kind);
        let namespace = id.namespace_or_default();
        invalid.add(|| Read::Kind(kind));
        invalid.add(|| Read::Namespace(kind, digest(namespace)));
        if before.any != now.any {
            invalid.add(|| Read::Any(kind));
        }
        let existence = before.named.into_iter().zip(now.named);
        for (name, (existed, exists)) in names(object).zip(existence) {
            let id = digest((namespace, name));
            invalid.add(|| Read::NameAnywhere(kind, digest(name)));
            invalid.add(|| Read::Name(kind, id));
            if existed != exists {
                invalid.add(|| Read::Exists(kind, id));
            }
        }
    }

    fn existence(&self, object: &Object) -> Existence {
        let id = object.id();
        let namespace = id.namespace_or_default();
        let exists = |name: &str| !self.all_untracked(&id.group, &id.kind, namespace, name).is_empty();
        let named: Vec<bool> = names(object).map(exists).collect();
        let any = named.contains(&true) || self.has_any_untracked(&id.group, &id.kind);
        Existence { any, named }
    }

    fn has_any_untracked(&self, group: &str, kind: &str) -> bool {
        let by_name = self.by_name(group, kind);
        by_name.is_some_and(|by_name| by_name.values().any(|names| !names.is_empty()))
    }

    fn all_untracked(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        self.by_name(group, kind)
            .and_then(|by_name| by_name.get(namespace)?.get(name))
            .map_or(&[], IndexEntry::as_slice)
    }

    fn remove(&mut self, object: &Object, name: &str) {
        let id = object.id();
        let groups = self.kinds.get_mut(&id.kind).into_iter().flatten();
        for (_, by_name) in groups.filter(|(group, _)| *group == id.group) {
            let Some(names) = by_name.get_mut(id.namespace_or_default()) else {
                continue;
            };
            if names.get_mut(name).is_some_and(|same| same.remove(object)) {
                names.remove(name);
            }
        }
    }

    fn insert(&mut self, object: &Object, name: &str) {
        let id = object.id();
        if !self.kinds.contains_key(&id.kind) {
            self.kinds.insert(id.kind.clone(), Vec::new());
        }
        let Some(groups) = self.kinds.get_mut(&id.kind) else {
            return;
        };
        let at = groups.iter().position(|(group, _)| *group == id.group);
        let at = at.unwrap_or_else(|| {
            groups.push((id.group.clone(), ByName::new()));
            groups.len() - 1
        });
        let by_name = &mut groups[at].1;
        let namespace = id.namespace_or_default();
        if !by_name.contains_key(namespace) {
            by_name.insert(namespace.to_owned(), BTreeMap::new());
        }
        if let Some(names) = by_name.get_mut(namespace) {
            match names.entry(name.to_owned()) {
                Entry::Occupied(mut same) => same.get_mut().insert_sorted(object.clone()),
                Entry::Vacant(free) => {
                    free.insert(IndexEntry::One(object.clone()));
                }
            }
        }
    }

    fn by_name(&self, group: &str, kind: &str) -> Option<&ByName> {
        let groups = self.kinds.get(kind)?;
        groups.iter().find(|(g, _)| g == group).map(|(_, by_name)| by_name)
    }

    /// Every object, in the order it was applied.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        record_read(|| Read::All);
        &self.objects
    }

    /// Whether an object that is not in the input does not exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The complete objects of a kind, by namespace and name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        record_read(|| Read::Kind(kind.into()));
        self.by_name(kind.group, kind.kind).into_iter().flat_map(BTreeMap::values).flat_map(listed)
    }

    /// The complete objects of a kind in a namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        record_read(|| Read::Namespace(kind.into(), digest(namespace)));
        self.by_name(kind.group, kind.kind)
            .and_then(|by_name| by_name.get(namespace))
            .into_iter()
            .flat_map(listed)
    }

    /// All objects with one identity; more than one is a duplicate.
    #[must_use]
    pub fn all(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        record_read(|| Read::Name(KindId::of(group, kind), digest((namespace, name))));
        self.all_untracked(group, kind, namespace, name)
    }

    /// The objects of a kind with this name: for each namespace those of one identity, in the order of their files.
    pub fn named<'a>(
        &'a self,
        group: &str,
        kind: &str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a [Object]> + use<'a> {
        record_read(|| Read::NameAnywhere(KindId::of(group, kind), digest(name)));
        self.by_name(group, kind)
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter_map(move |names| names.get(name))
            .map(IndexEntry::as_slice)
    }

    /// Whether there is an object with this identity. A computation that only reads this does not depend on
    /// the content of the object.
    #[must_use]
    pub fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        record_read(|| Read::Exists(kind.into(), digest((namespace, name))));
        !self.all_untracked(kind.group, kind.kind, namespace, name).is_empty()
    }

    /// Whether there is any complete object of a kind.
    #[must_use]
    pub fn has_any(&self, kind: Kind) -> bool {
        record_read(|| Read::Any(kind.into()));
        self.has_any_untracked(kind.group, kind.kind)
    }

    /// Looks an object up. For cluster-scoped kinds the namespace is `default`.
    #[must_use]
    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Lookup<'_> {
        match self.all(kind.group, kind.kind, namespace, name).first() {
            Some(object) => Lookup::Found(object),
            None if self.is_complete_for(kind) => Lookup::Missing,
            None => Lookup::Unknown,
        }
    }

    /// The object with an identity, if there is exactly one. If there are several, as in a folder of
    /// examples, it is not known which one is meant.
    #[must_use]
    pub fn unique(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        match self.all(kind.group, kind.kind, namespace, name) {
            [one] => Some(one),
            _ => None,
        }
    }
}
