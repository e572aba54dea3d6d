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

use crate::evaluate::Evaluation;
use crate::metrics::Metrics;

/// Bytes of judgements. There are two halves, of which the older one is dropped as a whole.
const CAPACITY_BYTES: usize = 4 * 1024 * 1024;
/// What the maps take for each judgement, about.
const ENTRY_OVERHEAD: usize = 96;

/// What a judgement rests on besides its object. Each number grows with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    /// Of the configuration and the day.
    pub(crate) config: u64,
    /// Of what is known of the cluster.
    pub(crate) snapshot: u64,
}

/// Something of a generation.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    pub(crate) version: u64,
    pub(crate) value: T,
}

/// The name of an object in the memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey(u64, u64);

/// Judgements of one generation, of as many objects as there is room for.
pub(crate) struct EvaluationCache {
    /// Chosen at the start, so that nobody can make two objects that have the same name.
    hashers: [RandomState; 2],
    state: Mutex<CacheState>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct CacheState {
    generation: Generation,
    current: HashMap<CacheKey, Arc<Evaluation>>,
    previous: HashMap<CacheKey, Arc<Evaluation>>,
    /// Bytes of the young ones.
    current_bytes: usize,
}

impl fmt::Debug for EvaluationCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl EvaluationCache {
    pub(crate) fn new(metrics: Arc<Metrics>) -> EvaluationCache {
        EvaluationCache {
            hashers: [RandomState::new(), RandomState::new()],
            state: Mutex::default(),
            metrics,
        }
    }

    /// The name of an object as it was sent, in a namespace that the request says.
    pub(crate) fn key_of_text(&self, namespace: Option<&str>, text: &str) -> CacheKey {
        self.key(|hasher| {
            hasher.write_u8(0);
            namespace.hash(hasher);
            hasher.write(text.as_bytes());
        })
    }

    /// The name of an object as the rules see it.
    pub(crate) fn key_of_value(&self, value: &Value) -> CacheKey {
        self.key(|hasher| {
            hasher.write_u8(1);
            value.hash(hasher);
        })
    }

    fn key(&self, write: impl Fn(&mut DefaultHasher)) -> CacheKey {
        let [first, second] = &self.hashers;
        let half = |key: &RandomState| {
            let mut hasher = key.build_hasher();
            write(&mut hasher);
            hasher.finish()
        };
        CacheKey(half(first), half(second))
    }

    /// What was said of an object in this generation.
    pub(crate) fn get(&self, of: Generation, name: CacheKey) -> Option<Arc<Evaluation>> {
        let mut kept = self.lock();
        if kept.generation != of {
            return None;
        }
        if let Some(found) = kept.current.get(&name) {
            return Some(Arc::clone(found));
        }
        let found = kept.previous.remove(&name)?;
        kept.insert(name, Arc::clone(&found));
        Some(found)
    }

    /// Keeps what was said of an object in a generation, if that is not over.
    pub(crate) fn insert(&self, of: Generation, name: CacheKey, judgement: &Arc<Evaluation>) {
        let mut kept = self.lock();
        if kept.generation != of {
            let now = kept.generation;
            if of.config < now.config || of.snapshot < now.snapshot {
                return;
            }
            *kept = CacheState { generation: of, ..CacheState::default() };
        }
        kept.insert(name, Arc::clone(judgement));
        self.metrics.cache_size(kept.current.len() + kept.previous.len());
    }

    /// One more object was judged, by the rules or from here.
    pub(crate) fn record_lookup(&self, remembered: bool) {
        self.metrics.evaluated(remembered);
    }

    /// Every change is one call, so a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn insert(&mut self, name: CacheKey, judgement: Arc<Evaluation>) {
        let bytes = ENTRY_OVERHEAD + judgement.bytes();
        if bytes > CAPACITY_BYTES / 64 {
            return;
        }
        if self.current_bytes + bytes > CAPACITY_BYTES / 2 {
            self.previous = std::mem::take(&mut self.current);
            self.current_bytes = 0;
        }
        self.current_bytes += bytes;
        self.current.insert(name, judgement);
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::{Engine, Index, Object, Settings};
    use serde_json::json;

    use super::*;

    fn judgement(name: &str) -> Arc<Evaluation> {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}});
        let object = Object::from_json(&object).unwrap();
        let engine = Engine::new(Settings::default());
        Arc::new(Evaluation::of(&engine, &Index::new(false), &object))
    }

    fn memory() -> EvaluationCache {
        EvaluationCache::new(Arc::new(Metrics::new()))
    }

    fn generation(policy: u64, snapshot: u64) -> Generation {
        Generation { config: policy, snapshot }
    }

    #[test]
    fn a_generation_does_not_see_what_another_one_kept() {
        let memory = memory();
        let name = memory.key_of_text(None, "{}");
        memory.insert(generation(1, 5), name, &judgement("a"));
        assert!(memory.get(generation(1, 5), name).is_some());
        for other in [generation(1, 6), generation(2, 5), generation(1, 4)] {
            assert!(memory.get(other, name).is_none());
        }
        // Who began before the change ends after it.
        memory.insert(generation(1, 6), name, &judgement("a"));
        memory.insert(generation(1, 5), name, &judgement("b"));
        memory.insert(generation(0, 7), name, &judgement("b"));
        assert!(memory.get(generation(1, 5), name).is_none());
        assert!(memory.get(generation(1, 6), name).is_some());
    }

    #[test]
    fn what_is_kept_has_a_bound_and_what_is_used_stays() {
        let memory = memory();
        let now = Generation::default();
        let often = memory.key_of_text(None, "often");
        let judgement = judgement("a");
        memory.insert(now, often, &judgement);
        for number in 0..200_000 {
            let name = memory.key_of_text(None, &number.to_string());
            memory.insert(now, name, &judgement);
            assert!(memory.get(now, often).is_some(), "{number}");
        }
        let kept = memory.lock();
        let count = kept.current.len() + kept.previous.len();
        assert!(count < 50_000 && count > 1_000, "{count}");
        assert!(kept.current_bytes <= CAPACITY_BYTES / 2);
    }

    #[test]
    fn names_tell_texts_and_namespaces_apart() {
        let memory = memory();
        let names = [
            memory.key_of_text(None, "{}"),
            memory.key_of_text(Some(""), "{}"),
            memory.key_of_text(Some("a"), "{}"),
            memory.key_of_text(None, "{ }"),
            memory.key_of_value(&json!({})),
            memory.key_of_value(&json!({"a": 1})),
            memory.key_of_value(&json!({"a": "1"})),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(names[..at].iter().all(|other| other != name), "{at}");
        }
    }
}
