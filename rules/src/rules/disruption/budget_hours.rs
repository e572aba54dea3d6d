//! The hours of the day for which the window of a disruption budget is meant.

use crate::facts::timezone::Zone;
use crate::karpenter::budget::Budget;

/// Minutes in an hour.
pub(super) const HOUR: i64 = 60;
/// Minutes in a day.
pub(super) const DAY: i64 = 24 * HOUR;

#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Minutes after midnight.
    pub start: i64,
    /// The length.
    pub minutes: i64,
}

pub(super) fn daily_window(budget: &Budget) -> Option<Window> {
    let Some(Ok(schedule)) = &budget.schedule else { return None };
    if !schedule.restricts_hours() || schedule.never_fires() {
        return None;
    }
    let length = i64::try_from(budget.duration?).ok()?.div_euclid(60);
    let openings: Vec<i64> = schedule.minutes_of_day().map(i64::from).collect();
    let (first, last) = (*openings.first()?, *openings.last()?);
    let closes_between = openings.windows(2).any(|pair| pair[1] - pair[0] > length);
    let minutes = last - first + length;
    (!closes_between && (1..DAY).contains(&minutes)).then_some(Window { start: first, minutes })
}

/// Whether a window, read as local time, covers office hours, or a night in which nodes may be disrupted. A budget of zero
/// nodes at night has no obvious intention.
pub(super) fn is_typical(window: Window, budget: &Budget) -> bool {
    let start = window.start.rem_euclid(DAY);
    let end = start + window.minutes;
    let office = (6 * HOUR..=10 * HOUR + 30).contains(&start)
        && (15 * HOUR..=20 * HOUR + 30).contains(&end)
        && window.minutes >= 5 * HOUR;
    let night = (start >= 21 * HOUR && end <= DAY + 8 * HOUR) || (start <= 5 * HOUR && end <= 8 * HOUR);
    office || night && !budget.nodes.is_zero() && window.minutes <= 8 * HOUR
}

/// Whether a window has typical hours as written, but not after conversion from UTC to the zone.
pub(super) fn is_shifted(window: Window, budget: &Budget, zone: &Zone) -> bool {
    let in_zone = |offset: i64| Window { start: window.start + offset, ..window };
    is_typical(window, budget)
        && !is_typical(in_zone(zone.standard), budget)
        && zone.summer.is_none_or(|summer| !is_typical(in_zone(summer), budget))
}
