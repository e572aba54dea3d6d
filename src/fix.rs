//! `--fix`, `--unsafe-fixes`, `--diff`: fixes become the content of files.
//!
//! The engine's fix loop ([`Engine::fix`]) edits the files in memory. A file is written only if the file on
//! disk is still what was read, and in one step.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use gpulint_rules::lint::fix::rounds::{FileEdit, FixTarget, applicable_repair};
use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Engine, Finding, Safety};
use rayon::prelude::*;
use similar::{Algorithm, TextDiff};

use crate::batch::Batch;
use crate::error::CliError;
use crate::files::ReadOutcome;
use crate::terminal::printable;

/// The files that fixes changed.
#[derive(Default)]
pub(crate) struct FixRun {
    changes: BTreeMap<usize, FileChange>,
}

struct FileChange {
    /// What was read from disk.
    before: ReadOutcome,
    source: Arc<Source>,
    fixes: usize,
}

/// The edits of one round, by the number of the input.
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
        let before = self.batch.rewrite(unit, edit.text);
        let change = self.run.changes.entry(unit).or_insert(FileChange { before, source, fixes: 0 });
        change.fixes += edit.fixes;
    }
}

/// Applies the edits of a first round to the batch, and the fixes of what is found after them.
pub(crate) fn run(batch: &mut Batch<'_>, first: Round, max_safety: Safety) -> FixRun {
    let mut files = FilesToFix { batch, max_safety, run: FixRun::default() };
    Engine::fix(&mut files, first);
    files.run
}

/// The edits that the findings of all inputs allow at once.
pub(crate) fn plan_round(judged: &[Option<CheckReport>], max_safety: Safety) -> Round {
    judged
        .par_iter()
        .enumerate()
        .filter_map(|(at, judged)| Some((at, FileEdit::of(&judged.as_ref()?.findings, max_safety)?)))
        .collect()
}

/// Why findings that were to be fixed are left, by their place.
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
    /// How many findings were fixed.
    pub(crate) fn count(&self) -> usize {
        self.changes.values().map(|change| change.fixes).sum()
    }

    /// Writes the files. One that cannot be written is as it was read again, and the answer says
    /// why.
    pub(crate) fn write(&mut self, set: &mut Batch<'_>) -> Vec<String> {
        let mut errors = Vec::new();
        for (at, change) in std::mem::take(&mut self.changes) {
            let input = &set.inputs[at].input;
            let text = set.source(at).cloned();
            let new = text.as_ref().map_or("", |source| source.text());
            let outcome =
                if input.stdin { Ok(()) } else { replace_file(&input.path, change.source.text(), new) };
            match outcome {
                Ok(()) => {
                    self.changes.insert(at, change);
                }
                Err(error) => {
                    errors.push(format!("{}: not fixed: {error}", input.display_path));
                    set.reads[at] = change.before;
                }
            }
        }
        errors
    }

    /// Prints what changed as a unified diff.
    pub(crate) fn diff(&self, set: &Batch<'_>, out: &mut dyn Write) -> Result<(), CliError> {
        for (at, change) in &self.changes {
            let new = set.source(*at).map_or("", |source| source.text());
            let name = printable(&set.inputs[*at].input.display_path, false);
            // Fixes change few lines of files that may be long.
            let diff =
                TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(change.source.text(), new);
            let mut unified = diff.unified_diff();
            write!(out, "{}", unified.context_radius(3).header(&name, &name))?;
        }
        Ok(())
    }
}

/// Puts `new` in the place of a file that still holds `old`: whole, or not at all. Links are
/// followed, and the mode stays.
fn replace_file(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    let now = fs::read(&target)?;
    if now == new.as_bytes() {
        return Ok(());
    }
    if now != old.as_bytes() {
        return Err(io::Error::other("it changed since it was read"));
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let beside = target.with_file_name(format!(".{name}.gpulint-{}", std::process::id()));
    let written = write_new(&beside, &target, new).and_then(|()| fs::rename(&beside, &target));
    if written.is_err() {
        // It may not even be there.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_new(beside: &Path, target: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(beside)?;
    file.set_permissions(fs::metadata(target)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
