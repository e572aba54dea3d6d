//! The budgets of one pool, evaluated for every minute of a reference span.
//!
//! This module contains only the time arithmetic. The parent module defines what a budget is and when it is
//! active.

use super::{Budget, DisruptionReason, Nodes};
use crate::facts::cron::Schedule;
use crate::facts::date::REFERENCE_MONDAY;

/// Minutes in a week.
pub const WEEK: i64 = 7 * DAY;
/// Maximum number of budgets that a calendar evaluates. The CRD allows 50.
pub(crate) const MAX_BUDGETS: usize = 128;

const DAY: i64 = 1440;
const SPAN_WEEKS: i64 = 116;
/// Longest gap between two times of any schedule, so a window that is longer never closes.
const LONGEST_GAP: i64 = 9 * 366 * DAY;
/// Maximum number of windows. A calendar with more shortens its span.
const MAX_WINDOWS: i64 = 400_000;

/// The number of nodes that may be disrupted for a reason at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowance {
    /// At most this many nodes.
    Nodes(u32),
    /// No budget applies.
    Unlimited,
}

/// The state of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AllowanceState {
    /// No node may be disrupted.
    Zero,
    /// A budget above zero applies.
    Limited,
    /// No budget applies.
    Unlimited,
}

/// A period with one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    /// First minute, counted from the calendar's start (always a Monday 00:00 UTC).
    pub start: i64,
    /// The length in minutes.
    pub minutes: i64,
    pub state: AllowanceState,
}

/// The results for one reason. In a calendar of several weeks each number is that of its worst calendar week
/// (Monday to Monday, UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// The largest number of minutes with allowance zero in a week.
    pub zero_minutes: i64,
    /// The largest number of minutes without any budget in a week.
    pub unlimited_minutes: i64,
    /// The longest run of minutes above zero, in the week where it is shortest. In a weekly calendar a run
    /// can continue from Sunday night to Monday morning; in a longer one it ends with the week.
    pub longest_open: i64,
    /// The allowance is zero at every minute of the whole span.
    pub permanently_zero: bool,
    /// No budget applies at any minute of the whole span.
    pub permanently_unlimited: bool,
}

/// One hour of the week in [`Calendar::grid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Zero during the whole hour, in every week.
    Closed,
    /// Zero for part of the hour, or in some weeks only.
    PartlyClosed,
    /// Never zero, and a budget above zero applies throughout.
    Limited,
    /// Never zero, but for part of the time no budget applies.
    PartlyUnlimited,
    /// No budget applies.
    Unlimited,
}

/// Why a budget is redundant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowKind {
    /// It is never active, or its list of reasons is empty.
    NeverApplies,
    /// It equals an earlier budget with this index.
    Duplicate(usize),
    /// Whenever it applies, other budgets are at least as strict.
    Shadowed,
}

/// The budgets of one pool over the reference span.
#[derive(Debug, Clone)]
pub struct Calendar {
    budgets: Vec<Budget>,
    start: i64,
    length: i64,
    exact: bool,
    never_allows: bool,
    /// The start minute of each segment, and the index in `active_sets` of the budgets active from there. Segments are
    /// sorted, and the first starts at 0.
    segments: Vec<(u32, u32)>,
    /// The distinct sets of budgets that are active at some time, sorted.
    active_sets: Vec<u128>,
}

impl Calendar {
    /// Evaluates the budgets around [`REFERENCE_MONDAY`]. This is cheap if no budget has a schedule.
    pub fn new(budgets: &[Budget]) -> Self {
        Self::around(budgets.to_vec(), REFERENCE_MONDAY)
    }

    /// Like [`Calendar::new`], around another Monday 00:00 UTC (minutes since 1970; rounded down to a Monday).
    /// Budgets after the first [`MAX_BUDGETS`] are ignored.
    pub fn around(mut budgets: Vec<Budget>, monday: i64) -> Self {
        budgets.truncate(MAX_BUDGETS);
        let monday = monday.clamp(-2_000_000_000, 2_000_000_000);
        let monday = monday - (monday - REFERENCE_MONDAY).rem_euclid(WEEK);
        let frozen = !budgets.iter().all(Budget::is_usable);
        let mut calendar = Self {
            budgets,
            start: monday,
            length: WEEK,
            exact: true,
            never_allows: frozen,
            segments: vec![(0, 0)],
            active_sets: vec![0],
        };
        if !frozen {
            calendar.build();
        }
        calendar
    }

    /// The budgets, at most [`MAX_BUDGETS`].
    pub fn budgets(&self) -> &[Budget] {
        &self.budgets
    }

