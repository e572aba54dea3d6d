//! Calendar dates, for expiring suppressions and schedules, and date-times as Kubernetes parses them. Nothing
//! here reads the clock: callers pass the current date.

use std::borrow::Cow;
use std::fmt;

/// Monday 2028-01-03 00:00 UTC, in minutes since 1970: the middle of the period over which schedules and time
/// zone offsets are evaluated. 2028 is a leap year, so a period around it holds a 29 February.
pub const REFERENCE_MONDAY: i64 = 21_186 * 1440;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The year in the Gregorian calendar.
    pub year: i32,
    /// The month, from 1.
    pub month: u32,
    /// The day, from 1.
    pub day: u32,
}

impl Date {
    /// Parses `2027-01-31`; `None` for a day that does not exist.
    pub fn parse(text: &str) -> Option<Date> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |range: std::ops::Range<usize>| {
            let part = text.get(range)?;
            part.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
            part.parse::<u32>().ok()
        };
        let date =
            Date { year: i32::try_from(number(0..4)?).ok()?, month: number(5..7)?, day: number(8..10)? };
        let month = u8::try_from(date.month).ok().filter(|m| (1..=12).contains(m))?;
        let last = days_in_month(i64::from(date.year), month);
        (1..=u32::from(last)).contains(&date.day).then_some(date)
    }

    /// The date some days after this one.
    pub fn days_later(self, days: i64) -> Date {
        let (month, day) = (u8::try_from(self.month).unwrap_or(1), u8::try_from(self.day).unwrap_or(1));
        let since = days_from_civil(i64::from(self.year), month, day);
        Date::from_unix_seconds(since.saturating_add(days).saturating_mul(86_400))
    }

    /// The date in UTC of a Unix time in seconds.
    pub fn from_unix_seconds(seconds: i64) -> Date {
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        Date { year: i32::try_from(year).unwrap_or(i32::MAX), month: u32::from(month), day: u32::from(day) }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Days since 1970-01-01 of a civil date (proleptic Gregorian).
pub(crate) fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), i64::from(month));
    let yoe = year.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// Year, month (1-12) and day (1-31) of a day count since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = u8::try_from(doy - (153 * mp + 2) / 5 + 1).unwrap_or_default();
    let month = u8::try_from(if mp < 10 { mp + 3 } else { mp - 9 }).unwrap_or_default();
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Weekday of a day count since 1970-01-01; Sunday is 0.
pub(crate) fn weekday(days: i64) -> u8 {
    u8::try_from((days + 4).rem_euclid(7)).unwrap_or_default()
}

/// The number of days of a month, which is counted from 1.
pub fn days_in_month(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Whether Go parses a text with `time.RFC3339`, as Kubernetes' types do: `2027-01-31T08:00:00Z`, with an
/// optional fraction of a second or offset. Go requires capital `T` and `Z`, and accepts an hour of one
/// digit, a fraction after a comma, and offsets up to `24:60`.
pub fn is_go_rfc3339(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('T') else { return false };
    let rest = match rest.as_bytes() {
        [_, b':', ..] => Cow::Owned(format!("0{rest}")),
        _ => Cow::Borrowed(rest),
    };
    let Some(zone) = after_clock(&rest).filter(|_| Date::parse(date).is_some()) else { return false };
    let zone = match zone.strip_prefix(['.', ',']) {
        None => zone,
        Some(fraction) => match fraction.trim_start_matches(|c: char| c.is_ascii_digit()) {
            zone if zone.len() == fraction.len() => return false,
            zone => zone,
        },
    };
    zone == "Z" || offset(zone).is_some_and(|(hours, minutes)| hours <= 24 && minutes <= 60)
}

/// Whether the API server accepts a text for the format `date-time` of a CRD (`strfmt.IsDateTime`). It
/// lowercases the text, ignores everything from a second `t` on, and accepts any character before the
/// fraction and any offset, so it accepts more than Go parses.
pub fn is_crd_date_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(rest)) = (parts.next(), parts.next()) else { return false };
    let Some(zone) = after_clock(rest).filter(|_| Date::parse(date).is_some()) else { return false };
    let is_zone = |zone: &str| zone == "z" || offset(zone).is_some();
    let fraction = |zone: &str| {
        let mut rest = zone.chars();
        let first = rest.next().filter(|c| *c != '\n');
        let digits = first.map(|_| rest.as_str()).unwrap_or_default();
        let zone = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        zone.len() < digits.len() && is_zone(zone)
    };
    is_zone(zone) || fraction(zone)
}

/// The rest of a text after a leading time such as `08:00:00`.
fn after_clock(text: &str) -> Option<&str> {
    let (clock, rest) = text.split_at_checked(8)?;
    let fits = [(0, 23), (3, 59), (6, 59)]
        .iter()
        .all(|(at, most)| two_digits(clock.get(*at..at + 2)).is_some_and(|n| n <= *most));
    let colons = clock.get(2..3) == Some(":") && clock.get(5..6) == Some(":");
    (fits && colons).then_some(rest)
}

/// Hours and minutes of `+01:00`.
fn offset(text: &str) -> Option<(u32, u32)> {
    let (hours, minutes) = text.strip_prefix(['+', '-'])?.split_once(':')?;
    Some((two_digits(Some(hours))?, two_digits(Some(minutes))?))
}

fn two_digits(text: Option<&str>) -> Option<u32> {
    let text = text.filter(|t| t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit()))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Date, is_crd_date_time, is_go_rfc3339};

    /// Each text with the results of Go 1.26 and of kube-apiserver's `IsDateTime`.
    #[test]
    fn moments_that_go_reads_and_that_are_stored() {
        for (text, read, stored) in [
            ("2026-01-01T00:00:00Z", true, true),
            ("2026-01-01T00:00:00.5Z", true, true),
            ("2026-01-01T00:00:00,5Z", true, true),
            ("2026-01-01T00:00:00.1234567890123+05:30", true, true),
            ("2026-01-01T00:00:00+24:00", true, true),
            ("2026-01-01T00:00:00-23:60", true, true),
            ("2026-01-01T5:00:00Z", true, false),
            ("2026-01-01t00:00:00Z", false, true),
            ("2026-01-01T00:00:00z", false, true),
            ("2026-01-01T00:00:00x5Z", false, true),
            ("2026-01-01T00:00:00555Z", false, true),
            ("2026-01-01T00:00:00+01+01:00", false, true),
            ("2026-01-01T00:00:00+25:00", false, true),
            ("2026-01-01T00:00:00+00:61", false, true),
            ("2026-01-01T00:00:00ZT5", false, true),
            ("2026-01-01T00:00:60Z", false, false),
            ("2026-01-01T24:00:00Z", false, false),
            ("2026-02-30T00:00:00Z", false, false),
            ("2026-01-01T00:00:00.Z", false, false),
            ("2026-01-01T00:00:00", false, false),
            ("2026-01-01T00:00:0\u{e9}Z", false, false),
            ("2026-01-01", false, false),
            ("yesterday", false, false),
            ("T", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_go_rfc3339(text), is_crd_date_time(text)), (read, stored), "{text}");
        }
    }

    #[test]
    fn dates_are_read_and_counted() {
        assert_eq!(Date::parse("2024-02-29").map(|d| d.to_string()).as_deref(), Some("2024-02-29"));
        for text in ["2023-02-29", "2024-13-01", "2024-1-1", "2024-00-10", "+024-01-01", "2024-01-00"] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_795_219_200, "2026-11-21"),
            (-86_400, "1969-12-31"),
        ] {
            assert_eq!(Date::from_unix_seconds(seconds).to_string(), text);
        }
    }
}
