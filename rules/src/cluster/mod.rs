//! The objects of one cluster: lookups, data derived from them, and what has to be computed again when some of
//! them are replaced.
//!
//! ```text
//!                objects.rs            table.rs               query.rs
//!  Object ───►  Objects          ───►  Table<V>         ───►  results of a Query
//!               by kind, namespace,    a multimap: its keys   a memoised function of objects,
//!               name                   are a pure function    tables and other queries, such as
//!                                      of one object          "the pods that block a pool's drain"
//!                     │                     │                      │
//!                     └──────── each lookup records a Read ────────┘      (dependencies.rs)
//!                                           │
//!    Cluster::replace(old, new)  ──►  the reads whose results are different now
//!                                           │      a query runs again if one of its reads is among
//!                                           ▼      them, and adds its own only if its value changed
//!    Workspace: runs again the rules that recorded one of these reads
//! ```
//!
//! A [`View`](table::View) defines the keys of an object, and a [`Query`](query::Query) computes a value from
//! everything that it reads. Each has its own slot (`ViewSlot`, `QuerySlot`); the tables are also listed in
//! `views/mod.rs`, so that this module does not depend on their types. [`Views`] is the interface for rules. A rule that looks
//! for a few objects among many defines a [`Predicate`](views::Predicate) for them, and does not go through all of a kind.
//!
//! A run over files and the admission server fill a cluster once: tables and results are built when they are
//! first read, or by [`Cluster::build_views`], and no reads are recorded. If objects are replaced
//! ([`Workspace`](crate::workspace::Workspace)), every lookup returns what a newly filled cluster would return.
//!
//! A review beside an object that is newer than the snapshot is made of a copy ([`Cluster::with_replaced`]), which shares what does
//! not depend on the object (`layers.rs`).
//!
//! Whether a pool admits a pod depends only on the two. These decisions are cached by content
//! ([`Admissions`]), need no invalidation, and are passed on from one cluster to the next.

