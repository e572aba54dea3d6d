//! The window of a `cron` trigger: when it is open, in KEDA's own sense.
//!
//! Source: `GetMetricsAndActivity` in `pkg/scalers/cron_scaler.go` of KEDA 2.14 to 2.21. At each poll KEDA computes the
//! next time of `start` and the next time of `end`; the window is open if the end comes first, or both at once. It has
//! no memory: an `end` that is followed by another `end` closes nothing, and a `start` that is followed by another
//! `start` opens nothing. All times are in the time zone of the trigger; changes of its offset are ignored.

use crate::facts::cron::Schedule;
use crate::facts::date::REFERENCE_MONDAY;
use crate::tree::node::Node;

/// Minutes of a day.
const DAY: i64 = 1440;
/// Minutes of a week.
pub(crate) const WEEK: i64 = 7 * DAY;
/// The span in days of windows that do not repeat every week.
const SPAN: i64 = 400;
/// Maximum number of times that are compared.
const MAX_TIMES: usize = 50_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct CronWindow {
    pub(crate) start: Schedule,
    pub(crate) end: Schedule,
}

/// A minute at which `start` or `end` fires, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    minute: i64,
    starts: bool,
    ends: bool,
}

/// A stretch of minutes from Monday 00:00, or from the begin of the span.
pub(crate) type Stretch = (i64, i64);

/// When a window is open over a week, or over a longer span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Whether everything repeats each week.
    pub(crate) is_weekly: bool,
    /// The stretches in which it is open, ascending, within the week or the span.
    pub(crate) open: Vec<Stretch>,
    /// From an `end` that closes nothing to the time at which the window does close.
    pub(crate) unended: Vec<Stretch>,
    /// From a `start` that opens nothing to the time at which the window does open.
    pub(crate) unstarted: Vec<Stretch>,
}

/// A schedule as KEDA parses it: five fields, no descriptor.
fn schedule(node: &Node<'_>) -> Option<Schedule> {
    let text = node.text()?.trim();
    if text.starts_with('@') { None } else { Schedule::parse(text).ok() }
}

impl CronWindow {
    /// The window in the metadata of a trigger. `None` if KEDA cannot parse it, or a part is unknown.
    pub(crate) fn read(metadata: &Node<'_>) -> Option<CronWindow> {
        Some(CronWindow { start: schedule(&metadata.get("start"))?, end: schedule(&metadata.get("end"))? })
    }

    /// Whether the window is open at a minute (since 1970, in its time zone), by KEDA's comparison. A schedule that never
    /// fires has the zero time as its next time.
    #[cfg(test)]
    pub(crate) fn is_open(&self, minute: i64) -> bool {
        let next = |schedule: &Schedule| schedule.next(minute).unwrap_or(i64::MIN);
        let (start, end) = (next(&self.start), next(&self.end));
        if start < end { minute > start && minute < end } else { minute > start || minute < end }
    }

    /// Whether the window never changes: always open (`true`) or always closed (`false`), because a schedule never fires.
    pub(crate) fn constant(&self) -> Option<bool> {
        match (self.start.never_fires(), self.end.never_fires()) {
            (false, false) => None,
            (start, _) => Some(start),
        }
    }

    /// When it is open. `None` if it never changes, or fires too often for a long span.
    pub(crate) fn opening(&self) -> Option<Opening> {
        if self.constant().is_some() {
            return None;
        }
        let is_weekly = self.start.weekly_days().is_some() && self.end.weekly_days().is_some();
        let mut events = self.events(if is_weekly { 7 } else { SPAN })?;
        if is_weekly {
            repeat(&mut events);
        }
        let mut out = Opening { is_weekly, open: Vec::new(), unended: Vec::new(), unstarted: Vec::new() };
        for pair in events.windows(2) {
            let [event, next] = pair else { continue };
            let stretch = (event.minute, next.minute);
            if next.ends {
                push(&mut out.open, stretch);
            }
            if event.ends && !event.starts && next.ends {
                push(&mut out.unended, stretch);
            }
            if event.starts && !event.ends && !next.ends {
                push(&mut out.unstarted, stretch);
            }
        }
        Some(out)
    }

