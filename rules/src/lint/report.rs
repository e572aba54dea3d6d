//! The outcome of a check.

use crate::lint::finding::Finding;

/// Findings, and the number of suppressed ones.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The findings in the order of the text, then of the rule table.
    pub findings: Vec<Finding>,
    /// Number of suppressed findings.
    pub suppressed: usize,
    /// The fingerprints of findings that a baseline of the caller removed; the engine leaves it empty.
    pub baselined: Vec<String>,
    /// The suppressed findings, if the settings keep them ([`crate::Settings::keep_suppressed`]).
    pub kept: Vec<SuppressedFinding>,
}

#[derive(Clone, Debug)]
pub struct SuppressedFinding {
    pub finding: Finding,
    /// The reason of the suppression; empty without one.
    pub reason: String,
}

/// Sorts by file, place, rule and message.
pub fn sort(findings: &mut [Finding]) {
    let place = |finding: &Finding| {
        let (source, document, span) = finding.location.resolve_span()?;
        Some((source.shared_path(), document, span.start))
    };
    findings.sort_by_cached_key(|finding| (place(finding), finding.rule.group, finding.rule.id));
    // Messages are compared last, because copying all of them is slow.
    let document = |finding: &Finding| Some(finding.location.object()?.origin()?.document);
    let is_same_place = |a: &Finding, b: &Finding| {
        a.rule.id == b.rule.id && document(a) == document(b) && place(a) == place(b)
    };
    for findings in findings.chunk_by_mut(is_same_place) {
        findings.sort_by(|a, b| a.message.cmp(&b.message));
    }
}
