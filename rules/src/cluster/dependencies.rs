//! On which questions an answer rests.
//!
//! While a rule judges an object, each question to the index leaves a topic here. When objects
//! come and go, the index says which topics they touch. What was found can change only where the
//! two meet, so that a session judges again only there. Topics are hashes: two questions of one
//! hash cost a needless judgement, never a missed one.
//!
//! The list is kept by thread, so that rules ask the index as if nobody listened. Nothing but
//! [`record`] reads it, and no finding depends on it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A question to the index, hashed.
pub(crate) type Topic = u64;

thread_local! {
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    static ASKED: RefCell<Vec<Topic>> = const { RefCell::new(Vec::new()) };
}

/// The topic of a question: of what is asked, and with which key.
pub(crate) fn topic(about: &str, key: impl Hash) -> Topic {
    let mut hasher = DefaultHasher::new();
    about.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

/// Notes a question, if anybody listens.
pub(crate) fn asked(topic: impl FnOnce() -> Topic) {
    if LISTENING.get() {
        let topic = topic();
        ASKED.with_borrow_mut(|asked| asked.push(topic));
    }
}

/// Does something, and says what was asked meanwhile: each topic once, in order.
pub(crate) fn record<T>(work: impl FnOnce() -> T) -> (T, Vec<Topic>) {
    let outer = Outer::begin(true);
    let value = work();
    let mut topics = ASKED.take();
    drop(outer);
    topics.sort_unstable();
    topics.dedup();
    (value, topics)
}

/// Does something of which nobody is to know.
pub(crate) fn unheard<T>(work: impl FnOnce() -> T) -> T {
    let _outer = Outer::begin(false);
    work()
}

/// What was heard before, put back when this ends, be it by a panic.
struct Outer {
    listening: bool,
    asked: Vec<Topic>,
}

impl Outer {
    fn begin(listening: bool) -> Outer {
        Outer { listening: LISTENING.replace(listening), asked: ASKED.take() }
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        LISTENING.set(self.listening);
        ASKED.set(std::mem::take(&mut self.asked));
    }
}

/// Who rests on which topics.
#[derive(Debug)]
pub(crate) struct Askers<T>(HashMap<Topic, Vec<T>>);

impl<T> Default for Askers<T> {
    fn default() -> Self {
        Askers(HashMap::new())
    }
}

impl<T: Copy + Ord> Askers<T> {
    pub(crate) fn note(&mut self, topics: &[Topic], who: T) {
        for topic in topics {
            self.0.entry(*topic).or_default().push(who);
        }
    }

    /// Forgets that some rest on these.
    pub(crate) fn forget<'t>(
        &mut self,
        topics: impl IntoIterator<Item = &'t Topic>,
        who: impl Fn(&T) -> bool,
    ) {
        for topic in topics {
            if let Some(askers) = self.0.get_mut(topic) {
                askers.retain(|asker| !who(asker));
                if askers.is_empty() {
                    self.0.remove(topic);
                }
            }
        }
    }

    /// Those who rest on one of these: each once, in order.
    pub(crate) fn of(&self, topics: &[Topic]) -> Vec<T> {
        let askers = topics.iter().filter_map(|topic| self.0.get(topic));
        let mut out: Vec<T> = askers.flatten().copied().collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// Collects the topics that a change touches, if anybody wants them.
pub(crate) struct Touched<'a>(Option<&'a mut Vec<Topic>>);

impl<'a> Touched<'a> {
    /// Collects into a list.
    pub(crate) fn into(list: &'a mut Vec<Topic>) -> Touched<'a> {
        Touched(Some(list))
    }

    /// Collects nothing.
    pub(crate) fn unwanted() -> Touched<'a> {
        Touched(None)
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn add(&mut self, topic: impl FnOnce() -> Topic) {
        if let Some(list) = &mut self.0 {
            list.push(topic());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_heard_by_the_innermost_listener_alone() {
        asked(|| 1);
        let ((_, inner), outer) = record(|| {
            asked(|| 3);
            let inner = record(|| asked(|| 7));
            unheard(|| asked(|| 8));
            asked(|| 2);
            asked(|| 3);
            inner
        });
        assert_eq!(inner, [7]);
        assert_eq!(outer, [2, 3]);
        assert_eq!(record(|| ()).1, [] as [Topic; 0]);
    }

    #[test]
    fn a_panic_leaves_nobody_listening() {
        let caught = std::panic::catch_unwind(|| record(|| panic!("as the test wants")));
        assert!(caught.is_err());
        asked(|| unreachable!("nobody listens"));
    }

    #[test]
    fn topics_tell_keys_apart() {
        assert_ne!(topic("a", ("b", "c")), topic("a", ("bc", "")));
        assert_ne!(topic("a", "b"), topic("b", "a"));
    }
}
