//! The diagnostics of a file as the client gets them.

use std::path::Path;

use lsp_types::{Diagnostic, DiagnosticSeverity, NumberOrString};

use gpulint_rules::{Finding, Severity};

use super::convert::Places;
use super::server::Server;

/// The diagnostics of a file.
pub(crate) fn of_file(server: &Server, path: &Path) -> Vec<Diagnostic> {
    let Some(project) = server.project(path) else { return Vec::new() };
    let Some(report) = project.report(path) else { return Vec::new() };
    let places = server.places(project);
    report.findings.iter().filter_map(|finding| diagnostic(finding, &places)).collect()
}

fn diagnostic(finding: &Finding, places: &Places<'_>) -> Option<Diagnostic> {
    let range = places.location(&finding.location)?.range;
    let severity = match finding.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
        Severity::Info => DiagnosticSeverity::INFORMATION,
    };
    Some(Diagnostic {
        range,
        severity: Some(severity),
        code: Some(NumberOrString::String(finding.rule.id.to_owned())),
        source: Some("gpulint".to_owned()),
        message: finding.message.clone(),
        ..Diagnostic::default()
    })
}

/// The same for equal diagnostics.
pub(crate) fn result_id(diagnostics: &[Diagnostic]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(diagnostics).unwrap_or_default().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
