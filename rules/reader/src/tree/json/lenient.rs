//! JSON that Go reads and `serde_json` does not, as text that both read.
//!
//! API servers decode objects with `sigs.k8s.io/json`, which reads 10,000 levels. What they keep as raw JSON (the `parameters` of
//! a ResourceClaim) they return as it was sent: with numbers of any size and with halves of surrogate pairs, which Go
//! replaces. Nothing of this is in a field that rules read, so it is replaced here, without recursion.

use std::borrow::Cow;

/// Levels of mappings and lists that are kept; `serde_json` reads 127. No rule reads deeper.
const MAX_DEPTH: usize = 100;
/// Takes the place of what is left out: a placeholder, so that it is unknown to rules.
const LEFT_OUT: &str = "\"${LEFT_OUT}\"";
/// What Go reads for half of a surrogate pair.
const REPLACEMENT: &str = "\\ufffd";

/// The text without what is nested too deeply, numbers that are too large, and halves of surrogate pairs. `None` if it is no
/// JSON.
pub(super) fn lenient(json: &str) -> Option<String> {
    let mut out = String::with_capacity(json.len());
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(first) = json.as_bytes().get(at) {
        let token = json.get(at..at + token_length(&json.as_bytes()[at..]))?;
        at += token.len();
        let is_end = matches!(first, b'}' | b']');
        match first {
            b'{' | b'[' => {
                depth += 1;
                if depth == MAX_DEPTH + 1 {
                    out.push_str(LEFT_OUT);
                }
            }
            b'"' if depth <= MAX_DEPTH => out.push_str(&whole_pairs(token)),
            b'-' | b'0'..=b'9' if depth <= MAX_DEPTH => {
                let is_too_large = token.parse::<f64>().is_ok_and(f64::is_infinite);
                out.push_str(if is_too_large { LEFT_OUT } else { token });
            }
            _ if depth <= MAX_DEPTH && !is_end => out.push_str(token),
            _ => {}
        }
        if matches!(first, b'{' | b'[' | b'}' | b']') && depth <= MAX_DEPTH {
            out.push_str(token);
        }
        if is_end {
            depth = depth.checked_sub(1)?;
        }
    }
    Some(out)
}

/// The length of a string or a number, or one byte of anything else.
fn token_length(rest: &[u8]) -> usize {
    match rest[0] {
        b'"' => {
            let mut at = 1;
            while let Some(byte) = rest.get(at) {
                at += if *byte == b'\\' { 2 } else { 1 };
                if *byte == b'"' {
                    break;
                }
            }
            at.min(rest.len())
        }
        b'-' | b'0'..=b'9' => {
            let is_part = |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E');
            rest.iter().take_while(is_part).count()
        }
        _ => 1,
    }
}

/// A string with its quotes in which no half of a surrogate pair stands alone.
fn whole_pairs(string: &str) -> Cow<'_, str> {
    if !string.contains("\\u") {
        return Cow::Borrowed(string);
    }
    let mut out = String::with_capacity(string.len());
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, is_whole) = match (escaped_unit(rest), rest.get(6..).and_then(escaped_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, true),
            (Some(0xd800..=0xdfff), _) => (6, false),
            (Some(_), _) => (6, true),
            // The escaped character may have several bytes in what is no JSON.
            (None, _) => (1 + rest.chars().nth(1).map_or(0, char::len_utf8), true),
        };
        let (escape, behind) = rest.split_at(length);
        out.push_str(if is_whole { escape } else { REPLACEMENT });
        rest = behind;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The UTF-16 unit of an escape such as `\u0041` at the beginning of a text.
fn escaped_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}
