//! Kustomizations, built with `kustomize build` or `kubectl kustomize`.
//!
//! The kustomization is built through another one in a temporary folder, which requests the origin of each
//! object. Entries that are not in the file system are removed from a copy, in which all other files are
//! links.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::lint::fix::text::Repair;
use gpulint_rules::source;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Fix, Location, Membership};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::batch::Batch;
use crate::files;
use crate::files::{
    Directories, Disk, Evidence, FluxBuild, FluxChanges, Kustomization, Sign, SkipReason, Skipped,
};
use crate::terminal::count;

use super::installs::list;
use super::origin;
use super::origin::{BuiltBy, Origin, Written};
use super::outputs::{Key, Reads};
use super::process;
use super::process::{Failure, TempFolder};
use super::sources::Sources;
use super::{Job, Locate, Place, RenderFailure, RenderedFile, Rendering, Run, failure_words, is_stated};

/// Maximum depth to which nested kustomizations are followed.
const MAX_DEPTH: usize = 32;
/// The file that stands in a copy for those of generators that are elsewhere.
const EMPTY: &str = ".gpulint-empty";
/// Maximum number of ways in which one kustomization is built.
const MAX_VARIANTS: usize = 16;

/// A kustomization that no other one includes, with those that it includes.
struct Top {
    /// The kustomization itself, and then those that it includes, outer ones first.
    all: Vec<Kustomization>,
    /// The files that they list: resources and patches.
    files: Vec<PathBuf>,
    /// The files of generators that are not there because Git ignores them.
    ignored: Vec<PathBuf>,
    shown: String,
    scope: usize,
    /// The Kustomizations of Flux that apply its folder.
    builds: Vec<FluxBuild>,
}

impl Top {
    fn own(&self) -> &Kustomization {
        &self.all[0]
    }

    fn has_remote(&self) -> bool {
        self.all.iter().any(|one| !one.remote.is_empty())
    }

    /// The different ways in which Flux builds it, each with the Kustomizations that do; without any, it is built once as it is.
    fn variants(&self) -> Vec<(FluxChanges, Vec<&FluxBuild>)> {
        let mut out: Vec<(FluxChanges, Vec<&FluxBuild>)> = Vec::new();
        for build in &self.builds {
            match out.iter_mut().find(|(changes, _)| *changes == build.changes) {
                Some((_, by)) => by.push(build),
                None => out.push((build.changes.clone(), vec![build])),
            }
        }
        out.truncate(MAX_VARIANTS);
        if out.is_empty() { vec![(FluxChanges::default(), Vec::new())] } else { out }
    }
}

/// What is built: a kustomization, with what a Kustomization of Flux adds to it.
struct Variant<'t> {
    top: &'t Top,
    changes: FluxChanges,
    by: Vec<&'t FluxBuild>,
}

impl Variant<'_> {
    /// The command as a user would type it, or the object that stands for it.
    fn command(&self, program: &str, verb: &str) -> String {
        let command = format!("{program} {verb} {}", self.top.shown);
        match self.by.first().filter(|_| self.changes != FluxChanges::default()) {
            Some(build) => format!("{command} as {} does", build.object),
            None => command,
        }
    }
}

/// Reads the kustomization of a folder, if kustomize builds it. Entries that exist in the file system are not
/// remote.
fn read(folder: &Path, sources: &Sources) -> Option<Kustomization> {
    let found = Kustomization::read(folder, &Disk::default(), &Directories::default());
    let mut found = found.filter(|one| one.is_built && sources.get(&one.file).is_some())?;
    let charts: Vec<String> = vendored_charts(&found).map(|(name, _)| name.clone()).collect();
    found.remote.retain(|(field, entry)| match field.starts_with("helm") {
        true => !charts.contains(entry),
        false => !folder.join(entry).exists(),
    });
    Some(found)
}

