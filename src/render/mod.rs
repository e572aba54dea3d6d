//! `--render`: charts and kustomizations are checked as `helm template` and `kustomize build` print them.
//!
//! `helm` and `kustomize` run the programs and determine which text of the user each rendered line comes
//! from. This module checks the output and moves every finding to that text. Rendered objects form a set of
//! their own, and their files are not checked a second time as plain files.

mod defaults;
mod failure;
mod helm;
mod installs;
mod kustomize;
mod merge;
mod origin;
mod outputs;
mod process;
mod sources;
mod template;
mod value_fix;
mod values;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpulint_rules::lint::fix::text::Repair;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{
    Bond, Engine, FilledSet, Finding, Fix, Location, ManifestSet, Membership, Object, Partition, Related,
    Rendered, RunInput, Severity, SuppressedFinding, check_run, fill_sets,
};
use rayon::prelude::*;

use crate::args::RENDER_LIMIT;
use crate::batch::Batch;
use crate::config::Scopes;
use crate::files::{self, Folders, Input, KUSTOMIZATIONS, ReadOutcome, Release, Sets, Sign, Skipped};
use crate::terminal::count;

pub(crate) use outputs::Outputs;

use failure::{RenderFailure, failure_words};
use merge::{MergeKey, Ordinals};
use outputs::Key;
use process::Failure;
use sources::Sources;

#[derive(Debug)]
pub(crate) struct RenderOptions<'o> {
    /// Whether the command line requests it; otherwise the configuration of each chart and kustomization
    /// decides.
    pub(crate) requested: bool,
    pub(crate) limit: Duration,
    /// The absolute paths of files that the configuration excludes.
    pub(crate) excluded: &'o [PathBuf],
    /// Whether single files are checked without the output for other files.
    pub(crate) is_alone: bool,
    /// What an earlier run has rendered; `None` for a program that runs once.
    pub(crate) outputs: Option<&'o Outputs>,
}

impl<'o> RenderOptions<'o> {
    /// What the configuration asks for, with the usual limit of time.
    pub(crate) fn configured(excluded: &'o [PathBuf]) -> RenderOptions<'o> {
        let limit = Duration::from_secs(RENDER_LIMIT);
        RenderOptions { requested: false, limit, excluded, is_alone: false, outputs: None }
    }
}

/// The place in the text of the user that a place in rendered text comes from.
struct Place {
    source: Arc<Source>,
    span: Span,
    is_literal: bool,
}

struct Run {
    /// The command as a user would type it.
    command: Arc<str>,
    /// The set of the input that claims the run, if there is one.
    set: Option<usize>,
    /// The set of the input in which it meets what else is applied there; empty for the set of the files in no other one.
    /// `None` if it is not known, so that it is one of its own.
    home: Option<Vec<Membership>>,
    /// The set of the input that has the files of a kustomization, if it is the only one.
    known: Option<usize>,
    /// Whether it is a kustomization that makes that set alone.
    is_alone: bool,
    /// Whether it is a chart with its own values that nothing in the input installs.
    is_default: bool,
    /// The changes that its installation makes to the objects, as a membership of them in some set.
    changes: Membership,
    /// The name of the release that stands for one which is not known.
    placeholder: Option<String>,
    files: Vec<RenderedFile>,
    /// The reported paths of the files with its values.
    values: Vec<String>,
    origin: Box<dyn Locate + Send + Sync>,
}

impl Run {
    /// The membership of its objects in a set.
    fn membership(&self, set: usize) -> Membership {
        Membership { set, ..self.changes.clone() }
    }

    /// Whether a finding is about the length of a name that contains one which stands for another.
    fn is_of_placeholder(&self, finding: &Finding) -> bool {
        let is_about_length =
            finding.rule.id == "object-name-too-long" || finding.message.contains("characters at most");
        let name = finding.location.object().map(Object::name).unwrap_or_default();
        is_about_length && self.placeholder.as_ref().is_some_and(|placeholder| name.contains(placeholder))
    }
}

/// Whether a place is in a kustomization itself, not in a file that it lists.
fn is_kustomization(rendered: &Rendered) -> bool {
    let name = rendered.source.path().rsplit('/').next().unwrap_or_default();
    KUSTOMIZATIONS.contains(&name)
}

/// Finds the origin of rendered text.
trait Locate {
    /// The place in the text of the user; `None` if it is not known.
    fn locate(&self, file: usize, location: &Location) -> Option<Place>;

