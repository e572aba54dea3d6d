//! The objects that are known, by kind, namespace and name, and what is derived from them.
//!
//! `find` answers Found, Missing or Unknown: unless the input is the whole cluster, what is not
//! there may be elsewhere, and a rule about absence speaks only on Missing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{DependencyKey, Invalidations, dependency_key};
use crate::cluster::relation::ObjectChange;
use crate::cluster::views::{DerivedViews, ViewCells, Views};
use crate::kind::Kind;
use crate::object::Object;

/// What a lookup found.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// The object.
    Found(&'a Object),
    /// There is no such object.
    Missing,
    /// It is not here; it may be elsewhere.
    Unknown,
}

/// Objects of one kind by namespace and name.
type ByName = BTreeMap<String, BTreeMap<String, IndexEntry>>;

/// Objects of one identity: nearly always one.
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

    /// In the order of their files, so that it does not matter which one was read first.
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

    /// Whether none is left.
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

/// The known objects.
#[derive(Default)]
pub struct Index {
    /// By kind, then by group: few kinds have a namesake in another group.
    kinds: BTreeMap<String, Vec<(String, ByName)>>,
    objects: Vec<Object>,
    complete: bool,
    /// Whether it is told of changes, so that views have to know what they rest on.
    incremental: bool,
    complete_kinds: BTreeSet<Kind>,
    view_cells: ViewCells,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("objects", &self.objects.len())
            .field("complete", &self.complete)
            .finish_non_exhaustive()
    }
}

impl Index {
    /// An empty index; `complete` says that what is not in it does not exist.
    #[must_use]
    pub fn new(complete: bool) -> Index {
        Index { complete, ..Index::default() }
    }

    /// An empty index of which objects will be replaced.
    pub(crate) fn incremental(complete: bool) -> Index {
        Index { complete, incremental: true, ..Index::default() }
    }

    pub(crate) fn is_incremental(&self) -> bool {
        self.incremental
    }

    /// Says of one kind that what is not in it does not exist.
    pub fn mark_complete(&mut self, kind: Kind) {
        self.complete_kinds.insert(kind);
    }

    /// Whether a missing object of this kind is known not to exist.
    #[must_use]
    pub fn is_complete_for(&self, kind: Kind) -> bool {
        self.complete || self.complete_kinds.contains(&kind)
    }

    /// Adds an object. Patches and fragments are kept, but no lookup finds them.
    pub fn apply(&mut self, object: Object) {
        self.change(ObjectChange::Added, &object, &mut Invalidations::disabled());
        self.view_cells.derived = DerivedViews::default();
        self.objects.push(object);
    }

    /// Puts objects in the place of others, and says which questions that touches.
    pub(crate) fn replace(&mut self, old: &[Object], new: &[Object]) -> Vec<DependencyKey> {
        let mut topics = Vec::new();
        let mut touched = Invalidations::collect_into(&mut topics);
        // The new ones first: what is still there afterwards was never gone.
        for object in new {
            self.change(ObjectChange::Added, object, &mut touched);
        }
        for object in old {
            self.change(ObjectChange::Removed, object, &mut touched);
        }
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
        topics.sort_unstable();
        topics.dedup();
        let mut wholes = std::mem::take(&mut self.view_cells.derived);
        wholes.update(self, old, new, &mut topics);
        self.view_cells.derived = wholes;
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    fn change(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        let id = object.id();
        let kind = (id.group.as_str(), id.kind.as_str());
        let namespace = id.namespace_or_default();
        touched.add(|| dependency_key("everything", ()));
        if !object.is_partial() {
            touched.add(|| dependency_key("kind", kind));
            touched.add(|| dependency_key("namespace", (kind, namespace)));
            touched.add(|| dependency_key("name", (kind, namespace, id.name.as_str())));
            let before = touched.is_enabled().then(|| self.existence(object));
            match change {
                ObjectChange::Added => self.insert(object),
                ObjectChange::Removed => self.remove(object),
            }
            if let Some((any, has)) = before {
                let (any_now, has_now) = self.existence(object);
                if any != any_now {
                    touched.add(|| dependency_key("any", kind));
                }
                if has != has_now {
                    touched.add(|| dependency_key("presence", (kind, namespace, id.name.as_str())));
                }
            }
        }
        self.view_cells.apply(change, object, touched);
    }

    /// Whether there is any whole object of this one's kind, and whether one of its identity.
    fn existence(&self, object: &Object) -> (bool, bool) {
        let id = object.id();
        let namespace = id.namespace_or_default();
        let has = self.all_untracked(&id.group, &id.kind, namespace, &id.name);
        let any = !has.is_empty() || self.has_any_untracked(&id.group, &id.kind);
        (any, !has.is_empty())
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

    fn remove(&mut self, object: &Object) {
        let id = object.id();
        let groups = self.kinds.get_mut(&id.kind).into_iter().flatten();
        for (_, by_name) in groups.filter(|(group, _)| *group == id.group) {
            let Some(names) = by_name.get_mut(id.namespace_or_default()) else {
                continue;
            };
            if names.get_mut(&id.name).is_some_and(|same| same.remove(object)) {
                names.remove(&id.name);
            }
        }
    }

    fn insert(&mut self, object: &Object) {
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
            match names.entry(id.name.clone()) {
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
        dependencies::record_read(|| dependency_key("everything", ()));
        &self.objects
    }

    /// Whether what is not here does not exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The whole objects of a kind, by namespace and name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        dependencies::record_read(|| dependency_key("kind", (kind.group, kind.kind)));
        self.by_name(kind.group, kind.kind)
            .into_iter()
            .flat_map(BTreeMap::values)
            .flat_map(BTreeMap::values)
            .flat_map(IndexEntry::as_slice)
    }

    /// The whole objects of a kind in a namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        dependencies::record_read(|| dependency_key("namespace", ((kind.group, kind.kind), namespace)));
        self.by_name(kind.group, kind.kind)
            .and_then(|by_name| by_name.get(namespace))
            .into_iter()
            .flat_map(BTreeMap::values)
            .flat_map(IndexEntry::as_slice)
    }

    /// Every object of one identity; more than one is a duplicate.
    #[must_use]
    pub fn all(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        dependencies::record_read(|| dependency_key("name", ((group, kind), namespace, name)));
        self.all_untracked(group, kind, namespace, name)
    }

    /// Whether there is an object of this identity. Who asks no more than that is not asked again
    /// for every new version of it.
    #[must_use]
    pub fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        dependencies::record_read(|| dependency_key("presence", ((kind.group, kind.kind), namespace, name)));
        !self.all_untracked(kind.group, kind.kind, namespace, name).is_empty()
    }

    /// Whether there is any whole object of a kind.
    #[must_use]
    pub fn has_any(&self, kind: Kind) -> bool {
        dependencies::record_read(|| dependency_key("any", (kind.group, kind.kind)));
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

    /// The object of an identity, where there is just one: of several, from several examples, nobody
    /// knows which is meant.
    #[must_use]
    pub fn unique(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        match self.all(kind.group, kind.kind, namespace, name) {
            [one] => Some(one),
            _ => None,
        }
    }

    /// What is derived from the objects: each view is made when first asked for, and from then on
    /// kept.
    #[must_use]
    pub fn views(&self) -> Views<'_> {
        Views::new(self)
    }

    pub(crate) fn view_cells(&self) -> &ViewCells {
        &self.view_cells
    }
}
