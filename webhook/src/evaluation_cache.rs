//! A bounded cache of what the rules found in an object.
//!
//! The API server sends the same object several times: to the mutating and then to the validating
//! webhook, as a dry run and then as the request, as `oldObject` of the next update. What the rules
//! find depends on the object, the configuration, the date and the index snapshot alone, so it is
//! reused while those are the same; the rest of the request takes part in the decision only, which is
//! not cached.
//!
//! With both webhooks installed every second lookup is a hit, milliseconds after the first one. That is
//! why entries need not outlive a snapshot: the versions of configuration and snapshot are part of the
//! key, entries of earlier versions are never found again and leave by eviction. Only what was found without
//! a look at other objects holds beside all snapshots.
//!
//! Keys are keyed 128-bit hashes; objects themselves are not stored. An object is looked up by its text
//! first and, if that misses, by its normalized value, which has none of the fields that the API server
//! changes with every write.

use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use gpulint_rules::Draft;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::metrics::Metrics;

/// Bound of the cache, in bytes.
const CAPACITY_BYTES: usize = 4 * 1024 * 1024;
/// Estimate of what an entry takes besides its value: key, pointers, queue and hash table slots.
const ENTRY_OVERHEAD: usize = 96;
/// Size of a typical entry; the tables of the cache are made for as many as fit.
const TYPICAL_ENTRY: usize = 1024;
/// A larger entry is not cached: it would replace many others.
const MAX_ENTRY_BYTES: usize = CAPACITY_BYTES / 64;

/// What an evaluation depends on besides its object. Each version grows with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Generation {
    /// Of the configuration and the date.
    pub(crate) config: u64,
    /// Of the index.
    pub(crate) snapshot: u64,
    /// Of the kinds that are complete in the index.
    pub(crate) complete: u64,
}

/// What of the cluster a value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Beside {
    /// All of a snapshot.
    Objects(u64),
    /// Merely which kinds are complete.
    Complete(u64),
}

/// A value with the number of its version.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    pub(crate) version: u64,
    pub(crate) value: T,
}

/// A value that knows its size.
pub(crate) trait HeapSize {
    /// Bytes that it takes, memory on the heap included.
    fn bytes(&self) -> usize;
}

/// Identifies an object by content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey(u64, u64);

/// What the rules found, by object and generation, up to a number of bytes.
pub(crate) struct EvaluationCache<V> {
    /// Random per process, so that a client cannot construct two objects with the same key.
    hashers: [RandomState; 2],
    /// By the version of the configuration as well.
    entries: Cache<(u64, Beside, CacheKey), Arc<V>, EntryWeight>,
    metrics: Arc<Metrics>,
}

/// Two hashers that are fed the same, so that an object is walked over once.
struct Twice([DefaultHasher; 2]);

impl Hasher for Twice {
    fn write(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|half| half.write(bytes));
    }

    fn finish(&self) -> u64 {
        self.0[0].finish()
    }
}

#[derive(Clone)]
struct EntryWeight;

impl<K, V: HeapSize> Weighter<K, Arc<V>> for EntryWeight {
    fn weight(&self, _: &K, value: &Arc<V>) -> u64 {
        u64::try_from(ENTRY_OVERHEAD + value.bytes()).unwrap_or(u64::MAX)
    }
}

impl<V> fmt::Debug for EvaluationCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationCache").finish_non_exhaustive()
    }
}

impl<V: HeapSize> EvaluationCache<V> {
    pub(crate) fn new(metrics: Arc<Metrics>) -> EvaluationCache<V> {
        EvaluationCache {
            hashers: [RandomState::new(), RandomState::new()],
            entries: Cache::with_weighter(CAPACITY_BYTES / TYPICAL_ENTRY, CAPACITY_BYTES as u64, EntryWeight),
            metrics,
        }
    }

    /// The key of an object as it was sent, in the namespace of its request, and as a new object or a stored one.
    pub(crate) fn key_of_text(&self, namespace: Option<&str>, is_new: bool, text: &str) -> CacheKey {
        self.key(|hasher| {
            hasher.write_u8(u8::from(is_new) << 1);
            namespace.hash(hasher);
            hasher.write(text.as_bytes());
        })
    }

    /// The key of an object as the rules see it.
    pub(crate) fn key_of_value(&self, value: &Draft) -> CacheKey {
        self.key(|hasher| {
            hasher.write_u8(1);
            value.hash_value(hasher);
        })
    }