/// The charts that a kustomization inflates and that are in the checkout, each with its folder.
fn vendored_charts(kustomization: &Kustomization) -> impl Iterator<Item = &(String, PathBuf)> {
    kustomization.charts.iter().filter(|(_, folder)| folder.join("Chart.yaml").is_file())
}

/// The folders of the charts that kustomizations of a batch inflate, which are not installed with their own values.
pub(super) fn inflated_charts(job: &Job<'_>) -> BTreeSet<PathBuf> {
    let folders = job.batch.folders.kustomization_folders();
    let read: Vec<_> = folders.iter().filter_map(|folder| read(folder, job.sources)).collect();
    read.iter().flat_map(vendored_charts).map(|(_, folder)| folder.clone()).collect()
}

fn folders_of(one: &Kustomization) -> impl Iterator<Item = &PathBuf> {
    let listed = one.resources.iter().chain(&one.components).chain(&one.plugins);
    listed.filter(|path| path.is_dir())
}

fn files_of(one: &Kustomization) -> impl Iterator<Item = &PathBuf> {
    let listed = one.resources.iter().chain(&one.components).chain(&one.plugins);
    listed.filter(|path| path.exists() && !path.is_dir()).chain(&one.patches)
}

/// Builds the top kustomizations of a batch.
pub(super) fn render(job: &Job<'_>) -> Rendering {
    let Job { batch, sources, .. } = job;
    let tops = discover(job);
    let numbers: HashMap<&Path, usize> =
        batch.inputs.iter().enumerate().map(|(at, one)| (one.input.absolute.as_path(), at)).collect();
    let variants: Vec<Variant<'_>> = (tops.iter())
        .flat_map(|top| top.variants().into_iter().map(move |(changes, by)| Variant { top, changes, by }))
        .collect();
    let results: Vec<_> = variants.par_iter().map(|variant| build(variant, job, &numbers)).collect();
    let mut out = Rendering { skipped: left_out(&tops, sources), ..Rendering::default() };
    let stand_ins: BTreeSet<String> =
        tops.iter().flat_map(|top| &top.ignored).map(|file| sources.shown(file)).collect();
    if !stand_ins.is_empty() {
        let files = count(stand_ins.len(), "file");
        let list = list(stand_ins.into_iter().collect());
        out.notes.push(format!("rendered with empty stand-ins for {files} that Git ignores: {list}"));
    }
    for (variant, result) in variants.iter().zip(results) {
        let top = variant.top;
        match result {
            Ok(built) => {
                out.covered.extend(top.files.iter().cloned());
                out.runs.push(run_of(variant, built, job, &numbers));
            }
            // The target of a patch may be in an entry that was left out.
            Err(_) if top.has_remote() => out.uncertain.extend(top.files.iter().cloned()),
            Err(failure) => {
                out.uncertain.extend(top.files.iter().cloned());
                // What their entries lack is part of the failure.
                out.covered.extend(top.all.iter().map(|one| one.file.clone()));
                out.add_failure(failure);
            }
        }
    }
    out
}

/// The entries of kustomizations that are not in the file system.
fn left_out(tops: &[Top], sources: &Sources) -> Vec<Skipped> {
    let mut out = Vec::new();
    for one in tops.iter().flat_map(|top| &top.all) {
        out.extend(one.remote.iter().map(|(_, entry)| Skipped {
            file: format!("{}: {entry}", sources.shown(&one.file)),
            document: None,
            reason: SkipReason::RemoteBase,
            partial: false,
        }));
    }
    out.sort();
    out.dedup();
    out
}

fn run_of(variant: &Variant<'_>, built: Built, job: &Job<'_>, numbers: &HashMap<&Path, usize>) -> Run {
    let (top, batch) = (variant.top, job.batch);
    let alone = set_alone(top, batch);
    let by = BuiltBy { kustomizations: top.all.clone(), sources: Arc::clone(job.sources) };
    Run {
        command: built.command,
        set: set_of(top, batch, numbers).or_else(|| set_of_builds(&variant.by, batch)),
        home: None,
        known: alone.or_else(|| only_set(top, batch, numbers)),
        is_alone: alone.is_some(),
        is_default: false,
        changes: Membership::default(),
        placeholder: None,
        files: built.files,
        values: Vec::new(),
        origin: Box::new(KustomizeOrigin { written: built.written, by }),
    }
}

