//! The outcome of a check.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::lint::finding::Finding;
use crate::source::Source;
use crate::tree::Span;

/// Findings, and how many more were suppressed.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// In the order of the text, then of the rule table.
    pub findings: Vec<Finding>,
    /// Findings that a suppression took away.
    pub suppressed: usize,
}

/// Sorts by file, place, rule and message.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_cached_key(|f| (f.location.resolve_span().map(Position::new), f.rule.group, f.rule.id));
    let same_place = |a: &Finding, b: &Finding| {
        let position = |f: &Finding| f.location.resolve_span().map(Position::new);
        a.rule.id == b.rule.id && position(a) == position(b)
    };
    // Messages are compared only where the rest is equal, because copying all of them is slow.
    for findings in findings.chunk_by_mut(same_place) {
        findings.sort_by(|a, b| a.message.cmp(&b.message));
    }
}

/// The start of a span in a file. Ordered by the path of the file first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    path: FilePath,
    document: u32,
    start: u32,
}

impl Position {
    fn new((source, document, span): (&Arc<Source>, u32, Span)) -> Position {
        Position { path: FilePath(Arc::clone(source)), document, start: span.start }
    }
}

/// A source that is compared by its path.
struct FilePath(Arc<Source>);

impl PartialEq for FilePath {
    fn eq(&self, other: &FilePath) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FilePath {}

impl PartialOrd for FilePath {
    fn partial_cmp(&self, other: &FilePath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FilePath {
    fn cmp(&self, other: &FilePath) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.path().cmp(other.0.path()) }
    }
}