    fn key(&self, write: impl Fn(&mut Twice)) -> CacheKey {
        let mut hasher = Twice(self.hashers.each_ref().map(RandomState::build_hasher));
        write(&mut hasher);
        let [first, second] = hasher.0.map(|half| half.finish());
        CacheKey(first, second)
    }

    /// The value of an object in a generation.
    pub(crate) fn get(&self, generation: Generation, key: CacheKey) -> Option<Arc<V>> {
        let Generation { config, snapshot, complete } = generation;
        let beside = [Beside::Objects(snapshot), Beside::Complete(complete)];
        beside.into_iter().find_map(|beside| self.entries.get(&(config, beside, key)))
    }

    /// Adds the value of an object in a generation, and whether it depends on other objects.
    pub(crate) fn insert(&self, generation: Generation, key: CacheKey, value: &Arc<V>, reads_cluster: bool) {
        if value.bytes() <= MAX_ENTRY_BYTES {
            let Generation { config, snapshot, complete } = generation;
            let beside = if reads_cluster { Beside::Objects(snapshot) } else { Beside::Complete(complete) };
            self.entries.insert((config, beside, key), Arc::clone(value));
            self.metrics.cache_size(self.entries.len());
        }
    }

    /// Counts an object that was evaluated.
    pub(crate) fn record_lookup(&self, hit: bool) {
        self.metrics.evaluated(hit);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A value of as many bytes.
    struct Bytes(usize);

    impl HeapSize for Bytes {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn cache() -> EvaluationCache<Bytes> {
        EvaluationCache::new(Arc::new(Metrics::new()))
    }

    fn generation(config: u64, snapshot: u64) -> Generation {
        Generation { config, snapshot, complete: 0 }
    }

    #[test]
    fn an_entry_is_found_in_its_own_generation_only() {
        let cache = cache();
        let key = cache.key_of_text(None, true, "{}");
        cache.insert(generation(1, 5), key, &Arc::new(Bytes(1)), true);
        assert!(cache.get(generation(1, 5), key).is_some());
        for other in [generation(1, 6), generation(2, 5), generation(1, 4)] {
            assert!(cache.get(other, key).is_none());
        }
        // A request that began before a change inserts after it.
        cache.insert(generation(1, 6), key, &Arc::new(Bytes(2)), true);
        cache.insert(generation(1, 5), key, &Arc::new(Bytes(3)), true);
        assert_eq!(cache.get(generation(1, 6), key).unwrap().0, 2);
    }

    #[test]
    fn what_depends_on_no_other_object_holds_while_the_same_kinds_are_complete() {
        let cache = cache();
        let key = cache.key_of_text(None, true, "{}");
        cache.insert(generation(1, 5), key, &Arc::new(Bytes(1)), false);
        assert!(cache.get(generation(1, 6), key).is_some());
        assert!(cache.get(generation(2, 5), key).is_none());
        assert!(cache.get(Generation { complete: 1, ..generation(1, 5) }, key).is_none());
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let cache = cache();
        let now = Generation::default();
        let used = cache.key_of_text(None, true, "used");
        let value = Arc::new(Bytes(2_000));
        cache.insert(now, used, &value, true);
        for number in 0..20_000 {
            let key = cache.key_of_text(None, true, &number.to_string());
            cache.insert(now, key, &value, true);
            assert!(cache.get(now, used).is_some(), "{number}");
        }
        assert!(cache.entries.weight() <= CAPACITY_BYTES as u64, "{}", cache.entries.weight());
        assert!(cache.entries.len() > 1_000, "{}", cache.entries.len());
        let large = cache.key_of_text(None, true, "large");
        cache.insert(now, large, &Arc::new(Bytes(MAX_ENTRY_BYTES + 1)), true);
        assert!(cache.get(now, large).is_none());
    }

    #[test]
    fn keys_differ_by_text_value_and_namespace() {
        let cache = cache();
        let keys = [
            cache.key_of_text(None, true, "{}"),
            cache.key_of_text(Some(""), true, "{}"),
            cache.key_of_text(Some("a"), true, "{}"),
            cache.key_of_text(None, true, "{ }"),
            cache.key_of_text(None, false, "{}"),
            cache.key_of_value(&Draft::of(&json!({}))),
            cache.key_of_value(&Draft::of(&json!({"a": 1}))),
            cache.key_of_value(&Draft::of(&json!({"a": "1"}))),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key), "{at}");
        }
    }
}
