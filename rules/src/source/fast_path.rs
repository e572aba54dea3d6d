//! Parser for the YAML that most manifests use: block style, plain and quoted scalars and flow collections
//! that end on their line, comments. One pass over the lines.
//!
//! It builds the same tree as `granit`, or returns `None` at the first construct outside this subset
//! (anchors, tags, block scalars, escapes, scalars over several lines, tabs, errors); the caller then parses
//! the chunk with `granit` from its start. A property test over random text compares the two.

use std::ops::Range;
use std::sync::Arc;

use granit_parser::ScalarStyle;

use super::build::TreeBuilder;
use super::{Document, Source};
use crate::tree::Span;

/// Deeper nesting is left to `granit`, which enforces the limits.
const MAX_DEPTH: usize = 100;
/// In YAML the colon of an implicit key is within 1,024 characters.
const MAX_KEY: usize = 1000;

/// Parses a chunk; `None` if it is outside the subset.
pub(super) fn parse_simple(source: &Source, part: &Range<usize>) -> Option<Vec<Document>> {
    let text = &source.text()[part.clone()];
    if !has_only_plain_bytes(text.as_bytes()) {
        return None;
    }
    let mut scan = LineScanner {
        text,
        bytes: text.as_bytes(),
        base: part.start,
        build: TreeBuilder::new(Arc::clone(source.text_arc()), 0),
        levels: Vec::new(),
        comments: Vec::new(),
        started: false,
        explicit: false,
    };
    scan.lines()?;
    scan.finish()
}

/// Whether a text has none of the bytes that need special handling in YAML: control characters, tabs, other
/// line breaks, byte order marks.
fn has_only_plain_bytes(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| (*b < b' ' && *b != b'\n') || *b >= 0x7F) {
        let wide = match rest[at..] {
            [0xE2, 0x80, 0xA8 | 0xA9, ..] => return false,
            [0xC3..=0xDF, ..] => 2,
            [0xE0..=0xEE, ..] => 3,
            [0xF0..=0xF4, ..] => 4,
            _ => return false,
        };
        rest = &rest[at + wide..];
    }
    true
}

/// An open block collection.
struct Level {
    column: usize,
    mapping: bool,
    /// A list whose dashes are in the column of its key.
    indentless: bool,
    /// The end of a key or dash whose value has not been read yet.
    pending: Option<usize>,
}

struct LineScanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    base: usize,
    build: TreeBuilder,
    levels: Vec<Level>,
    comments: Vec<Span>,
    started: bool,
    explicit: bool,
}

/// What follows at a position of a line.
enum LineToken {
    Item,
    Key { end: usize, style: ScalarStyle },
    Other,
}

