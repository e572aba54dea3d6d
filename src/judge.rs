//! The manifests of one state of a repository, judged as `gpulint check` judges them in the current folder: findings, and the
//! objects of each set. `gpulint plan` compares two of them, `gpulint check --since` the findings with those of one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpulint_rules::source::{self, Source};
use gpulint_rules::{CheckReport, Cluster, Finding, ObjectKey, Platform, fingerprints_at};

use crate::baseline::Baselines;
use crate::batch::{Batch, Selection};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, CONFIGURATIONS, Directories, Disk, ReadOutcome, SkipReason};
use crate::render::{RenderOptions, Renders};
use crate::states::States;

#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) paths: &'a [PathBuf],
    /// The folder to which the paths of findings are relative where two states are compared.
    pub(crate) root: &'a Path,
    pub(crate) no_default_ignore: bool,
    pub(crate) render: bool,
    pub(crate) render_limit: u64,
    /// The texts that replace files.
    pub(crate) disk: &'a Disk,
}

/// A finding, with what is compared of it.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) finding: Finding,
    /// The name of the finding, which is the same in another state of the repository.
    pub(crate) fingerprint: String,
    /// Its file, relative to the root of the state.
    pub(crate) file: String,
    /// Whether it is at least as severe as `fail-on` of its configuration.
    pub(crate) fails: bool,
    /// Whether the baseline of its configuration has it.
    pub(crate) is_baselined: bool,
}

/// The objects of a set, and the platform of the configuration that holds for its NodePools, with the versions that the set
/// shows.
#[derive(Debug)]
pub(crate) struct JudgedSet {
    /// The name; `None` if the input is a single set, and for files in no set.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) cluster: Cluster,
    pub(crate) platform: Platform,
}

/// A file whose part in the applied objects only a program knows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unrendered {
    /// The part of its text that counts.
    pub(crate) text: String,
    /// Whether it may give objects, and not only change those of other files.
    pub(crate) gives_objects: bool,
    /// Whether helm or kustomize reads it.
    pub(crate) is_renderable: bool,
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
    /// The numbers of the paths to look at that the state does not have.
    pub(crate) absent: BTreeSet<usize>,
    pub(crate) objects: usize,
    /// The files that were read, by the path that is reported: relative to the root of the state.
    pub(crate) files: HashMap<String, String>,
    /// The files of which a document does not parse, or that could not be read, with the line.
    pub(crate) unread: BTreeMap<String, u32>,
    pub(crate) inventory: Inventory,
    /// The files of charts that nothing renders, the kustomizations that change objects, the patches, and the files of Terraform
    /// and of templates, relative to the root of the state.
    pub(crate) unrendered: BTreeMap<String, Unrendered>,
}

/// The objects of the files of a state.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// By the file, relative to the root of the state.
    files: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl Inventory {
    pub(crate) fn of(batch: &Batch<'_>, root: &Path) -> Inventory {
        let mut files: BTreeMap<String, BTreeSet<ObjectKey>> = BTreeMap::new();
        for (one, read) in batch.inputs.iter().zip(&batch.reads) {
            let Some(file) = &read.file else { continue };
            let path = files::relative(root, &one.input.absolute);
            files.entry(path).or_default().extend(file.objects.iter().map(|object| object.id().key()));
        }
        Inventory { files }
    }

    /// Whether the state has a file that was read.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// The objects that only another file has in a later state, with that file.
    fn moved_to<'i>(&'i self, later: &'i Inventory) -> HashMap<(&'i str, &'i ObjectKey), &'i str> {
        let new_places = |now: &'i Inventory, before: &Inventory| {
            let mut places: BTreeMap<&'i ObjectKey, Vec<&'i str>> = BTreeMap::new();
            for (file, identity) in
                now.files.iter().flat_map(|(file, all)| all.iter().map(move |one| (file, one)))
            {
                if !before.files.get(file).is_some_and(|known| known.contains(identity)) {
                    places.entry(identity).or_default().push(file);
                }
            }
            places
        };
        let (left, come) = (new_places(self, later), new_places(later, self));
        let mut moved = HashMap::new();
        for (identity, left) in left {
            if let ([from], Some([to])) = (left.as_slice(), come.get(identity).map(Vec::as_slice)) {
                moved.insert((*from, identity), *to);
            }
        }
        moved
    }
}