/// The set of the input that a top kustomization belongs to: the only one that claims all its files because
/// of a configuration, Flux or Argo CD, and may apply its folder. Kustomizations that do not contradict each other may
/// still belong to several clusters.
fn set_of(top: &Top, batch: &Batch<'_>, numbers: &HashMap<&Path, usize>) -> Option<usize> {
    let sets = &batch.sets;
    let mut common: Option<BTreeSet<usize>> = None;
    for at in top.files.iter().filter_map(|file| numbers.get(file.as_path())) {
        let mut own: BTreeSet<usize> = sets.claims(*at).filter(|set| is_stated(sets, *set)).collect();
        // Patches are in no set.
        if !own.is_empty() {
            // Overlays that nothing applies share the files of those that something applies.
            own.retain(|set| sets.evidence[*set].may_apply(top.own().folder()));
            common = Some(common.map_or_else(|| own.clone(), |known| &known & &own));
        }
    }
    let common = common?;
    if common.len() == 1 { common.first().copied() } else { None }
}

/// The set of the Kustomizations of Flux that build a kustomization, if they apply it to their own cluster.
fn set_of_builds(by: &[&FluxBuild], batch: &Batch<'_>) -> Option<usize> {
    let sets = &batch.sets;
    let claims = |build: &&FluxBuild| sets.claims(build.file).filter(move |set| is_stated(sets, *set));
    let own: BTreeSet<usize> = by.iter().flat_map(claims).collect();
    own.first().copied().filter(|_| own.len() == 1 && by.iter().all(|build| build.is_local))
}

/// The only set of the input that claims files of a top kustomization.
fn only_set(top: &Top, batch: &Batch<'_>, numbers: &HashMap<&Path, usize>) -> Option<usize> {
    let own = top.files.iter().filter_map(|file| numbers.get(file.as_path()));
    let sets: BTreeSet<usize> = own.flat_map(|at| batch.sets.claims(*at)).collect();
    sets.first().copied().filter(|_| sets.len() == 1)
}

/// The set of the input that a top kustomization makes alone: it repeats objects of others, or is the only one.
fn set_alone(top: &Top, batch: &Batch<'_>) -> Option<usize> {
    let is_its = |one: &Evidence| one.sign == Sign::Kustomization && one.places == [top.own().folder()];
    batch.sets.evidence.iter().position(is_its)
}

