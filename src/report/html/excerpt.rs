//! The lines around locations in a file, and the lines that edits change.

use std::collections::BTreeMap;

use gpulint_rules::source::Source;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::markup::Markup;
use crate::report::excerpt::{CONTEXT, window};

/// Maximum number of characters of a part of a line.
const WIDTH: usize = 300;
/// Maximum number of lines of a location, and of one change.
const MAX_PLACE: usize = 8;
const MAX_CHANGED: usize = 80;

pub(in crate::report) struct Mark<'a> {
    /// The range, as in the JSON report.
    pub(in crate::report) range: &'a Value,
    /// The label, if it differs from the message of the finding.
    pub(in crate::report) label: Option<&'a str>,
}

/// A marked part of a line, in characters from 0.
struct Part<'a> {
    from: usize,
    to: usize,
    /// Whether it is the location of the finding.
    is_place: bool,
    label: Option<&'a str>,
}

/// A position, in lines from 0 and characters from 0.
#[derive(Clone, Copy)]
struct Point {
    line: usize,
    column: usize,
}

fn points(range: &Value) -> Option<(Point, Point)> {
    let point = |name: &str| {
        let number =
            |member: &str| range[name][member].as_u64().and_then(|n| usize::try_from(n).ok()?.checked_sub(1));
        Some(Point { line: number("line")?, column: number("column")? })
    };
    Some((point("start")?, point("end")?))
}

/// A line without its end.
fn line(source: &Source, number: usize) -> &str {
    let (text, lines) = (source.text(), source.lines());
    let (from, to) = (lines.start_of(number, text) as usize, lines.start_of(number + 1, text) as usize);
    let line = text.get(from..to).unwrap_or_default().trim_end_matches(['\n', '\r']);
    // A byte order mark is not a column.
    if number == 0 { line.strip_prefix('\u{FEFF}').unwrap_or(line) } else { line }
}

fn byte(line: &str, column: usize) -> usize {
    if line.is_ascii() {
        return column.min(line.len());
    }
    line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
}

fn last_line(source: &Source) -> usize {
    (source.lines().len() - 1).saturating_sub(usize::from(source.text().ends_with('\n')))
}

