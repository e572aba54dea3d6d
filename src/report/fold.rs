//! Findings that read alike: reports for people show the first, and where the others are.

use std::collections::HashMap;

use gpulint_rules::{Finding, Severity};
use rayon::prelude::*;

use super::Report;

/// So many findings of a rule with the same words are folded into one.
const MIN_FOLDED: usize = 4;
/// Longest list of places on a line that has the finding as well.
const MAX_SHORT: usize = 80;
/// Most places that are listed.
const MAX_PLACES: usize = 5;

/// A finding that is shown, and those that are folded into it, by index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// The finding that is shown.
    pub(super) first: usize,
    /// The others, in the order of the report.
    pub(super) more: Vec<usize>,
}

/// The findings that are shown: all of them, or with `folds` the first of those that are equal but for their values, or the
/// first of each file.
pub(super) fn fold(report: &Report, folds: bool, by_file: bool) -> Vec<Folded> {
    let alone = |first: usize| Folded { first, more: Vec::new() };
    if !folds {
        return (0..report.findings.len()).map(alone).collect();
    }
    let keys: Vec<Key> = report.findings.par_iter().map(Key::of).collect();
    let mut groups: HashMap<(Key, bool, &str), Vec<usize>> = HashMap::new();
    for (at, (finding, key)) in report.findings.iter().zip(keys).enumerate() {
        // A fix that was not applied has a reason of its own.
        if !report.unfixed.contains_key(&at) {
            let is_new = report.mark(at).is_some();
            let file = finding.location.path().filter(|_| by_file).unwrap_or_default();
            groups.entry((key, is_new, file)).or_default().push(at);
        }
    }
    let mut more: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut hidden = vec![false; report.findings.len()];
    for group in groups.into_values().filter(|group| group.len() >= MIN_FOLDED) {
        if let [first, rest @ ..] = group.as_slice() {
            rest.iter().for_each(|at| hidden[*at] = true);
            more.insert(*first, rest.to_vec());
        }
    }
    let shown = (0..report.findings.len()).filter(|at| !hidden[*at]);
    shown.map(|first| Folded { first, more: more.remove(&first).unwrap_or_default() }).collect()
}

impl Folded {
    /// `and 19 more like it`, with their places where the list is short; `None` where nothing is folded.
    pub(super) fn short_summary(&self, findings: &[Finding]) -> Option<String> {
        let whole = self.summary(findings)?;
        let is_short = self.more.len() <= MAX_PLACES && whole.len() <= MAX_SHORT;
        Some(if is_short { whole } else { format!("and {} more like it", self.more.len()) })
    }

    /// `and 19 more like it: a.yaml:3, b.yaml:8, ...`; `None` where nothing is folded.
    pub(super) fn summary(&self, findings: &[Finding]) -> Option<String> {
        if self.more.is_empty() {
            return None;
        }
        let place = |finding: &Finding| {
            let (source, _, span) = finding.location.resolve_span()?;
            let line = source.lines().position(source.text(), span.start).line;
            Some(format!("{}:{line}", source.path()))
        };
        let mut places: Vec<String> =
            self.more.iter().take(MAX_PLACES).filter_map(|at| place(&findings[*at])).collect();
        if self.more.len() > MAX_PLACES {
            places.push("...".to_owned());
        }
        Some(format!("and {} more like it: {}", self.more.len(), places.join(", ")))
    }
}

/// What folded findings have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    rule: &'static str,
    severity: Severity,
    message: String,
    help: String,
}

impl Key {
    fn of(finding: &Finding) -> Key {
        Key {
            rule: finding.rule.id,
            severity: finding.severity,
            message: words(&finding.message),
            help: finding.help.as_deref().map(words).unwrap_or_default(),
        }
    }
}

/// What a text says beside what it quotes in backticks and beside numbers, with a backtick before each part.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for said in text.split('`').step_by(2) {
        for part in said.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()) {
            out.push('`');
            out.push_str(part);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn values_do_not_count() {
        let a = words("no PodDisruptionBudget covers the 3 replicas of Deployment `a`");
        assert_eq!(a, words("no PodDisruptionBudget covers the 12 replicas of Deployment `b`"));
        assert_ne!(a, words("no PodDisruptionBudget covers the 3 replicas of StatefulSet `a`"));
    }
}
