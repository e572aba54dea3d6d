//! Charts, rendered with `helm template`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::kind::KINDS;
use gpulint_rules::source;
use gpulint_rules::{Kind, Membership, Node, Object, Platform, Product, Settings};
use rayon::prelude::*;

use crate::batch::Batch;
use crate::config::Scopes;
use crate::files::{Folders, Release};
use crate::terminal::count;

use super::installs::{
    Arguments, Chart, Install, arguments, list, missing_dependencies, notes, remove_dependencies, values_file,
};
use super::kustomize;
use super::outputs::Reads;
use super::process;
use super::process::{Failure, TempFolder};
use super::template::{LineOrigin, Template, take_marks};
use super::{Job, RenderFailure, RenderedFile, Rendering, Run, Unmet, failure_words, is_stated, releases};

mod origin;
mod templates;
mod unmet;

use origin::{FileOrigin, HelmOrigin};
use templates::{Values, find_template, values_of};
use unmet::{is_default, lacking, unmet};

/// API versions of the kind table that no current cluster serves: a chart that checks for them generates
/// objects for old clusters.
const NOT_SERVED: [(&str, &str); 7] = [
    ("extensions", "v1beta1"),
    ("keda.k8s.io", "v1alpha1"),
    ("karpenter.sh", "v1alpha5"),
    ("karpenter.k8s.aws", "v1alpha1"),
    ("provisioner.karpenter.sh", "v1alpha1"),
    ("provisioning.karpenter.sh", "v1alpha1"),
    ("resource.k8s.io", "v1alpha2"),
];
/// Maximum size in bytes of a chart that is copied. The lines of larger charts are located by their text.
const MAX_COPIED_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of attempts to render the marked copy. After a failure the marks of the template that
/// failed are removed.
const MAX_UNMARKED: usize = 4;

/// Renders the charts of the input as the objects install them that are in the input, in `built`, or in what the charts give:
/// an Application may install a chart of Applications.
pub(super) fn render(job: &Job<'_>, built: &Rendering) -> Rendering {
    let mut charts = discover(job, releases(job, &[built]));
    let mut all: Vec<Rendering> = charts.par_iter().map(|chart| render_chart(chart, job)).collect();
    let runs = all.iter().flat_map(|one| &one.runs);
    let mut objects = runs.flat_map(|run| &run.files).filter_map(|one| one.read.file.as_ref());
    if objects.any(|file| file.objects.iter().any(is_release)) {
        let rendered: Vec<&Rendering> = std::iter::once(built).chain(&all).collect();
        charts = discover(job, releases(job, &rendered));
        let again = charts.par_iter().map(|chart| is_installed_by_chart(chart, job));
        let again: Vec<_> =
            again.zip(&charts).map(|(again, one)| again.then(|| render_chart(one, job))).collect();
        all = again.into_iter().zip(all).map(|(new, old)| new.unwrap_or(old)).collect();
    }
    let batch = job.batch;
    let told = kustomize::inflated_charts(job).into_iter().collect();
    let mut out = Rendering { told, ..Rendering::default() };
    let is_built = |(_, one): &(&Chart, &Rendering)| one.unmet.is_empty() && !one.runs.is_empty();
    out.notes = notes(charts.iter().zip(&all).filter(is_built).map(|(chart, _)| chart), &charts, job);
    for (chart, one) in charts.iter().zip(all) {
        if !one.runs.is_empty() {
            let templates = batch.inputs.iter().map(|one| &one.input.absolute);
            let templates =
                templates.filter(|path| root_chart_of_applied(batch, path) == Some(chart.folder.clone()));
            out.covered.extend(templates.cloned());
        }
        if one.runs.is_empty() && one.failures.is_empty() {
            out.told.insert(chart.folder.clone());
        }
        if !one.failures.is_empty() || !one.unmet.is_empty() {
            out.uncertain.insert(chart.folder.clone());
        }
        out.runs.extend(one.runs);
        out.failures.extend(one.failures);
        out.notes.extend(one.notes);
        out.empty.extend(one.empty);
        out.unclear.extend(one.unclear);
        out.unmet.extend(one.unmet);
    }
    add_notes(&mut out);
    out
}

