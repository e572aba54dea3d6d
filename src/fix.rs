//! `--fix` and `--diff`: applies fixes to files, with `--unsafe-fixes` also those that need a review.
//!
//! The engine's fix loop ([`Engine::fix`]) edits the files in memory. A file is only written if its content
//! on disk has not changed since it was read. It is replaced atomically.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use gpulint_rules::lint::fix::rounds::{AppliedFix, FileEdit, FixTarget, applicable_repair};
use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Engine, Finding, Safety};
use rayon::prelude::*;
use similar::{Algorithm, TextDiff};

use crate::batch::Batch;
use crate::error::CliError;
use crate::files::ReadOutcome;
use crate::output;
use crate::report::Fixed;
use crate::report::paint::{Paint, Style};
use crate::terminal::printable;

/// The files that fixes changed.
#[derive(Default)]
pub(crate) struct FixRun {
    changes: BTreeMap<usize, FileChange>,
    /// What was fixed in them.
    pub(crate) log: FixLog,
}

struct FileChange {
    /// What was read from disk.
    before: ReadOutcome,
    source: Arc<Source>,
}

/// What was fixed, by the reported path of the file.
#[derive(Debug, Default)]
pub(crate) struct FixLog {
    files: BTreeMap<String, LoggedFile>,
}

#[derive(Debug, Default)]
struct LoggedFile {
    /// The text after all fixes so far.
    text: String,
    /// Their places are in that text.
    fixes: Vec<AppliedFix>,
}

impl FixLog {
    /// Adds an edit of a file.
    pub(crate) fn add(&mut self, path: &str, edit: &FileEdit) {
        let file = self.files.entry(path.to_owned()).or_default();
        file.fixes.extend(edit.fixes.iter().cloned());
        for fix in &mut file.fixes {
            fix.offset = edit.moved(fix.offset);
        }
        file.text.clone_from(&edit.text);
    }

    /// Number of findings that were fixed.
    pub(crate) fn count(&self) -> usize {
        self.files.values().map(|file| file.fixes.len()).sum()
    }

    /// The fixes, by their places in the files as they are now.
    pub(crate) fn list(&self) -> Vec<Fixed> {
        let mut list = Vec::with_capacity(self.count());
        for (path, file) in &self.files {
            let source = Source::from_text(path, &file.text);
            let mut fixes: Vec<&AppliedFix> = file.fixes.iter().collect();
            fixes.sort_by_key(|fix| fix.offset);
            list.extend(fixes.into_iter().map(|fix| {
                let at = source.lines().position(source.text(), fix.offset);
                let title = fix.title.clone();
                Fixed { rule: fix.rule, path: path.clone(), line: at.line, column: at.column, title }
            }));
        }
        list
    }
}

/// The edits of one round, by the index of the input.
pub(crate) type Round = Vec<(usize, FileEdit)>;

/// A batch of files that is being fixed.
struct FilesToFix<'b, 'e> {
    batch: &'b mut Batch<'e>,
    max_safety: Safety,
    run: FixRun,
}

impl FixTarget for FilesToFix<'_, '_> {
    type Edit = FileEdit;

    fn plan(&mut self, only: Option<&BTreeSet<usize>>) -> Round {
        plan_round(&self.batch.check(only), self.max_safety)
    }

    fn content(&self, unit: usize) -> Option<Cow<'_, str>> {
        self.batch.source(unit).map(|source| source.text().into())
    }

    fn edited(edit: &FileEdit) -> Cow<'_, str> {
        edit.text.as_str().into()
    }

    fn apply(&mut self, unit: usize, edit: FileEdit) {
        let Some(source) = self.batch.source(unit).cloned() else {
            return;
        };
        self.run.log.add(source.path(), &edit);
        let before = self.batch.rewrite(unit, edit.text);
        self.run.changes.entry(unit).or_insert(FileChange { before, source });
    }
}

/// Applies the edits of the first round to the batch, and then the fixes of the findings that remain.
pub(crate) fn run(batch: &mut Batch<'_>, first: Round, max_safety: Safety) -> FixRun {
    let mut files = FilesToFix { batch, max_safety, run: FixRun::default() };
    Engine::fix(&mut files, first);
    files.run
}

/// The edits for the findings of all inputs that can be applied together.
pub(crate) fn plan_round(reports: &[Option<CheckReport>], max_safety: Safety) -> Round {
    reports
        .par_iter()
        .enumerate()
        .filter_map(|(at, report)| Some((at, FileEdit::of(&report.as_ref()?.findings, max_safety)?)))
        .collect()
}

