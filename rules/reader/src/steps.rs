//! Steps: a deterministic measure of work on an object, which limits it.
//!
//! Rules are written as if input were small. An object of a megabyte may still hold a list of a hundred
//! thousand entries for which a rule does something slow with each. Everything that loops therefore takes steps
//! ([`take`]); a step is about ten nanoseconds of work. Work with an allowance ([`limited`]) that takes more
//! unwinds to where the allowance was given, and its caller says what that means. Steps are counted rather than
//! time, so that one input has the same findings on every machine; and they are counted per thread, like reads of
//! the cluster, so that rules do not know of them.
//!
//! Steps belong to an object, and must not depend on what was computed before for others: work whose result is
//! kept for all ([`unlimited`], or `limited` with an allowance of its own) does not count for who came first.
//!
//! [`interruptible`] stops work from outside, for a server with a deadline.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Maximum number of steps until an interruption is noticed: about a tenth of a millisecond.
const STRETCH: u64 = 1 << 14;

/// Step limit for computing a shared (cached) result: about 40 ms.
pub const SHARED: u64 = 4_000_000;

/// Whether work has to stop. Called every 16,384 steps.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// The work was stopped from outside before it was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Panic payload of work whose allowance is used up.
struct CutShort;

/// The allowance of the current work of a thread.
struct Meter {
    /// Steps until `beyond` and the interrupt are checked.
    left: Cell<u64>,
    /// The initial value of `left`.
    stretch: Cell<u64>,
    /// The rest of the allowance, after `left`.
    beyond: Cell<u64>,
    allowance: Cell<u64>,
    /// Number of steps that the thread has taken under any allowance, without those of the current stretch.
    tally: Cell<u64>,
}

impl Meter {
    /// Adds the steps of the stretch to the tally, and begins another one.
    fn begin(&self, left: u64, beyond: u64) {
        self.tally.set(self.tally.get().wrapping_add(self.stretch.get() - self.left.get()));
        self.stretch.set(left);
        self.left.set(left);
        self.beyond.set(beyond);
    }

    fn tally(&self) -> u64 {
        self.tally.get().wrapping_add(self.stretch.get() - self.left.get())
    }
}