    /// The edits of the text of the user that apply a fix to the rendered object. `None` if it is not certain
    /// that they have exactly this effect.
    fn repair(&self, file: usize, location: &Location, fix: &Fix) -> Option<(Arc<Source>, Repair)>;

    /// The key of a value of a chart that a place depends on and that its own values leave empty.
    fn empty_value(&self, _file: usize, _place: &Rendered) -> Option<String> {
        None
    }
}

/// The output for one file of the user.
struct RenderedFile {
    read: ReadOutcome,
    /// The index of the configuration that applies to it.
    scope: usize,
}

impl RenderedFile {
    /// Parses the output for a file. `reported` is the path of the file in reports, `name` its path for its
    /// configuration. `folders` says what is filled in later. `None` if there is nothing to check.
    fn read(
        text: String,
        reported: String,
        name: &str,
        scope: usize,
        folders: &Folders,
    ) -> Option<RenderedFile> {
        let input = Input {
            display_path: reported,
            path: PathBuf::new(),
            absolute: PathBuf::from(files::OUTPUT),
            named: true,
            stream: None,
            unapplied: None,
        };
        let read = files::read_bytes(&input, name, folders, text.into_bytes());
        read.file.is_some().then_some(RenderedFile { read, scope })
    }
}

/// The input of both renderers.
struct Job<'a> {
    batch: &'a Batch<'a>,
    scopes: &'a Scopes,
    options: &'a RenderOptions<'a>,
    sources: &'a Arc<Sources>,
}

impl Job<'_> {
    /// The output of a program; `reads` gives what it reads, if it can be told.
    fn output(
        &self,
        reads: impl FnOnce() -> io::Result<Key>,
        run: impl FnOnce() -> Result<Vec<u8>, Failure>,
    ) -> Result<Vec<u8>, Failure> {
        match self.options.outputs {
            Some(outputs) => outputs.get(reads().ok(), run),
            None => run(),
        }
    }

    /// Whether the charts and kustomizations of a configuration are rendered.
    fn renders(&self, scope: usize) -> bool {
        self.options.requested || self.scopes.get(scope).render.enabled
    }
}

/// Whether a configuration, Flux or Argo CD say which files a set has.
fn is_stated(sets: &Sets, set: usize) -> bool {
    let sign = sets.evidence.get(set).map(|one| one.sign);
    matches!(sign, Some(Sign::Configuration | Sign::Flux | Sign::Argo | Sign::GitOps))
}

/// The releases of charts that objects of the input install, or that are rendered.
fn releases(job: &Job<'_>, built: &[&Rendering]) -> Vec<Release> {
    let covered: HashSet<PathBuf> = built.iter().flat_map(|one| &one.covered).cloned().collect();
    let files = built.iter().flat_map(|one| &one.runs).flat_map(|run| &run.files);
    let files = files.filter_map(|one| one.read.file.as_ref());
    let rendered = files.filter_map(|file| {
        let input = Input {
            display_path: file.source.path().to_owned(),
            path: PathBuf::new(),
            absolute: job.sources.absolute(file.source.path())?,
            named: false,
            stream: None,
            unapplied: None,
        };
        Some((input, file.objects.as_slice()))
    });
    job.batch.releases(&covered, &rendered.collect::<Vec<_>>())
}

/// What a chart lacks that the checkout does not have, so that it is not wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unmet {
    /// Values, which an installation gives it.
    Values,
    /// Charts that it depends on.
    Dependencies,
}

/// The output of a renderer for the input.
#[derive(Default)]
struct Rendering {
    runs: Vec<Run>,
    failures: Vec<RenderFailure>,
    /// The files that are checked as rendered.
    covered: HashSet<PathBuf>,
    /// Files and folders that a failed render uses as well, so that the effect of a fix on it is unknown.
    uncertain: HashSet<PathBuf>,
    skipped: Vec<Skipped>,
    /// Lines for the user that say what is left out.
    notes: Vec<String>,
    /// The commands that gave no objects, and failures that other values of another chart may not have.
    empty: Vec<String>,
    unclear: Vec<String>,
    /// The charts that lack something that the checkout does not have, each with the words of the program.
    unmet: Vec<(Unmet, String)>,
    /// The charts that are not rendered alone for a reason that is told, or because a kustomization has them.
    told: HashSet<PathBuf>,
}

