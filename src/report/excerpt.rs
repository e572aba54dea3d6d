//! The lines around some positions of a file, as source code for miette.
//!
//! Only the displayed lines are copied, found through the line index, so that a label in a large file costs
//! the same as one in a small file. Long lines are cut around their label. Control characters are replaced,
//! so that a manifest cannot send escape sequences to the terminal.

use std::collections::BTreeSet;

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use miette::{LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use crate::terminal::{is_bidi, printable};

use super::paint::{Line, Paint, Style};

/// Number of lines of context around a label.
pub(crate) const CONTEXT: usize = 2;
/// Minimum number of columns for the text of a label. With fewer, it is not written into the excerpt.
const MIN_LABEL: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct Annotation {
    /// The range in the file.
    pub(crate) span: Span,
    /// Text of the label. `None` if the message above explains it.
    pub(crate) text: Option<String>,
    /// Whether it is the primary label, which marks the location of the finding.
    pub(crate) primary: bool,
}

#[derive(Debug)]
pub(crate) struct Excerpt {
    name: String,
    text: String,
    lines: Vec<ShownLine>,
    labels: Vec<Label>,
    /// The texts of labels for which there is no room, each with its line.
    beside: Vec<String>,
}

#[derive(Debug)]
struct ShownLine {
    /// The start of the line in `text`.
    start: usize,
    /// Line number in the file, from 0.
    number: usize,
}

#[derive(Debug)]
struct Label {
    span: SourceSpan,
    text: Option<String>,
    primary: bool,
    /// Column in the file, from 0.
    column: usize,
}

impl Excerpt {
    /// The lines around `marks`, each cut to `width` characters, under a name.
    pub(crate) fn named(
        name: &str,
        source: &Source,
        marks: &[Annotation],
        width: usize,
        unicode: bool,
    ) -> Excerpt {
        let index = source.lines();
        // The text has no line after the line end of the last line.
        let ended = source.text().ends_with('\n');
        let last = (index.len() - 1).saturating_sub(usize::from(ended));
        let mut numbers = BTreeSet::new();
        for mark in marks {
            let line = index.line_of(mark.span.start);
            numbers.extend(line.saturating_sub(CONTEXT)..=(line + CONTEXT).min(last).max(line));
        }
        let name = printable(name, false).into_owned();
        let mut excerpt =
            Excerpt { name, text: String::new(), lines: Vec::new(), labels: Vec::new(), beside: Vec::new() };
        for number in numbers {
            let here: Vec<&Annotation> =
                marks.iter().filter(|m| index.line_of(m.span.start) == number).collect();
            excerpt.push(source, number, &here, width, unicode);
        }
        excerpt
    }

    fn push(&mut self, source: &Source, number: usize, marks: &[&Annotation], width: usize, unicode: bool) {
        let text = source.text();
        let from = source.lines().start_of(number, text) as usize;
        let to = source.lines().start_of(number + 1, text) as usize;
        let line = text.get(from..to).unwrap_or_default();
        let line = line.trim_end_matches(['\n', '\r']);
        let first = marks.iter().map(|m| m.span.start as usize).min();
        let (shown, before, after) = window(line, first.map(|at| at - from), width);

        let (dots, strange) = if unicode { ("…", '\u{FFFD}') } else { ("...", '?') };
        let line_start = self.text.len();
        self.lines.push(ShownLine { start: line_start, number });
        if before {
            self.text.push_str(dots);
        }
        // The position in the excerpt of each displayed byte of the file.
        let mut starts = Vec::with_capacity(shown.len() + 1);
        for (_, c) in line[shown.clone()].char_indices() {
            let at = self.text.len();
            starts.extend(std::iter::repeat_n(at, c.len_utf8()));
            match c {
                '\u{FEFF}' => {}
                c if (c.is_control() && c != '\t') || is_bidi(c) => self.text.push(strange),
                c => self.text.push(c),
            }
        }
        starts.push(self.text.len());
        if after {
            self.text.push_str(dots);
        }
        self.text.push('\n');

        for mark in marks {
            let place = |at: u32| {
                let inside = (at as usize).clamp(from + shown.start, from + shown.end);
                starts[inside - from - shown.start]
            };
            let (start, end) = (place(mark.span.start), place(mark.span.end));
            let column = source.lines().position(text, mark.span.start).column;
            // The text of a label begins below the middle of what it marks.
            let before = self.text[line_start..start].chars().count();
            let marked = self.text[start..end.max(start)].chars().count();
            let room = width.saturating_sub(before + marked / 2);
            let text = mark.text.as_deref().map(|text| printable(text, false).into_owned());
            let text = match text {
                Some(text) if text.chars().count() > room && room < MIN_LABEL => {
                    self.beside.push(format!("line {}: {text}", number + 1));
                    None
                }
                text => text.map(|text| {
                    let lines =
                        Line::default().add(Style::Plain, &text).lines(Some(room), 0, Paint::default());
                    lines.join("\n")
                }),
            };
            self.labels.push(Label {
                span: (start, end.saturating_sub(start)).into(),
                text,
                primary: mark.primary,
                column: column as usize - 1,
            });
        }
    }

    /// The texts of labels for which there is no room, each with its line.
    pub(crate) fn take_beside(&mut self) -> Vec<String> {
        std::mem::take(&mut self.beside)
    }

    /// The labels for miette, in the order of the text.
    pub(crate) fn labels(&self) -> impl Iterator<Item = LabeledSpan> + '_ {
        self.labels.iter().map(|label| {
            let make =
                if label.primary { LabeledSpan::new_primary_with_span } else { LabeledSpan::new_with_span };
            make(label.text.clone(), label.span)
        })
    }

    /// Index of the primary label in the order in which miette sorts them.
    pub(crate) fn primary(&self) -> Option<usize> {
        let mut sorted: Vec<&Label> = self.labels.iter().collect();
        sorted.sort_by_key(|l| l.span.offset());
        sorted.iter().position(|l| l.primary)
    }
}

