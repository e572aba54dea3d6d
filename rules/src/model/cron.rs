//! Cron schedules of disruption budgets, as `robfig/cron` v3.0.1 `ParseStandard` reads
//! `"TZ=UTC " + schedule` inside Karpenter (facts: karpenter.md 1.6).
//!
//! Five fields or a descriptor, always UTC, minute resolution. It is not a general cron dialect
//! (no seconds, no `L W # H`, no time zones) and it has no clock: times are minutes since
//! 1970-01-01T00:00Z given by the caller.

use std::fmt;

/// Minutes of one day.
const DAY: i64 = 1440;
/// Times are clamped to about ten thousand years either side of 1970.
const FAR: i64 = 5_000_000_000;

/// One of the five fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldName {
    /// 0-59.
    Minute,
    /// 0-23.
    Hour,
    /// 1-31.
    DayOfMonth,
    /// 1-12 or `jan`..`dec`.
    Month,
    /// 0-6 (Sunday is 0) or `sun`..`sat`.
    DayOfWeek,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl FieldName {
    /// Smallest and largest value.
    #[must_use]
    pub fn bounds(self) -> (u8, u8) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 6),
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}

/// What is wrong inside one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Not a number and not a known name (`monday`, `L`, `1#2`, `H`).
    NotANumber,
    /// Below the field's minimum (day 0).
    BelowMinimum,
    /// Above the field's maximum (weekday 7, hour 24, minute 60).
    AboveMaximum,
    /// The range runs backwards (`5-1`, `sat-sun`).
    Backwards,
    /// A step of zero.
    ZeroStep,
    /// More than one hyphen or slash in one item.
    TooManyParts,
}

/// Why Karpenter cannot parse a schedule. Such a budget freezes the whole pool (facts 3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronError {
    /// The text carries its own `TZ=` or `CRON_TZ=` prefix; the field holds that prefix.
    TimeZone(String),
    /// Starts with `@` but is no descriptor that both CRD and library take (`@Daily`, `@dailyfoo`,
    /// `@every 1h`, `@reboot`); the field holds the text.
    Descriptor(String),
    /// Not exactly five fields.
    FieldCount {
        /// How many there are.
        found: usize,
    },
    /// One field is wrong.
    Field {
        /// Which field.
        field: FieldName,
        /// The offending list item.
        text: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeZone(t) => write!(f, "own time zone prefix {t:?}: budgets are always UTC"),
            Self::Descriptor(d) => write!(f, "unknown descriptor {d:?}"),
            Self::FieldCount { found } => write!(f, "{found} fields instead of five"),
            Self::Field {
                field,
                text,
                problem,
            } => {
                let (low, high) = field.bounds();
                match problem {
                    Problem::NotANumber => write!(f, "{field} {text:?} is not a number or name"),
                    Problem::BelowMinimum => write!(f, "{field} {text:?} is below {low}"),
                    Problem::AboveMaximum => write!(f, "{field} {text:?} is above {high}"),
                    Problem::Backwards => write!(f, "{field} range {text:?} runs backwards"),
                    Problem::ZeroStep => write!(f, "{field} {text:?} has step 0"),
                    Problem::TooManyParts => write!(f, "{field} {text:?} has too many - or /"),
                }
            }
        }
    }
}

impl std::error::Error for CronError {}

/// A parsed schedule: one bit per value, plus the star flags of the two day fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule {
    minute: u64,
    hour: u64,
    dom: u64,
    month: u64,
    dow: u64,
    dom_star: bool,
    dow_star: bool,
}

