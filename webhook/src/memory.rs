//! What was judged a moment ago: an object that comes again is not judged again.
//!
//! A cluster asks about the same object many times: a dry run and then the request itself, an
//! update and the object before it, a controller that writes what stands there already. What the
//! rules say of an object depends on the object, the configuration and what is known of the
//! cluster, and on nothing else; requests differ in what follows from it, which is not kept.
//!
//! Objects are kept as keyed hashes of 128 bits, never themselves. They are found by their text
//! and, where that differs, by what the rules see of them. Whenever the configuration, the day or
//! anything that is known of the cluster changes, everything is forgotten.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::judge::Judgement;
use crate::metrics::Metrics;

/// Bytes of judgements. There are two halves, of which the older one is dropped as a whole.
const MOST: usize = 4 * 1024 * 1024;
/// What the maps take for each judgement, about.
const PLACE: usize = 96;

/// What a judgement rests on besides its object. Each number grows with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    /// Of the configuration and the day.
    pub(crate) policy: u64,
    /// Of what is known of the cluster.
    pub(crate) snapshot: u64,
}

/// Something of a generation.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    pub(crate) number: u64,
    pub(crate) value: T,
}

/// The name of an object in the memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name(u64, u64);

/// Judgements of one generation, of as many objects as there is room for.
pub(crate) struct Memory {
    /// Chosen at the start, so that nobody can make two objects that have the same name.
    keys: [RandomState; 2],
    kept: Mutex<Kept>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Kept {
    generation: Generation,
    young: HashMap<Name, Arc<Judgement>>,
    old: HashMap<Name, Arc<Judgement>>,
    /// Bytes of the young ones.
    bytes: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Memory {
        Memory { keys: [RandomState::new(), RandomState::new()], kept: Mutex::default(), metrics }
    }

    /// The name of an object as it was sent, in a namespace that the request says.
    pub(crate) fn name_of_text(&self, namespace: Option<&str>, text: &str) -> Name {
        self.name(|hasher| {
            hasher.write_u8(0);
            namespace.hash(hasher);
            hasher.write(text.as_bytes());
        })
    }

    /// The name of an object as the rules see it.
    pub(crate) fn name_of_value(&self, value: &Value) -> Name {
        self.name(|hasher| {
            hasher.write_u8(1);
            value.hash(hasher);
        })
    }

    fn name(&self, write: impl Fn(&mut DefaultHasher)) -> Name {
        let [first, second] = &self.keys;
        let half = |key: &RandomState| {
            let mut hasher = key.build_hasher();
            write(&mut hasher);
            hasher.finish()
        };
        Name(half(first), half(second))
    }

    /// What was said of an object in this generation.
    pub(crate) fn find(&self, of: Generation, name: Name) -> Option<Arc<Judgement>> {
        let mut kept = self.lock();
        if kept.generation != of {
            return None;
        }
        if let Some(found) = kept.young.get(&name) {
            return Some(Arc::clone(found));
        }
        let found = kept.old.remove(&name)?;
        kept.put(name, Arc::clone(&found));
        Some(found)
    }

    /// Keeps what was said of an object in a generation, if that is not over.
    pub(crate) fn keep(&self, of: Generation, name: Name, judgement: &Arc<Judgement>) {
        let mut kept = self.lock();
        if kept.generation != of {
            let now = kept.generation;
            if of.policy < now.policy || of.snapshot < now.snapshot {
                return;
            }
            *kept = Kept { generation: of, ..Kept::default() };
        }
        kept.put(name, Arc::clone(judgement));
        self.metrics.remembers(kept.young.len() + kept.old.len());
    }

    /// One more object was judged, by the rules or from here.
    pub(crate) fn judged(&self, remembered: bool) {
        self.metrics.judged(remembered);
    }

    /// Every change is one call, so a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn put(&mut self, name: Name, judgement: Arc<Judgement>) {
        let bytes = PLACE + judgement.bytes();
        if bytes > MOST / 64 {
            return;
        }
        if self.bytes + bytes > MOST / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.young.insert(name, judgement);
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::{Engine, Index, Object, Settings};
    use serde_json::json;

    use super::*;

    fn judgement(name: &str) -> Arc<Judgement> {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}});
        let object = Object::from_json(&object).unwrap();
        let engine = Engine::new(Settings::default());
        Arc::new(Judgement::of(&engine, &Index::new(false), &object))
    }

    fn memory() -> Memory {
        Memory::new(Arc::new(Metrics::new()))
    }

    fn generation(policy: u64, snapshot: u64) -> Generation {
        Generation { policy, snapshot }
    }

    #[test]
    fn a_generation_does_not_see_what_another_one_kept() {
        let memory = memory();
        let name = memory.name_of_text(None, "{}");
        memory.keep(generation(1, 5), name, &judgement("a"));
        assert!(memory.find(generation(1, 5), name).is_some());
        for other in [generation(1, 6), generation(2, 5), generation(1, 4)] {
            assert!(memory.find(other, name).is_none());
        }
        // Who began before the change ends after it.
        memory.keep(generation(1, 6), name, &judgement("a"));
        memory.keep(generation(1, 5), name, &judgement("b"));
        memory.keep(generation(0, 7), name, &judgement("b"));
        assert!(memory.find(generation(1, 5), name).is_none());
        assert!(memory.find(generation(1, 6), name).is_some());
    }

    #[test]
    fn what_is_kept_has_a_bound_and_what_is_used_stays() {
        let memory = memory();
        let now = Generation::default();
        let often = memory.name_of_text(None, "often");
        let judgement = judgement("a");
        memory.keep(now, often, &judgement);
        for number in 0..200_000 {
            let name = memory.name_of_text(None, &number.to_string());
            memory.keep(now, name, &judgement);
            assert!(memory.find(now, often).is_some(), "{number}");
        }
        let kept = memory.lock();
        let count = kept.young.len() + kept.old.len();
        assert!(count < 50_000 && count > 1_000, "{count}");
        assert!(kept.bytes <= MOST / 2);
    }

    #[test]
    fn names_tell_texts_and_namespaces_apart() {
        let memory = memory();
        let names = [
            memory.name_of_text(None, "{}"),
            memory.name_of_text(Some(""), "{}"),
            memory.name_of_text(Some("a"), "{}"),
            memory.name_of_text(None, "{ }"),
            memory.name_of_value(&json!({})),
            memory.name_of_value(&json!({"a": 1})),
            memory.name_of_value(&json!({"a": "1"})),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(names[..at].iter().all(|other| other != name), "{at}");
        }
    }
}