impl Judged {
    /// Names the findings of objects that a later state has in another file as they are named there: a file that moves brings
    /// nothing new.
    pub(crate) fn follow(&mut self, later: &Inventory) {
        let moved = self.inventory.moved_to(later);
        if moved.is_empty() {
            return;
        }
        // Text outside of objects goes with the file, if all of it goes to one.
        let mut whole: HashMap<&str, Option<&str>> = HashMap::new();
        moved.iter().for_each(|((from, _), to)| {
            let known = whole.entry(from).or_insert(Some(to));
            *known = known.filter(|known| known == to && !later.files.contains_key(*from));
        });
        let place = |one: &Judgement| {
            let file = one.file.as_str();
            let to = match one.finding.location.object() {
                Some(object) => moved.get(&(file, &object.id().key())).copied(),
                None => whole.get(file).copied().flatten(),
            };
            to.unwrap_or(file).to_owned()
        };
        let places: Vec<String> = self.findings.iter().map(place).collect();
        let names = fingerprints_at(
            self.findings.iter().map(|one| &one.finding).zip(places.iter().map(String::as_str)),
        );
        for (one, name) in self.findings.iter_mut().zip(names) {
            one.fingerprint = name;
        }
    }
}

/// Judges what is below some paths, as the next one of some states; without them no rule runs, and only the sets are read, of
/// files as they are written. Paths that do not exist are left out: the other state may have them.
pub(crate) fn judge(
    scopes: Scopes,
    reading: &Reading<'_>,
    states: Option<&mut States>,
) -> Result<Judged, CliError> {
    let absent: BTreeSet<usize> =
        (0..reading.paths.len()).filter(|at| !files::exists(&reading.paths[*at])).collect();
    let there = reading.paths.iter().enumerate().filter(|(at, _)| !absent.contains(at));
    let there: Vec<PathBuf> = there.map(|(_, path)| path.clone()).collect();
    let found = files::find_with_unsaved(&there, Path::new("<stdin>"), &reading.disk.unsaved());
    let mut selection = Selection::of(scopes, found, reading.no_default_ignore);
    let configuration = files::absolute(Path::new(CONFIGURATIONS[0]));
    let here = selection.scopes.scope_of(&configuration, &Directories::default());
    let mut engines = selection.engines()?;
    let mut disk = reading.disk.clone();
    if let Some(states) = &states {
        states.take_known(&mut engines);
        disk = states.disk(&disk);
    }
    let Selection { scopes, mut found, inputs } = selection;
    let (baselines, errors) = Baselines::load(&scopes, None);
    if !errors.is_empty() {
        return Err(CliError::Several(errors));
    }
    let mut batch = Batch::read(inputs, &mut found, &disk, &engines, false);
    let options = RenderOptions {
        requested: reading.render,
        limit: Duration::from_secs(reading.render_limit),
        ..RenderOptions::configured(&found.excluded)
    };
    let renders =
        if states.is_some() { Renders::of(&mut batch, &scopes, &options) } else { Renders::default() };
    renders.find_written_lines();
    let mut judged = Judged { errors: std::mem::take(&mut found.errors), absent, ..Judged::default() };
    judged.errors.extend(renders.failures().cloned());
    judged.errors.extend(batch.reads.iter().filter_map(|read| read.error.clone()));
    if let Some(states) = states {
        let reports = states.check(&batch);
        judged.findings = findings(&batch, reports, &renders, &baselines, reading.root);
        judged.unrendered = unrendered(&batch, &found.unread, reading.root);
    }
    judged.inventory = Inventory::of(&batch, reading.root);
    for (at, (one, read)) in batch.inputs.iter().zip(&batch.reads).enumerate() {
        let path = files::relative(reading.root, &one.input.absolute);
        // What is checked as rendered has been read.
        if let Some(line) = unread_line(read).filter(|_| !batch.covered.contains(&at)) {
            judged.unread.insert(path.clone(), line);
        }
        judged.files.insert(one.input.display_path.clone(), path);
    }
    for (at, scope) in scopes.all().iter().enumerate() {
        let name = if at == here { String::new() } else { scope.name.clone() };
        judged.platforms.insert(name, scope.settings.platform.clone());
    }
    let by_path: HashMap<&str, usize> =
        batch.inputs.iter().map(|one| (one.input.display_path.as_str(), one.scope)).collect();
    for set in renders.filled_sets(&batch) {
        let scope = scope_of(&set.cluster, &by_path).unwrap_or(here);
        judged.objects += set.cluster.objects().len();
        let platform = set.cluster.platform(&scopes.get(scope).settings.platform).into_owned();
        judged.sets.push(JudgedSet { name: set.name, cluster: set.cluster, platform });
    }
    Ok(judged)
}

