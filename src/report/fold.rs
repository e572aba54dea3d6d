//! Folds similar findings: reports for people show the first one, and the locations of the others.

use std::collections::{BTreeSet, HashMap};

use gpulint_rules::{Finding, Severity};

use crate::terminal::count;

use super::Report;

/// Minimum number of findings of a rule that are folded although their values differ.
const MIN_ALIKE: usize = 3;
/// Minimum number of findings of a rule that are folded because they read the same.
const MIN_SAME: usize = 2;
/// Maximum length of a list of locations on the line of a finding.
const MAX_SHORT: usize = 80;
/// Maximum number of locations in a list.
const MAX_PLACES: usize = 3;

/// A finding that is shown, and those that are folded into it, by index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// The index of the finding that is shown.
    pub(super) first: usize,
    /// The indices of the others, in the order of the report.
    pub(super) more: Vec<usize>,
}

/// The findings that are shown: all of them, or with `folds` the first of those that read the same, and of many that differ
/// only in their values. With `by_file`, findings in different files are not folded.
pub(super) fn fold(report: &Report, folds: bool, by_file: bool) -> Vec<Folded> {
    let alone = |first: usize| Folded { first, more: Vec::new() };
    if !folds {
        return (0..report.findings.len()).map(alone).collect();
    }
    let mut groups: HashMap<(Key, bool, &str), Vec<usize>> = HashMap::new();
    for (at, finding) in report.findings.iter().enumerate() {
        // A fix that was not applied has its own reason, which is shown.
        if !report.unfixed.contains_key(&at) {
            let is_new = report.mark(at).is_some();
            let file = finding.location.path().filter(|_| by_file).unwrap_or_default();
            groups.entry((Key::of(finding), is_new, file)).or_default().push(at);
        }
    }
    let same = |group: Vec<usize>| -> Vec<Vec<usize>> {
        if group.len() >= MIN_ALIKE {
            return vec![group];
        }
        let text = |at: &usize| (&report.findings[*at].message, &report.findings[*at].help);
        let mut same: Vec<Vec<usize>> = Vec::new();
        for at in group {
            match same.iter_mut().find(|known| text(&known[0]) == text(&at)) {
                Some(known) => known.push(at),
                None => same.push(vec![at]),
            }
        }
        same
    };
    let mut more: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut hidden = vec![false; report.findings.len()];
    for group in groups.into_values().flat_map(same).filter(|group| group.len() >= MIN_SAME) {
        if let [first, rest @ ..] = group.as_slice() {
            rest.iter().for_each(|at| hidden[*at] = true);
            more.insert(*first, rest.to_vec());
        }
    }
    let shown = (0..report.findings.len()).filter(|at| !hidden[*at]);
    shown.map(|first| Folded { first, more: more.remove(&first).unwrap_or_default() }).collect()
}

impl Folded {
    /// The text `and 19 more like it in 7 files`, with the locations if the list is short; `None` if nothing is folded.
    pub(super) fn short_summary(&self, findings: &[Finding]) -> Option<String> {
        let whole = self.summary(findings)?;
        if self.more.len() == 1 || self.more.len() <= MAX_PLACES && whole.len() <= MAX_SHORT {
            return Some(whole);
        }
        let path = |at: &usize| findings[*at].location.path();
        let files: BTreeSet<_> = self.more.iter().map(path).collect();
        let place = match files.contains(&path(&self.first)) && files.len() == 1 {
            true => "this file".to_owned(),
            false => count(files.len(), "file"),
        };
        Some(format!("and {} more like it in {place}", self.more.len()))
    }

    /// The text `and 19 more like it: a.yaml:3, 7, b.yaml:8, ...`; `None` if nothing is folded.
    pub(super) fn summary(&self, findings: &[Finding]) -> Option<String> {
        if self.more.is_empty() {
            return None;
        }
        let mut file = "";
        let mut places: Vec<String> = Vec::new();
        for at in self.more.iter().take(MAX_PLACES) {
            if places.iter().map(String::len).sum::<usize>() > MAX_SHORT {
                break;
            }
            let Some((source, _, span)) = findings[*at].location.resolve_span() else { continue };
            let line = source.lines().position(source.text(), span.start).line;
            // A path that was just named is not repeated.
            let is_named = std::mem::replace(&mut file, source.path()) == source.path();
            places.push(if is_named { line.to_string() } else { format!("{}:{line}", source.path()) });
        }
        if self.more.len() > places.len() {
            places.push("...".to_owned());
        }
        Some(format!("and {} more like it: {}", self.more.len(), places.join(", ")))
    }
}

/// The properties that folded findings have in common.
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

/// The parts of a text outside of backticks and numbers, each with a backtick before it.
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
