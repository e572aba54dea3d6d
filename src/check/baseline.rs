//! `--baseline`, `--write-baseline` and `--update-baseline`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use gpulint_rules::{CheckReport, find_rule};

use crate::args::CheckArgs;
use crate::baseline::{Baseline, Baselines, Entry, MARK, entries_of, parse, save};
use crate::batch::Batch;
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{absolute, display_path};
use crate::render::Renders;
use crate::terminal::{count, print_note};

use super::run::Rendered;

/// The files that a run has covered. Only for them an entry without a finding is stale.
struct Coverage<'a> {
    /// Checked files: whether the whole file was read, and whether it was found in a folder.
    files: HashMap<&'a Path, (bool, bool)>,
    folders: Vec<PathBuf>,
    /// Files that are checked as rendered.
    covered: HashSet<&'a Path>,
    /// Whether everything was rendered.
    rendered: bool,
    args: &'a CheckArgs,
}

/// Reads the baseline of the flags, or those of the configurations.
pub(super) fn load(args: &CheckArgs, scopes: &Scopes) -> Result<Baselines, CliError> {
    if args.write_baseline.is_some() || args.no_baseline || args.show_sets {
        return Ok(Baselines { list: Vec::new(), of_scope: vec![None; scopes.all().len()] });
    }
    let (all, errors) = Baselines::load(scopes, args.baseline.as_ref());
    if !errors.is_empty() {
        return Err(CliError::Several(errors));
    }
    if args.update_baseline && all.list.is_empty() {
        return Err(CliError::Usage(
            "--update-baseline: there is no baseline; name it with --baseline or in gpulint.yaml".to_owned(),
        ));
    }
    Ok(all)
}

/// Reports the entries that no finding matched, by configuration and fingerprint, and removes them if
/// requested.
pub(super) fn finish(
    matched: &[(usize, String)],
    args: &CheckArgs,
    set: &Batch<'_>,
    renders: &Renders,
) -> Result<(), CliError> {
    let baselines = &set.baselines;
    if baselines.list.is_empty() {
        return Ok(());
    }
    let of = |scope: usize| baselines.of_scope.get(scope).copied().flatten();
    let matched: HashSet<(usize, &str)> =
        matched.iter().filter_map(|(scope, name)| Some((of(*scope)?, name.as_str()))).collect();
    let coverage = Coverage::new(args, set, renders);
    for (at, baseline) in baselines.list.iter().enumerate() {
        let is_stale = |entry: &Entry| {
            !matched.contains(&(at, entry.fingerprint.as_str()))
                && coverage.includes(entry, &absolute(&baseline.folder().join(&entry.path)))
        };
        let (stale, left): (Vec<Entry>, Vec<Entry>) =
            baseline.entries.iter().cloned().partition(|entry| is_stale(entry));
        if args.update_baseline && !stale.is_empty() {
            save(&baseline.path, &baseline.shown, &left)?;
        }
        if !args.quiet {
            say(baseline, &stale, args);
        }
    }
    Ok(())
}

fn say(baseline: &Baseline, stale: &[Entry], args: &CheckArgs) {
    let shown = &baseline.shown;
    let (entries, matches, them) = match stale.len() {
        1 => ("1 entry".to_owned(), "matches", "it"),
        n => (format!("{n} entries"), "match", "them"),
    };
    match (stale.is_empty(), args.update_baseline) {
        (true, false) => {}
        (true, true) => print_note(&format!("note: {shown}: no entry to remove")),
        (false, true) => print_note(&format!("note: {shown}: removed {entries} that no longer {matches}")),
        (false, false) => print_note(&format!(
            "note: {shown}: {entries} of the baseline no longer {matches}; --update-baseline removes {them}"
        )),
    }
    if args.verbose {
        for entry in stale {
            print_note(&format!("  {}: {} {}", entry.path, entry.rule, entry.object));
        }
    }
}

