//! The manifests of one state of a repository, judged as `gpulint check` judges them in the current folder: findings, and the
//! objects of each set. `gpulint plan` compares two of them, `gpulint check --since` the findings with those of one.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpulint_rules::{Cluster, Finding, Platform, fingerprints_at};

use crate::baseline::Baselines;
use crate::batch::{Batch, scope};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, CONFIGURATIONS, Directories};
use crate::render::{RenderOptions, Renders};

/// What to read, and how.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) paths: &'a [PathBuf],
    /// The folder to which the paths of findings are relative where two states are compared.
    pub(crate) root: &'a Path,
    pub(crate) no_default_ignore: bool,
    pub(crate) render: bool,
    pub(crate) render_limit: u64,
}

/// A finding, with what is compared of it.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) finding: Finding,
    /// The name of the finding, which is the same in another state of the repository.
    pub(crate) fingerprint: String,
    /// Whether it is at least as severe as `fail-on` of its configuration.
    pub(crate) fails: bool,
    /// Whether the baseline of its configuration has it.
    pub(crate) is_baselined: bool,
}

/// The objects of a set, and the platform of the configuration that holds for its NodePools.
#[derive(Debug)]
pub(crate) struct JudgedSet {
    /// The name; `None` if the input is a single set, and for files in no set.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) cluster: Cluster,
    pub(crate) platform: Platform,
}

#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// The findings, sorted by file, position and rule.
    pub(crate) findings: Vec<Judgement>,
    pub(crate) sets: Vec<JudgedSet>,
    /// The platform of each configuration, by its path; that of the current folder has no name.
    pub(crate) platforms: BTreeMap<String, Platform>,
    /// Paths that could not be read.
    pub(crate) errors: Vec<String>,
    pub(crate) objects: usize,
}

/// Judges what is below some paths. Paths that do not exist are left out: the other state may have them.
pub(crate) fn judge(mut scopes: Scopes, reading: &Reading<'_>) -> Result<Judged, CliError> {
    let there: Vec<PathBuf> = reading.paths.iter().filter(|path| path.exists()).cloned().collect();
    let mut found = files::find(&there, Path::new("<stdin>"));
    let inputs = scope(&mut found, &mut scopes, reading.no_default_ignore);
    let here = scopes.scope_of(&files::absolute(Path::new(CONFIGURATIONS[0])), &Directories::default());
    let engines = scopes.engines()?;
    let (baselines, errors) = Baselines::load(&scopes, None);
    if !errors.is_empty() {
        return Err(CliError::Several(errors));
    }
    let mut batch = Batch::read(inputs, std::mem::take(&mut found.directories), &engines, false);
    let options = RenderOptions {
        requested: reading.render,
        limit: Duration::from_secs(reading.render_limit),
        excluded: &found.excluded,
        is_alone: false,
    };
    let renders = Renders::of(&batch, &scopes, &options);
    batch.covered = renders.covered(&batch);
    let mut judged = Judged { errors: std::mem::take(&mut found.errors), ..Judged::default() };
    judged.errors.extend(batch.reads.iter().filter_map(|read| read.error.clone()));
    judged.findings = findings(&batch, &renders, &baselines, reading.root);
    for (at, scope) in scopes.all().iter().enumerate() {
        let name = if at == here { String::new() } else { scope.name.clone() };
        judged.platforms.insert(name, scope.settings.platform.clone());
    }
    let by_path: HashMap<&str, usize> =
        batch.inputs.iter().map(|one| (one.input.display_path.as_str(), one.scope)).collect();
    for set in renders.filled_sets(&batch) {
        let scope = scope_of(&set.cluster, &by_path).unwrap_or(here);
        judged.objects += set.cluster.objects().len();
        let platform = scopes.get(scope).settings.platform.clone();
        judged.sets.push(JudgedSet { name: set.name, cluster: set.cluster, platform });
    }
    Ok(judged)
}

/// The configuration of the NodePools of a set, otherwise that of any object.
fn scope_of(cluster: &Cluster, by_path: &HashMap<&str, usize>) -> Option<usize> {
    let pools = cluster.of(gpulint_rules::Kind::NODE_POOL);
    let all = pools.chain(cluster.objects().iter());
    all.filter_map(|object| by_path.get(object.origin()?.source.path())).next().copied()
}

fn findings(batch: &Batch<'_>, renders: &Renders, baselines: &Baselines, root: &Path) -> Vec<Judgement> {
    let mut found: Vec<(Finding, bool, bool)> = Vec::new();
    for (at, report) in batch.check(None).into_iter().enumerate() {
        let Some(report) = report else { continue };
        let from = batch.engine(at).settings().fail_on;
        let one = &batch.inputs[at];
        let known = baselines.known(one.scope, &one.input.absolute, report.findings.iter());
        for (finding, known) in report.findings.into_iter().zip(known) {
            let fails = from.is_some_and(|from| finding.severity >= from);
            found.push((finding, fails, known.is_some()));
        }
    }
    for (scope, finding) in renders.check(batch).findings {
        let from = batch.engines[scope].settings().fail_on;
        let fails = from.is_some_and(|from| finding.severity >= from);
        found.push((finding, fails, false));
    }
    let names = fingerprints_of(found.iter().map(|(finding, ..)| finding), root);
    let judged = found.into_iter().zip(names).map(|((finding, fails, is_baselined), fingerprint)| {
        Judgement { finding, fingerprint, fails, is_baselined }
    });
    let mut judged: Vec<Judgement> = judged.collect();
    judged.sort_by_cached_key(|one| {
        let place = one.finding.location.resolve_span();
        let place = place.map(|(source, document, span)| (source.path().to_owned(), document, span.start));
        (place, one.finding.rule.id)
    });
    judged
}

/// Names for findings, which are the same in another state of a repository whose root is another folder.
pub(crate) fn fingerprints_of<'f>(findings: impl Iterator<Item = &'f Finding>, root: &Path) -> Vec<String> {
    let path = |finding: &Finding| {
        let shown = finding.location.path().unwrap_or_default();
        if shown.starts_with('<') {
            return shown.to_owned();
        }
        files::relative(root, &files::absolute(Path::new(shown)))
    };
    let findings: Vec<&Finding> = findings.collect();
    let paths: Vec<String> = findings.iter().map(|finding| path(finding)).collect();
    fingerprints_at(findings.iter().zip(&paths).map(|(finding, path)| (&**finding, path.as_str())))
}
