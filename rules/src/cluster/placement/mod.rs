//! Which NodePools may start nodes for which pods.
//!
//! Asked are the pools that take pending pods and can be read in full, one by one, with the
//! scheduler's own decision; taints and labels are compared first, because they decide most
//! ([`Places`]). The pods that keep nodes from ending ([`guests`]) are known by the pools that they
//! go to ([`Landing`]). In sessions all of it is kept, and a change looks only at what it touches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{DependencyKey, dependency_key};
use crate::cluster::objects::Index;
use crate::facts::duration::{DurationField, parse};
use crate::karpenter::do_not_disrupt::DURATIONS_SINCE;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::template::{WORKLOAD_KINDS, with_workloads};

mod eviction;
mod feasibility;
mod pools;
#[cfg(test)]
mod tests;

pub(crate) use eviction::{EvictionBlocker, PdbBlock};
use eviction::{EvictionBlockers, PodShape};
pub(crate) use feasibility::Feasibility;
use feasibility::FeasiblePools;
use pools::scheduler_pool;
pub(crate) use pools::{CandidatePool, requested_capacity_types};

/// The pods that keep a pool's nodes.
const EVICTION_BLOCKERS: &str = "guests of a pool";

/// Where pods go on each kind of platform.
#[derive(Debug, Default)]
pub(crate) struct PlacementCache {
    /// Without and with the tolerations that EKS adds.
    feasibility: [OnceLock<Feasibility>; 2],
    /// The same, each without and with durations of protection.
    placements: [OnceLock<Placement>; 4],
}

impl PlacementCache {
    /// Which pools may start nodes for which pods.
    pub(crate) fn feasibility(&self, index: &Index, platform: &Platform) -> &Feasibility {
        let make = || dependencies::untracked(|| Feasibility::new(index, platform.eks));
        self.feasibility[usize::from(platform.eks)].get_or_init(make)
    }

    /// The pods that keep a pool's nodes, where the pool is their first choice.
    pub(crate) fn blockers_on<'i>(
        &'i self,
        index: &'i Index,
        object: &Object,
        platform: &Platform,
    ) -> Vec<&'i EvictionBlocker> {
        let places = self.feasibility(index, platform);
        let durations = platform.karpenter >= DURATIONS_SINCE;
        let slot = usize::from(platform.eks) * 2 + usize::from(durations);
        let make = || dependencies::untracked(|| Placement::new(index, platform, places));
        let landing = self.placements[slot].get_or_init(make);
        landing.blockers_on(places, object)
    }

    /// Objects have come and gone, which touches these topics: adds those of what is different now.
    pub(crate) fn update(
        &mut self,
        index: &Index,
        old: &[Object],
        new: &[Object],
        touched: &mut Vec<DependencyKey>,
    ) {
        let is_pool = |object: &Object| object.is(Kind::NODE_POOL) && !object.is_partial();
        let pools = old.iter().chain(new).any(is_pool);
        for (eks, places) in self.feasibility.iter_mut().enumerate() {
            let Some(places) = places.get_mut() else {
                continue;
            };
            let moved = pools && places.update(index, touched);
            for landing in &mut self.placements[eks * 2..eks * 2 + 2] {
                if let Some(landing) = landing.get_mut() {
                    let guests = landing.update(index, places, pools, (old, new), touched);
                    if guests || moved {
                        landing.recompute(places, touched);
                    }
                }
            }
        }
    }
}

/// The pods that keep nodes, and the pools that they go to.
struct Placement {
    platform: Platform,
    /// `None` where there is no pool.
    blockers: Option<EvictionBlockers>,
    /// The shortest time that a pool gives a drain, in seconds.
    shortest_grace: Option<i64>,
    /// Those that matter here, each with its row.
    placements: Vec<(Arc<EvictionBlocker>, FeasiblePools)>,
    /// Guests by the site that is their first choice, with the name of its pool.
    by_first_choice: BTreeMap<usize, (String, Vec<Arc<EvictionBlocker>>)>,
}

impl std::fmt::Debug for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing").field("landed", &self.placements.len()).finish_non_exhaustive()
    }
}

impl Placement {
    fn new(index: &Index, platform: &Platform, places: &Feasibility) -> Placement {
        let mut landing = Placement {
            platform: platform.clone(),
            blockers: None,
            shortest_grace: None,
            placements: Vec::new(),
            by_first_choice: BTreeMap::new(),
        };
        landing.update(index, places, true, (&[], &[]), &[]);
        landing.recompute(places, &mut Vec::new());
        landing
    }

    /// Looks at what a change touches; says whether there are other guests now.
    fn update(
        &mut self,
        index: &Index,
        places: &Feasibility,
        pools: bool,
        (old, new): (&[Object], &[Object]),
        touched: &[DependencyKey],
    ) -> bool {
        let mut changed = false;
        if pools {
            let shortest = places.pools().iter().filter_map(termination_grace_period).min();
            changed = shortest != self.shortest_grace;
            self.shortest_grace = shortest;
        }
        if places.pools().is_empty() {
            return self.blockers.take().is_some() || changed;
        }
        match &mut self.blockers {
            Some(guests) if guests.is_valid_for(self.shortest_grace) => {
                guests.update(index, &self.platform, (old, new), touched) || changed
            }
            _ => {
                self.blockers = Some(EvictionBlockers::new(index, &self.platform, self.shortest_grace));
                true
            }
        }
    }

