//! How the replacement of a NodePool's nodes goes on: how many at a time, when not, how long at least and at most, and which
//! pods hold their nodes.
//!
//! Karpenter replaces drifted nodes as long as the budgets of the NodePool allow one for the reason `Drifted`; a node counts
//! from the start of its replacement to the end of its drain. A node with a pod that may not be evicted is no candidate, unless
//! its NodeClaim has a `terminationGracePeriod`: then the pods have that long. Source: K:pkg/controllers/disruption/types.go
//! `NewCandidate`, K:pkg/controllers/disruption/drift.go.

use std::collections::BTreeMap;

use crate::cluster::placement::termination_grace_period;
use crate::fit::{Keeper, keepers_on};
use crate::karpenter::budget::{Allowance, AllowanceState, Calendar, DisruptionReason, Interval, WEEK, Week};
use crate::karpenter::nodepool::NodePool;
use crate::object::Object;
use crate::plan::{Fate, Move, NodeCount, PoolPlan, Turn, View};
use crate::workload::template::{DEFAULT_GRACE, Template, templates};

/// Minutes that a replacement is assumed to take from its start until it takes pods.
pub const ASSUMED_START_MINUTES: i64 = 3;
/// Maximum number of nodes that are followed one round after the other.
const MAX_NODES: u64 = 2000;
/// Maximum number of moments at which a replacement is tried to begin.
const MAX_STARTS: usize = 24;

const REASON: DisruptionReason = DisruptionReason::Drifted;

/// How nodes are replaced.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// How many at a time with the most nodes: at the strictest moment that allows any, and at the freest. `None` as a bound
    /// is no limit.
    pub at_once: Option<(Option<u32>, Option<u32>)>,
    /// Whether no node is replaced: the budgets never allow one, or no pod on them fits elsewhere.
    pub never: bool,
    /// The largest number of minutes in a week in which no node may be replaced.
    pub closed_minutes: i64,
    /// The budgets that apply to drifted nodes, as they are written.
    pub budgets: Vec<BudgetText>,
    /// What they allow in each hour of a week; `None` if they are not known.
    pub week: Option<Week>,
    /// Minutes that all take: at least, begun at the best moment with the fewest nodes and pods that end at once; and at most,
    /// begun at the worst moment with the most nodes and pods that need all of their grace period. Nothing bounds it where pods
    /// hold their nodes and no `terminationGracePeriod` ends that.
    pub minutes: Option<(i64, Option<i64>)>,
    /// The longest time in seconds that pods of the pool have to end.
    pub grace: i64,
    /// The time in seconds that a drain may take at most (`terminationGracePeriod`), as the nodes have it that exist.
    pub drain_limit: Option<i64>,
    /// The workloads whose pods hold their nodes.
    pub holders: Vec<Holder>,
}

/// A budget as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetText {
    pub nodes: String,
    pub schedule: Option<String>,
    pub duration: Option<String>,
}

/// A workload whose pods may not be evicted.
#[derive(Clone, Debug)]
pub struct Holder {
    pub workload: Object,
    pub reason: String,
    /// Whether the pods may be evicted and fit nowhere else, so that the node stays until it expires.
    pub is_stuck: bool,
}

impl From<&Keeper> for Holder {
    fn from(keeper: &Keeper) -> Holder {
        Holder { workload: keeper.workload.clone(), reason: keeper.reason.clone(), is_stuck: false }
    }
}

/// The replacement of the nodes of a plan, whose pool was `old` before.
pub(super) fn of(plan: &PoolPlan, old: &Object, before: &View<'_>, after: &View<'_>) -> Rollout {
    let tenants = before.tenants(old.name()).iter();
    let grace = tenants.map(grace_of).max().unwrap_or(DEFAULT_GRACE);
    let keepers = keepers_on(old, before.side.cluster, before.side.platform);
    let drain_limit = termination_grace_period(old);
    let mut rollout = Rollout {
        at_once: None,
        never: false,
        closed_minutes: 0,
        budgets: Vec::new(),
        week: None,
        minutes: None,
        grace: drain_limit.map_or(grace, |limit| grace.min(limit)),
        drain_limit,
        holders: keepers.iter().map(Holder::from).collect(),
    };
    // A NodePool that is deleted takes its nodes with it, whatever its budgets say.
    if plan.fate == Fate::Removed {
        return rollout;
    }
    let Some(new) = after.objects_of(plan) else { return rollout };
    let pool = NodePool::new(&new);
    let Some(calendar) = pool.as_ref().and_then(NodePool::calendar) else { return rollout };
    rollout.budgets = budget_texts(&new);
    rollout.week = Some(Week::of(calendar, REASON, None));
    let coverage = calendar.coverage(REASON);
    (rollout.never, rollout.closed_minutes) = (coverage.permanently_zero, coverage.zero_minutes);
    let (least, most) = match plan.nodes {
        NodeCount::Stated(nodes) => (nodes, nodes),
        NodeCount::Packed(least, most) => (least.max(1), most),
        NodeCount::Unknown => (1, 1),
    };
    let most = u32::try_from(most.min(MAX_NODES)).unwrap_or(u32::MAX);
    let least = u32::try_from(least.min(MAX_NODES)).unwrap_or(u32::MAX);
    rollout.at_once = at_once(calendar, most);
    if plan.nodes != NodeCount::Unknown && !rollout.never && most > 0 {
        let drain = if rollout.holders.is_empty() { Some(rollout.grace) } else { drain_limit };
        let slow =
            drain.map(|drain| ASSUMED_START_MINUTES + drain.div_euclid(60) + i64::from(drain % 60 != 0));
        rollout.minutes = duration(calendar, least, most, slow);
    }
    rollout
}