fn discover(job: &Job<'_>) -> Vec<Top> {
    let Job { batch, options, sources, .. } = job;
    let builds = batch.flux_builds();
    let folders = batch.folders.kustomization_folders();
    let all: BTreeMap<PathBuf, Kustomization> =
        (folders.iter()).filter_map(|folder| Some((folder.clone(), read(folder, sources)?))).collect();
    let included: HashSet<&PathBuf> = all.values().flat_map(folders_of).collect();
    let own = batch.inputs.iter().filter(|one| !one.is_context);
    let inputs: HashMap<&Path, usize> = own.map(|one| (one.input.absolute.as_path(), one.scope)).collect();
    let mut tops = Vec::new();
    for (folder, own) in &all {
        if included.contains(folder) || own.is_component {
            continue;
        }
        let mut reached = Vec::new();
        let mut seen = HashSet::from([folder.clone()]);
        let builds: Vec<FluxBuild> = builds.iter().filter(|one| one.folder == *folder).cloned().collect();
        let components = builds.iter().flat_map(|build| &build.changes.components);
        let mut open: Vec<(PathBuf, usize)> =
            std::iter::once(folder).chain(components).map(|folder| (folder.clone(), 0)).collect();
        while let Some((at, depth)) = (!open.is_empty()).then(|| open.remove(0)) {
            let Some(one) = read(&at, sources) else { continue };
            for below in folders_of(&one) {
                if depth < MAX_DEPTH && seen.insert(below.clone()) {
                    open.push((below.clone(), depth + 1));
                }
            }
            reached.push(one);
        }
        let files: Vec<PathBuf> = reached.iter().flat_map(files_of).cloned().collect();
        let named = inputs.get(own.file.as_path());
        let Some(scope) = named.or_else(|| files.iter().find_map(|file| inputs.get(file.as_path()))).copied()
        else {
            continue;
        };
        if !job.renders(scope) {
            continue;
        }
        if named.is_some() {
            let excluded = |file: &&PathBuf| !options.excluded.contains(file);
            let files = files.iter().chain(reached.iter().map(|one| &one.file)).filter(excluded);
            files.for_each(|file| sources.include(file));
        }
        let generated = reached.iter().flat_map(|one| &one.generator_files);
        let ignored = generated.filter(|file| !file.exists() && files::is_ignored_by_git(file));
        let ignored = ignored.cloned().collect();
        tops.push(Top { all: reached, files, ignored, shown: sources.shown_folder(folder), scope, builds });
    }
    tops
}

/// The temporary folder in which a top kustomization is built: it has a kustomization that requests origins,
/// and maybe a copy.
struct Workplace {
    folder: TempFolder,
    /// The root of the copied folders; links lead from the copy to it.
    copied: Option<PathBuf>,
}

impl Workplace {
    fn new(Variant { top, changes, .. }: &Variant<'_>) -> io::Result<Workplace> {
        let folder = TempFolder::new()?;
        let wrapper = folder.path().join("build");
        fs::create_dir(&wrapper)?;
        fs::create_dir(folder.path().join("home"))?;
        let copied = (top.has_remote() || !top.ignored.is_empty()).then(|| {
            let folders = top.all.iter().map(Kustomization::folder);
            common_ancestor(folders.chain(top.ignored.iter().filter_map(|file| file.parent())))
        });
        let copy = folder.path().join("tree");
        if let Some(root) = &copied {
            copy_without_remote(root, &copy, top)?;
        }
        let place = |own: &Path| -> io::Result<String> {
            let target = match &copied {
                Some(root) => copy.join(own.strip_prefix(root).unwrap_or(Path::new(""))),
                None => fs::canonicalize(own)?,
            };
            Ok(files::relative(&wrapper, &target))
        };
        let mut fields = changes.fields.clone();
        fields.insert("resources".to_owned(), json!([place(top.own().folder())?]));
        fields.insert("buildMetadata".to_owned(), json!(["originAnnotations"]));
        let components: io::Result<Vec<String>> = changes.components.iter().map(|one| place(one)).collect();
        fields.insert("components".to_owned(), json!(components?));
        fs::write(wrapper.join("kustomization.yaml"), Value::Object(fields).to_string())?;
        Ok(Workplace { folder, copied })
    }

    fn wrapper(&self) -> PathBuf {
        self.folder.path().join("build")
    }

    /// The file of the user for a path in an origin.
    fn original(&self, path: &str) -> PathBuf {
        let path = files::absolute(&self.wrapper().join(path));
        match (&self.copied, path.strip_prefix(self.folder.path().join("tree"))) {
            (Some(root), Ok(below)) => root.join(below),
            _ => path,
        }
    }
}

fn common_ancestor<'p>(mut folders: impl Iterator<Item = &'p Path>) -> PathBuf {
    let first = folders.next().unwrap_or(Path::new("/")).to_owned();
    folders.fold(first, |common, folder| {
        let above = common.ancestors().find(|above| folder.starts_with(above));
        above.unwrap_or(Path::new("/")).to_owned()
    })
}

