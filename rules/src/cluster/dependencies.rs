//! Dependency tracking: records which parts of the cluster a computation read, so that it is run again only
//! when one of them may have changed.
//!
//! A [`Read`] is recorded per thread, so that rules look objects up as if nothing were tracked. Reads on
//! other threads are not recorded: no function called by [`track`] may use a thread pool.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use crate::cluster::query::QueryId;
use crate::cluster::table::ViewId;
use crate::kind::Kind;

/// Compares, orders and hashes an identity by its slot alone.
macro_rules! by_slot {
    ($id:ident) => {
        impl std::fmt::Debug for $id {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.slot.fmt(f)
            }
        }

        impl PartialEq for $id {
            fn eq(&self, other: &$id) -> bool {
                self.0.slot == other.0.slot
            }
        }

        impl Eq for $id {}

        impl PartialOrd for $id {
            fn partial_cmp(&self, other: &$id) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $id {
            fn cmp(&self, other: &$id) -> std::cmp::Ordering {
                self.0.slot.cmp(&other.0.slot)
            }
        }

        impl std::hash::Hash for $id {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.slot.hash(state);
            }
        }
    };
}

pub(crate) use by_slot;

/// Hash of a key or a name. A collision of two keys causes an unnecessary computation, but never a missed
/// one.
pub(crate) type Digest = u64;

pub(crate) fn digest(key: impl Hash) -> Digest {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Hash of a group and a kind, also for kinds that are not in the kind table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindId(Digest);

impl KindId {
    pub(crate) fn of(group: &str, kind: &str) -> KindId {
        KindId(digest((group, kind)))
    }
}

impl From<Kind> for KindId {
    fn from(kind: Kind) -> KindId {
        KindId::of(kind.group, kind.kind)
    }
}

/// What a computation read from the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Read {
    /// Every object, whatever its kind.
    All,
    Kind(KindId),
    Namespace(KindId, Digest),
    /// The objects of one namespace and name.
    Name(KindId, Digest),
    /// The objects of one name in every namespace.
    NameAnywhere(KindId, Digest),
    /// Whether there is an object of this namespace and name.
    Exists(KindId, Digest),
    Any(KindId),
    /// The rows of a table under one key.
    Rows(ViewId, Digest),
    FirstRow(ViewId, Digest),
    /// Whether there are such rows.
    HasRows(ViewId, Digest),
    /// The keys of a table.
    Keys(ViewId),
    /// The keys of a table, with the number of rows under each.
    Counts(ViewId),
    /// The result of a query for one key.
    Result(QueryId, Digest),
    ResultPart(QueryId, Digest),
    /// The results of a query for all keys that have one.
    Results(QueryId),
    /// Whether results of a query were dropped because there were too many.
    Dropped(QueryId),
}

impl Read {
    /// Whether it concerns only objects of these kinds. Reading all objects concerns no particular kind: a cluster is
    /// only guaranteed to contain the kinds that rules declare, so such a read may make a finding less severe, and any
    /// rule that declares reads may do it.
    #[cfg(test)]
    pub(crate) fn is_within(self, kinds: &[Kind]) -> bool {
        let has = |id: KindId| kinds.iter().any(|kind| KindId::from(*kind) == id);
        match self {
            Read::All => !kinds.is_empty(),
            Read::Kind(id)
            | Read::Namespace(id, _)
            | Read::Name(id, _)
            | Read::NameAnywhere(id, _)
            | Read::Exists(id, _)
            | Read::Any(id) => has(id),
            Read::Rows(view, _)
            | Read::FirstRow(view, _)
            | Read::HasRows(view, _)
            | Read::Keys(view)
            | Read::Counts(view) => view.kinds().iter().all(|kind| kinds.contains(kind)),
            Read::Result(query, _)
            | Read::ResultPart(query, _)
            | Read::Results(query)
            | Read::Dropped(query) => query.kinds().iter().all(|kind| kinds.contains(kind)),
        }
    }

