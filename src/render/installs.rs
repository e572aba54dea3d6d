//! What installs a chart: its own values, an entry of the configuration, or an object of Argo CD or Flux; and the
//! dependencies that it lacks.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::lint::config::HelmConfig;
use gpulint_rules::source;
use gpulint_rules::source::{Document, Source};
use gpulint_rules::tree::Span;
use gpulint_rules::{Kind, Node, Object, application_sources};
use serde_json::Value;

use crate::config::Scope;
use crate::files;
use crate::files::{Release, ReleaseParameter, ReleaseValues, ValuesPlace};
use crate::terminal::count;

use super::Job;
use super::process::TempFolder;
use super::values::{SingleValue, ValuesFile};

/// Maximum number of charts and releases in a note.
const MAX_NOTED: usize = 3;
/// Maximum number of characters of the name of a release.
const MAX_NAME: usize = 53;

pub(super) struct Chart {
    pub(super) folder: PathBuf,
    pub(super) name: String,
    /// The chart as a user would type it.
    pub(super) shown: String,
    pub(super) source: Arc<Source>,
    /// The place where the file names the chart.
    pub(super) span: Span,
    pub(super) scope: usize,
    /// What installs the chart; each is rendered.
    pub(super) installs: Vec<Install>,
    /// The dependencies that are not in its folder `charts`.
    pub(super) missing: Missing,
}

/// The dependencies of a chart that are not in its folder `charts`.
#[derive(Default)]
pub(super) struct Missing {
    /// The names of those that are elsewhere.
    pub(super) remote: Vec<String>,
    /// The names and folders of those in the checkout, which `helm dependency build` would copy.
    pub(super) local: Vec<(String, PathBuf)>,
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.remote.is_empty() && self.local.is_empty()
    }
}

/// An installation of a chart, with its values.
pub(super) enum Install {
    /// The chart with its own values, where nothing else is known.
    Own,
    /// An entry of the configuration.
    Configured(HelmConfig),
    /// An object of Argo CD or Flux.
    Release(Release),
}

impl Install {
    /// The release of an object of Argo CD or Flux.
    pub(super) fn release(&self) -> Option<&Release> {
        match self {
            Install::Release(release) => Some(release),
            Install::Own | Install::Configured(_) => None,
        }
    }

    /// The files of the checkout that give it values.
    pub(super) fn values_files(&self) -> Vec<&PathBuf> {
        let values = self.release().into_iter().flat_map(|release| &release.values);
        let files = values.filter_map(|values| match values {
            ReleaseValues::File(path) => Some(path),
            ReleaseValues::Inline(..) => None,
        });
        files.collect()
    }

    /// Whether its values replace those that the chart has itself.
    pub(super) fn replaces_values(&self) -> bool {
        self.release().is_some_and(|release| release.replaces_values)
    }

    /// The command that renders it, as a user would type it, or the object that stands for it.
    pub(super) fn command(&self, chart: &Chart) -> String {
        let mut command = format!("helm template {}", chart.shown);
        match self {
            Install::Own => {}
            Install::Configured(entry) => {
                if let Some(name) = &entry.name {
                    command = format!("helm template {name} {}", chart.shown);
                }
                entry.values.iter().for_each(|file| command.push_str(&format!(" -f {file}")));
                if let Some(namespace) = &entry.namespace {
                    command.push_str(&format!(" -n {namespace}"));
                }
            }
            Install::Release(release) => command.push_str(&format!(" as {} does", release.object)),
        }
        command
    }
}

/// What `helm template` is given beside the chart.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) name: String,
    /// Whether the name stands for one that is not known.
    pub(super) is_placeholder: bool,
    pub(super) namespace: Option<String>,
    /// The version of Kubernetes, if the installation says one.
    pub(super) kubernetes: Option<String>,
    /// Whether the values are not checked against the chart's schema.
    pub(super) skips_schema: bool,
    pub(super) values: Vec<PathBuf>,
    pub(super) parameters: Vec<ReleaseParameter>,
    /// The parameters whose places are known.
    pub(super) singles: Vec<SingleValue>,
    /// The folder of the values that are no files, which is removed with this.
    _folder: Option<TempFolder>,
}

