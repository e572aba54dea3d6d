//! The files of a run: reads them, and checks all or some of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Engine, Object, RunInput, check_run};

use crate::baseline::Baselines;
use crate::config::Scopes;
use crate::error::CliError;
use crate::files;
use crate::files::{
    Disk, FluxBuild, Folders, FoundFiles, Input, ReadOutcome, Release, SetFile, Sets, SkipReason, Skipped,
};
use crate::progress::Progress;

/// Rules about the text itself: the only ones that report on a file that is checked as rendered.
pub(crate) const READER_RULES: [&str; 4] =
    ["yaml-syntax", "yaml-duplicate-key", "yaml-limit-exceeded", "yaml-text-after-end"];

/// An input, the index of its configuration, and its path relative to the folder of that configuration.
#[derive(Clone, Debug)]
pub(crate) struct ScopedInput {
    pub(crate) input: Input,
    pub(crate) scope: usize,
    pub(crate) path: String,
    /// Whether the file is only read for its effect on other files.
    pub(crate) is_context: bool,
}

/// Assigns a configuration to each input, and excludes the paths that it ignores.
pub(crate) fn scope(
    found: &mut FoundFiles,
    scopes: &mut Scopes,
    no_default_ignore: bool,
) -> Vec<ScopedInput> {
    let mut scoped = Vec::with_capacity(found.inputs.len());
    for mut input in std::mem::take(&mut found.inputs) {
        let scope = scopes.scope_of(&input.absolute, &found.directories);
        let path = scopes.get(scope).path(&input.absolute, &input.display_path);
        let ignored = scopes.get(scope).ignores(&path);
        if ignored == Some(false) || no_default_ignore {
            input.unapplied = None;
        }
        if ignored != Some(true) {
            scoped.push(ScopedInput { input, scope, path, is_context: false });
            continue;
        }
        found.excluded.push(input.absolute.clone());
        *found.ignored.entry(scopes.get(scope).name.clone()).or_default() += 1;
        if input.named {
            found.skipped.push(Skipped {
                file: input.display_path,
                document: None,
                reason: SkipReason::Ignored,
                partial: false,
            });
        }
    }
    scoped
}

/// The definitions among the files of the input hold for the configurations that name none.
pub(crate) fn take_definitions(inputs: &[ScopedInput], scopes: &mut Scopes) {
    let applied = inputs.iter().filter(|one| one.input.unapplied.is_none() && one.input.stream.is_none());
    scopes.take_definitions(applied.map(|one| one.input.absolute.as_path()));
}

/// What a run reads: the first of its stages, which `Batch::read` and `Renders::of` follow.
pub(crate) struct Selection {
    pub(crate) scopes: Scopes,
    pub(crate) found: FoundFiles,
    pub(crate) inputs: Vec<ScopedInput>,
}

impl Selection {
    /// Finds the configuration of each file.
    pub(crate) fn of(mut scopes: Scopes, mut found: FoundFiles, no_default_ignore: bool) -> Selection {
        let inputs = scope(&mut found, &mut scopes, no_default_ignore);
        Selection { scopes, found, inputs }
    }

    /// The rules under each configuration and the definitions among the files, or the errors in configurations.
    pub(crate) fn engines(&mut self) -> Result<Vec<Arc<Engine>>, CliError> {
        take_definitions(&self.inputs, &mut self.scopes);
        let scopes = self.scopes.finish()?.iter();
        Ok(scopes.map(|scope| Arc::new(Engine::new(scope.settings.clone()))).collect())
    }
}

/// The files that were read, and the rules that they are checked with.
pub(crate) struct Batch<'e> {
    pub(crate) inputs: Vec<ScopedInput>,
    /// The result of reading each input.
    pub(crate) reads: Vec<ReadOutcome>,
    /// The sets of files that are applied together.
    pub(crate) sets: Sets,
    /// The indices of the inputs that are checked as rendered, not as they are written.
    pub(crate) covered: BTreeSet<usize>,
    pub(crate) engines: &'e [Arc<Engine>],
    /// The findings that are not reported.
    pub(crate) baselines: Baselines,
    /// The charts and kustomizations around the inputs.
    pub(crate) folders: Folders,
}