/// The files whose part in the applied objects only a program knows, by their paths.
fn unrendered(
    batch: &Batch<'_>,
    unread: &[(SkipReason, PathBuf)],
    root: &Path,
) -> BTreeMap<String, Unrendered> {
    let is_of = |read: &ReadOutcome, reasons: &[SkipReason]| {
        read.skipped.iter().any(|one| reasons.contains(&one.reason))
    };
    let read = |path: &Path| Some(String::from_utf8_lossy(&files::read_file(path).ok()?).into_owned());
    let all = batch.inputs.iter().zip(&batch.reads).enumerate();
    let files = all.filter(|(at, _)| !batch.covered.contains(at)).filter_map(|(_, (one, outcome))| {
        let path = &one.input.absolute;
        let changes = [SkipReason::Kustomization, SkipReason::KustomizePatch];
        let whole = [SkipReason::HelmTemplate, SkipReason::HelmValues, SkipReason::KustomizePatch];
        let says = match () {
            () if is_of(outcome, &[SkipReason::Kustomization]) => {
                changes_of(&one.input.display_path, read(path)?.into_bytes())?
            }
            () if is_of(outcome, &whole) => read(path)?,
            () if is_of(outcome, &[SkipReason::Foreign])
                && outcome.file.as_ref().is_none_or(|file| file.objects.is_empty())
                && batch.folders.may_be_values(path) =>
            {
                read(path)?
            }
            () => return None,
        };
        Some((
            files::relative(root, path),
            Unrendered { text: says, gives_objects: !is_of(outcome, &changes), is_renderable: true },
        ))
    });
    let chart_of = |path: &Path| batch.folders.root_chart_of_template(path);
    let covered = batch.covered.iter().filter_map(|at| chart_of(&batch.inputs[*at].input.absolute));
    let rendered: BTreeSet<PathBuf> = covered.collect();
    let templates = batch.folders.named_as_templates().into_iter().filter_map(|path| {
        let chart = chart_of(&path);
        if chart.as_ref().is_some_and(|chart| rendered.contains(chart)) {
            return None;
        }
        let (text, is_renderable) = (read(&path)?, chart.is_some());
        let is_of_manifests = is_renderable || text.contains("apiVersion:");
        let one = Unrendered { text, gives_objects: true, is_renderable };
        is_of_manifests.then(|| (files::relative(root, &path), one))
    });
    let written = unread.iter().filter(|(reason, _)| *reason != SkipReason::Archive);
    let written = written.filter_map(|(_, path)| {
        let one = Unrendered { text: read(path)?, gives_objects: true, is_renderable: false };
        Some((files::relative(root, path), one))
    });
    files.chain(templates).chain(written).collect()
}

