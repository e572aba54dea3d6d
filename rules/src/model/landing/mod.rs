//! Which NodePools may start nodes for which pods.
//!
//! Asked are the pools that take pending pods and can be read in full, one by one, with the
//! scheduler's own decision; taints and labels are compared first, because they decide most. Pods
//! that ask the same are asked for once. Past [`MAX_PAIRS`] pairs of pods and pools nothing is
//! said: so large an input has more variety than a cluster.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::index::Index;
use crate::model::do_not_disrupt::{DO_NOT_DISRUPT, is_active};
use crate::model::duration::{Field, GoDuration, parse};
use crate::model::pdb::never_allows;
use crate::model::pod::pod;
use crate::model::requirement::Requirements;
use crate::model::scheduling::{Pod, Scheduler, Settings, Taint, Toleration, Verdict, tolerates};
use crate::model::workload::{Template, WORKLOAD_KINDS, templates};
use crate::object::{Kind, Object, ObjectId};
use crate::settings::Platform;

mod site;

pub(crate) use site::{Site, wanted_capacity};
use site::{Sites, alternatives, read};

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

/// A pod as it is asked for.
struct Asked {
    /// Without its doubts: volumes and other pods may keep it away, and may not.
    pod: Pod,
    alternatives: Vec<Requirements>,
    /// Whether it asks for a pool by name.
    by_name: bool,
}

impl Asked {
    fn new(pod: &Pod) -> Asked {
        let alternatives = alternatives(pod);
        let pool = |asked: &Requirements| asked.get("karpenter.sh/nodepool").is_some();
        Asked {
            pod: Pod {
                doubts: Vec::new(),
                ..pod.clone()
            },
            by_name: alternatives.iter().any(pool),
            alternatives,
        }
    }
}

/// Pools and the pods that they may get.
pub(crate) struct Landing {
    pools: Vec<Object>,
    /// Made when the first pod is asked for: many inputs have none of which it matters.
    sites: OnceLock<Sites>,
    guests: Vec<Guest>,
    shapes: Vec<Pod>,
    /// For each shape the sites that admit it.
    rows: OnceLock<Vec<Vec<usize>>>,
    by_pod: BTreeMap<String, usize>,
    /// Guests by the site that is their first choice.
    by_site: OnceLock<BTreeMap<usize, Vec<usize>>>,
    settings: Settings,
}

impl std::fmt::Debug for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing")
            .field("pools", &self.pools.len())
            .finish_non_exhaustive()
    }
}

