//! Objects by something that they say, kept while objects come and go.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{Topic, Touched, topic};
use crate::object::Object;

use crate::cluster::views::Workload;

/// Whether an object has come or is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Come,
    Go,
}

/// What a relation holds of an object.
pub(super) trait Item: Clone {
    /// The object.
    fn object(&self) -> &Object;

    /// The order in which an index gives them.
    fn order(&self, other: &Self) -> Ordering;
}

impl Item for Object {
    fn object(&self) -> &Object {
        self
    }

    fn order(&self, other: &Object) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Item for Arc<Workload> {
    fn object(&self) -> &Object {
        &self.object
    }

    fn order(&self, other: &Arc<Workload>) -> Ordering {
        Workload::order(self, other)
    }
}

/// Lists of objects by a key of several texts.
#[derive(Debug)]
pub(super) struct Relation<const N: usize, T> {
    about: &'static str,
    lists: HashMap<Box<str>, Few<T>>,
}

const FIRST: &str = "first";

/// Nearly always one.
#[derive(Debug)]
enum Few<T> {
    One(T),
    More(Vec<T>),
}

impl<const N: usize, T: Item> Relation<N, T> {
    /// An empty one; `about` tells its questions from those of others.
    pub(super) fn new(about: &'static str) -> Relation<N, T> {
        Relation { about, lists: HashMap::new() }
    }

    pub(super) fn get(&self, key: [&str; N]) -> &[T] {
        dependencies::asked(|| topic(self.about, key));
        match self.lists.get(joined(key).as_str()) {
            None => &[],
            Some(Few::One(one)) => std::slice::from_ref(one),
            Some(Few::More(list)) => list,
        }
    }

    /// The first of a list. Who asks for no more is told only where another one is the first.
    pub(super) fn first(&self, key: [&str; N]) -> Option<&T> {
        dependencies::asked(|| topic(self.about, (FIRST, key)));
        self.head(key)
    }

    fn head(&self, key: [&str; N]) -> Option<&T> {
        match self.lists.get(joined(key).as_str())? {
            Few::One(one) => Some(one),
            Few::More(list) => list.first(),
        }
    }

    pub(super) fn change(&mut self, change: Change, key: [&str; N], item: &T, touched: &mut Touched<'_>) {
        touched.add(|| topic(self.about, key));
        let address = |first: &T| first.object().address();
        let before = self.head(key).map(address);
        self.put(change, key, item);
        if self.head(key).map(address) != before {
            touched.add(|| topic(self.about, (FIRST, key)));
        }
    }

    fn put(&mut self, change: Change, key: [&str; N], item: &T) {
        let key = joined(key);
        let Some(few) = self.lists.get_mut(key.as_str()) else {
            if matches!(change, Change::Come) {
                let one = Few::One(item.clone());
                self.lists.insert(key.into_boxed_str(), one);
            }
            return;
        };
        let mut list = match few {
            Few::One(one) => vec![one.clone()],
            Few::More(list) => std::mem::take(list),
        };
        match change {
            Change::Come => {
                let after = |other: &T| other.order(item) != Ordering::Greater;
                let at = match list.last() {
                    Some(last) if !after(last) => list.partition_point(after),
                    _ => list.len(),
                };
                list.insert(at, item.clone());
            }
            Change::Go => list.retain(|other| !other.object().is_handle_of(item.object())),
        }
        if list.is_empty() {
            self.lists.remove(key.as_str());
        } else {
            *few = Few::More(list);
        }
    }
}

/// Texts as one, each with its length, so that no other texts make the same.
fn joined<const N: usize>(key: [&str; N]) -> String {
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
pub(crate) struct Counts<K> {
    about: &'static str,
    counts: BTreeMap<K, usize>,
}

impl<K: Ord + Hash> Counts<K> {
    pub(crate) fn new(about: &'static str) -> Counts<K> {
        Counts { about, counts: BTreeMap::new() }
    }

    pub(crate) fn has(&self, key: &K) -> bool {
        dependencies::asked(|| topic(self.about, key));
        self.counts.contains_key(key)
    }

    /// Everything that is said, with how many say it.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&K, usize)> {
        dependencies::asked(|| topic(self.about, ()));
        self.counts.iter().map(|(key, count)| (key, *count))
    }

    /// Everything that is said, however many say it.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        dependencies::asked(|| topic(self.about, KEYS));
        self.counts.keys()
    }

    pub(crate) fn change(&mut self, change: Change, key: K, touched: &mut Touched<'_>) {
        touched.add(|| topic(self.about, ()));
        let count = self.counts.get(&key).copied().unwrap_or(0);
        let now = match change {
            Change::Come => count + 1,
            Change::Go => count.saturating_sub(1),
        };
        if (count == 0) != (now == 0) {
            touched.add(|| topic(self.about, KEYS));
            touched.add(|| topic(self.about, &key));
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
pub(super) struct Derived<T> {
    made: OnceLock<(T, Vec<Topic>)>,
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Derived { made: OnceLock::new() }
    }
}

impl<T> Derived<T> {
    /// `about` tells it from others: who asks rests on it, and it on all that it was made of.
    pub(super) fn get(&self, about: &str, make: impl FnOnce() -> T) -> &T {
        dependencies::asked(|| topic(about, ()));
        &self.made.get_or_init(|| dependencies::record(make)).0
    }

    /// Some objects have changed, which touches these topics, in their order: makes it anew if it
    /// rests on them, and adds its own topic if it is another one then.
    pub(super) fn renew(&mut self, about: &str, touched: &mut Vec<Topic>, make: impl FnOnce() -> T)
    where
        T: PartialEq,
    {
        let rests = |topics: &[Topic]| touched.iter().any(|t| topics.binary_search(t).is_ok());
        if let Some((old, topics)) = self.made.get_mut()
            && rests(topics)
        {
            let (new, now) = dependencies::record(make);
            if new != *old {
                touched.push(topic(about, ()));
            }
            (*old, *topics) = (new, now);
        }
    }
}
