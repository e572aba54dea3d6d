//! Durations as Karpenter and Go parse them.
//!
//! Two grammars: Go's `time.ParseDuration` ([`GoDuration`]) for annotations and flags, and the narrower CRD
//! patterns of NodePool fields ([`parse`] with a [`DurationField`]). [`suggest`] only rewrites spellings
//! whose length is unambiguous; there are no months and years.

use std::fmt;

use crate::platform::Version;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    Empty,
    /// A number without unit; contains the text of the number.
    MissingUnit(String),
    /// A unit that the grammar does not have (`d`, `w`, `ms` in a NodePool); contains the unit.
    UnknownUnit(String),
    /// `Never` where a real duration is required.
    NeverNotAllowed,
    /// Does not match the pattern of the field for another reason (fraction, sign, blank, order).
    Syntax,
    /// Longer than Go can represent (about 292 years, 2562047h47m16s). In a NodePool the CRD accepts it, and
    /// Karpenter can then decode **no** NodePool.
    Overflow,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a duration may not be empty"),
            Self::MissingUnit(n) => write!(f, "the number {n:?} has no unit"),
            Self::UnknownUnit(u) => write!(f, "unknown unit {u:?}"),
            Self::NeverNotAllowed => f.write_str("Never is not allowed here"),
            Self::Syntax => f.write_str("not a duration of the form this field takes"),
            Self::Overflow => f.write_str("longer than Go's largest duration (2562047h47m16s)"),
        }
    }
}

impl std::error::Error for DurationError {}

/// A length of time as Go has it, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// Parses what Go's `time.ParseDuration` accepts: optional sign, then one or more of number (fractions
    /// allowed) and unit (`ns us µs ms s m h`), or a bare `0`.
    ///
    /// # Errors
    /// [`DurationError`], never `NeverNotAllowed`; `Overflow` beyond 63 bits of nanoseconds.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(match text.is_empty() {
                true => DurationError::Empty,
                false => DurationError::Syntax,
            });
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (part, tail) = go_part(rest)?;
            total = limit(total.checked_add(part))?;
            rest = tail;
        }
        if negative {
            return Ok(Self(0_i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).map(Self).map_err(|_| DurationError::Overflow)
    }

    /// The length in nanoseconds; may be negative.
    pub fn nanoseconds(self) -> i64 {
        self.0
    }

    /// The length in whole seconds, fractions dropped; may be negative.
    pub fn seconds(self) -> i64 {
        self.0 / 1_000_000_000
    }

    /// Whether the length is above zero, as Karpenter 1.12 requires for a `do-not-disrupt` value.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }
}

/// 2^63 nanoseconds, the limit that Go checks while it adds terms.
const LIMIT: u64 = 1 << 63;

fn limit(value: Option<u64>) -> Result<u64, DurationError> {
    value.filter(|v| *v <= LIMIT).ok_or(DurationError::Overflow)
}

/// The first number with its unit, in nanoseconds, and the rest of the text.
fn go_part(text: &str) -> Result<(u64, &str), DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = text.split_at(digits);
    let mut fraction = "";
    if let Some(tail) = rest.strip_prefix('.') {
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        (fraction, rest) = tail.split_at(digits);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Syntax);
    }
    let mut value = 0_u64;
    for digit in whole.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        value = limit(next)?;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let unit: u64 = match name {
        "" => {
            let number = &text[..text.len() - rest.len()];
            return Err(DurationError::MissingUnit(number.to_owned()));
        }
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => return Err(DurationError::UnknownUnit(other.to_owned())),
    };
    let mut value = limit(value.checked_mul(unit))?;
    let (numerator, scale) = leading_fraction(fraction);
    if numerator > 0 {
        let extra = (numerator as f64 * (unit as f64 / scale)) as u64;
        value = limit(value.checked_add(extra))?;
    }
    Ok((value, rest))
}

