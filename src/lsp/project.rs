//! A folder of the editor: its files, configurations and sets, and the findings of `gpulint check .` in it.
//!
//! An update redoes only what a change affects: the text of one file, the sets that its objects define, the
//! effect of kustomizations and charts on other files, the list of files, or the configuration. Invariant:
//! the findings equal those of a run over the current files, in which open buffers replace files.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulint_rules::source::Source;
use gpulint_rules::workspace::FileChange;
use gpulint_rules::{
    CheckReport, Engine, Fact, File, Membership, Object, ObjectId, Partition, RulePanic, Workspace,
};
use rayon::prelude::*;
use serde_json::Value;

use crate::args::LspArgs;
use crate::baseline::Baselines;
use crate::batch::{ScopedInput, clusters, scope, take_definitions};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files;
use crate::files::{
    Directories, Disk, FileContext, Folders, Input, KUSTOMIZATIONS, ReadOutcome, SetFile, Sets,
};

use super::rendering::{Rendered, enter};
use super::view::{SetView, View};

const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) done: AtomicUsize,
    pub(crate) total: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
    /// The file that is checked alone; `None` for a whole folder.
    file: Option<PathBuf>,
    args: LspArgs,
    scopes: Scopes,
    engines: Vec<Arc<Engine>>,
    baselines: Baselines,
    /// The inputs in the order of the reported paths.
    inputs: Vec<ScopedInput>,
    states: Vec<FileState>,
    /// The index of each input by absolute path.
    by_path: HashMap<PathBuf, usize>,
    folders: Folders,
    sets: Sets,
    workspace: Workspace,
    /// What charts and kustomizations give, as far as it is known.
    rendered: Rendered,
    /// The files with such findings that have no manifests as they are written, such as templates, by absolute path.
    templates: HashMap<PathBuf, File>,
    errors: Vec<String>,
    /// Whether all configurations could be read, so that the findings are correct.
    is_sound: bool,
}

#[derive(Debug, Default)]
struct FileState {
    context: Option<FileContext>,
    /// Whether the objects of the file define sets.
    is_manifest: bool,
    /// The ids of the objects, as far as sets depend on them.
    objects: Vec<ObjectId>,
    /// What they say about each other, which decides where files belong that nothing else claims.
    references: Vec<Value>,
    /// What the file shows of the cluster beside its objects.
    facts: Vec<(Fact, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The text of a buffer, and whether the file was opened or closed instead of edited.
    Buffer(PathBuf, bool),
    /// A file or folder on disk, and whether it may have been created or removed.
    Disk(PathBuf, bool),
}

impl Change {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Change::Buffer(path, _) | Change::Disk(path, _) => path,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// It affects no file of the project.
    Nothing,
    Text,
    /// It changes the effect of surrounding folders on files.
    Folders,
    /// It changes the effect of surrounding folders on files, and the tools that fill in placeholders.
    Placeholders,
    Files,
    /// It may change all findings.
    Configuration,
}

impl Project {
    /// Reads and checks a folder, given its absolute path. Counts the files in `reading`.
    pub(crate) fn open(
        root: &Path,
        args: &LspArgs,
        disk: &Disk,
        reading: &Reading,
    ) -> Result<Project, CliError> {
        Project::open_input(root, None, args, disk, reading)
    }

    /// Reads and checks a file that is in no folder of the editor, given its absolute path.
    pub(crate) fn open_file(file: &Path, args: &LspArgs, disk: &Disk) -> Result<Project, CliError> {
        let root = file.parent().unwrap_or(Path::new("/"));
        Project::open_input(root, Some(file), args, disk, &Reading::default())
    }

