//! Objects by something that they say, kept while objects come and go.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{DependencyKey, Invalidations, dependency_key};
use crate::object::Object;

use crate::cluster::views::Workload;

/// Whether an object has come or is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectChange {
    Added,
    Removed,
}

/// What a relation holds of an object.
pub(super) trait Indexed: Clone {
    /// The object.
    fn object(&self) -> &Object;

    /// The order in which an index gives them.
    fn cmp_index_order(&self, other: &Self) -> Ordering;
}

impl Indexed for Object {
    fn object(&self) -> &Object {
        self
    }

    fn cmp_index_order(&self, other: &Object) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl Indexed for Arc<Workload> {
    fn object(&self) -> &Object {
        &self.object
    }

    fn cmp_index_order(&self, other: &Arc<Workload>) -> Ordering {
        Workload::cmp_index_order(self, other)
    }
}

/// Lists of objects by a key of several texts.
#[derive(Debug)]
pub(super) struct MultiIndex<const N: usize, T> {
    about: &'static str,
    entries: HashMap<Box<str>, Bucket<T>>,
}

const FIRST: &str = "first";

/// Nearly always one.
#[derive(Debug)]
enum Bucket<T> {
    One(T),
    Many(Vec<T>),
}

impl<const N: usize, T: Indexed> MultiIndex<N, T> {
    /// An empty one; `about` tells its questions from those of others.
    pub(super) fn new(about: &'static str) -> MultiIndex<N, T> {
        MultiIndex { about, entries: HashMap::new() }
    }

    pub(super) fn get(&self, key: [&str; N]) -> &[T] {
        dependencies::record_read(|| dependency_key(self.about, key));
        match self.entries.get(encode_key(key).as_str()) {
            None => &[],
            Some(Bucket::One(one)) => std::slice::from_ref(one),
            Some(Bucket::Many(list)) => list,
        }
    }

    /// The first of a list. Who asks for no more is told only where another one is the first.
    pub(super) fn first(&self, key: [&str; N]) -> Option<&T> {
        dependencies::record_read(|| dependency_key(self.about, (FIRST, key)));
        self.first_untracked(key)
    }

    fn first_untracked(&self, key: [&str; N]) -> Option<&T> {
        match self.entries.get(encode_key(key).as_str())? {
            Bucket::One(one) => Some(one),
            Bucket::Many(list) => list.first(),
        }
    }

    pub(super) fn apply(
        &mut self,
        change: ObjectChange,
        key: [&str; N],
        item: &T,
        touched: &mut Invalidations<'_>,
    ) {
        touched.add(|| dependency_key(self.about, key));
        let address = |first: &T| first.object().ptr_id();
        let before = self.first_untracked(key).map(address);
        self.update_bucket(change, key, item);
        if self.first_untracked(key).map(address) != before {
            touched.add(|| dependency_key(self.about, (FIRST, key)));
        }
    }

    fn update_bucket(&mut self, change: ObjectChange, key: [&str; N], item: &T) {
        let key = encode_key(key);
        let Some(few) = self.entries.get_mut(key.as_str()) else {
            if matches!(change, ObjectChange::Added) {
                let one = Bucket::One(item.clone());
                self.entries.insert(key.into_boxed_str(), one);
            }
            return;
        };
        let mut list = match few {
            Bucket::One(one) => vec![one.clone()],
            Bucket::Many(list) => std::mem::take(list),
        };
        match change {
            ObjectChange::Added => {
                let after = |other: &T| other.cmp_index_order(item) != Ordering::Greater;
                let at = match list.last() {
                    Some(last) if !after(last) => list.partition_point(after),
                    _ => list.len(),
                };
                list.insert(at, item.clone());
            }
            ObjectChange::Removed => list.retain(|other| !other.object().ptr_eq(item.object())),
        }
        if list.is_empty() {
            self.entries.remove(key.as_str());
        } else {
            *few = Bucket::Many(list);
        }
    }
}

/// Texts as one, each with its length, so that no other texts make the same.
fn encode_key<const N: usize>(key: [&str; N]) -> String {
    let mut out = String::with_capacity(key.iter().map(|text| text.len() + 3).sum());
    for (at, text) in key.iter().enumerate() {
        if at + 1 < N {
            // The last one needs no length.
            let _ = write!(out, "{} ", text.len());
        }
        out.push_str(text);
    }
    out
}

const KEYS: &str = "keys";

/// How many objects say something.
#[derive(Debug)]
pub(crate) struct Multiset<K> {
    about: &'static str,
    counts: BTreeMap<K, usize>,
}

impl<K: Ord + Hash> Multiset<K> {
    pub(crate) fn new(about: &'static str) -> Multiset<K> {
        Multiset { about, counts: BTreeMap::new() }
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        dependencies::record_read(|| dependency_key(self.about, key));
        self.counts.contains_key(key)
    }

    /// Everything that is said, with how many say it.
    pub(crate) fn with_counts(&self) -> impl Iterator<Item = (&K, usize)> {
        dependencies::record_read(|| dependency_key(self.about, ()));
        self.counts.iter().map(|(key, count)| (key, *count))
    }

    /// Everything that is said, however many say it.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        dependencies::record_read(|| dependency_key(self.about, KEYS));
        self.counts.keys()
    }

    pub(crate) fn apply(&mut self, change: ObjectChange, key: K, touched: &mut Invalidations<'_>) {
        touched.add(|| dependency_key(self.about, ()));
        let count = self.counts.get(&key).copied().unwrap_or(0);
        let now = match change {
            ObjectChange::Added => count + 1,
            ObjectChange::Removed => count.saturating_sub(1),
        };
        if (count == 0) != (now == 0) {
            touched.add(|| dependency_key(self.about, KEYS));
            touched.add(|| dependency_key(self.about, &key));
        }
        if now == 0 {
            self.counts.remove(&key);
        } else {
            self.counts.insert(key, now);
        }
    }
}

/// Something made of the whole index when first asked for, and made anew when what it rests on has
/// changed.
#[derive(Debug)]
pub(super) struct Memo<T> {
    cell: OnceLock<(T, Vec<DependencyKey>)>,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Memo { cell: OnceLock::new() }
    }
}

impl<T> Memo<T> {
    /// `about` tells it from others: who asks rests on it, and it on all that it was made of.
    pub(super) fn get(&self, about: &str, make: impl FnOnce() -> T) -> &T {
        dependencies::record_read(|| dependency_key(about, ()));
        &self.cell.get_or_init(|| dependencies::track(make)).0
    }

    /// Some objects have changed, which touches these topics, in their order: makes it anew if it
    /// rests on them, and adds its own topic if it is another one then.
    pub(super) fn update(&mut self, about: &str, touched: &mut Vec<DependencyKey>, make: impl FnOnce() -> T)
    where
        T: PartialEq,
    {
        let rests = |topics: &[DependencyKey]| touched.iter().any(|t| topics.binary_search(t).is_ok());
        if let Some((old, topics)) = self.cell.get_mut()
            && rests(topics)
        {
            let (new, now) = dependencies::track(make);
            if new != *old {
                touched.push(dependency_key(about, ()));
            }
            (*old, *topics) = (new, now);
        }
    }
}
