//! Workflow commands of GitHub Actions: `::error file=a.yaml,line=3::message`. The runner converts them to
//! annotations, which a pull request shows beside the changed lines.

use std::io::Write;

use gpulint_rules::Severity;

use crate::error::CliError;
use crate::terminal::count;

use super::Report;
use super::place::{Place, point, words, worst_first};

/// Maximum number of annotations of a level that GitHub shows for a step.
const SHOWN: usize = 10;

/// Writes the findings in descending order of severity.
///
/// If there are more than GitHub shows, a notice says so. It precedes the findings of severity info, because
/// it is one of the ten notices that are shown.
pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    for problem in &report.failures {
        command(out, "error", &[("title", "gpulint".to_owned())], problem)?;
    }
    let mut told = false;
    for at in worst_first(report) {
        if report.findings[at].severity == Severity::Info && !told {
            told = true;
            write_rest(out, report)?;
        }
        finding(out, report, at)?;
    }
    if !told {
        write_rest(out, report)?;
    }
    Ok(())
}

fn finding(out: &mut dyn Write, report: &Report, at: usize) -> Result<(), CliError> {
    let finding = &report.findings[at];
    let mut properties: Vec<(&str, String)> = Vec::new();
    let mut lines = words(report, at);
    let place = finding.location.path().map(|path| report.place(path));
    match (place, finding.location.resolve_span()) {
        // The file is not in the repository, so the location is part of the text.
        (Some(Place::Stream(name)), Some((source, _, span))) => {
            let start = point(source, span.start);
            lines[0] = format!("{name}:{}:{}: {}", start.line, start.column, lines[0]);
        }
        (Some(_), Some((source, _, span))) => {
            let (start, end) = (point(source, span.start), point(source, span.end));
            properties.push(("file", report.path(source.path())));
            properties.push(("line", start.line.to_string()));
            properties.push(("endLine", end.line.to_string()));
            // Columns are used only for a range within one line.
            if start.line == end.line {
                properties.push(("col", start.column.to_string()));
                properties.push(("endColumn", end.column.to_string()));
            }
        }
        (Some(_), None) => {
            let path = finding.location.path().unwrap_or_default();
            properties.push(("file", report.path(path)));
        }
        (None, _) => {}
    }
    properties.push(("title", format!("gpulint: {}", finding.rule.id)));
    lines.push(finding.rule.summary().to_owned());
    lines.push(format!("gpulint explain {}", finding.rule.id));
    command(out, level(finding.severity), &properties, &lines.join("\n"))
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    }
}

/// Writes a notice with the number of findings, if GitHub does not show all of them.
fn write_rest(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let summary = &report.summary;
    let errors = summary.errors + report.failures.len();
    // The limit for notices includes this one.
    if errors <= SHOWN && summary.warnings <= SHOWN && summary.infos <= SHOWN {
        return Ok(());
    }
    let all = [(summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info")];
    let all: Vec<String> = all.into_iter().filter(|(n, _)| *n > 0).map(|(n, name)| count(n, name)).collect();
    let text = format!(
        "{}: GitHub shows {SHOWN} of each level for a step; all are in the log of this step",
        all.join(", ")
    );
    command(out, "notice", &[("title", "gpulint".to_owned())], &text)
}

fn command(
    out: &mut dyn Write,
    name: &str,
    properties: &[(&str, String)],
    message: &str,
) -> Result<(), CliError> {
    let properties: Vec<String> =
        properties.iter().map(|(key, value)| format!("{key}={}", escape_property(value))).collect();
    writeln!(out, "::{name} {}::{}", properties.join(","), escape(message))?;
    Ok(())
}

/// Escapes a percent sign and line ends as `%25`, `%0D` and `%0A`, which the runner decodes.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property, in which `:` and `,` are escaped as well.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn what_would_end_a_property_or_a_line_is_escaped() {
        let mut out = Vec::new();
        command(&mut out, "error", &[("file", "a:b,c%.yaml".to_owned())], "100%\r\nof: it, all").unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "::error file=a%3Ab%2Cc%25.yaml::100%25%0D%0Aof: it, all\n");
    }
}
