//! Resolution of YAML scalars as Kubernetes does it.
//!
//! `sigs.k8s.io/yaml` decodes with go-yaml v2, which resolves plain scalars by YAML 1.1 with some additions
//! from 1.2 (<https://github.com/kubernetes-sigs/yaml>). This module is independent of trees and spans.

use std::borrow::Cow;

/// A resolved scalar, as the API server sees it in JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// `null`, `~`, or empty.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites, in lower, title and upper case.
    Bool(bool),
    /// An integer in the range of `i64`.
    Int(i64),
    /// An integer above the range of `i64` and within that of `u64`.
    UInt(u64),
    /// Any other number. Infinities and NaN have no JSON form; the parser rejects them.
    Float(f64),
    Str(&'a str),
}

impl Scalar<'_> {
    /// The name of its type in messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "boolean",
            Scalar::Int(_) | Scalar::UInt(_) => "integer",
            Scalar::Float(_) => "number",
            Scalar::Str(_) => "string",
        }
    }

    /// Converts a float without a fraction to an integer, as in JSON Schema, up to the magnitude at which floats
    /// represent all integers. Other values are unchanged.
    pub fn or_integer(self) -> Self {
        match self {
            Scalar::Float(n) if n.fract() == 0.0 && n.abs() < 9e15 => Scalar::Int(n as i64),
            other => other,
        }
    }
}

/// The YAML tag of a scalar, as far as it affects resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagKind {
    None,
    Str,
    Bool,
    Int,
    Float,
    Null,
}

/// Resolves a plain (unquoted) scalar.
#[inline]
pub fn resolve_plain(text: &str) -> Scalar<'_> {
    // Most are long words.
    match text.as_bytes() {
        [b'a'..=b'z' | b'A'..=b'Z', ..] if text.len() > LONGEST_WORD => Scalar::Str(text),
        _ => resolve_short_or_number(text),
    }
}

/// The longest word that is no string: `false`.
const LONGEST_WORD: usize = 5;

fn resolve_short_or_number(text: &str) -> Scalar<'_> {
    let Some(&first) = text.as_bytes().first() else {
        return Scalar::Null;
    };
    match first {
        b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'o' | b'O' => {
            resolve_word(text).unwrap_or(Scalar::Str(text))
        }
        b'0'..=b'9' | b'+' | b'-' => {
            resolve_number(text).or_else(|| resolve_infinity(text)).unwrap_or(Scalar::Str(text))
        }
        b'.' => {
            resolve_infinity(text).or_else(|| float(text).map(Scalar::Float)).unwrap_or(Scalar::Str(text))
        }
        _ => Scalar::Str(text),
    }
}

/// Resolves a scalar with its tag; `plain` is false for quoted and block scalars.
pub(crate) fn resolve_tagged(text: &str, plain: bool, tag: TagKind) -> Scalar<'_> {
    match tag {
        TagKind::None if plain => resolve_plain(text),
        TagKind::None | TagKind::Str => Scalar::Str(text),
        TagKind::Null => Scalar::Null,
        TagKind::Bool | TagKind::Int => resolve_plain(text),
        TagKind::Float => match resolve_plain(text) {
            Scalar::Int(n) => Scalar::Float(n as f64),
            Scalar::UInt(n) => Scalar::Float(n as f64),
            other => other,
        },
    }
}

/// The JSON key for a scalar key; `None` for keys that `sigs.k8s.io/yaml` rejects: null, and integers above
/// the range of `i64`.
pub(crate) fn resolve_key(text: &str, plain: bool) -> Option<Cow<'_, str>> {
    if !plain {
        return Some(Cow::Borrowed(text));
    }
    match resolve_plain(text) {
        Scalar::Str(s) => Some(Cow::Borrowed(s)),
        Scalar::Null | Scalar::UInt(_) => None,
        Scalar::Bool(b) => Some(Cow::Borrowed(if b { "true" } else { "false" })),
        Scalar::Int(n) => Some(Cow::Owned(n.to_string())),
        Scalar::Float(f) if f.is_nan() => Some(Cow::Borrowed(".nan")),
        Scalar::Float(f) if f.is_infinite() => Some(Cow::Borrowed(if f > 0.0 { ".inf" } else { "-.inf" })),
        Scalar::Float(f) => Some(Cow::Owned(f.to_string())),
    }
}

fn resolve_word(text: &str) -> Option<Scalar<'_>> {
    Some(match text {
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        _ => return None,
    })
}

fn resolve_infinity(text: &str) -> Option<Scalar<'_>> {
    Some(Scalar::Float(match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        _ => return None,
    }))
}

