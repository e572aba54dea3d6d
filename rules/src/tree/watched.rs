//! Whether work reads one text of a tree, or where something is: what it gives is then the same whatever that text says,
//! and wherever it is.
//!
//! Reads are noted per thread, so that who reads need not know of it.

use std::cell::Cell;

use crate::tree::NONE;

thread_local! {
    /// The node whose text is watched.
    static WATCHED: Cell<u32> = const { Cell::new(NONE) };
    /// Whether it was read, or a place.
    static IS_READ: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the text of a node is read.
#[inline]
pub(super) fn read(at: u32) {
    if WATCHED.with(Cell::get) == at {
        read_place();
    }
}

/// Notes that a place is read, or the watched text from where it is kept beside the tree.
#[inline]
pub(crate) fn read_place() {
    IS_READ.with(|is_read| is_read.set(true));
}

/// Runs `work`, and says whether it read the text of a node, in whatever tree, or a place.
pub(crate) fn watch<T>(at: u32, work: impl FnOnce() -> T) -> (T, bool) {
    let outer = (WATCHED.replace(at), IS_READ.replace(false));
    let value = work();
    WATCHED.set(outer.0);
    (value, IS_READ.replace(outer.1))
}

/// Runs `work` that reads what is watched, and gives the same whatever it reads.
pub(crate) fn unwatched<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_READ.get();
    let value = work();
    IS_READ.set(before);
    value
}
