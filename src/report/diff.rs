//! The diff that `--diff` prints.

use std::io::Write;

use gpulint_rules::lint::fix::text::Edit;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use similar::{Algorithm, ChangeTag, TextDiff};

use crate::error::CliError;
use crate::terminal::printable;

use super::paint::{Paint, Style};
use super::place::slice;

/// The changes that fixes would make.
pub(crate) struct Diff {
    /// The reported path of each file, its text, and the text with the fixes.
    pub(crate) changes: Vec<(String, String, String)>,
    /// Number of findings that would be fixed.
    pub(crate) count: usize,
    /// Number of those that would be fixed when charts and kustomizations are rendered with these changes.
    pub(crate) later: usize,
}

impl Diff {
    /// Writes the changes as a unified diff.
    pub(crate) fn write(&self, out: &mut dyn Write, color: bool) -> Result<(), CliError> {
        let mut changes = self.changes.iter();
        changes.try_for_each(|(path, old, new)| of_file(out, path, old, new, color))
    }
}

/// The lines that edits remove (`-`) and add (`+`), without their line ends, in order.
pub(super) fn changed_lines(source: &Source, edits: &[Edit]) -> Vec<(char, String)> {
    let (Some(first), Some(last)) = (edits.first(), edits.last()) else { return Vec::new() };
    let (text, lines) = (source.text(), source.lines());
    let start = lines.start_of(lines.line_of(first.span.start), text);
    let end = lines.start_of(lines.line_of(last.span.end) + 1, text);
    let mut new = String::new();
    let mut from = start;
    for edit in edits {
        new.push_str(slice(source, Span::new(from, edit.span.start)));
        new.push_str(&edit.text);
        from = edit.span.end;
    }
    new.push_str(slice(source, Span::new(from, end)));
    let old = slice(source, Span::new(start, end));
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(old, &new);
    let changed = diff.iter_all_changes().filter_map(|change| {
        let sign = match change.tag() {
            ChangeTag::Equal => return None,
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        Some((sign, change.value().trim_end_matches(['\n', '\r']).to_owned()))
    });
    changed.collect()
}

fn of_file(out: &mut dyn Write, name: &str, old: &str, new: &str, color: bool) -> Result<(), CliError> {
    let name = printable(name, false);
    // The patience algorithm is fast for few changes in long files.
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(old, new);
    let mut unified = diff.unified_diff();
    let unified = unified.context_radius(3).header(&name, &name);
    if !color {
        write!(out, "{unified}")?;
        return Ok(());
    }
    let paint = Paint { color, links: false };
    let text = unified.to_string();
    for (at, whole) in text.split_inclusive('\n').enumerate() {
        let line = whole.trim_end_matches(['\n', '\r']);
        let style = match line.chars().next() {
            _ if at < 2 => Style::Bold,
            Some('@') => Style::Place,
            Some('-') => Style::Removed,
            Some('+') => Style::Added,
            _ => Style::Plain,
        };
        write!(out, "{}{}", paint.text(style, line), &whole[line.len()..])?;
    }
    Ok(())
}