/// Adds to each replacement the workloads whose pods fit nowhere after the change: Karpenter does not replace a drifted node
/// whose pods it cannot place (K:pkg/controllers/disruption/drift.go `ComputeCommands`, `AllNonPendingPodsScheduled`).
pub(super) fn hold(plans: &mut [PoolPlan], moves: &[Move], before: &View<'_>) {
    for plan in plans.iter_mut().filter(|plan| matches!(plan.fate, Fate::All | Fate::Some)) {
        let Some(rollout) = &mut plan.rollout else { continue };
        let stuck = moves.iter().filter(|one| {
            let was = one.before.as_ref().and_then(|landing| landing.pool.as_ref());
            one.turns.contains(&Turn::Lost) && was.is_some_and(|pool| pool.name() == plan.name)
        });
        let reason = "whose pods fit nowhere after the change".to_owned();
        let holder =
            |one: &Move| Holder { workload: one.workload.clone(), reason: reason.clone(), is_stuck: true };
        let stuck: Vec<Holder> = stuck.map(holder).collect();
        if stuck.is_empty() {
            continue;
        }
        rollout.minutes = None;
        let is_stuck =
            |tenant: &Object| stuck.iter().any(|held| held.workload.id().key() == tenant.id().key());
        rollout.never |= before.tenants(&plan.name).iter().all(is_stuck);
        rollout.holders = stuck.into_iter().chain(std::mem::take(&mut rollout.holders)).collect();
    }
}

impl View<'_> {
    /// The object of a plan's pool on this side.
    fn objects_of(&self, plan: &PoolPlan) -> Option<Object> {
        crate::plan::by_name(self.side.cluster, crate::kind::Kind::NODE_POOL).remove(&plan.name)
    }
}

/// The longest time in seconds that the pods of a workload have to end.
fn grace_of(workload: &Object) -> i64 {
    let of = |template: &Template<'_>| template.grace_seconds().unwrap_or(DEFAULT_GRACE);
    templates(workload).iter().map(of).max().unwrap_or(DEFAULT_GRACE).max(0)
}

fn budget_texts(pool: &Object) -> Vec<BudgetText> {
    let list = pool.path(&["spec", "disruption", "budgets"]);
    let applies = |reasons: &crate::tree::node::Node<'_>| {
        !reasons.is_set() || reasons.items().any(|reason| reason.text() == Some(REASON.name()))
    };
    let text = |budget: &crate::tree::node::Node<'_>| {
        let field = |name: &str| budget.get(name).string_or_number().map(|text| text.into_owned());
        BudgetText {
            nodes: field("nodes").unwrap_or_else(|| "10%".to_owned()),
            schedule: field("schedule"),
            duration: field("duration"),
        }
    };
    if !list.is_set() {
        return vec![BudgetText { nodes: "10%".to_owned(), schedule: None, duration: None }];
    }
    list.items().filter(|budget| applies(&budget.get("reasons"))).map(|budget| text(&budget)).collect()
}

/// How many of some nodes may be replaced at a time, over the hours of a week.
fn at_once(calendar: &Calendar, nodes: u32) -> Option<(Option<u32>, Option<u32>)> {
    let (start, length) = calendar.span();
    let hours = 0..length.min(WEEK) / 60;
    let mut known: BTreeMap<Option<u32>, ()> = BTreeMap::new();
    for hour in hours {
        match calendar.allowance_at(REASON, start + hour * 60, nodes) {
            Allowance::Nodes(0) => {}
            Allowance::Nodes(count) => _ = known.insert(Some(count), ()),
            Allowance::Unlimited => _ = known.insert(None, ()),
        }
    }
    let limited = || known.keys().filter_map(|count| *count);
    let unlimited = known.contains_key(&None);
    match (limited().min(), limited().max(), unlimited) {
        (None, _, false) => None,
        (least, most, unlimited) => Some((least, if unlimited { None } else { most })),
    }
}

