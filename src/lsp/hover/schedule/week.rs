//! Describes the times and windows of a weekly schedule.

use gpulint_rules::facts::cron::Schedule;

const DAY: i64 = 1440;
const WEEK: i64 = 7 * DAY;
const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Maximum number of times of a day, or windows of a week, that are written out.
const MOST: usize = 6;

/// The times of a weekly schedule in ascending order, in minutes from Monday 00:00 in the zone of the
/// schedule.
pub(super) struct Moments(Vec<i64>);

/// Disjoint windows of a week: the start of each, in minutes from Monday 00:00 in the zone of the schedule,
/// and its length.
pub(super) struct Windows(Vec<(i64, i64)>);

/// The times of a schedule. `None` if it does not repeat every week, or has no times.
pub(super) fn moments(schedule: &Schedule) -> Option<Moments> {
    let days = schedule.weekly_days()?;
    let mut times = Vec::new();
    for day in 0..7_i64 {
        // Bit 0 is Sunday.
        if days & (1 << ((day + 1) % 7)) != 0 {
            times.extend(schedule.minutes_of_day().map(|minute| day * DAY + i64::from(minute)));
        }
    }
    (!times.is_empty()).then_some(Moments(times))
}

/// The windows that a schedule opens, each `minutes` long.
pub(super) fn windows_of(schedule: &Schedule, minutes: i64) -> Option<Windows> {
    let starts = moments(schedule)?.0;
    Some(Windows::merged(starts.into_iter().map(|start| (start, minutes.min(WEEK)))))
}

/// The windows from each time of one schedule to the next time of another one.
pub(super) fn windows_between(start: &Schedule, end: &Schedule) -> Option<Windows> {
    let (starts, ends) = (moments(start)?.0, moments(end)?.0);
    let until = |start: i64| {
        let later = ends.iter().map(|end| (end - start).rem_euclid(WEEK)).filter(|length| *length > 0);
        later.min().unwrap_or(WEEK)
    };
    Some(Windows::merged(starts.iter().map(|start| (*start, until(*start)))))
}

impl Moments {
    /// The times as text, such as `Mon–Fri at 09:00`, in a zone that is `ahead` minutes ahead.
    pub(super) fn text(&self, ahead: i64) -> String {
        let mut by_time: Vec<(i64, [bool; 7])> = Vec::new();
        for moment in &self.0 {
            let at = (moment + ahead).rem_euclid(WEEK);
            let day = usize::try_from(at / DAY).unwrap_or_default();
            match by_time.iter_mut().find(|(time, _)| *time == at % DAY) {
                Some((_, days)) => days[day] = true,
                None => {
                    let mut days = [false; 7];
                    days[day] = true;
                    by_time.push((at % DAY, days));
                }
            }
        }
        by_time.sort_unstable();
        let mut by_days: Vec<([bool; 7], Vec<i64>)> = Vec::new();
        for (time, days) in by_time {
            match by_days.iter_mut().find(|(known, _)| *known == days) {
                Some((_, times)) => times.push(time),
                None => by_days.push((days, vec![time])),
            }
        }
        by_days.sort_by_key(|(on, _)| on.iter().position(|day| *day));
        let parts: Vec<String> =
            by_days.iter().map(|(on, at)| format!("{} {}", days(on), times(at))).collect();
        parts.join("; ")
    }
}

impl Windows {
    fn merged(windows: impl Iterator<Item = (i64, i64)>) -> Windows {
        let mut sorted: Vec<(i64, i64)> = windows.filter(|(_, length)| *length > 0).collect();
        sorted.sort_unstable();
        let mut out: Vec<(i64, i64)> = Vec::new();
        for (start, length) in sorted {
            match out.last_mut() {
                Some((first, known)) if start <= *first + *known => {
                    *known = (*known).max(start + length - *first)
                }
                _ => out.push((start, length)),
            }
        }
        // The last window may extend into the next week.
        while let (Some((first, own)), Some((start, length))) = (out.first().copied(), out.last().copied()) {
            if out.len() < 2 || start + length < first + WEEK {
                break;
            }
            out.remove(0);
            if let Some(last) = out.last_mut() {
                last.1 = length.max(first + WEEK + own - start);
            }
        }
        out.iter_mut().for_each(|(_, length)| *length = (*length).min(WEEK));
        Windows(out)
    }

