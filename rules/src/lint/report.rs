//! The outcome of a check.

use crate::lint::finding::Finding;

/// Findings, and how many more were suppressed.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// In the order of the text, then of the rule table.
    pub findings: Vec<Finding>,
    /// Findings that a suppression took away.
    pub suppressed: usize,
}

/// Sorts by file, place and rule.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_cached_key(|f| {
        let place = f.location.resolve_span().map(|(s, d, span)| (s.path().to_owned(), d, span.start));
        (place, f.rule.group, f.rule.id, f.message.clone())
    });
}
