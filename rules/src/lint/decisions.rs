//! Comments that state why a value is as it is: on its line, or on the line above. Advice about such a value is not given; errors and
//! warnings are.

use crate::lint::finding::{Finding, Location, Severity};
use crate::lint::rule::Group;
use crate::source::Source;

/// Minimum number of words of a reason.
const FEWEST_WORDS: usize = 3;

/// Words with which a comment gives a reason, in lower case.
const REASONS: [&str; 30] = [
    "because",
    "since ",
    "so that",
    "due to",
    "on purpose",
    "purposely",
    "intentional",
    "deliberate",
    "by design",
    "we want",
    "we need",
    "we accept",
    "wanted",
    "must ",
    "needed for",
    "required for",
    "required by",
    "to avoid",
    "avoids ",
    "to prevent",
    "prevents ",
    "otherwise",
    "instead of",
    "rather than",
    "no need",
    "not needed",
    "acceptable",
    "is fine",
    "trade-off",
    "no mig",
];
/// What a capability that is missing gives as a reason.
const MISSING: [&str; 7] =
    ["without ", "cannot ", "can't ", "not support", "doesn't support", "does not have", "has no "];
/// Comments of work that is still to be done.
const OPEN_WORK: [&str; 6] = ["todo", "fixme", "xxx", "hack", "gpulint", "change me"];

/// Whether a finding is advice about a value whose comment states the decision.
pub(crate) fn is_decided(finding: &Finding) -> bool {
    let about_settings =
        !matches!(finding.rule.group, Group::Manifest | Group::Migration | Group::Suppression);
    if finding.severity != Severity::Info || !about_settings {
        return false;
    }
    let Location::Field { object, pointer, .. } = &finding.location else { return false };
    if object.root().at(pointer).is_absent() || pointer.steps().is_empty() {
        return false;
    }
    let Some((source, _, span)) = finding.location.resolve_span() else { return false };
    is_reasoned(source, span.start, span.end)
}

/// Whether a comment on the line of some bytes, or on the line above, states a reason.
fn is_reasoned(source: &Source, start: u32, end: u32) -> bool {
    let (text, lines) = (source.text(), source.lines());
    let first = lines.line_of(start);
    let line = |number: usize| {
        let (from, to) = (lines.start_of(number, text), lines.start_of(number + 1, text));
        text.get(from as usize..to as usize).unwrap_or_default()
    };
    let own = line(first);
    let after = (end.saturating_sub(lines.start_of(first, text)) as usize).min(own.len());
    let beside = own.get(after..).and_then(|rest| rest.find(" #").map(|at| &rest[at + 2..]));
    let above = first.checked_sub(1).and_then(|above| line(above).trim().strip_prefix('#'));
    beside.into_iter().chain(above).any(states_reason)
}

fn states_reason(comment: &str) -> bool {
    let comment = comment.trim_start_matches('#').trim().to_lowercase();
    let words = comment.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    // A line of YAML that was taken out.
    let is_code = comment.starts_with("- ")
        || comment.split_once(':').is_some_and(|(key, _)| !key.contains(' ') && !key.is_empty());
    words >= FEWEST_WORDS
        && !is_code
        && !OPEN_WORK.iter().any(|sign| comment.contains(sign))
        && REASONS.iter().chain(&MISSING).any(|sign| comment.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::states_reason;

    #[test]
    fn decisions_are_told_from_other_comments() {
        for comment in [
            " T4 has no MIG, so time slicing it is",
            " we want the newest AMI here",
            " one replica on purpose: state lives in memory",
            "kept at 1, because the queue is single-consumer",
        ] {
            assert!(states_reason(comment), "{comment}");
        }
        for comment in [
            " number of replicas",
            " TODO: set because of load",
            " replicas: 3 because",
            " - name: x without y",
            " gpulint: allow x -- because it is so",
            " because",
        ] {
            assert!(!states_reason(comment), "{comment}");
        }
    }
}