/// Copies the folders of kustomizations; all other files in them and around them become links, and those that Git ignores
/// are empty.
fn copy_without_remote(root: &Path, copy: &Path, top: &Top) -> io::Result<()> {
    let mut real: BTreeSet<&Path> = BTreeSet::new();
    let of_missing = top.ignored.iter().filter_map(|file| file.parent());
    for folder in top.all.iter().map(Kustomization::folder).chain(of_missing) {
        real.extend(folder.ancestors().take_while(|folder| folder.starts_with(root)));
    }
    let changed: HashMap<&Path, &Kustomization> =
        top.all.iter().filter(|one| !one.remote.is_empty()).map(|one| (one.file.as_path(), one)).collect();
    for folder in &real {
        let target = copy.join(folder.strip_prefix(root).unwrap_or(Path::new("")));
        fs::create_dir_all(&target)?;
        // The folder of a missing file may be missing as well.
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry?.path();
            let Some(name) = path.file_name() else { continue };
            if let Some(kustomization) = changed.get(path.as_path()) {
                fs::write(target.join(name), without_remote(kustomization)?)?;
                fs::write(target.join(EMPTY), "")?;
            } else if !real.contains(path.as_path()) {
                link(&path, &target.join(name))?;
            }
        }
    }
    top.ignored.iter().try_for_each(|file| {
        let target = copy.join(file.strip_prefix(root).unwrap_or(Path::new("")));
        fs::write(target, "")
    })
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() { fs::copy(from, to).map(|_| ()) } else { Ok(()) }
}

/// The text of a kustomization without the entries that are not in the file system. It is written as JSON,
/// which is valid YAML.
fn without_remote(kustomization: &Kustomization) -> io::Result<String> {
    let documents = source::read(&Source::new("kustomization", fs::read(&kustomization.file)?));
    let root = documents.first().and_then(|document| document.root());
    let mut value = root.map_or(Value::Null, |root| root.to_json());
    for (field, entry) in &kustomization.remote {
        if field.starts_with("helm") {
            let names = ["name", "chartName"];
            let is_it = |chart: &Value| names.iter().any(|name| chart[name].as_str() == Some(entry));
            if let Some(Value::Array(charts)) = value.get_mut(*field) {
                // An entry without a name stands for its field.
                charts.retain(|chart| !is_it(chart) && entry != field);
            }
        } else if let Some(Value::Array(entries)) = value.get_mut(*field) {
            entries.retain(|one| one.as_str() != Some(entry));
            entries.iter_mut().for_each(|generator| replace_source(generator, entry));
        }
    }
    Ok(value.to_string())
}

/// Replaces a file elsewhere of which a generator makes a ConfigMap or a Secret, by an empty one of its key.
fn replace_source(generator: &mut Value, address: &str) {
    for list in ["files", "envs"] {
        let Some(Value::Array(sources)) = generator.get_mut(list) else { continue };
        for source in sources.iter_mut().filter(|source| source.as_str() == Some(address)) {
            let key = match address.split_once('=').filter(|(key, _)| !key.contains("://")) {
                Some((key, _)) => key,
                None => address.rsplit('/').next().unwrap_or_default(),
            };
            let is_file = list == "files";
            *source = json!(if is_file { format!("{key}={EMPTY}") } else { EMPTY.to_owned() });
        }
    }
    if let Some(env) = generator.get_mut("env").filter(|env| env.as_str() == Some(address)) {
        *env = json!(EMPTY);
    }
}

/// The output of a program.
struct Built {
    command: Arc<str>,
    files: Vec<RenderedFile>,
    /// The origin of each document, by file.
    written: Vec<Vec<Written>>,
}

/// The programs that build kustomizations, with their subcommand.
const PROGRAMS: [(&str, &str); 2] = [("kustomize", "build"), ("kubectl", "kustomize")];

