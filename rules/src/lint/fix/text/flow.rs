//! Edits of flow collections, including JSON files: commas, and lines if members are on separate lines.

use serde_json::Value;

use super::editor::Editor;
use super::write::Style;
use crate::lint::fix::text::piece_table::TextChange;
use crate::tree::SlotKind;

impl Editor<'_> {
    /// The style for new text in a flow collection: that of its members.
    pub(super) fn flow_style(&self, slot: u32) -> Style {
        let layout = &self.layout;
        let mut style = self.style.clone();
        style.json = self.is_json();
        let mut at = Some(slot);
        while let Some(collection) = at.filter(|at| layout.is_flow(*at)) {
            if let Some(first) = layout.tree.children(collection).next()
                && let Some(key) = layout.key(first)
            {
                style.json |= layout.text[key].starts_with('"');
            }
            at = layout.parent(collection);
        }
        if layout.kind(slot) == SlotKind::FlowSequence {
            // In a list of quoted strings, new strings are quoted.
            let mut quotes = layout.tree.children(slot).map(|item| {
                let quoted = layout.kind(item) == SlotKind::Quoted;
                quoted.then(|| layout.text[layout.span(item)].chars().next())
            });
            if let Some(Some(Some(quote))) = quotes.next()
                && quotes.all(|other| other == Some(Some(quote)))
            {
                style.quote = quote;
                style.always_quote = true;
            }
        }
        style
    }

    /// Whether the last member of a flow collection is on its own line.
    pub(super) fn is_multiline(&self, slot: u32) -> bool {
        let last = self.layout.tree.children(slot).last();
        last.and_then(|last| self.member_start(last)).is_some_and(|start| self.layout.is_first_on_line(start))
    }

    /// Start of a member or item; anchors and tags before it are not included.
    fn member_start(&self, slot: u32) -> Option<usize> {
        Some(match self.layout.key(slot) {
            Some(key) => key.start,
            None => self.layout.span(slot).start,
        })
    }

    /// End of a member or item. A member without value ends after its colon.
    fn member_end(&self, slot: u32) -> usize {
        let span = self.layout.span(slot);
        if span.is_empty()
            && let Some(after) = self.layout.after_colon(slot)
        {
            return after.max(span.end);
        }
        span.end
    }

    /// The text of a new member. It can have several lines if it starts on its own line.
    fn member_text(
        &self,
        style: &Style,
        key: Option<&str>,
        value: &Value,
        column: Option<usize>,
        colon: &str,
    ) -> String {
        let value = match column {
            Some(column) if style.json => style.pretty(value, column),
            _ => style.flow(value),
        };
        match key {
            Some(key) => format!("{}{colon}{value}", style.flow_key(key)),
            None => value,
        }
    }

    pub(super) fn add_to_flow(&self, slot: u32, key: Option<&str>, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let style = self.flow_style(slot);
        let children = layout.children(slot);
        let span = layout.span(slot);
        let close = span.end.checked_sub(1)?;
        let Some(last) = children.last() else {
            return self.insert_first(slot, key, value, &style);
        };
        let end = self.member_end(*last);
        let start = self.member_start(*last)?;
        let colon = self.colon(*last);
        // A trailing comma is kept.
        let comma = layout.skip_space(end);
        let trailing = layout.text[comma..close].starts_with(',');
        if layout.is_first_on_line(start) {
            let column = layout.column(start);
            let member = self.member_text(&style, key, value, Some(column), colon);
            let line = style.line_break(column);
            let last_byte = if trailing { comma + 1 } else { end };
            let mut line_end = layout.line_end(last_byte);
            if line_end > close {
                line_end = last_byte;
            }
            return Some(if trailing {
                vec![TextChange::insert(line_end, format!("{line}{member},"))]
            } else if line_end == last_byte {
                vec![TextChange::insert(end, format!(",{line}{member}"))]
            } else {
                vec![TextChange::insert(end, ","), TextChange::insert(line_end, format!("{line}{member}"))]
            });
        }
        let member = self.member_text(&style, key, value, None, colon);
        let gap = match children.as_slice() {
            [.., before, _] => {
                let comma = layout.skip_space(self.member_end(*before)) + 1;
                if comma < start { " " } else { "" }
            }
            _ if colon == ":" => "",
            _ => " ",
        };
        Some(if trailing {
            vec![TextChange::insert(comma + 1, format!("{gap}{member},"))]
        } else {
            vec![TextChange::insert(end, format!(",{gap}{member}"))]
        })
    }

    /// The colon in the style of the member: compact JSON has no space after it.
    fn colon(&self, slot: u32) -> &'static str {
        let layout = &self.layout;
        match (layout.key(slot), layout.after_colon(slot)) {
            (Some(key), Some(after))
                if after == layout.span(slot).start
                    && layout.text[key.clone()].ends_with(['"', '\''])
                    && !layout.span(slot).is_empty() =>
            {
                ":"
            }
            (None, _) => {
                // An item: the style of the key of its collection.
                match layout.parent(slot).filter(|p| layout.is_flow(*p) && layout.key(*p).is_some()) {
                    Some(parent) if layout.parent(parent).is_some_and(|p| layout.is_flow(p)) => {
                        self.colon(parent)
                    }
                    _ => ": ",
                }
            }
            _ => ": ",
        }
    }

    /// Inserts the first member of an empty flow collection.
    fn insert_first(
        &self,
        slot: u32,
        key: Option<&str>,
        value: &Value,
        style: &Style,
    ) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let span = layout.span(slot);
        let inside = span.start + 1..span.end.checked_sub(1)?;
        if layout.text[inside.clone()].contains('#') {
            return None;
        }
        let parent = layout.parent(slot);
        let spread =
            style.json && parent.is_some_and(|parent| layout.is_flow(parent) && self.is_multiline(parent));
        let colon = match parent {
            Some(parent) if layout.is_flow(parent) => self.colon(slot),
            _ => ": ",
        };
        let text = if spread {
            let start = self.member_start(slot)?;
            let column = layout.column(start);
            let deeper = column + style.indent;
            format!(
                "{}{}{}",
                style.line_break(deeper),
                self.member_text(style, key, value, Some(deeper), colon),
                style.line_break(column)
            )
        } else {
            self.member_text(style, key, value, None, colon)
        };
        Some(vec![TextChange::new(inside, text)])
    }

    pub(super) fn insert_in_flow(&self, list: u32, index: usize, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let children = layout.children(list);
        let Some(next) = children.get(index) else {
            return self.add_to_flow(list, None, value);
        };
        let style = self.flow_style(list);
        let start = self.member_start(*next)?;
        let before = layout.text[..start].chars().next_back();
        // The position of anchors and tags before the item is not known here.
        if !before.is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | ',' | '[')) {
            return None;
        }
        let colon = self.colon(*next);
        Some(vec![if layout.is_first_on_line(start) {
            let column = layout.column(start);
            let member = self.member_text(&style, None, value, Some(column), colon);
            TextChange::insert(start, format!("{member},{}", style.line_break(column)))
        } else {
            let member = self.member_text(&style, None, value, None, colon);
            TextChange::insert(start, format!("{member}, "))
        }])
    }

    pub(super) fn replace_in_flow(&self, slot: u32, value: &Value) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let parent = layout.parent(slot)?;
        let mut style = self.flow_style(parent);
        let span = layout.span(slot);
        if layout.kind(slot) == SlotKind::Quoted {
            style.always_quote = true;
            let quote = layout.text[span.clone()].chars().next();
            style.quote = quote.unwrap_or(style.quote);
        }
        let start = self.member_start(slot)?;
        let text = if style.json && layout.is_first_on_line(start) {
            style.pretty(value, layout.column(start))
        } else {
            style.flow(value)
        };
        if !span.is_empty() {
            return Some(vec![TextChange::new(span, text)]);
        }
        match (layout.key(slot), layout.after_colon(slot)) {
            (Some(_), Some(after)) => {
                let blanks = after..layout.skip_blanks(after);
                Some(vec![TextChange::new(blanks, format!(" {text}"))])
            }
            (Some(key), None) => Some(vec![TextChange::insert(key.end, format!(": {text}"))]),
            (None, _) => None,
        }
    }

    /// Removes a member or item with its comma.
    pub(super) fn remove_from_flow(&self, slot: u32, parent: u32) -> Option<Vec<TextChange>> {
        let layout = &self.layout;
        let span = layout.span(parent);
        let close = span.end.checked_sub(1)?;
        let children = layout.children(parent);
        let at = children.iter().position(|child| *child == slot)?;
        let start = self.member_start(slot)?;
        let end = self.member_end(slot);
        let comma = layout.skip_space(end);
        let has_comma = layout.text[comma..close].starts_with(',');
        if children.len() == 1 {
            let inside = &layout.text[span.start + 1..close];
            return (!inside.contains('#')).then(|| vec![TextChange::delete(span.start + 1..close)]);
        }
        if children.get(at + 1).is_some() {
            if !has_comma {
                return None;
            }
            // Up to the next member, but without a comment that belongs to it.
            let line_end = layout.line_end(comma);
            let rest = layout.skip_blanks(comma + 1);
            let ends_line = rest >= line_end || layout.text[rest..close].starts_with('#');
            let until = if ends_line { layout.skip_space(line_end) } else { rest };
            return (until <= close).then(|| vec![TextChange::delete(start..until)]);
        }
        let before = self.member_end(children[at.checked_sub(1)?]);
        let own_comma = layout.skip_space(before);
        if !layout.text[own_comma..close].starts_with(',') {
            return None;
        }
        let last = if has_comma { comma + 1 } else { end };
        if !layout.is_first_on_line(start) {
            // A trailing comma is kept.
            return Some(vec![TextChange::delete(before..if has_comma { comma } else { end })]);
        }
        // Removes the line, and the preceding comma unless there is a trailing one.
        let line = layout.line_start(start);
        let mut until = layout.line_end(last);
        if until > close {
            until = last;
        }
        let mut changes = vec![TextChange::delete(layout.previous_line_end(line)..until)];
        if !has_comma {
            changes.push(TextChange::delete(own_comma..own_comma + 1));
        }
        Some(changes)
    }
}
