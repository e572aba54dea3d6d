//! The known objects, by kind, namespace and name.
//!
//! [`Objects::find`] returns Found, Missing or Unknown: unless the input is the whole cluster, an object that
//! is not in it may still exist, and a rule about absence reports only objects that are Missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies::{Invalidations, KindId, Read, digest, record_read};
use crate::cluster::layers::{Listing, Rows};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;

#[derive(Debug)]
pub enum Lookup<'a> {
    Found(&'a Object),
    /// The object does not exist.
    Missing,
    /// The object is not in the input, but may exist.
    Unknown,
}

#[derive(Clone, Default)]
struct OfKind {
    namespaces: BTreeMap<Arc<str>, Names>,
    /// The namespaces that have a name, in order: there may be as many namespaces as objects. Empty while there are so
    /// few that all are searched.
    namespaces_of: Rows<String, Arc<str>>,
    is_indexed: bool,
}

#[derive(Clone, Default)]
struct Names {
    /// The objects of each name, nearly always one, in the order of their files, so that results do not depend on the
    /// order of reading.
    entries: Rows<Box<str>, Object>,
    /// Each object once, by its written name; computed when it is first read.
    listed: OnceLock<Arc<[Object]>>,
}

impl Names {
    fn get(&self, name: &str) -> &[Object] {
        self.entries.get(name)
    }

    /// Returns whether the name is new.
    fn insert(&mut self, object: &Object, name: &str) -> bool {
        self.listed.take();
        let is_new = self.get(name).is_empty();
        self.entries.edit(name.into(), |same| {
            let at = same.partition_point(|other| other.sort_key() <= object.sort_key());
            same.insert(at, object.clone());
        });
        is_new
    }

    /// Returns whether no object of the name is left.
    fn remove(&mut self, object: &Object, name: &str) -> bool {
        self.listed.take();
        if self.get(name).is_empty() {
            return false;
        }
        self.entries.edit(name.into(), |same| same.retain(|other| !other.ptr_eq(object)));
        self.get(name).is_empty()
    }

    /// Each object once, by its written name.
    fn listed(&self) -> &[Object] {
        self.listed.get_or_init(|| {
            let mut entries: Vec<(&Box<str>, &[Object])> = self.entries.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            let objects = entries
                .into_iter()
                .flat_map(|(name, same)| same.iter().filter(move |object| object.name() == &**name));
            objects.cloned().collect()
        })
    }
}

/// Maximum number of namespaces that are searched for a name without an index.
const MAX_SEARCHED: usize = 4;

impl OfKind {
    fn get(&self, namespace: &str, name: &str) -> &[Object] {
        self.namespaces.get(namespace).map_or(&[], |names| names.get(name))
    }

