//! Whether a pool admits a pod, cached by the contents of the two.
//!
//! The scheduler's decision about one pool and one pod reads nothing else, so a cached decision is valid for
//! every cluster and needs no invalidation. The cache is passed on from one snapshot of a cluster to the
//! next: the scheduler runs only for pools and pods that are new.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
pub(crate) struct Admissions(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    current: HashMap<AdmissionKey, bool>,
    previous: HashMap<AdmissionKey, bool>,
}

impl Admissions {
    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached decisions for these keys.
    pub(super) fn get(&self, keys: impl Iterator<Item = AdmissionKey>) -> Vec<Option<bool>> {
        let mut generations = self.generations();
        keys.map(|key| {
            if let Some(admits) = generations.current.get(&key) {
                return Some(*admits);
            }
            let admits = *generations.previous.get(&key)?;
            generations.insert(key, admits);
            Some(admits)
        })
        .collect()
    }

    pub(super) fn insert(&self, decisions: impl IntoIterator<Item = (AdmissionKey, bool)>) {
        let mut generations = self.generations();
        for (key, admits) in decisions {
            generations.insert(key, admits);
        }
    }
}

impl Generations {
    fn insert(&mut self, key: AdmissionKey, admits: bool) {
        if self.current.len() >= GENERATION {
            self.previous = std::mem::take(&mut self.current);
        }
        self.current.insert(key, admits);
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
        let admissions = Admissions::default();
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
