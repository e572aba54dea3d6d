//! Parsing of the five fields of a schedule, and the errors in them.

use std::fmt;

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

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
pub(super) const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl FieldName {
    /// Smallest and largest value.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronFieldError {
    /// Not a number and not a known name (`monday`, `L`, `1#2`, `H`).
    NotANumber,
    /// Below the field's minimum (day 0).
    BelowMinimum,
    /// Above the field's maximum (weekday 7, hour 24, minute 60).
    AboveMaximum,
    /// The range runs backwards (`5-1`, `sat-sun`).
    Backwards,
    ZeroStep,
    /// More than one hyphen or slash in one item.
    TooManyParts,
}

/// Why Karpenter cannot parse a schedule. With such a budget Karpenter disrupts no node of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronError {
    /// The text has a `TZ=` or `CRON_TZ=` prefix; contains that prefix.
    TimeZone(String),
    /// Starts with `@` but is not a descriptor that both CRD and library accept (`@Daily`, `@dailyfoo`,
    /// `@every 1h`, `@reboot`); contains the text.
    Descriptor(String),
    /// Not exactly five fields.
    FieldCount {
        found: usize,
    },
    Field {
        field: FieldName,
        text: String,
        problem: CronFieldError,
    },
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeZone(t) => write!(f, "own time zone prefix {t:?}: budgets are always UTC"),
            Self::Descriptor(d) => write!(f, "unknown descriptor {d:?}"),
            Self::FieldCount { found } => write!(f, "{found} fields instead of five"),
            Self::Field { field, text, problem } => {
                let (low, high) = field.bounds();
                match problem {
                    CronFieldError::NotANumber => write!(f, "{field} {text:?} is not a number or name"),
                    CronFieldError::BelowMinimum => write!(f, "{field} {text:?} is below {low}"),
                    CronFieldError::AboveMaximum => write!(f, "{field} {text:?} is above {high}"),
                    CronFieldError::Backwards => write!(f, "{field} range {text:?} runs backwards"),
                    CronFieldError::ZeroStep => write!(f, "{field} {text:?} has step 0"),
                    CronFieldError::TooManyParts => write!(f, "{field} {text:?} has too many - or /"),
                }
            }
        }
    }
}

impl std::error::Error for CronError {}

/// The bits of one field and whether it counts as unrestricted (the library's star bit).
pub(super) fn read_field(text: &str, field: FieldName) -> Result<(u64, bool), CronError> {
    // Most fields are a star.
    if text == "*" {
        let (low, high) = field.bounds();
        return Ok(((2 << high) - (1 << low), true));
    }
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

fn read_item(item: &str, field: FieldName) -> Result<(u64, bool), CronFieldError> {
    let (low, high) = field.bounds();
    let (low, high) = (u64::from(low), u64::from(high));
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (range, None),
    };
    let mut star = matches!(first, "*" | "?");
    let (start, end) = match last {
        // robfig/cron ignores the text after a star: `*-7` is `*`.
        _ if star => (low, high),
        Some(last) if last.contains('-') => return Err(CronFieldError::TooManyParts),
        Some(last) => (read_value(first, field)?, read_value(last, field)?),
        None => {
            let value = read_value(first, field)?;
            (value, if step.is_some() { high } else { value })
        }
    };
    let step = match step {
        None => 1,
        Some(step) if step.contains('/') => return Err(CronFieldError::TooManyParts),
        Some(step) => read_number(step)?,
    };
    star &= step <= 1;
    if start < low {
        return Err(CronFieldError::BelowMinimum);
    }
    if end > high || start > high {
        return Err(CronFieldError::AboveMaximum);
    }
    if start > end {
        return Err(CronFieldError::Backwards);
    }
    if step == 0 {
        return Err(CronFieldError::ZeroStep);
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step).fold(0, |bits, v| bits | 1 << v);
    Ok((bits, star))
}

pub(super) fn read_value(text: &str, field: FieldName) -> Result<u64, CronFieldError> {
    let (low, _) = field.bounds();
    let named = field.names().iter().zip(u64::from(low)..);
    match named.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        Some((_, value)) => Ok(value),
        None => read_number(text),
    }
}

/// Go's `Atoi` without negative numbers: an optional plus and digits within 63 bits.
fn read_number(text: &str) -> Result<u64, CronFieldError> {
    let number: i64 = text.parse().map_err(|_| CronFieldError::NotANumber)?;
    u64::try_from(number).map_err(|_| CronFieldError::NotANumber)
}

/// Whether the schedule matches the pattern of the CRD:
/// `^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`. The first
/// alternative matches a prefix; the second only requires four spaces between characters, and no line end
/// after the last field.
pub fn crd_accepts(text: &str) -> bool {
    const WORDS: [&str; 7] = ["annually", "yearly", "monthly", "weekly", "daily", "midnight", "hourly"];
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