impl LineScanner<'_> {
    fn lines(&mut self) -> Option<()> {
        let mut at = 0;
        while at < self.bytes.len() {
            let end = line_end(self.bytes, at);
            let start = at + spaces(&self.bytes[at..end]);
            let column = start - at;
            match self.bytes[start..end].first() {
                None => {}
                Some(b'#') => self.comment(start, end),
                Some(b'-') if column == 0 && self.bytes[at..end].starts_with(b"---") => {
                    if self.started || self.explicit {
                        return None;
                    }
                    self.explicit = true;
                    self.build.start = self.offset(at);
                    self.expect_line_end(at + 3, end)?;
                }
                Some(b'.') if column == 0 => return None,
                Some(_) => self.content_line(at, start, end)?,
            }
            at = end + 1;
        }
        Some(())
    }

    fn offset(&self, at: usize) -> u32 {
        (self.base + at) as u32
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.offset(start), self.offset(end))
    }

    fn comment(&mut self, start: usize, end: usize) {
        if self.bytes[start..end].windows(8).any(|w| w == b"gpulint:") {
            self.comments.push(self.span(start, end));
        }
    }

    /// Reads what may follow a value: blanks and a comment.
    fn expect_line_end(&mut self, from: usize, end: usize) -> Option<()> {
        let at = from + spaces(&self.bytes[from..end]);
        match self.bytes[at..end].first() {
            None => Some(()),
            Some(b'#') if at > from => {
                self.comment(at, end);
                Some(())
            }
            Some(_) => None,
        }
    }

    /// Reads a line that is not blank: dashes, then a key or a value.
    fn content_line(&mut self, line: usize, start: usize, end: usize) -> Option<()> {
        let mut at = start;
        let mut first = true;
        loop {
            let column = at - line;
            let next = next_token(&self.bytes[..end], at);
            let mapping = match next {
                LineToken::Item => false,
                LineToken::Key { .. } => true,
                LineToken::Other if first => return None,
                LineToken::Other => return self.value(at, end),
            };
            if first {
                self.enter_collection(column, mapping, at)?;
            } else {
                self.open(column, mapping, false, at)?;
            }
            first = false;
            match next {
                LineToken::Key { end: key, style } => {
                    self.key(at, key, style)?;
                    let after = key + 1;
                    let value = after + spaces(&self.bytes[after..end]);
                    if value == end || self.bytes[value] == b'#' {
                        self.levels.last_mut()?.pending = Some(key);
                        return self.expect_line_end(after, end);
                    }
                    return self.value(value, end);
                }
                _ => {
                    let after = at + 1;
                    let value = after + spaces(&self.bytes[after..end]);
                    if value == end {
                        self.levels.last_mut()?.pending = Some(end);
                        return Some(());
                    }
                    at = value;
                }
            }
        }
    }

    /// Finds the collection that the first key or dash of a line belongs to; closes and opens collections as
    /// needed.
    fn enter_collection(&mut self, column: usize, mapping: bool, at: usize) -> Option<()> {
        while let Some(top) = self.levels.last() {
            if top.column > column || (top.column == column && top.indentless && mapping) {
                self.close();
                continue;
            }
            if top.column < column {
                top.pending?;
                self.levels.last_mut()?.pending = None;
                return self.open(column, mapping, false, at);
            }
            if top.mapping && !mapping {
                top.pending?;
                self.levels.last_mut()?.pending = None;
                // The span of such a list starts at its first item, after the dash.
                let end = line_end(self.bytes, at);
                let item = self.blanks(at + 1, end);
                if item == end {
                    return None;
                }
                return self.open(column, false, true, item);
            }
            if top.mapping != mapping {
                return None;
            }
            self.push_pending_null();
            return Some(());
        }
        if self.started {
            return None;
        }
        self.open(column, mapping, false, at)
    }

    fn open(&mut self, column: usize, mapping: bool, indentless: bool, at: usize) -> Option<()> {
        if self.levels.len() >= MAX_DEPTH {
            return None;
        }
        if !self.started {
            self.started = true;
            if !self.explicit {
                self.build.start = self.offset(at);
            }
        }
        self.build.open(mapping, false, 0, self.span(at, at));
        self.levels.push(Level { column, mapping, indentless, pending: None });
        Some(())
    }

    fn close(&mut self) {
        self.push_pending_null();
        self.levels.pop();
        self.build.close(Span::default());
    }

    /// Appends null for a key or dash without a value.
    fn push_pending_null(&mut self) {
        if let Some(at) = self.levels.last_mut().and_then(|top| top.pending.take()) {
            let span = self.span(at, at);
            self.build.scalar("", ScalarStyle::Plain, 0, None, span);
        }
    }

    fn key(&mut self, start: usize, end: usize, style: ScalarStyle) -> Option<()> {
        let plain = style == ScalarStyle::Plain;
        if plain && &self.bytes[start..end] == b"<<" {
            return None;
        }
        self.scalar(start, end, style)
    }

    fn scalar(&mut self, start: usize, end: usize, style: ScalarStyle) -> Option<()> {
        let inner = match style {
            ScalarStyle::Plain => start..end,
            _ => start + 1..end - 1,
        };
        let text = self.text.get(inner)?;
        let span = self.span(start, end);
        self.build.scalar(text, style, 0, None, span);
        (!self.build.fatal).then_some(())
    }

    /// Reads a value that ends on its line.
    fn value(&mut self, at: usize, end: usize) -> Option<()> {
        let bytes = &self.bytes[..end];
        let (to, style) = match bytes[at] {
            b'"' => (quoted(bytes, at)?, ScalarStyle::DoubleQuoted),
            b'\'' => (quoted(bytes, at)?, ScalarStyle::SingleQuoted),
            b'{' | b'[' => {
                let to = self.flow(at, end, 0)?;
                return self.expect_line_end(to, end);
            }
            _ => (plain(bytes, at)?, ScalarStyle::Plain),
        };
        self.scalar(at, to, style)?;
        self.expect_line_end(to, end)
    }

    /// Reads a flow collection that ends on its line; returns its end.
    fn flow(&mut self, start: usize, end: usize, depth: usize) -> Option<usize> {
        if depth >= MAX_DEPTH {
            return None;
        }
        let mapping = self.bytes[start] == b'{';
        let closing = if mapping { b'}' } else { b']' };
        self.build.open(mapping, true, 0, self.span(start, start + 1));
        let mut at = self.blanks(start + 1, end);
        if self.bytes[..end].get(at) != Some(&closing) {
            loop {
                if mapping {
                    at = self.flow_scalar(at, end)?;
                    if self.bytes[..end].get(at) != Some(&b':')
                        || self.bytes[..end].get(at + 1) != Some(&b' ')
                    {
                        return None;
                    }
                    at = self.blanks(at + 1, end);
                }
                at = match self.bytes[..end].get(at)? {
                    b'{' | b'[' => self.flow(at, end, depth + 1)?,
                    _ => self.flow_scalar(at, end)?,
                };
                at = self.blanks(at, end);
                match self.bytes[..end].get(at)? {
                    b',' => at = self.blanks(at + 1, end),
                    byte if *byte == closing => break,
                    _ => return None,
                }
            }
        }
        self.build.close(self.span(at, at + 1));
        Some(at + 1)
    }

    fn blanks(&self, from: usize, end: usize) -> usize {
        from + spaces(&self.bytes[from..end])
    }

    /// Reads a scalar in a flow collection; returns its end.
    fn flow_scalar(&mut self, at: usize, end: usize) -> Option<usize> {
        let bytes = &self.bytes[..end];
        let (to, style) = match bytes.get(at)? {
            b'"' => (quoted(bytes, at)?, ScalarStyle::DoubleQuoted),
            b'\'' => (quoted(bytes, at)?, ScalarStyle::SingleQuoted),
            _ => (flow_plain(bytes, at)?, ScalarStyle::Plain),
        };
        if style == ScalarStyle::Plain && &bytes[at..to] == b"<<" {
            return None;
        }
        self.scalar(at, to, style)?;
        Some(to)
    }

    fn finish(mut self) -> Option<Vec<Document>> {
        while !self.levels.is_empty() {
            self.close();
        }
        if !self.started {
            return Some(Vec::new());
        }
        if self.build.fatal {
            return None;
        }
        let end = self.offset(self.bytes.len());
        let mut document = self.build.finish(end);
        document.comments = self.comments;
        Some(vec![document])
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    match memchr::memchr(b'\n', &bytes[from..]) {
        Some(length) => from + length,
        None => bytes.len(),
    }
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b' ').count()
}

