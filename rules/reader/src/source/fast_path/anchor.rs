//! Anchors in block style, and aliases.

use std::ops::Range;

use super::LineScanner;

#[derive(Default)]
pub(super) struct Anchors {
    /// The names in the order of their numbers, which begin at 1.
    names: Vec<Range<usize>>,
    /// The number of the next node's anchor; 0 for none.
    next: usize,
}

impl Anchors {
    /// The number of the anchor of the node that begins here.
    pub(super) fn take(&mut self) -> usize {
        std::mem::take(&mut self.next)
    }

    pub(super) fn set(&mut self, number: usize) {
        self.next = number;
    }
}

impl LineScanner<'_> {
    /// Reads an anchor, and its value if that begins on the line that ends at `end`. Returns the start of the next
    /// line to read.
    pub(super) fn anchored(&mut self, at: usize, end: usize) -> Option<usize> {
        // A node has at most one anchor.
        if self.anchors.next != 0 {
            return None;
        }
        let name = self.anchor_name(at, end)?;
        let after = name.end;
        self.anchors.names.push(name);
        let number = self.anchors.names.len();
        let value = self.blanks(after, end);
        if value == end || self.bytes[value] == b'#' {
            let top = self.levels.last_mut()?;
            top.pending = Some(end);
            top.pending_anchor = number;
            self.expect_line_end(after, end)?;
            return Some(end + 1);
        }
        if self.bytes[value] == b'*' {
            return None;
        }
        self.anchors.set(number);
        self.value(value, end)
    }

    /// Reads an alias at the end of its line. Returns the start of the next line.
    pub(super) fn alias(&mut self, at: usize, end: usize) -> Option<usize> {
        let name = self.anchor_name(at, end)?;
        let to = name.end;
        self.add_alias(name)?;
        self.expect_line_end(to, end)?;
        Some(end + 1)
    }

    /// Appends an alias; `name` is the text after the `*`.
    pub(super) fn add_alias(&mut self, name: Range<usize>) -> Option<()> {
        let is_same = |other: &Range<usize>| self.bytes[other.clone()] == self.bytes[name.clone()];
        let number = self.anchors.names.iter().rposition(is_same)? + 1;
        self.build.alias(number, self.span(name.start - 1, name.end));
        (!self.build.fatal).then_some(())
    }

    /// The name after `&` or `*`.
    pub(super) fn anchor_name(&self, at: usize, end: usize) -> Option<Range<usize>> {
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let length = self.bytes[at + 1..end].iter().take_while(is_part).count();
        let name = at + 1..at + 1 + length;
        let ends = name.end == end || self.bytes[name.end] == b' ';
        (length > 0 && ends).then_some(name)
    }
}