    /// Whether it concerns only objects of this kind.
    #[cfg(test)]
    pub(crate) fn is_of(self, kind: KindId) -> bool {
        match self {
            Read::Kind(id)
            | Read::Namespace(id, _)
            | Read::Name(id, _)
            | Read::NameAnywhere(id, _)
            | Read::Exists(id, _)
            | Read::Any(id) => id == kind,
            _ => false,
        }
    }

    /// The key under which its dependents are stored.
    fn id(self) -> ReadId {
        let (tag, place, digest) = match self {
            Read::All => (0, 0, 0),
            Read::Kind(kind) => (1, kind.0, 0),
            Read::Namespace(kind, digest) => (2, kind.0, digest),
            Read::Name(kind, digest) => (3, kind.0, digest),
            Read::NameAnywhere(kind, digest) => (4, kind.0, digest),
            Read::Exists(kind, digest) => (5, kind.0, digest),
            Read::Any(kind) => (6, kind.0, 0),
            Read::Rows(view, digest) => (7, view.number(), digest),
            Read::FirstRow(view, digest) => (8, view.number(), digest),
            Read::HasRows(view, digest) => (9, view.number(), digest),
            Read::Keys(view) => (10, view.number(), 0),
            Read::Counts(view) => (11, view.number(), 0),
            Read::Result(query, digest) => (12, query.number(), digest),
            Read::ResultPart(query, digest) => (13, query.number(), digest),
            Read::Results(query) => (14, query.number(), 0),
            Read::Dropped(query) => (15, query.number(), 0),
        };
        let mix = |hash: u64, word: u64| {
            let hash = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash ^ (hash >> 29)
        };
        ReadId(mix(mix(mix(0x9e37_79b9_7f4a_7c15, tag), place), digest))
    }

    /// The first read that concerns a kind which is not in `kinds`.
    #[cfg(test)]
    pub(crate) fn first_outside(reads: &[Read], kinds: &[Kind]) -> Option<Read> {
        reads.iter().copied().find(|read| !read.is_within(kinds))
    }
}

/// The hash of a [`Read`]: a third of its size. As with a [`Digest`], a collision only causes an unnecessary computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadId(u64);

impl Hash for ReadId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// The reads of a computation in the form in which its dependencies are stored: sorted, without duplicates.
pub(crate) fn compact(reads: &[Read]) -> Box<[ReadId]> {
    let mut ids: Vec<ReadId> = reads.iter().map(|read| read.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_boxed_slice()
}

/// A hasher that returns the hash itself, for keys that are hashes.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

thread_local! {
    static TRACKING: Cell<Tracking> = const { Cell::new(Tracking::Off) };
    static READS: RefCell<Vec<Read>> = const { RefCell::new(Vec::new()) };
}

/// How the reads of a thread are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracking {
    Off,
    /// Each read is recorded.
    Each,
    /// Only whether there is a read; there was none so far.
    None,
    /// Only whether there is a read; there was one.
    Any,
}

/// Whether each read of this thread is recorded.
pub(crate) fn is_recording() -> bool {
    TRACKING.get() == Tracking::Each
}

/// Records a read, if a computation of this thread is tracked.
pub(crate) fn record_read(read: impl FnOnce() -> Read) {
    match TRACKING.get() {
        Tracking::Off | Tracking::Any => {}
        Tracking::None => TRACKING.set(Tracking::Any),
        Tracking::Each => {
            let read = read();
            READS.with_borrow_mut(|reads| reads.push(read));
        }
    }
}

/// Runs `work` and returns whether it read anything from the cluster.
pub(crate) fn notice<T>(work: impl FnOnce() -> T) -> (T, bool) {
    let _outer = TrackingGuard::begin(Tracking::None);
    let value = work();
    (value, TRACKING.get() == Tracking::Any)
}

/// Runs `work` and returns its reads, sorted, without duplicates.
pub(crate) fn track<T>(work: impl FnOnce() -> T) -> (T, Vec<Read>) {
    let outer = TrackingGuard::begin(Tracking::Each);
    let value = work();
    let mut reads = READS.take();
    drop(outer);
    if !reads.is_empty() && TRACKING.get() == Tracking::None {
        TRACKING.set(Tracking::Any);
    }
    reads.sort_unstable();
    reads.dedup();
    (value, reads)
}

