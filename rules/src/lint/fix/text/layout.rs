//! Positions in the text: lines, columns, colons and dashes around the nodes of a tree.
//!
//! A tree contains the spans of keys and values. An editor also needs the position of the colon or dash, the
//! first and last line of an entry, and the comments that belong to it. If the text is written in a way that
//! gives no clear answer, the result is `None` and the text is not edited.

use std::ops::Range;

use crate::tree::{NONE, SlotKind, Tree};

/// A document's tree and the part of the text around it.
pub(super) struct Layout<'t> {
    pub(super) tree: &'t Tree,
    pub(super) text: &'t str,
    /// The part of the text that may be edited. It begins at the start of a line.
    pub(super) range: Range<usize>,
}

/// The extent of a value in a block collection.
pub(super) struct ValueExtent {
    /// After the colon or dash: properties and text on the same line, or a flow collection or quoted string
    /// that continues on the following lines.
    pub(super) head: Range<usize>,
    /// From the end of the head's line to the end of the value, if the value is on the following lines.
    pub(super) rest: Option<Range<usize>>,
}

impl<'t> Layout<'t> {
    pub(super) fn new(tree: &'t Tree, range: Range<usize>) -> Layout<'t> {
        Layout { tree, text: &tree.text, range }
    }

    fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        (at < self.range.end).then(|| self.bytes()[at])
    }

    pub(super) fn line_start(&self, at: usize) -> usize {
        // Columns are also needed for text outside the range.
        let from = if at < self.range.start { 0 } else { self.range.start };
        self.text[from..at].rfind('\n').map_or(from, |n| from + n + 1)
    }