    fn insert(&mut self, object: &Object, name: &str) {
        let namespace = object.namespace_or_default();
        let namespace = match self.namespaces.get_key_value(namespace) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(namespace),
        };
        let names = self.namespaces.entry(Arc::clone(&namespace)).or_default();
        if !names.insert(object, name) {
            return;
        }
        if self.is_indexed {
            self.add_namespace(name.to_owned(), namespace);
        } else if self.namespaces.len() > MAX_SEARCHED {
            self.is_indexed = true;
            let all = self.namespaces.iter().flat_map(|(namespace, names)| {
                names.entries.iter().map(move |(name, _)| (name.to_string(), Arc::clone(namespace)))
            });
            for (name, namespace) in all.collect::<Vec<_>>() {
                self.add_namespace(name, namespace);
            }
        }
    }

    fn add_namespace(&mut self, name: String, namespace: Arc<str>) {
        self.namespaces_of.edit(name, |namespaces| {
            let at = namespaces.partition_point(|other| *other < namespace);
            namespaces.insert(at, namespace);
        });
    }

    /// The objects of a name, for each namespace that has it.
    fn named<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [Object]> + use<'a, 'n> {
        let known = self.namespaces_of.get(name).iter();
        let searched = if self.is_indexed { None } else { Some(self.namespaces.values()) };
        let found = searched.into_iter().flatten().map(move |names| names.get(name));
        let found = found.filter(|same| !same.is_empty());
        known.map(move |namespace| self.get(namespace, name)).chain(found)
    }

    fn is_empty(&self) -> bool {
        match self.is_indexed {
            true => self.namespaces_of.is_empty(),
            false => self.namespaces.values().all(|names| names.entries.is_empty()),
        }
    }

    fn remove(&mut self, object: &Object, name: &str) {
        let namespace = object.namespace_or_default();
        if !self.namespaces.get_mut(namespace).is_some_and(|names| names.remove(object, name)) {
            return;
        }
        self.namespaces_of
            .edit(name.to_owned(), |namespaces| namespaces.retain(|other| **other != *namespace));
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectChange {
    Added,
    Removed,
}

/// Whether there are objects of the kind of an object.
struct Existence {
    /// A complete object.
    any: bool,
    /// An object with its namespace, for each of its names.
    named: Vec<bool>,
}

/// The names under which an object is found: the written one, because kustomize rewrites references to it, and the
/// applied one.
fn names(object: &Object) -> impl Iterator<Item = &str> {
    std::iter::once(object.name()).chain(object.applied_name())
}

/// Iterating over objects takes a step for each.
fn step(_: &&Object) {
    steps::take(1);
}

#[derive(Clone, Default)]
pub struct Objects {
    /// The objects by kind, then by group: few kinds have the same name in several groups.
    kinds: BTreeMap<String, Vec<(String, Arc<OfKind>)>>,
    objects: Listing,
    /// The patches and fragments among them, which lookups do not return.
    partial: Vec<Object>,
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

    /// No objects, complete for the same kinds.
    pub(super) fn excerpt(&self) -> Objects {
        Objects { complete: self.complete, complete_kinds: self.complete_kinds.clone(), ..Objects::default() }
    }

    pub(super) fn mark_complete(&mut self, kind: Kind) {
        self.complete_kinds.insert(kind);
    }

    /// Whether a missing object of this kind is known not to exist.
    pub fn is_complete_for(&self, kind: Kind) -> bool {
        self.complete || self.complete_kinds.contains(&kind)
    }

    /// Adds an object to the list of all, after [`Objects::change`].
    pub(super) fn push(&mut self, object: Object) {
        self.objects.own().push(object);
    }

    /// Replaces objects in the list of all, after [`Objects::change`].
    pub(super) fn splice(&mut self, old: &[Object], new: &[Object]) {
        let mut gone: Vec<usize> = old.iter().map(Object::ptr_id).collect();
        gone.sort_unstable();
        let is_gone = |object: &Object| gone.binary_search(&object.ptr_id()).is_ok();
        let objects = self.objects.own();
        let at = match old.first() {
            Some(first) => objects.iter().position(|o| o.ptr_eq(first)),
            None => None,
        };
        if !gone.is_empty() {
            objects.retain(|object| !is_gone(object));
        }
        let at = at.unwrap_or(objects.len()).min(objects.len());
        objects.splice(at..at, new.iter().cloned());
    }

    /// A copy with some objects in place of others, which shares the rest.
    pub(super) fn with(&self, old: &[Object], new: &[Object]) -> Objects {
        let mut out = Objects { objects: self.objects.with(old, new), ..self.clone() };
        for (change, objects) in [(ObjectChange::Removed, old), (ObjectChange::Added, new)] {
            objects.iter().for_each(|object| out.change(change, object, &mut Invalidations::disabled()));
        }
        out
    }

    /// Adds or removes an object, and collects the lookups whose results change.
    pub(super) fn change(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>) {
        invalid.add(|| Read::All);
        if object.is_partial() {
            match change {
                ObjectChange::Added => self.partial.push(object.clone()),
                ObjectChange::Removed => {
                    let at = self.partial.iter().position(|other| other.ptr_eq(object));
                    at.map(|at| self.partial.swap_remove(at));
                }
            }
            return;
        }
        let before = invalid.is_enabled().then(|| self.existence(object));
        for name in names(object) {
            match change {
                ObjectChange::Added => self.insert(object, name),
                ObjectChange::Removed => self.remove(object, name),
            }
        }
        let Some(before) = before else { return };
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
        self.of_kind(group, kind).is_some_and(|objects| !objects.is_empty())
    }

    fn all_untracked(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        self.of_kind(group, kind).map_or(&[], |objects| objects.get(namespace, name))
    }

    fn remove(&mut self, object: &Object, name: &str) {
        let id = object.id();
        let groups = self.kinds.get_mut(&id.kind).into_iter().flatten();
        for (_, objects) in groups.filter(|(group, _)| *group == id.group) {
            Arc::make_mut(objects).remove(object, name);
        }
    }

    fn insert(&mut self, object: &Object, name: &str) {
        let id = object.id();
        if !self.kinds.contains_key(&id.kind) {
            self.kinds.insert(id.kind.clone(), Vec::new());
        }
        let Some(groups) = self.kinds.get_mut(&id.kind) else { return };
        let at = groups.iter().position(|(group, _)| *group == id.group);
        let at = at.unwrap_or_else(|| {
            groups.push((id.group.clone(), Arc::default()));
            groups.len() - 1
        });
        Arc::make_mut(&mut groups[at].1).insert(object, name);
    }

    fn of_kind(&self, group: &str, kind: &str) -> Option<&OfKind> {
        let groups = self.kinds.get(kind)?;
        groups.iter().find(|(g, _)| g == group).map(|(_, objects)| &**objects)
    }

    /// Every object, in the order it was applied.
    pub fn objects(&self) -> &[Object] {
        record_read(|| Read::All);
        self.objects.as_slice()
    }

    /// The patches and fragments, in no order.
    pub(crate) fn partial(&self) -> &[Object] {
        record_read(|| Read::All);
        &self.partial
    }

    /// The complete objects of all kinds of an API group.
    pub(crate) fn of_group<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Object> {
        record_read(|| Read::All);
        let kinds = self.kinds.values().flatten().filter(move |(own, _)| own == group);
        kinds.flat_map(|(_, objects)| objects.namespaces.values()).flat_map(Names::listed).inspect(step)
    }

    /// The number of objects, for limits of caches; no finding may depend on it.
    pub(super) fn number_of_objects(&self) -> usize {
        self.objects.len()
    }

    /// Whether objects that are not in the input do not exist.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The complete objects of a kind, by namespace and name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        record_read(|| Read::Kind(kind.into()));
        let objects = self.of_kind(kind.group, kind.kind);
        objects
            .into_iter()
            .flat_map(|objects| objects.namespaces.values())
            .flat_map(Names::listed)
            .inspect(step)
    }

    /// The complete objects of a kind in a namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        record_read(|| Read::Namespace(kind.into(), digest(namespace)));
        self.of_kind(kind.group, kind.kind)
            .and_then(|objects| objects.namespaces.get(namespace))
            .into_iter()
            .flat_map(Names::listed)
            .inspect(step)
    }

    /// All objects with one identity; more than one is a duplicate.
    pub fn all(&self, group: &str, kind: &str, namespace: &str, name: &str) -> &[Object] {
        record_read(|| Read::Name(KindId::of(group, kind), digest((namespace, name))));
        self.all_untracked(group, kind, namespace, name)
    }

    /// The objects of a kind with this name, grouped by namespace, each group in the order of their files.
    pub fn named<'a, 'n>(
        &'a self,
        group: &str,
        kind: &str,
        name: &'n str,
    ) -> impl Iterator<Item = &'a [Object]> + use<'a, 'n> {
        record_read(|| Read::NameAnywhere(KindId::of(group, kind), digest(name)));
        let objects = self.of_kind(group, kind);
        objects.into_iter().flat_map(move |objects| objects.named(name))
    }

    /// The objects of a kind that are written with this name, in any namespace: the API server ignores the namespace
    /// of cluster-scoped objects.
    pub(crate) fn written_as<'a, 'n>(
        &'a self,
        kind: Kind,
        name: &'n str,
    ) -> impl Iterator<Item = &'a Object> + use<'a, 'n> {
        self.named(kind.group, kind.kind, name).flatten().filter(move |object| object.name() == name)
    }

    /// Whether there is an object with this identity. A computation that only reads this does not depend on
    /// the content of the object.
    pub(crate) fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        record_read(|| Read::Exists(kind.into(), digest((namespace, name))));
        !self.all_untracked(kind.group, kind.kind, namespace, name).is_empty()
    }

    /// Whether there is any complete object of a kind.
    pub fn has_any(&self, kind: Kind) -> bool {
        record_read(|| Read::Any(kind.into()));
        self.has_any_untracked(kind.group, kind.kind)
    }

    /// Looks an object up. For cluster-scoped kinds the namespace is `default`.
    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Lookup<'_> {
        match self.all(kind.group, kind.kind, namespace, name).first() {
            Some(object) => Lookup::Found(object),
            None if self.is_complete_for(kind) => Lookup::Missing,
            None => Lookup::Unknown,
        }
    }

    /// The object with an identity, if there is exactly one. If there are several, as in a folder of
    /// examples, it is not known which one is meant.
    pub(crate) fn unique(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        match self.all(kind.group, kind.kind, namespace, name) {
            [one] => Some(one),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectChange, Objects};
    use crate::cluster::dependencies::Invalidations;
    use crate::file::File;
    use crate::kind::Kind;
    use crate::object::Object;
    use crate::source::Source;

    fn pod(namespace: usize, name: usize) -> Object {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: n{name}, namespace: s{namespace}}}\nspec: {{}}\n"
        );
        File::read(Source::from_text(&format!("{namespace}/{name}.yaml"), &text)).objects[0].clone()
    }

    #[test]
    fn names_are_found_in_few_and_in_many_namespaces() {
        let mut state = 1_usize;
        let mut random = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for most in [1, 3, 4, 5, 12] {
            let mut objects = Objects::new(false);
            let mut present: Vec<Object> = Vec::new();
            for _ in 0..120 {
                if random(3) == 0 && !present.is_empty() {
                    let gone = present.swap_remove(random(present.len()));
                    objects.change(ObjectChange::Removed, &gone, &mut Invalidations::disabled());
                } else {
                    let added = pod(random(most), random(6));
                    objects.change(ObjectChange::Added, &added, &mut Invalidations::disabled());
                    present.push(added);
                }
                assert_eq!(objects.has_any(Kind::POD), !present.is_empty());
                for name in ["n0", "n1", "n5"] {
                    let found = objects.named("", "Pod", name).flatten();
                    let mut found: Vec<_> =
                        found.map(|pod| (pod.namespace().map(str::to_owned), pod.ptr_id())).collect();
                    assert!(found.is_sorted_by(|a, b| a.0 <= b.0));
                    let mut wanted: Vec<_> = present
                        .iter()
                        .filter(|pod| pod.name() == name)
                        .map(|pod| (pod.namespace().map(str::to_owned), pod.ptr_id()))
                        .collect();
                    found.sort();
                    wanted.sort();
                    assert_eq!(found, wanted);
                }
            }
        }
    }
}