/// Adds a line for each reason why charts give nothing.
fn add_notes(out: &mut Rendering) {
    const DEPENDENCIES: &str = "not rendered without dependencies that `helm dependency build` adds";
    for (unmet, one, several) in [
        (
            Unmet::Values,
            "not rendered, because nothing here gives the values that it demands",
            "not rendered, because nothing here gives the values that they demand",
        ),
        (Unmet::Dependencies, DEPENDENCIES, DEPENDENCIES),
    ] {
        let charts = out.unmet.iter().filter(|(of, _)| *of == unmet).map(|(_, words)| words.clone());
        let charts: Vec<String> = charts.collect();
        if !charts.is_empty() {
            let what = if charts.len() == 1 { one } else { several };
            out.notes.push(format!("{} {what}: {}", count(charts.len(), "chart"), list(charts)));
        }
    }
    for (entries, what) in [
        (std::mem::take(&mut out.empty), "without objects"),
        (std::mem::take(&mut out.unclear), "failed with values of another chart, which may be others"),
    ] {
        if !entries.is_empty() {
            out.notes.push(format!("{} {what}: {}", count(entries.len(), "render"), list(entries)));
        }
    }
}

/// The chart to render for a file that it applies: a template, or a file in its folder `crds`.
fn root_chart_of_applied(batch: &Batch<'_>, path: &Path) -> Option<PathBuf> {
    batch.folders.root_chart_of_template(path).or_else(|| batch.folders.root_chart_of_crd(path))
}

/// Whether an object may install a chart.
fn is_release(object: &Object) -> bool {
    object.is(Kind::HELM_RELEASE)
        || object.is(Kind::ARGO_APPLICATION)
        || object.is(Kind::ARGO_APPLICATION_SET)
}

/// Whether the object that installs a chart is one that another chart gives.
fn is_installed_by_chart(chart: &Chart, job: &Job<'_>) -> bool {
    chart.installs.iter().any(|install| is_of_chart(install, job))
}

/// Whether another chart gives the object that installs a chart.
fn is_of_chart(install: &Install, job: &Job<'_>) -> bool {
    match install {
        Install::Release(release) => job.batch.folders.root_chart_of_template(&release.path).is_some(),
        Install::Own | Install::Configured(_) => false,
    }
}