/// The digits of a fraction as a number and its power of ten; digits that do not fit are dropped, as in Go.
fn leading_fraction(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        if value > (LIMIT - 1) / 10 {
            break;
        }
        let next = value * 10 + u64::from(digit - b'0');
        if next > LIMIT {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationField {
    /// `spec.template.spec.expireAfter`: hours, minutes, seconds, or `Never`.
    ExpireAfter,
    /// `spec.disruption.consolidateAfter`: hours, minutes, seconds, or `Never`.
    ConsolidateAfter,
    /// `spec.template.spec.terminationGracePeriod`: hours, minutes, seconds; `Never` is rejected.
    TerminationGracePeriod,
    /// `spec.disruption.budgets[].duration`: `8h`, `30m` or `1h30m`, each optionally with `0s`.
    BudgetDuration,
}

impl DurationField {
    /// Whether the field takes `Never`.
    pub fn allows_never(self) -> bool {
        matches!(self, Self::ExpireAfter | Self::ConsolidateAfter)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NillableDuration {
    Never,
    /// A length in seconds.
    Seconds(u64),
}

impl NillableDuration {
    /// The length in seconds, `None` for `Never`.
    pub fn seconds(self) -> Option<u64> {
        match self {
            Self::Never => None,
            Self::Seconds(s) => Some(s),
        }
    }
}

/// Parses a NodePool duration: it has to match the pattern of the CRD, and Go has to decode it
/// (<https://karpenter.sh/docs/concepts/nodepools/>).
///
/// # Errors
/// [`DurationError::Overflow`] if the CRD accepts the text but Karpenter cannot decode it. Any other variant
/// means that the API server rejects the object.
pub fn parse(field: DurationField, text: &str) -> Result<NillableDuration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text == "Never" {
        return match field.allows_never() {
            true => Ok(NillableDuration::Never),
            false => Err(DurationError::NeverNotAllowed),
        };
    }
    let mut rest = text;
    let mut units = String::new();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(DurationError::Syntax);
        }
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        match unit {
            "" if tail.is_empty() => return Err(DurationError::MissingUnit(number.to_owned())),
            "" => return Err(DurationError::Syntax),
            // The pattern of a budget allows seconds only as a literal `0s` at the end.
            "s" if field == DurationField::BudgetDuration && (number != "0" || units.is_empty()) => {
                return Err(DurationError::UnknownUnit(unit.to_owned()));
            }
            "s" | "m" | "h" => units.push_str(unit),
            _ => return Err(DurationError::UnknownUnit(unit.to_owned())),
        }
        rest = tail;
    }
    if field == DurationField::BudgetDuration
        && !matches!(units.as_str(), "h" | "m" | "hm" | "hs" | "ms" | "hms")
    {
        return Err(DurationError::Syntax);
    }
    let seconds = GoDuration::parse(text)?.seconds();
    Ok(NillableDuration::Seconds(seconds.unsigned_abs()))
}

/// The version of Karpenter from which the patterns of `expireAfter` and `consolidateAfter` are anchored at
/// both ends.
const ANCHORED_SINCE: Version = Version::new(1, 4);

/// Whether the unanchored patterns of older versions accept a text that [`parse`] rejects, because it starts
/// with a duration or ends in `Never`: `1hr`, which Karpenter then cannot decode, or `500ms`, which it can.
pub fn passes_unanchored_pattern(field: DurationField, text: &str, karpenter: Version) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let begins = unit.len() < text.len() && unit.starts_with(['s', 'm', 'h']);
    karpenter < ANCHORED_SINCE && field.allows_never() && (begins || text.ends_with("Never"))
}

