//! Whether work reads one text of a tree, or where something is: what it gives is then the same whatever that text says,
//! and wherever it is.
//!
//! Reads are noted per thread, so that who reads need not know of it.
//!
//! In a file, the text of a node with this number is watched in whatever tree, and every place and identity counts as
//! read: its objects are beside each other, and look one another up. In an object that is beside no other one of its
//! name ([`watch_name_in`]), only its own text and its own identity count.

use std::cell::Cell;

use crate::tree::{NONE, Tree};

/// What is watched.
#[derive(Clone, Copy)]
struct Watched {
    /// The node whose text is watched.
    at: u32,
    /// The address of its tree; [`ANY`] for whatever tree, and for places as well.
    tree: usize,
}

/// No tree has this address.
const ANY: usize = 0;

thread_local! {
    static WATCHED: Cell<Watched> = const { Cell::new(Watched { at: NONE, tree: ANY }) };
    /// Whether it was read, or a place.
    static IS_READ: Cell<bool> = const { Cell::new(false) };
}

fn address(tree: &Tree) -> usize {
    std::ptr::from_ref(tree).addr()
}

/// Notes that the text of a node is read.
#[inline]
pub(super) fn read(tree: &Tree, at: u32) {
    let watched = WATCHED.get();
    if watched.at == at && (watched.tree == ANY || watched.tree == address(tree)) {
        IS_READ.set(true);
    }
}

/// Notes that the place of an object with this tree is read, its identity, or its name from where it is kept beside the
/// tree.
#[inline]
pub(crate) fn read_place(tree: &Tree) {
    let watched = WATCHED.get();
    if watched.tree == ANY || watched.tree == address(tree) {
        IS_READ.set(true);
    }
}

/// Whether the name of the object with this tree is what is watched, and nothing else.
#[inline]
pub(crate) fn is_name_watched_in(tree: &Tree) -> bool {
    WATCHED.get().tree == address(tree)
}

/// Runs `work`, and says whether it read the text of a node, in whatever tree, or a place.
pub(crate) fn watch<T>(at: u32, work: impl FnOnce() -> T) -> (T, bool) {
    watch_in(Watched { at, tree: ANY }, work)
}

/// Runs `work`, and says whether it read the text of a node in this tree, which names its object, or the identity of that
/// object.
pub(crate) fn watch_name_in<T>(tree: &Tree, at: u32, work: impl FnOnce() -> T) -> (T, bool) {
    watch_in(Watched { at, tree: address(tree) }, work)
}

/// Runs `work` whose value is kept, and says whether it read what is watched, which is not noted.
pub(crate) fn set_apart<T>(work: impl FnOnce() -> T) -> (T, bool) {
    watch_in(WATCHED.get(), work)
}

fn watch_in<T>(watched: Watched, work: impl FnOnce() -> T) -> (T, bool) {
    let _outer = Outer { watched: WATCHED.replace(watched), is_read: IS_READ.replace(false) };
    let value = work();
    (value, IS_READ.get())
}

/// What is watched around some work, and whether it was read; in force again when that ends, also while unwinding.
struct Outer {
    watched: Watched,
    is_read: bool,
}

impl Drop for Outer {
    fn drop(&mut self) {
        WATCHED.set(self.watched);
        IS_READ.set(self.is_read);
    }
}

/// Runs `work` that reads what is watched, and gives the same whatever it reads: whichever label of RFC 1035, of those
/// that have one length.
pub(crate) fn unwatched<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_READ.get();
    let value = work();
    IS_READ.set(before);
    value
}