/// The charts of the input that are not part of another one.
fn discover(job: &Job<'_>, all: Vec<Release>) -> Vec<Chart> {
    let Job { batch, scopes, options, sources } = job;
    let mut charts = Vec::new();
    let configured = charts_of_values(batch, scopes);
    let mut releases: BTreeMap<PathBuf, Vec<Release>> = BTreeMap::new();
    for release in all {
        releases.entry(release.chart.clone()).or_default().push(release);
    }
    let inflated = kustomize::inflated_charts(job);
    let folders: BTreeSet<PathBuf> =
        batch.folders.root_charts().into_iter().chain(configured.keys().cloned()).collect();
    for folder in folders.into_iter().filter(|folder| !inflated.contains(folder)) {
        let inputs =
            || batch.inputs.iter().filter(|one| !one.is_context && one.input.absolute.starts_with(&folder));
        let own = inputs().find(|one| one.input.absolute == folder.join("Chart.yaml"));
        let is_part = |path: &Path| {
            root_chart_of_applied(batch, path).or_else(|| batch.folders.root_chart_of_values(path)).is_some()
        };
        let part = inputs().find(|one| is_part(&one.input.absolute));
        let values = configured.get(&folder).map(|at| &batch.inputs[*at]);
        // A chart is rendered if the input has the chart itself, a file that it applies or its values, but
        // not for any other file below it.
        let Some(input) = own.or(part).or(values) else { continue };
        let configuration = scopes.get(input.scope);
        if !job.renders(input.scope) {
            continue;
        }
        let Some(source) = sources.get(&folder.join("Chart.yaml")) else { continue };
        let documents = source::read(&source);
        let root = documents.first().and_then(|document| document.root());
        let name = root.as_ref().map(|root| root.get("name"));
        let is_library = root.as_ref().is_some_and(|root| root.get("type").text() == Some("library"));
        if is_library {
            continue;
        }
        let span = name.as_ref().and_then(Node::span).unwrap_or_default();
        let name = name.and_then(|name| name.text().map(str::to_owned)).unwrap_or_default();
        let shown = sources.shown_folder(&folder);
        let is_own = |entry: &&gpulint_rules::lint::config::HelmConfig| {
            let says = !entry.values.is_empty() || entry.name.is_some() || entry.namespace.is_some();
            says && configuration.resolve(&entry.chart).is_some_and(|path| path == folder)
        };
        let entries: Vec<Install> = (configuration.render.helm.iter().filter(is_own))
            .map(|entry| Install::Configured(entry.clone()))
            .collect();
        // The configuration says more than what is found, and the chart's own values are those of nobody where the
        // chart is installed with others.
        let installs: Vec<Install> = match releases.remove(&folder) {
            Some(releases) if entries.is_empty() => releases.into_iter().map(Install::Release).collect(),
            // An entry without values says how the chart is installed with its own.
            _ if entries
                .iter()
                .any(|entry| matches!(entry, Install::Configured(one) if one.values.is_empty())) =>
            {
                entries
            }
            _ => std::iter::once(Install::Own).chain(entries).collect(),
        };
        let missing = root.as_ref().map(|root| missing_dependencies(&folder, root)).unwrap_or_default();
        if own.is_some() {
            sources.add_whole(&folder);
            let values = installs.iter().flat_map(Install::values_files);
            values.for_each(|file| sources.include(file));
            options
                .excluded
                .iter()
                .filter(|path| path.starts_with(&folder))
                .for_each(|path| sources.exclude(path));
        }
        charts.push(Chart { folder, name, shown, source, span, scope: input.scope, installs, missing });
    }
    charts
}

/// The charts for which a configuration names an input as values, each with the index of such an input.
fn charts_of_values(batch: &Batch<'_>, scopes: &Scopes) -> BTreeMap<PathBuf, usize> {
    let mut charts = BTreeMap::new();
    for (at, one) in batch.inputs.iter().enumerate().filter(|(_, one)| !one.is_context) {
        let configuration = scopes.get(one.scope);
        for entry in &configuration.render.helm {
            let Some(folder) = configuration.resolve(&entry.chart) else { continue };
            let values = entry.values.iter().filter_map(|file| values_file(&folder, configuration, file));
            if values.into_iter().any(|path| path == one.input.absolute)
                && folder.join("Chart.yaml").is_file()
            {
                charts.entry(folder).or_insert(at);
            }
        }
    }
    charts
}