impl<'e> Batch<'e> {
    /// Reads all inputs, which were found as `found` says.
    pub(crate) fn read(
        inputs: Vec<ScopedInput>,
        found: &mut FoundFiles,
        disk: &Disk,
        engines: &'e [Arc<Engine>],
        progress: bool,
    ) -> Batch<'e> {
        let directories = std::mem::take(&mut found.directories);
        let plain: Vec<Input> = inputs.iter().map(|one| one.input.clone()).collect();
        let folders = Folders::discover(plain, directories, disk);
        let progress = Progress::counting("reading", inputs.len(), progress);
        let scoped: Vec<(&Input, &str)> = inputs.iter().map(|one| (&one.input, one.path.as_str())).collect();
        let reads = files::read_all(&scoped, &folders, || progress.step());
        let sets = discover_sets(&inputs, &reads, engines, &folders);
        Batch {
            inputs,
            reads,
            sets,
            covered: BTreeSet::new(),
            engines,
            baselines: Baselines::default(),
            folders,
        }
    }

    /// The Kustomizations of Flux that apply folders of the input; their files are numbered as the inputs are.
    pub(crate) fn flux_builds(&self) -> Vec<FluxBuild> {
        files::discover_builds(&set_files(&self.inputs, &self.reads, self.engines), &self.folders)
    }

    /// The releases of charts that objects of Argo CD and Flux install. `rendered` has files in the place of those that are
    /// `covered`; their numbers follow those of the inputs.
    pub(crate) fn releases(
        &self,
        covered: &HashSet<PathBuf>,
        rendered: &[(Input, &[Object])],
    ) -> Vec<Release> {
        let mut list = set_files(&self.inputs, &self.reads, self.engines);
        for one in list.iter_mut().filter(|one| covered.contains(&one.input.absolute)) {
            one.objects = &[];
        }
        let rendered = rendered.iter();
        list.extend(rendered.map(|(input, objects)| SetFile {
            input,
            objects,
            facts: &[],
            clusters: Vec::new(),
        }));
        files::discover_releases(&list, &self.folders)
    }

    /// Leaves out context files that belong to no set of the checked files. Returns the names of the sets
    /// that are kept.
    pub(crate) fn retain_claimed_context(&mut self) -> Vec<String> {
        self.add_charts();
        let own = (0..self.inputs.len()).filter(|at| !self.inputs[*at].is_context);
        let sets: BTreeSet<usize> = own.flat_map(|at| self.sets.claims(at)).collect();
        let partition = &mut self.sets.partition;
        let is_kept = |at: usize, one: &ScopedInput| {
            !one.is_context || partition.memberships(at).iter().any(|member| sets.contains(&member.set))
        };
        let kept: Vec<bool> = self.inputs.iter().enumerate().map(|(at, one)| is_kept(at, one)).collect();
        let has_context = self.inputs.iter().zip(&kept).any(|(one, kept)| one.is_context && *kept);
        retain(&mut self.inputs, &kept);
        retain(&mut self.reads, &kept);
        retain(&mut partition.files, &kept);
        if !has_context {
            self.sets = discover_sets(&self.inputs, &self.reads, self.engines, &self.folders);
            return Vec::new();
        }
        sets.into_iter().map(|set| self.sets.partition.sets[set].name.to_string()).collect()
    }

    /// Adds a set of the files that each chart installs as they are written, if one of them is checked.
    fn add_charts(&mut self) {
        let mut charts: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
        for (at, one) in self.inputs.iter().enumerate() {
            if let Some(chart) = self.folders.root_chart_of_crd(&one.input.absolute) {
                charts.entry(chart).or_default().push(at);
            }
        }
        for (chart, files) in charts {
            if files.iter().any(|at| !self.inputs[*at].is_context) {
                let name = files::short_path(&chart);
                self.sets.add_chart(&name, chart, &files);
            }
        }
    }

    /// The reasons why files of the context could not be read.
    pub(crate) fn context_errors(&self) -> Vec<String> {
        let context = self.inputs.iter().zip(&self.reads).filter(|(one, _)| one.is_context);
        context.filter_map(|(_, read)| read.error.clone()).collect()
    }

    /// The rules of an input.
    pub(crate) fn engine(&self, at: usize) -> &'e Arc<Engine> {
        &self.engines[self.inputs[at].scope]
    }

    /// The text of an input that is checked.
    pub(crate) fn source(&self, at: usize) -> Option<&Arc<Source>> {
        self.reads[at].file.as_ref().map(|file| &file.source)
    }

    /// The path of the chart that has to be rendered for an input that was skipped as a template.
    pub(crate) fn chart_to_render(&self, at: usize) -> Option<String> {
        let skipped = &self.reads[at].skipped;
        let template = skipped.iter().any(|skipped| skipped.reason == SkipReason::HelmTemplate);
        if template { self.folders.chart_to_render(&self.inputs[at].input) } else { None }
    }

    /// The current content of the input that is a stream, if there is one.
    pub(crate) fn stream(&self) -> Option<&[u8]> {
        self.reads.iter().find_map(|read| read.stream.as_deref())
    }

    /// Replaces the text of an input and returns the previous result of reading it.
    pub(crate) fn rewrite(&mut self, at: usize, text: String) -> ReadOutcome {
        let one = &self.inputs[at];
        let stream = one.input.stream.map(|_| text.clone().into_bytes());
        let read = files::read_bytes(&one.input, &one.path, &self.folders, text.into_bytes());
        let read = ReadOutcome { stream, ..read };
        std::mem::replace(&mut self.reads[at], read)
    }

    /// Replaces the text of a file, if the file is one of the inputs and was read.
    pub(crate) fn read_again(&mut self, path: &Path, text: &str) {
        let at = self.inputs.iter().position(|one| one.input.absolute == path);
        if let Some(at) = at.filter(|at| self.reads[*at].file.is_some()) {
            self.rewrite(at, text.to_owned());
        }
    }

    /// The files of the inputs, each with its rules; `None` for inputs without a file.
    pub(crate) fn run_inputs(&self) -> Vec<Option<RunInput<'_>>> {
        let reads = self.reads.iter().enumerate();
        reads
            .map(|(at, read)| Some(RunInput { engine: self.engine(at), file: read.file.as_ref()? }))
            .collect()
    }

    /// Checks the inputs, or only some of them; one report for each input.
    pub(crate) fn check(&self, only: Option<&BTreeSet<usize>>) -> Vec<Option<CheckReport>> {
        let inputs = self.run_inputs();
        let has_context = self.inputs.iter().any(|one| one.is_context);
        let checked = (0..self.inputs.len()).filter(|at| !self.inputs[*at].is_context);
        let checked = checked.filter(|at| only.is_none_or(|only| only.contains(at)));
        let own: Option<BTreeSet<usize>> = has_context.then(|| checked.collect());
        let mut reports = check_run(&inputs, &self.sets.partition, own.as_ref().or(only));
        self.leave_out(&mut reports);
        reports
    }

    /// Removes findings that are not reported: those of files that are checked as rendered, and those in baselines.
    pub(crate) fn leave_out(&self, reports: &mut [Option<CheckReport>]) {
        for at in &self.covered {
            if let Some(Some(report)) = reports.get_mut(*at) {
                report.findings.retain(|finding| READER_RULES.contains(&finding.rule.id));
                report.suppressed = 0;
                report.kept.clear();
            }
        }
        for (one, report) in self.inputs.iter().zip(reports) {
            if let Some(report) = report {
                self.baselines.filter(one.scope, &one.input.absolute, report);
            }
        }
    }
}

