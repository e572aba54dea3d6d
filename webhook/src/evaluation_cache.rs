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
//! Beside it there is what the rules say of all objects that are like one but for its name ([`crate::alike`]).
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

use crate::alike::AlikeText;
use crate::metrics::Metrics;

/// Bound of the cache, in bytes.
const CAPACITY_BYTES: usize = 4 * 1024 * 1024;
/// What is known of objects that are like others may take as many bytes beside it.
const ALIKE_BYTES: usize = CAPACITY_BYTES / 4;
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

/// The keys of an object's text.
#[derive(Clone, Copy)]
pub(crate) struct TextKeys {
    /// Of the whole text.
    pub(crate) text: CacheKey,
    /// Of what it has in common with those that are like it.
    pub(crate) alike: Option<CacheKey>,
}

/// What the rules found, by object and generation, up to a number of bytes.
pub(crate) struct EvaluationCache<V, A> {
    /// Random per process, so that a client cannot construct two objects with the same key.
    hashers: [RandomState; 2],
    values: Entries<V>,
    /// What is known of objects that are like others.
    pub(crate) alike: Entries<A>,
    metrics: Arc<Metrics>,
}

/// Values by generation and key; by the version of the configuration as well.
pub(crate) struct Entries<V>(Cache<(u64, Beside, CacheKey), Arc<V>, EntryWeight>);

/// Two hashers that are fed the same, so that an object is walked over once.
#[derive(Clone)]
struct Twice([DefaultHasher; 2]);

/// What a key is of.
#[derive(Clone, Copy)]
enum KeyKind {
    Text,
    Value,
    Alike,
}

impl Twice {
    fn key(&self) -> CacheKey {
        CacheKey(self.0[0].finish(), self.0[1].finish())
    }
}

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

impl<V, A> fmt::Debug for EvaluationCache<V, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationCache").finish_non_exhaustive()
    }
}

impl<V: HeapSize> Entries<V> {
    fn new(bytes: usize) -> Entries<V> {
        Entries(Cache::with_weighter(bytes / TYPICAL_ENTRY, bytes as u64, EntryWeight))
    }

    /// The value of a key in a generation.
    pub(crate) fn get(&self, generation: Generation, key: CacheKey) -> Option<Arc<V>> {
        let Generation { config, snapshot, complete } = generation;
        let beside = [Beside::Objects(snapshot), Beside::Complete(complete)];
        beside.into_iter().find_map(|beside| self.0.get(&(config, beside, key)))
    }

    /// Adds the value of a key in a generation, and whether it depends on other objects.
    pub(crate) fn insert(&self, generation: Generation, key: CacheKey, value: Arc<V>, reads_cluster: bool) {
        if value.bytes() <= MAX_ENTRY_BYTES {
            let Generation { config, snapshot, complete } = generation;
            let beside = if reads_cluster { Beside::Objects(snapshot) } else { Beside::Complete(complete) };
            self.0.insert((config, beside, key), value);
        }
    }
}

impl<V: HeapSize, A: HeapSize> EvaluationCache<V, A> {
    pub(crate) fn new(metrics: Arc<Metrics>) -> EvaluationCache<V, A> {
        EvaluationCache {
            hashers: [RandomState::new(), RandomState::new()],
            values: Entries::new(CAPACITY_BYTES),
            alike: Entries::new(ALIKE_BYTES),
            metrics,
        }
    }

    /// The keys of an object as it was sent, in the namespace of its request, and as a new object or a stored one.
    pub(crate) fn keys_of_text(
        &self,
        namespace: Option<&str>,
        is_new: bool,
        text: &str,
        alike: Option<&AlikeText<'_>>,
    ) -> TextKeys {
        let mut hasher = self.hasher();
        let kind = if alike.is_some() { KeyKind::Alike } else { KeyKind::Text };
        hasher.write_u8(kind as u8 | u8::from(is_new) << 2);
        namespace.hash(&mut hasher);
        let Some(alike) = alike else {
            hasher.write(text.as_bytes());
            return TextKeys { text: hasher.key(), alike: None };
        };
        alike.hash_common(&mut hasher);
        let common = hasher.key();
        // One with nothing behind it is the key of what is alike.
        alike.hash_rest(&mut hasher);
        TextKeys { text: hasher.key(), alike: Some(common) }
    }