fn render_chart(chart: &Chart, job: &Job<'_>) -> Rendering {
    let mut out = Rendering::default();
    let marked = OnceMarked::new(chart);
    // A copy without the missing dependencies; a chart that is whole is rendered as it is.
    let copy = (!chart.missing.is_empty()).then(|| -> io::Result<TempFolder> {
        let folder = TempFolder::new()?;
        let target = folder.path().join("chart");
        let mut left = MAX_COPIED_BYTES;
        copy_plain(&chart.folder, &target, &mut left)?;
        for (name, local) in &chart.missing.local {
            fs::create_dir_all(target.join("charts"))?;
            copy_plain(local, &target.join("charts").join(name), &mut left)?;
        }
        remove_dependencies(&target, &chart.missing.remote)?;
        Ok(folder)
    });
    let mut errors: Vec<&io::Error> = marked.copy.as_ref().err().into_iter().collect();
    let copy = copy.transpose();
    errors.extend(copy.as_ref().err());
    let copy = copy.as_ref().ok().and_then(Option::as_ref);
    let folder = copy.map_or_else(|| chart.folder.clone(), |copy| copy.path().join("chart"));
    let is_known = |install: &&Install| !matches!(install, Install::Release(one) if one.unknown.is_some());
    let known: Vec<&Install> = chart.installs.iter().filter(is_known).collect();
    let results: Vec<_> =
        known.par_iter().map(|install| render_with(chart, &folder, install, job, &marked)).collect();
    // A chart that needs values is not installed with its own values only.
    let others = results.iter().skip(1).any(Result::is_ok);
    errors.extend(results.iter().flatten().filter_map(|(_, error)| error.as_ref()));
    // What is too large is not copied on purpose.
    if let Some(error) = errors.into_iter().find(|error| error.kind() != io::ErrorKind::Other) {
        out.notes
            .push(format!("{} could not be copied to find the lines of its output: {error}", chart.shown));
    }
    for (install, result) in known.into_iter().zip(results) {
        match result {
            Ok((run, _)) => {
                if run.files.is_empty() && chart.missing.remote.is_empty() {
                    out.empty.push(format!("`{}`", run.command));
                }
                out.runs.push(run);
            }
            Err(_) if matches!(install, Install::Own) && others => {}
            // The values of the chart that gives the object may be others where it is installed.
            Err(failure) if is_of_chart(install, job) => out.unclear.push(failure.message),
            Err(failure) => match unmet(chart, install, &failure.message, job) {
                Some(unmet) => out.unmet.push((unmet, lacking(chart, unmet, &failure.message))),
                None => out.add_failure(failure),
            },
        }
    }
    out
}

/// The copy of a chart with marks, which is made once for all its sets of values.
struct OnceMarked {
    copy: io::Result<MarkedCopy>,
}

struct MarkedCopy {
    folder: TempFolder,
    /// The templates by the number of their marks.
    files: Vec<PathBuf>,
}

impl OnceMarked {
    fn new(chart: &Chart) -> OnceMarked {
        let copy = TempFolder::new().and_then(|folder| {
            let mut files = Vec::new();
            let mut left = MAX_COPIED_BYTES;
            let target = folder.path().join("chart");
            copy_marked(&chart.folder, &target, &mut files, &mut left, 0)?;
            for (name, local) in &chart.missing.local {
                fs::create_dir_all(target.join("charts"))?;
                copy_marked(local, &target.join("charts").join(name), &mut files, &mut left, 0)?;
            }
            if !chart.missing.is_empty() {
                remove_dependencies(&target, &chart.missing.remote)?;
            }
            Ok(MarkedCopy { folder, files })
        });
        OnceMarked { copy }
    }
}

/// Copies a chart, and adds marks to the lines of its templates.
fn copy_marked(
    from: &Path,
    to: &Path,
    files: &mut Vec<PathBuf>,
    left: &mut u64,
    depth: usize,
) -> io::Result<()> {
    if depth > 32 {
        return Err(io::Error::other("too deep"));
    }
    fs::create_dir(to)?;
    let mut entries: Vec<_> = fs::read_dir(from)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let data = fs::metadata(&path)?;
        if data.is_dir() {
            if entry.file_name() != ".git" {
                copy_marked(&path, &target, files, left, depth + 1)?;
            }
            continue;
        }
        *left = left.checked_sub(data.len()).ok_or_else(|| io::Error::other("too large"))?;
        let bytes = fs::read(&path)?;
        match String::from_utf8(bytes) {
            Ok(text) if is_template(&path) => {
                fs::write(&target, Template::read(&text).marked(&text, files.len()))?;
                files.push(path);
            }
            Ok(text) => fs::write(&target, text)?,
            Err(error) => fs::write(&target, error.into_bytes())?,
        }
    }
    Ok(())
}

/// Whether a file of a chart is printed line by line: a template in YAML, or a file that the chart installs
/// as it is written.
fn is_template(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let below = path.components().any(|part| part.as_os_str() == "templates" || part.as_os_str() == "crds");
    below && !name.starts_with('_') && (name.ends_with(".yaml") || name.ends_with(".yml"))
}

