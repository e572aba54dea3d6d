//! What nodes cost an hour before and after a change, by NodePool, and why.

use std::collections::{BTreeMap, BTreeSet};

use crate::fit::{Capacity, Load};
use crate::kind::Kind;
use crate::object::{Object, ObjectKey};

use crate::plan::replicas::{Counts, Range};
use crate::plan::{Landing, Move, View, by_name};
use crate::workload::template::templates;

/// The highest bill of a NodePool under its limits, an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bill {
    /// There is no such pool.
    Absent,
    /// Nothing bounds it.
    Unlimited,
    /// Millionths of a dollar, by on-demand list price.
    Micro(i128),
}

/// Why the cost of a pool differs.
#[derive(Clone, Debug)]
pub enum MoneyCause {
    /// A workload has another number of pods: with the fewest and the most replicas, before and after.
    Replicas {
        workload: Object,
        before: Range,
        after: Range,
    },
    /// The nodes are of other types.
    Types {
        before: Vec<&'static str>,
        after: Vec<&'static str>,
    },
    /// Pods of a workload land here first that landed on another pool before, or on none.
    Arrives {
        workload: Object,
        from: Option<String>,
    },
    /// Pods of a workload no longer land here first.
    Leaves {
        workload: Object,
        to: Option<String>,
    },
    NewWorkload(Object),
    GoneWorkload(Object),
    /// The requests or constraints of a workload differ.
    Requests(Object),
    NewPool,
    GonePool,
    /// A static pool keeps another number of nodes.
    Nodes {
        before: u64,
        after: u64,
    },
    /// The highest bill under the limits differs.
    Limits {
        before: Bill,
        after: Bill,
    },
}

/// What the nodes of a pool cost, in millionths of a dollar an hour; `None` if a type has no list price.
#[derive(Clone, Debug)]
pub struct PoolMoney {
    pub pool: String,
    /// With the fewest replicas, before and after.
    pub floor: (Option<i128>, Option<i128>),
    /// With the most replicas, before and after.
    pub ceiling: (Option<i128>, Option<i128>),
    /// The number of nodes with the fewest and the most replicas, before and after.
    pub nodes: (Range, Range),
    /// The highest bill under the limits, before and after.
    pub limits: (Bill, Bill),
    pub causes: Vec<MoneyCause>,
}

/// What the nodes of a set cost before and after.
#[derive(Clone, Debug)]
pub struct Money {
    pub before: Capacity,
    pub after: Capacity,
    /// The pools whose cost or limits differ, those that become dearer the most first.
    pub pools: Vec<PoolMoney>,
    /// The highest bill of all pools under their limits, before and after.
    pub limits: (Bill, Bill),
}

/// Compares the cost of both sides; `None` if nothing about it differs.
pub(super) fn compare(
    before: &View<'_>,
    after: &View<'_>,
    counts: &(Counts<'_>, Counts<'_>),
    moves: &[Move],
) -> Option<Money> {
    let bills = (bills(before), bills(after));
    if turns_unknown((before, after), counts) {
        return None;
    }
    // Static NodePools have nodes, and start none for pods.
    let running = [before, after].map(|view| view.capacity()).into_iter();
    let running = running.flat_map(|capacity| capacity.floor.nodes.iter().chain(&capacity.ceiling.nodes));
    let running: BTreeSet<String> = running.map(|nodes| nodes.pool.name().to_owned()).collect();
    let names: BTreeSet<&String> = bills.0.keys().chain(bills.1.keys()).chain(&running).collect();
    let mut pools = Vec::new();
    for name in names {
        let limits = (bill(&bills.0, name), bill(&bills.1, name));
        let [old, new] = [before, after].map(|view| OfPool::of(view.capacity(), name));
        let mut money = PoolMoney {
            pool: name.clone(),
            floor: (old.floor, new.floor),
            ceiling: (old.ceiling, new.ceiling),
            nodes: (old.nodes, new.nodes),
            limits,
            causes: Vec::new(),
        };
        let is_same = money.floor.0 == money.floor.1
            && money.ceiling.0 == money.ceiling.1
            && money.nodes.0 == money.nodes.1
            && limits.0 == limits.1
            && old.types == new.types;
        if is_same {
            continue;
        }
        money.causes = causes(&money, (&old, &new), counts, (before, after), moves);
        pools.push(money);
    }
    let left_out = [before, after].map(|view| left_out(view.capacity()));
    if pools.is_empty() && left_out[0] == left_out[1] {
        return None;
    }
    let growth = |money: &PoolMoney| money.ceiling.1.unwrap_or(0) - money.ceiling.0.unwrap_or(0);
    pools.sort_by_key(|money| std::cmp::Reverse(growth(money)));
    let limits = (sum(bills.0.values()), sum(bills.1.values()));
    Some(Money { before: before.capacity().clone(), after: after.capacity().clone(), pools, limits })
}

