//! `--since`: only what is new since the checked state left a revision is reported, and decides the exit code.

use std::collections::HashSet;
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

/// The findings of the state that the checked one is compared with.
pub(super) struct Before {
    /// How the user calls it.
    pub(super) name: String,
    root: PathBuf,
    known: HashSet<String>,
}

impl Before {
    /// Judges the common ancestor of HEAD and a revision.
    pub(super) fn of(args: &CheckArgs, since: &str, batch: &Batch<'_>) -> Result<Before, CliError> {
        let here = files::absolute(Path::new("."));
        let usage = |error: String| CliError::Usage(format!("--since: {error}"));
        let repository = Repository::around(&here).map_err(usage)?;
        let base = repository.resolve(since).and_then(|tip| {
            repository.resolve("HEAD").and_then(|head| repository.merge_base((tip, since), head))
        });
        let root = repository.root().to_owned();
        let is_single = |path: &PathBuf| !path.is_dir();
        let asked = if !args.no_context && args.paths.iter().all(is_single) {
            vec![root.clone()]
        } else {
            args.paths.clone()
        };
        let is_written = args.render || args.rules.config.is_some();
        let place = if is_written { Place::Disk } else { Place::Over };
        let checkout =
            Checkout::of_commit(&repository, base.map_err(usage)?, &here, &asked, since.to_owned(), place)?;
        let paths = paths(args, &checkout, &root);
        let judged = checkout.inside(|| {
            let reading = Reading {
                paths: &paths,
                root: checkout.root(),
                no_default_ignore: args.no_default_ignore,
                render: args.render,
                render_limit: args.render_limit,
                disk: &Disk::default(),
                checks: true,
            };
            judge(Scopes::for_check(args)?, &reading)
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

/// What is judged of the revision: the same paths, and the whole of it where single files are checked beside what is applied
/// with them.
fn paths(args: &CheckArgs, checkout: &Checkout, root: &Path) -> Vec<PathBuf> {
    let is_single = |path: &PathBuf| !path.is_dir();
    if !args.no_context && args.paths.iter().all(is_single) {
        return vec![checkout.root().to_owned()];
    }
    let named = |path: &PathBuf| {
        let is_stream = path.as_os_str() == "-";
        checkout.path(if is_stream { &args.stdin_filename } else { path }, root)
    };
    args.paths.iter().map(named).collect()
}