    fn open_input(
        root: &Path,
        file: Option<&Path>,
        args: &LspArgs,
        disk: &Disk,
        reading: &Reading,
    ) -> Result<Project, CliError> {
        enter(root);
        let mut scopes = Scopes::for_server(args)?;
        let (inputs, directories) = find(file, &mut scopes, disk);
        take_definitions(&inputs, &mut scopes);
        let mut errors = Vec::new();
        if let Err(error) = scopes.finish() {
            errors.push(error.to_string());
        }
        let engines: Vec<Arc<Engine>> =
            scopes.all().iter().map(|scope| Arc::new(Engine::new(scope.settings.clone()))).collect();
        let (baselines, failed) = Baselines::load(&scopes, None);
        errors.extend(failed);
        let folders = Folders::discover(plain(&inputs), directories, disk);
        let mut project = Project {
            root: root.to_owned(),
            file: file.map(Path::to_owned),
            args: args.clone(),
            scopes,
            engines,
            baselines,
            inputs: Vec::new(),
            states: Vec::new(),
            by_path: HashMap::new(),
            folders,
            sets: Sets::default(),
            workspace: Workspace::new(),
            rendered: Rendered::default(),
            templates: HashMap::new(),
            is_sound: errors.is_empty(),
            errors,
        };
        reading.total.fetch_add(inputs.len(), Ordering::Relaxed);
        let scoped: Vec<(&Input, &str)> = inputs.iter().map(|one| (&one.input, one.path.as_str())).collect();
        let step = || _ = reading.done.fetch_add(1, Ordering::Relaxed);
        let reads = files::read_all(&scoped, &project.folders, step);
        project.states = inputs
            .par_iter()
            .zip(&reads)
            .map(|(one, read)| FileState::new(&project.folders, &one.input, read))
            .collect();
        project.index(inputs);
        let objects = |at: usize| reads[at].file.as_ref().map_or(&[][..], |file| &file.objects);
        project.sets = project.discover_sets(objects);
        let mut partition = Partition { files: Vec::new(), ..project.sets.partition.clone() };
        let mut opened = Vec::new();
        for (at, read) in reads.into_iter().enumerate() {
            if let Some(file) = read.file {
                partition.files.push(project.sets.partition.memberships(at).to_vec());
                opened.push((file, Arc::clone(&project.engines[project.inputs[at].scope])));
            }
        }
        project.workspace.open_in_sets(opened, &partition);
        Ok(project)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the project is a file that is checked alone.
    pub(crate) fn is_single(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the findings of a file are those of this project, unless the file belongs to an inner folder.
    pub(crate) fn owns(&self, path: &Path) -> bool {
        match &self.file {
            Some(file) => file == path,
            None => path.starts_with(&self.root),
        }
    }

    /// Whether a change of a file may change the findings.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.owns(path) || self.is_part_of_configuration(path)
    }

    /// Whether a file is one of the inputs.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.by_path.contains_key(path)
    }

    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Whether charts and kustomizations of the folder are checked as the programs print them.
    pub(crate) fn is_rendered(&self) -> bool {
        !self.is_single() && self.scopes.all().iter().any(|scope| scope.render.enabled)
    }

    /// Takes over what charts and kustomizations give. Returns the absolute paths of the files whose findings may have changed.
    pub(super) fn set_rendered(&mut self, rendered: Rendered) -> BTreeSet<PathBuf> {
        let before = std::mem::replace(&mut self.rendered, rendered);
        self.read_templates();
        before.files().chain(self.rendered.files()).cloned().collect()
    }

    fn read_templates(&mut self) {
        let is_template = |path: &&PathBuf| {
            self.input(path).is_some_and(|one| self.workspace.file(&one.input.display_path).is_none())
        };
        let read = |path: &PathBuf| {
            let text = self.disk().read_to_string(path).ok()?;
            let shown = &self.input(path)?.input.display_path;
            let source = Arc::new(Source::from_text(shown, &text));
            Some((path.clone(), File { source, documents: Vec::new(), objects: Vec::new() }))
        };
        self.templates = self.rendered.files().filter(is_template).filter_map(read).collect();
    }

