//! Whether a pool admits a pod, cached by the contents of the two.
//!
//! The scheduler's decision about one pool and one pod reads nothing else, so a cached decision is valid for
//! every cluster and needs no invalidation. The cache is passed on from one snapshot of a cluster to the
//! next: the scheduler runs only for pools and pods that are new.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::TypeSet;

/// The content of a value as 128 bits: equal contents have equal fingerprints. A collision is expected only
/// after about 2^64 different contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(u64, u64);

impl Fingerprint {
    pub(crate) fn of(content: &impl Hash) -> Fingerprint {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            content.hash(&mut hasher);
            hasher.finish()
        };
        Fingerprint(half(0), half(1))
    }
}

/// A pool, a pod, and whether EKS adds tolerations to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AdmissionKey {
    pub(super) pool: Fingerprint,
    pub(super) pod: Fingerprint,
    pub(super) eks: bool,
}

/// Number of decisions in a generation, about 20 MB.
const GENERATION: usize = 1 << 18;

/// The cached decisions in two generations: when the newer one is full, the older one is dropped.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    /// Whether a pool admits a pod.
    pub(super) decisions: Generations<bool>,
    /// Which types of a pool suit a pod; the key has the pod without its amounts of resources.
    pub(super) suited: Generations<Suited>,
}

/// Which types of a pool suit a pod, whatever it needs of resources.
#[derive(Clone, Debug)]
pub(super) enum Suited {
    Nothing,
    Types(Arc<TypeSet>),
    /// None if none of these has room.
    AtMost(Arc<TypeSet>),
    Undecided,
}

/// Cached answers.
#[derive(Debug)]
pub(super) struct Generations<T>(Mutex<TwoGenerations<T>>);

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Generations(Mutex::new(TwoGenerations { current: HashMap::new(), previous: HashMap::new() }))
    }
}

#[derive(Debug)]
struct TwoGenerations<T> {
    current: HashMap<AdmissionKey, T>,
    previous: HashMap<AdmissionKey, T>,
}

impl<T: Clone> Generations<T> {
    fn lock(&self) -> MutexGuard<'_, TwoGenerations<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached answers for these keys.
    pub(super) fn get(&self, keys: impl Iterator<Item = AdmissionKey>) -> Vec<Option<T>> {
        let mut generations = self.lock();
        keys.map(|key| {
            if let Some(known) = generations.current.get(&key) {
                return Some(known.clone());
            }
            let known = generations.previous.get(&key)?.clone();
            generations.insert(key, known.clone());
            Some(known)
        })
        .collect()
    }

    pub(super) fn insert(&self, answers: impl IntoIterator<Item = (AdmissionKey, T)>) {
        let mut generations = self.lock();
        for (key, answer) in answers {
            generations.insert(key, answer);
        }
    }
}

impl<T> TwoGenerations<T> {
    fn insert(&mut self, key: AdmissionKey, answer: T) {
        if self.current.len() >= GENERATION {
            self.previous = std::mem::take(&mut self.current);
        }
        self.current.insert(key, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pool: u64, pod: u64) -> AdmissionKey {
        AdmissionKey { pool: Fingerprint(pool, 0), pod: Fingerprint(pod, 0), eks: true }
    }

    #[test]
    fn decisions_in_use_outlive_a_full_generation() {
        let admissions: Generations<bool> = Generations::default();
        admissions.insert([(key(0, 0), true), (key(0, 1), false)]);
        for round in 1..3 {
            let more = (0..GENERATION as u64).map(|n| (key(round, n), true));
            admissions.insert(more);
            assert_eq!(admissions.get([key(0, 0)].into_iter()), [Some(true)]);
        }
        assert_eq!(admissions.get([key(0, 1)].into_iter()), [None], "it was not read again");
    }

    #[test]
    fn fingerprints_differ_where_contents_do() {
        assert_eq!(Fingerprint::of(&("a", 1)), Fingerprint::of(&("a", 1)));
        assert_ne!(Fingerprint::of(&("a", 1)), Fingerprint::of(&("a", 2)));
    }
}
