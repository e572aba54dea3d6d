//! A plan in one line.

use std::collections::BTreeMap;

use gpulint_rules::ObjectKey;
use gpulint_rules::fit::FitVerdict;
use gpulint_rules::plan::{Fate, Move, PodCount, Turn, left_out};

use crate::terminal::count;

use super::PlanReport;
use super::page::only_resized;
use super::words;

/// The change in one line; empty if there is none.
pub(super) fn headline(report: &PlanReport) -> String {
    let mut parts = Vec::new();
    if !report.unread.is_empty() {
        parts.push(format!("{} cannot be read", count(report.unread.len(), "file")));
    }
    if !report.errors.is_empty() {
        parts.push("not everything could be read".to_owned());
    }
    parts.extend(fates(report));
    parts.extend(movements(report));
    let money = || report.sets.iter().filter_map(|set| set.plan.money.as_ref());
    let more: u64 = money().map(|money| left_out(&money.after).saturating_sub(left_out(&money.before))).sum();
    if more > 0 {
        let pods = usize::try_from(more).unwrap_or(usize::MAX);
        parts.push(format!("{} more without room with the most replicas", count(pods, "pod")));
    }
    // What is saved by pods that do not run is no saving.
    if let Some(text) = growth(report, more == 0) {
        parts.push(text);
    }
    if parts.is_empty() && report.sets.iter().any(|set| !set.plan.is_empty()) {
        parts.push("no node is replaced".to_owned());
    }
    match (report.findings.new.len(), report.findings.gone.len()) {
        (0, 0) => {}
        (0, gone) => parts.push(format!("{} gone", count(gone, "finding"))),
        (new, 0) => parts.push(count(new, "new finding")),
        (new, gone) => parts.push(format!("{}, {gone} gone", count(new, "new finding"))),
    }
    parts.extend(report.upgrades.steps.iter().map(|step| step.title(false)));
    parts.join("; ")
}

/// What becomes of the nodes of NodePools, and of other objects that no NodePool here uses.
fn fates(report: &PlanReport) -> Vec<String> {
    let pools = || report.sets.iter().flat_map(|set| &set.plan.pools);
    let others = || report.sets.iter().flat_map(|set| &set.plan.classes);
    let kinds = |wanted: fn(Fate) -> bool| {
        let of_pools = pools().filter(|pool| wanted(pool.fate) && !words::stays(pool)).map(|_| "NodePool");
        let of_others = others().filter(|other| wanted(other.fate)).map(|other| &*other.object.id().kind);
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        of_pools.chain(of_others).for_each(|kind| *kinds.entry(kind).or_default() += 1);
        let all = kinds.into_iter().map(|(kind, number)| match number {
            1 => format!("1 {kind}"),
            _ if kind.ends_with('s') => format!("{number} {kind}es"),
            _ => format!("{number} {kind}s"),
        });
        all.collect::<Vec<_>>().join(" and ")
    };
    let stay = pools().filter(|pool| words::stays(pool)).count();
    let stay = if stay > 0 { count(stay, "NodePool") } else { String::new() };
    let mut parts = Vec::new();
    for (kinds, does) in [
        (kinds(|fate| matches!(fate, Fate::All | Fate::Some)), "are replaced"),
        (stay, "drift and stay"),
        (kinds(|fate| fate == Fate::Unknown), "may be replaced"),
    ] {
        if !kinds.is_empty() {
            parts.push(format!("nodes of {kinds} {does}"));
        }
    }
    let gone = kinds(|fate| fate == Fate::Removed);
    if !gone.is_empty() {
        let is_one = gone.starts_with("1 ") && !gone.contains(" and ");
        parts.push(format!(
            "{gone} {} gone with {} nodes",
            if is_one { "is" } else { "are" },
            if is_one { "its" } else { "their" }
        ));
    }
    let added = pools().filter(|pool| pool.fate == Fate::Added).count();
    if added > 0 {
        parts.push(count(added, "new NodePool"));
    }
    parts
}