/// Why findings with a suitable fix were not fixed, by index of the finding.
pub(crate) fn unfixed_reasons(findings: &[Finding], max_safety: Safety) -> BTreeMap<usize, String> {
    let reason = |(at, finding): (usize, &Finding)| {
        let reason = match applicable_repair(finding, max_safety)? {
            Err(refused) => refused.to_string(),
            Ok(_) => "another fix undoes it".to_owned(),
        };
        Some((at, reason))
    };
    findings.iter().enumerate().filter_map(reason).collect()
}

impl FixRun {
    /// Writes the files. If a file cannot be written, its input is reset to what was read, and an error is
    /// returned for it.
    pub(crate) fn write(&mut self, set: &mut Batch<'_>) -> Vec<String> {
        let mut errors = Vec::new();
        for (at, change) in std::mem::take(&mut self.changes) {
            let input = &set.inputs[at].input;
            let text = set.source(at).cloned();
            let new = text.as_ref().map_or("", |source| source.text());
            let outcome = if input.stream.is_some() {
                Ok(())
            } else {
                replace_file(&input.path, change.source.text(), new)
            };
            match outcome {
                Ok(()) => {
                    self.changes.insert(at, change);
                }
                Err(error) => {
                    errors.push(format!("{}: not fixed: {error}", input.display_path));
                    self.log.files.remove(&input.display_path);
                    set.reads[at] = change.before;
                }
            }
        }
        errors
    }

    /// Prints the changes as a unified diff.
    pub(crate) fn diff(&self, set: &Batch<'_>, out: &mut dyn Write, paint: Paint) -> Result<(), CliError> {
        for (at, change) in &self.changes {
            let new = set.source(*at).map_or("", |source| source.text());
            let name = &set.inputs[*at].input.display_path;
            write_diff(out, name, change.source.text(), new, paint)?;
        }
        Ok(())
    }
}

/// Prints the changes of a file as a unified diff.
pub(crate) fn write_diff(
    out: &mut dyn Write,
    name: &str,
    old: &str,
    new: &str,
    paint: Paint,
) -> Result<(), CliError> {
    let name = printable(name, false);
    // Patience is fast for few changes in long files.
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(old, new);
    let mut unified = diff.unified_diff();
    let unified = unified.context_radius(3).header(&name, &name);
    if !paint.color {
        write!(out, "{unified}")?;
        return Ok(());
    }
    let text = unified.to_string();
    for (at, whole) in text.split_inclusive('\n').enumerate() {
        let line = whole.trim_end_matches(['\n', '\r']);
        let style = match line.chars().next() {
            _ if at < 2 => Style::Bold,
            Some('@') => Style::Place,
            Some('-') => Style::Removed,
            Some('+') => Style::Added,
            _ => Style::Plain,
        };
        write!(out, "{}{}", paint.text(style, line), &whole[line.len()..])?;
    }
    Ok(())
}

/// The edits for findings of rendered objects that can be applied together, by the file that they edit.
pub(crate) fn plan_rendered(
    findings: &[(usize, Finding)],
    max_safety: Safety,
) -> Vec<(Arc<Source>, FileEdit)> {
    let mut files: Vec<(&Arc<Source>, Vec<Finding>)> = Vec::new();
    for (_, finding) in findings {
        let Some(rendered) = finding.location.rendered().filter(|rendered| rendered.repair.is_some()) else {
            continue;
        };
        match files.iter_mut().find(|(source, _)| Arc::ptr_eq(source, &rendered.source)) {
            Some((_, own)) => own.push(finding.clone()),
            None => files.push((&rendered.source, vec![finding.clone()])),
        }
    }
    files
        .into_iter()
        .filter_map(|(source, findings)| Some((Arc::clone(source), FileEdit::of(&findings, max_safety)?)))
        .collect()
}

/// Replaces the content of a file atomically, if it still equals `old` and may be written. Links are followed, and the mode is
/// kept.
pub(crate) fn replace_file(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    let now = fs::read(&target)?;
    if now == new.as_bytes() {
        return Ok(());
    }
    if now != old.as_bytes() {
        return Err(io::Error::other("it changed since it was read"));
    }
    // A new file takes its place, which the folder alone could allow. Root may write to every file.
    if fs::metadata(&target)?.permissions().readonly() {
        return Err(io::Error::other("it is read-only"));
    }
    fs::OpenOptions::new().write(true).open(&target)?;
    output::replace(&target, new)
}
