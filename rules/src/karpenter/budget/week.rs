//! The hours of a week as a grid, one row for each day, one column for each hour: the allowance of budgets, or the
//! window of a cron trigger.

use super::{Calendar, Cell, DisruptionReason};
use crate::facts::timezone::Zone;

/// Names of the rows, Monday first, as in [`Calendar::grid`].
pub const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Week {
    /// The reasons whose budgets these are. Empty for the window of a trigger.
    pub reasons: Vec<DisruptionReason>,
    /// The time zone of the window of a trigger. `None` for budgets, whose hours are in UTC.
    pub window: Option<String>,
    /// Cells by day, Monday first, and by hour.
    pub hours: [[Cell; 24]; 7],
    /// The local time zone of the readers.
    pub zone: Option<Zone>,
}

impl Cell {
    /// The character that represents the cell.
    pub fn letter(self) -> char {
        match self {
            Cell::Closed => '#',
            Cell::PartlyClosed => '/',
            Cell::Limited => '.',
            Cell::PartlyUnlimited => '+',
            Cell::Unlimited => '!',
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Cell::Closed => "blocked",
            Cell::PartlyClosed => "blocked at times",
            Cell::Limited => "limited",
            Cell::PartlyUnlimited => "unlimited at times",
            Cell::Unlimited => "unlimited",
        }
    }

    /// All cells, the strictest first.
    pub const ALL: [Cell; 5] =
        [Cell::Closed, Cell::PartlyClosed, Cell::Limited, Cell::PartlyUnlimited, Cell::Unlimited];
}

impl Week {
    /// The grid of a reason, and the other reasons that have the same grid.
    pub fn of(calendar: &Calendar, reason: DisruptionReason, zone: Option<Zone>) -> Week {
        let hours = calendar.grid(reason);
        let same = |r: &DisruptionReason| *r == reason || calendar.grid(*r) == hours;
        Week {
            reasons: DisruptionReason::ALL.into_iter().filter(same).collect(),
            window: None,
            hours,
            zone: zone.filter(|zone| !zone.is_utc()),
        }
    }

    /// The grids of all reasons, once for each group of reasons that have the same.
    pub fn all(calendar: &Calendar, zone: Option<Zone>) -> Vec<Week> {
        let mut weeks: Vec<Week> = Vec::new();
        for reason in DisruptionReason::ALL {
            if !weeks.iter().any(|week| week.reasons.contains(&reason)) {
                weeks.push(Week::of(calendar, reason, zone.clone()));
            }
        }
        weeks
    }

    /// The week of a window that is open in these stretches: minutes from Monday 00:00 in a time zone, ascending.
    pub(crate) fn of_window(open: &[(i64, i64)], zone: &str) -> Week {
        let minutes = |from: i64, to: i64| {
            open.iter().map(|(start, end)| (to.min(*end) - from.max(*start)).max(0)).sum::<i64>()
        };
        let cell = |hour: i64| match minutes(hour * 60, hour * 60 + 60) {
            0 => Cell::Limited,
            60.. => Cell::Closed,
            _ => Cell::PartlyClosed,
        };
        let hours = std::array::from_fn(|day| std::array::from_fn(|hour| cell((day * 24 + hour) as i64)));
        Week { reasons: Vec::new(), window: Some(zone.to_owned()), hours, zone: None }
    }

    /// What a cell means for the subject of the week.
    fn meaning(&self, cell: Cell) -> &'static str {
        match (cell, &self.window) {
            (Cell::Closed, Some(_)) => "open",
            (Cell::PartlyClosed, Some(_)) => "open at times",
            (_, Some(_)) => "closed",
            (_, None) => cell.meaning(),
        }
    }

    /// The reasons as text: `all reasons`, or their names; for a window what it is.
    pub fn reason_names(&self) -> String {
        if self.window.is_some() {
            return "cron window".to_owned();
        }
        if self.reasons.len() == DisruptionReason::ALL.len() {
            return "all reasons".to_owned();
        }
        let names: Vec<&str> = self.reasons.iter().map(|r| r.name()).collect();
        names.join(", ")
    }

    /// Explains the characters that occur in the grid.
    pub fn legend(&self) -> String {
        let is_there = |cell: &Cell| self.hours.iter().flatten().any(|c| c == cell);
        let parts: Vec<String> = Cell::ALL
            .into_iter()
            .filter(is_there)
            .map(|cell| format!("{} {}", cell.letter(), self.meaning(cell)))
            .collect();
        parts.join("   ")
    }

    /// The header of the columns: one line for each clock, with the text and the name of the clock. A `+` or
    /// `-` after an hour means that it is on the next or the previous day on that clock.
    pub fn clocks(&self) -> Vec<(String, String)> {
        let mut out = vec![(hours(0), self.window.clone().unwrap_or_else(|| "UTC".to_owned()))];
        if let Some(zone) = &self.zone {
            let minutes = |offset: i64| match offset.rem_euclid(60) {
                0 => String::new(),
                minutes => format!(":{minutes:02}"),
            };
            let name = format!("{}{}", zone.city(), minutes(zone.standard));
            out.push((hours(zone.standard), name));
            if let Some(summer) = zone.summer {
                out.push((hours(summer), format!("in summer{}", minutes(summer))));
            }
        }
        out
    }

    /// The cells of a day, separated by spaces.
    pub fn row(&self, day: usize) -> String {
        let cells = self.hours.get(day).into_iter().flatten();
        let letters: Vec<String> = cells.map(|c| c.letter().to_string()).collect();
        letters.join(" ")
    }

    /// Whether all hours are equal, so that a grid is not needed.
    pub fn is_uniform(&self) -> bool {
        let mut hours = self.hours.iter().flatten();
        let first = hours.next();
        hours.all(|hour| Some(hour) == first)
    }

    /// The complete grid in plain text, at most 72 columns wide: a title, the clocks, the days. If all hours
    /// are equal, it is a single line.
    pub fn lines(&self) -> Vec<String> {
        if self.is_uniform() {
            let what = self.meaning(self.hours[0][0]);
            return vec![format!("{what} in every hour ({})", self.reason_names())];
        }
        let mut out = vec![format!("{}   {}", self.legend(), self.reason_names())];
        for (hours, name) in self.clocks() {
            out.push(format!("     {hours:<47}  {name}"));
        }
        for (day, name) in DAYS.iter().enumerate() {
            out.push(format!("{name}  {}", self.row(day)));
        }
        out
    }
}