    fn build(&mut self) {
        let mut always = 0_u128;
        let mut timed: Vec<(u128, Schedule, i64)> = Vec::new();
        for (index, budget) in self.budgets.iter().enumerate() {
            match &budget.schedule {
                Some(Ok(s)) if !s.never_fires() => timed.push((1 << index, *s, budget.minutes())),
                _ => always |= 1 << index,
            }
        }
        let patterns: Vec<_> = timed.iter().map(|(_, s, d)| day_pattern(s, *d)).collect();
        if timed.iter().any(|(_, s, _)| s.weekly_days().is_none()) {
            let per_day: usize = patterns.iter().map(Vec::len).sum();
            let per_week = i64::try_from(per_day).unwrap_or(i64::MAX / 8) * 7;
            let weeks = (MAX_WINDOWS / per_week.max(1)).clamp(2, SPAN_WEEKS) & !1;
            self.exact = weeks == SPAN_WEEKS;
            self.start -= weeks / 2 * WEEK;
            self.length = weeks * WEEK;
        }
        let mut events: Vec<(i64, u128)> = Vec::new();
        for ((bit, schedule, duration), pattern) in timed.iter().zip(&patterns) {
            if *duration >= LONGEST_GAP {
                always |= bit;
                continue;
            }
            for (from, to) in self.windows(schedule, pattern, *duration) {
                events.push((from, *bit));
                events.push((to, *bit));
            }
        }
        events.sort_unstable_by_key(|e| e.0);
        let mut active = always;
        let mut segments = vec![(0, active)];
        for (time, bit) in events {
            active ^= bit;
            match segments.last_mut() {
                Some(last) if last.0 == time => last.1 = active,
                _ if time < self.length => segments.push((time, active)),
                _ => {}
            }
        }
        let mut sets: Vec<u128> = segments.iter().map(|(_, set)| *set).collect();
        sets.sort_unstable();
        sets.dedup();
        sets.shrink_to_fit();
        // The span has at most `SPAN_WEEKS`.
        let narrow = |(start, set): &(i64, u128)| (*start as u32, sets.partition_point(|s| s < set) as u32);
        self.segments = segments.iter().map(narrow).collect();
        self.active_sets = sets;
    }

    /// The active windows of one schedule inside the span, disjoint and ascending.
    fn windows(&self, schedule: &Schedule, pattern: &[(i64, i64)], duration: i64) -> Vec<(i64, i64)> {
        let mut out: Vec<(i64, i64)> = Vec::new();
        let weekly = schedule.weekly_days().is_some();
        let reach = if weekly { duration.min(WEEK) } else { duration };
        let first_day = self.start.div_euclid(DAY);
        for day in -reach.div_euclid(DAY) - 1..self.length / DAY {
            if !schedule.fires_on(first_day + day) {
                continue;
            }
            for (from, to) in pattern {
                let from = (day * DAY + from).max(0);
                let to = (day * DAY + to).min(self.length);
                if from >= to {
                    continue;
                }
                match out.last_mut() {
                    Some(last) if from <= last.1 => last.1 = last.1.max(to),
                    _ => out.push((from, to)),
                }
            }
        }
        out
    }

    /// Whether a schedule cannot be parsed. The allowance of every reason is then always zero.
    pub(crate) fn never_allows(&self) -> bool {
        self.never_allows
    }

    /// Whether the span has its full length. Very frequent schedules with day-of-month or month fields
    /// shorten it, and results about rare weeks may then be missing.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    /// First minute (since 1970 UTC, a Monday 00:00) and length in minutes of the span. If the length is
    /// [`WEEK`], everything repeats weekly.
    pub fn span(&self) -> (i64, i64) {
        (self.start, self.length)
    }

    /// The allowance of a reason at any minute (since 1970 UTC) in a pool of `n` nodes. It is computed with
    /// Karpenter's own rule and is not limited to the span.
    pub(crate) fn allowance_at(&self, reason: DisruptionReason, minute: i64, n: u32) -> Allowance {
        if self.never_allows {
            return Allowance::Nodes(0);
        }
        let active = self.budgets.iter().filter(|b| b.applies_to(reason));
        let active = active.filter(|b| b.active_at(minute).unwrap_or(true));
        let least = active.map(|b| b.nodes.value(n)).min();
        least.map_or(Allowance::Unlimited, Allowance::Nodes)
    }

    /// The state of a reason while each of `active_sets` is active.
    fn states(&self, reason: DisruptionReason) -> impl Iterator<Item = AllowanceState> {
        let (applies, zero) = self.masks(reason);
        self.active_sets.iter().map(move |active| match active & applies {
            _ if self.never_allows || active & zero != 0 => AllowanceState::Zero,
            0 => AllowanceState::Unlimited,
            _ => AllowanceState::Limited,
        })
    }

    /// Whether a reason is in a state at every minute of the span.
    pub(crate) fn is_always(&self, reason: DisruptionReason, state: AllowanceState) -> bool {
        self.states(reason).all(|one| one == state)
    }

