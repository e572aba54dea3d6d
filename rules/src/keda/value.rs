//! Parses metadata values as KEDA does: JSON numbers, Go's booleans and durations.

use crate::facts::duration::GoDuration;
use crate::facts::text::is_digits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    String,
    Int,
    /// A non-negative integer.
    Uint,
    /// A number, which may have a fraction.
    Float,
    Bool,
    Duration,
    /// A list of strings between separators.
    List,
    /// A list of integers, or of ranges of integers, between separators.
    Ints,
    /// A list of `key=value` pairs between separators.
    Map,
    /// URL parameters. The parser is lenient, so they are never reported.
    Params,
}

impl KeyType {
    pub fn named(name: &str) -> Option<KeyType> {
        Some(match name {
            "string" => KeyType::String,
            "int" => KeyType::Int,
            "uint" => KeyType::Uint,
            "float" => KeyType::Float,
            "bool" => KeyType::Bool,
            "duration" => KeyType::Duration,
            "list" => KeyType::List,
            "ints" => KeyType::Ints,
            "map" => KeyType::Map,
            "params" => KeyType::Params,
            _ => return None,
        })
    }

    pub fn is_number(self) -> bool {
        matches!(self, KeyType::Int | KeyType::Uint | KeyType::Float)
    }

    /// A description of the expected value if `text` cannot be parsed. `None` if it can.
    pub fn rejects(self, text: &str, separator: char, ranges: bool) -> Option<&'static str> {
        let fine = match self {
            KeyType::String | KeyType::List | KeyType::Params => true,
            // JSON's null leaves the number unchanged.
            KeyType::Int | KeyType::Uint | KeyType::Float if text == "null" => true,
            KeyType::Int => whole(text).is_some(),
            KeyType::Uint => whole(text).is_some_and(|n| n >= 0),
            KeyType::Float => number(text).is_some(),
            KeyType::Bool => boolean(text).is_some(),
            KeyType::Duration => GoDuration::parse(text)
                .map_or_else(|_| text.parse::<i64>().is_ok_and(|ms| ms >= 0), |d| d.nanoseconds() >= 0),
            KeyType::Ints => text.split(separator).map(str::trim).all(|item| match item.split_once('-') {
                Some((from, to)) if ranges => whole(from).is_some() && whole(to).is_some(),
                _ => whole(item).is_some(),
            }),
            KeyType::Map => text.split(separator).all(|item| item.matches('=').count() == 1),
        };
        if fine {
            return None;
        }
        Some(match self {
            KeyType::Int => "a whole number",
            KeyType::Uint => "a whole number from 0 up",
            KeyType::Float => "a plain number",
            KeyType::Bool => "`true` or `false`",
            KeyType::Duration => "a duration such as `30s`, or milliseconds",
            KeyType::Ints => "a list of whole numbers",
            KeyType::Map => "a list of `key=value` with one `=` each",
            KeyType::String | KeyType::List | KeyType::Params => "text",
        })
    }
}

/// Parses a number in JSON's grammar: no leading `+`, zero or dot, and no percent sign.
pub fn number(text: &str) -> Option<f64> {
    let rest = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent_fine = exponent.is_none_or(|e| is_digits(e.strip_prefix(['+', '-']).unwrap_or(e)));
    if !is_digits(whole)
        || (whole.len() > 1 && whole.starts_with('0'))
        || !fraction.is_none_or(is_digits)
        || !exponent_fine
    {
        return None;
    }
    text.parse::<f64>().ok().filter(|n| n.is_finite())
}

/// Parses an integer in JSON's grammar that fits into 64 bits: `5.0` and `1e1` are not integers.
pub fn whole(text: &str) -> Option<i64> {
    number(text)?;
    text.parse().ok()
}

/// Parses a boolean like Go's `strconv.ParseBool`.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The number that a text in another notation probably means: `70%`, `+70`, `070`, `.5`.
pub(crate) fn plain_number(text: &str) -> Option<String> {
    let body = text.trim().trim_end_matches('%').trim_start_matches('+');
    let (sign, digits) = match body.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", body),
    };
    let stripped = digits.trim_start_matches('0');
    let (lead, rest) = if stripped.is_empty() || stripped.starts_with(['.', 'e', 'E']) {
        ("0", stripped)
    } else {
        ("", stripped)
    };
    let plain = format!("{sign}{lead}{}", rest.strip_suffix('.').unwrap_or(rest));
    number(&plain).map(|_| plain)
}

/// The result of Go's `strconv.ParseFloat`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GoFloat {
    Value(f64),
    /// A hexadecimal notation, which this parser does not evaluate.
    Unsure,
    /// Not a number.
    Invalid,
}

impl GoFloat {
    /// Parses a text as `strconv.ParseFloat` does.
    pub(crate) fn parse(text: &str) -> GoFloat {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        match text.parse::<f64>() {
            // Go rejects a number that does not fit into 64 bits, but accepts the words for infinity.
            Ok(n) if n.is_infinite() && text.bytes().any(|b| b.is_ascii_digit()) => GoFloat::Invalid,
            Ok(n) => GoFloat::Value(n),
            Err(_) if digits.starts_with("0x") || digits.starts_with("0X") => GoFloat::Unsure,
            Err(_) => GoFloat::Invalid,
        }
    }
}