fn resolve_number(text: &str) -> Option<Scalar<'_>> {
    let plain: Cow<'_, str> =
        if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, &plain[..]),
    };
    if let Some(magnitude) = magnitude(digits) {
        if negative {
            if magnitude <= 1 << 63 {
                return Some(Scalar::Int((magnitude as i64).wrapping_neg()));
            }
        } else if let Ok(n) = i64::try_from(magnitude) {
            return Some(Scalar::Int(n));
        } else if !plain.starts_with('+') {
            return Some(Scalar::UInt(magnitude));
        }
    }
    float(&plain).map(Scalar::Float)
}

/// Go's `strconv.ParseUint(s, 0, 64)`: the prefix gives the base; a leading zero means octal.
fn magnitude(digits: &str) -> Option<u64> {
    let (base, rest) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(rest, base).ok()
}

/// A decimal float by go-yaml's pattern `[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?`.
fn float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let mut i = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let whole = digits_at(bytes, i);
    i += whole;
    let mut fraction = 0;
    if bytes.get(i) == Some(&b'.') {
        i += 1;
        fraction = digits_at(bytes, i);
        i += fraction;
    }
    if whole == 0 && fraction == 0 {
        return None;
    }
    if matches!(bytes.get(i), Some(b'e' | b'E')) {
        i += 1;
        i += usize::from(matches!(bytes.get(i), Some(b'-' | b'+')));
        let exponent = digits_at(bytes, i);
        if exponent == 0 {
            return None;
        }
        i += exponent;
    }
    if i != bytes.len() {
        return None;
    }
    text.parse::<f64>().ok().filter(|f| f.is_finite())
}

fn digits_at(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_booleans_and_nulls_in_three_spellings_only() {
        for text in ["true", "Yes", "ON", "y", "Y"] {
            assert_eq!(resolve_plain(text), Scalar::Bool(true), "{text}");
        }
        for text in ["false", "No", "OFF", "n", "N"] {
            assert_eq!(resolve_plain(text), Scalar::Bool(false), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(resolve_plain(text), Scalar::Null, "{text}");
        }
        for text in ["tRue", "oN", "nULL", "=", "1,000", "10Gi", "100m", "1e3m"] {
            assert_eq!(resolve_plain(text), Scalar::Str(text), "{text}");
        }
    }

    #[test]
    fn numbers_follow_yaml_1_1() {
        let whole = [
            ("0777", 511),
            ("0o777", 511),
            ("0O7", 7),
            ("+0777", 511),
            ("010", 8),
            ("-010", -8),
            ("0x1F", 31),
            ("0X1f", 31),
            ("0b11", 3),
            ("-0b11", -3),
            ("1_000", 1000),
            ("1_", 1),
            ("+1", 1),
            ("-0", 0),
            ("0", 0),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, value) in whole {
            assert_eq!(resolve_plain(text), Scalar::Int(value), "{text}");
        }
        let float = [
            ("08", 8.0),
            ("009", 9.0),
            ("1e3", 1000.0),
            ("1E+3", 1000.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("1_0.5", 10.5),
            ("1.0", 1.0),
            ("0.10", 0.1),
            ("18446744073709551616", 18_446_744_073_709_552_000.0),
            ("-9223372036854775809", -9_223_372_036_854_775_808.0),
        ];
        for (text, value) in float {
            assert_eq!(resolve_plain(text), Scalar::Float(value), "{text}");
        }
        assert_eq!(resolve_plain("18446744073709551615"), Scalar::UInt(u64::MAX));
        for text in [
            "0b12",
            "0x",
            "_1",
            "1e",
            "0.1e",
            "1e400",
            "0x1FFFFFFFFFFFFFFFF",
            "12:30:45",
            "2024-01-01",
            "-",
            ".",
            "1.2.3",
        ] {
            assert_eq!(resolve_plain(text), Scalar::Str(text), "{text}");
        }
        assert!(matches!(resolve_plain(".inf"), Scalar::Float(f) if f.is_infinite()));
        assert!(matches!(resolve_plain(".nan"), Scalar::Float(f) if f.is_nan()));
    }

    #[test]
    fn keys_become_text() {
        for (text, key) in [
            ("y", "true"),
            ("on", "true"),
            ("0777", "511"),
            ("1.50", "1.5"),
            ("0.10", "0.1"),
            (".inf", ".inf"),
            ("-.inf", "-.inf"),
            ("spec", "spec"),
        ] {
            assert_eq!(resolve_key(text, true).as_deref(), Some(key), "{text}");
        }
        assert_eq!(resolve_key("y", false).as_deref(), Some("y"));
        assert_eq!(resolve_key("~", true), None);
        assert_eq!(resolve_key("18446744073709551615", true), None);
    }

    #[test]
    fn tags_decide() {
        assert_eq!(resolve_tagged("on", true, TagKind::Str), Scalar::Str("on"));
        assert_eq!(resolve_tagged("yes", true, TagKind::Bool), Scalar::Bool(true));
        assert_eq!(resolve_tagged("3", false, TagKind::Int), Scalar::Int(3));
        assert_eq!(resolve_tagged("3", false, TagKind::None), Scalar::Str("3"));
    }
}
