//! One line per finding: `path:line:col: severity[rule] message`, and one for many that read alike.

use std::io::Write;

use crate::error::CliError;
use crate::terminal::printable;

use super::Report;
use super::fold::fold;

/// Writes the findings; with `folds` one line for those that read alike.
pub(crate) fn write(out: &mut dyn Write, report: &Report, folds: bool) -> Result<(), CliError> {
    for folded in fold(report, folds) {
        let finding = &report.findings[folded.first];
        if let Some((source, _, span)) = finding.location.resolve_span() {
            let at = source.lines().position(source.text(), span.start);
            let path = printable(source.path(), false);
            write!(out, "{path}:{}:{}: ", at.line, at.column)?;
        }
        let message = printable(&finding.message, false);
        write!(out, "{}[{}] {message}", finding.severity.name(), finding.rule.id)?;
        let notes = report.mark(folded.first).into_iter();
        let notes = notes.chain(super::only_in(finding)).chain(folded.short_summary(&report.findings));
        match notes.collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => writeln!(out)?,
            notes => writeln!(out, " ({})", printable(&notes, false))?,
        }
    }
    Ok(())
}