/// The first of some entries, and the number of the others.
pub(super) fn list(entries: Vec<String>) -> String {
    let more = entries.len().saturating_sub(MAX_NOTED);
    let shown = entries.into_iter().take(MAX_NOTED).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// The lines that say what the renders leave out, of charts of which some are rendered.
pub(super) fn notes<'c>(
    rendered: impl Iterator<Item = &'c Chart>,
    charts: &[Chart],
    job: &Job<'_>,
) -> Vec<String> {
    let incomplete = rendered.filter(|chart| !chart.missing.remote.is_empty());
    let incomplete: Vec<String> =
        incomplete.map(|chart| format!("{} ({})", chart.shown, chart.missing.remote.join(", "))).collect();
    let releases = charts.iter().flat_map(|chart| &chart.installs).filter_map(Install::release);
    let releases = releases.filter_map(|release| Some((release, release.unknown.as_ref()?)));
    let unknown: Vec<String> =
        releases.map(|(release, reason)| format!("{} ({reason})", release.object)).collect();
    let mut out = Vec::new();
    if !incomplete.is_empty() {
        let what = "rendered without dependencies that are not in charts/";
        out.push(format!("{} {what}: {}", count(incomplete.len(), "chart"), list(incomplete)));
    }
    let outside = releases_outside(job);
    if outside > 0 {
        let what = "of charts that are not in the checkout not rendered";
        out.push(format!("{} {what}", count(outside, "release")));
    }
    if !unknown.is_empty() {
        let what = "of charts not rendered, because not everything is known";
        out.push(format!("{} {what}: {}", count(unknown.len(), "release"), list(unknown)));
    }
    out
}

/// The number of objects of Argo CD and Flux that install a chart of a registry.
fn releases_outside(job: &Job<'_>) -> usize {
    let is_outside = |object: &&Object| {
        if object.is(Kind::HELM_RELEASE) {
            let spec = object.get("spec");
            let kind = spec.path(&["chart", "spec", "sourceRef", "kind"]);
            let named = spec.path(&["chartRef", "kind"]);
            return kind.text() == Some("HelmRepository") || named.text() == Some("OCIRepository");
        }
        let is_argo = object.is(Kind::ARGO_APPLICATION) || object.is(Kind::ARGO_APPLICATION_SET);
        is_argo && application_sources(object).any(|one| one.get("chart").is_set())
    };
    let files = job.batch.reads.iter().filter(|read| read.manifest).filter_map(|read| read.file.as_ref());
    files.flat_map(|file| &file.objects).filter(is_outside).count()
}

/// The path of a values file that a configuration names: in the chart, or relative to the configuration.
pub(super) fn values_file(chart: &Path, configuration: &Scope, file: &str) -> Option<PathBuf> {
    let paths = [Some(files::absolute(&chart.join(file))), configuration.resolve(file)];
    paths.into_iter().flatten().find(|path| path.is_file())
}

/// The dependencies of a chart that are not in its folder `charts`.
pub(super) fn missing_dependencies(folder: &Path, root: &Node<'_>) -> Missing {
    let entries = fs::read_dir(folder.join("charts")).into_iter().flatten().flatten();
    // Helm knows a chart by its name, not by that of its folder.
    let vendored: Vec<String> = entries
        .map(|entry| {
            let folder = entry.file_name().to_string_lossy().into_owned();
            name_of(&entry.path()).unwrap_or(folder)
        })
        .collect();
    let is_there = |name: &str| {
        vendored.iter().any(|known| {
            let rest = known.strip_prefix(name);
            known == name || rest.is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".tgz"))
        })
    };
    let mut missing = Missing::default();
    let requirements = dependency_file(folder).filter(|file| *file != "Chart.yaml");
    let documents = requirements.and_then(|file| read_yaml(&folder.join(file)));
    let listed = documents.as_ref().and_then(|all| all.first()?.root()).unwrap_or_else(|| root.clone());
    for one in listed.get("dependencies").items() {
        let Some(name) = one.get("name").text().filter(|name| !is_there(name)) else { continue };
        match local_dependency(folder, &one).filter(|path| name_of(path).as_deref() == Some(name)) {
            Some(path) => missing.local.push((name.to_owned(), path)),
            None => missing.remote.push(name.to_owned()),
        }
    }
    // A chart may have a dependency several times, under other aliases.
    let mut seen = BTreeSet::new();
    missing.remote.retain(|name| seen.insert(name.clone()));
    missing.local.dedup();
    missing
}

/// The folder that a dependency names as its repository: `file://../lib`.
pub(super) fn local_dependency(chart: &Path, dependency: &Node<'_>) -> Option<PathBuf> {
    let below = dependency.get("repository").text()?.strip_prefix("file://")?;
    Some(files::absolute(&chart.join(below)))
}

/// The name of the chart in a folder.
fn name_of(folder: &Path) -> Option<String> {
    Some(read_yaml(&folder.join("Chart.yaml"))?.first()?.root()?.get("name").text()?.to_owned())
}

fn read_yaml(path: &Path) -> Option<Vec<Document>> {
    Some(source::read(&Source::new("file", fs::read(path).ok()?)))
}

/// The file in which a chart lists its dependencies: `requirements.yaml` for charts of `apiVersion: v1`.
fn dependency_file(folder: &Path) -> Option<&'static str> {
    const FILES: [&str; 2] = ["requirements.yaml", "Chart.yaml"];
    let documents = read_yaml(&folder.join("Chart.yaml"))?;
    let is_old = documents.first()?.root()?.get("apiVersion").text() != Some("v2");
    FILES.into_iter().find(|file| (is_old || *file != FILES[0]) && folder.join(file).is_file())
}