/// Minutes that the replacement takes at least and at most, where each round takes `slow` minutes at most; `None` if it does not
/// end.
fn duration(calendar: &Calendar, least: u32, most: u32, slow: Option<i64>) -> Option<(i64, Option<i64>)> {
    let intervals = calendar.intervals(REASON);
    let (start, _) = calendar.span();
    let starts = |is_open: bool| {
        let of = move |interval: &&Interval| (interval.state != AllowanceState::Zero) == is_open;
        intervals.iter().filter(of).take(MAX_STARTS).map(move |interval| start + interval.start)
    };
    let fastest = starts(true)
        .filter_map(|from| minutes_from(calendar, &intervals, (least, least), from, ASSUMED_START_MINUTES))
        .min()?;
    let Some(slow) = slow else { return Some((fastest, None)) };
    let slowest = starts(false)
        .chain(starts(true))
        .filter_map(|from| minutes_from(calendar, &intervals, (most, most), from, slow))
        .max()?;
    Some((fastest, Some(slowest)))
}

/// Minutes until nodes are replaced that begin to be at a moment, where each takes `each` minutes.
fn minutes_from(
    calendar: &Calendar,
    intervals: &[Interval],
    (nodes, mut left): (u32, u32),
    from: i64,
    each: i64,
) -> Option<i64> {
    // Without windows the allowance never changes.
    if let [_] = intervals
        && calendar.budgets().iter().all(|budget| budget.schedule.is_none())
    {
        return match calendar.allowance_at(REASON, from, nodes) {
            Allowance::Nodes(0) => None,
            Allowance::Nodes(count) => Some(i64::from(nodes.div_ceil(count)) * each),
            Allowance::Unlimited => Some(each),
        };
    }
    let mut now = from;
    while left > 0 {
        match calendar.allowance_at(REASON, now, nodes) {
            Allowance::Unlimited => left = 0,
            Allowance::Nodes(0) => {
                now = next_open(calendar, intervals, now)?;
                continue;
            }
            Allowance::Nodes(count) => left = left.saturating_sub(count),
        }
        now += each;
    }
    Some(now - from)
}

/// The next minute at which a node may be replaced; the span repeats.
fn next_open(calendar: &Calendar, intervals: &[Interval], now: i64) -> Option<i64> {
    let (start, length) = calendar.span();
    let at = (now - start).rem_euclid(length);
    let is_open = |interval: &&Interval| interval.state != AllowanceState::Zero;
    let later = intervals.iter().filter(is_open).find(|interval| interval.start > at);
    if let Some(later) = later {
        return Some(now + later.start - at);
    }
    let first = intervals.iter().find(is_open)?;
    Some(now + length - at + first.start)
}

#[cfg(test)]
mod tests {
    use super::{at_once, duration};
    use crate::facts::cron::Schedule;
    use crate::karpenter::budget::{Budget, Calendar, Nodes};

    fn calendar(budgets: &[Budget]) -> Calendar {
        Calendar::new(budgets)
    }

    fn closed(schedule: &str, hours: u64) -> Budget {
        Budget {
            schedule: Some(Schedule::parse(schedule)),
            duration: Some(hours * 3600),
            ..Budget::unconditional(Nodes::Count(0))
        }
    }

    #[test]
    fn nodes_are_replaced_in_rounds() {
        let ten_percent = calendar(&[Budget::unconditional(Nodes::Percent(10))]);
        assert_eq!(at_once(&ten_percent, 20), Some((Some(2), Some(2))));
        assert_eq!(duration(&ten_percent, 8, 20, Some(8)), Some((24, Some(80))));
        assert_eq!(duration(&ten_percent, 8, 20, None), Some((24, None)));
        assert_eq!(duration(&calendar(&[]), 8, 20, Some(8)), Some((3, Some(8))));
        assert_eq!(duration(&calendar(&[Budget::unconditional(Nodes::Count(0))]), 1, 1, Some(8)), None);
    }

    #[test]
    fn windows_hold_a_replacement_back() {
        let office = [Budget::unconditional(Nodes::Count(1)), closed("0 9 * * 1-5", 8)];
        let office = calendar(&office);
        assert_eq!(at_once(&office, 10), Some((Some(1), Some(1))));
        let (least, most) = duration(&office, 10, 10, Some(60)).unwrap();
        assert_eq!(least, 30);
        // Begun at nine: eight hours in which nothing happens, then ten nodes of an hour each.
        assert!((18 * 60..=19 * 60).contains(&most.unwrap()), "{most:?}");
    }
}