/// Every third hour of UTC, on a clock with an offset in minutes.
fn hours(offset: i64) -> String {
    let mut out = String::new();
    for hour in (0..24_i64).step_by(3) {
        let there = (hour * 60 + offset).div_euclid(60);
        let day = match there.div_euclid(24) {
            0 => ' ',
            after if after > 0 => '+',
            _ => '-',
        };
        out.push_str(&format!("{:02}{day}   ", there.rem_euclid(24)));
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::Week;
    use crate::facts::cron::Schedule;
    use crate::facts::timezone::Zone;
    use crate::karpenter::budget::{Budget, Calendar, DisruptionReason, Nodes};

    fn drawn(budgets: &[Budget], zone: &str) -> String {
        let week = Week::of(&Calendar::new(budgets), DisruptionReason::Drifted, Zone::find(zone));
        week.lines().join("\n")
    }

    fn window(nodes: Nodes, schedule: &str, hours: u64) -> Budget {
        Budget {
            schedule: Some(Schedule::parse(schedule)),
            duration: Some(hours * 3600),
            ..Budget::unconditional(nodes)
        }
    }

    #[test]
    fn office_hours_are_a_block() {
        let budgets = [window(Nodes::Count(0), "30 9 * * mon-fri", 8)];
        assert_eq!(
            drawn(&budgets, "UTC"),
            "\
# blocked   / blocked at times   ! unlimited   all reasons
     00    03    06    09    12    15    18    21     UTC
Mon  ! ! ! ! ! ! ! ! ! / # # # # # # # / ! ! ! ! ! !
Tue  ! ! ! ! ! ! ! ! ! / # # # # # # # / ! ! ! ! ! !
Wed  ! ! ! ! ! ! ! ! ! / # # # # # # # / ! ! ! ! ! !
Thu  ! ! ! ! ! ! ! ! ! / # # # # # # # / ! ! ! ! ! !
Fri  ! ! ! ! ! ! ! ! ! / # # # # # # # / ! ! ! ! ! !
Sat  ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! !
Sun  ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! !"
        );
    }

    #[test]
    fn what_never_changes_is_one_line() {
        let budgets = [Budget::unconditional(Nodes::Count(0))];
        let text = drawn(&budgets, "Asia/Seoul");
        assert_eq!(text, "blocked in every hour (all reasons)");
    }

    #[test]
    fn clocks_say_what_day_it_is() {
        let budgets = [
            Budget {
                reasons: Some(vec![DisruptionReason::Drifted]),
                ..Budget::unconditional(Nodes::Percent(10))
            },
            window(Nodes::Count(0), "0 0 * * *", 6),
        ];
        let lines = |zone: &str| {
            let text = drawn(&budgets, zone);
            let all: Vec<&str> = text.lines().collect();
            all[..all.len() - 7].join("\n")
        };
        assert_eq!(
            lines("Asia/Kolkata"),
            "\
# blocked   . limited   Drifted
     00    03    06    09    12    15    18    21     UTC
     05    08    11    14    17    20    23    02+    Kolkata:30"
        );
        assert_eq!(
            lines("America/New_York"),
            "\
# blocked   . limited   Drifted
     00    03    06    09    12    15    18    21     UTC
     19-   22-   01    04    07    10    13    16     New York
     20-   23-   02    05    08    11    14    17     in summer"
        );
        assert!(lines("Asia/Seoul").lines().all(|l| l.len() <= 72));
    }
}