/// What `helm template` prints. A chart that takes none of the versions of Kubernetes that are assumed gets one that it takes,
/// and a schema elsewhere is not loaded.
fn template(chart: &Path, arguments: &Arguments, scope: usize, job: &Job<'_>) -> Result<String, Failure> {
    let platform = &job.scopes.get(scope).settings.platform;
    let own = format!("{}.0", platform.version(Product::Kubernetes));
    let version = arguments.kubernetes.as_ref().unwrap_or(&own);
    let mut given = Given { chart, arguments, version, checks_schema: !arguments.skips_schema };
    let first = given.output(scope, job);
    let Err(Failure::Failed(words)) = &first else { return first };
    if words.contains("requires kubeVersion") && is_version_free(platform, arguments) {
        let versions: Vec<String> =
            Product::Kubernetes.supported().map(|version| format!("{version}.0")).collect();
        let mut results = versions.iter().rev().map(|version| Given { version, ..given }.output(scope, job));
        return results
            .find(|one| !matches!(one, Err(Failure::Failed(words)) if words.contains("requires kubeVersion")))
            .unwrap_or(first);
    }
    if words.contains("schema") && words.contains("http") {
        given.checks_schema = false;
        return given.output(scope, job).or(first);
    }
    first
}

/// Whether the version of Kubernetes is only assumed.
fn is_version_free(platform: &Platform, arguments: &Arguments) -> bool {
    arguments.kubernetes.is_none() && !platform.is_stated(Product::Kubernetes)
}

/// What `helm template` is given.
#[derive(Clone, Copy)]
struct Given<'g> {
    chart: &'g Path,
    arguments: &'g Arguments,
    version: &'g str,
    checks_schema: bool,
}