/// Runs `work` without recording its reads in the enclosing tracked computation.
pub(crate) fn untracked<T>(work: impl FnOnce() -> T) -> T {
    let _outer = TrackingGuard::begin(Tracking::Off);
    work()
}

/// Saved tracking state of the enclosing computation; restored on drop, also while unwinding.
struct TrackingGuard {
    was_tracking: Tracking,
    saved_reads: Vec<Read>,
}

impl TrackingGuard {
    fn begin(tracking: Tracking) -> TrackingGuard {
        TrackingGuard { was_tracking: TRACKING.replace(tracking), saved_reads: READS.take() }
    }
}

impl Drop for TrackingGuard {
    fn drop(&mut self) {
        TRACKING.set(self.was_tracking);
        READS.set(std::mem::take(&mut self.saved_reads));
    }
}

/// Which computations depend on which reads.
#[derive(Debug)]
pub(crate) struct Dependents<T>(HashMap<ReadId, OneOrMany<T>, BuildHasherDefault<AsIs>>);

/// The dependents of a read. Most reads have one; adding one to many, and removing it, must not be linear.
#[derive(Debug)]
enum OneOrMany<T> {
    One(T),
    Many(BTreeSet<T>),
}

impl<T> Default for Dependents<T> {
    fn default() -> Self {
        Dependents(HashMap::default())
    }
}

impl<T: Clone + Ord> Dependents<T> {
    pub(crate) fn insert<'r>(&mut self, reads: impl IntoIterator<Item = &'r ReadId>, dependent: &T) {
        for read in reads {
            match self.0.entry(*read) {
                Entry::Vacant(free) => _ = free.insert(OneOrMany::One(dependent.clone())),
                Entry::Occupied(mut dependents) => dependents.get_mut().insert(dependent),
            }
        }
    }

    pub(crate) fn remove<'r>(&mut self, reads: impl IntoIterator<Item = &'r ReadId>, dependent: &T) {
        for read in reads {
            let left = match self.0.get_mut(read) {
                None => true,
                Some(OneOrMany::One(one)) => one != dependent,
                Some(OneOrMany::Many(all)) => {
                    all.remove(dependent);
                    !all.is_empty()
                }
            };
            if !left {
                self.0.remove(read);
            }
        }
    }

    /// Replaces the reads of a dependent; both lists are in order.
    pub(crate) fn update(&mut self, old: &[ReadId], new: &[ReadId], dependent: &T) {
        self.remove(old.iter().filter(|read| new.binary_search(read).is_err()), dependent);
        self.insert(new.iter().filter(|read| old.binary_search(read).is_err()), dependent);
    }

    /// The dependents of these reads, sorted, without duplicates.
    pub(crate) fn dependents_of(&self, reads: &[Read]) -> Vec<T> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut out: Vec<T> = Vec::new();
        for dependents in reads.iter().filter_map(|read| self.0.get(&read.id())) {
            match dependents {
                OneOrMany::One(one) => out.push(one.clone()),
                OneOrMany::Many(all) => out.extend(all.iter().cloned()),
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }
}

impl<T: Clone + Ord> OneOrMany<T> {
    fn insert(&mut self, dependent: &T) {
        match self {
            OneOrMany::One(one) if one == dependent => {}
            OneOrMany::One(one) => {
                *self = OneOrMany::Many(BTreeSet::from([one.clone(), dependent.clone()]));
            }
            OneOrMany::Many(all) => _ = all.insert(dependent.clone()),
        }
    }
}

/// Collects the reads whose results a change invalidates, if they are needed.
pub(crate) struct Invalidations<'a>(Option<&'a mut Vec<Read>>);