impl Rendering {
    /// Records why something was not rendered. What takes long is not wrong.
    fn add_failure(&mut self, failure: RenderFailure) {
        match failure.is_slow {
            true => self.notes.push(format!("{}: {}", failure.message, failure.help)),
            false => self.failures.push(failure),
        }
    }

    /// Makes one failure of those with the cause in common that a program is not installed.
    fn join_failures(&mut self) {
        let more = self.failures.iter().filter(|failure| failure.is_missing).count().saturating_sub(1);
        let mut is_first = true;
        self.failures.retain_mut(|one| {
            let is_kept = !one.is_missing || std::mem::take(&mut is_first);
            if one.is_missing && is_kept && more > 0 {
                let verb = if more == 1 { "needs" } else { "need" };
                one.message.push_str(&format!("; {} {verb} it", count(more, "more render")));
            }
            is_kept
        });
    }
}

#[derive(Default)]
pub(crate) struct Renders {
    charts: Rendering,
    kustomizations: Rendering,
    /// Files whose findings are reported; the findings of others are left out.
    visible: HashSet<PathBuf>,
    /// Whether files are checked without the output for other files.
    is_alone: bool,
    sources: Arc<Sources>,
}

#[derive(Default)]
pub(crate) struct RenderReport {
    /// The findings, each with the index of its configuration.
    pub(crate) findings: Vec<(usize, Finding)>,
    pub(crate) suppressed: usize,
    /// The fingerprints of the findings that are in a baseline, by configuration.
    pub(crate) baselined: Vec<(usize, String)>,
    /// The suppressed findings, if they are kept.
    pub(crate) kept: Vec<SuppressedFinding>,
}

impl RenderReport {
    fn suppress(&mut self, engine: &Engine, finding: Finding, reason: String) {
        self.suppressed += 1;
        if engine.settings().keep_suppressed {
            self.kept.push(SuppressedFinding { finding, reason });
        }
    }
}

impl Renders {
    /// Renders the charts and kustomizations of a batch, and marks the inputs that are checked as rendered.
    pub(crate) fn of(batch: &mut Batch<'_>, scopes: &Scopes, options: &RenderOptions<'_>) -> Renders {
        let renders = Renders::rendered(batch, scopes, options);
        batch.covered = renders.covered(batch);
        renders
    }

    fn rendered(batch: &Batch<'_>, scopes: &Scopes, options: &RenderOptions<'_>) -> Renders {
        let is_asked = options.requested || scopes.all().iter().any(|scope| scope.render.enabled);
        if !is_asked {
            return Renders::default();
        }
        let sources = Arc::new(Sources::new(&batch.inputs));
        let job = Job { batch, scopes, options, sources: &sources };
        let mut kustomizations = kustomize::render(&job);
        let mut charts = helm::render(&job, &kustomizations);
        charts.join_failures();
        kustomizations.join_failures();
        let inputs = batch.inputs.iter().filter(|one| one.input.unapplied.is_none() && !one.is_context);
        let visible = inputs.map(|one| one.input.absolute.clone()).collect();
        Renders { charts, kustomizations, visible, is_alone: options.is_alone, sources }
    }

    /// The indices of the inputs that are checked as rendered.
    fn covered(&self, batch: &Batch<'_>) -> BTreeSet<usize> {
        let is_covered = |path: &PathBuf| self.parts().any(|part| part.covered.contains(path));
        let inputs = batch.inputs.iter().enumerate();
        inputs.filter(|(_, one)| is_covered(&one.input.absolute)).map(|(at, _)| at).collect()
    }

    fn parts(&self) -> impl Iterator<Item = &Rendering> {
        [&self.charts, &self.kustomizations].into_iter()
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.parts().flat_map(|part| &part.runs)
    }

