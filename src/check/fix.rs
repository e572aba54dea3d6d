//! `--fix` and `--diff`: applies fixes to files, with `--unsafe-fixes` also those that need a review.
//!
//! The engine's fix loop ([`Engine::fix`]) edits the files in memory. A file is only written if its content
//! on disk has not changed since it was read. It is replaced atomically.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use gpulint_rules::lint::fix::rounds::{AppliedFix, FileEdit, FixTarget, applicable_repair};
use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Engine, Finding, Safety};
use rayon::prelude::*;

use crate::batch::Batch;
use crate::files::ReadOutcome;
use crate::output;
use crate::report::{Diff, Fixed};

use super::run::{Done, Rendered, Run};

/// Maximum number of times that charts and kustomizations are rendered; fixes that are left wait for the next run.
const MAX_RENDERS: usize = 16;

pub(super) fn apply(run: &Run<'_>, rendered: &mut Rendered<'_>, reports: Vec<Option<CheckReport>>) -> Done {
    let _progress = run.progress("fixing");
    let mut unwritten = Unwritten::default();
    let mut log = fix_files(run, rendered, &reports).write(&mut rendered.batch, &mut unwritten);
    for _ in 0..MAX_RENDERS {
        if !fix_rendered(run, rendered, &mut log, &mut unwritten) {
            break;
        }
    }
    let reports = if log.count() > 0 { rendered.batch.check(None) } else { reports };
    let Unwritten { files, errors } = unwritten;
    Done { reports, errors, unwritten: files, fixed: Some(log.list()), diff: None }
}

/// Shows the changes that [`apply`] would make, without rendering again.
pub(super) fn diff(run: &Run<'_>, rendered: &mut Rendered<'_>, reports: Vec<Option<CheckReport>>) -> Done {
    let fixed = fix_files(run, rendered, &reports);
    let (found, safety) = (rendered.renders.check(&rendered.batch).findings, run.args.max_safety());
    let planned = plan_rendered(&found, safety, FileEdit::of_all);
    let shown: usize = planned.iter().map(|(_, edit)| edit.fixes.len()).sum();
    let fixable =
        found.iter().filter(|(_, one)| matches!(applicable_repair(one, safety), Some(Ok(_)))).count();
    let (count, later) = (fixed.log.count() + shown, fixable - shown);
    let mut changes = fixed.undo(&mut rendered.batch);
    let planned = planned.into_iter();
    changes.extend(planned.map(|(source, edit)| (source.path().into(), source.text().into(), edit.text)));
    Done { reports, diff: Some(Diff { changes, count, later }), ..Done::default() }
}

#[derive(Default)]
struct FixRun {
    /// The content that was read from disk, by the index of the input.
    before: BTreeMap<usize, ReadOutcome>,
    log: FixLog,
}

/// The files that could not be written.
#[derive(Default)]
struct Unwritten {
    /// Their reported paths.
    files: BTreeSet<String>,
    errors: Vec<String>,
}

impl Unwritten {
    fn add(&mut self, path: &str, what: &str, error: &io::Error) {
        // Each render tries again.
        if self.files.insert(path.to_owned()) {
            self.errors.push(format!("{path}: {what}: {error}"));
        }
    }
}

/// The fixes, by the reported path of the file.
#[derive(Debug, Default)]
struct FixLog {
    files: BTreeMap<String, LoggedFile>,
}

#[derive(Debug, Default)]
struct LoggedFile {
    /// The text after all fixes so far.
    text: String,
    /// The fixes, with their places in that text.
    fixes: Vec<AppliedFix>,
}

impl FixLog {
    fn add(&mut self, path: &str, edit: &FileEdit) {
        let file = self.files.entry(path.to_owned()).or_default();
        file.fixes.extend(edit.fixes.iter().cloned());
        for fix in &mut file.fixes {
            fix.offset = edit.moved(fix.offset);
        }
        file.text.clone_from(&edit.text);
    }

    fn count(&self) -> usize {
        self.files.values().map(|file| file.fixes.len()).sum()
    }

    /// The fixes, with their places in the files after all fixes.
    fn list(&self) -> Vec<Fixed> {
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
type Round = Vec<(usize, FileEdit)>;

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
        self.run.log.add(&self.batch.inputs[unit].input.display_path, &edit);
        let before = self.batch.rewrite(unit, edit.text);
        self.run.before.entry(unit).or_insert(before);
    }
}

/// Applies the fixes of the findings to the batch, and then those of the findings that remain.
fn fix_files(run: &Run<'_>, rendered: &mut Rendered<'_>, reports: &[Option<CheckReport>]) -> FixRun {
    let max_safety = run.args.max_safety();
    let first = plan_round(reports, max_safety);
    let mut files = FilesToFix { batch: &mut rendered.batch, max_safety, run: FixRun::default() };
    Engine::fix(&mut files, first);
    files.run
}