    pub(super) fn is_always(&self) -> bool {
        self.0.iter().any(|(_, length)| *length >= WEEK)
    }

    /// The windows as text, such as `Mon–Fri 09:00–17:00`, in a zone that is `ahead` minutes ahead.
    pub(super) fn text(&self, ahead: i64) -> String {
        if self.is_always() {
            return "all week".to_owned();
        }
        let mut groups: Vec<(i64, i64, [bool; 7])> = Vec::new();
        for (start, length) in &self.0 {
            let start = (start + ahead).rem_euclid(WEEK);
            let day = usize::try_from(start / DAY).unwrap_or_default();
            match groups.iter_mut().find(|(time, known, _)| (*time, *known) == (start % DAY, *length)) {
                Some((_, _, days)) => days[day] = true,
                None => {
                    let mut days = [false; 7];
                    days[day] = true;
                    groups.push((start % DAY, *length, days));
                }
            }
        }
        groups.sort_by_key(|(time, _, days)| (days.iter().position(|day| *day), *time));
        if groups.len() > MOST {
            let total: i64 = self.0.iter().map(|(_, length)| length).sum();
            return format!("{} windows a week, {} hours in all", self.0.len(), (total + 30) / 60);
        }
        let parts: Vec<String> = groups.iter().map(|(time, length, on)| window(*time, *length, on)).collect();
        parts.join(", ")
    }
}

fn window(time: i64, length: i64, on: &[bool; 7]) -> String {
    let end = time + length;
    if length < DAY {
        let next = if end > DAY { " (next day)" } else { "" };
        return format!("{} {}–{}{next}", days(on), clock(time), clock_end(end));
    }
    if length == DAY && time == 0 {
        return format!("{}, the whole day", days(on));
    }
    let each: Vec<String> = (0..7_usize)
        .filter(|day| on[*day])
        .map(|day| {
            let last = usize::try_from(end / DAY).unwrap_or_default();
            format!("{} {} to {} {}", NAMES[day], clock(time), NAMES[(day + last) % 7], clock(end % DAY))
        })
        .collect();
    each.join(", ")
}