/// The displayed bytes of a line: about `width` characters around `label`, and whether text is cut before and
/// after. Examines no more of the line than that.
pub(super) fn window(line: &str, label: Option<usize>, width: usize) -> (std::ops::Range<usize>, bool, bool) {
    let mut label = label.unwrap_or(0).min(line.len());
    while !line.is_char_boundary(label) {
        label -= 1;
    }
    let nth_back = |n: usize| line[..label].char_indices().rev().nth(n).map(|(i, _)| i);
    let start = match nth_back(width * 2 / 3) {
        Some(_) => nth_back(width / 3).unwrap_or(0),
        None => 0,
    };
    let end = line[start..].char_indices().nth(width).map_or(line.len(), |(i, _)| start + i);
    (start..end, start > 0, end < line.len())
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        if span.offset() + span.len() > self.text.len() {
            return Err(MietteError::OutOfBounds);
        }
        let line_of = |at: usize| self.lines.partition_point(|l| l.start <= at) - 1;
        let mut first = line_of(span.offset());
        let mut last = line_of(span.offset() + span.len());
        let adjacent = |a: usize| self.lines[a + 1].number == self.lines[a].number + 1;
        // Labels that are far apart get no context.
        if (first..last).any(|line| !adjacent(line)) {
            return Err(MietteError::OutOfBounds);
        }
        for _ in 0..before {
            if first > 0 && adjacent(first - 1) {
                first -= 1;
            }
        }
        for _ in 0..after {
            if last + 1 < self.lines.len() && adjacent(last) {
                last += 1;
            }
        }
        let start = self.lines[first].start;
        let end = self.lines.get(last + 1).map_or(self.text.len(), |l| l.start);
        // Without context lines, miette requests the position for its header.
        let column = if before == 0 && after == 0 {
            let label = self.labels.iter().find(|l| l.span == *span);
            label.map_or(0, |l| l.column)
        } else {
            0
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            &self.text.as_bytes()[start..end],
            (start, end - start).into(),
            self.lines[first].number,
            column,
            last - first + 1,
        )))
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::source::Source;
    use gpulint_rules::tree::Span;
    use miette::SourceCode;

    use super::{Annotation, Excerpt, window};

    fn mark(start: u32, end: u32) -> Annotation {
        Annotation { span: Span::new(start, end), text: None, primary: true }
    }

    #[test]
    fn only_the_lines_around_a_label_are_kept() {
        let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let at = text.find("line 500").unwrap() as u32;
        let source = Source::from_text("a.yaml", &text);
        let excerpt = Excerpt::named("a.yaml", &source, &[mark(at + 5, at + 8)], 80, true);
        assert_eq!(excerpt.text.lines().count(), 5);
        let label = excerpt.labels().next().unwrap();
        let contents = excerpt.read_span(label.inner(), 0, 0).unwrap();
        assert_eq!((contents.line(), contents.column()), (500, 5));
        let contents = excerpt.read_span(label.inner(), 2, 2).unwrap();
        assert_eq!((contents.line(), contents.column()), (498, 0));
        assert_eq!(contents.line_count(), 5);
    }

    #[test]
    fn long_lines_are_cut_around_the_label() {
        let text = format!("{}needle{}", "é".repeat(5000), "x".repeat(5000));
        let (shown, before, after) = window(&text, Some(10_000), 60);
        assert!(before && after);
        assert_eq!(text[shown.clone()].chars().count(), 60);
        assert!(text[shown].contains("needle"));
    }

    #[test]
    fn the_text_of_a_label_stays_inside_the_width() {
        let line = format!("name: web{}end", " ".repeat(40));
        let source = Source::from_text("a.yaml", &line);
        let beside = |start: u32, end: u32| Annotation {
            span: Span::new(start, end),
            text: Some("the Service of another team selects the pods of this one".to_owned()),
            primary: false,
        };
        let marks = [mark(0, 4), beside(6, 9), beside(49, 52)];
        let mut excerpt = Excerpt::named("a.yaml", &source, &marks, 60, true);
        let labels: Vec<_> = excerpt.labels().map(|label| label.label().map(str::to_owned)).collect();
        let text = "the Service of another team selects the pods of this\none".to_owned();
        assert_eq!(labels, [None, Some(text), None]);
        assert_eq!(
            excerpt.take_beside(),
            ["line 1: the Service of another team selects the pods of this one"]
        );
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        let source = Source::from_text("a.yaml", "a: \"\u{1b}[31mred\u{202e}\"\r\n");
        let excerpt = Excerpt::named("a.yaml", &source, &[mark(3, 8)], 80, false);
        assert_eq!(excerpt.text, "a: \"?[31mred?\"\n");
    }
}
