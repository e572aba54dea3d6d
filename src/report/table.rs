//! The findings of each rule as numbers: the table of `--statistics`, and the line about those that are not listed.

use std::io::Write;

use gpulint_rules::{Finding, Severity};

use crate::error::CliError;
use crate::terminal::count;

use super::counts::rows;
use super::layout::Layout;
use super::paint::{Line, Style};

/// Minimum number of columns for the summary of a rule; with fewer, it is left out. What a cut one says may be the opposite.
const MIN_SUMMARY: usize = 40;

/// Writes the number of findings of severity info, by rule: those that cost most are first.
pub(super) fn infos(out: &mut dyn Write, findings: &[Finding], layout: &Layout) -> Result<(), CliError> {
    let mut rows = rows(findings);
    rows.retain(|row| row.severity == Severity::Info);
    let number = rows.iter().map(|row| row.count).sum();
    let mut line = Line::default();
    line.add(Style::Dim, &format!("{} of {}", count(number, "info"), count(rows.len(), "rule")));
    line.add(Style::Dim, " (--infos lists all):");
    for (at, row) in rows.iter().rev().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        line.add(Style::Dim, comma).add_link(Style::Plain, &format!(" {}", row.rule.id), row.rule);
        if row.count > 1 {
            line.add(Style::Dim, &format!(" ({})", row.count));
        }
    }
    for line in line.lines(layout.wrap_width(), 2, layout.paint()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes a row for each rule.
pub(super) fn write(out: &mut dyn Write, findings: &[Finding], layout: &Layout) -> Result<(), CliError> {
    let rows = rows(findings);
    let fixable: Vec<String> = rows.iter().map(|row| row.fixable(layout.with_unsafe)).collect();
    let width = |cells: &mut dyn Iterator<Item = usize>, head: &str| cells.max().unwrap_or(0).max(head.len());
    let counts = width(&mut rows.iter().map(|row| row.count.to_string().len()), "count");
    let ids = width(&mut rows.iter().map(|row| row.rule.id.len()), "rule");
    let fixes = width(&mut fixable.iter().map(String::len), "fix") + 2;
    let is_narrow = layout.is_terminal && counts + "severity".len() + fixes + ids + 4 > layout.look.width;
    let fixes = if is_narrow || fixable.iter().all(String::is_empty) { 0 } else { fixes };
    let before = counts + 2 + "severity".len() + 2 + fixes + ids + 2;
    // Lines in a file or a log may be longer.
    let room = if layout.is_terminal { layout.look.width.saturating_sub(before) } else { usize::MAX };
    let room = if room < MIN_SUMMARY { 0 } else { room };
    let head = if fixes > 0 { format!("{:fixes$}", "fix") } else { String::new() };
    let what = if room > 0 { "what it finds" } else { "" };
    let head = format!("{:>counts$}  severity  {head}{:ids$}  {what}", "count", "rule");
    writeln!(out, "{}", layout.paint().text(Style::Dim, head.trim_end()))?;
    let paint = layout.paint();
    for (row, fixable) in rows.iter().zip(&fixable) {
        let fixable = if fixes > 0 { fixable.as_str() } else { "" };
        let severity = row.severity.name();
        let name = paint.text(Style::Of(row.severity), severity);
        let pad = "severity".len() - severity.len();
        let rule = paint.link(row.rule, row.rule.id);
        let summary = shorten(row.rule.summary(), room, layout.look.unicode);
        let gap = if summary.is_empty() { 0 } else { ids - row.rule.id.len() + 2 };
        writeln!(
            out,
            "{:>counts$}  {name}{:pad$}  {fixable:fixes$}{rule}{:gap$}{}",
            row.count,
            "",
            "",
            paint.text(Style::Dim, &summary)
        )?;
    }
    if fixes > 0 && fixable.iter().any(|cell| cell.ends_with('*')) {
        writeln!(out, "{}", paint.text(Style::Dim, "* fixed with --fix --unsafe-fixes"))?;
    }
    if layout.summary {
        let next = "gpulint explain RULE: why and what to do";
        writeln!(out, "{}", paint.text(Style::Dim, next))?;
    }
    Ok(())
}

/// The first words of a text, as far as they fit.
fn shorten(text: &str, room: usize, unicode: bool) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let more = if unicode { "…" } else { "..." };
    let Some(room) = room.checked_sub(more.chars().count()) else { return String::new() };
    let end = text.char_indices().nth(room + 1).map_or(text.len(), |(at, _)| at);
    let words = text[..end].rfind(' ').map_or("", |space| &text[..space]);
    format!("{}{more}", words.trim_end_matches([',', ';', ':']))
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn a_summary_is_cut_at_a_word() {
        assert_eq!(shorten("one two three", 13, true), "one two three");
        assert_eq!(shorten("one two three", 12, true), "one two…");
        assert_eq!(shorten("one two three", 8, true), "one two…");
        assert_eq!(shorten("one two three", 7, true), "one…");
        assert_eq!(shorten("one two, three", 11, false), "one two...");
        assert_eq!(shorten("one two", 0, true), "");
    }
}
