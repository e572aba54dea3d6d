//! A set of instance types, one bit per row of the catalogue.
//!
//! Requirements are evaluated as unions and intersections of such sets, so that a pool costs microseconds.

use std::sync::LazyLock;

use super::{InstanceType, all, retired};
use crate::steps;

/// Number of words of 64 bits: 1,536 types. `generate.py` refuses to write more.
const WORDS: usize = 24;

#[cfg(test)]
/// Maximum number of rows in a [`TypeSet`].
pub(super) const CAPACITY: usize = WORDS * 64;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeSet {
    words: [u64; WORDS],
}

impl TypeSet {
    pub(crate) const EMPTY: Self = Self { words: [0; WORDS] };

    pub fn full() -> Self {
        static FULL: LazyLock<TypeSet> = LazyLock::new(|| TypeSet::first(all().len()));
        *FULL
    }

    /// The first `count` rows of the catalogue.
    pub(super) fn first(count: usize) -> Self {
        let mut set = Self::EMPTY;
        for (index, word) in set.words.iter_mut().enumerate() {
            let left = count.saturating_sub(index * 64);
            *word = match left {
                0 => 0,
                1..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
        }
        set
    }

    /// The types for which `keep` holds.
    pub fn matching(keep: impl Fn(&InstanceType) -> bool) -> Self {
        let mut set = Self::EMPTY;
        for instance in all().iter().filter(|instance| keep(instance)) {
            set.insert(instance);
        }
        set
    }

    pub(crate) fn insert(&mut self, instance: &InstanceType) {
        self.set(instance.index());
    }

    pub(super) fn set(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub fn contains(&self, instance: &InstanceType) -> bool {
        let index = instance.index();
        self.words[index / 64] & (1 << (index % 64)) != 0
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a & b)
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a | b)
    }

    /// Types of this set that are not in the other one.
    pub fn without(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a & !b)
    }

    /// The types that EC2 still offers in some region. If it offers none of them, all types of the set.
    pub fn offered(&self) -> Self {
        let current = self.without(retired());
        if current.is_empty() { *self } else { current }
    }

    pub(crate) fn complement(&self) -> Self {
        Self::full().without(self)
    }

    fn combined(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let mut set = *self;
        for (word, with) in set.words.iter_mut().zip(&other.words) {
            *word = join(*word, *with);
        }
        set
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & b == 0)
    }

    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    /// The types in the order of the catalogue: by family, then by size.
    pub fn iter(&self) -> impl Iterator<Item = &'static InstanceType> {
        let words = self.words;
        let rows = all();
        words
            .into_iter()
            .enumerate()
            .flat_map(move |(index, word)| Bits(word).map(move |bit| &rows[index * 64 + bit]))
            .inspect(|_| steps::take(1))
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.iter().map(|instance| instance.name)
    }
}

impl std::fmt::Debug for TypeSet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} types", self.len())?;
        if self.len() <= 20 {
            out.debug_list().entries(self.names()).finish()?;
        }
        Ok(())
    }
}

impl FromIterator<&'static InstanceType> for TypeSet {
    fn from_iter<I: IntoIterator<Item = &'static InstanceType>>(types: I) -> Self {
        let mut set = Self::EMPTY;
        types.into_iter().for_each(|instance| set.insert(instance));
        set
    }
}

/// The positions of the ones of a word.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let bit = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            bit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn sets_behave_like_sets() {
        let gpu = TypeSet::matching(|instance| instance.nvidia_gpu > 0);
        let arm = TypeSet::matching(|instance| instance.arch == "arm64");
        assert_eq!(
            gpu.and(&arm).iter().map(|t| t.family()).collect::<std::collections::BTreeSet<_>>(),
            ["g5g"].into()
        );
        assert_eq!(gpu.or(&arm).len(), gpu.len() + arm.len() - gpu.and(&arm).len());
        assert_eq!(gpu.complement().len() + gpu.len(), all().len());
        assert!(gpu.complement().is_disjoint(&gpu));
        assert!(gpu.and(&arm).is_subset(&gpu));
        assert_eq!(TypeSet::full().len(), all().len());
        assert_eq!(gpu.iter().collect::<TypeSet>(), gpu);
        assert!(gpu.contains(find("p4d.24xlarge").expect("known")));
        assert!(TypeSet::EMPTY.is_empty());
        assert!(all().len() <= CAPACITY);
        let named = |names: &[&str]| names.iter().filter_map(|name| find(name)).collect::<TypeSet>();
        assert_eq!(named(&["p2.xlarge", "g6.xlarge"]).offered(), named(&["g6.xlarge"]));
        assert_eq!(named(&["p2.xlarge"]).offered(), named(&["p2.xlarge"]));
    }
}
