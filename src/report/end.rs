//! The end of the reports for people: the list of fixes, the table by rule, the total.

use std::collections::HashMap;
use std::io::Write;

use gpulint_rules::find_rule;

use crate::error::CliError;
use crate::terminal::{count, printable};

use super::fold::Folded;
use super::layout::{Heading, Layout};
use super::paint::{Line, Style};
use super::total::{summary_line, unread_lines};
use super::{Fixed, Report, preview, table};

/// Maximum number of fixes that are all listed. Of more fixes, only some of each rule are.
const MAX_FIXED: usize = 20;
/// Maximum number of fixes of a rule in a shortened list.
const MAX_FIXED_OF_RULE: usize = 3;

pub(super) fn write(out: &mut dyn Write, report: &Report, layout: &Layout) -> Result<(), CliError> {
    if layout.summary && !report.fixed.is_empty() {
        fixed(out, &report.fixed, layout)?;
        if layout.has_table(report) {
            writeln!(out)?;
        }
    }
    if layout.has_table(report) {
        table::write(out, &report.findings, layout)?;
        if layout.summary {
            writeln!(out)?;
        }
    }
    if layout.summary {
        if layout.leaves_infos_out(report) {
            table::infos(out, &report.findings, layout)?;
        }
        total(out, &summary_line(&report.summary), layout)?;
        for line in unread_lines(&report.summary) {
            paragraph(out, Line::default().add(Style::Plain, &line), layout)?;
        }
    }
    Ok(())
}

/// Writes what another version changes.
pub(super) fn preview(out: &mut dyn Write, report: &Report, layout: &Layout) -> Result<(), CliError> {
    let Some(known) = report.preview.as_ref().filter(|_| layout.summary) else { return Ok(()) };
    for line in preview::text(known, layout.look).lines() {
        let text = printable(line.trim_start(), false);
        let indent = line.len() - line.trim_start().len();
        let width = layout.wrap_width().map(|width| width.saturating_sub(indent));
        for part in Line::default().add(Style::Plain, &text).lines(width, 2, layout.paint()) {
            writeln!(out, "{:indent$}{part}", "")?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Writes the commands that the result asks for.
pub(super) fn next(out: &mut dyn Write, report: &Report, layout: &Layout) -> Result<(), CliError> {
    for (command, what) in report.next.iter().filter(|_| layout.summary) {
        let mut line = Line::default();
        line.add(Style::Dim, "next:").add(Style::Bold, &format!(" {command}"));
        line.add(Style::Dim, &format!(" ({what})"));
        paragraph(out, &line, layout)?;
    }
    Ok(())
}

/// Writes the total, with the counts in bold.
fn total(out: &mut dyn Write, text: &str, layout: &Layout) -> Result<(), CliError> {
    let counts = text.find(" in ").unwrap_or(text.len());
    let mut line = Line::default();
    line.add(Style::Bold, &text[..counts]);
    if counts < text.len() {
        line.add(Style::Plain, &text[counts..]);
    }
    paragraph(out, &line, layout)
}

fn paragraph(out: &mut dyn Write, line: &Line, layout: &Layout) -> Result<(), CliError> {
    for line in line.lines(layout.wrap_width(), 2, layout.paint()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn fixed(out: &mut dyn Write, all: &[Fixed], layout: &Layout) -> Result<(), CliError> {
    let is_long = all.len() > MAX_FIXED && !layout.all;
    let mut listed: HashMap<&str, usize> = HashMap::new();
    for one in all {
        let count = listed.entry(one.rule).or_default();
        *count += 1;
        if is_long && *count > MAX_FIXED_OF_RULE {
            continue;
        }
        let mut line = Line::default();
        line.add(Style::Bold, &printable(&one.path, false));
        line.add(Style::Plain, &format!(":{}:{}:", one.line, one.column));
        let head = format!(" fixed[{}]", one.rule);
        match find_rule(one.rule) {
            Some(rule) => line.add_link(Style::Added, &head, rule),
            None => line.add(Style::Added, &head),
        };
        line.add(Style::Plain, &format!(" {}", printable(&one.title, false)));
        for line in line.lines(layout.wrap_width(), 4, layout.paint()) {
            writeln!(out, "{line}")?;
        }
    }
    let mut more: Vec<(&str, usize)> = (listed.into_iter())
        .filter_map(|(rule, count)| Some((rule, count.checked_sub(MAX_FIXED_OF_RULE)?)))
        .filter(|(_, more)| is_long && *more > 0)
        .collect();
    more.sort_unstable();
    for (rule, more) in more {
        let head = layout.paint().text(Style::Added, &format!("fixed[{rule}]"));
        writeln!(out, "{head} {more} more (--all lists them)")?;
    }
    Ok(())
}

/// The heading of a section.
pub(super) fn heading(
    out: &mut dyn Write,
    report: &Report,
    heading: Heading<'_>,
    shown: &[Folded],
    layout: &Layout,
) -> Result<(), CliError> {
    let number: usize = shown.iter().map(|one| one.more.len() + 1).sum();
    let number = format!(" ({})", count(number, "finding"));
    let mut line = Line::default();
    match heading {
        Heading::File(path) => line.add(Style::Bold, &printable(path, false)).add(Style::Dim, &number),
        Heading::Rule(id) => {
            let Some(rule) = shown.first().map(|one| report.findings[one.first].rule) else { return Ok(()) };
            line.add_link(Style::Bold, id, rule);
            line.add(Style::Plain, &format!(": {}", rule.summary())).add(Style::Dim, &number)
        }
    };
    paragraph(out, &line, layout)
}
