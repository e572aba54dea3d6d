//! Writes new values as YAML, in the style of the surrounding text.
//!
//! Members are written in the given order. The quotation marks of strings, the indentation of blocks and
//! whether lists are indented below their key are detected in the document. A string is quoted if Kubernetes
//! or a YAML 1.1 parser would otherwise read it as another value.

use serde_json::Value;

use super::layout::Layout;
use crate::tree::SlotKind;
use crate::tree::scalar::{Scalar, resolve_plain};

/// Number of nodes that are examined to detect the style of a document.
const MAX_SAMPLED_NODES: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Style {
    /// Columns from a key to the keys below it.
    pub(super) indent: usize,
    /// Columns from a key to the dashes of its list.
    pub(super) sequence_indent: usize,
    pub(super) eol: &'static str,
    /// Quotation mark of strings.
    pub(super) quote: char,
    /// Whether keys and strings are always quoted, as in JSON.
    pub(super) json: bool,
    pub(super) always_quote: bool,
}

impl Style {
    /// Detects the style of a document; the line end is that of the lines around `at`.
    pub(super) fn detect(layout: &Layout<'_>, at: usize) -> Style {
        let tree = layout.tree;
        let mut steps = [0_usize; 9];
        let mut offsets = [0_usize; 9];
        let mut single = 0;
        let mut double = 0;
        for slot in 0..tree.len().min(MAX_SAMPLED_NODES) {
            let slot = u32::try_from(slot).unwrap_or_default();
            let kind = layout.kind(slot);
            if kind == SlotKind::Quoted {
                match layout.text.as_bytes().get(layout.span(slot).start) {
                    Some(b'\'') => single += 1,
                    _ => double += 1,
                }
                continue;
            }
            let (Some(key), Some(first)) = (layout.key(slot), tree.children(slot).next()) else { continue };
            let counts = match kind {
                SlotKind::Mapping => &mut steps,
                SlotKind::Sequence => &mut offsets,
                _ => continue,
            };
            let below = layout.start(first).map(|start| layout.column(start));
            let depth = below.and_then(|below| below.checked_sub(layout.column(key.start)));
            if let Some(count) = depth.and_then(|depth| counts.get_mut(depth)) {
                *count += 1;
            }
        }
        Style {
            indent: argmax(&steps[1..]).map_or(2, |at| at + 1),
            sequence_indent: argmax(&offsets).unwrap_or(2),
            eol: layout.eol(at),
            quote: if single > double { '\'' } else { '"' },
            json: false,
            always_quote: false,
        }
    }

    /// `key: value` in block style at `column`; the first line is not indented.
    pub(super) fn entry(&self, key: &str, value: &Value, column: usize) -> String {
        format!("{}:{}", self.block_key(key), self.value_after_key(value, column))
    }

    /// The text after the colon of a key at `column`: a space and text, or lines below.
    pub(super) fn value_after_key(&self, value: &Value, column: usize) -> String {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let column = column + self.indent;
                format!("{}{}", self.line_break(column), self.mapping(map, column))
            }
            Value::Array(items) if !items.is_empty() => {
                let column = column + self.sequence_indent;
                format!("{}{}", self.line_break(column), self.sequence(items, column))
            }
            other => format!(" {}", self.scalar_or_empty(other, column + self.indent)),
        }
    }

    /// The text after the dash of an item at `column`; a mapping begins `width` columns after the dash.
    pub(super) fn value_after_dash(&self, value: &Value, column: usize, width: usize) -> String {
        let gap = " ".repeat(width.max(2) - 1);
        let column = column + width.max(2);
        match value {
            Value::Object(map) if !map.is_empty() => {
                format!("{gap}{}", self.mapping(map, column))
            }
            Value::Array(items) if !items.is_empty() => {
                format!("{gap}{}", self.sequence(items, column))
            }
            other => format!("{gap}{}", self.scalar_or_empty(other, column)),
        }
    }

    /// The entries of a mapping at `column`; the first line is not indented.
    pub(super) fn mapping(&self, map: &serde_json::Map<String, Value>, column: usize) -> String {
        let entries: Vec<String> = map.iter().map(|(key, value)| self.entry(key, value, column)).collect();
        entries.join(&self.line_break(column))
    }

    fn sequence(&self, items: &[Value], column: usize) -> String {
        let items: Vec<String> =
            items.iter().map(|item| format!("-{}", self.value_after_dash(item, column, 2))).collect();
        items.join(&self.line_break(column))
    }

    /// A line end and the indentation of the next line.
    pub(super) fn line_break(&self, column: usize) -> String {
        format!("{}{}", self.eol, " ".repeat(column))
    }

    /// A scalar or an empty collection in block style; further lines are at `column`.
    fn scalar_or_empty(&self, value: &Value, column: usize) -> String {
        match value {
            Value::String(text) => match self.literal(text, column) {
                Some(literal) => literal,
                None => self.string(text, false),
            },
            other => self.flow(other),
        }
    }

    /// Several lines of text as a block scalar.
    pub(super) fn literal(&self, text: &str, column: usize) -> Option<String> {
        let body = text.strip_suffix('\n').unwrap_or(text);
        let plain = body.contains('\n')
            && !body.ends_with('\n')
            && !body.starts_with([' ', '\n', '\t'])
            && body.split('\n').all(|line| {
                !line.ends_with([' ', '\t']) && line.chars().all(|c| c == '\t' || is_printable(c))
            });
        if !plain {
            return None;
        }
        let mut out = String::from(if text.ends_with('\n') { "|" } else { "|-" });
        for line in body.split('\n') {
            out.push_str(self.eol);
            if !line.is_empty() {
                out.push_str(&" ".repeat(column));
                out.push_str(line);
            }
        }
        Some(out)
    }

    /// A value on one line, as in a flow collection.
    pub(super) fn flow(&self, value: &Value) -> String {
        match value {
            Value::String(text) => self.string(text, true),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Object(map) => {
                let entries: Vec<String> = map
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self.flow_key(key), self.flow(value)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            other => other.to_string(),
        }
    }

    /// A value over several lines, formatted like JSON, with its members one level below `column`.
    pub(super) fn pretty(&self, value: &Value, column: usize) -> String {
        let deeper = column + self.indent;
        let (open, close, members): (_, _, Vec<String>) = match value {
            Value::Array(items) if !items.is_empty() => {
                let items = items.iter().map(|item| self.pretty(item, deeper));
                ('[', ']', items.collect())
            }
            Value::Object(map) if !map.is_empty() => {
                let entries = map
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self.flow_key(key), self.pretty(value, deeper)));
                ('{', '}', entries.collect())
            }
            other => return self.flow(other),
        };
        let line = self.line_break(deeper);
        let members = members.join(&format!(",{line}"));
        format!("{open}{line}{members}{}{close}", self.line_break(column))
    }

    pub(super) fn block_key(&self, key: &str) -> String {
        if is_plain_key(key) && is_plain(key, false) { key.to_owned() } else { self.quote(key) }
    }

    pub(super) fn flow_key(&self, key: &str) -> String {
        if !self.json && is_plain_key(key) && is_plain(key, true) { key.to_owned() } else { self.quote(key) }
    }

    /// A string on one line.
    pub(super) fn string(&self, text: &str, flow: bool) -> String {
        if !self.json && !self.always_quote && is_plain_string(text) && is_plain(text, flow) {
            text.to_owned()
        } else {
            self.quote(text)
        }
    }

    /// A quoted string, with the quotation marks of the style if possible.
    pub(super) fn quote(&self, text: &str) -> String {
        if self.quote == '\'' && !self.json && text.chars().all(is_printable) {
            return format!("'{}'", text.replace('\'', "''"));
        }
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if is_printable(c) => out.push(c),
                c => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
        out.push('"');
        out
    }
}

