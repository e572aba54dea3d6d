//! The diff that `--diff` prints.

use std::io::Write;

use similar::{Algorithm, TextDiff};

use crate::error::CliError;
use crate::terminal::printable;

use super::paint::{Paint, Style};

/// The changes that fixes would make.
pub(crate) struct Diff {
    /// The reported path of each file, its text, and the text with the fixes.
    pub(crate) changes: Vec<(String, String, String)>,
    /// Number of findings that would be fixed.
    pub(crate) count: usize,
}

impl Diff {
    /// Writes the changes as a unified diff.
    pub(crate) fn write(&self, out: &mut dyn Write, color: bool) -> Result<(), CliError> {
        let mut changes = self.changes.iter();
        changes.try_for_each(|(path, old, new)| of_file(out, path, old, new, color))
    }
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