    /// Whether a reason is in a state at some minute of the span.
    pub(crate) fn is_ever(&self, reason: DisruptionReason, state: AllowanceState) -> bool {
        self.states(reason).any(|one| one == state)
    }

    /// Each segment: its first minute, its length in minutes, and the index of its set in `active_sets`.
    fn segments(&self) -> impl Iterator<Item = (i64, i64, usize)> {
        let starts = self.segments.iter().map(|(start, active)| (i64::from(*start), *active as usize));
        let ends = self.segments.iter().skip(1).map(|(next, _)| i64::from(*next)).chain([self.length]);
        starts.zip(ends).map(|((start, active), end)| (start, end - start, active))
    }

    /// Number of minutes of the span in which a budget of a kind is active.
    pub(crate) fn minutes_of(&self, kind: impl Fn(&Budget) -> bool) -> i64 {
        let of_kind = (0..).zip(&self.budgets).filter(|(_, budget)| kind(budget));
        let mask = of_kind.fold(0, |mask: u128, (index, _): (u32, _)| mask | 1 << index);
        let counted = self.segments().filter(|(.., active)| self.active_sets[*active] & mask != 0);
        counted.map(|(_, minutes, _)| minutes).sum()
    }

    /// The intervals of a reason over the span. Adjacent intervals have different states.
    pub(crate) fn intervals(&self, reason: DisruptionReason) -> Vec<Interval> {
        let states: Vec<AllowanceState> = self.states(reason).collect();
        let mut out: Vec<Interval> = Vec::new();
        for (start, minutes, active) in self.segments() {
            let state = states[active];
            match out.last_mut() {
                Some(last) if last.state == state => last.minutes += minutes,
                _ => out.push(Interval { start, minutes, state }),
            }
        }
        out
    }

    /// The weekly results for a reason.
    pub fn coverage(&self, reason: DisruptionReason) -> Coverage {
        let stretches = self.intervals(reason);
        let weeks = usize::try_from(self.length / WEEK).unwrap_or(1);
        let (mut zero, mut unlimited) = (vec![0; weeks], vec![0; weeks]);
        // The longest and the current open run of each week.
        let mut open = vec![(0, 0); weeks];
        for stretch in &stretches {
            for (week, _, minutes) in split_at_multiples(*stretch, WEEK) {
                let run = &mut open[week];
                run.1 = if stretch.state == AllowanceState::Zero { 0 } else { run.1 + minutes };
                run.0 = run.0.max(run.1);
                match stretch.state {
                    AllowanceState::Zero => zero[week] += minutes,
                    AllowanceState::Unlimited => unlimited[week] += minutes,
                    AllowanceState::Limited => {}
                }
            }
        }
        let most = |v: &[i64]| v.iter().copied().max().unwrap_or(0);
        let mut longest_open = open.iter().map(|r| r.0).min().unwrap_or(0);
        if weeks == 1 && zero[0] > 0 {
            let lead: i64 =
                stretches.iter().take_while(|s| s.state != AllowanceState::Zero).map(|s| s.minutes).sum();
            longest_open = longest_open.max(lead + open[0].1);
        }
        Coverage {
            zero_minutes: most(&zero),
            unlimited_minutes: most(&unlimited),
            longest_open,
            permanently_zero: self.is_always(reason, AllowanceState::Zero),
            permanently_unlimited: self.is_always(reason, AllowanceState::Unlimited),
        }
    }

    /// Whether the budget at `index` has a schedule but is active at every minute: its duration is at least
    /// the largest gap between two times, or the schedule has no times. `false` for a budget without
    /// schedule, and in a pool where a schedule cannot be parsed.
    pub(crate) fn always_active(&self, index: usize) -> bool {
        let scheduled = self.budgets.get(index).is_some_and(|b| b.schedule.is_some());
        scheduled && !self.never_allows && self.active_sets.iter().all(|active| active >> index & 1 == 1)
    }

    /// The budgets that can be removed **together** without a change of any allowance at any minute, for any reason and any
    /// pool of 1 to 1000 nodes. If several make each other redundant, the earlier one is kept. Empty for the only budget, and
    /// in a pool where a schedule cannot be parsed.
    pub fn shadowed(&self) -> Vec<(usize, ShadowKind)> {
        let mut out = Vec::new();
        if self.never_allows || self.budgets.len() < 2 {
            return out;
        }
        let mut kept = u128::MAX;
        for (index, budget) in self.budgets.iter().enumerate().rev() {
            if !self.is_redundant(index, kept) {
                continue;
            }
            kept &= !(1 << index);
            let idle = DisruptionReason::ALL.iter().all(|r| !budget.applies_to(*r))
                || self.active_sets.iter().all(|active| active >> index & 1 == 0);
            let twin = self.budgets[..index].iter().position(|b| b == budget);
            let kind = match twin {
                _ if idle => ShadowKind::NeverApplies,
                Some(twin) => ShadowKind::Duplicate(twin),
                None => ShadowKind::Shadowed,
            };
            out.push((index, kind));
        }
        out.reverse();
        out
    }