impl Schedule {
    /// Reads a schedule: five fields separated by blanks, or one of `@yearly @annually @monthly
    /// @weekly @daily @midnight @hourly`.
    ///
    /// # Errors
    /// [`CronError`] for everything that Karpenter cannot use. `@every` is refused although the
    /// library knows it, because the CRD lets no budget with it through.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let prefix = text.split_whitespace().next().unwrap_or(text);
            return Err(CronError::TimeZone(prefix.to_owned()));
        }
        if text.starts_with('@') {
            let fields = match text {
                "@yearly" | "@annually" => "0 0 1 1 *",
                "@monthly" => "0 0 1 * *",
                "@weekly" => "0 0 * * 0",
                "@daily" | "@midnight" => "0 0 * * *",
                "@hourly" => "0 * * * *",
                _ => return Err(CronError::Descriptor(text.to_owned())),
            };
            return Self::parse(fields);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, dom, month, dow] = fields.as_slice() else {
            return Err(CronError::FieldCount {
                found: fields.len(),
            });
        };
        let (minute, _) = read_field(minute, FieldName::Minute)?;
        let (hour, _) = read_field(hour, FieldName::Hour)?;
        let (dom, dom_star) = read_field(dom, FieldName::DayOfMonth)?;
        let (month, _) = read_field(month, FieldName::Month)?;
        let (dow, dow_star) = read_field(dow, FieldName::DayOfWeek)?;
        Ok(Self {
            minute,
            hour,
            dom,
            month,
            dow,
            dom_star,
            dow_star,
        })
    }

    /// The first hit strictly after `after` (both minutes since 1970 UTC), or `None` when there is
    /// none up to the end of the fifth calendar year after `after`, the library's horizon.
    #[must_use]
    pub fn next(&self, after: i64) -> Option<i64> {
        let start = after.clamp(-FAR, FAR) + 1;
        let mut day = start.div_euclid(DAY);
        let mut minute = start.rem_euclid(DAY);
        let (limit, _, _) = civil_from_days((start - 1).div_euclid(DAY));
        loop {
            let (year, month, mday) = civil_from_days(day);
            if year > limit + 5 {
                return None;
            }
            if self.month & (1 << month) == 0 {
                day += i64::from(days_in_month(year, month) - mday) + 1;
                minute = 0;
                continue;
            }
            if self.day_matches(day, mday) {
                let hit = (minute..DAY).find(|m| self.minute_matches(*m));
                if let Some(hit) = hit {
                    return Some(day * DAY + hit);
                }
            }
            day += 1;
            minute = 0;
        }
    }

    /// Whether the schedule has no hit at all (`0 9 31 2 *`). Karpenter then counts the budget as
    /// always active (facts 1.6). Around the year 2100, 29 February is out of the library's
    /// horizon for some years; that is ignored here.
    #[must_use]
    pub fn never_fires(&self) -> bool {
        if self.minute == 0 || self.hour == 0 || self.month == 0 {
            return true;
        }
        let by_date = (1..=12_u8).any(|m| {
            let days = days_in_month(2000, m);
            self.month & (1 << m) != 0 && self.dom & ((2 << days) - 1) != 0
        });
        let by_weekday = self.dow != 0;
        match self.dom_star || self.dow_star {
            true => !(by_date && by_weekday),
            false => !(by_date || by_weekday),
        }
    }

    /// Whether the schedule hits on the given day (days since 1970-01-01).
    #[must_use]
    pub fn fires_on(&self, day: i64) -> bool {
        let (_, month, mday) = civil_from_days(day.clamp(-FAR, FAR));
        self.month & (1 << month) != 0 && self.day_matches(day.clamp(-FAR, FAR), mday)
    }

    /// The minutes of a day (0..1440, ascending) at which the schedule hits on days that match.
    pub fn minutes_of_day(&self) -> impl Iterator<Item = u16> + '_ {
        let hours = (0..24_u16).filter(|h| self.hour & (1 << h) != 0);
        hours.flat_map(move |h| {
            let minutes = (0..60_u16).filter(|m| self.minute & (1 << m) != 0);
            minutes.map(move |m| h * 60 + m)
        })
    }

    /// For a schedule that repeats every week: its weekdays as bits (bit 0 = Sunday). `None` when
    /// it depends on the day of the month or on the month.
    #[must_use]
    pub fn weekly_days(&self) -> Option<u8> {
        const ALL_DAYS: u64 = 0xffff_fffe;
        if self.month != 0x1ffe {
            return None;
        }
        let week = u8::try_from(self.dow & 0x7f).unwrap_or_default();
        match (self.dom_star, self.dow_star) {
            (true, _) => Some(week),
            (false, true) => (self.dom == ALL_DAYS).then_some(week),
            (false, false) if self.dom == ALL_DAYS || week == 0x7f => Some(0x7f),
            (false, false) => (self.dom == 0).then_some(week),
        }
    }

    /// Whether the schedule leaves some hour of the day out, so that its time zone matters.
    #[must_use]
    pub fn restricts_hours(&self) -> bool {
        self.hour != 0xff_ffff
    }

    /// With a restricted day field: star in one of them means both must match, else either does.
    fn day_matches(&self, day: i64, mday: u8) -> bool {
        let dom = self.dom & (1 << mday) != 0;
        let dow = self.dow & (1 << weekday(day)) != 0;
        match self.dom_star || self.dow_star {
            true => dom && dow,
            false => dom || dow,
        }
    }

    fn minute_matches(&self, minute_of_day: i64) -> bool {
        self.hour & (1 << (minute_of_day / 60)) != 0
            && self.minute & (1 << (minute_of_day % 60)) != 0
    }
}