fn set_files<'a>(
    inputs: &'a [ScopedInput],
    reads: &'a [ReadOutcome],
    engines: &[Arc<Engine>],
) -> Vec<SetFile<'a>> {
    let files = inputs.iter().zip(reads).map(|(one, read)| SetFile {
        input: &one.input,
        objects: read.file.as_ref().filter(|_| read.manifest).map_or(&[], |file| &file.objects),
        facts: &read.facts,
        clusters: clusters(one, &engines[one.scope]),
    });
    files.collect()
}

fn discover_sets(
    inputs: &[ScopedInput],
    reads: &[ReadOutcome],
    engines: &[Arc<Engine>],
    folders: &Folders,
) -> Sets {
    files::discover_sets(&set_files(inputs, reads, engines), folders)
}

/// Keeps the entries that are marked.
fn retain<T>(list: &mut Vec<T>, kept: &[bool]) {
    let mut marks = kept.iter();
    list.retain(|_| marks.next().copied().unwrap_or_default());
}

/// The clusters that the configuration of an input assigns it to.
pub(crate) fn clusters(one: &ScopedInput, engine: &Engine) -> Vec<(usize, String)> {
    let clusters = engine.settings().clusters.iter();
    clusters.filter_map(|cluster| Some((one.scope, cluster.cluster_of(&one.path)?.to_owned()))).collect()
}
