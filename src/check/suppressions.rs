//! `--add-suppressions`: writes comments that suppress findings, where comments are possible.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use gpulint_rules::lint::suppress;
use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Finding};

use crate::allow_comment::{ITSELF, NO_COMMENTS, RulesByLine, TEMPLATE, is_in_template, with_allowed};
use crate::error::CliError;
use crate::terminal::count;

use super::fix;
use super::run::{Done, Rendered, Run};

const REASON: &str = "was here before gpulint";
/// Maximum number of rounds. A file reports several findings at one place as one, so that suppressing it may
/// show another one.
const MAX_ROUNDS: usize = 50;
/// Maximum number of notes on findings that were not suppressed.
const MAX_NOTES: usize = 10;

const STREAM: &str = "it is not in a file";

/// The comments that were written.
#[derive(Default)]
struct Added {
    comments: usize,
    files: BTreeSet<PathBuf>,
    /// Files that could not be written.
    errors: Vec<String>,
    /// The reasons why findings have no comment, by place and rule.
    refused: BTreeMap<(String, u32, &'static str), &'static str>,
}

/// The findings of a file that need a comment.
struct Target {
    path: PathBuf,
    source: Arc<Source>,
    lines: RulesByLine,
}

/// Writes comments for all findings, until the remaining ones cannot have one.
pub(super) fn add(
    run: &Run<'_>,
    rendered: &mut Rendered<'_>,
    mut reports: Vec<Option<CheckReport>>,
    reason: Option<&str>,
) -> Result<Done, CliError> {
    let reason = reason.unwrap_or(REASON);
    suppress::comment(&["x"], reason).map_err(|error| CliError::Usage(format!("--reason: {error}")))?;
    let mut added = Added::default();
    for _ in 0..MAX_ROUNDS {
        added.refused.clear();
        let mut changed = false;
        for target in added.targets(rendered, &reports) {
            changed |= added.write(rendered, target, reason);
        }
        if !changed {
            break;
        }
        rendered.renders = run.render(&mut rendered.batch, &rendered.found);
        reports = rendered.batch.check(None);
    }
    added.notes().iter().for_each(|note| run.note(note));
    Ok(Done { reports, errors: added.errors, ..Done::default() })
}

impl Added {
    fn notes(&self) -> Vec<String> {
        let mut notes =
            vec![format!("wrote {} in {}", count(self.comments, "comment"), count(self.files.len(), "file"))];
        for ((path, line, rule), reason) in self.refused.iter().take(MAX_NOTES) {
            notes.push(format!("{path}:{line}: {rule} is not suppressed: {reason}"));
        }
        if self.refused.len() > MAX_NOTES {
            notes.push(format!("{} more are not suppressed", self.refused.len() - MAX_NOTES));
        }
        notes
    }

    /// The lines that need comments, by file.
    fn targets(&mut self, rendered: &Rendered<'_>, reports: &[Option<CheckReport>]) -> Vec<Target> {
        let Rendered { batch, renders, .. } = rendered;
        let mut targets: Vec<Target> = Vec::new();
        for (at, report) in reports.iter().enumerate() {
            let input = &batch.inputs[at].input;
            for finding in report.iter().flat_map(|report| &report.findings) {
                let is_embedded =
                    finding.location.resolve_span().is_some_and(|(source, ..)| source.is_embedded());
                let path = (input.stream.is_none() && !is_embedded).then(|| input.absolute.clone());
                self.add_target(&mut targets, finding, path);
            }
        }
        for (_, finding) in renders.check(batch).findings {
            let source = finding.location.resolve_span().map(|(source, ..)| Arc::clone(source));
            let path = source.and_then(|source| renders.path_of(&source));
            self.add_target(&mut targets, &finding, path);
        }
        targets
    }

    /// Writes the comments of a file. Returns whether it changed.
    fn write(&mut self, rendered: &mut Rendered<'_>, target: Target, reason: &str) -> bool {
        let Target { path, source, lines } = target;
        let refuse = |line, rule, why| self.refuse(&source, line, rule, why);
        let Some((text, comments)) = with_allowed(&source, &lines, reason, refuse) else { return false };
        match fix::replace_file(&path, source.text(), &text) {
            Ok(()) => {
                rendered.batch.read_again(&path, &text);
                self.comments += comments;
                self.files.insert(path);
                true
            }
            Err(error) => {
                let error = format!("{}: not changed: {error}", source.path());
                if !self.errors.contains(&error) {
                    self.errors.push(error);
                }
                false
            }
        }
    }

    fn add_target(&mut self, targets: &mut Vec<Target>, finding: &Finding, path: Option<PathBuf>) {
        let Some((source, _, span)) = finding.location.resolve_span() else { return };
        let line = source.lines().line_of(span.start);
        let rule = finding.rule;
        let refusal = match &path {
            _ if !suppress::is_suppressible(rule) => ITSELF,
            Some(path) if path.extension().is_some_and(|ending| ending == "json") => NO_COMMENTS,
            Some(_) if is_in_template(finding) => TEMPLATE,
            Some(path) => {
                let known = targets.iter().position(|target| target.path == *path);
                let at = known.unwrap_or_else(|| {
                    let (path, source) = (path.clone(), Arc::clone(source));
                    targets.push(Target { path, source, lines: BTreeMap::new() });
                    targets.len() - 1
                });
                targets[at].lines.entry(line).or_default().insert(rule.id);
                return;
            }
            None => STREAM,
        };
        self.refuse(source, line, rule.id, refusal);
    }

    fn refuse(&mut self, source: &Source, line: usize, rule: &'static str, reason: &'static str) {
        let line = u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1);
        self.refused.insert((source.path().to_owned(), line, rule), reason);
    }
}