fn ends_token(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at), None | Some(b' '))
}

/// Whether a dash, a key or a value starts at `at`; `bytes` end with the line.
fn next_token(bytes: &[u8], at: usize) -> LineToken {
    match bytes[at] {
        b'-' if ends_token(bytes, at + 1) => return LineToken::Item,
        b'"' | b'\'' => {
            let style = if bytes[at] == b'"' { ScalarStyle::DoubleQuoted } else { ScalarStyle::SingleQuoted };
            if let Some(end) = quoted(bytes, at)
                && end - at < MAX_KEY
                && bytes.get(end) == Some(&b':')
                && ends_token(bytes, end + 1)
            {
                return LineToken::Key { end, style };
            }
            return LineToken::Other;
        }
        _ => {}
    }
    let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-' | b'$');
    let length = bytes[at..].iter().take_while(|b| word(b)).count();
    let end = at + length;
    let keyed = length > 0
        && length < MAX_KEY
        && bytes[at] != b'-'
        && bytes.get(end) == Some(&b':')
        && ends_token(bytes, end + 1);
    if keyed { LineToken::Key { end, style: ScalarStyle::Plain } } else { LineToken::Other }
}

/// The end of a quoted scalar; `None` if it has escapes or does not end on this line.
fn quoted(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    let length = bytes[at + 1..].iter().position(|b| *b == quote || *b == b'\\')?;
    let close = at + 1 + length;
    let escape = quote == b'"' && bytes[close] == b'\\';
    let backslash = quote == b'\'' && bytes[close] == b'\\';
    if escape || backslash || bytes.get(close + 1) == Some(&quote) {
        return None;
    }
    Some(close + 1)
}

/// Whether a plain scalar of the subset may start with this byte.
fn begins_plain(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'-' => bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')),
        b'_' | b'.' | b'/' | b'$' | b'+' | b'(' | b'~' | b'<' | b'=' | b'^' | b';' | b'\\' => true,
        byte => byte.is_ascii_alphanumeric() || byte >= 0x80,
    }
}

/// The end of a plain scalar in block style.
fn plain(bytes: &[u8], at: usize) -> Option<usize> {
    if !begins_plain(bytes, at) {
        return None;
    }
    let mut end = bytes.len();
    for (i, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b':' if ends_token(bytes, i + 1) => return None,
            b'#' if bytes[i - 1] == b' ' => {
                end = i;
                break;
            }
            _ => {}
        }
    }
    while bytes[end - 1] == b' ' {
        end -= 1;
    }
    Some(end)
}

