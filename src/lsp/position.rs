//! Positions in the protocol: lines end in `\n`, `\r\n` or `\r`, and columns count the units that the client
//! and the server have negotiated. All other modules use bytes.

use std::ops::Range as Bytes;

use gpulint_rules::tree::Span;
use lsp_types::{Position, PositionEncodingKind, Range};

/// The unit of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// UTF-16 code units, which every client supports.
    Utf16,
    /// Unicode characters.
    Utf32,
}

impl Encoding {
    /// The encoding that costs least among those that a client offers, in its order; UTF-16 if it offers none
    /// of them.
    pub(crate) fn negotiate(offered: Option<&[PositionEncodingKind]>) -> Encoding {
        let known = |kind: &PositionEncodingKind| Encoding::ALL.into_iter().find(|one| one.kind() == *kind);
        let offered: Vec<Encoding> = offered.unwrap_or_default().iter().filter_map(known).collect();
        match offered.contains(&Encoding::Utf8) {
            true => Encoding::Utf8,
            false => offered.first().copied().unwrap_or(Encoding::Utf16),
        }
    }

    const ALL: [Encoding; 3] = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32];

    /// The name in the protocol.
    pub(crate) fn kind(self) -> PositionEncodingKind {
        match self {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
            Encoding::Utf32 => PositionEncodingKind::UTF32,
        }
    }

    fn units(self, text: &str) -> usize {
        match self {
            Encoding::Utf8 => text.len(),
            Encoding::Utf32 => text.chars().count(),
            // A character of four bytes is two UTF-16 code units.
            Encoding::Utf16 => text.chars().count() + text.bytes().filter(|byte| *byte >= 0xF0).count(),
        }
    }

    /// The number of bytes at the start of a text that make up a number of units: fewer if that number ends
    /// within a character, and at most the whole text.
    fn bytes(self, text: &str, units: usize) -> usize {
        if text.as_bytes().get(..units).is_some_and(<[u8]>::is_ascii) {
            return units;
        }
        if self == Encoding::Utf8 {
            return floor(text, units);
        }
        let mut left = units;
        for (at, one) in text.char_indices() {
            let width = if self == Encoding::Utf16 { one.len_utf16() } else { 1 };
            if width > left {
                return at;
            }
            left -= width;
        }
        text.len()
    }
}

/// The start of the character that a byte belongs to.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The offsets at which the lines of a text start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    /// The starts in ascending order; the first is 0.
    starts: Vec<u32>,
    /// Number of bytes of the first line that are not counted.
    skipped: usize,
}

impl Positions {
    /// The positions of a text that the client has.
    pub(crate) fn new(text: &str) -> Positions {
        let mut starts = vec![0];
        add_starts(&mut starts, text, 0, text.len());
        Positions { starts, skipped: 0 }
    }

    /// The positions of a file that was read from disk. A byte order mark is not counted, because editors do
    /// not show it.
    pub(crate) fn of_file(text: &str) -> Positions {
        let skipped = if text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
        Positions { skipped, ..Positions::new(text) }
    }

    /// Updates the positions for a text in which `replaced` bytes of the previous text became `length` bytes.
    pub(super) fn edit(&mut self, text: &str, replaced: Bytes<usize>, length: usize) {
        let mut line = self.line_of(narrow(replaced.start));
        // The line break that ends before the change may continue in the new text: `\r` followed by `\n`.
        if line > 0 && self.starts[line] as usize == replaced.start {
            line -= 1;
        }
        // The starts of lines after the change stay valid.
        let kept = self.starts.partition_point(|start| *start as usize <= replaced.end);
        let end = replaced.start + length;
        let moved = |start: &u32| narrow((*start as usize + end).saturating_sub(replaced.end));
        let mut new = Vec::new();
        add_starts(&mut new, text, self.starts[line] as usize, end);
        if end == replaced.end {
            self.starts.splice(line + 1..kept, new);
            return;
        }
        new.extend(self.starts[kept..].iter().map(moved));
        self.starts.truncate(line + 1);
        self.starts.append(&mut new);
    }

    /// The byte offset of a position. A position past the end of a line means the end of that line, one past
    /// the last line the end of the text, and one within a character the start of that character.
    pub(crate) fn offset(&self, text: &str, position: Position, encoding: Encoding) -> u32 {
        let Some(line) = self.content(text, position.line as usize) else {
            return narrow(text.len());
        };
        let column = encoding.bytes(&text[line.clone()], position.character as usize);
        narrow(line.start + column)
    }

