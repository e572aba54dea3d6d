//! Block collections: classifies each line, and finds the collection that it belongs to by its indentation.

use super::flow::{self, end_of_quoted, inner};
use super::model::{KeyPlace, Place, Shape, Sketch, ValuePlace, span};

pub(super) fn read(sketch: &mut Sketch<'_>, start: usize, end: usize) {
    let mut reader = LineReader { sketch, end, open: Vec::new() };
    let mut at = start;
    while at <= end {
        at = reader.line(at);
    }
}

/// A block collection to which further lines may belong.
struct Open {
    column: usize,
    node: usize,
    is_seq: bool,
}

struct LineReader<'s, 't> {
    sketch: &'s mut Sketch<'t>,
    end: usize,
    open: Vec<Open>,
}

/// A line without its end, and the start of the next one.
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    end: usize,
    next: usize,
}

impl LineReader<'_, '_> {
    fn line_at(&self, start: usize) -> Line {
        let text = self.sketch.text;
        let next = text[start..self.end].find('\n').map_or(self.end + 1, |found| start + found + 1);
        let end = start + text[start..(next - 1).min(self.end)].trim_end_matches('\r').len();
        Line { start, end, next }
    }

    /// Reads a line, and the lines of its value. Returns the start of the next line.
    fn line(&mut self, start: usize) -> usize {
        let text = self.sketch.text;
        let line = self.line_at(start);
        let at = skip_blanks(text, start, line.end);
        let content = &text[at..line.end];
        if content.trim().is_empty() {
            if self.sketch.is_at(start, line.end) {
                let offset = self.sketch.offset;
                self.partial_key(offset - start, offset, offset);
            }
            return line.next;
        }
        if content.starts_with('#') {
            self.comment(at, line.end);
            return line.next;
        }
        // Directives, ends of documents, and lines of templates.
        if at == start && (content.starts_with('%') || content == "...") || content.starts_with("{{") {
            return line.next;
        }
        self.content(line, at)
    }

    fn content(&mut self, line: Line, mut at: usize) -> usize {
        let text = self.sketch.text;
        let Line { start, end, next } = line;
        let mut item = None;
        while text[at..end].starts_with("- ") || text[at..end].starts_with("-\t") || &text[at..end] == "-" {
            let column = at - start;
            let seq = self.container(column, true);
            let node = self.sketch.add(seq, String::new(), None);
            item = Some((node, column));
            let dash = at;
            at = skip_blanks(text, at + 1, end);
            if at == end || text[at..end].starts_with('#') {
                let last = if at == end { end } else { at - 1 };
                if self.sketch.is_at(dash + 2, last) {
                    let offset = self.sketch.offset;
                    let (word, item_column) = (span(offset, offset), Some(offset - start));
                    self.sketch.set_place(Place::Value(ValuePlace {
                        node,
                        word,
                        quoted: false,
                        item_column,
                    }));
                }
                self.comment(at, end);
                return next;
            }
        }
        let column = at - start;
        if let Some((key_end, colon)) = key_at(text, at, end) {
            let map = self.container(column, false);
            let quoted = text[at..].starts_with(['"', '\'']);
            let (from, to) = if quoted { inner(text, at, key_end) } else { (at, key_end) };
            let node = self.sketch.add(map, text[from..to].to_owned(), Some(span(at, key_end)));
            if self.sketch.is_at(from, to) {
                let (word, entry) = (span(from, to), Some(node));
                let place = KeyPlace { parent: map, word, entry, column, flow: false, quoted };
                self.sketch.set_place(Place::Key(place));
            }
            return self.value(node, colon + 1, line, column, None);
        }
        if let Some((node, dash)) = item {
            return self.value(node, at, line, dash, Some(column));
        }
        if text[at..].starts_with(['{', '[', '"', '\'', '|', '>', '&', '!'])
            && let Some((node, owner)) = self.owner(column)
            && self.sketch.nodes[node].shape == Shape::Empty
        {
            return match owner {
                Some(owner) => self.value(node, at, line, owner, None),
                None if text[at..].starts_with(['{', '[']) => {
                    let behind = flow::read(self.sketch, node, at, self.end, -1);
                    self.next_line(behind)
                }
                None => next,
            };
        }
        let trimmed = at + text[at..end].trim_end().len();
        let word_end = text[at..trimmed].find([' ', '\t']).map_or(trimmed, |found| at + found);
        if self.sketch.is_at(at, word_end) {
            self.partial_key(column, at, word_end);
        }
        next
    }

