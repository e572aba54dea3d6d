//! A bounded cache of the findings for objects.
//!
//! The API server sends the same object several times: to the mutating and then to the validating webhook, as a dry
//! run and then as the request, as `oldObject` of the next update. The findings depend only on the object, the
//! configuration, the date and the snapshot, so they are reused while these are the same; other parts of the request
//! only affect the decision, which is not cached.
//!
//! With both webhooks installed every second lookup is a hit, milliseconds after the first one. So entries need not
//! outlive a snapshot: the versions of configuration and snapshot are part of the key, and entries of earlier versions
//! are never found again and are evicted. Only findings that do not depend on other objects are valid for all
//! snapshots.
//!
//! Keys are keyed 128-bit hashes; objects themselves are not stored. An object is looked up by its text first and, if
//! that misses, by its normalized value, which has none of the fields that the API server changes with every write.

use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use gpulint_rules::Draft;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::metrics::Metrics;

/// Maximum size of the cache, in bytes.
const CAPACITY_BYTES: usize = 4 * 1024 * 1024;
/// Estimated size of an entry without its value: key, pointers, queue and hash table slots.
const ENTRY_OVERHEAD: usize = 96;
/// Size of a typical entry, which determines the size of the cache's tables.
const TYPICAL_ENTRY: usize = 1024;
/// Maximum size of an entry: a larger one would replace many others.
const MAX_ENTRY_BYTES: usize = CAPACITY_BYTES / 64;

/// The versions on which an evaluation depends in addition to its object. Each increases with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Generation {
    /// Version of the configuration and the date.
    pub(crate) config: u64,
    /// Version of the snapshot.
    pub(crate) snapshot: u64,
    /// Version of the set of kinds that are complete in the snapshot.
    pub(crate) complete: u64,
}

/// The part of the cluster on which a value depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// A whole snapshot.
    Snapshot(u64),
    /// Only the set of complete kinds.
    CompleteKinds(u64),
}

/// A value with its version.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    pub(crate) version: u64,
    pub(crate) value: T,
}

/// A value with a known size.
pub(crate) trait HeapSize {
    /// Size in bytes, including memory on the heap.
    fn bytes(&self) -> usize;
}

/// Identifies an object by its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey(u64, u64);

/// The findings by object and generation, limited by size.
pub(crate) struct EvaluationCache<V> {
    /// Random per process, so that a client cannot construct two objects with the same key.
    hashers: [RandomState; 2],
    /// The keys include the version of the configuration.
    entries: Cache<(u64, Scope, CacheKey), Arc<V>, EntryWeight>,
    metrics: Arc<Metrics>,
}

/// Two hashers with the same input, so that an object is traversed once.
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

    /// The key of an object as sent. `context` is what decides, beside the text, in which form rules read it.
    pub(crate) fn key_of_text(&self, context: impl Hash, text: &str) -> CacheKey {
        self.key(|hasher| {
            hasher.write_u8(0);
            context.hash(hasher);
            hasher.write(text.as_bytes());
        })
    }

    /// The key of an object in the form that rules read. `context` is what the findings depend on beside it.
    pub(crate) fn key_of_value(&self, context: impl Hash, value: &Draft) -> CacheKey {
        self.key(|hasher| {
            hasher.write_u8(1);
            context.hash(hasher);
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
        let scope = [Scope::Snapshot(snapshot), Scope::CompleteKinds(complete)];
        scope.into_iter().find_map(|scope| self.entries.get(&(config, scope, key)))
    }

    /// Adds the value of an object in a generation. `reads_cluster`: it depends on other objects.
    pub(crate) fn insert(&self, generation: Generation, key: CacheKey, value: &Arc<V>, reads_cluster: bool) {
        if value.bytes() <= MAX_ENTRY_BYTES {
            let Generation { config, snapshot, complete } = generation;
            let scope =
                if reads_cluster { Scope::Snapshot(snapshot) } else { Scope::CompleteKinds(complete) };
            self.entries.insert((config, scope, key), Arc::clone(value));
            self.metrics.cache_size(self.entries.len());
        }
    }

    /// Counts the lookup of an object.
    pub(crate) fn record_lookup(&self, hit: bool) {
        self.metrics.evaluated(hit);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let key = cache.key_of_text((None::<&str>, true), "{}");
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
        let key = cache.key_of_text((None::<&str>, true), "{}");
        cache.insert(generation(1, 5), key, &Arc::new(Bytes(1)), false);
        assert!(cache.get(generation(1, 6), key).is_some());
        assert!(cache.get(generation(2, 5), key).is_none());
        assert!(cache.get(Generation { complete: 1, ..generation(1, 5) }, key).is_none());
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let cache = cache();
        let now = Generation::default();
        let used = cache.key_of_text((None::<&str>, true), "used");
        let value = Arc::new(Bytes(2_000));
        cache.insert(now, used, &value, true);
        for number in 0..20_000 {
            let key = cache.key_of_text((None::<&str>, true), &number.to_string());
            cache.insert(now, key, &value, true);
            assert!(cache.get(now, used).is_some(), "{number}");
        }
        assert!(cache.entries.weight() <= CAPACITY_BYTES as u64, "{}", cache.entries.weight());
        assert!(cache.entries.len() > 1_000, "{}", cache.entries.len());
        let large = cache.key_of_text((None::<&str>, true), "large");
        cache.insert(now, large, &Arc::new(Bytes(MAX_ENTRY_BYTES + 1)), true);
        assert!(cache.get(now, large).is_none());
    }

    #[test]
    fn keys_differ_by_text_value_and_namespace() {
        let cache = cache();
        let keys = [
            cache.key_of_text((None::<&str>, true), "{}"),
            cache.key_of_text((Some(""), true), "{}"),
            cache.key_of_text((Some("a"), true), "{}"),
            cache.key_of_text((None::<&str>, true), "{ }"),
            cache.key_of_text((None::<&str>, false), "{}"),
            cache.key_of_value(true, &Draft::of(&json!({}))),
            cache.key_of_value(false, &Draft::of(&json!({}))),
            cache.key_of_value(true, &Draft::of(&json!({"a": 1}))),
            cache.key_of_value(true, &Draft::of(&json!({"a": "1"}))),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key), "{at}");
        }
    }
}