fn clock(minute: i64) -> String {
    let minute = minute.rem_euclid(DAY);
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// The end of a window. Midnight is written as 24:00.
fn clock_end(minute: i64) -> String {
    if minute == DAY { "24:00".to_owned() } else { clock(minute) }
}

/// Days of a week: `every day`, `Mon–Fri`, `Mon, Wed`.
fn days(on: &[bool; 7]) -> String {
    if on.iter().all(|day| *day) {
        return "every day".to_owned();
    }
    let mut parts = Vec::new();
    let mut day = 0;
    while day < 7 {
        if !on[day] {
            day += 1;
            continue;
        }
        let end = (day..7).find(|later| !on[*later]).unwrap_or(7);
        if end - day >= 3 {
            parts.push(format!("{}–{}", NAMES[day], NAMES[end - 1]));
        } else {
            parts.extend(NAMES[day..end].iter().map(|name| (*name).to_owned()));
        }
        day = end;
    }
    parts.join(", ")
}

/// Times of a day: `at 09:00`, `every 15 minutes`.
pub(super) fn times(minutes: &[i64]) -> String {
    let steps: Vec<i64> = minutes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let step = steps.first().copied().filter(|step| steps.iter().all(|other| other == step));
    let around = |step: i64| step * i64::try_from(minutes.len()).unwrap_or_default() == DAY;
    match (minutes, step) {
        (_, Some(1)) if around(1) => "every minute".to_owned(),
        ([first, ..], Some(60)) if around(60) => match first {
            0 => "every hour".to_owned(),
            minute => format!("every hour at minute {minute}"),
        },
        (_, Some(step)) if step < 60 && around(step) => format!("every {step} minutes"),
        (few, _) if few.len() <= MOST => {
            let list: Vec<String> = few.iter().map(|minute| clock(*minute)).collect();
            format!("at {}", list.join(", "))
        }
        ([first, .., last], _) => {
            format!("{} times from {} to {}", minutes.len(), clock(*first), clock(*last))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::facts::cron::Schedule;

    use super::{moments, windows_between, windows_of};

    fn read(text: &str) -> Schedule {
        Schedule::parse(text).expect("it is a schedule")
    }

    #[test]
    fn times_of_a_week() {
        for (schedule, ahead, text) in [
            ("0 9 * * mon-fri", 0, "Mon–Fri at 09:00"),
            ("0 20 * * mon-fri", 540, "Tue–Sat at 05:00"),
            ("0 3 * * mon-fri", -300, "Mon–Thu, Sun at 22:00"),
            ("0 3,15 * * *", 0, "every day at 03:00, 15:00"),
            ("*/15 * * * *", 0, "every day every 15 minutes"),
            ("30 * * * sat,sun", 0, "Sat, Sun every hour at minute 30"),
            ("* * * * *", 0, "every day every minute"),
            ("0 9-17 * * *", 0, "every day 9 times from 09:00 to 17:00"),
            ("@weekly", 0, "Sun at 00:00"),
            ("0 1,23 * * mon", 60, "Mon at 02:00; Tue at 00:00"),
        ] {
            assert_eq!(
                moments(&read(schedule)).map(|all| all.text(ahead)).as_deref(),
                Some(text),
                "{schedule}"
            );
        }
        assert!(moments(&read("0 9 1 * *")).is_none());
    }

    #[test]
    fn windows_of_a_week() {
        for (schedule, minutes, ahead, text) in [
            ("0 9 * * mon-fri", 480, 0, "Mon–Fri 09:00–17:00"),
            ("0 0 * * mon-fri", 480, 540, "Mon–Fri 09:00–17:00"),
            ("0 22 * * *", 480, 0, "every day 22:00–06:00 (next day)"),
            ("0 0 * * sat", 2880, 0, "Sat 00:00 to Mon 00:00"),
            ("0 16 * * *", 480, 0, "every day 16:00–24:00"),
            ("0 0 * * wed", 1440, 0, "Wed, the whole day"),
            ("0 * * * *", 60, 0, "all week"),
            ("0 0 * * *", 1440, 0, "all week"),
            ("0 12 * * sun", 1440, 0, "Sun 12:00 to Mon 12:00"),
            ("0 20 * * sun", 480, 0, "Sun 20:00–04:00 (next day)"),
            ("*/30 * * * *", 10, 0, "336 windows a week, 56 hours in all"),
        ] {
            let found = windows_of(&read(schedule), minutes).map(|all| all.text(ahead));
            assert_eq!(found.as_deref(), Some(text), "{schedule}");
        }
    }

    #[test]
    fn windows_from_one_schedule_to_another() {
        for (start, end, ahead, text) in [
            ("0 8 * * 1-5", "0 20 * * 1-5", 0, "Mon–Fri 08:00–20:00"),
            ("0 8 * * 1-5", "0 20 * * *", -540, "Mon–Thu, Sun 23:00–11:00 (next day)"),
            ("0 8 * * 1", "0 20 * * 5", 0, "Mon 08:00 to Fri 20:00"),
            ("0 8,9 * * *", "0 20 * * *", 0, "every day 08:00–20:00"),
            ("0 22 * * 0", "0 6 * * 1", 0, "Sun 22:00–06:00 (next day)"),
        ] {
            let found = windows_between(&read(start), &read(end)).map(|all| all.text(ahead));
            assert_eq!(found.as_deref(), Some(text), "{start} {end}");
        }
    }
}
