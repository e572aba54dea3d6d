//! One line per finding: `path:line:col: severity[rule] message`.

use std::io::Write;

use crate::error::CliError;
use crate::terminal::printable;

use super::Report;

/// Writes the findings.
pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    for finding in &report.findings {
        if let Some((source, _, span)) = finding.location.resolve_span() {
            let at = source.lines().position(source.text(), span.start);
            let path = printable(source.path(), false);
            write!(out, "{path}:{}:{}: ", at.line, at.column)?;
        }
        writeln!(
            out,
            "{}[{}] {}",
            finding.severity.name(),
            finding.rule.id,
            printable(&finding.message, false)
        )?;
    }
    Ok(())
}