/// The number of pods that have no room with the most replicas.
#[must_use]
pub fn left_out(capacity: &Capacity) -> u64 {
    capacity.ceiling.misfits.iter().map(|misfit| misfit.pods).sum()
}

/// Whether a workload of both sides is counted on one and not on the other, because where its pods go is not known there: then
/// the sums are of different pods.
fn turns_unknown((before, after): (&View<'_>, &View<'_>), counts: &(Counts<'_>, Counts<'_>)) -> bool {
    let unknown = |view: &View<'_>| {
        let all = &view.capacity().ceiling.unknown;
        all.iter().map(|(workload, ..)| workload.id().key()).collect::<BTreeSet<_>>()
    };
    let (before, after) = (unknown(before), unknown(after));
    let mut one_sided = before.symmetric_difference(&after);
    one_sided.any(|key| counts.0.contains_key(key) && counts.1.contains_key(key))
}

/// The part of a capacity that is of one pool.
struct OfPool {
    floor: Option<i128>,
    ceiling: Option<i128>,
    nodes: Range,
    types: Vec<&'static str>,
}

impl OfPool {
    fn of(capacity: &Capacity, pool: &str) -> OfPool {
        let nodes =
            |load: &Load| load.nodes.iter().filter(|one| one.pool.name() == pool).map(|one| one.nodes).sum();
        let price = |load: &Load| {
            let of = load.nodes.iter().filter(|one| one.pool.name() == pool);
            of.map(|one| one.micro_dollars).sum::<Option<i128>>()
        };
        let both = capacity.floor.nodes.iter().chain(&capacity.ceiling.nodes);
        let types: BTreeSet<&'static str> =
            both.filter(|one| one.pool.name() == pool).map(|one| one.instance.name).collect();
        OfPool {
            floor: price(&capacity.floor),
            ceiling: price(&capacity.ceiling),
            nodes: (nodes(&capacity.floor), nodes(&capacity.ceiling)),
            types: types.into_iter().collect(),
        }
    }
}

/// The highest bill of each pool that starts nodes, under its limits.
fn bills(view: &View<'_>) -> BTreeMap<String, Bill> {
    let bill = |most: Option<i128>| most.map_or(Bill::Unlimited, Bill::Micro);
    let all = view.situation.offers().into_iter();
    all.map(|offer| (offer.pool, bill(offer.ceiling.micro_dollars))).collect()
}

fn bill(bills: &BTreeMap<String, Bill>, name: &str) -> Bill {
    bills.get(name).copied().unwrap_or(Bill::Absent)
}

fn sum<'b>(bills: impl Iterator<Item = &'b Bill>) -> Bill {
    bills.fold(Bill::Absent, |sum, bill| match (sum, *bill) {
        (Bill::Unlimited, _) | (_, Bill::Unlimited) => Bill::Unlimited,
        (Bill::Absent, other) | (other, Bill::Absent) => other,
        (Bill::Micro(a), Bill::Micro(b)) => Bill::Micro(a.saturating_add(b)),
    })
}

