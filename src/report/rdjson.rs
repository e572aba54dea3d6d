//! The format of reviewdog, which comments on changes in several forges. Columns are bytes of UTF-8.

use std::io::Write;
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Finding, Location, Severity};
use serde::Serialize;

use crate::error::CliError;
use crate::terminal::printable;

use super::Report;
use super::place::{Point, byte_point, edits, slice, words};

#[derive(Serialize)]
struct DiagnosticResult {
    source: Tool,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    url: &'static str,
}

#[derive(Serialize)]
struct Diagnostic {
    message: String,
    location: Place,
    severity: &'static str,
    code: Code,
    /// The text that the local reporter prints.
    original_output: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<Suggestion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Related>,
}

#[derive(Serialize)]
struct Place {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<Range>,
}

#[derive(Serialize)]
struct Range {
    start: Point,
    end: Point,
}

#[derive(Serialize)]
struct Code {
    value: &'static str,
    url: String,
}

#[derive(Serialize)]
struct Suggestion {
    range: Range,
    text: String,
}

#[derive(Serialize)]
struct Related {
    message: String,
    location: Place,
}

/// Writes the findings in the order of the report.
pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let place = |location: &Location| {
        let path = location.path()?;
        let range = location.resolve_span().map(|(source, _, span)| range(source, span));
        Some(Place { path: report.path(path), range })
    };
    let nowhere = || Place { path: String::new(), range: None };
    let diagnostics = report.findings.iter().enumerate().map(|(at, finding)| Diagnostic {
        message: words(report, at).join("\n"),
        original_output: line(finding, &words(report, at), place(&finding.location)),
        location: place(&finding.location).unwrap_or_else(nowhere),
        severity: match finding.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Info => "INFO",
        },
        code: Code { value: finding.rule.id, url: finding.rule.url() },
        suggestions: suggestion(finding).into_iter().collect(),
        related_locations: {
            let related = finding.related.iter().filter_map(|related| {
                let message = printable(&related.message, false).into_owned();
                Some(Related { message, location: place(&related.location)? })
            });
            related.collect()
        },
    });
    let result = DiagnosticResult {
        source: Tool { name: "gpulint", url: env!("CARGO_PKG_REPOSITORY") },
        diagnostics: diagnostics.collect(),
    };
    serde_json::to_writer(&mut *out, &result)?;
    Ok(out.write_all(b"\n")?)
}

/// A finding as one line: `a.yaml:3:5: error[rule] message`.
fn line(finding: &Finding, words: &[String], place: Option<Place>) -> String {
    let place = place.map(|Place { path, range }| {
        let at = range.map(|range| format!("{}:{}:", range.start.line, range.start.column));
        format!("{}:{} ", printable(&path, false), at.unwrap_or_default())
    });
    let message = words.first().map_or("", String::as_str);
    format!("{}{}[{}] {message}", place.unwrap_or_default(), finding.severity.name(), finding.rule.id)
}

fn range(source: &Source, span: Span) -> Range {
    Range { start: byte_point(source, span.start), end: byte_point(source, span.end) }
}

/// All edits of a fix as one suggestion: reviewdog treats several suggestions as alternatives, or applies
/// them one by one.
fn suggestion(finding: &Finding) -> Option<Suggestion> {
    let (source, edits): (Arc<Source>, _) = edits(finding)?;
    let (first, last) = (edits.first()?, edits.last()?);
    let whole = Span::new(first.span.start, last.span.end);
    let mut text = String::new();
    let mut at = whole.start;
    for edit in &edits {
        text.push_str(slice(&source, Span::new(at, edit.span.start)));
        text.push_str(&edit.text);
        at = edit.span.end;
    }
    Some(Suggestion { range: range(&source, whole), text })
}