    /// Says who goes where, and adds the topics of pools that get other guests than before.
    fn recompute(&mut self, places: &Feasibility, touched: &mut Vec<DependencyKey>) {
        self.placements.clear();
        let before = std::mem::take(&mut self.by_first_choice);
        let guests = self.blockers.iter().flat_map(EvictionBlockers::iter);
        let slow =
            |guest: &EvictionBlocker| self.shortest_grace.is_some_and(|shortest| guest.grace > shortest);
        let guests: Vec<&Arc<EvictionBlocker>> = guests
            .filter(|guest| guest.has_do_not_disrupt || guest.pdb_block.is_some() || slow(guest))
            .collect();
        let mut shapes: Vec<&PodShape> = Vec::new();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for guest in &guests {
            numbers.entry(guest.shape.key()).or_insert_with(|| {
                shapes.push(&guest.shape);
                shapes.len() - 1
            });
        }
        let asked: Vec<_> = shapes.iter().map(|shape| (shape.pod(), shape.key())).collect();
        // Nobody has to be told of a row, but of what is made of all rows.
        let rows = dependencies::untracked(|| {
            if asked.is_empty() { Vec::new() } else { places.feasible_pools(&asked) }
        });
        for guest in guests {
            let row = numbers.get(guest.shape.key()).and_then(|at| rows.get(*at));
            self.placements.push((Arc::clone(guest), row.cloned().flatten()));
        }
        for (guest, row) in &self.placements {
            let sites = row.iter().flat_map(|row| row.iter());
            let sites = sites.filter_map(|at| Some((*at, places.candidates().get(*at)?)));
            let heaviest = sites.clone().map(|(_, site)| site.weight()).max();
            for (at, site) in sites.filter(|(_, site)| Some(site.weight()) == heaviest) {
                let entry = self.by_first_choice.entry(at);
                let (_, guests) = entry.or_insert_with(|| (site.name().to_owned(), Vec::new()));
                guests.push(Arc::clone(guest));
            }
        }
        let mut told = |name: &str| touched.push(dependency_key(EVICTION_BLOCKERS, name));
        for (at, (name, guests)) in &self.by_first_choice {
            match before.get(at) {
                Some((other, old)) if other == name && are_ptr_eq(guests, old) => {}
                _ => told(name),
            }
        }
        for (at, (name, _)) in &before {
            if self.by_first_choice.get(at).is_none_or(|(other, _)| other != name) {
                told(name);
            }
        }
    }

    /// The guests of which a pool is the first choice, or one of several of equal weight. The
    /// pool may be another version of the one that is known.
    fn blockers_on(&self, places: &Feasibility, object: &Object) -> Vec<&EvictionBlocker> {
        dependencies::record_read(|| dependency_key(EVICTION_BLOCKERS, object.name()));
        if self.placements.is_empty() {
            return Vec::new();
        }
        let sites = places.candidates();
        let site = |at: &usize| sites.get(*at);
        let mut same_name = sites.by_name(object.name()).iter().copied();
        let known = same_name.find(|at| site(at).is_some_and(|site| site.is_same_resource(object)));
        if let Some(at) = known.filter(|at| site(at).is_some_and(|site| site.ptr_eq(object))) {
            return self.first_choice_at(at);
        }
        let Some(pool) = scheduler_pool(object).filter(|pool| !pool.replicas) else {
            return Vec::new();
        };
        if let Some(at) = known.filter(|at| site(at).is_some_and(|site| site.pool == pool)) {
            return self.first_choice_at(at);
        }
        let weight = pool.weight.unwrap_or(0);
        let own = CandidatePool::new(object, pool);
        let mut scheduler = None;
        let mut answers: HashMap<&str, bool> = HashMap::new();
        let mut out = Vec::new();
        for (guest, row) in &self.placements {
            let goes = *answers.entry(guest.shape.key()).or_insert_with(|| {
                let others = row.iter().flat_map(|row| row.iter());
                let mut others = others.filter(|at| Some(**at) != known);
                places.pool_admits(guest.shape.pod(), &own, &mut scheduler)
                    && others.all(|at| sites.weight(*at) <= weight)
            });
            if goes {
                out.push(guest.as_ref());
            }
        }
        out
    }

    fn first_choice_at(&self, site: usize) -> Vec<&EvictionBlocker> {
        let guests = self.by_first_choice.get(&site).into_iter().flat_map(|(_, all)| all);
        guests.map(Arc::as_ref).collect()
    }
}

fn are_ptr_eq(a: &[Arc<EvictionBlocker>], b: &[Arc<EvictionBlocker>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// `terminationGracePeriod` in seconds.
pub(crate) fn termination_grace_period(pool: &Object) -> Option<i64> {
    let node = pool.path(&["spec", "template", "spec", "terminationGracePeriod"]);
    let span = parse(DurationField::TerminationGracePeriod, node.text()?).ok()?;
    i64::try_from(span.seconds()?).ok()
}

/// Whether a controller made the object.
pub(crate) fn has_controller(object: &Object) -> bool {
    let owners = object.path(&["metadata", "ownerReferences"]);
    owners.items().any(|owner| owner.get("controller").bool() == Some(true))
}

/// Everything that is read to tell where pods go and what keeps them there.
pub(crate) const READS: &[Kind] = &{
    const MORE: [Kind; 4] = [Kind::NODE_POOL, Kind::PDB, Kind::HPA, Kind::SCALED_OBJECT];
    with_workloads::<{ MORE.len() + WORKLOAD_KINDS.len() }>(&MORE)
};