    /// The rules that have panicked since the last call, one line each. A panic loses only the findings of
    /// that rule for that object.
    pub(crate) fn take_panics(&mut self) -> Vec<String> {
        let line = |panic: RulePanic| {
            let rule = panic.rule.unwrap_or("the report");
            let object = panic.object.map_or_else(String::new, |id| format!(", {} {}", id.kind, id.name));
            format!("{rule} for {}{object}: internal error: {}", panic.path, panic.message)
        };
        self.workspace.take_panics().into_iter().map(line).collect()
    }

    /// The absolute paths of the files that have or may have findings.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let inputs = self.inputs.iter().filter(|one| self.workspace.file(&one.input.display_path).is_some());
        inputs.map(|one| one.input.absolute.as_path())
    }

    /// Replaces the text of a file by that of a buffer, or removes the buffer. The caller calls
    /// [`Project::update`] afterwards.
    pub(crate) fn put_buffer(&mut self, path: &Path, text: Option<Arc<str>>) {
        self.folders.disk_mut().put(path, text);
    }

    /// The files, with the texts of buffers in their place.
    pub(crate) fn disk(&self) -> &Disk {
        self.folders.disk()
    }

    pub(crate) fn file(&self, path: &Path) -> Option<&File> {
        self.workspace.file(&self.input(path)?.input.display_path).or_else(|| self.templates.get(path))
    }

    /// The absolute path of a file, given its path in findings.
    pub(crate) fn path_of(&self, reported: &str) -> PathBuf {
        let named = self.root.join(reported);
        if self.by_path.contains_key(&named) {
            return named;
        }
        let input = self.inputs.iter().find(|one| one.input.display_path == reported);
        input.map_or(named, |one| one.input.absolute.clone())
    }