/// A valid text of the same length, if `text` is rejected but its meaning is certain: `30d` -> `720h`, `1w`
/// -> `168h`, `1.5h` -> `1h30m`, `never` -> `Never`, `90 s`. `None` if the text is valid, if it contains
/// months or years, has no unit, or if the field cannot represent the length (budgets have no seconds).
pub fn suggest(field: DurationField, text: &str) -> Option<String> {
    if parse(field, text).is_ok() {
        return None;
    }
    let lower = text.trim().to_ascii_lowercase();
    if lower == "never" {
        return field.allows_never().then(|| "Never".to_owned());
    }
    // `1M` may mean a month; an empty text has no meaning.
    if lower.is_empty() || text.contains('M') {
        return None;
    }
    let seconds = loose_seconds(&lower)?;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if field == DurationField::BudgetDuration && rest != 0 {
        return None;
    }
    let mut out = String::new();
    for (amount, unit) in [(hours, 'h'), (minutes, 'm'), (rest, 's')] {
        if amount > 0 {
            out.push_str(&format!("{amount}{unit}"));
        }
    }
    if out.is_empty() {
        let zero = if field == DurationField::BudgetDuration { "0m" } else { "0s" };
        out.push_str(zero);
    }
    parse(field, &out).is_ok().then_some(out)
}

/// Parses numbers (with up to 9 decimals) and common units; the sum must be whole seconds.
fn loose_seconds(text: &str) -> Option<u64> {
    const PARTS: u64 = 1_000_000_000;
    let mut total = 0_u128;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, mut tail) = rest.split_at(digits);
        let mut amount = u128::from(number.parse::<u64>().ok()?) * u128::from(PARTS);
        if let Some(after) = tail.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 || digits > 9 {
                return None;
            }
            let scale = 10_u64.pow(9 - u32::try_from(digits).ok()?);
            amount += u128::from(after[..digits].parse::<u64>().ok()? * scale);
            tail = &after[digits..];
        }
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let unit = match &tail[..end] {
            "w" | "week" | "weeks" => 604_800,
            "d" | "day" | "days" => 86_400,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            _ => return None,
        };
        total = total.checked_add(amount.checked_mul(unit)?)?;
        rest = tail[end..].trim_start();
    }
    let whole = total.is_multiple_of(u128::from(PARTS));
    whole.then(|| u64::try_from(total / u128::from(PARTS)).ok())?
}