/// What a kustomization does to objects besides what is known of it as it is written; `None` if it does nothing else.
fn changes_of(path: &str, content: Vec<u8>) -> Option<String> {
    const FIELDS: [&str; 10] = [
        "patches",
        "patchesStrategicMerge",
        "patchesJson6902",
        "replacements",
        "replicas",
        "components",
        "transformers",
        "generators",
        "helmCharts",
        "helmChartInflationGenerator",
    ];
    let source = Source::new(path, content);
    let mut changes = String::new();
    for document in source::read(&source) {
        let Some(root) = document.root() else { continue };
        for field in FIELDS.into_iter().filter(|field| root.get(field).is_set()) {
            changes.push_str(&format!("{field}: {}\n", root.get(field).to_json()));
        }
    }
    (!changes.is_empty()).then_some(changes)
}

/// The configuration of the NodePools of a set, otherwise that of any object.
fn scope_of(cluster: &Cluster, by_path: &HashMap<&str, usize>) -> Option<usize> {
    let pools = cluster.of(gpulint_rules::Kind::NODE_POOL);
    let all = pools.chain(cluster.objects().iter());
    all.filter_map(|object| by_path.get(object.origin()?.source.path())).next().copied()
}

fn findings(
    batch: &Batch<'_>,
    reports: Vec<Option<CheckReport>>,
    renders: &Renders,
    baselines: &Baselines,
    root: &Path,
) -> Vec<Judgement> {
    let mut found: Vec<(Finding, bool, bool)> = Vec::new();
    for (at, report) in reports.into_iter().enumerate() {
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
    let paths = paths_of(found.iter().map(|(finding, ..)| finding), root);
    let names = fingerprints_at(found.iter().map(|(one, ..)| one).zip(paths.iter().map(String::as_str)));
    let judged = found.into_iter().zip(names).zip(paths);
    let judged = judged.map(|(((finding, fails, is_baselined), fingerprint), file)| Judgement {
        finding,
        fingerprint,
        file,
        fails,
        is_baselined,
    });
    let mut judged: Vec<Judgement> = judged.collect();
    judged.sort_by_cached_key(|one| {
        let place = one.finding.location.resolve_span();
        let place = place.map(|(source, document, span)| (source.path().to_owned(), document, span.start));
        (place, one.finding.rule.id)
    });
    judged
}

/// The line of the first document of a file that does not parse, or is a template; `None` if all of it was read.
fn unread_line(read: &ReadOutcome) -> Option<u32> {
    if read.error.is_some() {
        return Some(1);
    }
    let templates = [
        SkipReason::HelmTemplate,
        SkipReason::JinjaTemplate,
        SkipReason::Template,
        SkipReason::TerraformTemplate,
        SkipReason::YttTemplate,
    ];
    if read.file.is_none() && read.skipped.iter().any(|one| templates.contains(&one.reason)) {
        return Some(1);
    }
    let file = read.file.as_ref()?;
    let broken = file.documents.iter().find(|document| document.tree.is_none())?;
    let at = broken.diagnostics.first().map_or(broken.span, |problem| problem.span);
    Some(file.source.lines().position(file.source.text(), at.start).line)
}

/// Names for findings, which are the same in another state of a repository whose root is another folder.
pub(crate) fn fingerprints_of<'f>(findings: impl Iterator<Item = &'f Finding>, root: &Path) -> Vec<String> {
    let findings: Vec<&Finding> = findings.collect();
    let paths = paths_of(findings.iter().copied(), root);
    fingerprints_at(findings.into_iter().zip(paths.iter().map(String::as_str)))
}

/// The files of findings, relative to the root of a repository.
fn paths_of<'f>(findings: impl Iterator<Item = &'f Finding>, root: &Path) -> Vec<String> {
    let path = |finding: &Finding| {
        let shown = finding.location.path().unwrap_or_default();
        if shown.starts_with('<') {
            return shown.to_owned();
        }
        files::relative(root, &files::absolute(Path::new(shown)))
    };
    findings.map(path).collect()
}