/// The bits of one field and whether it counts as unrestricted (the library's star bit).
fn read_field(text: &str, field: FieldName) -> Result<(u64, bool), CronError> {
    let (mut bits, mut star) = (0, false);
    for item in text.split(',').filter(|i| !i.is_empty()) {
        let (b, s) = read_item(item, field).map_err(|problem| CronError::Field {
            field,
            text: item.to_owned(),
            problem,
        })?;
        bits |= b;
        star |= s;
    }
    Ok((bits, star))
}

fn read_item(item: &str, field: FieldName) -> Result<(u64, bool), Problem> {
    let (low, high) = field.bounds();
    let (low, high) = (u64::from(low), u64::from(high));
    let parts: Vec<&str> = item.split('/').collect();
    let range: Vec<&str> = parts[0].split('-').collect();
    let mut star = matches!(range[0], "*" | "?");
    let (start, mut end) = match range.as_slice() {
        // The library ignores what follows a star: `*-7` is `*`.
        _ if star => (low, high),
        [one] => {
            let value = read_value(one, field)?;
            (value, value)
        }
        [from, to] => (read_value(from, field)?, read_value(to, field)?),
        _ => return Err(Problem::TooManyParts),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if range.len() == 1 {
                end = high;
            }
            read_number(step)?
        }
        _ => return Err(Problem::TooManyParts),
    };
    star &= step <= 1;
    if start < low {
        return Err(Problem::BelowMinimum);
    }
    if end > high || start > high {
        return Err(Problem::AboveMaximum);
    }
    if start > end {
        return Err(Problem::Backwards);
    }
    if step == 0 {
        return Err(Problem::ZeroStep);
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step).fold(0, |bits, v| bits | 1 << v);
    Ok((bits, star))
}

fn read_value(text: &str, field: FieldName) -> Result<u64, Problem> {
    let (low, _) = field.bounds();
    let named = field.names().iter().zip(u64::from(low)..);
    match named
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
    {
        Some((_, value)) => Ok(value),
        None => read_number(text),
    }
}

/// Go's `Atoi` without negative numbers: an optional plus and digits within 63 bits.
fn read_number(text: &str) -> Result<u64, Problem> {
    let number: i64 = text.parse().map_err(|_| Problem::NotANumber)?;
    u64::try_from(number).map_err(|_| Problem::NotANumber)
}

/// Whether the CRD's pattern lets the schedule through:
/// `^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`.
/// The first half is a mere prefix, the second only needs four blanks with something around them,
/// and no line end after the last field.
#[must_use]
pub fn crd_accepts(text: &str) -> bool {
    const WORDS: [&str; 7] = [
        "annually", "yearly", "monthly", "weekly", "daily", "midnight", "hourly",
    ];
    if let Some(rest) = text.strip_prefix('@')
        && WORDS.iter().any(|w| rest.starts_with(w))
    {
        return true;
    }
    // Bit k: inside the k-th `.+`; `fresh`: right before it. The pattern may begin anywhere.
    let (mut inside, mut fresh) = (0_u8, 1_u8);
    for c in text.chars() {
        let blank = matches!(c, ' ' | '\t' | '\n' | '\u{c}' | '\r');
        let moved = if blank { inside << 1 & 0b1_1111 } else { 0 };
        inside = if c == '\n' { 0 } else { inside | fresh };
        fresh = moved | 1;
    }
    inside & 0b1_0000 != 0
}

