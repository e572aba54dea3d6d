//! The objects that are known, by kind, namespace and name, and what is derived from them.
//!
//! `find` answers Found, Missing or Unknown: unless the input is the whole cluster, what is not
//! there may be elsewhere, and a rule about absence speaks only on Missing.

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

type ByName = BTreeMap<(String, String), Vec<Object>>;

/// The known objects.
#[derive(Default)]
pub struct Index {
    kinds: BTreeMap<(String, String), ByName>,
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

    /// Adds an object. Patches and fragments are kept, but no lookup finds them.
    pub fn apply(&mut self, object: Object) {
        self.views = OnceLock::new();
        if !object.is_partial() {
            let id = object.id();
            self.kinds
                .entry((id.group.clone(), id.kind.clone()))
                .or_default()
                .entry((id.namespace_or_default().to_owned(), id.name.clone()))
                .or_default()
                .push(object.clone());
        }
        self.objects.push(object);
    }

    /// Takes an object out by its identity.
    pub fn delete(&mut self, kind: &str, group: &str, namespace: Option<&str>, name: &str) {
        self.views = OnceLock::new();
        let namespace = namespace.unwrap_or("default");
        if let Some(by_name) = self.kinds.get_mut(&(group.to_owned(), kind.to_owned())) {
            by_name.remove(&(namespace.to_owned(), name.to_owned()));
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
        self.kinds
            .get(&(kind.group.to_owned(), kind.kind.to_owned()))
            .into_iter()
            .flat_map(|by_name| by_name.values().flatten())
    }

    /// The whole objects of a kind in a namespace.
    pub fn in_namespace<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Object> {
        self.kinds
            .get(&(kind.group.to_owned(), kind.kind.to_owned()))
            .into_iter()
            .flat_map(move |by_name| {
                by_name
                    .range((namespace.to_owned(), String::new())..)
                    .take_while(move |((ns, _), _)| ns == namespace)
                    .flat_map(|(_, objects)| objects)
            })
    }

    /// Every object of one identity; more than one is a duplicate.
    #[must_use]
    pub fn all(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        self.kinds
            .get(&(group.to_owned(), kind.to_owned()))
            .and_then(|k| k.get(&(namespace.to_owned(), name.to_owned())))
            .map_or(&[], Vec::as_slice)
    }

    /// Looks an object up. For cluster-scoped kinds the namespace is `default`.
    #[must_use]
    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Lookup<'_> {
        match self.all(kind.group, kind.kind, namespace, name).first() {
            Some(object) => Lookup::Found(object),
            None if self.complete || self.known.contains(&kind) => Lookup::Missing,
            None => Lookup::Unknown,
        }
    }

    /// What is derived from the objects, made once when first asked for.
    #[must_use]
    pub fn views(&self) -> &Views {
        self.views.get_or_init(|| Views::new(self))
    }
}