/// The index of the largest count; the first of equal ones.
fn argmax(counts: &[usize]) -> Option<usize> {
    let mut best = None;
    for (at, count) in counts.iter().enumerate() {
        if *count > best.map_or(0, |(_, n)| n) {
            best = Some((at, *count));
        }
    }
    best.map(|(at, _)| at)
}

/// Characters that are allowed unescaped on one line in any version of YAML.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Whether a plain scalar with this text is parsed as this string by Kubernetes and by other parsers.
fn is_plain_string(text: &str) -> bool {
    if !matches!(resolve_plain(text), Scalar::Str(_)) {
        return false;
    }
    // Dates, times and sexagesimal numbers of YAML 1.1.
    let first_is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let like_a_number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.:_,TZtz ".contains(&b));
    !(first_is_number && like_a_number)
}

fn is_plain_key(key: &str) -> bool {
    key.len() <= 128 && key != "<<" && is_plain_string(key)
}

/// Whether text can be written without quotes, whatever type it is then parsed as.
fn is_plain(text: &str, flow: bool) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let second = chars.next();
    let starts = match first {
        ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
        | '?' | ':' | '=' | '<' | '~' => false,
        '-' => second.is_some_and(|c| c.is_ascii_alphanumeric()),
        '.' => !text.starts_with("..."),
        c => c != ' ',
    };
    let breaks = |c: char| !is_printable(c) || (flow && matches!(c, ',' | '[' | ']' | '{' | '}'));
    starts
        && !text.contains(breaks)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn style() -> Style {
        Style { indent: 2, sequence_indent: 2, eol: "\n", quote: '"', json: false, always_quote: false }
    }

    #[test]
    fn strings_are_quoted_where_they_would_read_otherwise() {
        let style = style();
        for text in [
            "",
            "true",
            "on",
            "y",
            "1",
            "0x1F",
            "1e3",
            "~",
            "null",
            ".5",
            "a: b",
            "a #b",
            "- a",
            " a",
            "a ",
            "@daily",
            "*",
            "2024-01-01",
            "12:30",
            "a\tb",
            "<<",
            "=",
            "---",
            "{{ x }}",
            "10:",
        ] {
            assert_eq!(style.string(text, false).chars().next(), Some('"'), "{text}");
        }
        for text in ["g5", "10Gi", "nvidia.com/gpu", "a:b", "1.2.3-rc", "-x", "0 9 * * 1-5", "ü"] {
            assert_eq!(style.string(text, false), text);
        }
        assert_eq!(style.string("a,b", false), "a,b");
        assert_eq!(style.string("a,b", true), "\"a,b\"");
        assert_eq!(style.quote("a\"\\\n\u{7}"), "\"a\\\"\\\\\\n\\u0007\"");
    }

    #[test]
    fn blocks_follow_the_style() {
        let value = json!({"a": [{"b": 1, "c": [2]}, []], "d": {"e": "x\ny\n", "true": null}});
        let map = value.as_object().expect("an object");
        assert_eq!(
            style().mapping(map, 0),
            "a:\n  - b: 1\n    c:\n      - 2\n  - []\nd:\n  e: |\n    x\n    y\n  \"true\": null"
        );
        let dense = Style { sequence_indent: 0, indent: 4, ..style() };
        assert_eq!(
            dense.mapping(map, 2),
            "a:\n  - b: 1\n    c:\n    - 2\n  - []\n  d:\n      e: |\n          x\n          y\n      \"true\": null"
        );
    }
}
