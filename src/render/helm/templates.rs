//! The templates of a chart and of its subcharts, and the values files that each reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;

use crate::render::installs::{Chart, local_dependency};
use crate::render::sources::Sources;
use crate::render::values::{SingleValue, ValuesFile};

/// Maximum depth of the folders of a chart that are searched for templates.
const MAX_TEMPLATE_DEPTH: usize = 12;

pub(super) struct FoundTemplate {
    /// The path of the template; `None` if the chart is packaged.
    pub(super) template: Option<PathBuf>,
    /// The subcharts on the path: the key of each in the values of its parent, and its folder.
    pub(super) subcharts: Vec<(String, PathBuf)>,
    /// The place where the parent chart names a packaged chart.
    pub(super) dependency: Option<(Arc<Source>, Span)>,
}

pub(super) fn find_template(chart: &Chart, from: &str, sources: &Sources) -> FoundTemplate {
    let rest = from.strip_prefix(&chart.name).or_else(|| from.split_once('/').map(|(_, rest)| rest));
    let mut rest = rest.unwrap_or(from).trim_start_matches('/');
    let mut folder = chart.folder.clone();
    let mut subcharts = Vec::new();
    while let Some(below) = rest.strip_prefix("charts/") {
        let Some((name, tail)) = below.split_once('/') else { break };
        match subchart(&folder, name, sources) {
            Some(found) => {
                subcharts.push((name.to_owned(), found.clone()));
                folder = found;
                rest = tail;
            }
            None => {
                let dependency = dependency_place(&folder, name, sources);
                return FoundTemplate { template: None, subcharts, dependency };
            }
        }
    }
    let template = folder.join(rest);
    FoundTemplate { template: template.is_file().then_some(template), subcharts, dependency: None }
}

fn subchart(parent: &Path, name: &str, sources: &Sources) -> Option<PathBuf> {
    let charts = parent.join("charts");
    let name_of = |folder: &Path| {
        chart_field(&folder.join("Chart.yaml"), sources, |root| root.get("name").text().map(str::to_owned))
    };
    let plain = charts.join(name);
    if name_of(&plain).is_some_and(|own| own == name) {
        return Some(plain);
    }
    let dependency = chart_field(&parent.join("Chart.yaml"), sources, |root| {
        let named =
            |key: &str| root.get("dependencies").items().find(|entry| entry.get(key).text() == Some(name));
        let entry = named("alias").or_else(|| named("name"))?;
        Some((entry.get("name").text()?.to_owned(), local_dependency(parent, &entry)))
    });
    let (wanted, local) = dependency.unwrap_or_else(|| (name.to_owned(), None));
    let entries = fs::read_dir(&charts).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    folders.extend(local);
    folders.into_iter().find(|folder| name_of(folder).is_some_and(|own| own == wanted))
}

fn chart_field<T>(path: &Path, sources: &Sources, read: impl FnOnce(&Node<'_>) -> Option<T>) -> Option<T> {
    if !path.is_file() {
        return None;
    }
    let source = sources.get(path)?;
    let documents = source::read(&source);
    read(&documents.first()?.root()?)
}

fn dependency_place(parent: &Path, name: &str, sources: &Sources) -> Option<(Arc<Source>, Span)> {
    let path = parent.join("Chart.yaml");
    let span = chart_field(&path, sources, |root| {
        let mut entries = root.get("dependencies").items();
        let names = |entry: &Node<'_>, key: &str| entry.get(key).text() == Some(name);
        entries.find(|entry| names(entry, "alias") || names(entry, "name"))?.get("name").span()
    })?;
    Some((sources.get(&path)?, span))
}

/// The values that an installation gives a chart.
pub(super) struct Values<'v> {
    /// In ascending order of precedence.
    pub(super) files: Vec<ValuesFile>,
    pub(super) singles: &'v [SingleValue],
    /// Whether the chart has its own values beside them.
    pub(super) has_own: bool,
}

/// The values files that a template reads, in descending order of precedence.
pub(super) fn values_of(
    chart: &Chart,
    given: &Values<'_>,
    found: &FoundTemplate,
    sources: &Sources,
) -> Vec<ValuesFile> {
    let keys =
        |from: usize| found.subcharts.iter().skip(from).map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut out: Vec<ValuesFile> = given.files.iter().rev().map(|file| file.of_subchart(keys(0))).collect();
    let folders = std::iter::once(&chart.folder).chain(found.subcharts.iter().map(|(_, folder)| folder));
    for (depth, folder) in folders.enumerate() {
        let path = folder.join("values.yaml");
        if path.is_file() && (given.has_own || depth > 0) {
            out.extend(ValuesFile::read(&path, sources).map(|file| file.of_subchart(keys(depth))));
        }
    }
    out
}

/// The texts of all templates of a chart and its subcharts, with those that print nothing.
pub(super) fn template_texts(chart: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    let mut open = vec![(chart.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop().filter(|(_, depth)| *depth < MAX_TEMPLATE_DEPTH) {
        for path in fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            let is_template = path.components().any(|part| part.as_os_str() == "templates");
            if path.is_dir() {
                open.push((path, depth + 1));
            } else if is_template {
                texts.extend(fs::read_to_string(&path).ok());
            }
        }
    }
    texts
}