    /// The times of both schedules on the first days from a Monday, as minutes from its begin, ascending.
    fn events(&self, days: i64) -> Option<Vec<Event>> {
        let minutes = |schedule: &Schedule| schedule.minutes_of_day().map(i64::from).collect::<Vec<_>>();
        let (starts, ends) = (minutes(&self.start), minutes(&self.end));
        let monday = REFERENCE_MONDAY / DAY;
        let mut out: Vec<Event> = Vec::new();
        for day in 0..days {
            let from = out.len();
            let at = |minute: &i64| day * DAY + minute;
            if self.start.fires_on(monday + day) {
                out.extend(starts.iter().map(|m| Event { minute: at(m), starts: true, ends: false }));
            }
            if self.end.fires_on(monday + day) {
                out.extend(ends.iter().map(|m| Event { minute: at(m), starts: false, ends: true }));
            }
            out[from..].sort_by_key(|event| event.minute);
            if out.len() > MAX_TIMES {
                return None;
            }
        }
        out.dedup_by(|event, before| {
            let is_same = event.minute == before.minute;
            if is_same {
                before.starts |= event.starts;
                before.ends |= event.ends;
            }
            is_same
        });
        Some(out)
    }
}

/// Lets the events of a week begin where a window opens, and adds the first one of the next week.
fn repeat(events: &mut Vec<Event>) {
    let count = events.len();
    let before = |at: usize| events[(at + count - 1) % count];
    let first = (0..count).find(|at| events[*at].starts && before(*at).ends).unwrap_or(0);
    events.rotate_left(first);
    for event in &mut events[count - first..] {
        event.minute += WEEK;
    }
    if let Some(first) = events.first().copied() {
        events.push(Event { minute: first.minute + WEEK, ..first });
    }
}

/// Adds a stretch that begins where the last one ends, or later.
fn push(list: &mut Vec<Stretch>, stretch: Stretch) {
    match list.last_mut() {
        Some(last) if last.1 == stretch.0 => last.1 = stretch.1,
        _ => list.push(stretch),
    }
}

impl Opening {
    /// The stretches of a weekly window in which it is open, from Monday 00:00 to the end of Sunday.
    pub(crate) fn within_week(&self) -> Vec<Stretch> {
        let mut out = Vec::new();
        for (from, to) in &self.open {
            for week in [0, WEEK, 2 * WEEK] {
                let (from, to) = ((from - week).max(0), (to - week).min(WEEK));
                if from < to {
                    out.push((from, to));
                }
            }
        }
        out.sort_unstable();
        out
    }

    /// Whether it is open all the time.
    pub(crate) fn is_always(&self) -> bool {
        self.is_weekly && self.within_week().iter().map(|(from, to)| to - from).sum::<i64>() >= WEEK
    }
}

#[cfg(test)]
mod tests {
    use super::{CronWindow, WEEK};
    use crate::facts::cron::Schedule;
    use crate::facts::date::REFERENCE_MONDAY;

    fn window(start: &str, end: &str) -> CronWindow {
        let parse = |text: &str| Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        CronWindow { start: parse(start), end: parse(end) }
    }

    /// Windows as people write them, and some that nobody would.
    const WINDOWS: [(&str, &str); 66] = [
        ("0 8 * * *", "0 18 * * *"),
        ("30 6 * * 1-5", "10 22 * * *"),
        ("30 6 * * 1-5", "10 22 * * 1-5"),
        ("0 6 * * 6", "0 0 * * 0"),
        ("0 8 * * *", "0 18 * * 1-5"),
        ("0 8 * * 1-5", "0 18 * * 1,3,5"),
        ("0 20 * * 1-5", "0 6 * * *"),
        ("0 20 * * 1-5", "0 6 * * 2-6"),
        ("0 20 * * 1-5", "0 6 * * 1-5"),
        ("0 22 * * *", "0 4 * * *"),
        ("* 8 * * *", "* 18 * * *"),
        ("* 8 * * *", "0 18 * * *"),
        ("0 8 * * *", "* 18 * * *"),
        ("0 8 * * *", "00 8 * * *"),
        ("0 8 * * 1", "0 8 * * 2"),
        ("0 8 * * 1", "0 18 * * 5"),
        ("0 18 * * 5", "0 8 * * 1"),
        ("0 0 * * 6", "0 0 * * 1"),
        ("0 0 * * 6,0", "0 0 * * 1"),
        ("59 23 * * 0", "0 0 * * 1"),
        ("0 0 * * 1", "59 23 * * 0"),
        ("*/5 * * * *", "0 18 * * *"),
        ("0 8 * * *", "*/5 * * * *"),
        ("*/10 * * * *", "5-59/10 * * * *"),
        ("0 * * * *", "30 * * * *"),
        ("30 * * * *", "0 * * * *"),
        ("0 */2 * * *", "0 1-23/2 * * *"),
        ("0 8,14 * * *", "0 12,18 * * *"),
        ("0 8,14 * * 1-5", "0 12,18 * * *"),
        ("0 8 * * *", "0 12,18 * * *"),
        ("0 8,14 * * *", "0 18 * * *"),
        ("0 8-17 * * *", "0 18 * * *"),
        ("0 8 * * *", "0 18-20 * * *"),
        ("0 8 * * mon-fri", "0 18 * * MON-FRI"),
        ("0 8 * * mon", "0 18 * * tue,wed"),
        ("0 8 * * tue,wed", "0 18 * * mon"),
        ("0 0 * * *", "0 12 * * *"),
        ("0 12 * * *", "0 0 * * *"),
        ("0 0 * * 0", "0 0 * * 3"),
        ("15 7 * * 1-6", "45 19 * * 1-6"),
        ("15 7 * * 1-6", "45 19 * * 1-5"),
        ("0 9 * * 1-5", "0 9 * * 6"),
        ("0 9 * * 1-5", "0 9 * * *"),
        ("0 9 * * *", "0 9 * * 6"),
        ("1 0 * * *", "59 23 * * *"),
        ("59 23 * * *", "1 0 * * *"),
        ("0 6 * * 1,2", "0 6 * * 3,4"),
        ("0 6 * * 1,3", "0 6 * * 2,4"),
        ("0 6 * * 1-3", "0 5 * * 2-4"),
        ("0 6 * * 1-3", "0 7 * * 2-4"),
        ("* * * * *", "0 18 * * *"),
        ("0 8 * * *", "* * * * *"),
        ("0 8 * * 1-5", "0 18 * * 6,0"),
        ("0 8 ? * 1-5", "0 18 ? * 1-5"),
        ("0 7 * * 1-4", "0 19 * * 1-4"),
        ("0 7 * * 5", "0 12 * * 5"),
        ("0 23 * * 0", "0 5 * * 1"),
        ("0 23 * * 0-4", "0 5 * * 1-5"),
        ("0 5 * * 1-5", "0 23 * * 0-4"),
        ("0,30 8 * * *", "15,45 8 * * *"),
        ("0,15,30,45 * * * *", "10,25,40,55 * * * *"),
        ("20 4 * * 2", "20 4 * * 2,3"),
        ("20 4 * * 2,3", "20 4 * * 2"),
        ("0 3 */1 * *", "0 5 */1 * *"),
        ("0 8 * * 1-5", "0 8 * * 1-5/2"),
        ("0 0 * * 1-5", "0 0 * * 2-6"),
    ];