impl<'a> Coverage<'a> {
    fn new(args: &'a CheckArgs, set: &'a Batch<'_>, renders: &Renders) -> Coverage<'a> {
        let mut files = HashMap::new();
        for (one, read) in set.inputs.iter().zip(&set.reads) {
            let parsed = |file: &gpulint_rules::File| file.documents.iter().all(|d| d.tree.is_some());
            let whole = read.error.is_none() && read.file.as_ref().is_none_or(parsed);
            let is_checked = !one.is_context && one.input.unapplied.is_none();
            files.insert(one.input.absolute.as_path(), (whole && is_checked, !one.input.named));
        }
        let folders = args.paths.iter().filter(|path| path.is_dir()).map(|path| absolute(path)).collect();
        let covered = set.covered.iter().map(|at| set.inputs[*at].input.absolute.as_path()).collect();
        Coverage {
            files,
            folders,
            covered,
            rendered: renders.failures().next().is_none() && renders.has_runs(),
            args,
        }
    }

    /// Whether the run would have reported the finding of an entry.
    fn includes(&self, entry: &Entry, file: &Path) -> bool {
        let flags = &self.args.rules;
        let rule = find_rule(&entry.rule);
        let named = |names: &[String]| {
            let group = rule.map(|rule| rule.group.name());
            names.iter().any(|name| *name == entry.rule || name == "all" || Some(name.as_str()) == group)
        };
        let other_versions = flags.karpenter.or(flags.keda).or(flags.kubernetes).is_some();
        if other_versions || (!flags.select.is_empty() && !named(&flags.select)) || named(&flags.ignore) {
            return false;
        }
        if if entry.rendered { !self.rendered } else { self.covered.contains(file) } {
            return false;
        }
        match self.files.get(file) {
            // Rules that read other objects may give another result when a file is checked alone.
            Some((whole, from_folder)) => {
                *whole && (*from_folder || rule.is_none_or(|rule| rule.reads.is_empty()))
            }
            None => self.folders.iter().any(|folder| file.starts_with(folder)),
        }
    }
}

/// `--write-baseline`: writes the findings of a run to a baseline, and removes them from its reports.
pub(super) fn write(
    path: &Path,
    args: &CheckArgs,
    rendered: &mut Rendered<'_>,
    reports: &mut [Option<CheckReport>],
) -> Result<(), CliError> {
    let Rendered { batch: set, renders, .. } = rendered;
    let target = absolute(path);
    let shown = display_path(path);
    let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
    let mut entries = Vec::new();
    for (at, report) in reports.iter().enumerate() {
        let Some(report) = report else { continue };
        entries.extend(entries_of(&folder, &set.inputs[at].input.absolute, report.findings.iter()));
    }
    let rendered = renders.check(set);
    for (file, numbers) in renders.by_file(&rendered.findings) {
        entries.extend(entries_of(&folder, &file, numbers.iter().map(|at| &rendered.findings[*at].1)));
    }
    let found = entries.len();
    // Entries for files that this run did not cover are kept.
    let coverage = Coverage::new(args, set, renders);
    let is_kept = |entry: &Entry| !coverage.includes(entry, &absolute(&folder.join(&entry.path)));
    entries.extend(existing(&target, &shown)?.into_iter().filter(is_kept));
    entries.sort();
    entries.dedup();
    let kept = entries.len() - found.min(entries.len());
    save(&target, &shown, &entries)?;
    if !args.quiet {
        let kept = if kept > 0 {
            format!("; {kept} of other files or rules {}", if kept == 1 { "stays" } else { "stay" })
        } else {
            String::new()
        };
        print_note(&format!("note: wrote {} to {shown}{kept}", count(found, "finding")));
    }
    let baseline = Baseline::load(path).map_err(CliError::Usage)?;
    set.baselines = Baselines { list: vec![baseline], of_scope: vec![Some(0); set.engines.len()] };
    for (at, report) in reports.iter_mut().enumerate() {
        if let Some(report) = report {
            let one = &set.inputs[at];
            set.baselines.filter(one.scope, &one.input.absolute, report);
        }
    }
    Ok(())
}

/// The entries of a file that is about to be replaced; none if it is a baseline that cannot be parsed.
fn existing(path: &Path, shown: &str) -> Result<Vec<Entry>, CliError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CliError::Usage(format!("{shown}: {error}"))),
    };
    match parse(shown, &text) {
        Ok(entries) => Ok(entries),
        Err(_) if text.trim().is_empty() => Ok(Vec::new()),
        Err(error) if error.contains("is newer than this gpulint") => Err(CliError::Usage(error)),
        Err(_) if text.contains(MARK) => Ok(Vec::new()),
        Err(_) => {
            Err(CliError::Usage(format!("{shown} exists and is not a baseline: it is not overwritten")))
        }
    }
}