impl Given<'_> {
    fn output(&self, scope: usize, job: &Job<'_>) -> Result<String, Failure> {
        let Given { chart, arguments, version, checks_schema } = self;
        let home = TempFolder::new().map_err(|error| Failure::Failed(error.to_string()))?;
        let served = api_versions(&job.scopes.get(scope).settings);
        let mut command = process::command("helm", home.path());
        command.arg("template").arg(&arguments.name).arg(chart).args(["--skip-tests", "--include-crds"]);
        if let Some(namespace) = &arguments.namespace {
            command.arg("--namespace").arg(namespace);
        }
        command.arg("--kube-version").arg(version);
        if !checks_schema {
            command.arg("--skip-schema-validation");
        }
        served.iter().for_each(|one| _ = command.arg("--api-versions").arg(one));
        for file in &arguments.values {
            command.arg("--values").arg(file);
        }
        for one in &arguments.parameters {
            let flag = if one.is_string { "--set-string" } else { "--set" };
            command.arg(flag).arg(format!("{}={}", one.name, set_value(&one.value)));
        }
        let reads = || {
            let mut reads = Reads::default();
            reads.word((&arguments.name, &arguments.namespace, version, checks_schema, &served));
            arguments.parameters.iter().for_each(|one| reads.word((&one.name, &one.value, one.is_string)));
            arguments.values.iter().for_each(|file| reads.file(file));
            reads.folder(chart)?;
            Ok(reads.key())
        };
        let bytes = job.output(reads, || process::run(command, job.options.limit))?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

/// The APIs that a current cluster serves, and those that the user's definitions add, as `--api-versions` takes them.
fn api_versions(settings: &Settings) -> Vec<String> {
    let known = KINDS.iter().map(|info| (info.kind.group, info.version, info.kind.kind));
    let known = known.filter(|(group, version, _)| !NOT_SERVED.contains(&(*group, *version)));
    let all = known.chain(settings.definitions.served());
    let text = |(group, version, kind): (&str, &str, &str)| {
        let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        format!("{version},{version}/{kind}")
    };
    all.map(text).collect()
}

/// The value of a parameter as `--set` takes it, which is how `cleanSetParameters` of Argo CD v3 writes it: a comma would begin
/// another value, but not in a list in braces.
fn set_value(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if c == ',' && !out.ends_with('\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A copy of a chart without its own values.
fn without_values(chart: &Path) -> io::Result<TempFolder> {
    let folder = TempFolder::new()?;
    let target = folder.path().join("chart");
    copy_plain(chart, &target, &mut MAX_COPIED_BYTES.clone())?;
    match fs::remove_file(target.join("values.yaml")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(folder),
    }
}

fn render_with(
    chart: &Chart,
    folder: &Path,
    install: &Install,
    job: &Job<'_>,
    marked: &OnceMarked,
) -> Result<(Run, Option<io::Error>), RenderFailure> {
    let command = install.command(chart);
    let failed = |failure: &Failure| {
        let temporary = [(chart.folder.as_path(), ""), (folder, "")];
        let (message, mut help) = failure_words(failure, "helm", &command, &temporary);
        if !chart.missing.remote.is_empty() {
            help = format!(
                "run `helm dependency build {}`: it was rendered without {}",
                chart.shown,
                chart.missing.remote.join(", ")
            );
        } else if message.contains("requires kubeVersion") {
            help = "set `platform.kubernetes` to a version that the chart takes".to_owned();
        }
        let place = (Arc::clone(&chart.source), chart.span);
        RenderFailure::new(chart.scope, place, failure, (message, help))
    };
    let (mut arguments, given) =
        arguments(chart, install, job).map_err(|words| failed(&Failure::Failed(words)))?;
    let bare = install.replaces_values().then(|| without_values(folder)).transpose();
    let bare = bare.map_err(|error| failed(&Failure::Failed(error.to_string())))?;
    let own = bare.as_ref().map_or(folder.to_owned(), |bare| bare.path().join("chart"));
    let mut output = template(&own, &arguments, chart.scope, job);
    // Some charts refuse the namespace that Helm takes where none is named.
    if is_default(chart, install)
        && matches!(&output, Err(Failure::Failed(words)) if words.contains("'default' namespace"))
    {
        arguments.namespace = Some(arguments.name.clone());
        output = template(&own, &arguments, chart.scope, job);
    }
    let output = output.map_err(|failure| failed(&failure))?;
    let has_values = bare.is_none();
    let numbered =
        marked.copy.as_ref().map(|copy| lines_of_copy(copy, &arguments, has_values, chart.scope, job));
    let (numbered, error) = match numbered {
        Ok(Err(error)) => (NumberedLines::new(), Some(error)),
        Ok(Ok(numbered)) => (numbered, None),
        Err(_) => (NumberedLines::new(), None),
    };
    let mut values: Vec<String> = given.iter().map(|file| file.path().to_owned()).collect();
    if has_values && chart.folder.join("values.yaml").is_file() {
        values.insert(0, job.sources.shown(&chart.folder.join("values.yaml")));
    }
    let given = Values { files: given, singles: &arguments.singles, has_own: has_values };
    let (files, origins) = files_of(chart, &output, &numbered, &given, job);
    let templates = marked.copy.as_ref().map_or(&[][..], |copy| copy.files.as_slice());
    let templates = templates.iter().map(|path| job.sources.get(path)).collect();
    let chart_place = (Arc::clone(&chart.source), chart.span);
    let origin = HelmOrigin { files: origins, templates, folder: chart.folder.clone(), chart: chart_place };
    let placeholder = arguments.is_placeholder.then_some(arguments.name);
    let (command, origin) = (Arc::from(command), Box::new(origin));
    let home = home(chart, install, job);
    let run = Run {
        command,
        set: None,
        home,
        known: None,
        is_alone: false,
        is_default: is_default(chart, install),
        changes: install.release().map(|release| release.membership(0)).unwrap_or_default(),
        placeholder,
        files,
        values,
        origin,
    };
    Ok((run, error))
}

/// The set of the input that what a chart gives belongs to, if it is known.
fn home(chart: &Chart, install: &Install, job: &Job<'_>) -> Option<Vec<Membership>> {
    let sets = &job.batch.sets;
    if sets.partition.is_whole() {
        let is_local = match install {
            Install::Release(release) => release.cluster.is_none(),
            Install::Own | Install::Configured(_) => chart.installs.len() == 1,
        };
        return is_local.then(Vec::new);
    }
    let Install::Release(release) = install else { return None };
    let is_flux = release.object.starts_with("HelmRelease");
    let is_its = |path: &Path| if is_flux { *path == *release.path } else { path.starts_with(&chart.folder) };
    let inputs = job.batch.inputs.iter().enumerate();
    let its = inputs.filter(|(_, one)| is_its(&one.input.absolute)).flat_map(|(at, _)| sets.claims(at));
    let found: BTreeSet<usize> = its.filter(|set| is_stated(sets, *set)).collect();
    let only = found.first().filter(|_| found.len() == 1)?;
    Some(vec![release.membership(*only)])
}

/// The output of a chart, by template, with the origins of its lines.
fn files_of(
    chart: &Chart,
    output: &str,
    numbered: &NumberedLines,
    given: &Values<'_>,
    job: &Job<'_>,
) -> (Vec<RenderedFile>, Vec<FileOrigin>) {
    let Job { scopes, sources, .. } = job;
    let mut files: Vec<RenderedFile> = Vec::new();
    let mut origins: Vec<FileOrigin> = Vec::new();
    for (from, texts) in by_source(&split(output)) {
        let text = texts.join("---\n");
        let mut lines: Vec<Option<LineOrigin>> = Vec::new();
        if let Some((_, with_origin)) = numbered.iter().find(|(source, _)| source == from) {
            lines = align(&text, with_origin).unwrap_or_default();
        }
        let found = find_template(chart, from, sources);
        let reported = match &found.template {
            Some(path) => sources.shown(path),
            None => from.to_owned(),
        };
        let name = match &found.template {
            Some(path) => scopes.get(chart.scope).path(path, &reported),
            None => reported.clone(),
        };
        let Some(file) = RenderedFile::read(text, reported, &name, chart.scope, &Folders::default()) else {
            continue;
        };
        files.push(file);
        let chain = values_of(chart, given, &found, sources);
        let keys: Vec<String> = found.subcharts.iter().map(|(key, _)| key.clone()).collect();
        let singles = given.singles.iter().filter_map(|one| one.of_subchart(&keys)).collect();
        let template = found.template.as_ref().and_then(|path| sources.get(path));
        origins.push(FileOrigin { template, lines, values: chain, singles, dependency: found.dependency });
    }
    (files, origins)
}

/// A rendered document, preceded by the path in its `# Source:` line.
type Rendered<'t> = (&'t str, &'t str);

fn split(output: &str) -> Vec<Rendered<'_>> {
    const SOURCE: &str = "# Source: ";
    let mut out: Vec<Rendered<'_>> = Vec::new();
    let mut starts: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    let mut separator: Option<usize> = None;
    for line in output.split_inclusive('\n') {
        if let Some(start) = separator.filter(|_| line.starts_with(SOURCE)) {
            starts.push((start, at));
        }
        separator = (line.trim_end() == "---").then_some(at);
        at += line.len();
    }
    for (number, (_, start)) in starts.iter().enumerate() {
        let end = starts.get(number + 1).map_or(output.len(), |(separator, _)| *separator);
        let (head, body) = output[*start..end].split_once('\n').unwrap_or((&output[*start..end], ""));
        out.push((head[SOURCE.len()..].trim(), body));
    }
    out
}

/// The documents of each template, in the order of the output.
fn by_source<'t>(documents: &[Rendered<'t>]) -> Vec<(&'t str, Vec<&'t str>)> {
    let mut out: Vec<(&str, Vec<&str>)> = Vec::new();
    for (from, text) in documents {
        match out.iter_mut().find(|(known, _)| known == from) {
            Some((_, texts)) => texts.push(text),
            None => out.push((from, vec![text])),
        }
    }
    out
}

