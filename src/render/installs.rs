//! What installs a chart: its own values, an entry of the configuration, or an object of Argo CD or Flux; and the
//! dependencies that it lacks.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use serde_json::Value;

use crate::config::Scope;
use crate::files;
use crate::files::{Release, ReleaseParameter, ReleaseValues};
use crate::terminal::count;

use super::Job;
use super::process::TempFolder;
use super::values::ValuesFile;

/// Maximum number of charts and releases in a note.
const MAX_NOTED: usize = 3;

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
    pub(super) missing: Vec<String>,
}

/// An installation of a chart, with its values.
pub(super) enum Install {
    /// The chart with its own values, where nothing else is known.
    Own,
    /// The values files of an entry of the configuration.
    Configured(Vec<String>),
    /// An object of Argo CD or Flux.
    Release(Release),
}

impl Install {
    /// The command that renders it, as a user would type it, or the object that stands for it.
    pub(super) fn command(&self, chart: &Chart) -> String {
        let mut command = format!("helm template {}", chart.shown);
        match self {
            Install::Own => {}
            Install::Configured(files) => {
                files.iter().for_each(|file| command.push_str(&format!(" -f {file}")))
            }
            Install::Release(release) => command.push_str(&format!(" as {} does", release.object)),
        }
        command
    }
}

/// What `helm template` is given beside the chart.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) values: Vec<PathBuf>,
    pub(super) parameters: Vec<ReleaseParameter>,
    /// The folder of the values that are no files, which is removed with this.
    _folder: Option<TempFolder>,
}

/// The lines that say what the renders leave out.
pub(super) fn notes(charts: &[Chart]) -> Vec<String> {
    let list = |entries: Vec<String>| {
        let more = entries.len().saturating_sub(MAX_NOTED);
        let shown = entries.into_iter().take(MAX_NOTED).collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{shown} and {more} more") } else { shown }
    };
    let incomplete = charts.iter().filter(|chart| !chart.missing.is_empty());
    let incomplete: Vec<String> =
        incomplete.map(|chart| format!("{} ({})", chart.shown, chart.missing.join(", "))).collect();
    let releases = charts.iter().flat_map(|chart| &chart.installs).filter_map(|install| match install {
        Install::Release(release) => Some((release, release.unknown.as_ref()?)),
        Install::Own | Install::Configured(_) => None,
    });
    let unknown: Vec<String> =
        releases.map(|(release, reason)| format!("{} ({reason})", release.object)).collect();
    let mut out = Vec::new();
    if !incomplete.is_empty() {
        let what = "rendered without dependencies that are not in charts/";
        out.push(format!("{} {what}: {}", count(incomplete.len(), "chart"), list(incomplete)));
    }
    if !unknown.is_empty() {
        let what = "of charts not rendered, because not all values are known";
        out.push(format!("{} {what}: {}", count(unknown.len(), "release"), list(unknown)));
    }
    out
}

/// The path of a values file that a configuration names: in the chart, or relative to the configuration.
pub(super) fn values_file(chart: &Path, configuration: &Scope, file: &str) -> Option<PathBuf> {
    let paths = [Some(files::absolute(&chart.join(file))), configuration.resolve(file)];
    paths.into_iter().flatten().find(|path| path.is_file())
}

/// The dependencies of a chart that are not in its folder `charts`, by the name under which it uses them.
pub(super) fn missing_dependencies(folder: &Path, root: &Node<'_>) -> Vec<String> {
    let entries = fs::read_dir(folder.join("charts")).into_iter().flatten().flatten();
    let vendored: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let names = root.get("dependencies").items().filter_map(|one| one.get("name").text().map(str::to_owned));
    let is_there = |name: &String| {
        vendored.iter().any(|known| {
            let rest = known.strip_prefix(name.as_str());
            known == name || rest.is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".tgz"))
        })
    };
    // A chart may have a dependency several times, under other aliases.
    let mut seen = BTreeSet::new();
    names.filter(|name| !is_there(name) && seen.insert(name.clone())).collect()
}

/// Removes dependencies from the `Chart.yaml` of a copy of a chart: `helm template` refuses a chart that lacks one.
pub(super) fn remove_dependencies(copy: &Path, missing: &[String]) -> io::Result<()> {
    let path = copy.join("Chart.yaml");
    let source = Source::new("Chart.yaml", fs::read(&path)?);
    let documents = source::read(&Arc::new(source));
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
    match fs::remove_file(copy.join("Chart.lock")) {
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
    let Job { scopes, sources, batch, .. } = job;
    let mut arguments = Arguments::default();
    let mut files = Vec::new();
    match install {
        Install::Own => {}
        Install::Configured(names) => {
            for name in names {
                let path = values_file(&chart.folder, scopes.get(chart.scope), name);
                let path = path.ok_or_else(|| {
                    format!("there is no `{name}` in the chart or relative to the configuration")
                })?;
                files.extend(ValuesFile::read(&path, sources));
                arguments.values.push(path);
            }
        }
        Install::Release(release) => {
            let folder = TempFolder::new().map_err(|error| error.to_string())?;
            for (number, values) in release.values.iter().enumerate() {
                match values {
                    ReleaseValues::File(path) => {
                        files.extend(ValuesFile::read(path, sources));
                        arguments.values.push(path.clone());
                    }
                    ReleaseValues::Inline(values, place) => {
                        let path = folder.path().join(format!("values-{number}.json"));
                        fs::write(&path, values.to_string()).map_err(|error| error.to_string())?;
                        arguments.values.push(path);
                        let object = &batch.inputs[release.file].input.absolute;
                        let place = place.as_ref();
                        files.extend(place.and_then(|(document, steps)| {
                            Some(ValuesFile::read(object, sources)?.at_mapping(*document, steps.clone()))
                        }));
                    }
                }
            }
            // A name of a release has at most 53 characters.
            arguments.name = Some(release.name.chars().take(53).collect());
            arguments.namespace.clone_from(&release.namespace);
            arguments.parameters.clone_from(&release.parameters);
            arguments._folder = Some(folder);
        }
    }
    Ok((arguments, files))
}