/// The end of a plain scalar in a flow collection.
fn flow_plain(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |b: u8| {
        b.is_ascii_alphanumeric()
            || b >= 0x80
            || matches!(b, b'_' | b'.' | b'/' | b'-' | b'$' | b'+' | b'(' | b')' | b'=' | b'~')
            || matches!(b, b'^' | b';' | b'<' | b' ')
    };
    let begins = match *bytes.get(at)? {
        b'-' => bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'-'),
        b' ' | b')' => false,
        byte => word(byte),
    };
    if !begins {
        return None;
    }
    let mut end = at + bytes[at..].iter().take_while(|b| word(**b)).count();
    match bytes.get(end)? {
        b',' | b']' | b'}' | b':' => {}
        _ => return None,
    }
    while bytes[end - 1] == b' ' {
        end -= 1;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::super::granit::parse_full;
    use super::*;
    use proptest::prelude::*;

    fn dump(documents: &[Document]) -> String {
        let mut out = String::new();
        for document in documents {
            out.push_str(&format!("{:?} {:?}\n", document.span, document.comments));
            out.push_str(&format!("{:?}\n", document.diagnostics));
            if let Some(tree) = &document.tree {
                for slot in &tree.slots {
                    out.push_str(&format!("{slot:?}\n"));
                }
                out.push_str(&format!("{:?}\n{:?}\n", tree.out_of_line_keys, tree.strings));
            }
        }
        out
    }

    /// Compares both parsers on each chunk of the text; returns the number of chunks that the fast path
    /// parsed.
    fn agree(text: &str) -> usize {
        let source = Source::from_text("x.yaml", text);
        let mut taken = 0;
        for part in super::super::split_documents(source.text()) {
            if let Some(documents) = parse_simple(&source, &part) {
                taken += 1;
                let expected = parse_full(&source, part.clone());
                assert_eq!(dump(&documents), dump(&expected), "of {:?}", &source.text()[part]);
            }
        }
        taken
    }

    #[test]
    fn everyday_manifests_are_taken() {
        for text in [
            "a: b\n",
            "a: b",
            "a:\n  b: c\n",
            "a:\n",
            "a:",
            "a:\n\n\nb:\n",
            "a: # c\n  b: 1 # d\n",
            "---\na: b\n",
            "# x\n---\n# y\na: b\n# z\n",
            "a:\n- b\n- c\nd: e\n",
            "a:\n  - b: 1\n    c: 2\n  - d: [x, y, 'z']\n  -\n    e: f\n  -\ng: {h: i, j: {}, k: []}\n",
            "- - a\n  - b\n- c\n",
            "- a: b\n  c:\n    d\n",
            "'a b': \"c d\"\n\"e\": 'f'\n",
            "a: x y z   # gpulint: allow[b] c\n# gpulint: allow[d] e\nf: \"0\"\n",
            "a: b\na: c\n",
            "image: registry.example/x:1.2\nargs: [--a=b, -c, \"d\"]\n",
            "n: ~\nm: null\non: y\n1: 2\n",
            "a:\n  b:\n    c:\n  d: e\n",
            "한: b\na: 한글 — x\n",
        ] {
            let taken = agree(text);
            let hopeless = text.starts_with("한") || text.contains("\n    d\n");
            assert_eq!(taken > 0, !hopeless, "{text:?}");
        }
    }

    const PIECES: &[&str] = &[
        "a",
        "b: c",
        "key:",
        "key: ",
        ": ",
        ":",
        "- ",
        "-",
        "- a: b",
        "\n",
        "\n",
        "\n",
        "\n  ",
        "\n  ",
        "\n    ",
        "\n- ",
        "\n  - ",
        " ",
        "  ",
        "# c",
        " # gpulint: allow[x]",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "[a, b]",
        "{a: b}",
        "{}",
        "[]",
        "\"",
        "'",
        "\"q\"",
        "'q'",
        "---",
        "\n---\n",
        "...",
        "|",
        ">-",
        "&a ",
        "*a",
        "!!str ",
        "? ",
        "<<: ",
        "%",
        "@",
        "~",
        "null",
        "on",
        "0x1",
        ".inf",
        "1_000",
        "\\",
        "$",
        "(",
        ")",
        "é",
        "—",
        "\u{2028}",
        "\u{85}",
        "\t",
        "\r\n",
        "\u{feff}",
        "🦀",
        "x y",
        "a:b",
        "-a",
        "--",
        "=",
        "<",
        ";",
        "^",
        "+",
        "/",
        ".",
        "_",
        "key: value\n",
        "other:\n",
        "  nested: 1\n",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_quick_reader_agrees_with_the_other(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24),
        ) {
            agree(&pieces.concat());
        }

        #[test]
        fn the_quick_reader_agrees_on_lines(
            lines in proptest::collection::vec(
                (0usize..4, proptest::sample::select(PIECES), proptest::sample::select(PIECES)),
                0..16,
            ),
        ) {
            let text: String = lines
                .iter()
                .map(|(indent, a, b)| format!("{}{a}{b}\n", "  ".repeat(*indent)))
                .collect();
            agree(&text);
        }
    }
}