    /// The text of the range from an offset on.
    fn text_from(&self, at: usize) -> &'t str {
        &self.text[at..self.range.end.max(at)]
    }

    /// The end of the line, before its line end.
    pub(super) fn line_end(&self, at: usize) -> usize {
        match self.text_from(at).find('\n') {
            Some(n) if n > 0 && self.bytes()[at + n - 1] == b'\r' => at + n - 1,
            Some(n) => at + n,
            None => self.range.end.max(at),
        }
    }

    pub(super) fn next_line(&self, at: usize) -> usize {
        let rest = self.text_from(at);
        rest.find('\n').map_or(at + rest.len(), |n| at + n + 1)
    }

    /// The line end used around an offset.
    pub(super) fn eol(&self, at: usize) -> &'static str {
        let here = self.text_from(at).find('\n').map(|n| at + n);
        let end = here.or_else(|| self.text[..at].rfind('\n'));
        match end {
            Some(n) if n > 0 && self.bytes()[n - 1] == b'\r' => "\r\n",
            _ => "\n",
        }
    }

    /// The text before an offset on its line, without a byte order mark.
    fn line_prefix(&self, at: usize) -> &'t str {
        self.text[self.line_start(at)..at].trim_start_matches('\u{FEFF}')
    }

    /// The column of an offset, from 0.
    pub(super) fn column(&self, at: usize) -> usize {
        self.line_prefix(at).chars().count()
    }

    /// Whether there are only spaces before an offset on its line.
    pub(super) fn is_first_on_line(&self, at: usize) -> bool {
        self.line_prefix(at).bytes().all(|b| b == b' ')
    }

    /// Whether there are only spaces and dashes before an offset on its line.
    pub(super) fn is_compact(&self, at: usize) -> bool {
        self.line_prefix(at).bytes().all(|b| matches!(b, b' ' | b'-'))
    }

    /// The first offset from here on that is not a space.
    pub(super) fn skip_blanks(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    }

    /// The first offset from here on that is neither a space nor a line end.
    pub(super) fn skip_space(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            at += 1;
        }
        at
    }

    pub(super) fn kind(&self, slot: u32) -> SlotKind {
        self.tree.slot(slot).kind
    }

    pub(super) fn is_block(&self, slot: u32) -> bool {
        matches!(self.kind(slot), SlotKind::Mapping | SlotKind::Sequence)
    }

    pub(super) fn is_flow(&self, slot: u32) -> bool {
        matches!(self.kind(slot), SlotKind::FlowMapping | SlotKind::FlowSequence)
    }

    pub(super) fn span(&self, slot: u32) -> Range<usize> {
        let span = self.tree.span(slot);
        span.start as usize..span.end as usize
    }

    pub(super) fn key(&self, slot: u32) -> Option<Range<usize>> {
        let span = self.tree.key_span(slot)?;
        Some(span.start as usize..span.end as usize)
    }

    pub(super) fn parent(&self, slot: u32) -> Option<u32> {
        let parent = self.tree.slot(slot).parent;
        (parent != NONE).then_some(parent)
    }

    pub(super) fn children(&self, slot: u32) -> Vec<u32> {
        self.tree.children(slot).collect()
    }

    /// Start of an entry's key or an item's dash.
    pub(super) fn start(&self, slot: u32) -> Option<usize> {
        match self.key(slot) {
            Some(key) => Some(key.start),
            None => self.dash(slot),
        }
    }

    /// The offset after an entry's colon or an item's dash.
    pub(super) fn after_indicator(&self, slot: u32) -> Option<usize> {
        match self.key(slot) {
            Some(_) => self.after_colon(slot),
            None => self.dash(slot).map(|dash| dash + 1),
        }
    }

    /// The offset after the colon of an entry, if it is on the line of the key.
    pub(super) fn after_colon(&self, slot: u32) -> Option<usize> {
        let colon = self.skip_blanks(self.key(slot)?.end);
        (self.byte(colon) == Some(b':')).then_some(colon + 1)
    }

    /// The dash of an item of a block list, searched backwards over spaces, properties, comments and empty
    /// lines.
    fn dash(&self, slot: u32) -> Option<usize> {
        let mut at = self.span(slot).start.min(self.range.end);
        let mut above = false;
        loop {
            let line = self.line_start(at);
            let mut lead = self.text[line..at].trim_end();
            if above {
                // The text before the value contains no value, so `#` begins a comment.
                let comment = lead
                    .match_indices('#')
                    .map(|(i, _)| i)
                    .find(|i| *i == 0 || lead.as_bytes()[i - 1].is_ascii_whitespace());
                lead = lead[..comment.unwrap_or(lead.len())].trim_end();
                if self.kind(slot) == SlotKind::Block {
                    // The header of a block scalar.
                    let header = lead.trim_end_matches(|c: char| c.is_ascii_digit() || "+-".contains(c));
                    lead = header.strip_suffix(['|', '>']).unwrap_or(lead).trim_end();
                }
            }
            loop {
                let word = lead.rfind([' ', '\t']).map_or(0, |blank| blank + 1);
                if !lead[word..].starts_with(['&', '!']) {
                    break;
                }
                lead = lead[..word].trim_end();
            }
            let free = lead.trim_start_matches('\u{FEFF}');
            if let Some(before) = free.strip_suffix('-') {
                let stands_alone = before.is_empty() || before.ends_with([' ', '\t']);
                return stands_alone.then_some(line + lead.len() - 1);
            }
            if !free.is_empty() || line == self.range.start {
                return None;
            }
            above = true;
            at = line - 1;
        }
    }

    /// The end of properties (`&anchor`, `!tag`) after an offset, without the spaces that follow.
    fn skip_properties(&self, after: usize) -> usize {
        let mut end = after;
        loop {
            let at = self.skip_blanks(end);
            if !matches!(self.byte(at), Some(b'&' | b'!')) {
                return end;
            }
            end = at;
            while self
                .byte(end)
                .is_some_and(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b',' | b']' | b'}'))
            {
                end += 1;
            }
        }
    }

    /// The extent of the value of an entry or item of a block collection.
    pub(super) fn value_extent(&self, slot: u32) -> Option<ValueExtent> {
        let after = self.after_indicator(slot)?;
        let head_end = self.skip_properties(after);
        let span = self.span(slot);
        let kind = self.kind(slot);
        if kind == SlotKind::Plain && span.is_empty() {
            return Some(ValueExtent { head: after..head_end, rest: None });
        }
        if kind == SlotKind::Block {
            let header = self.skip_blanks(head_end);
            if !matches!(self.byte(header), Some(b'|' | b'>')) {
                return None;
            }
            let mut end = header;
            while self.byte(end).is_some_and(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n')) {
                end += 1;
            }
            let rest = self.line_end(end)..self.previous_line_end(self.line_below(slot)?);
            return Some(ValueExtent { head: after..end, rest: (!rest.is_empty()).then_some(rest) });
        }
        let line = self.line_end(after);
        if span.start <= line {
            let end =
                if self.is_block(slot) { self.previous_line_end(self.line_below(slot)?) } else { span.end };
            return (end >= after).then_some(ValueExtent { head: after..end, rest: None });
        }
        let end = if self.is_block(slot) { self.previous_line_end(self.line_below(slot)?) } else { span.end };
        (end >= line).then_some(ValueExtent { head: after..head_end, rest: Some(line..end) })
    }

    /// The end of the line before `at`, which is the start of a line.
    pub(super) fn previous_line_end(&self, at: usize) -> usize {
        let Some(text) = self.text[..at].strip_suffix('\n') else {
            return at;
        };
        let end = text.strip_suffix('\r').unwrap_or(text).len();
        end.max(self.range.start)
    }

    /// The last descendant of a node, in the order of the text.
    fn last_leaf(&self, mut slot: u32) -> u32 {
        while self.is_block(slot) {
            match self.tree.children(slot).last() {
                Some(last) => slot = last,
                None => break,
            }
        }
        slot
    }

    /// The start of the line after a value of a block collection.
    pub(super) fn line_below(&self, slot: u32) -> Option<usize> {
        let leaf = self.last_leaf(slot);
        let span = self.span(leaf);
        match self.kind(leaf) {
            SlotKind::Plain if span.is_empty() => {
                if leaf == 0 {
                    return Some(self.next_line(span.end));
                }
                Some(self.next_line(self.skip_properties(self.after_indicator(leaf)?)))
            }
            SlotKind::Block => {
                let after = self.after_indicator(leaf)?;
                let header = self.skip_properties(after);
                let keeps = self.text[header..self.line_end(header)]
                    .split('#')
                    .next()
                    .is_some_and(|h| h.contains('+'));
                if keeps {
                    // The span may include the indentation of the following line.
                    let text = self.text[..span.end].trim_end_matches(' ');
                    let end = if text.ends_with('\n') { text.len() } else { span.end };
                    return Some(end.max(self.next_line(header)));
                }
                let content = self.text[span.clone()].trim_end_matches([' ', '\t', '\r', '\n']);
                Some(if content.is_empty() {
                    self.next_line(header)
                } else {
                    self.next_line(span.start + content.len())
                })
            }
            _ => Some(self.next_line(span.end)),
        }
    }

    /// The first line that is not blank, starting at `line`, the start of a line.
    pub(super) fn skip_blank_lines(&self, mut line: usize) -> usize {
        while line < self.range.end && self.skip_blanks(line) == self.line_end(line) {
            line = self.next_line(line);
        }
        line
    }

    /// The column of a comment that is the only text on its line.
    fn comment_column(&self, line: usize) -> Option<usize> {
        let at = self.skip_blanks(line);
        (self.byte(at) == Some(b'#')).then_some(at - line)
    }

    /// The line after an entry at `column`, including comments that are indented deeper than it.
    pub(super) fn end_with_comments(&self, slot: u32, column: usize) -> Option<usize> {
        let mut end = self.line_below(slot)?;
        let mut line = end;
        while line < self.range.end {
            match self.comment_column(line) {
                Some(at) if at > column => {
                    line = self.next_line(line);
                    end = line;
                }
                None if self.skip_blanks(line) == self.line_end(line) => {
                    line = self.next_line(line);
                }
                _ => break,
            }
        }
        Some(end)
    }

    /// The first line of an entry or item. A comment directly above it in the same column belongs to it, but
    /// a comment above the first line of a document belongs to the document.
    pub(super) fn start_with_comments(&self, slot: u32) -> Option<usize> {
        let start = self.start(slot)?;
        let column = self.column(start);
        let mut top = self.line_start(start);
        let first_of_root = self.tree.children(0).next() == Some(slot);
        while !first_of_root && top > self.range.start {
            let above = self.line_start(top - 1);
            if self.comment_column(above) != Some(column) {
                break;
            }
            top = above;
        }
        Some(top)
    }
}