pub(crate) mod branch_interfaces;
pub(crate) mod converted;
pub(crate) mod dependencies;
mod layers;
pub(crate) mod makers;
pub mod objects;
pub(crate) mod other_nodes;
pub(crate) mod placement;
pub(crate) mod pod_policies;
pub(crate) mod query;
pub(crate) mod queues;
pub(crate) mod runtimes;
pub mod sets;
pub(crate) mod storage;
pub(crate) mod table;
pub(crate) mod together;
pub(crate) mod values;
pub mod versions;
pub mod views;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies::{Digest, Invalidations, Read, untracked};
use crate::cluster::objects::{ObjectChange, Objects};
use crate::cluster::other_nodes::{OtherNodes, declares_nodes};
use crate::cluster::placement::admission::Admissions;
use crate::cluster::query::{Queries, Query};
use crate::cluster::sets::Bond;
use crate::cluster::table::{Table, Tables, View};
use crate::cluster::together::routes;
use crate::cluster::versions::{
    OutsideFact, ShownVersions, is_v1_of_karpenter, shown_by, shows_server_version,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;

/// The known objects and the data derived from them. Lookups of single objects are methods of [`Objects`], to
/// which it dereferences.
#[derive(Default)]
pub struct Cluster {
    objects: Objects,
    tables: Tables,
    queries: Queries,
    /// Whether objects are replaced, so that results record their dependencies.
    incremental: bool,
    bond: Bond,
    admissions: Arc<Admissions>,
    /// Whether a kustomization lists the file of any object that is, or was, in the cluster.
    has_kustomized: bool,
    /// What files of the set show that are no manifests. `None`: the cluster is not one of files, and its versions are those of
    /// the configuration.
    outside: Option<Arc<[OutsideFact]>>,
    shown: OnceLock<ShownVersions>,
    other_nodes: OnceLock<Box<[OtherNodes]>>,
    /// A cluster in which objects of old APIs stand as what they become; `None` if there are none.
    converted: OnceLock<Option<Box<converted::Converted>>>,
}

pub(crate) enum Replaced {
    /// The results of these reads.
    Reads(Vec<Read>),
    /// Anything may have changed: the code of a view panicked, the set shows other versions, a kustomization appeared, or the
    /// nodes changed that Karpenter does not start.
    Everything,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl Deref for Cluster {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl Cluster {
    /// An empty cluster. `complete`: an object that is not in the cluster does not exist.
    pub fn new(complete: bool) -> Cluster {
        Cluster { objects: Objects::new(complete), ..Cluster::default() }
    }

    /// An empty cluster whose objects can be replaced.
    pub(crate) fn incremental(complete: bool) -> Cluster {
        Cluster { incremental: true, ..Cluster::new(complete) }
    }

    /// Sets how certain it is that the objects run in one cluster.
    pub(crate) fn with_bond(self, bond: Bond) -> Cluster {
        Cluster { bond, ..self }
    }

    /// How certain it is that the objects run in one cluster.
    pub(crate) fn bond(&self) -> Bond {
        self.bond
    }

    /// Takes the versions that the manifests show for those of the platform.
    pub(crate) fn with_facts(self, outside: Arc<[OutsideFact]>) -> Cluster {
        Cluster { outside: Some(outside), ..self }
    }

    /// What files of the set show that are no manifests.
    pub(crate) fn outside_facts(&self) -> &[OutsideFact] {
        self.outside.as_deref().unwrap_or_default()
    }

    /// The versions that the set shows, if they count.
    pub(crate) fn shown(&self) -> Option<&ShownVersions> {
        let outside = self.outside.as_ref()?;
        Some(self.shown.get_or_init(|| ShownVersions::of(self.objects.objects(), outside)))
    }

    /// The nodes of the input that Karpenter does not start. No read of them is recorded, because they seldom change.
    pub(crate) fn other_nodes(&self) -> &[OtherNodes] {
        let objects = || other_nodes::kinds().flat_map(|kind| self.objects.of(kind));
        let read = || steps::unlimited(|| untracked(|| objects().flat_map(OtherNodes::of).collect()));
        self.other_nodes.get_or_init(read)
    }

    /// Whether a kustomization may give objects another namespace or name.
    pub(crate) fn has_kustomized(&self) -> bool {
        self.has_kustomized
    }

    pub(crate) fn is_incremental(&self) -> bool {
        self.incremental
    }

    /// An empty cluster for the next snapshot of the same cluster: it shares the cached admissions of pods by pools
    /// with this one.
    pub fn successor(&self, complete: bool) -> Cluster {
        Cluster { admissions: Arc::clone(&self.admissions), ..Cluster::new(complete) }
    }

    /// An empty cluster that is complete for the same kinds: for a part of this one that is all that matters.
    pub(crate) fn excerpt(&self) -> Cluster {
        Cluster { objects: self.objects.excerpt(), ..Cluster::default() }.with_bond(self.bond)
    }

    /// This cluster with these objects instead of its own.
    #[must_use]
    pub fn with_objects(&self, objects: impl IntoIterator<Item = Object>) -> Cluster {
        let mut other = Cluster { outside: self.outside.clone(), ..self.excerpt() };
        objects.into_iter().for_each(|object| other.apply(object));
        other
    }

    /// This cluster with some of its objects replaced by others. Lookups, tables and results that do not depend on them are
    /// shared, so that it costs little beside a large cluster.
    #[must_use]
    pub fn with_replaced(&self, old: &[Object], new: &[Object]) -> Cluster {
        debug_assert!(!self.incremental, "results that record their dependencies are not shared");
        let all: Vec<&Object> = old.iter().chain(new).collect();
        let queries = match all.iter().any(|object| declares_nodes(object)) {
            true => Queries::default(),
            false => self.queries.without(&all),
        };
        let mut tables = self.tables.clone();
        for (change, objects) in [(ObjectChange::Removed, old), (ObjectChange::Added, new)] {
            objects.iter().for_each(|object| tables.apply(change, object, &mut Invalidations::disabled()));
        }
        Cluster {
            objects: self.objects.with(old, new),
            tables,
            queries,
            bond: self.bond,
            admissions: Arc::clone(&self.admissions),
            has_kustomized: self.has_kustomized || new.iter().any(|object| !routes(object).is_empty()),
            outside: self.outside.clone(),
            ..Cluster::default()
        }
    }

    /// Declares that no object of a kind exists except those in the cluster.
    pub fn mark_complete(&mut self, kind: Kind) {
        self.objects.mark_complete(kind);
    }

    /// Adds an object. Patches and fragments are stored, but lookups do not return them.
    pub fn apply(&mut self, object: Object) {
        self.change(ObjectChange::Added, &object, &mut Invalidations::disabled());
        self.queries = Queries::default();
        self.shown = OnceLock::new();
        self.other_nodes = OnceLock::new();
        self.converted = OnceLock::new();
        self.has_kustomized |= !routes(&object).is_empty();
        self.objects.push(object);
    }

    pub(crate) fn replace(&mut self, old: &[Object], new: &[Object]) -> Replaced {
        let converted = self.converted.take();
        match (self.replace_written(old, new), converted) {
            (Replaced::Reads(reads), Some(converted)) => self.replace_converted(converted, old, new, reads),
            (replaced, _) => replaced,
        }
    }

    fn replace_written(&mut self, old: &[Object], new: &[Object]) -> Replaced {
        let mut invalid = Vec::new();
        let mut collected = Invalidations::collect_into(&mut invalid);
        let mut is_anything_lost = false;
        // The new objects are added first, so that an object that is in both lists is never absent.
        let added = new.iter().map(|object| (ObjectChange::Added, object));
        let removed = old.iter().map(|object| (ObjectChange::Removed, object));
        for (change, object) in added.chain(removed) {
            self.objects.change(change, object, &mut collected);
            is_anything_lost |= self.tables.apply_isolated(change, object, &mut collected);
        }
        let pools_decide = shows_server_version(self.outside_facts());
        let is_sign = |object: &Object| {
            pools_decide && object.is(Kind::NODE_POOL)
                || is_v1_of_karpenter(object)
                || !shown_by(object).is_empty()
        };
        let shows = |objects: &[Object]| objects.iter().any(is_sign);
        let versions_of = |shown: &ShownVersions| (shown.numbers(), shown.patches(), shown.contradicted());
        let versions = (shows(old) || shows(new)).then(|| self.shown().map(versions_of)).flatten();
        self.objects.splice(old, new);
        if !self.has_kustomized && new.iter().any(|object| !routes(object).is_empty()) {
            self.has_kustomized = true;
            is_anything_lost = true;
        }
        if let Some(before) = versions {
            self.shown = OnceLock::new();
            is_anything_lost |= self.shown().is_some_and(|shown| versions_of(shown) != before);
        }
        if old.iter().chain(new).any(declares_nodes) {
            self.other_nodes = OnceLock::new();
            is_anything_lost = true;
        }
        if is_anything_lost {
            self.queries = Queries::default();
            return Replaced::Everything;
        }
        invalid.sort_unstable();
        invalid.dedup();
        self.queries.update(self, old, &mut invalid);
        invalid.sort_unstable();
        invalid.dedup();
        Replaced::Reads(invalid)
    }

    fn change(&mut self, change: ObjectChange, object: &Object, invalid: &mut Invalidations<'_>) {
        self.objects.change(change, object, invalid);
        self.tables.apply(change, object, invalid);
    }

    pub(crate) fn table<V: View>(&self) -> &Table<V> {
        self.tables.table(&self.objects)
    }

    pub(crate) fn query<Q: Query>(&self, key: &Q::Key) -> Q::Value {
        self.queries.get::<Q>(self, key)
    }

    /// The result of a query of which the caller only reads one part.
    pub(crate) fn query_part<Q: Query>(&self, key: &Q::Key, part: Digest) -> Q::Value {
        self.queries.get_part::<Q>(self, key, part)
    }

    pub(crate) fn admissions(&self) -> &Admissions {
        &self.admissions
    }
}
