//! The outcome of a check.

use crate::lint::finding::Finding;

/// Findings, and how many more were suppressed.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// In the order of the text, then of the rule table.
    pub findings: Vec<Finding>,
    /// Findings that a suppression took away.
    pub suppressed: usize,
    /// The fingerprints of findings that a baseline of the caller took away; the engine leaves it empty.
    pub baselined: Vec<String>,
    /// These findings, if the settings say that they are kept ([`crate::Settings::keep_suppressed`]).
    pub kept: Vec<SuppressedFinding>,
}

/// A finding that a comment or an annotation suppresses.
#[derive(Clone, Debug)]
pub struct SuppressedFinding {
    /// The finding.
    pub finding: Finding,
    /// The reason that the suppression gives; empty where it gives none.
    pub reason: String,
}

/// Sorts by file, place, rule and message.
pub fn sort(findings: &mut [Finding]) {
    let place = |finding: &Finding| {
        let (source, document, span) = finding.location.resolve_span()?;
        Some((source.shared_path(), document, span.start))
    };
    findings.sort_by_cached_key(|finding| (place(finding), finding.rule.group, finding.rule.id));
    // Messages are compared only where the rest is equal, because copying all of them is slow.
    let document = |finding: &Finding| Some(finding.location.object()?.origin()?.document);
    let is_same_place = |a: &Finding, b: &Finding| {
        a.rule.id == b.rule.id && document(a) == document(b) && place(a) == place(b)
    };
    for findings in findings.chunk_by_mut(is_same_place) {
        findings.sort_by(|a, b| a.message.cmp(&b.message));
    }
}