fn build(
    variant: &Variant<'_>,
    job: &Job<'_>,
    numbers: &HashMap<&Path, usize>,
) -> Result<Built, RenderFailure> {
    let (top, sources) = (variant.top, job.sources);
    let mut command = variant.command("kustomize", "build");
    let failed = |failure: &Failure, command: &str, temporary: &[(&Path, &str)]| {
        let (mut message, mut help) = failure_words(failure, "kustomize", command, temporary);
        if *failure == Failure::Missing {
            message = format!("`{command}` was not run: there is neither `kustomize` nor `kubectl` in PATH");
            help = "install one of them, or check without --render".to_owned();
        }
        let source =
            sources.get(&top.own().file).unwrap_or_else(|| Arc::new(Source::from_text(&top.shown, "")));
        let span = first_line(&source);
        RenderFailure::new(top.scope, (source, span), failure, (message, help))
    };
    let workplace = Workplace::new(variant)
        .map_err(|error| failed(&Failure::Failed(error.to_string()), &command, &[]))?;
    let charts: Vec<PathBuf> =
        top.all.iter().flat_map(vendored_charts).map(|(_, folder)| folder.clone()).collect();
    let mut output = Err(Failure::Missing);
    for (program, verb) in PROGRAMS {
        let mut child = process::command(program, &workplace.folder.path().join("home"));
        child.arg(verb).arg("--load-restrictor").arg("LoadRestrictionsNone").arg(workplace.wrapper());
        if !charts.is_empty() {
            child.arg("--enable-helm");
        }
        output = job.output(|| reads(variant, &charts, program), || process::run(child, job.options.limit));
        if output != Err(Failure::Missing) {
            command = variant.command(program, verb);
            break;
        }
    }
    let copy = workplace.folder.path().join("tree");
    let checkout = common_ancestor(top.all.iter().map(|one| one.folder()));
    let here = files::absolute(Path::new("."));
    let temporary =
        [(copy.as_path(), ""), (workplace.folder.path(), ""), (here.as_path(), ""), (checkout.as_path(), "")];
    let bytes = output.map_err(|failure| failed(&failure, &command, &temporary))?;
    let text = String::from_utf8_lossy(&bytes);
    let (files, written) = output_files(variant, &text, &workplace, job, numbers);
    Ok(Built { command: Arc::from(command), files, written })
}

/// The objects that were built, by the file that they are written in, with the origin of each.
fn output_files(
    variant: &Variant<'_>,
    text: &str,
    workplace: &Workplace,
    job: &Job<'_>,
    numbers: &HashMap<&Path, usize>,
) -> (Vec<RenderedFile>, Vec<Vec<Written>>) {
    let (top, Job { batch, scopes, sources, .. }) = (variant.top, job);
    let listed = top.files.iter().chain(top.all.iter().map(|one| &one.file));
    let names: HashMap<PathBuf, PathBuf> =
        listed.filter_map(|file| Some((fs::canonicalize(file).ok()?, file.clone()))).collect();
    let mut by_file: BTreeMap<PathBuf, (String, Vec<Written>)> = BTreeMap::new();
    for document in documents(text) {
        let (body, origin) = take_origin(document);
        let (path, is_generated) = match &origin {
            Some(Origin::File(path)) => (workplace.original(path), false),
            Some(Origin::Generated(path)) => (workplace.original(path), true),
            None => (top.own().file.clone(), true),
        };
        let path = names.get(&path).cloned().unwrap_or(path);
        let (all, written) = by_file.entry(path.clone()).or_default();
        if !all.is_empty() {
            all.push_str("---\n");
        }
        all.push_str(&substituted(&body, &variant.changes.variables));
        written.push(Written { file: sources.get(&path), is_generated });
    }
    let mut files = Vec::new();
    let mut origins = Vec::new();
    for (path, (text, written)) in by_file {
        let reported = sources.shown(&path);
        let input = numbers.get(path.as_path()).map(|at| &batch.inputs[*at]);
        let (scope, name) = match input {
            Some(one) => (one.scope, one.path.clone()),
            None => (top.scope, scopes.get(top.scope).path(&path, &reported)),
        };
        let folders = batch.folders.of_output(input.map(|one| &one.input), top.own().folder());
        if let Some(file) = RenderedFile::read(text, reported, &name, scope, &folders) {
            files.push(file);
            origins.push(written);
        }
    }
    (files, origins)
}