/// A repaired schedule that parses, for mistakes with one certain meaning; `None` if the text is
/// fine or its meaning is open. Repairs: a `TZ=UTC`/`CRON_TZ=UTC` prefix is dropped, `@Daily`
/// is lowered, weekday `7` becomes `0`, backward or Sunday-ended weekday ranges become lists
/// (`sat-sun` -> `sat,sun`), full day and month names are shortened, and a weekday field that
/// names the whole week (`1-7`) becomes `*`, but only when the day of month is `*`.
#[must_use]
pub fn suggest(text: &str) -> Option<String> {
    if Schedule::parse(text).is_ok() {
        return None;
    }
    let mut body = text.trim();
    for prefix in ["TZ=UTC", "CRON_TZ=UTC"] {
        if let Some(rest) = body.strip_prefix(prefix)
            && rest.starts_with(char::is_whitespace)
        {
            body = rest.trim_start();
            break;
        }
    }
    let out = if body.starts_with('@') {
        body.to_ascii_lowercase()
    } else {
        let fields: Vec<&str> = body.split_whitespace().collect();
        let &[minute, hour, dom, month, dow] = fields.as_slice() else {
            return None;
        };
        let dow = repair_weekdays(dow, dom)?;
        format!(
            "{minute} {hour} {dom} {} {dow}",
            shorten(month, FieldName::Month)
        )
    };
    Schedule::parse(&out).is_ok().then_some(out)
}

fn repair_weekdays(text: &str, dom: &str) -> Option<String> {
    if read_field(text, FieldName::DayOfWeek).is_ok() {
        return Some(text.to_owned());
    }
    if matches!(text, "1-7" | "0-7") {
        return matches!(dom, "*" | "?").then(|| "*".to_owned());
    }
    let mut items: Vec<String> = Vec::new();
    for item in shorten(text, FieldName::DayOfWeek).split(',') {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let day = |t: &str| match t {
            "7" => Some(7),
            _ => read_value(t, FieldName::DayOfWeek).ok().filter(|v| *v < 7),
        };
        match (day(from), day(to)) {
            (Some(a), Some(b)) if a > b || b == 7 || a == 7 => {
                let count = (b + 7 - a) % 7;
                let named = from.bytes().all(|c| c.is_ascii_alphabetic());
                for v in a..=a + count {
                    let v = v % 7;
                    let name = WEEKDAYS.get(usize::try_from(v).ok()?)?;
                    let name = if named {
                        (*name).to_owned()
                    } else {
                        v.to_string()
                    };
                    if !items.contains(&name) {
                        items.push(name);
                    }
                }
            }
            _ => items.push(item.to_owned()),
        }
    }
    Some(items.join(","))
}

/// Replaces full English names by the three letters that the library knows.
fn shorten(text: &str, field: FieldName) -> String {
    const FULL: [&str; 19] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let full = if field == FieldName::Month {
        &FULL[7..]
    } else {
        &FULL[..7]
    };
    let mut out = String::new();
    for piece in text.split_inclusive(['-', ',', '/']) {
        let (word, end) = piece.split_at(piece.trim_end_matches(['-', ',', '/']).len());
        let known = full.iter().any(|n| n.eq_ignore_ascii_case(word));
        out.push_str(if known { &word[..3] } else { word });
        out.push_str(end);
    }
    out
}

/// Days since 1970-01-01 of a civil date (proleptic Gregorian).
#[must_use]
pub fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), i64::from(month));
    let yoe = year.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// Year, month (1-12) and day (1-31) of a day count since 1970-01-01.
#[must_use]
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
#[must_use]
pub fn weekday(days: i64) -> u8 {
    u8::try_from((days + 4).rem_euclid(7)).unwrap_or_default()
}