/// The lines of each template as rendered from the marked copy, with their origins.
type NumberedLines = Vec<(String, Vec<(String, Option<LineOrigin>)>)>;

/// Empty if the copy does not render. Returns the errors of files.
fn lines_of_copy(
    copy: &MarkedCopy,
    arguments: &Arguments,
    has_values: bool,
    scope: usize,
    job: &Job<'_>,
) -> io::Result<NumberedLines> {
    let mut folder = copy.folder.path().join("chart");
    // A copy of the copy, without marks in the templates that fail with them.
    let mut repaired: Option<TempFolder> = None;
    if !has_values {
        let bare = without_values(&folder)?;
        folder = bare.path().join("chart");
        repaired = Some(bare);
    }
    for _ in 0..MAX_UNMARKED {
        match template(&folder, arguments, scope, job) {
            Ok(output) => {
                let mut out: NumberedLines = Vec::new();
                for (from, texts) in by_source(&split(&output)) {
                    let lines = texts.iter().flat_map(|text| take_marks(text)).collect();
                    out.push((from.to_owned(), lines));
                }
                return Ok(out);
            }
            Err(Failure::Failed(words)) => {
                let base = copy.folder.path().join("chart");
                let named = |path: &&PathBuf| {
                    let tail: Vec<String> = (path.components().rev())
                        .map(|part| part.as_os_str().to_string_lossy().into_owned())
                        .take_while(|part| part != "templates")
                        .collect();
                    let tail: Vec<String> = tail.into_iter().rev().collect();
                    words.contains(&format!("templates/{}", tail.join("/")))
                };
                let Some(path) = copy.files.iter().find(named) else { break };
                let again = match repaired.take() {
                    Some(again) => again,
                    None => {
                        let again = TempFolder::new()?;
                        let mut left = MAX_COPIED_BYTES;
                        copy_plain(&base, &again.path().join("chart"), &mut left)?;
                        again
                    }
                };
                folder = again.path().join("chart");
                let Some(below) = relative_in_copy(copy, path) else { break };
                let original = fs::read(path)?;
                let target = folder.join(below);
                if fs::read(&target)? == original {
                    break;
                }
                fs::write(&target, original)?;
                repaired = Some(again);
            }
            Err(_) => break,
        }
    }
    Ok(NumberedLines::new())
}