    /// The week as a grid: rows are Monday to Sunday, columns are hours 00 to 23 UTC.
    pub fn grid(&self, reason: DisruptionReason) -> [[Cell; 24]; 7] {
        // Minutes in the states zero, limited and unlimited per hour of the week, over all weeks.
        let mut sums = [[0_i64; 3]; 168];
        for stretch in self.intervals(reason) {
            for (hour, _, minutes) in split_at_multiples(stretch, 60) {
                sums[hour % 168][stretch.state as usize] += minutes;
            }
        }
        let cell = |[zero, limited, unlimited]: [i64; 3]| match () {
            () if zero > 0 && limited + unlimited == 0 => Cell::Closed,
            () if zero > 0 => Cell::PartlyClosed,
            () if unlimited == 0 => Cell::Limited,
            () if limited == 0 => Cell::Unlimited,
            () => Cell::PartlyUnlimited,
        };
        std::array::from_fn(|day| std::array::from_fn(|hour| cell(sums[day * 24 + hour])))
    }

    /// The budgets that apply to a reason, and those among them that allow no node, as bit masks.
    fn masks(&self, reason: DisruptionReason) -> (u128, u128) {
        let (mut applies, mut zero) = (0, 0);
        for (index, budget) in self.budgets.iter().enumerate() {
            if budget.applies_to(reason) {
                applies |= 1 << index;
                zero |= u128::from(budget.nodes.is_zero()) << index;
            }
        }
        (applies, zero)
    }

    /// Whether the other budgets in `kept` are at least as strict wherever `index` is active.
    fn is_redundant(&self, index: usize, kept: u128) -> bool {
        let own = &self.budgets[index];
        let concerned = DisruptionReason::ALL.into_iter().filter(|r| own.applies_to(*r));
        let masks: Vec<u128> = concerned.map(|r| self.masks(r).0).collect();
        self.active_sets.iter().filter(|active| *active >> index & 1 == 1).all(|active| {
            masks.iter().all(|m| {
                let others = active & m & kept & !(1 << index);
                let budgets = self.budgets.iter().enumerate();
                let budgets = budgets.filter(|(i, _)| others >> i & 1 == 1);
                is_covered(own.nodes, budgets.map(|(_, b)| b.nodes))
            })
        })
    }
}

/// Whether the smallest value of `others` is at most `own` for every pool of 1 to 1000 nodes. Only the
/// smallest percentage and the smallest count matter, and percentages do not decrease with the size of the
/// pool.
pub(super) fn is_covered(own: Nodes, others: impl Iterator<Item = Nodes>) -> bool {
    let (mut percent, mut count) = (None::<u32>, u32::MAX);
    for other in others {
        match other {
            Nodes::Percent(p) => percent = Some(percent.map_or(p, |least| least.min(p))),
            Nodes::Count(_) => count = count.min(other.value(1)),
        }
    }
    match (own, percent) {
        (Nodes::Count(_), _) if count <= own.value(1) => true,
        (Nodes::Count(_), Some(p)) => Nodes::Percent(p).value(1000) <= own.value(1),
        (Nodes::Count(_), None) => false,
        (Nodes::Percent(own), Some(p)) if p <= own => true,
        // The count decides from the first size at which the larger percentage exceeds `own`.
        (Nodes::Percent(_), Some(p)) => (1..=1000)
            .find(|n| Nodes::Percent(p).value(*n) > own.value(*n))
            .is_none_or(|n| count <= own.value(n)),
        (Nodes::Percent(_), None) => count <= own.value(1),
    }
}

/// The windows opened by the times of one day, in minutes from the start of that day, merged.
fn day_pattern(schedule: &Schedule, duration: i64) -> Vec<(i64, i64)> {
    let mut out: Vec<(i64, i64)> = Vec::new();
    if duration == 0 {
        return out;
    }
    for hit in schedule.minutes_of_day().map(i64::from) {
        match out.last_mut() {
            Some(last) if hit <= last.1 => last.1 = hit + duration,
            _ => out.push((hit, hit + duration)),
        }
    }
    out
}

/// Splits an interval at multiples of `size`: (index of the slot, start, minutes).
fn split_at_multiples(stretch: Interval, size: i64) -> impl Iterator<Item = (usize, i64, i64)> {
    let end = stretch.start + stretch.minutes;
    let mut at = stretch.start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let from = at;
        at = end.min((at / size + 1) * size);
        Some((usize::try_from(from / size).unwrap_or(0), from, at - from))
    })
}
