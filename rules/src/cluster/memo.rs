//! Answers that are kept, each with what it rests on.

use std::collections::HashMap;

use crate::cluster::dependencies::{DependencyKey, Dependents};

/// Answers by the address of the object that they are about. Who keeps one keeps the object too, so
/// that no other object gets its address.
#[derive(Debug)]
pub(crate) struct DependencyMemo<T> {
    entries: HashMap<usize, (T, Vec<DependencyKey>)>,
    dependents: Dependents<usize>,
}

impl<T> Default for DependencyMemo<T> {
    fn default() -> Self {
        DependencyMemo { entries: HashMap::new(), dependents: Dependents::default() }
    }
}

impl<T> DependencyMemo<T> {
    pub(crate) fn get(&self, about: usize) -> Option<&T> {
        self.entries.get(&about).map(|(answer, _)| answer)
    }

    /// Keeps an answer in the place of an earlier one.
    pub(crate) fn insert(&mut self, about: usize, answer: T, topics: Vec<DependencyKey>) {
        self.remove(about);
        self.dependents.insert(&topics, about);
        self.entries.insert(about, (answer, topics));
    }

    /// Forgets an answer.
    pub(crate) fn remove(&mut self, about: usize) -> Option<T> {
        let (answer, topics) = self.entries.remove(&about)?;
        self.dependents.remove(&topics, |other| *other == about);
        Some(answer)
    }

    /// What the answers are about that rest on one of these.
    pub(crate) fn dependents_of(&self, topics: &[DependencyKey]) -> Vec<usize> {
        self.dependents.dependents_of(topics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_by_what_it_rests_on_until_it_is_gone() {
        let mut woven = DependencyMemo::default();
        woven.insert(1, "one", vec![10, 20]);
        woven.insert(2, "two", vec![20, 30]);
        assert_eq!(woven.dependents_of(&[20, 30]), [1, 2]);
        woven.insert(1, "other", vec![40]);
        assert_eq!(woven.dependents_of(&[10]), [] as [usize; 0]);
        assert_eq!(woven.dependents_of(&[20]), [2]);
        assert_eq!(woven.get(1), Some(&"other"));
        assert_eq!(woven.remove(2), Some("two"));
        assert_eq!(woven.remove(2), None);
        assert_eq!(woven.dependents_of(&[20, 30, 40]), [1]);
    }
}