/// The text after kustomize-controller has filled in some variables: `${X}` and `${X:=default}`, but not `$${X}`. Those that are
/// not known stay.
fn substituted(text: &str, variables: &BTreeMap<String, String>) -> String {
    if variables.is_empty() || text.contains("kustomize.toolkit.fluxcd.io/substitute: disabled") {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let length = after[2..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let value = variables.get(&after[2..2 + length]);
        let end = after[2 + length..].find('}').map(|end| 2 + length + end);
        let is_plain = after[2 + length..].starts_with([':', '=', '-', '}']) && !before.ends_with('$');
        match (value, end) {
            (Some(value), Some(end)) if is_plain => {
                out.push_str(value);
                rest = &after[end + 1..];
            }
            _ => {
                out.push_str("${");
                rest = &after[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// What a program reads to build a kustomization: the kustomizations, and the files that they or their generators and
/// transformers name in any field.
fn reads(variant: &Variant<'_>, charts: &[PathBuf], program: &str) -> io::Result<Key> {
    let Variant { top, changes, .. } = variant;
    let mut reads = Reads::default();
    reads.word((program, Value::Object(changes.fields.clone()).to_string(), &changes.components));
    charts.iter().try_for_each(|chart| reads.folder(chart))?;
    let plugins = top.all.iter().flat_map(|one| &one.plugins).filter(|path| path.is_file());
    let naming: Vec<&PathBuf> = top.all.iter().map(|one| &one.file).chain(plugins).collect();
    top.files.iter().chain(naming.iter().copied()).for_each(|file| reads.file(file));
    for file in naming {
        let Some(source) = fs::read(file).ok().map(|bytes| Arc::new(Source::new("kustomization", bytes)))
        else {
            continue;
        };
        let folder = file.parent().unwrap_or(Path::new("/"));
        for root in source::read(&source).iter().filter_map(|document| document.root()) {
            for_each_text(&root.to_json(), &mut |text| {
                // A generator may give a file a key: `KEY=FILE`.
                let named = text.rsplit_once('=').map_or(text, |(_, file)| file);
                let path = folder.join(named);
                if path.is_file() {
                    reads.file(&path);
                }
            });
        }
    }
    Ok(reads.key())
}

fn for_each_text(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_text(item, each)),
        Value::Object(entries) => entries.values().for_each(|entry| for_each_text(entry, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The documents of the output of `kustomize build`.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim_end() == "---" {
            starts.push(at);
        }
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|start| start - 4).chain([text.len()]).collect();
    let parts = starts.into_iter().zip(ends).map(|(start, end)| text.get(start..end).unwrap_or_default());
    parts.filter(|part| !part.trim().is_empty())
}

/// Removes the annotation with the origin from an object, and returns it.
fn take_origin(document: &str) -> (String, Option<Origin>) {
    const ORIGIN: &str = "    config.kubernetes.io/origin:";
    let lines: Vec<&str> = document.split_inclusive('\n').collect();
    let metadata = lines.iter().position(|line| line.trim_end() == "metadata:");
    let annotations = metadata.and_then(|from| {
        let inside = lines[from + 1..].iter().take_while(|line| line.starts_with("  "));
        inside.clone().position(|line| line.trim_end() == "  annotations:").map(|at| from + 1 + at)
    });
    let Some(annotations) = annotations else { return (document.to_owned(), None) };
    let end = lines[annotations + 1..].iter().position(|line| !line.starts_with("    "));
    let end = end.map_or(lines.len(), |length| annotations + 1 + length);
    let Some(start) = (annotations + 1..end).find(|at| lines[*at].starts_with(ORIGIN)) else {
        return (document.to_owned(), None);
    };
    let after = (start + 1..end).find(|at| !lines[*at].starts_with("     ")).unwrap_or(end);
    let value = |key: &str| {
        let mut lines = lines[start + 1..after].iter();
        lines
            .find_map(|line| line.trim().strip_prefix(key))
            .map(|value| value.trim().trim_matches('"').to_owned())
    };
    let origin = match (value("path:"), value("configuredIn:")) {
        (_, Some(file)) => Some(Origin::Generated(file)),
        (Some(file), None) => Some(Origin::File(file)),
        (None, None) => None,
    };
    let mut out = String::with_capacity(document.len());
    let is_only = start == annotations + 1 && after == end;
    for (at, line) in lines.iter().enumerate() {
        let is_taken = (start..after).contains(&at) || is_only && at == annotations;
        if !is_taken {
            out.push_str(line);
        }
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    (out, origin)
}

/// The first line of a file with content.
fn first_line(source: &Source) -> Span {
    let mut at = 0;
    for line in source.text().split_inclusive('\n') {
        let said = line.trim();
        if !said.is_empty() && !said.starts_with('#') && said != "---" {
            return Span::new(at as u32, (at + line.trim_end().len()) as u32);
        }
        at += line.len();
    }
    Span::new(0, 0)
}

/// The origins of the objects that a kustomization builds.
struct KustomizeOrigin {
    /// The origins for each file of the output, by document.
    written: Vec<Vec<Written>>,
    by: BuiltBy,
}

impl Locate for KustomizeOrigin {
    fn locate(&self, file: usize, location: &Location) -> Option<Place> {
        let (_, document, _) = location.resolve_span()?;
        let written = self.written.get(file)?.get(document as usize)?;
        origin::locate(written, &self.by, location)
    }

    fn repair(&self, file: usize, location: &Location, fix: &Fix) -> Option<(Arc<Source>, Repair)> {
        let (_, document, _) = location.resolve_span()?;
        let written = self.written.get(file)?.get(document as usize)?;
        origin::repair(written, &self.by, location, fix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Origin, documents, substituted, take_origin};

    #[test]
    fn known_variables_are_filled_in() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, filled) in [
            ("a: ${A}${A}", "a: 11"),
            ("a: ${A:=2} ${A-2}", "a: 1 1"),
            ("a: ${AB} ${B:=2} $A", "a: ${AB} ${B:=2} $A"),
            ("a: $${A} ${A", "a: $${A} ${A"),
        ] {
            assert_eq!(substituted(text, &variables), filled);
        }
    }

    #[test]
    fn the_origin_is_taken_out() {
        let text = "apiVersion: v1\nmetadata:\n  annotations:\n    a: b\n    config.kubernetes.io/origin: |\n      path: ../base/a.yaml\n  name: x\n";
        let (body, origin) = take_origin(text);
        assert_eq!(body, "apiVersion: v1\nmetadata:\n  annotations:\n    a: b\n  name: x\n");
        assert_eq!(origin, Some(Origin::File("../base/a.yaml".to_owned())));
        let (body, origin) = take_origin(
            "kind: A\nmetadata:\n  annotations:\n    config.kubernetes.io/origin: |\n      configuredIn: k.yaml\n      configuredBy:\n        kind: B\n  name: x\nspec: {}\n",
        );
        assert_eq!(body, "kind: A\nmetadata:\n  name: x\nspec: {}\n");
        assert_eq!(origin, Some(Origin::Generated("k.yaml".to_owned())));
        assert_eq!(take_origin("kind: A\n").1, None);
    }

    #[test]
    fn documents_are_cut_at_separators() {
        assert_eq!(documents("a: 1\n---\nb: 2\n").collect::<Vec<_>>(), ["a: 1\n", "b: 2\n"]);
        assert_eq!(documents("").count(), 0);
    }
}
