//! The objects that are known, by kind, namespace and name, and what is derived from them.
//!
//! `find` answers Found, Missing or Unknown: unless the input is the whole cluster, what is not
//! there may be elsewhere, and a rule about absence speaks only on Missing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::model::views::Views;
use crate::object::{Kind, Object};

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
type ByName = BTreeMap<String, BTreeMap<String, Same>>;

/// Objects of one identity: nearly always one.
#[derive(Debug)]
enum Same {
    One(Object),
    Several(Vec<Object>),
}

impl Same {
    fn as_slice(&self) -> &[Object] {
        match self {
            Same::One(object) => std::slice::from_ref(object),
            Same::Several(objects) => objects,
        }
    }

    fn push(&mut self, object: Object) {
        match self {
            Same::One(first) => *self = Same::Several(vec![first.clone(), object]),
            Same::Several(objects) => objects.push(object),
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
    known: BTreeSet<Kind>,
    views: OnceLock<Views>,
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
        Index {
            complete,
            ..Index::default()
        }
    }

    /// Says of one kind that what is not in it does not exist.
    pub fn know(&mut self, kind: Kind) {
        self.known.insert(kind);
    }

    /// Whether a missing object of this kind is known not to exist.
    #[must_use]
    pub fn knows(&self, kind: Kind) -> bool {
        self.complete || self.known.contains(&kind)
    }

    /// Adds an object. Patches and fragments are kept, but no lookup finds them.
    pub fn apply(&mut self, object: Object) {
        self.views = OnceLock::new();
        if !object.is_partial() {
            self.insert(&object);
        }
        self.objects.push(object);
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
                Entry::Occupied(mut same) => same.get_mut().push(object.clone()),
                Entry::Vacant(free) => {
                    free.insert(Same::One(object.clone()));
                }
            }
        }
    }

    fn by_name(&self, group: &str, kind: &str) -> Option<&ByName> {
        let groups = self.kinds.get(kind)?;
        groups
            .iter()
            .find(|(g, _)| g == group)
            .map(|(_, by_name)| by_name)
    }

    /// Takes an object out by its identity.
    pub fn delete(&mut self, kind: &str, group: &str, namespace: Option<&str>, name: &str) {
        self.views = OnceLock::new();
        let namespace = namespace.unwrap_or("default");
        let groups = self.kinds.get_mut(kind).into_iter().flatten();
        for (_, by_name) in groups.filter(|(g, _)| g == group) {
            if let Some(names) = by_name.get_mut(namespace) {
                names.remove(name);
            }
        }
        self.objects.retain(|o| {
            let id = o.id();
            !(id.kind == kind
                && id.group == group
                && id.name == name
                && id.namespace_or_default() == namespace)
        });
    }

    /// Every object, in the order it was applied.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Whether what is not here does not exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The whole objects of a kind, by namespace and name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.by_name(kind.group, kind.kind)
            .into_iter()
            .flat_map(BTreeMap::values)
            .flat_map(BTreeMap::values)
            .flat_map(Same::as_slice)
    }

    /// The whole objects of a kind in a namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        self.by_name(kind.group, kind.kind)
            .and_then(|by_name| by_name.get(namespace))
            .into_iter()
            .flat_map(BTreeMap::values)
            .flat_map(Same::as_slice)
    }

    /// Every object of one identity; more than one is a duplicate.
    #[must_use]
    pub fn all(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        self.by_name(group, kind)
            .and_then(|by_name| by_name.get(namespace)?.get(name))
            .map_or(&[], Same::as_slice)
    }

    /// Looks an object up. For cluster-scoped kinds the namespace is `default`.
    #[must_use]
    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Lookup<'_> {
        match self.all(kind.group, kind.kind, namespace, name).first() {
            Some(object) => Lookup::Found(object),
            None if self.knows(kind) => Lookup::Missing,
            None => Lookup::Unknown,
        }
    }

    /// What is derived from the objects, made once when first asked for.
    #[must_use]
    pub fn views(&self) -> &Views {
        self.views.get_or_init(|| Views::new(self))
    }
}
