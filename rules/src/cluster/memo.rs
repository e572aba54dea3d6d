//! Answers that are kept, each with what it rests on.

use std::collections::HashMap;

use crate::cluster::dependencies::{Askers, Topic};

/// Answers by the address of the object that they are about. Who keeps one keeps the object too, so
/// that no other object gets its address.
#[derive(Debug)]
pub(crate) struct Woven<T> {
    answers: HashMap<usize, (T, Vec<Topic>)>,
    resting: Askers<usize>,
}

impl<T> Default for Woven<T> {
    fn default() -> Self {
        Woven { answers: HashMap::new(), resting: Askers::default() }
    }
}

impl<T> Woven<T> {
    pub(crate) fn get(&self, about: usize) -> Option<&T> {
        self.answers.get(&about).map(|(answer, _)| answer)
    }

    /// Keeps an answer in the place of an earlier one.
    pub(crate) fn put(&mut self, about: usize, answer: T, topics: Vec<Topic>) {
        self.take(about);
        self.resting.note(&topics, about);
        self.answers.insert(about, (answer, topics));
    }

    /// Forgets an answer.
    pub(crate) fn take(&mut self, about: usize) -> Option<T> {
        let (answer, topics) = self.answers.remove(&about)?;
        self.resting.forget(&topics, |other| *other == about);
        Some(answer)
    }

    /// What the answers are about that rest on one of these.
    pub(crate) fn resting_on(&self, topics: &[Topic]) -> Vec<usize> {
        self.resting.of(topics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_by_what_it_rests_on_until_it_is_gone() {
        let mut woven = Woven::default();
        woven.put(1, "one", vec![10, 20]);
        woven.put(2, "two", vec![20, 30]);
        assert_eq!(woven.resting_on(&[20, 30]), [1, 2]);
        woven.put(1, "other", vec![40]);
        assert_eq!(woven.resting_on(&[10]), [] as [usize; 0]);
        assert_eq!(woven.resting_on(&[20]), [2]);
        assert_eq!(woven.get(1), Some(&"other"));
        assert_eq!(woven.take(2), Some("two"));
        assert_eq!(woven.take(2), None);
        assert_eq!(woven.resting_on(&[20, 30, 40]), [1]);
    }
}
