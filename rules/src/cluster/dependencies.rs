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
pub(crate) type DependencyKey = u64;

thread_local! {
    static TRACKING: Cell<bool> = const { Cell::new(false) };
    static READS: RefCell<Vec<DependencyKey>> = const { RefCell::new(Vec::new()) };
}

/// The topic of a question: of what is asked, and with which key.
pub(crate) fn dependency_key(about: &str, key: impl Hash) -> DependencyKey {
    let mut hasher = DefaultHasher::new();
    about.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

/// Notes a question, if anybody listens.
pub(crate) fn record_read(topic: impl FnOnce() -> DependencyKey) {
    if TRACKING.get() {
        let topic = topic();
        READS.with_borrow_mut(|asked| asked.push(topic));
    }
}

/// Does something, and says what was asked meanwhile: each topic once, in order.
pub(crate) fn track<T>(work: impl FnOnce() -> T) -> (T, Vec<DependencyKey>) {
    let outer = TrackingGuard::begin(true);
    let value = work();
    let mut topics = READS.take();
    drop(outer);
    topics.sort_unstable();
    topics.dedup();
    (value, topics)
}

/// Does something of which nobody is to know.
pub(crate) fn untracked<T>(work: impl FnOnce() -> T) -> T {
    let _outer = TrackingGuard::begin(false);
    work()
}

/// What was heard before, put back when this ends, be it by a panic.
struct TrackingGuard {
    was_tracking: bool,
    saved_reads: Vec<DependencyKey>,
}

impl TrackingGuard {
    fn begin(listening: bool) -> TrackingGuard {
        TrackingGuard { was_tracking: TRACKING.replace(listening), saved_reads: READS.take() }
    }
}

impl Drop for TrackingGuard {
    fn drop(&mut self) {
        TRACKING.set(self.was_tracking);
        READS.set(std::mem::take(&mut self.saved_reads));
    }
}

/// Who rests on which topics.
#[derive(Debug)]
pub(crate) struct Dependents<T>(HashMap<DependencyKey, Vec<T>>);

impl<T> Default for Dependents<T> {
    fn default() -> Self {
        Dependents(HashMap::new())
    }
}

impl<T: Copy + Ord> Dependents<T> {
    pub(crate) fn insert(&mut self, topics: &[DependencyKey], who: T) {
        for topic in topics {
            self.0.entry(*topic).or_default().push(who);
        }
    }

    /// Forgets that some rest on these.
    pub(crate) fn remove<'t>(
        &mut self,
        topics: impl IntoIterator<Item = &'t DependencyKey>,
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
    pub(crate) fn dependents_of(&self, topics: &[DependencyKey]) -> Vec<T> {
        let askers = topics.iter().filter_map(|topic| self.0.get(topic));
        let mut out: Vec<T> = askers.flatten().copied().collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// Collects the topics that a change touches, if anybody wants them.
pub(crate) struct Invalidations<'a>(Option<&'a mut Vec<DependencyKey>>);

impl<'a> Invalidations<'a> {
    /// Collects into a list.
    pub(crate) fn collect_into(list: &'a mut Vec<DependencyKey>) -> Invalidations<'a> {
        Invalidations(Some(list))
    }

    /// Collects nothing.
    pub(crate) fn disabled() -> Invalidations<'a> {
        Invalidations(None)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn add(&mut self, topic: impl FnOnce() -> DependencyKey) {
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
        record_read(|| 1);
        let ((_, inner), outer) = track(|| {
            record_read(|| 3);
            let inner = track(|| record_read(|| 7));
            untracked(|| record_read(|| 8));
            record_read(|| 2);
            record_read(|| 3);
            inner
        });
        assert_eq!(inner, [7]);
        assert_eq!(outer, [2, 3]);
        assert_eq!(track(|| ()).1, [] as [DependencyKey; 0]);
    }

    #[test]
    fn a_panic_leaves_nobody_listening() {
        let caught = std::panic::catch_unwind(|| track(|| panic!("as the test wants")));
        assert!(caught.is_err());
        record_read(|| unreachable!("nobody listens"));
    }

    #[test]
    fn topics_tell_keys_apart() {
        assert_ne!(dependency_key("a", ("b", "c")), dependency_key("a", ("bc", "")));
        assert_ne!(dependency_key("a", "b"), dependency_key("b", "a"));
    }
}
