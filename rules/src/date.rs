//! A calendar date, for suppressions that end. The clock is somebody else's.

use std::fmt;

/// A date of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The year.
    pub year: i32,
    /// The month, from 1.
    pub month: u32,
    /// The day, from 1.
    pub day: u32,
}

impl Date {
    /// Reads `2027-01-31`; `None` for a day that does not exist.
    #[must_use]
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
        let date = Date {
            year: i32::try_from(number(0..4)?).ok()?,
            month: number(5..7)?,
            day: number(8..10)?,
        };
        (date.day >= 1 && date.day <= date.days_in_month()?).then_some(date)
    }

    /// The date of a moment in UTC, in seconds since 1970.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Date {
        // Days since 0000-03-01, so that the leap day ends the year.
        let days = seconds.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Date {
            year: i32::try_from(year).unwrap_or(i32::MAX),
            month: u32::try_from(month).unwrap_or(1),
            day: u32::try_from(day).unwrap_or(1),
        }
    }

    fn days_in_month(self) -> Option<u32> {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
            4 | 6 | 9 | 11 => Some(30),
            2 => Some(if leap { 29 } else { 28 }),
            _ => None,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Whether a text is a moment as RFC 3339 writes it and Go reads it: `2027-01-31T08:00:00Z`, with a
/// fraction of the second or an offset where wanted.
#[must_use]
pub fn is_rfc_3339(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('T') else {
        return false;
    };
    let two = |part: Option<&str>, most: u32| {
        part.is_some_and(|p| {
            p.len() == 2
                && p.bytes().all(|b| b.is_ascii_digit())
                && p.parse().is_ok_and(|n: u32| n <= most)
        })
    };
    let clock = |part: &str| {
        two(part.get(0..2), 23) && part.get(2..3) == Some(":") && two(part.get(3..5), 59)
    };
    if Date::parse(date).is_none() || !rest.get(0..5).is_some_and(clock) {
        return false;
    }
    if rest.get(5..6) != Some(":") || !two(rest.get(6..8), 59) {
        return false;
    }
    let mut zone = rest.get(8..).unwrap_or_default();
    if let Some(fraction) = zone.strip_prefix('.') {
        zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if zone.len() == fraction.len() {
            return false;
        }
    }
    zone == "Z"
        || zone
            .strip_prefix(['+', '-'])
            .is_some_and(|offset| offset.len() == 5 && clock(offset))
}

#[cfg(test)]
mod tests {
    use super::Date;

    #[test]
    fn dates_are_read_and_counted() {
        assert_eq!(
            Date::parse("2024-02-29").map(|d| d.to_string()).as_deref(),
            Some("2024-02-29")
        );
        for text in [
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "2024-00-10",
            "+024-01-01",
            "2024-01-00",
        ] {
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
