//! Edits of block collections: whole lines, aligned with their siblings.

use serde_json::{Map, Value};

use super::editor::Editor;
use super::write::Style;
use crate::lint::fix::text::piece_table::TextChange;
use crate::tree::SlotKind;

/// Maximum number of lines of a comment that is removed with the entry below it. A longer one is about more than this
/// entry.
const MAX_REMOVED_COMMENT_LINES: usize = 3;

/// Which of the comment lines above an entry go with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comments {
    /// All, because they are written again where it goes.
    All,
    /// The lines that are about it alone.
    Own,
}

impl Editor<'_> {
    /// Replaces a value. A comment after it is kept.
    pub(super) fn replace(&self, slot: u32, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        match layout.parent(slot) {
            None => self.replace_root(value),
            Some(parent) if layout.is_flow(parent) => self.replace_in_flow(slot, value),
            Some(_) => {
                let start = layout.start(slot)?;
                let column = layout.column(start);
                let style = self.style_of(slot, column);
                let text = match layout.key(slot) {
                    Some(_) => style.value_after_key(value, column),
                    None => style.value_after_dash(value, column, self.item_width(slot, column)),
                };
                self.replace_text(slot, &text)
            }
        }
    }

    /// Replaces the value of an entry or item by text: its first line after the colon or dash, the other
    /// lines below.
    fn replace_text(&self, slot: u32, text: &str) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let written = layout.value_extent(slot)?;
        let (first, below) = match text.find(['\r', '\n']) {
            Some(end) => text.split_at(end),
            None => (text, ""),
        };
        let old = &layout.text[written.head.clone()];
        let blanks = old.len() - old.trim_start_matches([' ', '\t']).len();
        let mut changes = Vec::new();
        if written.rest.is_none() && blanks > 0 && blanks < old.len() && !first.is_empty() {
            // The spaces before the value are kept, because values may be aligned.
            let start = written.head.start + blanks;
            changes.push(TextChange::new(start..written.head.end, first.trim_start()));
        } else {
            changes.push(TextChange::new(written.head.clone(), first));
        }
        match written.rest {
            Some(rest) => changes.push(TextChange::new(rest, below)),
            None if below.is_empty() => {}
            None => changes.push(TextChange::insert(layout.line_end(written.head.end), below)),
        }
        Some(changes)
    }

    fn replace_root(&self, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let span = layout.span(0);
        if !layout.is_block(0) {
            let text = if self.is_json() && self.is_multiline(0) {
                self.flow_style(0).pretty(value, 0)
            } else {
                self.flow_style(0).flow(value)
            };
            return Some(vec![TextChange::new(span, text)]);
        }
        let end = layout.previous_line_end(layout.line_below(0)?);
        let start = layout.start(layout.children(0).first().copied()?)?;
        let column = layout.column(start);
        let text = match value {
            Value::Object(map) if !map.is_empty() => self.style.mapping(map, column),
            other => self.style.flow(other),
        };
        layout.is_first_on_line(start).then(|| vec![TextChange::new(start..end, text)])
    }

    /// The style for the value of an entry or item. The style of its current value has priority.
    fn style_of(&self, slot: u32, column: usize) -> Style {
        let layout = &self.layout;
        let mut style = self.style.clone();
        match layout.kind(slot) {
            SlotKind::Quoted => {
                style.always_quote = true;
                let quote = layout.text[layout.span(slot)].chars().next();
                style.quote = quote.unwrap_or(style.quote);
            }
            kind @ (SlotKind::Mapping | SlotKind::Sequence) => {
                let first = layout.children(slot).first().copied();
                let depth = first
                    .and_then(|first| layout.start(first))
                    .and_then(|start| layout.column(start).checked_sub(column));
                if let Some(depth) = depth.filter(|_| layout.key(slot).is_some()) {
                    if kind == SlotKind::Sequence {
                        style.sequence_indent = depth;
                    } else if depth > 0 {
                        style.indent = depth;
                    }
                }
            }
            _ => {}
        }
        style
    }

    /// Number of columns from the dashes of a list, at `column`, to the keys of its items.
    fn item_width(&self, item: u32, column: usize) -> usize {
        let layout = &self.layout;
        let first_key = |item: u32| {
            let first = layout.tree.children(item).next()?;
            let key = layout.key(first)?;
            (layout.kind(item) == SlotKind::Mapping).then(|| layout.column(key.start))
        };
        let siblings = layout.parent(item).map(|list| layout.tree.children(list));
        std::iter::once(item)
            .chain(siblings.into_iter().flatten().take(16))
            .find_map(first_key)
            .and_then(|key| key.checked_sub(column))
            .filter(|width| *width >= 2)
            .unwrap_or(2)
    }

    pub(super) fn add_member(&self, mapping: u32, key: &str, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        if layout.is_flow(mapping) {
            if self.is_empty_under_block(mapping) {
                let mut map = Map::new();
                map.insert(key.to_owned(), value.clone());
                return self.replace(mapping, &Value::Object(map));
            }
            return self.add_to_flow(mapping, Some(key), value);
        }
        let column = self.member_column(mapping)?;
        let text = self.style.entry(key, value, column);
        self.add_lines(mapping, column, &text)
    }

    /// The column of a block mapping's keys.
    fn member_column(&self, mapping: u32) -> Option<usize> {
        let first = self.layout.tree.children(mapping).next()?;
        let key = self.layout.key(first)?;
        Some(self.layout.column(key.start))
    }

    /// Inserts lines after the last child of a block collection.
    fn add_lines(&self, parent: u32, column: usize, text: &str) -> Option<Vec<TextChange>> {
        let last = self.layout.tree.children(parent).last()?;
        let at = self.layout.end_with_comments(last, column)?;
        Some(vec![self.insert_lines(at, column, text)])
    }

    /// Inserts lines at the start of a line, or at the end of a text without a final line end.
    fn insert_lines(&self, at: usize, column: usize, text: &str) -> TextChange {
        let indent = " ".repeat(column);
        let eol = self.style.eol;
        let before = &self.layout.text[self.layout.range.start..at];
        if before.is_empty() || before.ends_with('\n') {
            TextChange::insert(at, format!("{indent}{text}{eol}"))
        } else {
            TextChange::insert(at, format!("{eol}{indent}{text}"))
        }
    }

    /// Whether a flow collection is empty and is part of a block collection, so that new content can be
    /// written in block style.
    fn is_empty_under_block(&self, slot: u32) -> bool {
        let layout = &self.layout;
        layout.tree.children(slot).next().is_none()
            && layout.parent(slot).is_some_and(|parent| layout.is_block(parent))
    }

    /// Inserts an item into a list; if `index` equals its length, appends the item.
    pub(super) fn add_item(&self, list: u32, index: usize, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        if layout.is_flow(list) {
            if self.is_empty_under_block(list) {
                return self.replace(list, &Value::Array(vec![value.clone()]));
            }
            return self.insert_in_flow(list, index, value);
        }
        let items = layout.children(list);
        let first = *items.first()?;
        let column = layout.column(layout.start(first)?);
        let width = self.item_width(first, column);
        let text = format!("-{}", self.style.value_after_dash(value, column, width));
        let Some(next) = items.get(index) else {
            return self.add_lines(list, column, &text);
        };
        let dash = layout.start(*next)?;
        if layout.is_first_on_line(dash) {
            let top = layout.start_with_comments(*next)?;
            return Some(vec![self.insert_lines(top, column, &text)]);
        }
        let line = self.style.line_break(column);
        layout.is_compact(dash).then(|| vec![TextChange::insert(dash, format!("{text}{line}"))])
    }

    /// Removes an entry or item and the comment directly above it that is about it alone. A parent that becomes empty is written
    /// as `{}` or `[]`.
    pub(super) fn remove(&self, slot: u32) -> Option<Vec<TextChange>> {
        self.remove_with(slot, Comments::Own)
    }

    fn remove_with(&self, slot: u32, comments: Comments) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let parent = layout.parent(slot)?;
        if layout.is_flow(parent) {
            return self.remove_from_flow(slot, parent);
        }
        if layout.children(parent).len() == 1 {
            let empty = match layout.kind(parent) {
                SlotKind::Mapping => Value::Object(Map::new()),
                _ => Value::Array(Vec::new()),
            };
            return self.replace(parent, &empty);
        }
        Some(vec![TextChange::delete(self.lines_of(slot, comments)?)])
    }

    /// The lines of an entry or item that has siblings, including comments above and below it.
    fn lines_of(&self, slot: u32, which: Comments) -> Option<std::ops::Range<usize>> {
        let layout = &self.layout;
        let start = layout.start(slot)?;
        let end = layout.end_with_comments(slot, layout.column(start))?;
        if layout.is_first_on_line(start) {
            let (entry, with_comments) = (layout.line_start(start), layout.start_with_comments(slot)?);
            let comments = &layout.text[with_comments..entry];
            let is_of_more =
                comments.lines().count() > MAX_REMOVED_COMMENT_LINES || self.is_heading(slot, comments, end);
            let top = if which == Comments::Own && is_of_more { entry } else { with_comments };
            let whole = &layout.text[layout.range.clone()];
            if end == layout.range.end && !whole.ends_with('\n') {
                // A file without a final line end keeps that property.
                return Some(layout.previous_line_end(top)..end);
            }
            return Some(top..end);
        }
        // The first entry of a mapping on the line of a dash: the next entry moves to its position.
        let next = layout.skip_space(end);
        (layout.is_compact(start) && next < layout.range.end && layout.tree.has_next(slot))
            .then_some(start..next)
    }

    /// Whether a comment above an entry may be the heading of the next ones as well: another key follows on the line `below` without
    /// a comment of its own, and the comment does not name the key of the entry.
    fn is_heading(&self, slot: u32, comment: &str, below: usize) -> bool {
        let layout = &self.layout;
        let Some(key) = layout.key(slot) else { return false };
        let is_followed = below < layout.range.end
            && layout.tree.has_next(slot)
            && layout.skip_blanks(below) != layout.line_end(below)
            && layout.byte(layout.skip_blanks(below)) != Some(b'#');
        is_followed && !comment.contains(&layout.text[key.start..key.end])
    }

    /// Moves an entry of a block mapping to another block mapping, or renames it. Its text and comments are
    /// kept and reindented. `None` if it must be written anew.
    pub(super) fn move_entry(&self, slot: u32, target: u32, name: &str) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let parent = layout.parent(slot)?;
        let key = layout.key(slot)?;
        if parent == target {
            let style = if layout.is_flow(parent) { self.flow_style(parent) } else { self.style.clone() };
            let text = if layout.is_flow(parent) { style.flow_key(name) } else { style.block_key(name) };
            return Some(vec![TextChange::new(key, text)]);
        }
        if layout.kind(parent) != SlotKind::Mapping || !layout.is_compact(key.start) {
            return None;
        }
        let column = layout.column(key.start);
        let after = layout.after_indicator(slot)?;
        let end = layout.previous_line_end(layout.end_with_comments(slot, column)?);
        let fresh = self.is_empty_under_block(target) && layout.kind(target) == SlotKind::FlowMapping;
        let new_column = if fresh {
            let start = layout.start(target)?;
            match layout.key(target) {
                Some(_) => layout.column(start) + self.style.indent,
                None => layout.column(start) + 2,
            }
        } else if layout.kind(target) == SlotKind::Mapping {
            self.member_column(target)?
        } else {
            return None;
        };
        let mut text = String::new();
        if layout.is_first_on_line(key.start) {
            let top = layout.start_with_comments(slot)?;
            let comments = &layout.text[top..layout.line_start(key.start)];
            for line in comments.lines() {
                text.push_str(line.trim_start());
                text.push_str(&self.style.line_break(new_column));
            }
        }
        text.push_str(&self.style.block_key(name));
        text.push(':');
        reindent(&layout.text[after..end], column, new_column, &mut text);
        let mut changes = self.remove_with(slot, Comments::All)?;
        if fresh {
            let lead = match layout.key(target) {
                Some(_) => self.style.line_break(new_column),
                None => " ".to_owned(),
            };
            changes.extend(self.replace_text(target, &format!("{lead}{text}"))?);
        } else {
            changes.extend(self.add_lines(target, new_column, &text)?);
        }
        Some(changes)
    }
}

/// Appends text whose lines move from one column to another; its first line is not reindented.
fn reindent(text: &str, from: usize, to: usize, out: &mut String) {
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let blank = line.trim().is_empty();
        if at == 0 || blank {
            out.push_str(line);
        } else if to >= from {
            out.push_str(&" ".repeat(to - from));
            out.push_str(line);
        } else {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            out.push_str(&line[spaces.min(from - to)..]);
        }
    }
}