/// Writes the lines around the marks; the first mark is the location of the finding.
pub(in crate::report) fn excerpt(out: &mut Markup, source: &Source, marks: &[Mark<'_>]) {
    let last = last_line(source);
    let mut shown: BTreeMap<usize, Vec<Part<'_>>> = BTreeMap::new();
    for (at, mark) in marks.iter().enumerate() {
        let Some((start, end)) = points(mark.range) else { continue };
        let is_place = mark.label.is_none();
        let context = if at == 0 { CONTEXT } else { 1 };
        let end_line = end.line.min(start.line + MAX_PLACE - 1);
        for number in start.line.saturating_sub(context)..=(end_line + context).min(last).max(start.line) {
            shown.entry(number).or_default();
        }
        for number in start.line..=end_line {
            let from = if number == start.line { start.column } else { 0 };
            let to = if number == end.line { end.column } else { usize::MAX };
            if to > from || number == start.line {
                let label = mark.label.filter(|_| number == start.line);
                shown.entry(number).or_default().push(Part { from, to: to.max(from + 1), is_place, label });
            }
        }
    }
    out.raw("<pre class=\"code\">");
    let mut previous = None;
    for (number, parts) in &shown {
        if previous.is_some_and(|previous| previous + 1 != *number) {
            out.raw("<span class=\"gap\">⋯</span>");
        }
        previous = Some(*number);
        out.raw("<span class=\"l\" data-n=\"").digits(*number as u64 + 1).raw("\">");
        marked(out, line(source, *number), parts);
        out.raw("\n</span>");
        for label in parts.iter().filter_map(|part| part.label) {
            out.raw("<span class=\"label\">").words(label).raw("\n</span>");
        }
    }
    out.raw("</pre>");
}

fn marked(out: &mut Markup, line: &str, parts: &[Part<'_>]) {
    let ranges: Vec<(usize, usize, bool)> =
        parts.iter().map(|part| (byte(line, part.from), byte(line, part.to), part.is_place)).collect();
    let (cut, before, after) = window(line, ranges.iter().map(|(from, ..)| *from).min(), WIDTH);
    let mut bounds: Vec<usize> = ranges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    bounds.extend([cut.start, cut.end]);
    bounds.retain(|at| cut.start <= *at && *at <= cut.end);
    bounds.sort_unstable();
    bounds.dedup();
    if before {
        out.raw("…");
    }
    for pair in bounds.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let inside = |place: bool| ranges.iter().any(|(a, b, is)| *is == place && *a <= from && to <= *b);
        let text = line.get(from..to).unwrap_or_default();
        match (inside(true), inside(false)) {
            (true, _) => out.raw("<mark>").text(text).raw("</mark>"),
            (false, true) => out.raw("<mark class=\"other\">").text(text).raw("</mark>"),
            (false, false) => out.text(text),
        };
    }
    if after {
        out.raw("…");
    }
}

/// Writes the changes of edits as removed and added lines.
pub(super) fn diff(out: &mut Markup, source: &Source, edits: &[Value]) {
    let mut known: Vec<(Point, Point, &str)> = edits
        .iter()
        .filter_map(|edit| {
            let (start, end) = points(&edit["range"])?;
            Some((start, end, edit["text"].as_str()?))
        })
        .collect();
    known.sort_by_key(|(start, ..)| (start.line, start.column));
    // Edits of neighbouring lines form one change.
    let mut changes: Vec<Vec<(Point, Point, &str)>> = Vec::new();
    for edit in known {
        match changes.last_mut() {
            Some(change) if change.iter().any(|(_, end, _)| edit.0.line <= end.line + 2 * CONTEXT) => {
                change.push(edit);
            }
            _ => changes.push(vec![edit]),
        }
    }
    if changes.is_empty() {
        return;
    }
    out.raw("<pre class=\"code diff\">");
    for (at, change) in changes.iter().enumerate() {
        if at > 0 {
            out.raw("<span class=\"gap\">⋯</span>");
        }
        one_change(out, source, change);
    }
    out.raw("</pre>");
}

fn one_change(out: &mut Markup, source: &Source, edits: &[(Point, Point, &str)]) {
    let (text, lines) = (source.text(), source.lines());
    let (Some((first, ..)), Some(last)) = (edits.first(), edits.iter().map(|(_, end, _)| end.line).max())
    else {
        return;
    };
    let from_line = first.line.saturating_sub(CONTEXT);
    let from = lines.start_of(from_line, text) as usize;
    let to = lines.start_of(last + 1 + CONTEXT, text) as usize;
    let old = text.get(from..to).unwrap_or_default();
    let mut new = String::with_capacity(old.len());
    let mut at = from;
    for (start, end, insert) in edits {
        let offset = |point: &Point| {
            let bom = if point.line == 0 && text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
            lines.start_of(point.line, text) as usize + bom + byte(line(source, point.line), point.column)
        };
        let (start, end) = (offset(start), offset(end));
        new.push_str(text.get(at..start).unwrap_or_default());
        new.push_str(insert);
        at = end.max(at);
    }
    new.push_str(text.get(at..to).unwrap_or_default());

    let changed = TextDiff::from_lines(old, &new);
    let mut count = 0;
    for change in changed.iter_all_changes() {
        count += 1;
        if count > MAX_CHANGED {
            continue;
        }
        match change.tag() {
            ChangeTag::Equal => out.raw("<span class=\"l\" data-n=\" \">"),
            ChangeTag::Delete => out.raw("<del class=\"l\" data-n=\"-\">"),
            ChangeTag::Insert => out.raw("<ins class=\"l\" data-n=\"+\">"),
        };
        let line = change.value().trim_end_matches(['\n', '\r']);
        marked(out, line, &[]);
        out.raw("\n");
        match change.tag() {
            ChangeTag::Equal => out.raw("</span>"),
            ChangeTag::Delete => out.raw("</del>"),
            ChangeTag::Insert => out.raw("</ins>"),
        };
    }
    if count > MAX_CHANGED {
        out.raw("<span class=\"label\">and ").count((count - MAX_CHANGED) as u64, "more line").raw("</span>");
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::source::Source;
    use serde_json::{Value, json};

    use super::{Mark, diff, excerpt};
    use crate::report::html::markup::Markup;

    fn range(from: (u32, u32), to: (u32, u32)) -> Value {
        let point = |(line, column): (u32, u32)| json!({"line": line, "column": column, "offset": 0});
        json!({"start": point(from), "end": point(to)})
    }

    #[test]
    fn exactly_the_range_is_marked() {
        let source = Source::from_text("a.yaml", "a: 1\nb: <é>2\nc: 3\nd: 4\ne: 5\n");
        let mut out = Markup::default();
        excerpt(&mut out, &source, &[Mark { range: &range((2, 4), (2, 7)), label: None }]);
        let html = out.as_str();
        assert!(html.contains("data-n=\"2\">b: <mark>&lt;é&gt;</mark>2\n</span>"), "{html}");
        assert_eq!(html.matches("class=\"l\"").count(), 4, "{html}");
    }

    #[test]
    fn places_far_apart_have_a_gap_and_a_label() {
        let text: String = (1..40).map(|n| format!("k{n}: v\n")).collect();
        let source = Source::from_text("a.yaml", &text);
        let mut out = Markup::default();
        let (first, second) = (range((5, 1), (5, 3)), range((30, 1), (30, 4)));
        let marks =
            [Mark { range: &first, label: None }, Mark { range: &second, label: Some("and `k30` <b>") }];
        excerpt(&mut out, &source, &marks);
        let html = out.as_str();
        assert!(html.contains("<mark>k5</mark>: v"), "{html}");
        assert!(html.contains("<mark class=\"other\">k30</mark>: v"), "{html}");
        assert!(html.contains("<span class=\"label\">and <code>k30</code> &lt;b&gt;\n</span>"), "{html}");
        assert_eq!(html.matches("⋯").count(), 1, "{html}");
    }

    #[test]
    fn long_lines_are_cut() {
        let source =
            Source::from_text("a.yaml", &format!("{}needle{}\n", "x".repeat(5000), "y".repeat(5000)));
        let mut out = Markup::default();
        excerpt(&mut out, &source, &[Mark { range: &range((1, 5001), (1, 5007)), label: None }]);
        assert!(out.as_str().len() < 600 && out.as_str().contains("<mark>needle</mark>"), "{}", out.as_str());
    }

    #[test]
    fn edits_are_lines_that_go_and_come() {
        let source = Source::from_text("a.yaml", "a: 1\nb: 2\nc: 3\n");
        let mut out = Markup::default();
        let edits = [
            json!({"range": range((2, 4), (2, 5)), "text": "20"}),
            json!({"range": range((4, 1), (4, 1)), "text": "d: <4>\n"}),
        ];
        diff(&mut out, &source, &edits);
        assert_eq!(
            out.as_str(),
            "<pre class=\"code diff\"><span class=\"l\" data-n=\" \">a: 1\n</span><del class=\"l\" data-n=\"-\">b: 2\n</del>\
             <ins class=\"l\" data-n=\"+\">b: 20\n</ins><span class=\"l\" data-n=\" \">c: 3\n</span>\
             <ins class=\"l\" data-n=\"+\">d: &lt;4&gt;\n</ins></pre>"
        );
    }
}
