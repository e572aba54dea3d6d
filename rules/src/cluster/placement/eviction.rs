//! The pods that keep a node for long, or need long to end.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cluster::dependencies;
use crate::cluster::dependencies::{DependencyKey, dependency_key};
use crate::cluster::memo::DependencyMemo;
use crate::cluster::objects::Index;
use crate::cluster::views::disruptions::never_allows_eviction;
use crate::facts::duration::GoDuration;
use crate::karpenter::do_not_disrupt::{DO_NOT_DISRUPT, is_active};
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::scheduling::Pod;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

use super::has_controller;
use crate::cluster::placement::feasibility::pod_key;

/// What a pod gets that says nothing.
const DEFAULT_GRACE: i64 = 30;
/// A protection that ends within a day keeps no node for long.
const DAY: i64 = 24 * 3600;

/// Whether a PDB allows no eviction.
const PDB_ALLOWS_NONE: &str = "PDBs that allow no eviction";

/// A template whose pods keep a node for long, or need long to end.
pub(crate) struct EvictionBlocker {
    pub workload: Object,
    /// Its annotation keeps Karpenter from evicting it, for more than a day.
    pub protected: bool,
    /// `terminationGracePeriodSeconds` or its default.
    pub grace: i64,
    /// What lets none of its pods be evicted.
    pub pdb_block: Option<PdbBlock>,
    /// Its annotation keeps Karpenter from evicting it, be it for a short while.
    pub(super) has_do_not_disrupt: bool,
    pub(super) shape: PodShape,
}

/// Why the eviction API never lets a pod go.
pub(crate) enum PdbBlock {
    /// A PDB that allows none.
    NoDisruptions(Object),
    /// Two PDBs, of which the API can serve only one.
    Overlapping(Object, Object),
}

/// What a pod asks of nodes, with what tells it from others.
pub(super) struct PodShape {
    pod: Pod,
    key: String,
}

impl PodShape {
    pub(super) fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }
}

impl EvictionBlocker {
    /// Whether nobody can tell the two apart.
    fn is_identical(&self, other: &EvictionBlocker) -> bool {
        let blocker = match (&self.pdb_block, &other.pdb_block) {
            (None, None) => true,
            (Some(PdbBlock::NoDisruptions(a)), Some(PdbBlock::NoDisruptions(b))) => a.ptr_eq(b),
            (Some(PdbBlock::Overlapping(a, b)), Some(PdbBlock::Overlapping(c, d))) => {
                a.ptr_eq(c) && b.ptr_eq(d)
            }
            _ => false,
        };
        blocker
            && self.workload.ptr_eq(&other.workload)
            && (self.protected, self.has_do_not_disrupt) == (other.protected, other.has_do_not_disrupt)
            && self.grace == other.grace
            && self.shape.key == other.shape.key
    }
}

/// A workload where an index has it: by kind first.
struct WorkloadKey {
    kind: usize,
    object: Object,
}

impl Ord for WorkloadKey {
    fn cmp(&self, other: &WorkloadKey) -> Ordering {
        let kinds = self.kind.cmp(&other.kind);
        kinds.then_with(|| self.object.sort_key().cmp(&other.object.sort_key()))
    }
}