    /// The position of a byte offset. An offset within a character gives the position of its start, one
    /// within a line break the end of the line, and one past the end of the text the end of the text.
    pub(crate) fn position(&self, text: &str, offset: u32, encoding: Encoding) -> Position {
        let at = floor(text, offset as usize);
        let line = self.line_of(narrow(at));
        let content = self.content(text, line).unwrap_or_default();
        let before = &text[content.start..at.clamp(content.start, content.end)];
        Position { line: narrow(line), character: narrow(encoding.units(before)) }
    }

    /// Converts a range of bytes to a range of the protocol.
    pub(crate) fn range(&self, text: &str, span: Span, encoding: Encoding) -> Range {
        let position = |at| self.position(text, at, encoding);
        Range { start: position(span.start), end: position(span.end.max(span.start)) }
    }

    /// Converts a range of the protocol to bytes.
    pub(crate) fn span(&self, text: &str, range: Range, encoding: Encoding) -> Span {
        let start = self.offset(text, range.start, encoding);
        Span::new(start, self.offset(text, range.end, encoding).max(start))
    }

    /// The line, from 0, that contains a byte.
    fn line_of(&self, at: u32) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// The bytes of a line without its end.
    fn content(&self, text: &str, line: usize) -> Option<Bytes<usize>> {
        let start = if line == 0 { self.skipped } else { *self.starts.get(line)? as usize };
        let end = self.starts.get(line + 1).map_or(text.len(), |next| *next as usize);
        let whole = &text[start..end];
        let is_last = line + 1 == self.starts.len();
        let content = match whole.strip_suffix('\n') {
            _ if is_last => whole,
            Some(rest) => rest.strip_suffix('\r').unwrap_or(rest),
            None => whole.strip_suffix('\r').unwrap_or(whole),
        };
        Some(start..start + content.len())
    }
}