impl<'a> Invalidations<'a> {
    pub(crate) fn collect_into(list: &'a mut Vec<Read>) -> Invalidations<'a> {
        Invalidations(Some(list))
    }

    pub(crate) fn disabled() -> Invalidations<'a> {
        Invalidations(None)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn add(&mut self, read: impl FnOnce() -> Read) {
        if let Some(list) = &mut self.0 {
            list.push(read());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(number: u64) -> Read {
        Read::Kind(KindId(number))
    }

    #[test]
    fn reads_are_recorded_by_the_innermost_tracked_computation_alone() {
        record_read(|| kind(1));
        let ((_, inner), outer) = track(|| {
            record_read(|| kind(3));
            let inner = track(|| record_read(|| kind(7)));
            untracked(|| record_read(|| kind(8)));
            record_read(|| kind(2));
            record_read(|| kind(3));
            inner
        });
        assert_eq!(inner, [kind(7)]);
        assert_eq!(outer, [kind(2), kind(3)]);
        assert_eq!(track(|| ()).1, [] as [Read; 0]);
    }

    #[test]
    fn whether_there_are_reads_is_noticed_in_tracked_computations_as_well() {
        assert_eq!(notice(|| 7), (7, false));
        assert!(notice(|| record_read(|| unreachable!("it is not recorded"))).1);
        assert!(notice(|| track(|| record_read(|| kind(1)))).1);
        assert!(!notice(|| untracked(|| record_read(|| kind(1)))).1);
        let (noticed, reads) = track(|| notice(|| record_read(|| kind(1))).1);
        assert_eq!((noticed, reads), (true, vec![]));
    }

    #[test]
    fn a_panic_ends_tracking() {
        let caught = std::panic::catch_unwind(|| track(|| panic!("as the test wants")));
        assert!(caught.is_err());
        record_read(|| unreachable!("nothing is tracked"));
    }

    #[test]
    fn a_read_concerns_its_own_kinds() {
        use crate::cluster::table::View;
        use crate::cluster::views::Autoscalers;
        let pools = Read::Kind(Kind::NODE_POOL.into());
        assert!(pools.is_within(&[Kind::PDB, Kind::NODE_POOL]));
        assert!(!pools.is_within(&[Kind::PDB]));
        assert!(!Read::Keys(Autoscalers::ID).is_within(&[Kind::HPA]));
        assert!(Read::Keys(Autoscalers::ID).is_within(&[Kind::HPA, Kind::SCALED_OBJECT]));
        assert_eq!(Read::first_outside(&[pools, Read::All], &[Kind::NODE_POOL]), None);
        assert_eq!(Read::first_outside(&[pools, Read::All], &[]), Some(pools));
    }

    #[test]
    fn dependents_are_found_until_they_are_removed() {
        let ids = |numbers: &[u64]| compact(&numbers.iter().map(|n| kind(*n)).collect::<Vec<_>>());
        let mut dependents = Dependents::default();
        dependents.insert(&ids(&[10, 20]), &1);
        dependents.insert(&ids(&[20, 30]), &2);
        assert_eq!(dependents.dependents_of(&[kind(20), kind(30)]), [1, 2]);
        dependents.remove(&ids(&[10, 20]), &1);
        assert_eq!(dependents.dependents_of(&[kind(10), kind(20)]), [2]);
        dependents.update(&ids(&[20, 30]), &ids(&[30, 40]), &2);
        assert_eq!(dependents.dependents_of(&[kind(10), kind(20)]), [] as [i32; 0]);
        assert_eq!(dependents.dependents_of(&[kind(40)]), [2]);
    }

    #[test]
    fn other_reads_have_other_ids() {
        use crate::cluster::table::View;
        use crate::cluster::views::{Autoscalers, Services};
        let other = KindId(8);
        let reads: Vec<Read> = [KindId(7), other]
            .into_iter()
            .flat_map(|kind| [Read::Kind(kind), Read::Any(kind), Read::Name(kind, 1), Read::Exists(kind, 1)])
            .chain(
                [Autoscalers::ID, Services::ID]
                    .into_iter()
                    .flat_map(|view| [Read::Keys(view), Read::Rows(view, 1)]),
            )
            .chain([Read::All, Read::Name(other, 2), Read::Rows(Autoscalers::ID, 2)])
            .collect();
        assert_eq!(compact(&reads).len(), reads.len());
    }
}
