//! Objects by keys: a multimap that is defined by one pure function of an object.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::OnceLock;

use crate::cluster::dependencies::{
    Invalidations, Read, by_slot, digest, is_recording, record_read, untracked,
};
use crate::cluster::layers::Rows;
use crate::cluster::objects::{ObjectChange, Objects};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;
use crate::steps::isolate;

/// The data that a table stores for an object: the object itself, or data derived from it alone.
pub(crate) trait Row: Clone + Send + Sync + 'static {
    fn of(object: &Object) -> Self;

    fn object(&self) -> &Object;

    fn cmp_index_order(&self, other: &Self) -> Ordering {
        self.object().sort_key().cmp(&other.object().sort_key())
    }
}

impl Row for Object {
    fn of(object: &Object) -> Object {
        object.clone()
    }

    fn object(&self) -> &Object {
        self
    }
}

/// A multimap over the objects of some kinds. Building it, updating it, looking up a key, and determining
/// which lookups a change affects all follow from [`View::keys`].
pub(crate) trait View: Sized + Send + Sync + 'static {
    const SLOT: ViewSlot;
    const KINDS: &'static [Kind];
    /// Whether patches and fragments are in it.
    const PARTIAL: bool = false;
    /// The identity with which reads of its table are recorded.
    const ID: ViewId = ViewId(&ViewInfo { slot: Self::SLOT, kinds: Self::KINDS });
    /// The data stored for an object.
    type Row: Row;
    type Key: Clone + Ord + Hash + Send + Sync;

    /// The keys of a row; duplicates are ignored.
    fn keys(row: &Self::Row) -> Vec<Self::Key>;
}

pub(crate) struct Table<V: View>(Rows<V::Key, V::Row>);

impl<V: View> fmt::Debug for Table<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("view", &V::SLOT).finish_non_exhaustive()
    }
}

impl<V: View> Table<V> {
    /// Builds a table of all objects. They are sorted by kind and name, so that the rows of a key are nearly always in
    /// order.
    fn build(objects: &Objects) -> Table<V> {
        let mut table: HashMap<V::Key, Vec<V::Row>> = HashMap::new();
        let whole = V::KINDS.iter().flat_map(|kind| objects.of(*kind));
        let partial = objects.partial().iter().filter(|_| V::PARTIAL);
        for (row, keys) in whole.chain(partial).filter_map(row::<V>) {
            for key in keys {
                // Nearly all keys have one row.
                table.entry(key).or_insert_with(|| Vec::with_capacity(1)).push(row.clone());
            }
        }
        table.values_mut().for_each(|rows| rows.sort_by(V::Row::cmp_index_order));
        Table(Rows::from(table))
    }

    /// The rows of a key, in the order of the index.
    pub(crate) fn get(&self, key: &V::Key) -> &[V::Row] {
        record_read(|| Read::Rows(V::ID, digest(key)));
        self.0.get(key)
    }

    /// The first row of a key. A computation that only reads this depends only on the first row.
    pub(crate) fn first(&self, key: &V::Key) -> Option<&V::Row> {
        record_read(|| Read::FirstRow(V::ID, digest(key)));
        self.0.get(key).first()
    }

    /// Whether a key has rows. A computation that only reads this does not depend on the rows themselves.
    pub(crate) fn contains(&self, key: &V::Key) -> bool {
        record_read(|| Read::HasRows(V::ID, digest(key)));
        !self.0.get(key).is_empty()
    }

    /// Whether the table is empty and no reads are recorded, so that lookups can be skipped.
    pub(crate) fn has_nothing_to_read(&self) -> bool {
        let is_empty = self.0.is_empty() && !is_recording();
        if is_empty {
            record_read(|| Read::Keys(V::ID));
        }
        is_empty
    }