/// Whether pods certainly fit after the change.
fn is_certain(one: &Move) -> bool {
    one.after.as_ref().is_some_and(|landing| landing.verdict == FitVerdict::Fits)
}

/// What is different about a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    Lost,
    Moves,
    MayMove,
    Found,
    MayFit,
    Resized,
    New,
    Gone,
}

impl Difference {
    /// What the moves of the pods of one workload are together; `None` if its pods stay.
    fn of(moves: &[&Move]) -> Option<Difference> {
        let has = |turn: Turn| moves.iter().any(|one| one.turns.contains(&turn));
        let all =
            |turn: Turn| moves.iter().all(|one| moves.len() >= one.templates && one.turns.contains(&turn));
        match () {
            () if moves.iter().any(|one| one.fits_nowhere()) => Some(Difference::Lost),
            () if all(Turn::New) => Some(Difference::New),
            () if all(Turn::Gone) => Some(Difference::Gone),
            () if all(Turn::Found) && moves.iter().all(|one| is_certain(one)) => Some(Difference::Found),
            () if all(Turn::Found) => Some(Difference::MayFit),
            () if all(Turn::Certain) => None,
            () if [Turn::Uncertain, Turn::Architecture, Turn::Loses, Turn::Gains].into_iter().any(has)
                && ![Turn::Pool, Turn::CapacityType].into_iter().any(has) =>
            {
                Some(Difference::MayMove)
            }
            () => Some(Difference::Moves),
        }
    }

    fn text(self, workloads: usize) -> String {
        let is_one = workloads == 1;
        let counted = count(workloads, "workload");
        match self {
            Difference::Lost => format!("{counted} {} no NodePool", if is_one { "fits" } else { "fit" }),
            Difference::Moves => format!("pods of {counted} go elsewhere"),
            Difference::MayMove => format!("pods of {counted} may go elsewhere"),
            Difference::Found => format!("{counted} {} a NodePool now", if is_one { "fits" } else { "fit" }),
            Difference::MayFit => format!("{counted} may fit a NodePool now"),
            Difference::Resized => format!("another number of pods of {counted}"),
            Difference::New => count(workloads, "new workload"),
            Difference::Gone => format!("{counted} {} gone", if is_one { "is" } else { "are" }),
        }
    }
}

/// What becomes of the pods of workloads.
fn movements(report: &PlanReport) -> Vec<String> {
    let mut counts: BTreeMap<Difference, usize> = BTreeMap::new();
    for set in &report.sets {
        let mut workloads: BTreeMap<ObjectKey, Vec<&Move>> = BTreeMap::new();
        for one in &set.plan.moves {
            workloads.entry(one.workload.id().key()).or_default().push(one);
        }
        let moved = workloads.values().filter_map(|moves| Difference::of(moves));
        let resized = only_resized(set).map(|one| match (one.before, one.after) {
            (PodCount::Absent, _) => Difference::New,
            (_, PodCount::Absent) => Difference::Gone,
            _ => Difference::Resized,
        });
        moved.chain(resized).for_each(|one| *counts.entry(one).or_default() += 1);
    }
    counts.into_iter().map(|(difference, workloads)| difference.text(workloads)).collect()
}

/// By how much the cost of all sets differs with the most replicas.
fn growth(report: &PlanReport, tells_savings: bool) -> Option<String> {
    let money = report.sets.iter().filter_map(|set| set.plan.money.as_ref());
    let differences =
        money.map(|money| Some(money.after.ceiling.micro_dollars? - money.before.ceiling.micro_dollars?));
    let sum = differences.sum::<Option<i128>>()?;
    let amount = sum.unsigned_abs() as f64 / 1e6;
    match sum {
        // Less than what is shown.
        _ if sum.unsigned_abs() < 5_000 => None,
        1.. => Some(format!("${amount:.2} an hour more with the most replicas")),
        _ if !tells_savings => None,
        _ => Some(format!("${amount:.2} an hour less with the most replicas")),
    }
}
