//! `--since`: only what is new since the checked state left a revision is reported, and decides the exit code.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use gpulint_rules::Finding;

use crate::args::CheckArgs;
use crate::batch::Batch;
use crate::checkout::{Checkout, Place};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, Disk};
use crate::git::Repository;
use crate::judge::{Inventory, Reading, fingerprints_of, judge};
use crate::states::States;

/// The findings of the state that the checked one is compared with.
pub(super) struct Before {
    /// How the user calls it.
    pub(super) name: String,
    root: PathBuf,
    known: HashSet<String>,
}

impl Before {
    /// Judges the common ancestor of HEAD and a revision, as the state after the checked one.
    pub(super) fn of(
        args: &CheckArgs,
        since: &str,
        batch: &Batch<'_>,
        states: &mut States,
    ) -> Result<Before, CliError> {
        let here = files::absolute(Path::new("."));
        let usage = |error: String| CliError::Usage(format!("--since: {error}"));
        let repository = repository(args, &here).map_err(usage)?;
        let base = repository.resolve(since).and_then(|tip| {
            repository.resolve("HEAD").and_then(|head| repository.merge_base((tip, since), head))
        });
        let root = repository.root().to_owned();
        let given = given(args, &here, &root);
        let asked = if is_whole(args) { vec![root.clone()] } else { given.clone() };
        let is_written = args.render || args.rules.config.is_some();
        let place = if is_written { Place::Disk } else { Place::Over };
        let checkout =
            Checkout::of_commit(&repository, base.map_err(usage)?, &here, &asked, since.to_owned(), place)?;
        let paths = match is_whole(args) {
            true => vec![checkout.root().to_owned()],
            false => given.iter().map(|path| checkout.path(path, &root)).collect(),
        };
        // A configuration beside another repository is not in the revision.
        let is_outside = args.rules.config.is_some() && !here.starts_with(&root);
        let scopes = is_outside.then(|| Scopes::for_check(args)).transpose()?;
        let judged = checkout.inside(|| {
            let reading = Reading {
                paths: &paths,
                root: checkout.root(),
                no_default_ignore: args.no_default_ignore,
                render: args.render,
                render_limit: args.render_limit,
                disk: &Disk::default(),
            };
            judge(scopes.map_or_else(|| Scopes::for_check(args), Ok)?, &reading, Some(states))
        });
        let mut judged = judged.map_err(|error| error.of(since))?;
        judged.follow(&Inventory::of(batch, &root));
        let known = judged.findings.into_iter().map(|one| one.fingerprint).collect();
        Ok(Before { name: since.to_owned(), root, known })
    }

    /// Which of the findings of a file are new. That something could not be rendered is always reported.
    pub(super) fn are_new<'f>(&self, findings: impl Iterator<Item = &'f Finding> + Clone) -> Vec<bool> {
        let names = fingerprints_of(findings.clone(), &self.root);
        let is_new = |(finding, name): (&Finding, String)| {
            finding.rule.id == "render-failed" || !self.known.contains(&name)
        };
        findings.zip(names).map(is_new).collect()
    }
}

/// Whether the whole revision is judged: single files are checked beside what is applied with them.
fn is_whole(args: &CheckArgs) -> bool {
    !args.no_context && !args.paths.iter().any(|path| path.is_dir())
}

/// A path that the user names; that of a stream is the file that it takes the place of.
fn file_of<'a>(args: &'a CheckArgs, path: &'a PathBuf) -> &'a PathBuf {
    if path.as_os_str() == "-" { &args.stdin_filename } else { path }
}

/// The paths that the user names. Relative ones are as the user wrote them, unless the current folder is outside of the repository.
fn given(args: &CheckArgs, here: &Path, root: &Path) -> Vec<PathBuf> {
    let named = |path: &PathBuf| {
        let path = file_of(args, path);
        let absolute = files::absolute(path);
        if !here.starts_with(root) && absolute.starts_with(root) { absolute } else { path.clone() }
    };
    args.paths.iter().map(named).collect()
}

fn repository(args: &CheckArgs, here: &Path) -> Result<Repository, String> {
    let folder = |path: &PathBuf| {
        let absolute = files::absolute(file_of(args, path));
        match (absolute.is_dir(), absolute.parent()) {
            (true, _) => absolute,
            (false, Some(folder)) if absolute.is_file() => folder.to_owned(),
            // A stream.
            _ => here.to_owned(),
        }
    };
    let folders: BTreeSet<PathBuf> = args.paths.iter().map(folder).collect();
    let first = folders.first().map_or(here, PathBuf::as_path);
    let repository = Repository::around(first)?;
    let root = repository.root();
    let is_nested = |folder: &Path| {
        folder.ancestors().take_while(|above| *above != root).any(|above| above.join(".git").exists())
    };
    // The path of the repository may be another one where links lead to it.
    let is_known = first.starts_with(root);
    let is_other = |folder: &&PathBuf| is_known && (!folder.starts_with(root) || is_nested(folder));
    match folders.iter().find(is_other) {
        Some(other) => {
            Err(format!("{} and {} are in different repositories", first.display(), other.display()))
        }
        None => Ok(repository),
    }
}