/// Why the cost of a pool differs: the workloads that land on it, its types and limits.
fn causes(
    money: &PoolMoney,
    (old, new): (&OfPool, &OfPool),
    counts: &(Counts<'_>, Counts<'_>),
    (before, after): (&View<'_>, &View<'_>),
    moves: &[Move],
) -> Vec<MoneyCause> {
    let mut causes = Vec::new();
    let [had, has] =
        [before, after].map(|view| by_name(view.side.cluster, Kind::NODE_POOL).contains_key(&money.pool));
    match (had, has) {
        (false, true) => causes.push(MoneyCause::NewPool),
        (true, false) => causes.push(MoneyCause::GonePool),
        _ => {
            let kept = [before, after].map(|view| static_nodes(view, &money.pool));
            if let [Some(before), Some(after)] = kept
                && before != after
            {
                causes.push(MoneyCause::Nodes { before, after });
            }
        }
    }
    let tenants = (tenants_of(before, &money.pool), tenants_of(after, &money.pool));
    for key in tenants.0.iter().chain(tenants.1.iter()).collect::<BTreeSet<_>>() {
        match (counts.0.get(key), counts.1.get(key)) {
            (None, Some((workload, _))) => causes.push(MoneyCause::NewWorkload((*workload).clone())),
            (Some((workload, _)), None) => causes.push(MoneyCause::GoneWorkload((*workload).clone())),
            (Some(was), Some(is)) => {
                let moved = moves.iter().filter(|one| one.workload.id().key() == *key);
                causes.extend(of_workload(was, is, moved, &money.pool));
            }
            (None, None) => {}
        }
    }
    if had && has && !old.types.is_empty() && !new.types.is_empty() && old.types != new.types {
        causes.push(MoneyCause::Types { before: old.types.clone(), after: new.types.clone() });
    }
    if had && has && money.limits.0 != money.limits.1 {
        let (before, after) = money.limits;
        causes.push(MoneyCause::Limits { before, after });
    }
    causes
}

/// Why the pods of a workload of both sides cost something else on a pool: they come or go, are more or fewer, or ask for
/// something else.
fn of_workload<'m>(
    (old, was): &(&Object, Option<Range>),
    (new, is): &(&Object, Option<Range>),
    moved: impl Iterator<Item = &'m Move>,
    pool: &str,
) -> Vec<MoneyCause> {
    let name = |landing: &Option<Landing>| Some(landing.as_ref()?.pool.as_ref()?.name().to_owned());
    let mut causes = Vec::new();
    let mut is_moved = false;
    for one in moved {
        let (from, to) = (name(&one.before), name(&one.after));
        is_moved |= from != to;
        let workload = one.workload.clone();
        match (from.as_deref() == Some(pool), to.as_deref() == Some(pool)) {
            (false, true) => causes.push(MoneyCause::Arrives { workload, from }),
            (true, false) => causes.push(MoneyCause::Leaves { workload, to }),
            _ => {}
        }
    }
    let specs = |object: &Object| templates(object).iter().map(|t| t.spec.to_json()).collect::<Vec<_>>();
    match (was, is) {
        (Some(before), Some(after)) if before != after => {
            let workload = (*new).clone();
            causes.push(MoneyCause::Replicas { workload, before: *before, after: *after });
        }
        _ if !is_moved && specs(old) != specs(new) => causes.push(MoneyCause::Requests((*new).clone())),
        _ => {}
    }
    causes
}

/// The number of nodes that a static pool keeps.
fn static_nodes(view: &View<'_>, pool: &str) -> Option<u64> {
    let pool = by_name(view.side.cluster, Kind::NODE_POOL).remove(pool)?;
    pool.path(&["spec", "replicas"]).int().and_then(|replicas| u64::try_from(replicas).ok())
}

/// The workloads whose pods land on a pool first.
fn tenants_of(view: &View<'_>, pool: &str) -> BTreeSet<ObjectKey> {
    view.tenants(pool).iter().map(|workload| workload.id().key()).collect()
}