/// Fixes the files that findings in rendered objects come from, and renders again. If more renders fail then, the files
/// are restored. Returns whether there may be more to fix.
fn fix_rendered(
    run: &Run<'_>,
    rendered: &mut Rendered<'_>,
    log: &mut FixLog,
    unwritten: &mut Unwritten,
) -> bool {
    let Rendered { batch, renders, found } = rendered;
    let planned = plan_rendered(&renders.check(batch).findings, run.args.max_safety(), FileEdit::of);
    let mut written = Vec::new();
    for (source, edit) in planned {
        let Some(path) = renders.path_of(&source) else { continue };
        match replace_file(&path, source.text(), &edit.text) {
            Ok(()) => written.push((path, source, edit)),
            Err(error) => unwritten.add(source.path(), "not fixed", &error),
        }
    }
    if written.is_empty() {
        return false;
    }
    let covered = batch.covered.clone();
    let new = run.render(batch, found);
    let is_sound = new.failures().count() <= renders.failures().count();
    for (path, source, edit) in &written {
        if is_sound {
            log.add(source.path(), edit);
            batch.read_again(path, &edit.text);
        } else if let Err(error) = replace_file(path, &edit.text, source.text()) {
            unwritten.add(source.path(), "not restored", &error);
        }
    }
    if is_sound {
        *renders = new;
    } else {
        batch.covered = covered;
    }
    is_sound
}

/// The edits for the findings of all inputs that can be applied together.
fn plan_round(reports: &[Option<CheckReport>], max_safety: Safety) -> Round {
    reports
        .par_iter()
        .enumerate()
        .filter_map(|(at, report)| Some((at, FileEdit::of(&report.as_ref()?.findings, max_safety)?)))
        .collect()
}

/// The reasons why findings with a suitable fix were not fixed, by index of the finding.
/// `unwritten` are the files that could not be written.
pub(super) fn unfixed_reasons(
    findings: &[Finding],
    max_safety: Safety,
    unwritten: &BTreeSet<String>,
) -> BTreeMap<usize, String> {
    let reason = |(at, finding): (usize, &Finding)| {
        let reason = match applicable_repair(finding, max_safety)? {
            Err(refused) => refused.to_string(),
            Ok(_) if finding.location.path().is_some_and(|path| unwritten.contains(path)) => {
                "its file could not be written".to_owned()
            }
            Ok(_) => "another fix undoes it".to_owned(),
        };
        Some((at, reason))
    };
    findings.iter().enumerate().filter_map(reason).collect()
}

impl FixRun {
    /// Writes the files, and returns the fixes. If a file cannot be written, its input is reset to the
    /// content that was read, and an error is added.
    fn write(mut self, batch: &mut Batch<'_>, unwritten: &mut Unwritten) -> FixLog {
        for (at, before) in self.before {
            let (input, (old, new)) = (&batch.inputs[at].input, texts(&before, &batch.reads[at]));
            if input.stream.is_none()
                && let Err(error) = replace_file(&input.path, old, new)
            {
                unwritten.add(&input.display_path, "not fixed", &error);
                self.log.files.remove(&input.display_path);
                batch.reads[at] = before;
            }
        }
        self.log
    }

    /// Resets the inputs to the content that was read. Returns the reported path of each file, its text, and
    /// the text with the fixes.
    fn undo(self, batch: &mut Batch<'_>) -> Vec<(String, String, String)> {
        let changes = self.before.into_iter().map(|(at, before)| {
            let after = std::mem::replace(&mut batch.reads[at], before);
            let (old, new) = texts(&batch.reads[at], &after);
            (batch.inputs[at].input.display_path.clone(), old.to_owned(), new.to_owned())
        });
        changes.collect()
    }
}

fn texts<'r>(before: &'r ReadOutcome, after: &'r ReadOutcome) -> (&'r str, &'r str) {
    let text = |read: &'r ReadOutcome| read.file.as_ref().map_or("", |file| file.source.text());
    (text(before), text(after))
}

/// The edits for findings of rendered objects that can be applied together, by the file that they edit.
fn plan_rendered(
    findings: &[(usize, Finding)],
    max_safety: Safety,
    edit: fn(&[Finding], Safety) -> Option<FileEdit>,
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
        .filter_map(|(source, findings)| Some((Arc::clone(source), edit(&findings, max_safety)?)))
        .collect()
}

/// Replaces the content of a file atomically, if it still equals `old` and may be written. Links are followed, and the mode is
/// kept.
pub(super) fn replace_file(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    let now = fs::read(&target)?;
    if now == new.as_bytes() {
        return Ok(());
    }
    if now != old.as_bytes() {
        return Err(io::Error::other("it changed since it was read"));
    }
    // The file is replaced by a new one, which the permissions of the folder alone would allow. Root may
    // write to every file.
    if fs::metadata(&target)?.permissions().readonly() {
        return Err(io::Error::other("it is read-only"));
    }
    fs::OpenOptions::new().write(true).open(&target)?;
    output::replace(&target, new)
}