/// Removes dependencies from the list of a copy of a chart: `helm template` refuses a chart that lacks one.
pub(super) fn remove_dependencies(copy: &Path, missing: &[String]) -> io::Result<()> {
    let Some(file) = dependency_file(copy) else { return Ok(()) };
    let path = copy.join(file);
    let documents = source::read(&Source::new(file, fs::read(&path)?));
    let root = documents.first().and_then(|document| document.root());
    let Some(mut root) = root.map(|root| root.to_json()) else { return Ok(()) };
    if let Some(Value::Array(all)) = root.get_mut("dependencies") {
        let is_missing = |one: &Value| {
            one["name"].as_str().is_some_and(|name| missing.iter().any(|missing| missing == name))
        };
        all.retain(|one| !is_missing(one));
    }
    // JSON is YAML.
    fs::write(&path, root.to_string())?;
    match fs::remove_file(path.with_extension("lock")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What `helm template` is given for an installation, and the files that hold its values, in ascending order of precedence.
pub(super) fn arguments(
    chart: &Chart,
    install: &Install,
    job: &Job<'_>,
) -> Result<(Arguments, Vec<ValuesFile>), String> {
    let Job { scopes, sources, .. } = job;
    let mut arguments = Arguments::default();
    let mut files = Vec::new();
    match install {
        Install::Own => {}
        Install::Configured(entry) => {
            arguments.name = entry.name.clone().unwrap_or_default();
            arguments.namespace.clone_from(&entry.namespace);
            for name in &entry.values {
                let path = values_file(&chart.folder, scopes.get(chart.scope), name);
                let path = path.ok_or_else(|| {
                    format!("there is no `{name}` in the chart or relative to the configuration")
                })?;
                files.extend(ValuesFile::read(&path, sources));
                arguments.values.push(path);
            }
        }
        Install::Release(release) => add_release(&mut arguments, &mut files, release, job)?,
    }
    if arguments.name.is_empty() {
        arguments.name = placeholder(&chart.name);
        arguments.is_placeholder = true;
    }
    Ok((arguments, files))
}

/// Adds what a release gives its chart.
fn add_release(
    arguments: &mut Arguments,
    files: &mut Vec<ValuesFile>,
    release: &Release,
    job: &Job<'_>,
) -> Result<(), String> {
    let folder = TempFolder::new().map_err(|error| error.to_string())?;
    for (number, values) in release.values.iter().enumerate() {
        match values {
            ReleaseValues::File(path) => {
                files.extend(ValuesFile::read(path, job.sources));
                arguments.values.push(path.clone());
            }
            ReleaseValues::Inline(values, place) => {
                let path = folder.path().join(format!("values-{number}.json"));
                fs::write(&path, values.to_string()).map_err(|error| error.to_string())?;
                arguments.values.push(path);
                files.extend(place.as_ref().and_then(|place| values_at(place, job)));
            }
        }
    }
    arguments.name = release.name.chars().take(MAX_NAME).collect();
    arguments.kubernetes.clone_from(&release.kubernetes);
    arguments.skips_schema = release.skips_schema;
    arguments.namespace.clone_from(&release.namespace);
    arguments.parameters.clone_from(&release.parameters);
    let singles = release.parameters.iter();
    let single = |one: &ReleaseParameter| {
        SingleValue::new(&one.name, &one.value, &values_at(one.place.as_ref()?, job)?)
    };
    arguments.singles = singles.filter_map(single).collect();
    arguments._folder = Some(folder);
    Ok(())
}

/// The name of a release of which only the chart is known: most are called after it.
fn placeholder(chart: &str) -> String {
    let name: String = chart.chars().take(MAX_NAME).collect();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.starts_with(is_plain)
        && name.ends_with(is_plain)
        && name.chars().all(|c| is_plain(c) || c == '-');
    if is_name { name } else { "release-name".to_owned() }
}

/// The values at a place. A rendered object has other documents than the file that it comes from.
fn values_at(place: &ValuesPlace, job: &Job<'_>) -> Option<ValuesFile> {
    let file = job.batch.inputs.iter().position(|one| one.input.absolute == place.path)?;
    let objects = &job.batch.reads[file].file.as_ref()?.objects;
    let named = objects.iter().filter(|one| one.id().kind == place.kind && one.name() == place.name);
    let mut documents = named.filter_map(|object| Some(object.origin()?.document as usize));
    let first = documents.clone().next()?;
    let document = documents.find(|document| *document == place.document).unwrap_or(first);
    Some(ValuesFile::read(&place.path, job.sources)?.at_steps(document, place.steps.clone()))
}

#[cfg(test)]
mod tests {
    use super::placeholder;

    #[test]
    fn a_release_is_called_after_its_chart() {
        assert_eq!(placeholder("gpu-pools"), "gpu-pools");
        assert_eq!(placeholder(&"a".repeat(70)).len(), 53);
        for odd in ["", "Pools", "a.b", "-a"] {
            assert_eq!(placeholder(odd), "release-name");
        }
    }
}
