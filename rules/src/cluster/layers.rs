//! Collections of which a changed copy shares nearly everything with the original, so that a cluster with a few other
//! objects costs little beside a large one.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use crate::object::Object;

/// A multimap. A key without rows is none.
#[derive(Clone)]
pub(super) struct Rows<K, R> {
    shared: Arc<HashMap<K, Vec<R>>>,
    /// All rows of the keys that differ from the shared ones, which may be none.
    changed: HashMap<K, Vec<R>>,
}

impl<K, R> Default for Rows<K, R> {
    fn default() -> Rows<K, R> {
        Rows::from(HashMap::new())
    }
}

impl<K, R> From<HashMap<K, Vec<R>>> for Rows<K, R> {
    /// Each key has to have rows.
    fn from(rows: HashMap<K, Vec<R>>) -> Rows<K, R> {
        Rows { shared: Arc::new(rows), changed: HashMap::new() }
    }
}

impl<K: Hash + Eq, R: Clone> Rows<K, R> {
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> &[R]
    where
        K: Borrow<Q>,
    {
        let changed = if self.changed.is_empty() { None } else { self.changed.get(key) };
        changed.or_else(|| self.shared.get(key)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_empty(&self) -> bool {
        if self.changed.is_empty() { self.shared.is_empty() } else { self.iter().next().is_none() }
    }

    /// The keys with their rows, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &[R])> {
        let unchanged = self.shared.iter().filter(|(key, _)| !self.changed.contains_key(*key));
        unchanged
            .chain(self.changed.iter().filter(|(_, rows)| !rows.is_empty()))
            .map(|(key, rows)| (key, rows.as_slice()))
    }

    /// Changes the rows of a key.
    pub(super) fn edit(&mut self, key: K, edit: impl FnOnce(&mut Vec<R>)) {
        let rows = match Arc::get_mut(&mut self.shared).filter(|_| self.changed.is_empty()) {
            Some(own) => own,
            None => {
                // The rows that are shared belong to another collection as well, or did.
                let rows = self.changed.entry(key);
                let shared = &self.shared;
                edit(rows.or_insert_with_key(|key| shared.get(key).cloned().unwrap_or_default()));
                return;
            }
        };
        match rows.entry(key) {
            Entry::Occupied(mut known) => {
                edit(known.get_mut());
                if known.get().is_empty() {
                    known.remove();
                }
            }
            Entry::Vacant(new) => {
                // Nearly all keys have one row.
                let mut rows = Vec::with_capacity(1);
                edit(&mut rows);
                if !rows.is_empty() {
                    new.insert(rows);
                }
            }
        }
    }
}

/// Objects in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Listing {
    shared: Arc<Vec<Object>>,
    /// The objects of a copy, if it has others.
    changed: Option<Changed>,
}

#[derive(Clone)]
struct Changed {
    /// The addresses of objects that the copy does not have, sorted.
    gone: Vec<usize>,
    new: Vec<Object>,
    /// Made when it is first read.
    all: OnceLock<Vec<Object>>,
}

impl Listing {
    pub(super) fn as_slice(&self) -> &[Object] {
        let Some(changed) = &self.changed else { return &self.shared };
        changed.all.get_or_init(|| {
            let is_left = |object: &&Object| changed.gone.binary_search(&object.ptr_id()).is_err();
            self.shared.iter().filter(is_left).chain(&changed.new).cloned().collect()
        })
    }

    /// The number of objects, or a few more.
    pub(super) fn len(&self) -> usize {
        self.shared.len() + self.changed.as_ref().map_or(0, |changed| changed.new.len())
    }

    /// The list to change it in place.
    pub(super) fn own(&mut self) -> &mut Vec<Object> {
        if self.changed.is_some() {
            *self = Listing { shared: Arc::new(self.as_slice().to_vec()), changed: None };
        }
        Arc::make_mut(&mut self.shared)
    }

    /// A copy with some objects in place of others.
    pub(super) fn with(&self, old: &[Object], new: &[Object]) -> Listing {
        let mut gone: Vec<usize> = old.iter().map(Object::ptr_id).collect();
        gone.sort_unstable();
        let shared = match &self.changed {
            Some(_) => Arc::new(self.as_slice().to_vec()),
            None => Arc::clone(&self.shared),
        };
        Listing { shared, changed: Some(Changed { gone, new: new.to_vec(), all: OnceLock::new() }) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Rows;

    /// Rows, and the same in a map that nothing shares.
    type Pair = (Rows<usize, usize>, BTreeMap<usize, Vec<usize>>);

    #[test]
    fn a_copy_changes_alone() {
        let mut state = 1_usize;
        let mut random = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut copies: Vec<Pair> = vec![Pair::default()];
        for step in 0..2_000 {
            let at = random(copies.len());
            if random(60) == 0 && copies.len() < 5 {
                let copy = copies[at].clone();
                copies.push(copy);
            } else if random(100) == 0 && copies.len() > 1 {
                copies.swap_remove(at);
                continue;
            }
            let (key, adds) = (random(12), random(2) == 0);
            let edit = |rows: &mut Vec<usize>| {
                if adds {
                    rows.push(step);
                } else {
                    rows.pop();
                }
            };
            let (rows, wanted) = &mut copies[at];
            rows.edit(key, edit);
            edit(wanted.entry(key).or_default());
            wanted.retain(|_, rows| !rows.is_empty());
            for (rows, wanted) in &copies {
                let all: BTreeMap<usize, Vec<usize>> = rows.iter().map(|(k, v)| (*k, v.to_vec())).collect();
                assert_eq!(all, *wanted);
                assert_eq!(rows.is_empty(), wanted.is_empty());
                assert!((0..12).all(|key| rows.get(&key) == wanted.get(&key).map_or(&[][..], Vec::as_slice)));
            }
        }
    }
}
