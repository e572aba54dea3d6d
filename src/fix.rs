//! `--fix`, `--unsafe-fixes`, `--diff`: fixes become the content of files.
//!
//! In rounds: each object gets one fix, the files that changed are read and judged again, until
//! nothing changes. Two fixes that were computed from one state of an object would overwrite each
//! other; those of different objects do not touch each other's text. A file is written only if it
//! is on disk what was read, and in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use gpulint_rules::lint::fix::text::{Repair, apply_edits, repair};
use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Finding, Safety};
use rayon::prelude::*;
use similar::{Algorithm, TextDiff};

use crate::batch::Batch;
use crate::error::CliError;
use crate::files::ReadOutcome;
use crate::terminal::printable;

/// Rounds after which fixes that follow each other are left to the next run.
const MAX_ROUNDS: usize = 100;

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

/// The fixes of one round, by the number of the input.
pub(crate) type Round = Vec<(usize, FileEdit)>;

/// A file's fixes of one round.
pub(crate) struct FileEdit {
    text: String,
    fixes: usize,
}

/// Applies planned fixes to the set, and those of what is found after them.
pub(crate) fn run(set: &mut Batch<'_>, mut plans: Round, max_safety: Safety) -> FixRun {
    let mut fixed = FixRun::default();
    // Texts that a file had: one that comes again means that two fixes undo each other.
    let mut seen: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    // Whether the last round judged every file.
    let mut whole = false;
    for _ in 0..MAX_ROUNDS {
        let mut changed = BTreeSet::new();
        for (at, plan) in plans {
            let Some(source) = set.source(at).cloned() else {
                continue;
            };
            let states = seen.entry(at).or_default();
            states.insert(fingerprint(source.text()));
            if !states.insert(fingerprint(&plan.text)) {
                continue;
            }
            let before = set.rewrite(at, plan.text);
            let change = fixed.changes.entry(at).or_insert(FileChange { before, source, fixes: 0 });
            change.fixes += plan.fixes;
            changed.insert(at);
        }
        if changed.is_empty() {
            if whole || fixed.changes.is_empty() {
                break;
            }
            // Fixes of other files may have waited for these, as a pool's does for its class's.
            whole = true;
            let index = set.index();
            plans = plan_round(&set.check(&index, None), max_safety);
            continue;
        }
        whole = false;
        let index = set.index();
        plans = plan_round(&set.check(&index, Some(&changed)), max_safety);
    }
    fixed
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// What fixes there are to make at once.
pub(crate) fn plan_round(judged: &[Option<CheckReport>], max_safety: Safety) -> Round {
    judged
        .par_iter()
        .enumerate()
        .filter_map(|(at, judged)| Some((at, plan_file(&judged.as_ref()?.findings, max_safety)?)))
        .collect()
}

/// The first fix that can be made of each object of a file.
fn plan_file(findings: &[Finding], max_safety: Safety) -> Option<FileEdit> {
    let mut source: Option<&Arc<Source>> = None;
    // By where their scopes begin.
    let mut repairs: BTreeMap<u32, Repair> = BTreeMap::new();
    let mut last = None;
    for finding in findings {
        let Some(object) = finding.location.object() else {
            continue;
        };
        if last.is_some_and(|last| object.is_same_resource(last)) {
            continue;
        }
        let Some(repair) = applicable_repair(finding, max_safety).and_then(Result::ok) else {
            continue;
        };
        let before = repairs.range(..repair.scope.end).next_back();
        let taken = before.is_some_and(|(_, other)| other.scope.end > repair.scope.start);
        if taken || repair.edits.is_empty() {
            continue;
        }
        source = source.or_else(|| object.origin().map(|origin| &origin.source));
        last = Some(object);
        repairs.insert(repair.scope.start, repair);
    }
    let fixes = repairs.len();
    let edits: Vec<_> = repairs.into_values().flat_map(|r| r.edits).collect();
    let text = apply_edits(source?.text(), &edits)?;
    Some(FileEdit { text, fixes })
}

/// What the fix of a finding does, where it is one that is to be applied.
fn applicable_repair(
    finding: &Finding,
    max_safety: Safety,
) -> Option<Result<Repair, gpulint_rules::FixError>> {
    let fix = finding.fix.as_ref().filter(|fix| fix.safety <= max_safety)?;
    Some(repair(finding.location.object()?, fix))
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