    /// Adds the field that a name at a column becomes, if nothing else is on its line.
    fn partial_key(&mut self, column: usize, from: usize, to: usize) {
        let word = span(from, to);
        let place = |parent: usize| {
            Place::Key(KeyPlace { parent, word, entry: None, column, flow: false, quoted: false })
        };
        let Some(mut level) = self.open.iter().rposition(|open| open.column <= column) else {
            if self.open.is_empty() && self.sketch.nodes[0].shape == Shape::Empty {
                self.sketch.set_place(place(0));
            }
            return;
        };
        // A list at the column of its field: the next line is another field.
        if self.open[level].is_seq && level > 0 && self.open[level - 1].column == column {
            level -= 1;
        }
        let open = &self.open[level];
        if open.column == column {
            let parent = open.node;
            self.sketch.set_place(place(parent));
            return;
        }
        let Some(last) = self.sketch.nodes[open.node].children.last().copied() else { return };
        if matches!(self.sketch.nodes[last].shape, Shape::Empty | Shape::Map) {
            self.sketch.set_place(place(last));
        }
    }

    /// The value that a line at a column belongs to, with the column of the field or item that has it; no
    /// column for the document itself.
    fn owner(&self, column: usize) -> Option<(usize, Option<usize>)> {
        if self.open.is_empty() {
            return Some((0, None));
        }
        let open = self.open.iter().rev().find(|open| open.column < column)?;
        let last = self.sketch.nodes[open.node].children.last().copied()?;
        Some((last, Some(open.column)))
    }

    /// The collection that a field or an item at a column belongs to.
    fn container(&mut self, column: usize, is_seq: bool) -> usize {
        while let Some(top) = self.open.last() {
            if top.column > column || (top.column == column && top.is_seq && !is_seq) {
                self.open.pop();
            } else {
                break;
            }
        }
        let owner = match self.open.last() {
            Some(top) if top.column == column && top.is_seq == is_seq => return top.node,
            Some(top) => self.sketch.nodes[top.node].children.last().copied().unwrap_or(top.node),
            None => 0,
        };
        let wanted = if is_seq { Shape::Seq } else { Shape::Map };
        let node = match self.sketch.nodes[owner].shape {
            Shape::Empty | Shape::Scalar => {
                self.sketch.nodes[owner].shape = wanted;
                owner
            }
            same if same == wanted => owner,
            // A list among fields, or fields among items: they are read separately.
            _ => {
                let stray = self.sketch.add(owner, String::new(), None);
                self.sketch.nodes[owner].children.pop();
                self.sketch.nodes[stray].shape = wanted;
                stray
            }
        };
        self.open.push(Open { column, node, is_seq });
        node
    }

    /// Reads the value that begins after a colon or a dash. Its field or item is at `column`.
    fn value(&mut self, node: usize, from: usize, line: Line, column: usize, item: Option<usize>) -> usize {
        let text = self.sketch.text;
        let Line { end, next, .. } = line;
        let mut at = skip_blanks(text, from, end);
        // Skip anchors and tags.
        while text[at..end].starts_with(['&', '!']) {
            let word = text[at..end].find([' ', '\t']).map_or(end, |found| at + found);
            at = skip_blanks(text, word, end);
        }
        if at == end || text[at..end].starts_with('#') {
            let last = if at == end { end } else { at - 1 };
            if item.is_none() && self.sketch.is_at(from + 1, last) {
                let word = span(self.sketch.offset, self.sketch.offset);
                self.sketch.set_place(Place::Value(ValuePlace {
                    node,
                    word,
                    quoted: false,
                    item_column: None,
                }));
            }
            self.comment(at, end);
            return next;
        }
        match text.as_bytes()[at] {
            b'|' | b'>' => {
                let behind = self.end_of_block(next, column);
                self.sketch.set_scalar(node, at, behind.saturating_sub(1).clamp(end, self.end));
                return behind;
            }
            b'{' | b'[' if !text[at..end].starts_with("{{") => {
                let owner = isize::try_from(column).unwrap_or(isize::MAX);
                let behind = flow::read(self.sketch, node, at, self.end, owner);
                return self.next_line(behind);
            }
            quote @ (b'"' | b'\'') => {
                let on_line = end_of_quoted(text, at, end, quote);
                let on_lines = || {
                    let limit = self.end_of_block(next, column).saturating_sub(1).min(self.end);
                    end_of_quoted(text, at, limit, quote)
                };
                let behind = on_line.or_else(on_lines).unwrap_or(end);
                self.sketch.set_scalar(node, at, behind);
                let (from, to) = inner(text, at, behind);
                if self.sketch.is_at(from, to) {
                    let word = self.sketch.word_in(from, to);
                    let place = ValuePlace { node, word, quoted: true, item_column: None };
                    self.sketch.set_place(Place::Value(place));
                }
                return self.next_line(behind);
            }
            _ => {}
        }
        let comment = text[at..end].find(" #").or_else(|| text[at..end].find("\t#"));
        let behind = at + text[at..comment.map_or(end, |found| at + found)].trim_end().len();
        self.sketch.set_scalar(node, at, behind);
        if self.sketch.is_at(at, behind) {
            let word = self.sketch.word_in(at, behind);
            self.sketch.set_place(Place::Value(ValuePlace { node, word, quoted: false, item_column: item }));
        }
        if let Some(comment) = comment {
            self.comment(at + comment + 1, end);
        }
        self.end_of_plain(next, column)
    }