    /// The findings of a file that are reported: those that its baseline does not contain, from the minimum severity on.
    pub(crate) fn report(&self, path: &Path) -> Option<Cow<'_, CheckReport>> {
        let one = self.input(path)?;
        let report = match self.workspace.report(&one.input.display_path) {
            Some(report) => Cow::Borrowed(report),
            None => Cow::Owned(self.templates.get(path).map(|_| CheckReport::default())?),
        };
        let minimum = self.engines[one.scope].settings().min_severity;
        let is_rendered = self.rendered.has(path);
        let is_whole =
            self.baselines.list.is_empty() && report.findings.iter().all(|f| f.severity >= minimum);
        if !is_rendered && (is_whole || report.findings.is_empty()) {
            return Some(report);
        }
        let mut report = report.into_owned();
        self.baselines.filter(one.scope, &one.input.absolute, &mut report);
        if is_rendered {
            self.rendered.apply(path, &self.file(path)?.source, &mut report);
        }
        report.findings.retain(|finding| finding.severity >= minimum);
        Some(Cow::Owned(report))
    }

    /// The view of a file that a request uses.
    pub(crate) fn view<'a>(&'a self, path: &Path, report: &'a CheckReport) -> Option<View<'a>> {
        let one = self.input(path)?;
        let file = self.file(path)?;
        let sets = self.workspace.clusters_of(&one.input.display_path);
        let sets = sets.map(|(name, cluster)| SetView { name, cluster }).collect();
        Some(View { file, report, engine: &self.engines[one.scope], sets })
    }

    /// The absolute paths of all configuration files, including those with errors.
    pub(crate) fn configurations(&self) -> impl Iterator<Item = &Path> {
        self.scopes.found().iter().map(PathBuf::as_path)
    }

    /// Whether a file is a configuration, or one that a configuration reads: a configuration that it extends,
    /// a baseline, a definition of kinds.
    fn is_part_of_configuration(&self, path: &Path) -> bool {
        let is_part = |file: &PathBuf| file == path;
        files::is_configuration(path)
            || self.scopes.found().contains(path)
            || self
                .scopes
                .all()
                .iter()
                .any(|scope| scope.files.iter().any(is_part) || scope.baseline.as_ref().is_some_and(is_part))
            || self.scopes.all().iter().any(|scope| scope.crds.iter().any(|place| path.starts_with(place)))
    }

    /// Applies changes. Returns the absolute paths of the files whose findings may have changed.
    pub(crate) fn update(&mut self, changes: &[Change]) -> BTreeSet<PathBuf> {
        enter(&self.root);
        let reach = changes.iter().map(|change| self.reach(change)).max().unwrap_or(Reach::Nothing);
        let changed: HashSet<PathBuf> = changes.iter().map(|change| change.path().to_owned()).collect();
        if changed.iter().any(|path| self.templates.contains_key(path)) {
            self.read_templates();
        }
        match reach {
            Reach::Nothing => BTreeSet::new(),
            Reach::Text => self.read_again(&changed),
            Reach::Folders => self.rebuild(self.inputs.clone(), None, &changed),
            Reach::Placeholders => {
                // No file was created or removed, so that the directories are those that were read.
                let directories = std::mem::take(self.folders.directories_mut());
                self.rebuild(self.inputs.clone(), Some(directories), &changed)
            }
            Reach::Files => {
                let (inputs, directories) = find(self.file.as_deref(), &mut self.scopes, self.folders.disk());
                if self.scopes.all().len() != self.engines.len() {
                    return self.reload();
                }
                self.rebuild(inputs, Some(directories), &changed)
            }
            Reach::Configuration => self.reload(),
        }
    }

    /// Reads everything again.
    pub(crate) fn reload(&mut self) -> BTreeSet<PathBuf> {
        let mut paths: BTreeSet<PathBuf> =
            self.files().chain(self.configurations()).map(Path::to_owned).collect();
        paths.extend(self.rendered.files().cloned());
        let disk = std::mem::take(self.folders.disk_mut());
        match Project::open_input(&self.root, self.file.as_deref(), &self.args, &disk, &Reading::default()) {
            Ok(mut project) => {
                // If a configuration has an error, keep the findings of the last valid one instead of those
                // without a configuration.
                if project.is_sound || !self.is_sound {
                    // What was rendered holds until it is rendered again.
                    if project.is_rendered() {
                        project.rendered = std::mem::take(&mut self.rendered);
                        project.read_templates();
                    }
                    *self = project;
                } else {
                    self.errors = std::mem::take(&mut project.errors);
                    self.scopes.find_too(&project.scopes);
                    *self.folders.disk_mut() = disk;
                }
            }
            Err(error) => {
                self.errors = vec![error.to_string()];
                *self.folders.disk_mut() = disk;
            }
        }
        paths.extend(self.files().chain(self.configurations()).map(Path::to_owned));
        paths
    }

    fn input(&self, path: &Path) -> Option<&ScopedInput> {
        self.by_path.get(path).map(|at| &self.inputs[*at])
    }

    fn reach(&self, change: &Change) -> Reach {
        let (path, is_disk, may_exist_anew) = match change {
            Change::Buffer(path, _) => (path, false, false),
            Change::Disk(path, may_exist_anew) => (path, true, *may_exist_anew),
        };
        let name = path.file_name().unwrap_or_default();
        let at = self.by_path.get(path);
        if self.is_part_of_configuration(path) {
            // A configuration that is being edited counts only when it is saved.
            return if is_disk { Reach::Configuration } else { Reach::Nothing };
        }
        // A file that exists only in an editor comes and goes with its buffer.
        if matches!(change, Change::Buffer(_, true)) && !path.exists() {
            return Reach::Files;
        }
        if is_disk {
            let is_ignore_file = IGNORE_FILES.iter().any(|known| name == *known);
            // Many programs save a file by replacing it with a new one.
            let is_as_before = path.is_file() && at.is_some();
            if is_ignore_file || may_exist_anew && !is_as_before || !path.exists() {
                return Reach::Files;
            }
            if files::is_script(path) {
                return Reach::Placeholders;
            }
        }
        let known = at.and_then(|at| self.workspace.file(&self.inputs[*at].input.display_path));
        let disk = self.folders.disk();
        let fills_now = || match disk.buffer(path) {
            Some(text) => files::fills_placeholders(text),
            None => disk.read_to_string(path).is_ok_and(|text| files::fills_placeholders(&text)),
        };
        let filled_before = known.is_some_and(|file| files::fills_placeholders(file.source.text()));
        if filled_before || self.folders.hands_variables(path) || at.is_some() && fills_now() {
            return Reach::Placeholders;
        }
        let is_folder_file = name == "Chart.yaml" || KUSTOMIZATIONS.iter().any(|known| name == *known);
        if is_folder_file || self.folders.is_read(path) {
            return Reach::Folders;
        }
        if at.is_some() { Reach::Text } else { Reach::Nothing }
    }

    fn read_again(&mut self, changed: &HashSet<PathBuf>) -> BTreeSet<PathBuf> {
        let mut changes = Vec::new();
        let mut has_other_objects = false;
        let mut numbers: Vec<usize> =
            changed.iter().filter_map(|path| self.by_path.get(path).copied()).collect();
        numbers.sort_unstable();
        for at in numbers {
            let one = &self.inputs[at];
            let read = files::read(&one.input, &one.path, &self.folders);
            let state = FileState::new(&self.folders, &one.input, &read);
            has_other_objects |= !state.makes_same_sets(&self.states[at]);
            changes.push((at, read.file));
            self.states[at] = state;
        }
        self.apply(changes, has_other_objects, Vec::new())
    }

    /// Reads the files that are new, whose texts changed, or on which surrounding folders have another
    /// effect. The effects of folders are discovered anew in `directories`, or updated if there are none.
    fn rebuild(
        &mut self,
        inputs: Vec<ScopedInput>,
        directories: Option<Directories>,
        changed: &HashSet<PathBuf>,
    ) -> BTreeSet<PathBuf> {
        let keeps_folders = directories.is_none();
        let folders = std::mem::take(&mut self.folders);
        self.folders = match directories {
            None => folders.update(changed),
            Some(directories) => Folders::discover(plain(&inputs), directories, folders.disk()),
        };
        let mut before: HashMap<PathBuf, FileState> = HashMap::new();
        let mut gone: Vec<Input> = Vec::new();
        for (one, state) in std::mem::take(&mut self.inputs).into_iter().zip(std::mem::take(&mut self.states))
        {
            before.insert(one.input.absolute.clone(), state);
            gone.push(one.input);
        }
        let workspace = &self.workspace;
        let folders = &self.folders;
        let news: Vec<Option<(ReadOutcome, FileState)>> = inputs
            .par_iter()
            .map(|one| {
                let known = before.get(&one.input.absolute);
                let text = workspace.file(&one.input.display_path).map_or("", |file| file.source.text());
                let is_same = !changed.contains(&one.input.absolute)
                    && known.and_then(|known| known.context.as_ref()).is_some_and(|known| {
                        *known
                            == match keeps_folders {
                                true => known.updated(folders, &one.input, text),
                                false => FileContext::new(folders, &one.input, text),
                            }
                    });
                (!is_same).then(|| {
                    let read = files::read(&one.input, &one.path, folders);
                    let state = FileState::new(folders, &one.input, &read);
                    (read, state)
                })
            })
            .collect();
        let mut changes = Vec::new();
        self.states = Vec::with_capacity(inputs.len());
        for (at, (one, new)) in inputs.iter().zip(news).enumerate() {
            match new {
                Some((read, state)) => {
                    changes.push((at, read.file));
                    self.states.push(state);
                }
                None => self.states.push(before.remove(&one.input.absolute).unwrap_or_default()),
            }
        }
        self.index(inputs);
        gone.retain(|input| !self.by_path.contains_key(&input.absolute));
        self.apply(changes, true, gone)
    }

    /// Takes over files that were read again, removes those that are gone, and updates the sets.
    fn apply(
        &mut self,
        changes: Vec<(usize, Option<File>)>,
        has_other_sets: bool,
        gone: Vec<Input>,
    ) -> BTreeSet<PathBuf> {
        let mut paths: BTreeSet<PathBuf> = gone.iter().map(|input| input.absolute.clone()).collect();
        let mut told = Vec::new();
        let mut all: Vec<FileChange> = gone.into_iter().map(|input| (input.display_path, None)).collect();
        for (at, file) in changes {
            let one = &self.inputs[at];
            let engine = &self.engines[one.scope];
            paths.insert(one.input.absolute.clone());
            match file {
                _ if has_other_sets => {
                    let file = file.map(|file| (file, Arc::clone(engine)));
                    all.push((one.input.display_path.clone(), file));
                }
                Some(file) => told.extend(self.workspace.set(file, engine)),
                None => told.extend(self.workspace.remove(&one.input.display_path)),
            }
        }
        if has_other_sets {
            let new: HashMap<&str, Option<&File>> =
                all.iter().map(|(path, new)| (path.as_str(), new.as_ref().map(|(file, _)| file))).collect();
            let objects = |at: usize| {
                let path = self.inputs[at].input.display_path.as_str();
                let file = new.get(path).copied().unwrap_or_else(|| self.workspace.file(path));
                file.map_or(&[][..], |file| &file.objects)
            };
            self.sets = self.discover_sets(objects);
            let partition = &self.sets.partition;
            let inputs = self.inputs.iter().enumerate();
            let memberships: BTreeMap<String, Vec<Membership>> = inputs
                .map(|(at, one)| (one.input.display_path.clone(), partition.memberships(at).to_vec()))
                .collect();
            self.workspace.set_rest(partition);
            told.extend(self.workspace.update(all, &partition.sets, &memberships));
        }
        paths.extend(told.iter().map(|reported| self.path_of(reported)));
        paths
    }

    fn index(&mut self, inputs: Vec<ScopedInput>) {
        self.by_path = inputs.iter().enumerate().map(|(at, one)| (one.input.absolute.clone(), at)).collect();
        self.inputs = inputs;
    }

    fn discover_sets<'o>(&self, objects: impl Fn(usize) -> &'o [Object]) -> Sets {
        let files = self.inputs.iter().zip(&self.states).enumerate().map(|(at, (one, state))| SetFile {
            input: &one.input,
            objects: if state.is_manifest { objects(at) } else { &[] },
            facts: &state.facts,
            clusters: clusters(one, &self.engines[one.scope]),
        });
        files::discover_sets(&files.collect::<Vec<_>>(), &self.folders)
    }
}

