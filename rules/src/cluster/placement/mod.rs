//! Which NodePools may start nodes for which pods.
//!
//! Asked are the pools that take pending pods and can be read in full, one by one, with the
//! scheduler's own decision; taints and labels are compared first, because they decide most
//! ([`Places`]). The pods that keep nodes from ending ([`guests`]) are known by the pools that they
//! go to ([`Landing`]). In sessions all of it is kept, and a change looks only at what it touches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{Topic, topic};
use crate::cluster::objects::Index;
use crate::facts::duration::{Field, parse};
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

pub(crate) use eviction::{Blocker, Guest};
use eviction::{Guests, Shape};
pub(crate) use feasibility::Places;
use feasibility::Row;
use pools::read;
pub(crate) use pools::{Site, wanted_capacity};

/// The pods that keep a pool's nodes.
const GUESTS: &str = "guests of a pool";

/// Where pods go on each kind of platform.
#[derive(Debug, Default)]
pub(crate) struct Landings {
    /// Without and with the tolerations that EKS adds.
    places: [OnceLock<Places>; 2],
    /// The same, each without and with durations of protection.
    landings: [OnceLock<Landing>; 4],
}

impl Landings {
    /// Which pools may start nodes for which pods.
    pub(crate) fn places(&self, index: &Index, platform: &Platform) -> &Places {
        let make = || dependencies::unheard(|| Places::new(index, platform.eks));
        self.places[usize::from(platform.eks)].get_or_init(make)
    }

    /// The pods that keep a pool's nodes, where the pool is their first choice.
    pub(crate) fn guests_of<'i>(
        &'i self,
        index: &'i Index,
        object: &Object,
        platform: &Platform,
    ) -> Vec<&'i Guest> {
        let places = self.places(index, platform);
        let durations = platform.karpenter >= DURATIONS_SINCE;
        let slot = usize::from(platform.eks) * 2 + usize::from(durations);
        let make = || dependencies::unheard(|| Landing::new(index, platform, places));
        let landing = self.landings[slot].get_or_init(make);
        landing.guests_of(places, object)
    }

    /// Objects have come and gone, which touches these topics: adds those of what is different now.
    pub(crate) fn renew(&mut self, index: &Index, old: &[Object], new: &[Object], touched: &mut Vec<Topic>) {
        let is_pool = |object: &Object| object.is(Kind::NODE_POOL) && !object.is_partial();
        let pools = old.iter().chain(new).any(is_pool);
        for (eks, places) in self.places.iter_mut().enumerate() {
            let Some(places) = places.get_mut() else {
                continue;
            };
            let moved = pools && places.renew(index, touched);
            for landing in &mut self.landings[eks * 2..eks * 2 + 2] {
                if let Some(landing) = landing.get_mut() {
                    let guests = landing.renew(index, places, pools, (old, new), touched);
                    if guests || moved {
                        landing.arrange(places, touched);
                    }
                }
            }
        }
    }
}

/// The pods that keep nodes, and the pools that they go to.
struct Landing {
    platform: Platform,
    /// `None` where there is no pool.
    guests: Option<Guests>,
    /// The shortest time that a pool gives a drain, in seconds.
    shortest: Option<i64>,
    /// Those that matter here, each with its row.
    landed: Vec<(Arc<Guest>, Row)>,
    /// Guests by the site that is their first choice, with the name of its pool.
    by_site: BTreeMap<usize, (String, Vec<Arc<Guest>>)>,
}

impl std::fmt::Debug for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing").field("landed", &self.landed.len()).finish_non_exhaustive()
    }
}

impl Landing {
    fn new(index: &Index, platform: &Platform, places: &Places) -> Landing {
        let mut landing = Landing {
            platform: platform.clone(),
            guests: None,
            shortest: None,
            landed: Vec::new(),
            by_site: BTreeMap::new(),
        };
        landing.renew(index, places, true, (&[], &[]), &[]);
        landing.arrange(places, &mut Vec::new());
        landing
    }

    /// Looks at what a change touches; says whether there are other guests now.
    fn renew(
        &mut self,
        index: &Index,
        places: &Places,
        pools: bool,
        (old, new): (&[Object], &[Object]),
        touched: &[Topic],
    ) -> bool {
        let mut changed = false;
        if pools {
            let shortest = places.pools().iter().filter_map(grace_period).min();
            changed = shortest != self.shortest;
            self.shortest = shortest;
        }
        if places.pools().is_empty() {
            return self.guests.take().is_some() || changed;
        }
        match &mut self.guests {
            Some(guests) if guests.are_for(self.shortest) => {
                guests.renew(index, &self.platform, (old, new), touched) || changed
            }
            _ => {
                self.guests = Some(Guests::new(index, &self.platform, self.shortest));
                true
            }
        }
    }