    /// The key of an object as the rules see it.
    pub(crate) fn key_of_value(&self, value: &Draft) -> CacheKey {
        let mut hasher = self.hasher();
        hasher.write_u8(KeyKind::Value as u8);
        value.hash_value(&mut hasher);
        hasher.key()
    }

    fn hasher(&self) -> Twice {
        Twice(self.hashers.each_ref().map(RandomState::build_hasher))
    }

    /// The value of an object in a generation.
    pub(crate) fn get(&self, generation: Generation, key: CacheKey) -> Option<Arc<V>> {
        self.values.get(generation, key)
    }

    /// Adds the value of an object in a generation, and whether it depends on other objects.
    pub(crate) fn insert(&self, generation: Generation, key: CacheKey, value: &Arc<V>, reads_cluster: bool) {
        self.values.insert(generation, key, Arc::clone(value), reads_cluster);
        self.metrics.cache_size(self.values.0.len());
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

    fn cache() -> EvaluationCache<Bytes, Bytes> {
        EvaluationCache::new(Arc::new(Metrics::new()))
    }

    fn key_of_text(
        cache: &EvaluationCache<Bytes, Bytes>,
        namespace: Option<&str>,
        is_new: bool,
        text: &str,
    ) -> CacheKey {
        cache.keys_of_text(namespace, is_new, text, None).text
    }

    fn generation(config: u64, snapshot: u64) -> Generation {
        Generation { config, snapshot, complete: 0 }
    }

    #[test]
    fn an_entry_is_found_in_its_own_generation_only() {
        let cache = cache();
        let key = key_of_text(&cache, None, true, "{}");
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
        let key = key_of_text(&cache, None, true, "{}");
        cache.insert(generation(1, 5), key, &Arc::new(Bytes(1)), false);
        assert!(cache.get(generation(1, 6), key).is_some());
        assert!(cache.get(generation(2, 5), key).is_none());
        assert!(cache.get(Generation { complete: 1, ..generation(1, 5) }, key).is_none());
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let cache = cache();
        let now = Generation::default();
        let used = key_of_text(&cache, None, true, "used");
        let value = Arc::new(Bytes(2_000));
        cache.insert(now, used, &value, true);
        for number in 0..20_000 {
            let key = key_of_text(&cache, None, true, &number.to_string());
            cache.insert(now, key, &value, true);
            assert!(cache.get(now, used).is_some(), "{number}");
        }
        assert!(cache.values.0.weight() <= CAPACITY_BYTES as u64, "{}", cache.values.0.weight());
        assert!(cache.values.0.len() > 1_000, "{}", cache.values.0.len());
        let large = key_of_text(&cache, None, true, "large");
        cache.insert(now, large, &Arc::new(Bytes(MAX_ENTRY_BYTES + 1)), true);
        assert!(cache.get(now, large).is_none());
    }

    #[test]
    fn keys_differ_by_text_value_and_namespace() {
        let cache = cache();
        let keys = [
            key_of_text(&cache, None, true, "{}"),
            key_of_text(&cache, Some(""), true, "{}"),
            key_of_text(&cache, Some("a"), true, "{}"),
            key_of_text(&cache, None, true, "{ }"),
            key_of_text(&cache, None, false, "{}"),
            cache.key_of_value(&Draft::of(&json!({}))),
            cache.key_of_value(&Draft::of(&json!({"a": 1}))),
            cache.key_of_value(&Draft::of(&json!({"a": "1"}))),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key), "{at}");
        }
    }
}
