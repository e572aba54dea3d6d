//! Conversion of a schedule from another time zone to UTC.

use super::{DAY, Schedule};

const NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WEEK: u8 = 0x7f;

/// The schedules in UTC for a schedule `text` on clocks that are `offset` minutes ahead of UTC. Two if only
/// some of the times move to another weekday. `None` if the schedule depends on days of the month or months,
/// if its times have several minutes, or if `text` is a descriptor.
pub fn to_utc(text: &str, offset: i64) -> Option<Vec<String>> {
    let schedule = Schedule::parse(text).ok()?;
    let days = schedule.weekly_days()?;
    let [_, _, "*" | "?", "*", weekdays] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    let named = weekdays.chars().any(|c| c.is_ascii_alphabetic());
    let hits: Vec<i64> = schedule.minutes_of_day().map(i64::from).collect();
    let minute = (hits.first()? - offset).rem_euclid(60);
    let mut moved: Vec<(i64, Vec<i64>)> = Vec::new();
    for hit in &hits {
        let at = hit - offset;
        if at.rem_euclid(60) != minute {
            return None;
        }
        // A schedule for every day is not affected by a shift to another day.
        let day = if days == WEEK { 0 } else { at.div_euclid(DAY) };
        let hour = at.rem_euclid(DAY) / 60;
        match moved.iter_mut().find(|(known, _)| *known == day) {
            Some((_, hours)) => hours.push(hour),
            None => moved.push((day, vec![hour])),
        }
    }
    let mut out = Vec::new();
    for (day, mut hours) in moved {
        hours.sort_unstable();
        let number = |n: i64| n.to_string();
        let name = |n: i64| match usize::try_from(n).ok().and_then(|n| NAMES.get(n)) {
            Some(name) if named => (*name).to_owned(),
            _ => n.to_string(),
        };
        let turned: Vec<i64> = (0..7).filter(|to| days >> (to - day).rem_euclid(7) & 1 == 1).collect();
        let weekdays = match turned.len() {
            7 => "*".to_owned(),
            _ => ranges(&turned, name),
        };
        let hours = match hours.len() {
            24 => "*".to_owned(),
            _ => ranges(&hours, number),
        };
        out.push(format!("{minute} {hours} * * {weekdays}"));
    }
    Some(out)
}

/// Ascending numbers as a cron field: `1-5,7`.
fn ranges(numbers: &[i64], show: impl Fn(i64) -> String) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first().copied() {
        let run = (rest.iter().zip(first..)).take_while(|(n, expected)| *n == expected).count();
        let (same, after) = rest.split_at(run.max(1));
        match same {
            [one] => parts.push(show(*one)),
            [one, two] => parts.extend([show(*one), show(*two)]),
            [one, .., last] => parts.push(format!("{}-{}", show(*one), show(*last))),
            [] => {}
        }
        rest = after;
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::to_utc;
    use crate::facts::cron::Schedule;

    #[test]
    fn hours_and_weekdays_move() {
        for (text, offset, expected) in [
            ("0 9 * * mon-fri", 540, &["0 0 * * mon-fri"][..]),
            ("0 9 * * 1-5", 600, &["0 23 * * 0-4"]),
            ("30 2 * * SAT", 540, &["30 17 * * fri"]),
            ("0 22 * * sun", -300, &["0 3 * * mon"]),
            ("0 9 * * *", 330, &["30 3 * * *"]),
            ("0 6,12 * * 1-5", 540, &["0 21 * * 0-4", "0 3 * * 1-5"]),
            ("0 6,12 * * *", 540, &["0 3,21 * * *"]),
            ("0 0 * * mon,wed,sat", 60, &["0 23 * * sun,tue,fri"]),
            ("0 8-18 * * 1-5", -480, &["0 16-23 * * 1-5", "0 0-2 * * 2-6"]),
        ] {
            assert_eq!(
                to_utc(text, offset).as_deref(),
                Some(&*expected.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()),
                "{text}"
            );
        }
        for text in ["@daily", "0 9 1 * *", "0 9 * 6 *", "0,30 9 * * *", "0 9 * *", "0 9 31 2 *"] {
            assert_eq!(to_utc(text, 540), None, "{text}");
        }
    }

    #[test]
    fn every_hit_moves_by_the_offset() {
        for offset in [-480, -300, 60, 330, 540, 765] {
            for text in ["0 9 * * 1-5", "15 0,6,23 * * sat", "0 8-18 * * mon,wed"] {
                let local = Schedule::parse(text).expect("it is one");
                let there: Vec<Schedule> = to_utc(text, offset)
                    .expect("it can be moved")
                    .iter()
                    .map(|t| Schedule::parse(t).expect("it is one"))
                    .collect();
                let hits = |s: &Schedule, at: i64| s.next(at - 1) == Some(at);
                for at in (30_000_000..30_000_000 + 8 * 1440).step_by(15) {
                    let utc = there.iter().any(|s| hits(s, at - offset));
                    assert_eq!(hits(&local, at), utc, "{text} {offset} {at}");
                }
            }
        }
    }
}