    /// Says who goes where, and adds the topics of pools that get other guests than before.
    fn arrange(&mut self, places: &Places, touched: &mut Vec<Topic>) {
        self.landed.clear();
        let before = std::mem::take(&mut self.by_site);
        let guests = self.guests.iter().flat_map(Guests::iter);
        let slow = |guest: &Guest| self.shortest.is_some_and(|shortest| guest.grace > shortest);
        let guests: Vec<&Arc<Guest>> =
            guests.filter(|guest| guest.active || guest.blocker.is_some() || slow(guest)).collect();
        let mut shapes: Vec<&Shape> = Vec::new();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for guest in &guests {
            numbers.entry(guest.shape.key()).or_insert_with(|| {
                shapes.push(&guest.shape);
                shapes.len() - 1
            });
        }
        let asked: Vec<_> = shapes.iter().map(|shape| (shape.pod(), shape.key())).collect();
        // Nobody has to be told of a row, but of what is made of all rows.
        let rows = dependencies::unheard(|| if asked.is_empty() { Vec::new() } else { places.rows(&asked) });
        for guest in guests {
            let row = numbers.get(guest.shape.key()).and_then(|at| rows.get(*at));
            self.landed.push((Arc::clone(guest), row.cloned().flatten()));
        }
        for (guest, row) in &self.landed {
            let sites = row.iter().flat_map(|row| row.iter());
            let sites = sites.filter_map(|at| Some((*at, places.sites().get(*at)?)));
            let heaviest = sites.clone().map(|(_, site)| site.weight()).max();
            for (at, site) in sites.filter(|(_, site)| Some(site.weight()) == heaviest) {
                let entry = self.by_site.entry(at);
                let (_, guests) = entry.or_insert_with(|| (site.name().to_owned(), Vec::new()));
                guests.push(Arc::clone(guest));
            }
        }
        let mut told = |name: &str| touched.push(topic(GUESTS, name));
        for (at, (name, guests)) in &self.by_site {
            match before.get(at) {
                Some((other, old)) if other == name && are_same(guests, old) => {}
                _ => told(name),
            }
        }
        for (at, (name, _)) in &before {
            if self.by_site.get(at).is_none_or(|(other, _)| other != name) {
                told(name);
            }
        }
    }

    /// The guests of which a pool is the first choice, or one of several of equal weight. The
    /// pool may be another version of the one that is known.
    fn guests_of(&self, places: &Places, object: &Object) -> Vec<&Guest> {
        dependencies::asked(|| topic(GUESTS, object.name()));
        if self.landed.is_empty() {
            return Vec::new();
        }
        let sites = places.sites();
        let site = |at: &usize| sites.get(*at);
        let mut same_name = sites.named_so(object.name()).iter().copied();
        let known = same_name.find(|at| site(at).is_some_and(|site| site.stands_for(object)));
        if let Some(at) = known.filter(|at| site(at).is_some_and(|site| site.is_of(object))) {
            return self.first_at(at);
        }
        let Some(pool) = read(object).filter(|pool| !pool.replicas) else {
            return Vec::new();
        };
        if let Some(at) = known.filter(|at| site(at).is_some_and(|site| site.pool == pool)) {
            return self.first_at(at);
        }
        let weight = pool.weight.unwrap_or(0);
        let own = Site::new(object, pool);
        let mut scheduler = None;
        let mut answers: HashMap<&str, bool> = HashMap::new();
        let mut out = Vec::new();
        for (guest, row) in &self.landed {
            let goes = *answers.entry(guest.shape.key()).or_insert_with(|| {
                let others = row.iter().flat_map(|row| row.iter());
                let mut others = others.filter(|at| Some(**at) != known);
                places.admits_here(guest.shape.pod(), &own, &mut scheduler)
                    && others.all(|at| sites.weight(*at) <= weight)
            });
            if goes {
                out.push(guest.as_ref());
            }
        }
        out
    }

    fn first_at(&self, site: usize) -> Vec<&Guest> {
        let guests = self.by_site.get(&site).into_iter().flat_map(|(_, all)| all);
        guests.map(Arc::as_ref).collect()
    }
}

fn are_same(a: &[Arc<Guest>], b: &[Arc<Guest>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// `terminationGracePeriod` in seconds.
pub(crate) fn grace_period(pool: &Object) -> Option<i64> {
    let node = pool.path(&["spec", "template", "spec", "terminationGracePeriod"]);
    let span = parse(Field::TerminationGracePeriod, node.text()?).ok()?;
    i64::try_from(span.seconds()?).ok()
}

/// Whether a controller made the object.
pub(crate) fn is_made(object: &Object) -> bool {
    let owners = object.path(&["metadata", "ownerReferences"]);
    owners.items().any(|owner| owner.get("controller").bool() == Some(true))
}

/// Everything that is read to tell where pods go and what keeps them there.
pub(crate) const READS: &[Kind] = &{
    const MORE: [Kind; 4] = [Kind::NODE_POOL, Kind::PDB, Kind::HPA, Kind::SCALED_OBJECT];
    with_workloads::<{ MORE.len() + WORKLOAD_KINDS.len() }>(&MORE)
};