/// The path of a template, relative to the chart.
fn relative_in_copy(copy: &MarkedCopy, path: &Path) -> Option<PathBuf> {
    // The folder of the chart is the shortest ancestor below which the copy has the file.
    let chart = copy.folder.path().join("chart");
    let tails = path.ancestors().skip(1).filter_map(|folder| path.strip_prefix(folder).ok());
    tails.filter(|tail| chart.join(tail).is_file()).last().map(Path::to_owned)
}

fn copy_plain(from: &Path, to: &Path, left: &mut u64) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        // A link may lead to a chart beside this one.
        if fs::metadata(&path)?.is_dir() {
            copy_plain(&path, &target, left)?;
        } else {
            let bytes = fs::read(&path)?;
            *left = left.checked_sub(bytes.len() as u64).ok_or_else(|| io::Error::other("too large"))?;
            fs::write(&target, bytes)?;
        }
    }
    Ok(())
}

/// The origin of each line of the output, by the lines of the marked copy. `None` if the two texts differ.
fn align(text: &str, marked: &[(String, Option<LineOrigin>)]) -> Option<Vec<Option<LineOrigin>>> {
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_end() == "---";
    let mut others = marked.iter().filter(|(line, _)| !is_empty(line));
    let mut out = Vec::new();
    let (mut equal, mut different) = (0_usize, 0_usize);
    for line in text.lines() {
        if is_empty(line) {
            out.push(None);
            continue;
        }
        let (other, origin) = others.next()?;
        // The hash of a template in an annotation differs, because the marks change the template.
        if other.trim_end() == line.trim_end() {
            equal += 1;
        } else {
            different += 1;
        }
        out.push(*origin);
    }
    (others.next().is_none() && different * 10 <= equal + different).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::set_value;

    #[test]
    fn a_parameter_is_one_value() {
        for (value, written) in [("a,b", "a\\,b"), ("a\\,b", "a\\,b"), ("{a,b}", "{a,b}"), ("a", "a")] {
            assert_eq!(set_value(value), written);
        }
    }
}