    /// The keys that have rows, in order.
    pub(crate) fn keys(&self) -> Vec<&V::Key> {
        record_read(|| Read::Keys(V::ID));
        let mut keys: Vec<&V::Key> = self.0.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    /// The keys that have rows, in order, each with the number of its rows.
    pub(crate) fn counts(&self) -> Vec<(&V::Key, usize)> {
        record_read(|| Read::Counts(V::ID));
        let mut counts: Vec<_> = self.0.iter().map(|(key, rows)| (key, rows.len())).collect();
        counts.sort_unstable();
        counts
    }

    /// Adds or removes an object, and collects the lookups whose results change.
    fn apply(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>) {
        let Some((row, keys)) = row::<V>(object) else { return };
        for key in keys {
            let first = |table: &Table<V>| Some(table.0.get(&key).first()?.object().ptr_id());
            let before = first(self);
            self.change(change, key.clone(), &row);
            let now = first(self);
            invalid.add(|| Read::Rows(V::ID, digest(&key)));
            invalid.add(|| Read::Counts(V::ID));
            if before != now {
                invalid.add(|| Read::FirstRow(V::ID, digest(&key)));
            }
            if before.is_some() != now.is_some() {
                invalid.add(|| Read::HasRows(V::ID, digest(&key)));
                invalid.add(|| Read::Keys(V::ID));
            }
        }
    }

    fn change(&mut self, change: ObjectChange, key: V::Key, row: &V::Row) {
        self.0.edit(key, |rows| match change {
            ObjectChange::Added => {
                let at = rows.partition_point(|other| other.cmp_index_order(row) != Ordering::Greater);
                rows.insert(at, row.clone());
            }
            ObjectChange::Removed => rows.retain(|other| !other.object().ptr_eq(row.object())),
        });
    }
}

/// The row of an object that belongs to a view, with its keys.
fn row<V: View>(object: &Object) -> Option<(V::Row, Vec<V::Key>)> {
    if (object.is_partial() && !V::PARTIAL) || !V::KINDS.iter().any(|kind| object.is(*kind)) {
        return None;
    }
    let row = V::Row::of(object);
    let mut keys = V::keys(&row);
    keys.sort_unstable();
    keys.dedup();
    Some((row, keys))
}

trait AnyTable: Send + Sync {
    fn apply(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>);
    /// A copy that shares the rows.
    fn copy(&self) -> Box<dyn AnyTable>;
    fn as_any(&self) -> &dyn Any;
}

impl<V: View> AnyTable for Table<V> {
    fn apply(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>) {
        Table::apply(self, change, object, invalid);
    }

    fn copy(&self) -> Box<dyn AnyTable> {
        Box::new(Table::<V>(self.0.clone()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The tables of a cluster: each is built when it is first read, and updated afterwards.
#[derive(Default)]
pub(crate) struct Tables([OnceLock<Box<dyn AnyTable>>; ViewSlot::COUNT]);

impl Clone for Tables {
    fn clone(&self) -> Tables {
        Tables(self.0.each_ref().map(|slot| slot.get().map(|table| table.copy().into()).unwrap_or_default()))
    }
}

impl Tables {
    pub(crate) fn table<V: View>(&self, objects: &Objects) -> &Table<V> {
        // Building a table is not a dependency of the computation that happens to read it first; that
        // depends only on the keys which it looks up.
        let build = || -> Box<dyn AnyTable> {
            Box::new(untracked(|| steps::unlimited(|| Table::<V>::build(objects))))
        };
        let table = self.0[V::SLOT as usize].get_or_init(build);
        table.as_any().downcast_ref().expect("each view has a place of its own")
    }

    pub(crate) fn apply(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>) {
        for table in &mut self.0 {
            if let Some(table) = table.get_mut() {
                table.apply(change, object, invalid);
            }
        }
    }

    /// Like [`Self::apply`], for a table whose view may panic: a table that is left half changed is built again when
    /// it is next read. Returns whether there is one.
    pub(crate) fn apply_isolated(
        &mut self,
        change: ObjectChange,
        object: &Object,
        invalid: &mut Invalidations<'_>,
    ) -> bool {
        let mut is_lost = false;
        for slot in &mut self.0 {
            if let Some(table) = slot.get_mut()
                && isolate(|| table.apply(change, object, invalid)).is_err()
            {
                *slot = OnceLock::new();
                is_lost = true;
            }
        }
        is_lost
    }
}

/// The slot of a view among the tables of a cluster; each belongs to one [`View`]. Their types are named in
/// `views/mod.rs`, so that this module does not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ViewSlot {
    Autoscalers,
    CandidatePools,
    ClaimUsers,
    ClassNames,
    ClassPools,
    ClassReferences,
    ClassUsers,
    ExtendedResources,
    MadeAutoscalers,
    NodePools,
    NodeStarters,
    OverlapGroups,
    Overlays,
    Pdbs,
    PoolsByDrainTime,
    PoolsByRegion,
    PoolsByWeight,
    ProtectedPools,
    RecordingRules,
    ReferencedLabels,
    ReservedVolumes,
    Services,
    Tolerances,
    Workloads,
}

impl ViewSlot {
    pub(crate) const COUNT: usize = ViewSlot::Workloads as usize + 1;
}

/// The identity of a view, with the kinds of the objects in its table.
#[derive(Clone, Copy)]
pub(crate) struct ViewId(&'static ViewInfo);

struct ViewInfo {
    slot: ViewSlot,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares them with those that rules declare"))]
    kinds: &'static [Kind],
}

impl ViewId {
    /// The kinds of the objects in its table.
    #[cfg(test)]
    pub(crate) fn kinds(self) -> &'static [Kind] {
        self.0.kinds
    }

    /// A number that is unique among views.
    pub(crate) fn number(self) -> u64 {
        self.0.slot as u64
    }
}

by_slot!(ViewId);
