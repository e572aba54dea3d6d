//! Code Quality of GitLab, shown in merge requests: the issues of Code Climate as a JSON array.
//!
//! The format contains only findings in files. A path that could not be read results only in exit code 2.

use std::io::Write;

use gpulint_rules::{Group, Location, Severity, fingerprints};
use serde::Serialize;

use crate::error::CliError;
use crate::terminal::printable;

use super::place::{point, words};
use super::{Report, manual};

#[derive(Serialize)]
struct Issue {
    r#type: &'static str,
    check_name: &'static str,
    /// A text of one line.
    description: String,
    /// The manual of the rule.
    content: Content,
    categories: [&'static str; 1],
    severity: &'static str,
    fingerprint: String,
    location: Place,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_locations: Vec<Place>,
}

#[derive(Serialize)]
struct Content {
    body: String,
}

#[derive(Serialize)]
struct Place {
    path: String,
    lines: Lines,
}

#[derive(Serialize)]
struct Lines {
    begin: u32,
    end: u32,
}

pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let issues = report.findings.iter().zip(fingerprints(&report.findings));
    let issues = issues.enumerate().map(|(at, (finding, fingerprint))| Issue {
        r#type: "issue",
        check_name: finding.rule.id,
        description: words(report, at).join("; "),
        content: Content { body: manual::markdown(finding.rule) },
        categories: [match finding.rule.group {
            Group::Migration => "Compatibility",
            _ => "Bug Risk",
        }],
        severity: severity(finding.severity),
        fingerprint,
        location: place(report, &finding.location),
        other_locations: {
            let related = finding.related.iter().filter(|related| related.location.path().is_some());
            related.map(|related| place(report, &related.location)).collect()
        },
    });
    let mut separator = "[";
    for issue in issues {
        writeln!(out, "{separator}")?;
        serde_json::to_writer(&mut *out, &issue)?;
        separator = ",";
    }
    writeln!(out, "{}]", if report.findings.is_empty() { "[" } else { "\n" })?;
    Ok(())
}

/// Maps a severity to those of Code Climate, which are info, minor, major, critical and blocker.
fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "critical",
        Severity::Warning => "major",
        Severity::Info => "info",
    }
}

/// The location of a finding. GitLab requires a path and a line; a finding without a line gets the first
/// line.
fn place(report: &Report, location: &Location) -> Place {
    let path = location.path().map_or_else(|| ".".to_owned(), |path| report.path(path));
    let lines = location.resolve_span().map_or(Lines { begin: 1, end: 1 }, |(source, _, span)| {
        let (start, end) = (point(source, span.start), point(source, span.end));
        Lines { begin: start.line, end: end.line }
    });
    Place { path: printable(&path, false).into_owned(), lines }
}