/// Adds the starts of lines after the line breaks that lie in a part of a text.
fn add_starts(starts: &mut Vec<u32>, text: &str, from: usize, to: usize) {
    let bytes = text.as_bytes();
    for found in memchr::memchr2_iter(b'\n', b'\r', bytes.get(from..to).unwrap_or_default()) {
        let next = from + found + 1;
        // `\r\n` is one line break.
        if bytes[next - 1] != b'\r' || bytes.get(next) != Some(&b'\n') {
            starts.push(narrow(next));
        }
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Encoding; 3] = Encoding::ALL;

    /// The position of each character and of the end, computed character by character as the protocol defines
    /// it.
    fn naive(text: &str, encoding: Encoding) -> Vec<(usize, Position)> {
        let (mut line, mut character) = (0, 0);
        let mut all = Vec::new();
        let mut rest = text.char_indices().peekable();
        while let Some((at, one)) = rest.next() {
            all.push((at, Position { line, character }));
            let next = rest.peek().map(|next| next.1);
            match one {
                '\r' if next == Some('\n') => {}
                '\r' | '\n' => (line, character) = (line + 1, 0),
                _ => {
                    character += match encoding {
                        Encoding::Utf8 => one.len_utf8() as u32,
                        Encoding::Utf16 => one.len_utf16() as u32,
                        Encoding::Utf32 => 1,
                    }
                }
            }
        }
        all.push((text.len(), Position { line, character }));
        all
    }

    #[test]
    fn columns_are_in_the_units_of_the_encoding() {
        // Characters of two, three and four bytes; a tab; a family of emoji with joiners; wide characters.
        let text = "é漢😀\tx\r\nA: \"👨‍👩‍👧\" # 表\rlast\n";
        let positions = Positions::new(text);
        let place = |of: &str, encoding| {
            let at = positions.position(text, text.find(of).unwrap() as u32, encoding);
            (at.line, at.character)
        };
        assert_eq!(ALL.map(|encoding| place("x", encoding)), [(0, 10), (0, 5), (0, 4)]);
        assert_eq!(ALL.map(|encoding| place("#", encoding)), [(1, 24), (1, 14), (1, 11)]);
        assert_eq!(ALL.map(|encoding| place("last", encoding)), [(2, 0); 3]);
        let end = positions.position(text, text.len() as u32 + 9, Encoding::Utf16);
        assert_eq!((end.line, end.character), (3, 0));
    }

    #[test]
    fn positions_that_are_not_there_are_moved() {
        let text = "a😀b\r\nc";
        let positions = Positions::new(text);
        let offset =
            |line, character, encoding| positions.offset(text, Position { line, character }, encoding);
        // Offsets within a pair of surrogates, and within the bytes of a character.
        assert_eq!([0, 1, 2, 3, 4, 5, 99].map(|at| offset(0, at, Encoding::Utf16)), [0, 1, 1, 5, 6, 6, 6]);
        assert_eq!([1, 2, 4, 5, 6, 7].map(|at| offset(0, at, Encoding::Utf8)), [1, 1, 1, 5, 6, 6]);
        assert_eq!([1, 2, 3, 4].map(|at| offset(0, at, Encoding::Utf32)), [1, 5, 6, 6]);
        assert_eq!([offset(1, 0, Encoding::Utf8), offset(1, 9, Encoding::Utf8)], [8, 9]);
        assert_eq!(offset(7, 0, Encoding::Utf8), 9);
        // Offsets between `\r` and `\n`, and within a character.
        let position = |at| positions.position(text, at, Encoding::Utf16);
        assert_eq!(position(7), Position { line: 0, character: 4 });
        assert_eq!(position(3), Position { line: 0, character: 1 });
    }

    #[test]
    fn the_cheapest_encoding_is_chosen() {
        let kinds = |all: &[Encoding]| all.iter().map(|one| one.kind()).collect::<Vec<_>>();
        assert_eq!(Encoding::negotiate(None), Encoding::Utf16);
        assert_eq!(Encoding::negotiate(Some(&[])), Encoding::Utf16);
        assert_eq!(Encoding::negotiate(Some(&kinds(&[Encoding::Utf16, Encoding::Utf8]))), Encoding::Utf8);
        assert_eq!(Encoding::negotiate(Some(&kinds(&[Encoding::Utf32, Encoding::Utf16]))), Encoding::Utf32);
        assert_eq!(Encoding::negotiate(Some(&[PositionEncodingKind::new("ebcdic")])), Encoding::Utf16);
    }

    #[test]
    fn a_byte_order_mark_is_not_counted() {
        let text = "\u{FEFF}a: 1\nb: 2";
        let positions = Positions::of_file(text);
        let place = |at| positions.position(text, at, Encoding::Utf8);
        assert_eq!([0, 3, 4].map(|at| place(at).character), [0, 0, 1]);
        assert_eq!(place(9), Position { line: 1, character: 1 });
        assert_eq!(positions.offset(text, Position { line: 0, character: 0 }, Encoding::Utf16), 3);
        assert_eq!(positions.offset(text, Position { line: 0, character: 3 }, Encoding::Utf16), 6);
    }

    fn some_text() -> impl Strategy<Value = String> {
        let pieces = ["a", "\t", "é", "漢", "😀", "\u{200d}", "\n", "\r", "\r\n", "", "key: value"];
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..24).prop_map(|all| all.concat())
    }

    proptest! {
        #[test]
        fn positions_are_those_of_the_protocol(text in some_text()) {
            let positions = Positions::new(&text);
            for encoding in ALL {
                for (at, expected) in naive(&text, encoding) {
                    prop_assert_eq!(positions.position(&text, at as u32, encoding), expected);
                    // There is no position between `\r` and `\n`: it is the end of the line before.
                    let is_within = text[..at].ends_with('\r') && text[at..].starts_with('\n');
                    let back = at - usize::from(is_within);
                    prop_assert_eq!(positions.offset(&text, expected, encoding), back as u32);
                }
            }
        }

        #[test]
        fn an_edit_gives_the_lines_of_the_new_text(
            text in some_text(), new in some_text(), from in 0..40_usize, length in 0..20_usize,
        ) {
            let from = floor(&text, from);
            let to = floor(&text, from + length).max(from);
            let mut edited = text.clone();
            edited.replace_range(from..to, &new);
            let mut positions = Positions::new(&text);
            positions.edit(&edited, from..to, new.len());
            prop_assert_eq!(positions, Positions::new(&edited));
        }
    }
}
