//! The pods that keep a node for long, or need long to end.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cluster::dependencies;
use crate::cluster::dependencies::{Topic, topic};
use crate::cluster::memo::Woven;
use crate::cluster::objects::Index;
use crate::cluster::views::disruptions::never_allows;
use crate::facts::duration::GoDuration;
use crate::karpenter::do_not_disrupt::{DO_NOT_DISRUPT, is_active};
use crate::karpenter::pod::pod;
use crate::karpenter::scheduling::Pod;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

use super::is_made;
use crate::cluster::placement::feasibility::key;

/// What a pod gets that says nothing.
const DEFAULT_GRACE: i64 = 30;
/// A protection that ends within a day keeps no node for long.
const DAY: i64 = 24 * 3600;

/// Whether a PDB allows no eviction.
const NEVER: &str = "PDBs that allow no eviction";

/// A template whose pods keep a node for long, or need long to end.
pub(crate) struct Guest {
    pub workload: Object,
    /// Its annotation keeps Karpenter from evicting it, for more than a day.
    pub protected: bool,
    /// `terminationGracePeriodSeconds` or its default.
    pub grace: i64,
    /// What lets none of its pods be evicted.
    pub blocker: Option<Blocker>,
    /// Its annotation keeps Karpenter from evicting it, be it for a short while.
    pub(super) active: bool,
    pub(super) shape: Shape,
}

/// Why the eviction API never lets a pod go.
pub(crate) enum Blocker {
    /// A PDB that allows none.
    Zero(Object),
    /// Two PDBs, of which the API can serve only one.
    Two(Object, Object),
}

/// What a pod asks of nodes, with what tells it from others.
pub(super) struct Shape {
    pod: Pod,
    key: String,
}

impl Shape {
    pub(super) fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }
}

impl Guest {
    /// Whether nobody can tell the two apart.
    fn is_same(&self, other: &Guest) -> bool {
        let blocker = match (&self.blocker, &other.blocker) {
            (None, None) => true,
            (Some(Blocker::Zero(a)), Some(Blocker::Zero(b))) => a.is_handle_of(b),
            (Some(Blocker::Two(a, b)), Some(Blocker::Two(c, d))) => a.is_handle_of(c) && b.is_handle_of(d),
            _ => false,
        };
        blocker
            && self.workload.is_handle_of(&other.workload)
            && (self.protected, self.active) == (other.protected, other.active)
            && self.grace == other.grace
            && self.shape.key == other.shape.key
    }
}

/// A workload where an index has it: by kind first.
struct Standing {
    kind: usize,
    object: Object,
}

impl Ord for Standing {
    fn cmp(&self, other: &Standing) -> Ordering {
        let kinds = self.kind.cmp(&other.kind);
        kinds.then_with(|| self.object.order().cmp(&other.object.order()))
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Standing) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Standing) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Standing {}

impl Standing {
    /// `None` for what starts no nodes: DaemonSets do not, and what a pod of a controller asks is
    /// its controller's.
    fn of(object: &Object) -> Option<Standing> {
        if object.is_partial() || object.is(Kind::DAEMON_SET) || is_made(object) {
            return None;
        }
        let kind = WORKLOAD_KINDS.iter().position(|kind| object.is(*kind))?;
        let object = object.clone();
        Some(Standing { kind, object })
    }
}

/// Every guest, by workload.
pub(super) struct Guests {
    all: BTreeMap<Standing, Vec<Arc<Guest>>>,
    /// Whether there are pools that give pods less time than they have if they say nothing: then
    /// all of them are guests.
    everyone: bool,
    /// In sessions what was looked at. Workloads that are no guests are among them.
    workloads: Woven<Object>,
    pdbs: Pdbs,
}

/// PDBs, and whether they allow no eviction.
#[derive(Default)]
struct Pdbs {
    live: bool,
    woven: Woven<(Object, bool)>,
    plain: HashMap<usize, bool>,
}

impl Guests {
    /// `shortest` is the shortest time, in seconds, that a pool gives a drain.
    pub(super) fn new(index: &Index, platform: &Platform, shortest: Option<i64>) -> Guests {
        let mut guests = Guests {
            all: BTreeMap::new(),
            everyone: is_short(shortest),
            workloads: Woven::default(),
            pdbs: Pdbs { live: index.is_live(), ..Pdbs::default() },
        };
        for object in WORKLOAD_KINDS.iter().flat_map(|kind| index.of(*kind)) {
            guests.look(object, index, platform);
        }
        guests
    }