impl PartialOrd for WorkloadKey {
    fn partial_cmp(&self, other: &WorkloadKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WorkloadKey {
    fn eq(&self, other: &WorkloadKey) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for WorkloadKey {}

impl WorkloadKey {
    /// `None` for what starts no nodes: DaemonSets do not, and what a pod of a controller asks is
    /// its controller's.
    fn of(object: &Object) -> Option<WorkloadKey> {
        if object.is_partial() || object.is(Kind::DAEMON_SET) || has_controller(object) {
            return None;
        }
        let kind = WORKLOAD_KINDS.iter().position(|kind| object.is(*kind))?;
        let object = object.clone();
        Some(WorkloadKey { kind, object })
    }
}

/// Every guest, by workload.
pub(super) struct EvictionBlockers {
    all: BTreeMap<WorkloadKey, Vec<Arc<EvictionBlocker>>>,
    /// Whether there are pools that give pods less time than they have if they say nothing: then
    /// all of them are guests.
    default_grace_is_too_long: bool,
    /// In sessions what was looked at. Workloads that are no guests are among them.
    workloads: DependencyMemo<Object>,
    pdbs: PdbMemo,
}

/// PDBs, and whether they allow no eviction.
#[derive(Default)]
struct PdbMemo {
    live: bool,
    memo: DependencyMemo<(Object, bool)>,
    cached: HashMap<usize, bool>,
}

impl EvictionBlockers {
    /// `shortest` is the shortest time, in seconds, that a pool gives a drain.
    pub(super) fn new(index: &Index, platform: &Platform, shortest: Option<i64>) -> EvictionBlockers {
        let mut guests = EvictionBlockers {
            all: BTreeMap::new(),
            default_grace_is_too_long: is_below_default_grace(shortest),
            workloads: DependencyMemo::default(),
            pdbs: PdbMemo { live: index.is_incremental(), ..PdbMemo::default() },
        };
        for object in WORKLOAD_KINDS.iter().flat_map(|kind| index.of(*kind)) {
            guests.refresh(object, index, platform);
        }
        guests
    }

    /// Whether the guests are those of pools with this shortest time.
    pub(super) fn is_valid_for(&self, shortest: Option<i64>) -> bool {
        self.default_grace_is_too_long == is_below_default_grace(shortest)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<EvictionBlocker>> {
        self.all.values().flatten()
    }

    /// Objects have come and gone; says whether there are other guests now.
    pub(super) fn update(
        &mut self,
        index: &Index,
        platform: &Platform,
        (old, new): (&[Object], &[Object]),
        touched: &[DependencyKey],
    ) -> bool {
        let mut changed = false;
        for object in old {
            self.pdbs.memo.remove(object.ptr_id());
            if self.workloads.remove(object.ptr_id()).is_some() {
                changed |= WorkloadKey::of(object).is_some_and(|s| self.all.remove(&s).is_some());
            }
        }
        let mut again = self.workloads.dependents_of(touched);
        again.extend(self.workloads.dependents_of(&self.pdbs.update(index, touched)));
        again.sort_unstable();
        again.dedup();
        for address in again {
            if let Some(object) = self.workloads.remove(address) {
                changed |= self.refresh(&object, index, platform);
            }
        }
        for object in new {
            changed |= self.refresh(object, index, platform);
        }
        changed
    }

    /// Looks at a workload; says whether its guests are others than before.
    fn refresh(&mut self, object: &Object, index: &Index, platform: &Platform) -> bool {
        let Some(standing) = WorkloadKey::of(object) else {
            return false;
        };
        let mut find =
            || blockers_of(object, index, platform, self.default_grace_is_too_long, &mut self.pdbs);
        let found = if index.is_incremental() {
            let (found, topics) = dependencies::track(find);
            self.workloads.insert(object.ptr_id(), object.clone(), topics);
            found
        } else {
            find()
        };
        if found.is_empty() {
            return self.all.remove(&standing).is_some();
        }
        let old = self.all.get(&standing).map_or(&[][..], Vec::as_slice);
        let mut changed = old.len() != found.len();
        let keep = |(at, guest): (usize, EvictionBlocker)| match old.get(at) {
            Some(old) if old.is_identical(&guest) => Arc::clone(old),
            _ => {
                changed = true;
                Arc::new(guest)
            }
        };
        let found = found.into_iter().enumerate().map(keep).collect();
        self.all.insert(standing, found);
        changed
    }
}

impl PdbMemo {
    fn never_allows(&mut self, pdb: &Object, index: &Index) -> bool {
        let address = pdb.ptr_id();
        if !self.live {
            let make = || never_allows_eviction(pdb, index);
            return *self.cached.entry(address).or_insert_with(make);
        }
        dependencies::record_read(|| dependency_key(PDB_ALLOWS_NONE, address));
        if let Some((_, never)) = self.memo.get(address) {
            return *never;
        }
        self.refresh(pdb, index)
    }

    fn refresh(&mut self, pdb: &Object, index: &Index) -> bool {
        let (never, topics) = dependencies::track(|| never_allows_eviction(pdb, index));
        self.memo.insert(pdb.ptr_id(), (pdb.clone(), never), topics);
        never
    }

    /// Looks again at those that a change touches; gives the topics of those that are different.
    fn update(&mut self, index: &Index, touched: &[DependencyKey]) -> Vec<DependencyKey> {
        let mut changed = Vec::new();
        for address in self.memo.dependents_of(touched) {
            if let Some((pdb, before)) = self.memo.remove(address)
                && self.refresh(&pdb, index) != before
            {
                changed.push(dependency_key(PDB_ALLOWS_NONE, address));
            }
        }
        changed
    }
}

/// The guests among the templates of a workload.
fn blockers_of(
    object: &Object,
    index: &Index,
    platform: &Platform,
    everyone: bool,
    pdbs: &mut PdbMemo,
) -> Vec<EvictionBlocker> {
    let mut found = Vec::new();
    for template in templates(object) {
        let annotation = template.annotation(DO_NOT_DISRUPT).text();
        let active = annotation.is_some_and(|text| is_active(text, platform));
        let grace = template.spec.get("terminationGracePeriodSeconds");
        let grace = match grace.int() {
            None if grace.is_set() => continue,
            seconds => seconds.unwrap_or(DEFAULT_GRACE),
        };
        let blocker = pdb_block(&template, object, index, pdbs);
        let slow = everyone || grace > DEFAULT_GRACE;
        if !active && !slow && blocker.is_none() {
            continue;
        }
        let Some(pod) = to_scheduling_pod(&template) else {
            continue;
        };
        let key = pod_key(&pod);
        found.push(EvictionBlocker {
            workload: object.clone(),
            protected: active && annotation.is_some_and(is_lasting),
            grace,
            pdb_block: blocker,
            has_do_not_disrupt: active,
            shape: PodShape { pod, key },
        });
    }
    found
}

/// What keeps the pods of a template from ever being evicted.
fn pdb_block(
    template: &Template<'_>,
    object: &Object,
    index: &Index,
    known: &mut PdbMemo,
) -> Option<PdbBlock> {
    let (pdbs, _) = (index.views()).pdbs_of(object.id().namespace_or_default(), template);
    if let Some(pdb) = pdbs.iter().find(|pdb| known.never_allows(pdb, index)) {
        return Some(PdbBlock::NoDisruptions((*pdb).clone()));
    }
    match pdbs.as_slice() {
        [first, more @ ..] => {
            let second = more.iter().find(|pdb| pdb.id() != first.id())?;
            Some(PdbBlock::Overlapping((*first).clone(), (*second).clone()))
        }
        [] => None,
    }
}

/// Whether a pool gives pods less time than they have if they say nothing.
fn is_below_default_grace(shortest: Option<i64>) -> bool {
    shortest.is_some_and(|shortest| shortest < DEFAULT_GRACE)
}

/// Whether an annotation's value protects a pod for more than a day.
fn is_lasting(value: &str) -> bool {
    value == "true" || GoDuration::parse(value).is_ok_and(|length| length.seconds() > DAY)
}
