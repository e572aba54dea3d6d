//! Collections in braces and brackets, whose closing brackets may be missing.

use super::model::{KeyPlace, Place, Shape, Sketch, ValuePlace, span};

const MAX_DEPTH: usize = 40;

/// Reads the collection that begins at `at`, at most to `end`. A further line belongs to it if it is indented
/// deeper than `owner`, which is -1 for a document. Returns the offset of the byte after it.
pub(super) fn read(sketch: &mut Sketch<'_>, node: usize, at: usize, end: usize, owner: isize) -> usize {
    FlowReader { sketch, end, owner }.collection(node, at, 0)
}

struct FlowReader<'s, 't> {
    sketch: &'s mut Sketch<'t>,
    end: usize,
    owner: isize,
}

/// The kind of token that is expected next.
#[derive(Clone, Copy)]
enum Expected {
    Key(usize),
    Value(usize),
    Item(usize),
    /// A comma, a colon or the end.
    Delimiter,
}

impl FlowReader<'_, '_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.sketch.text.as_bytes().get(at).copied().filter(|_| at < self.end)
    }

    fn collection(&mut self, node: usize, open: usize, depth: usize) -> usize {
        let is_map = self.byte(open) == Some(b'{');
        self.sketch.nodes[node].shape = if is_map { Shape::Map } else { Shape::Seq };
        let mut at = open + 1;
        loop {
            let expected = if is_map { Expected::Key(node) } else { Expected::Item(node) };
            let Some(next) = self.skip_gap(at, expected) else {
                return self.line_end(at);
            };
            at = next;
            match self.byte(at) {
                None => return at,
                Some(b'}' | b']') => return at + 1,
                Some(b',') => at += 1,
                Some(_) => {
                    let found = if is_map { self.entry(node, at, depth) } else { self.item(node, at, depth) };
                    let Some(next) = self.skip_gap(found, Expected::Delimiter) else {
                        return self.line_end(found);
                    };
                    // Skip what is not understood.
                    at = if next == at { self.next_char(at) } else { next };
                }
            }
        }
    }

    fn next_char(&self, at: usize) -> usize {
        self.sketch.text[at..].chars().next().map_or(at + 1, |c| at + c.len_utf8())
    }

    fn entry(&mut self, node: usize, at: usize, depth: usize) -> usize {
        let (end, quoted) = self.token(at, true);
        let text = self.sketch.text;
        let (from, to) = if quoted { inner(text, at, end) } else { (at, end) };
        let after = self.skip_spaces(end);
        let has_colon = self.byte(after) == Some(b':');
        if self.sketch.is_at(from, to) {
            let entry = has_colon.then_some(self.sketch.nodes.len());
            let word = span(from, to);
            let place = KeyPlace { parent: node, word, entry, column: 0, flow: true, quoted };
            self.sketch.set_place(Place::Key(place));
        }
        if !has_colon {
            // A field without a value, unless it is still being typed.
            if end > at && !self.sketch.is_at(from, to) {
                self.sketch.add(node, text[from..to].to_owned(), Some(span(at, end)));
            }
            return end.max(at);
        }
        let child = self.sketch.add(node, text[from..to].to_owned(), Some(span(at, end)));
        let from = after + 1;
        let Some(value) = self.skip_gap(from, Expected::Value(child)) else {
            return from;
        };
        match self.byte(value) {
            None | Some(b',' | b'}' | b']') => value,
            Some(_) => self.value(child, value, depth),
        }
    }

    fn item(&mut self, node: usize, at: usize, depth: usize) -> usize {
        let child = self.sketch.add(node, String::new(), None);
        self.value(child, at, depth)
    }

    fn value(&mut self, node: usize, at: usize, depth: usize) -> usize {
        if matches!(self.byte(at), Some(b'{' | b'[')) && depth < MAX_DEPTH && !self.is_placeholder(at) {
            return self.collection(node, at, depth + 1);
        }
        let (end, quoted) = self.token(at, false);
        self.sketch.set_scalar(node, at, end);
        let (from, to) = if quoted { inner(self.sketch.text, at, end) } else { (at, end) };
        if self.sketch.is_at(from, to) {
            let word = self.sketch.word_in(from, to);
            self.sketch.set_place(Place::Value(ValuePlace { node, word, quoted, item_column: None }));
        }
        end
    }

    /// Whether a placeholder such as `{{ .Values.name }}`, which is a scalar, begins at `at`.
    fn is_placeholder(&self, at: usize) -> bool {
        self.byte(at) == Some(b'{') && self.byte(at + 1) == Some(b'{')
    }

    /// The end of a scalar, and whether it is quoted.
    fn token(&self, at: usize, is_key: bool) -> (usize, bool) {
        let text = self.sketch.text;
        let bytes = text.as_bytes();
        let line_end = text[at..self.end].find(['\n', '\r']).map_or(self.end, |found| at + found);
        if let Some(quote @ (b'"' | b'\'')) = self.byte(at) {
            return (end_of_quoted(text, at, line_end, quote).unwrap_or(line_end), true);
        }
        if self.is_placeholder(at)
            && let Some(close) = text[at..line_end].find("}}")
        {
            return (at + close + 2, false);
        }
        let mut end = at;
        while end < line_end {
            let next = bytes.get(end + 1).copied();
            let ends = match bytes[end] {
                b',' | b'[' | b']' | b'{' | b'}' => true,
                b':' if is_key => matches!(
                    next,
                    None | Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b'[' | b']' | b'{' | b'}')
                ),
                b'#' => end > at && matches!(bytes[end - 1], b' ' | b'\t'),
                _ => false,
            };
            if ends {
                break;
            }
            end += 1;
        }
        (at + text[at..end].trim_end().len(), false)
    }

    fn skip_spaces(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    }

    /// Skips blanks, comments and line ends. `None` if the collection ends here without its bracket.
    fn skip_gap(&mut self, from: usize, expected: Expected) -> Option<usize> {
        let mut at = from;
        loop {
            at = self.skip_spaces(at);
            match self.byte(at) {
                Some(b'#') if at == 0 || self.sketch.text.as_bytes()[at - 1].is_ascii_whitespace() => {
                    self.gap(from, at.saturating_sub(1), expected);
                    let line_end = self.line_end(at);
                    if self.sketch.is_at(at + 1, line_end) {
                        self.sketch.set_place(Place::Comment(span(at, at).start));
                    }
                    at = line_end;
                }
                Some(b'\r' | b'\n') => {
                    let next = self.next_content(at);
                    if !self.continues(next) {
                        self.gap(from, at, expected);
                        return None;
                    }
                    at = next;
                }
                Some(b',' | b'}' | b']' | b':') | None => {
                    self.gap(from, at, expected);
                    return Some(at);
                }
                Some(_) => {
                    if at > from {
                        self.gap(from, at - 1, expected);
                    }
                    return Some(at);
                }
            }
        }
    }

    fn line_end(&self, at: usize) -> usize {
        let at = at.min(self.end);
        self.sketch.text[at..self.end].find('\n').map_or(self.end, |found| at + found)
    }

    /// The first non-blank byte at or after `at`.
    fn next_content(&self, at: usize) -> usize {
        let rest = &self.sketch.text[at.min(self.end)..self.end];
        at + (rest.len() - rest.trim_start().len())
    }

    /// Whether the line of a byte belongs to the collection.
    fn continues(&self, at: usize) -> bool {
        let start = self.sketch.text[..at].rfind('\n').map_or(0, |found| found + 1);
        let column = isize::try_from(at - start).unwrap_or(isize::MAX);
        match self.byte(at) {
            None => false,
            Some(b'}' | b']') => true,
            Some(_) => column > self.owner,
        }
    }

    /// Sets the place of the cursor if it is between two tokens.
    fn gap(&mut self, from: usize, to: usize, expected: Expected) {
        if to < from || !self.sketch.is_at(from, to) || self.sketch.place != Place::Nowhere {
            return;
        }
        let at = self.sketch.offset;
        let word = span(at, at);
        let value = |node| Place::Value(ValuePlace { node, word, quoted: false, item_column: None });
        let place = match expected {
            Expected::Key(parent) => {
                Place::Key(KeyPlace { parent, word, entry: None, column: 0, flow: true, quoted: false })
            }
            Expected::Value(node) => value(node),
            // The item is added so that it has a path.
            Expected::Item(parent) => value(self.sketch.add(parent, String::new(), None)),
            Expected::Delimiter => return,
        };
        self.sketch.set_place(place);
    }
}

/// The bytes between quotes, of which the closing one may be missing.
pub(super) fn inner(text: &str, start: usize, end: usize) -> (usize, usize) {
    let quote = text.as_bytes()[start];
    let is_closed = end > start + 1 && text.as_bytes()[end - 1] == quote;
    (start + 1, if is_closed { end - 1 } else { end.max(start + 1) })
}

/// The offset of the byte after the closing quote.
pub(super) fn end_of_quoted(text: &str, start: usize, limit: usize, quote: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while at < limit {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 1,
            b'\'' if quote == b'\'' && at + 1 < limit && bytes[at + 1] == b'\'' => at += 1,
            byte if byte == quote => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}