    /// Whether the guests are those of pools with this shortest time.
    pub(super) fn are_for(&self, shortest: Option<i64>) -> bool {
        self.everyone == is_short(shortest)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Guest>> {
        self.all.values().flatten()
    }

    /// Objects have come and gone; says whether there are other guests now.
    pub(super) fn renew(
        &mut self,
        index: &Index,
        platform: &Platform,
        (old, new): (&[Object], &[Object]),
        touched: &[Topic],
    ) -> bool {
        let mut changed = false;
        for object in old {
            self.pdbs.woven.take(object.address());
            if self.workloads.take(object.address()).is_some() {
                changed |= Standing::of(object).is_some_and(|s| self.all.remove(&s).is_some());
            }
        }
        let mut again = self.workloads.resting_on(touched);
        again.extend(self.workloads.resting_on(&self.pdbs.renew(index, touched)));
        again.sort_unstable();
        again.dedup();
        for address in again {
            if let Some(object) = self.workloads.take(address) {
                changed |= self.look(&object, index, platform);
            }
        }
        for object in new {
            changed |= self.look(object, index, platform);
        }
        changed
    }

    /// Looks at a workload; says whether its guests are others than before.
    fn look(&mut self, object: &Object, index: &Index, platform: &Platform) -> bool {
        let Some(standing) = Standing::of(object) else {
            return false;
        };
        let mut find = || find(object, index, platform, self.everyone, &mut self.pdbs);
        let found = if index.is_live() {
            let (found, topics) = dependencies::record(find);
            self.workloads.put(object.address(), object.clone(), topics);
            found
        } else {
            find()
        };
        if found.is_empty() {
            return self.all.remove(&standing).is_some();
        }
        let old = self.all.get(&standing).map_or(&[][..], Vec::as_slice);
        let mut changed = old.len() != found.len();
        let keep = |(at, guest): (usize, Guest)| match old.get(at) {
            Some(old) if old.is_same(&guest) => Arc::clone(old),
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

impl Pdbs {
    fn never_allows(&mut self, pdb: &Object, index: &Index) -> bool {
        let address = pdb.address();
        if !self.live {
            let make = || never_allows(pdb, index);
            return *self.plain.entry(address).or_insert_with(make);
        }
        dependencies::asked(|| topic(NEVER, address));
        if let Some((_, never)) = self.woven.get(address) {
            return *never;
        }
        self.look(pdb, index)
    }

    fn look(&mut self, pdb: &Object, index: &Index) -> bool {
        let (never, topics) = dependencies::record(|| never_allows(pdb, index));
        self.woven.put(pdb.address(), (pdb.clone(), never), topics);
        never
    }

    /// Looks again at those that a change touches; gives the topics of those that are different.
    fn renew(&mut self, index: &Index, touched: &[Topic]) -> Vec<Topic> {
        let mut changed = Vec::new();
        for address in self.woven.resting_on(touched) {
            if let Some((pdb, before)) = self.woven.take(address)
                && self.look(&pdb, index) != before
            {
                changed.push(topic(NEVER, address));
            }
        }
        changed
    }
}

/// The guests among the templates of a workload.
fn find(object: &Object, index: &Index, platform: &Platform, everyone: bool, pdbs: &mut Pdbs) -> Vec<Guest> {
    let mut found = Vec::new();
    for template in templates(object) {
        let annotation = template.annotation(DO_NOT_DISRUPT).text();
        let active = annotation.is_some_and(|text| is_active(text, platform));
        let grace = template.spec.get("terminationGracePeriodSeconds");
        let grace = match grace.int() {
            None if grace.exists() => continue,
            seconds => seconds.unwrap_or(DEFAULT_GRACE),
        };
        let blocker = blocker(&template, object, index, pdbs);
        let slow = everyone || grace > DEFAULT_GRACE;
        if !active && !slow && blocker.is_none() {
            continue;
        }
        let Some(pod) = pod(&template) else {
            continue;
        };
        let key = key(&pod);
        found.push(Guest {
            workload: object.clone(),
            protected: active && annotation.is_some_and(is_lasting),
            grace,
            blocker,
            active,
            shape: Shape { pod, key },
        });
    }
    found
}

/// What keeps the pods of a template from ever being evicted.
fn blocker(template: &Template<'_>, object: &Object, index: &Index, known: &mut Pdbs) -> Option<Blocker> {
    let (pdbs, _) = (index.views()).pdbs_of(object.id().namespace_or_default(), template);
    if let Some(pdb) = pdbs.iter().find(|pdb| known.never_allows(pdb, index)) {
        return Some(Blocker::Zero((*pdb).clone()));
    }
    match pdbs.as_slice() {
        [first, more @ ..] => {
            let second = more.iter().find(|pdb| pdb.id() != first.id())?;
            Some(Blocker::Two((*first).clone(), (*second).clone()))
        }
        [] => None,
    }
}

/// Whether a pool gives pods less time than they have if they say nothing.
fn is_short(shortest: Option<i64>) -> bool {
    shortest.is_some_and(|shortest| shortest < DEFAULT_GRACE)
}

/// Whether an annotation's value protects a pod for more than a day.
fn is_lasting(value: &str) -> bool {
    value == "true" || GoDuration::parse(value).is_ok_and(|length| length.seconds() > DAY)
}