impl FileState {
    fn new(folders: &Folders, input: &Input, read: &ReadOutcome) -> FileState {
        let text = read.file.as_ref().map_or("", |file| file.source.text());
        let objects = || read.file.iter().filter(|_| read.manifest).flat_map(|file| &file.objects);
        FileState {
            context: Some(FileContext::new(folders, input, text)),
            is_manifest: read.manifest,
            objects: objects().map(|object| object.id().clone()).collect(),
            references: objects().flat_map(files::references).collect(),
            facts: read.facts.clone(),
        }
    }

    /// Whether sets are equal with either state. What Flux and Argo CD apply is in the objects themselves.
    fn makes_same_sets(&self, other: &FileState) -> bool {
        let applies = |id: &ObjectId| id.group.ends_with("fluxcd.io") || id.group == "argoproj.io";
        self.is_manifest == other.is_manifest
            && self.objects == other.objects
            && self.references == other.references
            && self.facts == other.facts
            && !self.objects.iter().any(applies)
    }
}

/// The files of the current folder, or one of them, with those that exist only in an editor and the folders that were read to
/// find them.
fn find(file: Option<&Path>, scopes: &mut Scopes, disk: &Disk) -> (Vec<ScopedInput>, Directories) {
    let name = file.and_then(Path::file_name).unwrap_or(OsStr::new("."));
    let mut found = files::find_with_unsaved(&[PathBuf::from(name)], Path::new("<stdin>"), &disk.unsaved());
    (scope(&mut found, scopes, false), found.directories)
}

fn plain(inputs: &[ScopedInput]) -> Vec<Input> {
    inputs.iter().map(|one| one.input.clone()).collect()
}