    /// What was rendered: each command, with the files of its values.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.runs().map(|run| (&*run.command, run.values.as_slice()))
    }

    /// What did not render, each in the words of the program.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &String> {
        self.parts().flat_map(|part| part.failures.iter().map(|failure| &failure.message))
    }

    /// Whether anything was rendered.
    pub(crate) fn has_runs(&self) -> bool {
        self.runs().next().is_some()
    }

    pub(crate) fn by_file(&self, findings: &[(usize, Finding)]) -> BTreeMap<PathBuf, Vec<usize>> {
        let mut files: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
        for (at, (_, finding)) in findings.iter().enumerate() {
            if let Some(path) = finding.location.path().and_then(|path| self.sources.absolute(path)) {
                files.entry(path).or_default().push(at);
            }
        }
        files
    }

    /// Removes the findings that are in a baseline.
    fn without_baselined(&self, report: &mut RenderReport, batch: &Batch<'_>) {
        let mut known: Vec<Option<String>> = vec![None; report.findings.len()];
        for (file, numbers) in self.by_file(&report.findings) {
            let scope = report.findings[numbers[0]].0;
            let own = numbers.iter().map(|at| &report.findings[*at].1);
            for (at, name) in numbers.iter().zip(batch.baselines.known(scope, &file, own)) {
                known[*at] = name;
            }
        }
        let mut known = known.into_iter();
        report.findings.retain(|(scope, _)| match known.next().flatten() {
            Some(name) => {
                report.baselined.push((*scope, name));
                false
            }
            None => true,
        });
    }

    /// The path from which a text was read.
    pub(crate) fn path_of(&self, source: &Source) -> Option<PathBuf> {
        self.sources.absolute(source.path())
    }

    /// The entries that were left out of the renders.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.parts().flat_map(|part| &part.skipped)
    }

    /// Lines for the user that say what is left out.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &String> {
        self.parts().flat_map(|part| &part.notes)
    }

    /// Whether a file is of a chart that is not rendered alone, and the user is told why.
    pub(crate) fn tells_of(&self, path: &Path) -> bool {
        self.parts().any(|part| part.told.iter().any(|folder| path.starts_with(folder)))
    }

    pub(crate) fn objects(&self) -> usize {
        let files = self.runs().flat_map(|run| self.checked(run));
        files.filter_map(|file| file.read.file.as_ref()).map(|file| file.objects.len()).sum()
    }

    /// Everything that was rendered.
    pub(crate) fn rendered_objects(&self) -> impl Iterator<Item = &Object> {
        let files = self.runs().flat_map(|run| &run.files).filter_map(|one| one.read.file.as_ref());
        files.flat_map(|file| &file.objects)
    }

    /// Records where each rendered document is written, so that its objects are shown there.
    pub(crate) fn find_written_lines(&self) {
        for run in self.runs() {
            for (at, one) in run.files.iter().enumerate() {
                let Some(file) = &one.read.file else { continue };
                let mut lines = vec![1; file.documents.len()];
                for object in &file.objects {
                    let place = Location::of(object, &object.get("kind"));
                    let document = place.resolve_span().map_or(0, |(_, document, _)| document as usize);
                    let written = run.origin.locate(at, &place);
                    // What a value of another file decides is shown at the beginning of its template.
                    if let Some(found) = written.filter(|found| found.source.path() == file.source.path())
                        && let Some(line) = lines.get_mut(document)
                    {
                        let text = found.source.text();
                        *line = found.source.lines().position(text, found.span.start).line;
                    }
                }
                file.source.set_written_lines(lines);
            }
        }
    }

    /// The number of files that are checked as rendered.
    pub(crate) fn files(&self) -> usize {
        let files = self.runs().flat_map(|run| self.checked(run));
        let paths = files.filter(|file| file.read.manifest).filter_map(|file| file.read.file.as_ref());
        paths.map(|file| file.source.path()).collect::<BTreeSet<_>>().len()
    }

    /// The number of files that were rendered only as context, and the commands that rendered them.
    pub(crate) fn context(&self) -> (usize, Vec<String>) {
        let mut paths = BTreeSet::new();
        let mut commands = Vec::new();
        for run in self.runs() {
            let context = run.files.iter().filter(|file| !self.is_checked(run, file));
            let sources = context.filter_map(|file| Some(file.read.file.as_ref()?.source.path()));
            let before = paths.len();
            paths.extend(sources);
            if paths.len() > before {
                commands.push(run.command.to_string());
            }
        }
        (paths.len(), commands)
    }

    fn checked<'r>(&'r self, run: &'r Run) -> impl Iterator<Item = &'r RenderedFile> {
        run.files.iter().filter(|file| self.is_checked(run, file))
    }

    /// Whether the output for a file is checked: the file is part of the input, or no file of the run is,
    /// because the input has only values. The output of a packaged chart is checked if all other output is.
    fn is_checked(&self, run: &Run, file: &RenderedFile) -> bool {
        let is_input = |file: &RenderedFile| {
            let path = self.sources.absolute(file.read.file.as_ref()?.source.path())?;
            Some(self.is_input(&path))
        };
        match is_input(file) {
            Some(true) => true,
            Some(false) => !run.files.iter().any(|other| is_input(other) == Some(true)),
            None => !run.files.iter().any(|other| is_input(other) == Some(false)),
        }
    }

    /// All sets, with what is rendered of charts and kustomizations in the place of their files. Output whose cluster is known
    /// is in its set; every other output is a set of its own.
    pub(crate) fn filled_sets(&self, batch: &Batch<'_>) -> Vec<FilledSet> {
        let known = &batch.sets.partition;
        let mut partition = known.clone();
        let mut inputs = batch.run_inputs();
        for at in &batch.covered {
            inputs[*at] = None;
        }
        partition.files.resize(inputs.len(), Vec::new());
        for run in self.runs() {
            let set = run.set.unwrap_or(partition.sets.len());
            if run.set.is_none() && run.home.is_none() {
                partition.sets.push(self.own_set(run, batch));
            }
            let own = || vec![run.membership(set)];
            let home = run.home.clone().unwrap_or_else(own);
            for one in &run.files {
                let Some(file) = &one.read.file else { continue };
                inputs.push(Some(RunInput { engine: &batch.engines[one.scope], file }));
                partition.files.push(home.clone());
            }
        }
        fill_sets(&inputs, &partition)
    }

    /// The set of what a run gives. It may be a complete cluster if the input has nothing else.
    fn own_set(&self, run: &Run, batch: &Batch<'_>) -> ManifestSet {
        let has_objects =
            |read: &ReadOutcome| read.file.as_ref().is_some_and(|file| !file.objects.is_empty());
        let known = &batch.sets.partition;
        let home = run.home.as_ref().and_then(|home| Some(home.first()?.set));
        // What the files show beside the objects holds for what they give as well.
        let facts = match run.known.or(home).and_then(|set| known.sets.get(set)) {
            Some(set) => Arc::clone(&set.facts),
            None if known.is_whole() => Arc::clone(&known.facts),
            None => Arc::default(),
        };
        let mut others = batch.reads.iter().enumerate().filter(|(at, _)| !batch.covered.contains(at));
        ManifestSet {
            name: Arc::clone(&run.command),
            bond: Bond::Certain,
            may_be_complete: (run.is_alone || self.runs().count() == 1)
                && !others.any(|(_, read)| has_objects(read)),
            facts,
        }
    }

    pub(crate) fn check(&self, batch: &Batch<'_>) -> RenderReport {
        let engines = batch.engines;
        let mut report = RenderReport::default();
        for failure in self.parts().flat_map(|part| &part.failures) {
            let place = Location::Text {
                source: Arc::clone(&failure.source),
                document: 0,
                object: None,
                span: failure.span,
            };
            let engine = &engines[failure.scope];
            let message = failure.message.clone();
            let Some(mut finding) = engine.finding_of_caller("render-failed", place, message) else {
                continue;
            };
            finding.help(failure.help.clone());
            let line = failure.source.lines().line_of(failure.span.start);
            match engine.allowed_on_line(&failure.source, line, finding.rule) {
                Some(reason) => report.suppress(engine, finding, reason),
                None => report.findings.push((failure.scope, finding)),
            }
        }
        let alone = self.charts.runs.par_iter().map(|run| self.check_runs(std::slice::from_ref(run), batch));
        let mut checked: Vec<RenderReport> = alone.collect();
        checked.push(self.check_runs(&self.kustomizations.runs, batch));
        let mut by_place: HashMap<MergeKey, usize> = HashMap::new();
        let mut ordinals = Ordinals::default();
        let values: HashSet<&str> = self.runs().flat_map(|run| &run.values).map(String::as_str).collect();
        // The number of runs that contain each file of the user.
        let mut renders: BTreeMap<String, usize> = BTreeMap::new();
        for run in self.runs() {
            let files = run.files.iter().filter_map(|file| file.read.file.as_ref());
            for path in files.map(|file| file.source.path()).collect::<BTreeSet<_>>() {
                *renders.entry(path.to_owned()).or_default() += 1;
            }
        }
        for one in checked {
            report.suppressed += one.suppressed;
            report.kept.extend(one.kept);
            for (scope, mut finding) in one.findings {
                let Location::Rendered(rendered) = &mut finding.location else { continue };
                let from = rendered.place.path().unwrap_or_default();
                rendered.renders = renders.get(from).copied().unwrap_or(1);
                let is_value = values.contains(rendered.source.path());
                let key = MergeKey::of(rendered, finding.rule, &finding.message, is_value);
                let key = ordinals.number(key, rendered, &finding.message);
                match by_place.get(&key) {
                    Some(at) => {
                        let known = &mut report.findings[*at].1;
                        known.sets.join(&finding.sets);
                        if let Location::Rendered(known) = &mut known.location {
                            let commands = std::mem::take(&mut rendered.commands);
                            let new =
                                commands.into_iter().filter(|command| !known.commands.contains(command));
                            let new: Vec<Arc<str>> = new.collect();
                            known.commands.extend(new);
                            if known.repair != rendered.repair {
                                known.repair = None;
                            }
                        }
                    }
                    None => {
                        by_place.insert(key, report.findings.len());
                        report.findings.push((scope, finding));
                    }
                }
            }
        }
        // If a render does not have the finding, the effect of the fix on it is unknown.
        for (_, finding) in &mut report.findings {
            if let Location::Rendered(rendered) = &mut finding.location {
                let path = self.sources.absolute(rendered.source.path());
                // All that read a value must have the finding.
                let reads = |run: &&Run| run.values.iter().any(|file| file == rendered.source.path());
                let users = match self.runs().filter(reads).count() {
                    0 => rendered.renders,
                    users => users,
                };
                let is_uncertain = |path: &Path| self.parts().any(|part| part.uncertain.contains(path));
                let fails = |path: &PathBuf| path.ancestors().any(is_uncertain);
                if rendered.commands.len() < users || path.as_ref().is_some_and(fails) {
                    rendered.repair = None;
                }
                if rendered.repair.is_none() {
                    finding.fix = None;
                }
            }
        }
        // A comment that is rendered several times counts as used if one of the renders uses it.
        report.findings.retain(|(_, finding)| {
            let whole = finding.location.rendered().is_none_or(|r| r.commands.len() >= r.renders);
            finding.rule.id != "suppression-unused" || whole
        });
        self.without_baselined(&mut report, batch);
        report
    }

    /// Checks the output of some runs together. The output of a kustomization is checked with the other files
    /// of a set that claims it; every other run is a set of its own.
    fn check_runs(&self, runs: &[Run], batch: &Batch<'_>) -> RenderReport {
        let engines = batch.engines;
        let known = &batch.sets.partition;
        let mut sets = known.sets.clone();
        let mut inputs: Vec<Option<RunInput<'_>>> = Vec::new();
        let mut files: Vec<Vec<Membership>> = Vec::new();
        let mut from: Vec<(&Run, usize)> = Vec::new();
        // The sets of the input whose files are rendered alone, each with the set of what they give.
        let mut alone: BTreeMap<usize, usize> = BTreeMap::new();
        for run in runs {
            let set = run.set.unwrap_or(sets.len());
            if run.set.is_none() {
                sets.push(self.own_set(run, batch));
                alone.extend(run.known.filter(|_| run.is_alone).map(|known| (known, set)));
            }
            let rendered = run.files.iter().enumerate();
            for (at, one) in rendered.filter(|(_, one)| !self.is_alone || self.is_checked(run, one)) {
                let input = one.read.file.as_ref().map(|file| RunInput { engine: &engines[one.scope], file });
                inputs.push(input);
                files.push(vec![run.membership(set)]);
                from.push((run, at));
            }
        }
        let rendered: BTreeSet<usize> = (0..inputs.len()).collect();
        if !alone.is_empty() || runs.iter().any(|run| run.set.is_some()) {
            for (at, read) in batch.reads.iter().enumerate().filter(|(at, _)| !batch.covered.contains(at)) {
                let Some(file) = &read.file else { continue };
                inputs.push(Some(RunInput { engine: batch.engine(at), file }));
                // What names an object that is rendered meets it.
                let met = |of: &Membership| Some(Membership { set: *alone.get(&of.set)?, ..of.clone() });
                let mut memberships = known.memberships(at).to_vec();
                memberships.extend(known.memberships(at).iter().filter_map(met));
                files.push(memberships);
            }
        }
        let reports = check_run(
            &inputs,
            &Partition { sets, files, facts: Arc::clone(&known.facts), bond: known.bond },
            Some(&rendered),
        );
        let by_source: HashMap<*const Source, (&Run, usize)> = (from.iter())
            .filter_map(|(run, at)| {
                Some((Arc::as_ptr(&run.files[*at].read.file.as_ref()?.source), (*run, *at)))
            })
            .collect();
        let locate = |location: &Location| {
            let (source, ..) = location.resolve_span()?;
            let Some((run, file)) = by_source.get(&Arc::as_ptr(source)) else {
                // The place is not in rendered text.
                return Some(location.clone());
            };
            let place = run.origin.locate(*file, location)?;
            Some(Location::Rendered(Box::new(Rendered {
                place: location.clone(),
                source: place.source,
                span: place.span,
                is_literal: place.is_literal,
                commands: vec![Arc::clone(&run.command)],
                renders: 1,
                repair: None,
            })))
        };
        let mut out = RenderReport::default();
        for (at, report) in reports.into_iter().enumerate() {
            let (Some(report), Some((run, at))) = (report, from.get(at)) else { continue };
            let (at, scope) = (*at, run.files[*at].scope);
            out.suppressed += report.suppressed;
            for mut finding in report.findings.into_iter().filter(|one| !run.is_of_placeholder(one)) {
                let Some(location) = locate(&finding.location) else { continue };
                let Location::Rendered(rendered) = &location else { continue };
                // kustomize adds a namespace also to objects of kinds that are not namespaced.
                let is_given = finding.rule.id == "cluster-scoped-namespace" && is_kustomization(rendered);
                if is_given || !self.is_visible(rendered.source.path()) {
                    continue;
                }
                let line = rendered.source.lines().line_of(rendered.span.start);
                if let Some(reason) = engines[scope].allowed_on_line(&rendered.source, line, finding.rule) {
                    finding.location = location;
                    out.suppress(&engines[scope], finding, reason);
                    continue;
                }
                let Location::Rendered(mut rendered) = location else { continue };
                // Who installs the chart gives such a value.
                if let Some(key) = run.is_default.then(|| run.origin.empty_value(at, &rendered)).flatten() {
                    finding.severity(finding.severity.min(Severity::Info));
                    finding.message.push_str(&format!(" (the chart's own values leave `{key}` open)"));
                }
                let repair =
                    finding.fix.as_ref().and_then(|fix| run.origin.repair(at, &finding.location, fix));
                // A fix is offered only if it edits the file of the finding.
                rendered.repair = repair
                    .filter(|(source, _)| Arc::ptr_eq(source, &rendered.source))
                    .map(|(_, repair)| repair);
                if rendered.repair.is_none() {
                    finding.fix = None;
                }
                finding.location = Location::Rendered(rendered);
                finding.related = (finding.related.into_iter())
                    .filter_map(|one| {
                        Some(Related { location: locate(&one.location)?, message: one.message })
                    })
                    .collect();
                out.findings.push((scope, finding));
            }
        }
        out
    }

    /// Whether findings in a file are reported: the file is part of the input.
    fn is_visible(&self, shown: &str) -> bool {
        self.sources.absolute(shown).is_none_or(|path| self.is_input(&path))
    }

    fn is_input(&self, path: &Path) -> bool {
        self.visible.contains(path) || self.sources.is_part(path)
    }
}