thread_local! {
    static METER: Meter = const {
        Meter {
            left: Cell::new(u64::MAX),
            stretch: Cell::new(u64::MAX),
            beyond: Cell::new(u64::MAX),
            allowance: Cell::new(u64::MAX),
            tally: Cell::new(0),
        }
    };
    static INTERRUPT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// Counts steps of the current work. Unwinds to where its allowance was given if that is used up.
#[cfg_attr(not(debug_assertions), inline)]
pub fn take(steps: usize) {
    METER.with(|meter| match meter.left.get().checked_sub(steps as u64) {
        Some(left) => meter.left.set(left),
        None => next_stretch(steps as u64),
    });
}

/// [`take`] at the end of a stretch. It finds the meter again, so that `take` is a few instructions.
#[cold]
fn next_stretch(steps: u64) {
    // Destructors that run while unwinding may take steps.
    if std::thread::panicking() {
        return;
    }
    stop_if_interrupted();
    METER.with(|meter| {
        let needed = steps - meter.left.get();
        meter.left.set(0);
        let Some(beyond) = meter.beyond.get().checked_sub(needed) else {
            meter.begin(0, 0);
            cut_short();
        };
        // The steps that did not fit are taken from the new stretch.
        let left = beyond.min(STRETCH);
        meter.begin(left + needed, beyond - left);
        meter.left.set(left);
    });
}

/// Unwinds if the thread's work has to stop. Many short scopes would never check it.
pub fn stop_if_interrupted() {
    let interrupt = INTERRUPT.with_borrow(Option::clone);
    if interrupt.is_some_and(|interrupt| interrupt()) {
        resume_unwind(Box::new(Interrupted));
    }
}

/// Unwinds as if the allowance of the current work were used up.
pub fn cut_short() -> ! {
    resume_unwind(Box::new(CutShort))
}

/// Number of steps that this thread has taken under any allowance, for tests.
pub fn tally() -> u64 {
    METER.with(Meter::tally)
}

/// Runs work with its own allowance; `None` if that is used up before the work is finished. Also returns the number of
/// steps.
pub fn limited<T>(allowance: u64, work: impl FnOnce() -> T) -> (Option<T>, u64) {
    let scope = Scope::open(allowance);
    let result = catch_unwind(AssertUnwindSafe(work));
    let taken = METER.with(|meter| meter.allowance.get() - meter.beyond.get() - meter.left.get());
    drop(scope);
    match result {
        Ok(value) => (Some(value), taken),
        Err(payload) if payload.is::<CutShort>() => (None, taken),
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs work and returns the message if it panics. What the work changes may then be incomplete. An interruption is
/// passed on.
pub fn isolate<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        if payload.is::<Interrupted>() {
            resume_unwind(payload);
        }
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// Runs work whose result is shared by several objects: its steps do not count for the current object.
pub fn unlimited<T>(work: impl FnOnce() -> T) -> T {
    let _scope = Scope::open(u64::MAX);
    work()
}

/// Runs work that may be stopped.
///
/// # Errors
/// [`Interrupted`] if `interrupt` said so before the work was finished.
pub fn interruptible<T>(interrupt: &Interrupt, work: impl FnOnce() -> T) -> Result<T, Interrupted> {
    let outer = INTERRUPT.replace(Some(Arc::clone(interrupt)));
    let result = catch_unwind(AssertUnwindSafe(|| unlimited(work)));
    INTERRUPT.set(outer);
    match result {
        Ok(value) => Ok(value),
        Err(payload) if payload.is::<Interrupted>() => Err(Interrupted),
        Err(payload) => resume_unwind(payload),
    }
}

/// The outer allowance, which is restored when the scope ends, also while unwinding.
struct Scope {
    left: u64,
    beyond: u64,
    allowance: u64,
}

impl Scope {
    fn open(allowance: u64) -> Scope {
        METER.with(|meter| {
            let outer = Scope {
                left: meter.left.get(),
                beyond: meter.beyond.get(),
                allowance: meter.allowance.replace(allowance),
            };
            let left = allowance.min(STRETCH);
            meter.begin(left, allowance - left);
            outer
        })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        METER.with(|meter| {
            meter.begin(self.left, self.beyond);
            meter.allowance.set(self.allowance);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn work_ends_with_its_allowance() {
        let steps = |count: usize| (0..count).for_each(|_| take(1));
        assert_eq!(limited(10, || steps(10)), (Some(()), 10));
        assert_eq!(limited(10, || steps(11)), (None, 10));
        assert_eq!(limited(100_000, || steps(100_000)).0, Some(()));
        assert_eq!(limited(100_000, || steps(100_001)).0, None);
        assert_eq!(limited(5, || take(usize::MAX)).0, None);
        assert_eq!(limited(10, || cut_short()).0, None::<()>);
        // Without an allowance there is no limit.
        take(usize::MAX);
        take(usize::MAX);
    }

    #[test]
    fn scopes_count_for_themselves_and_the_tally_counts_all() {
        let before = tally();
        let outer = limited(10, || {
            take(1);
            assert_eq!(limited(50_000, || take(40_000)), (Some(()), 40_000));
            assert_eq!(limited(5, || take(6)).0, None);
            unlimited(|| take(1_000_000));
            take(2);
        });
        assert_eq!(outer, (Some(()), 3));
        assert!((1_040_003..=1_040_008).contains(&(tally() - before)), "{}", tally() - before);
        // Other panics are passed on, and the outer allowance is restored.
        let caught = std::panic::catch_unwind(|| limited(3, || panic!("as the test wants")));
        assert!(caught.is_err());
        take(1 << 40);
    }

    #[test]
    fn an_interruption_ends_all_scopes() {
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&calls);
        let third: Interrupt = Arc::new(move || seen.fetch_add(1, Ordering::Relaxed) == 2);
        let endless = || loop {
            limited(1_000, || take(500));
            take(100);
        };
        let stopped: Result<(), Interrupted> = interruptible(&third, endless);
        assert_eq!(stopped, Err(Interrupted));
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        // An interruption is not taken for a used up allowance.
        let now: Interrupt = Arc::new(|| true);
        assert_eq!(
            interruptible(&now, || limited(u64::MAX, || take(STRETCH as usize + 1))),
            Err(Interrupted)
        );
        assert_eq!(interruptible(&now, || 7), Ok(7));
        take(1 << 40);
    }
}
