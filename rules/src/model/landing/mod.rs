//! Which NodePools may start nodes for which pods.
//!
//! Asked are the pools that take pending pods and can be read in full, one by one, with the
//! scheduler's own decision; taints and labels are compared first, because they decide most
//! ([`Places`]). Of the pods that keep nodes from ending, all are known by the pools that they go to
//! ([`Landing`]); past [`MAX_PAIRS`] pairs of them and of pools nothing is said: so large an input has
//! more variety than a cluster.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::index::Index;
use crate::model::do_not_disrupt::{DO_NOT_DISRUPT, is_active};
use crate::model::duration::{Field, GoDuration, parse};
use crate::model::pdb::never_allows;
use crate::model::pod::pod;
use crate::model::scheduling::Pod;
use crate::model::workload::{Template, WORKLOAD_KINDS, templates, with_workloads};
use crate::object::{Kind, Object, ObjectId};
use crate::settings::Platform;

mod places;
mod site;
#[cfg(test)]
mod tests;

pub(crate) use places::Places;
use places::{Row, key};
use site::read;
pub(crate) use site::{Site, wanted_capacity};

/// How many pairs are compared at most.
const MAX_PAIRS: usize = 20_000;
/// What a pod gets that says nothing.
const DEFAULT_GRACE: i64 = 30;
/// A protection that ends within a day keeps no node for long.
const DAY: i64 = 24 * 3600;

/// A template whose pods keep a node for long, or need long to end.
pub(crate) struct Guest {
    pub workload: Object,
    /// Its annotation keeps Karpenter from evicting it, for more than a day.
    pub protected: bool,
    /// `terminationGracePeriodSeconds` or its default.
    pub grace: i64,
    /// What lets none of its pods be evicted.
    pub blocker: Option<Blocker>,
    shape: usize,
}

/// Why the eviction API never lets a pod go.
pub(crate) enum Blocker {
    /// A PDB that allows none.
    Zero(Object),
    /// Two PDBs, of which the API can serve only one.
    Two(Object, Object),
}

/// The pods that keep nodes, and the pools that they go to.
pub(crate) struct Landing {
    guests: Vec<Guest>,
    shapes: Vec<Pod>,
    /// For each shape the sites that admit it.
    rows: OnceLock<Vec<Row>>,
    /// Guests by the site that is their first choice.
    by_site: OnceLock<BTreeMap<usize, Vec<usize>>>,
}

impl std::fmt::Debug for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing")
            .field("guests", &self.guests.len())
            .finish_non_exhaustive()
    }
}

impl Landing {
    /// Finds the guests. What it is asked later goes to the same `places`.
    pub(crate) fn new(index: &Index, platform: &Platform, places: &Places) -> Landing {
        let mut landing = Landing {
            guests: Vec::new(),
            shapes: Vec::new(),
            rows: OnceLock::new(),
            by_site: OnceLock::new(),
        };
        if places.pools().is_empty() {
            return landing;
        }
        let shortest = places.pools().iter().filter_map(grace_period).min();
        let mut blocking: BTreeMap<ObjectId, bool> = BTreeMap::new();
        let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
        for object in WORKLOAD_KINDS.iter().flat_map(|kind| index.of(*kind)) {
            // DaemonSets do not start nodes; what a pod of a controller asks is its controller's.
            if object.is(Kind::DAEMON_SET) || is_made(object) {
                continue;
            }
            for template in templates(object) {
                let annotation = template.annotation(DO_NOT_DISRUPT).text();
                let active = annotation.is_some_and(|text| is_active(text, platform));
                let grace = template.spec.get("terminationGracePeriodSeconds");
                let grace = match grace.int() {
                    None if grace.exists() => continue,
                    seconds => seconds.unwrap_or(DEFAULT_GRACE),
                };
                let blocker = blocker(&template, object, index, &mut blocking);
                let slow = shortest.is_some_and(|shortest| grace > shortest);
                if !active && !slow && blocker.is_none() {
                    continue;
                }
                let Some(pod) = pod(&template) else {
                    continue;
                };
                let shape = *shapes.entry(key(&pod)).or_insert_with(|| {
                    landing.shapes.push(pod);
                    landing.shapes.len() - 1
                });
                landing.guests.push(Guest {
                    workload: object.clone(),
                    protected: active && annotation.is_some_and(is_lasting),
                    grace,
                    blocker,
                    shape,
                });
            }
        }
        landing
    }