    /// The start of the first line after a scalar of several lines, which are indented deeper than its field.
    /// A blank line with the cursor is after it, if no line of the scalar follows.
    fn end_of_block(&self, from: usize, column: usize) -> usize {
        let text = self.sketch.text;
        let is_deeper = |line: Line| skip_blanks(text, line.start, line.end) - line.start > column;
        let is_blank = |line: Line| text[line.start..line.end].trim().is_empty();
        let mut at = from;
        while at < self.end {
            let line = self.line_at(at);
            let is_typed_in = self.sketch.is_at(line.start, line.end)
                && self.sketch.offset - line.start <= column
                && is_blank(line);
            if is_typed_in {
                let mut later = line.next;
                while later < self.end && is_blank(self.line_at(later)) {
                    later = self.line_at(later).next;
                }
                if later >= self.end || !is_deeper(self.line_at(later)) {
                    break;
                }
            } else if !is_blank(line) && !is_deeper(line) {
                break;
            }
            at = line.next;
        }
        at
    }

    /// The start of the first line after a plain scalar of several lines. A line that looks like a field, an
    /// item or a comment ends the scalar. So does a blank line, which may become a field.
    fn end_of_plain(&self, from: usize, column: usize) -> usize {
        let text = self.sketch.text;
        let mut at = from;
        while at < self.end {
            let line = self.line_at(at);
            let content = skip_blanks(text, line.start, line.end);
            let rest = &text[content..line.end];
            let is_structure = rest.is_empty()
                || rest.starts_with('#')
                || rest.starts_with("- ")
                || key_at(text, content, line.end).is_some();
            if is_structure || content - line.start <= column {
                break;
            }
            at = line.next;
        }
        at
    }

    /// The start of the line after a value. The rest of its last line is skipped, except a comment.
    fn next_line(&mut self, behind: usize) -> usize {
        let text = self.sketch.text;
        let behind = behind.min(self.end);
        let line = self.line_at(behind);
        let at = skip_blanks(text, behind, line.end.max(behind));
        if at > behind {
            self.comment(at, line.end);
        }
        line.next
    }

    /// Sets the place of the cursor if it is in the comment that begins at `at`.
    fn comment(&mut self, at: usize, end: usize) {
        if self.sketch.text[at..end].starts_with('#') && self.sketch.is_at(at + 1, end) {
            self.sketch.set_place(Place::Comment(span(at, at).start));
        }
    }
}

fn skip_blanks(text: &str, at: usize, end: usize) -> usize {
    let rest = &text[at.min(end)..end];
    end - rest.trim_start_matches([' ', '\t']).len()
}

/// The end of the name that begins at `at`, and its colon; `None` if the line is not a field.
fn key_at(text: &str, at: usize, end: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let is_end = |colon: usize| colon + 1 >= end || matches!(bytes[colon + 1], b' ' | b'\t');
    match bytes.get(at).filter(|_| at < end)? {
        quote @ (b'"' | b'\'') => {
            let behind = end_of_quoted(text, at, end, *quote)?;
            let colon = skip_blanks(text, behind, end);
            (colon < end && bytes[colon] == b':' && is_end(colon)).then_some((behind, colon))
        }
        b'{' | b'[' | b'#' | b'|' | b'>' | b'&' | b'!' | b'?' | b'@' | b'%' | b',' => None,
        _ => {
            let mut found = at;
            loop {
                found += text[found..end].find([':', '#'])?;
                match bytes[found] {
                    b':' if is_end(found) => {
                        return Some((at + text[at..found].trim_end().len(), found));
                    }
                    b'#' if found > at && matches!(bytes[found - 1], b' ' | b'\t') => return None,
                    _ => found += 1,
                }
            }
        }
    }
}
