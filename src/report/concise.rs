//! One line per finding: `path:line:col: severity[rule] message`, and one for several similar findings.

use std::io::Write;

use crate::error::CliError;
use crate::terminal::printable;

use super::fold::Folded;
use super::layout::{Heading, Layout};
use super::paint::{Line, Style};
use super::{Report, end};

pub(crate) fn write(out: &mut dyn Write, report: &Report, layout: &Layout) -> Result<(), CliError> {
    // Editors read the lines, and need each place.
    let layout = &Layout { infos: true, folds: layout.folds && layout.is_terminal, ..*layout };
    end::preview(out, report, layout)?;
    let mut is_first = true;
    for section in layout.sections(report) {
        if let Some(heading) = section.heading {
            if !is_first {
                writeln!(out)?;
            }
            end::heading(out, report, heading, &section.findings, layout)?;
        }
        is_first = false;
        for folded in &section.findings {
            write_line(out, report, folded, section.heading, layout)?;
        }
    }
    let has_end = layout.has_table(report) || layout.group.is_some() && layout.summary;
    if !is_first && has_end && !report.findings.is_empty() && !layout.statistics {
        writeln!(out)?;
    }
    end::write(out, report, layout)
}

/// Writes one finding. Below a heading, the part that the heading contains is left out.
pub(super) fn write_line(
    out: &mut dyn Write,
    report: &Report,
    folded: &Folded,
    heading: Option<Heading<'_>>,
    layout: &Layout,
) -> Result<(), CliError> {
    let line = line(report, folded, heading);
    let indent = if heading.is_some() { "  " } else { "" };
    let width = layout.wrap_width().map(|width| width.saturating_sub(indent.len()));
    for line in line.lines(width, 4, layout.paint()) {
        writeln!(out, "{indent}{line}")?;
    }
    Ok(())
}

fn line(report: &Report, folded: &Folded, heading: Option<Heading<'_>>) -> Line {
    let finding = &report.findings[folded.first];
    let mut line = Line::default();
    let mut space = "";
    if let Some((source, _, span)) = finding.location.resolve_span() {
        let at = source.lines().position(source.text(), span.start);
        if !matches!(heading, Some(Heading::File(_))) {
            line.add(Style::Bold, &printable(source.path(), false));
            line.add(Style::Plain, ":");
        }
        line.add(Style::Plain, &format!("{}:{}:", at.line, at.column));
        space = " ";
    }
    let (severity, rule) = (finding.severity.name(), finding.rule);
    let head = match heading {
        Some(Heading::Rule(_)) => format!("{space}{severity}"),
        _ => format!("{space}{severity}[{}]", rule.id),
    };
    line.add_link(Style::Of(finding.severity), &head, rule);
    line.add(Style::Plain, &format!(" {}", printable(finding.whole_message(), false)));
    let refused = report.unfixed.get(&folded.first).map(|reason| format!("not fixed: {reason}"));
    let notes = report.mark(folded.first).into_iter().chain(super::only_in(finding));
    let notes = notes.chain(refused).chain(folded.short_summary(&report.findings));
    let notes = notes.collect::<Vec<_>>().join("; ");
    if !notes.is_empty() {
        line.add(Style::Dim, &format!(" ({})", printable(&notes, false)));
    }
    line
}