fn days_in_month(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(y: i64, mo: u8, d: u8, h: i64, mi: i64) -> i64 {
        days_from_civil(y, mo, d) * DAY + h * 60 + mi
    }

    fn s(text: &str) -> Schedule {
        Schedule::parse(text).unwrap()
    }

    #[test]
    fn table_accepted() {
        for text in [
            "0 9 * * 1-5",
            "0 9 * * MON-FRI",
            "0 9 * * mon-fri",
            "0 9 * * Mon-Fri",
            "0 9 * * sat,sun",
            "? ? ? ? ?",
            "0 */90 * * *",
            "1/2 * * * *",
            "  0   9\t* *  * ",
            "@yearly",
            "@annually",
            "@monthly",
            "@weekly",
            "@daily",
            "@midnight",
            "@hourly",
            "@daily ",
            "0 9 * JAN-mar *",
            "*-7 * * * *",
            "1,,2 * * * *",
            "+5 * * * *",
        ] {
            assert!(Schedule::parse(text).is_ok(), "{text}");
            assert_eq!(suggest(text), None);
        }
        assert_eq!(s("0 */90 * * *").minutes_of_day().collect::<Vec<_>>(), [0]);
        assert_eq!(
            s("0 20/2 * * *").minutes_of_day().collect::<Vec<_>>(),
            [1200, 1320]
        );
        assert_eq!(s("1/2 0 * * *").minutes_of_day().count(), 30);
        assert_eq!(s("@daily"), s("0 0 * * *"));
    }

    #[test]
    fn table_refused_at_run_time() {
        use FieldName::{DayOfMonth, DayOfWeek, Hour, Minute, Month};
        use Problem::{AboveMaximum, Backwards, BelowMinimum, NotANumber, TooManyParts, ZeroStep};
        for (text, field, item, problem) in [
            ("0 9 * * 7", DayOfWeek, "7", AboveMaximum),
            ("0 9 * * 1-7", DayOfWeek, "1-7", AboveMaximum),
            ("0 9 * * sat-sun", DayOfWeek, "sat-sun", Backwards),
            ("0 9 * * 5-1", DayOfWeek, "5-1", Backwards),
            ("0 24 * * *", Hour, "24", AboveMaximum),
            ("60 * * * *", Minute, "60", AboveMaximum),
            ("0 9 * * monday", DayOfWeek, "monday", NotANumber),
            ("0 9 L * *", DayOfMonth, "L", NotANumber),
            ("0 9 15W * *", DayOfMonth, "15W", NotANumber),
            ("0 9 * * 1#2", DayOfWeek, "1#2", NotANumber),
            ("H 9 * * *", Minute, "H", NotANumber),
            ("*/0 * * * *", Minute, "*/0", ZeroStep),
            ("0 9 * 13 *", Month, "13", AboveMaximum),
            ("0 9 0 * *", DayOfMonth, "0", BelowMinimum),
            ("0 9 32 * *", DayOfMonth, "32", AboveMaximum),
            ("0 9 * * 1,9,2", DayOfWeek, "9", AboveMaximum),
            ("0 1-2-3 * * *", Hour, "1-2-3", TooManyParts),
            ("*/2/2 * * * *", Minute, "*/2/2", TooManyParts),
            ("0 9 * * -1", DayOfWeek, "-1", NotANumber),
        ] {
            let error = CronError::Field {
                field,
                text: item.to_owned(),
                problem,
            };
            assert_eq!(Schedule::parse(text), Err(error), "{text}");
            assert!(crd_accepts(text), "{text}");
        }
        assert_eq!(
            Schedule::parse("0 0 9 * * *"),
            Err(CronError::FieldCount { found: 6 })
        );
        for text in ["TZ=UTC 0 9 * * *", "CRON_TZ=Asia/Seoul 0 9 * * *"] {
            assert!(matches!(Schedule::parse(text), Err(CronError::TimeZone(_))));
            assert!(crd_accepts(text));
        }
        for text in ["@dailyfoo", "@daily 9 * *"] {
            assert!(matches!(
                Schedule::parse(text),
                Err(CronError::Descriptor(_))
            ));
            assert!(crd_accepts(text));
        }
    }

    #[test]
    fn table_refused_by_crd() {
        for text in [
            "@every 1h",
            "@reboot",
            "@Daily",
            " @daily",
            "0 9 * *",
            "",
            "0 9 * * *\n",
            "0  9 *",
        ] {
            assert!(!crd_accepts(text), "{text}");
        }
        assert!(crd_accepts(" 0 9 * * * "));
        assert!(crd_accepts("x\n0 9 * * *"));
        assert!(
            crd_accepts("0 9   * *"),
            "three blanks hide a missing field"
        );
        assert!(matches!(
            Schedule::parse("@every 1h"),
            Err(CronError::Descriptor(_))
        ));
    }

    #[test]
    fn either_or_rule_and_star_bit() {
        // 2026-02-13 is a Friday, 2026-02-15 a Sunday.
        let (fri13, sun15) = (days_from_civil(2026, 2, 13), days_from_civil(2026, 2, 15));
        assert_eq!((weekday(fri13), weekday(sun15)), (5, 0));
        let either = s("0 0 15 * 5");
        assert!(either.fires_on(fri13) && either.fires_on(sun15) && !either.fires_on(fri13 + 1));
        let both = s("0 0 15 * *");
        assert!(!both.fires_on(fri13) && both.fires_on(sun15));
        for unrestricted in ["*", "?", "*/1", "3,*"] {
            assert!(
                !s(&format!("0 0 15 * {unrestricted}")).fires_on(fri13),
                "{unrestricted}"
            );
        }
        for restricted in ["0-6", "*/2"] {
            assert!(
                s(&format!("0 0 14 * {restricted}")).fires_on(sun15),
                "{restricted}"
            );
        }
        assert!(
            s("0 0 1-31 * 1").fires_on(fri13),
            "1-31 counts as restricted"
        );
        assert_eq!(s("0 0 1-31 * 1").weekly_days(), Some(0x7f));
        assert_eq!(s("0 0 * * MON-FRI").weekly_days(), Some(0b011_1110));
        assert_eq!(s("0 0 1 * *").weekly_days(), None);
        assert_eq!(s("0 0 * 1-6 *").weekly_days(), None);
        assert_eq!(s("0 0 15 * 5").weekly_days(), None);
    }

    #[test]
    fn next_hits() {
        let base = at(2026, 2, 13, 8, 59);
        assert_eq!(s("0 9 * * *").next(base), Some(base + 1));
        assert_eq!(s("0 9 * * *").next(base + 1), Some(base + 1 + DAY));
        assert_eq!(s("0 9 * * 1").next(base), Some(at(2026, 2, 16, 9, 0)));
        assert_eq!(s("@yearly").next(base), Some(at(2027, 1, 1, 0, 0)));
        assert_eq!(s("0 0 29 2 *").next(base), Some(at(2028, 2, 29, 0, 0)));
        assert_eq!(s("0 0 29 2 *").next(at(2096, 3, 1, 0, 0)), None);
        assert_eq!(
            s("0 0 1 1 *").next(at(1960, 6, 1, 0, 0)),
            Some(at(1961, 1, 1, 0, 0))
        );
        assert!(s("* * * * *").next(i64::MAX).is_some() && s("* * * * *").next(i64::MIN).is_some());
        for text in [
            "0 9 31 2 *",
            "0 9 30 2 *",
            "0 9 31 4,6,9,11 *",
            ", * * * *",
            "0 0 , * *",
        ] {
            assert!(s(text).never_fires(), "{text}");
            assert_eq!(s(text).next(base), None, "{text}");
        }
        for text in ["0 9 31 2 1", "0 9 29 2 *", "0 0 , * 1", "0 9 31 * *"] {
            assert!(!s(text).never_fires(), "{text}");
            assert!(s(text).next(base).is_some(), "{text}");
        }
    }

    #[test]
    fn suggestions() {
        for (text, out) in [
            ("0 9 * * 7", Some("0 9 * * 0")),
            ("0 9 * * 6,7", Some("0 9 * * 6,0")),
            ("0 9 * * 6-7", Some("0 9 * * 6,0")),
            ("0 9 * * 1-7", Some("0 9 * * *")),
            ("0 9 15 * 1-7", None),
            ("0 9 * * sat-sun", Some("0 9 * * sat,sun")),
            ("0 9 * * 5-1", Some("0 9 * * 5,6,0,1")),
            ("0 9 * * monday-Friday", Some("0 9 * * mon-Fri")),
            ("0 9 * january *", Some("0 9 * jan *")),
            ("TZ=UTC 0 9 * * *", Some("0 9 * * *")),
            ("CRON_TZ=UTC 0 9 * * 7", Some("0 9 * * 0")),
            ("CRON_TZ=UTC @daily", Some("@daily")),
            ("TZ=Asia/Seoul 0 9 * * *", None),
            ("@Daily", Some("@daily")),
            ("0 24 * * *", None),
            ("0 0 9 * * *", None),
            ("0 9 * *", None),
        ] {
            assert_eq!(suggest(text).as_deref(), out, "{text}");
        }
    }

    #[test]
    fn civil_round_trip() {
        for day in (-800_000..800_000).step_by(13) {
            let (y, m, d) = civil_from_days(day);
            assert_eq!(days_from_civil(y, m, d), day);
        }
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2028, 1, 3), 21_186);
        assert_eq!(weekday(21_186), 1);
    }
}