    #[test]
    fn a_week_is_that_of_the_rule_of_keda_at_each_minute() {
        for (start, end) in WINDOWS {
            let window = window(start, end);
            let open = window.opening().expect("it changes").within_week();
            for minute in 0..WEEK {
                let expected = window.is_open(REFERENCE_MONDAY + minute);
                let found = open.iter().any(|(from, to)| (*from..*to).contains(&minute));
                assert_eq!(found, expected, "{start} to {end} at {minute}");
            }
        }
    }

    #[test]
    fn a_longer_span_is_that_of_the_rule_of_keda_as_well() {
        for (start, end) in [
            ("0 8 1 * *", "0 18 1 * *"),
            ("0 8 1-5 * *", "0 18 * * *"),
            ("0 0 25 11 *", "0 0 2 12 *"),
            ("0 0 * 12 *", "0 0 6 1 *"),
            ("0 8 * * 1-5", "0 18 15 * *"),
        ] {
            let window = window(start, end);
            let opening = window.opening().expect("it changes");
            let (first, last) = (opening.open[0].0, opening.open[opening.open.len() - 1].1);
            for minute in (first..last).step_by(17) {
                let expected = window.is_open(REFERENCE_MONDAY + minute);
                let found = opening.open.iter().any(|(from, to)| (*from..*to).contains(&minute));
                assert_eq!(found, expected, "{start} to {end} at {minute}");
            }
        }
    }

    #[test]
    fn times_that_change_nothing_are_found() {
        let at = |day: i64, hour: i64, minute: i64| day * 1440 + hour * 60 + minute;
        let opening = |start, end| window(start, end).opening().expect("it changes");
        let broken = opening("30 6 * * 1-5", "10 22 * * *");
        assert_eq!(broken.unended, [(at(4, 22, 10), at(6, 22, 10))]);
        assert!(broken.unstarted.is_empty());
        let more = opening("0 8 * * *", "0 18 * * 1-5");
        assert_eq!(more.unstarted, [(at(5, 8, 0), at(7, 8, 0))]);
        let fine = opening("0 20 * * 1-5", "0 6 * * 2-6");
        assert!(fine.unended.is_empty() && fine.unstarted.is_empty());
        assert!(opening("0 8 * * *", "00 8 * * *").is_always());
        let never = window("0 0 31 2 *", "0 8 * * *");
        assert_eq!(never.constant(), Some(true));
        assert!(never.is_open(REFERENCE_MONDAY));
        let never = window("0 8 * * *", "0 0 31 2 *");
        assert_eq!(never.constant(), Some(false));
        assert!(!never.is_open(REFERENCE_MONDAY));
    }
}