impl Landing {
    /// Prepares what is asked.
    pub(crate) fn new(index: &Index, platform: &Platform) -> Landing {
        let mut landing = Landing {
            pools: index.of(Kind::NODE_POOL).cloned().collect(),
            sites: OnceLock::new(),
            guests: Vec::new(),
            shapes: Vec::new(),
            rows: OnceLock::new(),
            by_pod: BTreeMap::new(),
            by_site: OnceLock::new(),
            settings: Settings {
                eks: platform.eks,
                ..Settings::default()
            },
        };
        if landing.pools.is_empty() {
            return landing;
        }
        let shortest = landing.pools.iter().filter_map(grace_period).min();
        let mut blocking: BTreeMap<ObjectId, bool> = BTreeMap::new();
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
                let guest = Guest {
                    workload: object.clone(),
                    protected: active && annotation.is_some_and(is_lasting),
                    grace,
                    blocker,
                    shape: landing.shape(pod),
                };
                landing.guests.push(guest);
            }
        }
        landing
    }

    fn shape(&mut self, pod: Pod) -> usize {
        let shapes = &mut self.shapes;
        *self.by_pod.entry(format!("{pod:?}")).or_insert_with(|| {
            shapes.push(pod);
            shapes.len() - 1
        })
    }

    fn sites(&self) -> &Sites {
        self.sites.get_or_init(|| Sites::new(&self.pools))
    }

    /// Whether some pool cannot be read, so that pods may go where nobody knows.
    pub(crate) fn is_blind(&self) -> bool {
        self.sites().blind
    }

    /// The pools that may start nodes for the pods of a template; `None` where that is not known.
    pub(crate) fn sites_of(&self, template: &Template<'_>) -> Option<Vec<&Site>> {
        let pod = pod(template)?;
        let known = self.by_pod.get(&format!("{pod:?}"));
        let row = match known {
            Some(at) => self.row(*at).to_vec(),
            None => self.admitting(std::slice::from_ref(&pod)).concat(),
        };
        let sites = &self.sites().all;
        Some(row.into_iter().map(|at| &sites[at]).collect())
    }

    /// The guests of which a pool is the first choice, or one of several of equal weight. The
    /// pool may be another version of the one that is known.
    pub(crate) fn guests_of(&self, object: &Object) -> Vec<&Guest> {
        if self.guests.is_empty() {
            return Vec::new();
        }
        let Some(pool) = read(object).filter(|pool| !pool.replicas) else {
            return Vec::new();
        };
        let sites = self.sites();
        let same_name = sites.by_name.get(object.name());
        let known = same_name
            .into_iter()
            .flatten()
            .copied()
            .find(|at| sites.all[*at].object.same(object));
        if let Some(at) = known.filter(|at| sites.all[*at].pool == pool) {
            let by_site = self.by_site.get_or_init(|| self.first_choices());
            let guests = by_site.get(&at).into_iter().flatten();
            return guests.map(|at| &self.guests[*at]).collect();
        }
        let weight = pool.weight.unwrap_or(0);
        let site = Site::new(object, pool, 0);
        let mut scheduler = None;
        let mut answers: Vec<Option<bool>> = vec![None; self.shapes.len()];
        let mut out = Vec::new();
        for guest in &self.guests {
            let answer = &mut answers[guest.shape];
            let goes = *answer.get_or_insert_with(|| {
                let asked = Asked::new(&self.shapes[guest.shape]);
                let row = self
                    .row(guest.shape)
                    .iter()
                    .filter(|at| Some(**at) != known);
                self.admits(&asked, &site, &mut scheduler)
                    && row.map(|at| self.weight(*at)).all(|other| other <= weight)
            });
            if goes {
                out.push(guest);
            }
        }
        out
    }

    fn weight(&self, site: usize) -> i64 {
        self.sites().all[site].pool.weight.unwrap_or(0)
    }

    fn first_choices(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut out: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, guest) in self.guests.iter().enumerate() {
            let row = self.row(guest.shape);
            let heaviest = row.iter().map(|site| self.weight(*site)).max();
            for site in row {
                if Some(self.weight(*site)) == heaviest {
                    out.entry(*site).or_default().push(at);
                }
            }
        }
        out
    }

    fn row(&self, shape: usize) -> &[usize] {
        let rows = self.rows.get_or_init(|| {
            if self.shapes.len().saturating_mul(self.pools.len()) > MAX_PAIRS {
                return vec![Vec::new(); self.shapes.len()];
            }
            self.admitting(&self.shapes)
        });
        rows.get(shape).map_or(&[], Vec::as_slice)
    }

    /// For each pod the sites that admit it, ascending.
    fn admitting(&self, pods: &[Pod]) -> Vec<Vec<usize>> {
        let asked: Vec<Asked> = pods.iter().map(Asked::new).collect();
        let mut rows = vec![Vec::new(); pods.len()];
        let sites = self.sites();
        // What admitted the pods to one site is true of all of its kind, but for their names.
        let mut kinds: Vec<Option<Vec<bool>>> = vec![None; sites.kinds];
        for (at, site) in sites.all.iter().enumerate() {
            let known = kinds[site.kind].take();
            let mut scheduler = None;
            let mut answers = Vec::with_capacity(asked.len());
            for (number, asked) in asked.iter().enumerate() {
                let answer = match &known {
                    Some(known) if !asked.by_name => known[number],
                    _ => self.admits(asked, site, &mut scheduler),
                };
                answers.push(answer);
                if answer {
                    rows[number].push(at);
                }
            }
            kinds[site.kind] = Some(answers);
        }
        rows
    }

    /// The scheduler is made when the first pod gets as far.
    fn admits<'s>(
        &self,
        asked: &Asked,
        site: &'s Site,
        scheduler: &mut Option<Scheduler<'s>>,
    ) -> bool {
        if !self.may_go(&asked.pod, &asked.alternatives, site) {
            return false;
        }
        let pools = std::slice::from_ref(&site.pool);
        let scheduler = scheduler.get_or_insert_with(|| Scheduler::new(pools, &[], &self.settings));
        matches!(scheduler.decide(&asked.pod), Verdict::Fits { .. })
    }

    /// What is quickly compared: taints and labels.
    fn may_go(&self, pod: &Pod, alternatives: &[Requirements], site: &Site) -> bool {
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule"
                || (self.settings.eks && is_asked_for(pod, &taint.key))
                || pod
                    .tolerations
                    .iter()
                    .any(|t: &Toleration| tolerates(t, taint))
        };
        site.pool.taints.iter().all(tolerated)
            && alternatives
                .iter()
                .any(|asked| site.requirements.compatible(asked).is_ok())
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

/// Whether a container names the resource.
fn is_asked_for(pod: &Pod, resource: &str) -> bool {
    let mut containers = pod.containers.iter().chain(&pod.init_containers);
    containers.any(|c| c.requests.contains_key(resource) || c.limits.contains_key(resource))
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
    let more = [Kind::NODE_POOL, Kind::PDB, Kind::HPA, Kind::SCALED_OBJECT];
    let mut all = [Kind::POD; WORKLOAD_KINDS.len() + 4];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < more.len() {
            more[at]
        } else {
            WORKLOAD_KINDS[at - more.len()]
        };
        at += 1;
    }
    all
};
