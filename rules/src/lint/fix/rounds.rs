//! The fix loop: applies fixes and checks what changed, until no fix is left.
//!
//! Two fixes that were computed from one state of an object would overwrite each other, so a round applies at
//! most one fix to each object. The command line fixes files of text, the webhook one JSON value: both are a
//! [`FixTarget`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::dependencies::digest;
use crate::lint::engine::Engine;
use crate::lint::finding::Finding;
use crate::lint::fix::text::{Edit, Repair, apply_edits, repair};
use crate::lint::fix::{FixError, Safety};

/// Maximum number of rounds; the remaining fixes are left for the next run.
const MAX_ROUNDS: usize = 100;

/// What fixes are applied to: units (files, or one object) that are edited and checked again.
pub trait FixTarget {
    /// The changes of one round in one unit.
    type Edit;

    /// The edits of the next round, at most one for a unit. `only` names the units to check; `None` checks all.
    fn plan(&mut self, only: Option<&BTreeSet<usize>>) -> Vec<(usize, Self::Edit)>;

    /// The content of a unit. `None` if it cannot be edited.
    fn content(&self, unit: usize) -> Option<Cow<'_, str>>;

    /// The content after an edit.
    fn edited(edit: &Self::Edit) -> Cow<'_, str>;

    /// Replaces the content of a unit.
    fn apply(&mut self, unit: usize, edit: Self::Edit);
}

/// How a run of the fix loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixOutcome {
    /// No fix is left that can be applied.
    Stable,
    /// Two fixes undo each other, or there was no end after the last round.
    Unstable,
}

impl Engine {
    /// Applies the fixes of a target until none is left. `first` contains the edits of the first round, if
    /// the caller has already checked the target.
    pub fn fix<T: FixTarget>(target: &mut T, first: Vec<(usize, T::Edit)>) -> FixOutcome {
        // Contents that a unit had: if one occurs again, two fixes undo each other.
        let mut seen: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        let mut outcome = FixOutcome::Stable;
        let mut edits = first;
        // Whether the last round checked every unit.
        let mut complete = false;
        let mut has_changed = false;
        for _ in 0..MAX_ROUNDS {
            let mut changed = BTreeSet::new();
            for (unit, edit) in edits {
                let Some(before) = target.content(unit).map(|content| digest(&content)) else { continue };
                let states = seen.entry(unit).or_default();
                states.insert(before);
                if states.insert(digest(T::edited(&edit))) {
                    target.apply(unit, edit);
                    changed.insert(unit);
                } else {
                    outcome = FixOutcome::Unstable;
                }
            }
            has_changed |= !changed.is_empty();
            if changed.is_empty() {
                if complete || !has_changed {
                    return outcome;
                }
                // Fixes of other units may depend on these, as the fix of a NodePool depends on that of its
                // node class.
                complete = true;
                edits = target.plan(None);
            } else {
                complete = false;
                edits = target.plan(Some(&changed));
            }
        }
        FixOutcome::Unstable
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedFix {
    pub rule: &'static str,
    pub title: String,
    /// The place of the finding, as an offset into the text before the edit.
    pub offset: u32,
}

/// The text of a file after the fixes of one round.
#[derive(Clone, Debug)]
pub struct FileEdit {
    pub text: String,
    /// The fixes, in the order of the findings.
    pub fixes: Vec<AppliedFix>,
    /// The edits relative to the previous text, in order.
    edits: Vec<Edit>,
}

impl FileEdit {
    /// Maps an offset in the previous text to one after the edit. Replaced text maps to the start of its replacement.
    pub fn moved(&self, offset: u32) -> u32 {
        let mut moved = i64::from(offset);
        for edit in self.edits.iter().take_while(|edit| edit.span.start <= offset) {
            if edit.span.end > offset {
                moved -= i64::from(offset - edit.span.start);
                break;
            }
            let length = i64::try_from(edit.text.len()).unwrap_or_default();
            moved += length - i64::from(edit.span.end - edit.span.start);
        }
        u32::try_from(moved).unwrap_or_default()
    }

    /// For each object of a file, the first fix that is at most `max_safety` and can be applied. `None` if
    /// there is none. `findings` are those of the file.
    pub fn of(findings: &[Finding], max_safety: Safety) -> Option<FileEdit> {
        FileEdit::planned(findings, max_safety, true)
    }

    /// The edit that applies all fixes that do not overlap, several of one object included: what some rounds come to where the
    /// file is not checked in between.
    pub fn of_all(findings: &[Finding], max_safety: Safety) -> Option<FileEdit> {
        FileEdit::planned(findings, max_safety, false)
    }

    fn planned(findings: &[Finding], max_safety: Safety, one_of_object: bool) -> Option<FileEdit> {
        let mut source = None;
        let mut fixes = Vec::new();
        // By the start of their scopes, which must not overlap.
        let mut repairs: BTreeMap<u32, Repair> = BTreeMap::new();
        let mut last = None;
        for finding in findings {
            let Some(object) = finding.location.object() else { continue };
            if one_of_object && last.is_some_and(|last| object.is_same_resource(last)) {
                continue;
            }
            let Some(Ok(repair)) = applicable_repair(finding, max_safety) else { continue };
            let before = repairs.range(..repair.scope.end).next_back();
            let overlaps = before.is_some_and(|(_, other)| other.scope.end > repair.scope.start);
            if overlaps || repair.edits.is_empty() {
                continue;
            }
            let place = finding.location.resolve_span();
            source = source.or(place.map(|(source, ..)| source));
            fixes.push(AppliedFix {
                rule: finding.rule.id,
                title: finding.fix.as_ref().map(|fix| fix.title_with_effect()).unwrap_or_default(),
                offset: place.map_or(repair.scope.start, |(_, _, span)| span.start),
            });
            last = Some(object);
            repairs.insert(repair.scope.start, repair);
        }
        let edits: Vec<_> = repairs.into_values().flat_map(|repair| repair.edits).collect();
        Some(FileEdit { text: apply_edits(source?.text(), &edits)?, fixes, edits })
    }
}

/// The changes that the fix of a finding makes to its file. `None` if the finding has no fix of this safety.
pub fn applicable_repair(finding: &Finding, max_safety: Safety) -> Option<Result<Repair, FixError>> {
    let fix = finding.fix.as_ref().filter(|fix| fix.safety <= max_safety)?;
    // The text is a part of a file in another language.
    if finding.location.resolve_span().is_some_and(|(source, ..)| source.is_embedded()) {
        return None;
    }
    match finding.location.rendered() {
        Some(rendered) => rendered.repair.clone().map(Ok),
        None => Some(repair(finding.location.object()?, fix)),
    }
}

#[cfg(test)]
mod tests {
    use super::FileEdit;
    use crate::lint::fix::text::Edit;
    use crate::tree::Span;

    #[test]
    fn a_place_moves_with_the_text_around_it() {
        let edit = |start, end, text: &str| Edit { span: Span::new(start, end), text: text.to_owned() };
        // `0123456789` becomes `0a12367bc89`.
        let edits = vec![edit(1, 1, "a"), edit(4, 6, ""), edit(8, 8, "bc")];
        let edit = FileEdit { text: "0a12367bc89".to_owned(), fixes: Vec::new(), edits };
        let moved: Vec<u32> = (0..10).map(|offset| edit.moved(offset)).collect();
        assert_eq!(moved, [0, 2, 3, 4, 5, 5, 5, 6, 9, 10]);
    }
}