    /// The guests of which a pool is the first choice, or one of several of equal weight. The
    /// pool may be another version of the one that is known.
    pub(crate) fn guests_of(&self, places: &Places, object: &Object) -> Vec<&Guest> {
        if self.guests.is_empty() {
            return Vec::new();
        }
        let sites = places.sites();
        let same_name = sites.by_name.get(object.name()).into_iter().flatten();
        let known = same_name
            .copied()
            .find(|at| sites.all[*at].object.same(object));
        let own = |at: &usize| sites.all[*at].object.is_handle_of(object);
        if let Some(at) = known.filter(own) {
            return self.first_at(places, at);
        }
        let Some(pool) = read(object).filter(|pool| !pool.replicas) else {
            return Vec::new();
        };
        if let Some(at) = known.filter(|at| sites.all[*at].pool == pool) {
            return self.first_at(places, at);
        }
        let weight = pool.weight.unwrap_or(0);
        let site = Site::new(object, pool);
        let mut scheduler = None;
        let mut answers: Vec<Option<bool>> = vec![None; self.shapes.len()];
        let mut out = Vec::new();
        for guest in &self.guests {
            let goes = *answers[guest.shape].get_or_insert_with(|| {
                let others = self
                    .row(places, guest.shape)
                    .iter()
                    .filter(|at| Some(**at) != known);
                places.admits_here(&self.shapes[guest.shape], &site, &mut scheduler)
                    && others
                        .map(|at| sites.weight(*at))
                        .all(|other| other <= weight)
            });
            if goes {
                out.push(guest);
            }
        }
        out
    }

    fn first_at(&self, places: &Places, site: usize) -> Vec<&Guest> {
        let by_site = self.by_site.get_or_init(|| self.first_choices(places));
        let guests = by_site.get(&site).into_iter().flatten();
        guests.map(|at| &self.guests[*at]).collect()
    }

    fn first_choices(&self, places: &Places) -> BTreeMap<usize, Vec<usize>> {
        let mut out: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let sites = places.sites();
        for (at, guest) in self.guests.iter().enumerate() {
            let row = self.row(places, guest.shape);
            let heaviest = row.iter().map(|site| sites.weight(*site)).max();
            for site in row {
                if Some(sites.weight(*site)) == heaviest {
                    out.entry(*site).or_default().push(at);
                }
            }
        }
        out
    }

    fn row(&self, places: &Places, shape: usize) -> &[usize] {
        let rows = self.rows.get_or_init(|| {
            let pairs = self.shapes.len().saturating_mul(places.pools().len());
            if pairs > MAX_PAIRS {
                return Vec::new();
            }
            places.rows(&self.shapes)
        });
        rows.get(shape).map_or(&[], |row| row)
    }
}

/// `terminationGracePeriod` in seconds.
pub(crate) fn grace_period(pool: &Object) -> Option<i64> {
    let node = pool.path(&["spec", "template", "spec", "terminationGracePeriod"]);
    let span = parse(Field::TerminationGracePeriod, node.text()?).ok()?;
    i64::try_from(span.seconds()?).ok()
}

/// What keeps the pods of a template from ever being evicted.
fn blocker(
    template: &Template<'_>,
    object: &Object,
    index: &Index,
    known: &mut BTreeMap<ObjectId, bool>,
) -> Option<Blocker> {
    let (pdbs, _) = (index.views()).pdbs_of(object.id().namespace_or_default(), template);
    for pdb in &pdbs {
        let never = known.get(pdb.id()).copied();
        let never = never.unwrap_or_else(|| never_allows(pdb, index));
        known.insert(pdb.id().clone(), never);
        if never {
            return Some(Blocker::Zero((*pdb).clone()));
        }
    }
    match pdbs.as_slice() {
        [first, more @ ..] => {
            let second = more.iter().find(|pdb| pdb.id() != first.id())?;
            Some(Blocker::Two((*first).clone(), (*second).clone()))
        }
        [] => None,
    }
}

/// Whether an annotation's value protects a pod for more than a day.
fn is_lasting(value: &str) -> bool {
    value == "true" || GoDuration::parse(value).is_ok_and(|length| length.seconds() > DAY)
}

/// Whether a controller made the object.
pub(crate) fn is_made(object: &Object) -> bool {
    let owners = object.path(&["metadata", "ownerReferences"]);
    owners
        .items()
        .any(|owner| owner.get("controller").bool() == Some(true))
}

/// Everything that is read to tell where pods go and what keeps them there.
pub(crate) const READS: &[Kind] = &{
    const MORE: [Kind; 4] = [Kind::NODE_POOL, Kind::PDB, Kind::HPA, Kind::SCALED_OBJECT];
    with_workloads::<{ MORE.len() + WORKLOAD_KINDS.len() }>(&MORE)
};
