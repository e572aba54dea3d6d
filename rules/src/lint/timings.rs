//! The time that each rule takes, for `check --timings`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time since some moment. The engine itself has no clock.
pub type Clock = fn() -> Duration;

/// What the rules of an engine took, by their index among those that are enabled.
#[derive(Debug)]
pub(super) struct Timings {
    clock: Clock,
    /// In nanoseconds.
    rules: Vec<AtomicU64>,
}

impl Timings {
    pub(super) fn new(rules: usize, clock: Clock) -> Timings {
        Timings { clock, rules: (0..rules).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn of_rule(&self, rule: usize) -> Duration {
        Duration::from_nanos(self.rules[rule].load(Ordering::Relaxed))
    }

    /// Runs `run`, and adds what it took to the rule's time.
    pub(super) fn measure<T>(&self, rule: usize, run: impl FnOnce() -> T) -> T {
        let start = (self.clock)();
        let result = run();
        let taken = u64::try_from((self.clock)().saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        self.rules[rule].fetch_add(taken, Ordering::Relaxed);
        result
    }
}