/// Formats a length for a NodePool: in hours if it is a whole number of them, else in minutes, rounded up.
pub fn format_hours(seconds: i64) -> String {
    if seconds % 3600 == 0 { format!("{}h", seconds / 3600) } else { format!("{}m", (seconds + 59) / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DurationField::{BudgetDuration as Budget, ConsolidateAfter, ExpireAfter, TerminationGracePeriod};

    #[test]
    fn go_grammar() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("1h", 3_600_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("-1m30s", -90_000_000_000),
            ("+5s", 5_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1us", 1000),
            ("1µs", 1000),
            ("1μs", 1000),
            ("3ms2ns", 3_000_002),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("2562047h47m16s", 9_223_372_036_000_000_000),
        ] {
            assert_eq!(GoDuration::parse(text).map(GoDuration::nanoseconds), Ok(nanos), "{text}");
        }
        use DurationError::{Empty, MissingUnit, Overflow, Syntax, UnknownUnit};
        for (text, error) in [
            ("", Empty),
            ("-", Syntax),
            ("3", MissingUnit("3".into())),
            ("1h3", MissingUnit("3".into())),
            (".", Syntax),
            ("s", Syntax),
            (".s", Syntax),
            ("1d", UnknownUnit("d".into())),
            ("1 h", UnknownUnit(" h".into())),
            ("1h ", UnknownUnit("h ".into())),
            ("1H", UnknownUnit("H".into())),
            ("9223372036854775808ns", Overflow),
            ("2562048h", Overflow),
            ("99999999999999999999h", Overflow),
        ] {
            assert_eq!(GoDuration::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn nodepool_fields() {
        for (field, text, seconds) in [
            (ExpireAfter, "720h", 2_592_000),
            (ExpireAfter, "336h", 1_209_600),
            (ExpireAfter, "0s", 0),
            (ExpireAfter, "1h1h5s3m", 7_385),
            (ConsolidateAfter, "30m", 1_800),
            (TerminationGracePeriod, "90s", 90),
            (ExpireAfter, "2562047h", 9_223_369_200),
            (Budget, "8h", 28_800),
            (Budget, "30m", 1_800),
            (Budget, "1h30m", 5_400),
            (Budget, "8h0s", 28_800),
            (Budget, "8h0m0s", 28_800),
            (Budget, "30m0s", 1_800),
            (Budget, "0m", 0),
        ] {
            assert_eq!(parse(field, text), Ok(NillableDuration::Seconds(seconds)), "{text}");
        }
        assert_eq!(parse(ExpireAfter, "Never"), Ok(NillableDuration::Never));
        assert_eq!(parse(ConsolidateAfter, "Never").map(NillableDuration::seconds), Ok(None));
    }

    #[test]
    fn nodepool_refusals() {
        use DurationError::{Empty, MissingUnit, NeverNotAllowed, Overflow, Syntax, UnknownUnit};
        let unit = |u: &str| UnknownUnit(u.to_owned());
        for (field, text, error) in [
            (TerminationGracePeriod, "Never", NeverNotAllowed),
            (Budget, "Never", NeverNotAllowed),
            (ExpireAfter, "", Empty),
            (ExpireAfter, "never", Syntax),
            (ExpireAfter, "30d", unit("d")),
            (ExpireAfter, "1w", unit("w")),
            (ExpireAfter, "100ms", unit("ms")),
            (ExpireAfter, "1.5h", Syntax),
            (ExpireAfter, "-1h", Syntax),
            (ExpireAfter, "+1h", Syntax),
            (ExpireAfter, "1h ", Syntax),
            (ExpireAfter, "1h\n", Syntax),
            (ExpireAfter, "720", MissingUnit("720".into())),
            (ExpireAfter, "0", MissingUnit("0".into())),
            (Budget, "90s", unit("s")),
            (Budget, "0s", unit("s")),
            (Budget, "1d", unit("d")),
            (Budget, "1.5h", Syntax),
            (Budget, "30m1h", Syntax),
            (Budget, "1h1h", Syntax),
            (Budget, "1h00s", unit("s")),
            (ExpireAfter, "2562048h", Overflow),
            (ExpireAfter, "2562047h47m17s", Overflow),
            (Budget, "2562048h", Overflow),
            (ConsolidateAfter, "99999999999999999999s", Overflow),
        ] {
            assert_eq!(parse(field, text), Err(error), "{text}");
        }
    }

    #[test]
    fn suggestions() {
        for (field, text, out) in [
            (ExpireAfter, "30d", Some("720h")),
            (ExpireAfter, "1w", Some("168h")),
            (ExpireAfter, "1d12h", Some("36h")),
            (ExpireAfter, "14 days", Some("336h")),
            (ExpireAfter, "1.5h", Some("1h30m")),
            (ExpireAfter, "720H", Some("720h")),
            (ExpireAfter, " 720h ", Some("720h")),
            (ExpireAfter, "never", Some("Never")),
            (TerminationGracePeriod, "never", None),
            (TerminationGracePeriod, "Never", None),
            (ExpireAfter, "720h", None),
            (ExpireAfter, "720", None),
            (ExpireAfter, "1M", None),
            (ExpireAfter, "1y", None),
            (ExpireAfter, "", None),
            (ExpireAfter, "100ms", None),
            (ExpireAfter, "2562048h", None),
            (ExpireAfter, "0.0001s", None),
            (Budget, "1d", Some("24h")),
            (Budget, "90s", None),
            (Budget, "120s", Some("2m")),
            (Budget, "0s", Some("0m")),
            (Budget, "1.5h", Some("1h30m")),
        ] {
            assert_eq!(suggest(field, text).as_deref(), out, "{text}");
        }
    }
}
