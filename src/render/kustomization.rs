//! A kustomization as it is written: what it includes, what it lists, and its patches.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::{Document, Source};

use crate::files;
use crate::files::KUSTOMIZATIONS;

use super::sources::Sources;

/// A kustomization.
pub(super) struct Kustomization {
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
    pub(super) source: Arc<Source>,
    documents: Vec<Document>,
    /// How files are reported.
    sources: Arc<Sources>,
    /// Entries that are not in the file system, with their fields.
    pub(super) remote: Vec<(&'static str, String)>,
    /// Folders that it includes.
    pub(super) folders: Vec<PathBuf>,
    /// Files that it lists: resources, and patches.
    pub(super) files: Vec<PathBuf>,
    pub(super) is_component: bool,
}

impl Kustomization {
    pub(super) fn read(folder: &Path, sources: &Arc<Sources>) -> Option<Kustomization> {
        let mut files = KUSTOMIZATIONS.iter().map(|name| folder.join(name));
        let file = files.find(|file| file.is_file())?;
        let source = sources.get(&file)?;
        let documents = source::read(&source);
        let mut out = Kustomization {
            folder: folder.to_owned(),
            file,
            source,
            documents,
            sources: Arc::clone(sources),
            remote: Vec::new(),
            folders: Vec::new(),
            files: Vec::new(),
            is_component: false,
        };
        let (mut remote, mut folders, mut files) = (Vec::new(), Vec::new(), Vec::new());
        let root = out.root()?;
        // Flux calls objects of its own so.
        let api = root.get("apiVersion").text().unwrap_or("kustomize.config.k8s.io/v1beta1");
        if !api.starts_with("kustomize.config.k8s.io/") {
            return None;
        }
        let is_component = root.get("kind").text() == Some("Component");
        for field in ["resources", "bases", "components", "generators", "transformers", "crds"] {
            for entry in root.get(field).items() {
                let Some(text) = entry.text() else { continue };
                let path = files::absolute(&folder.join(text));
                match fs::metadata(&path) {
                    Ok(data) if data.is_dir() => folders.push(path),
                    Ok(_) => files.push(path),
                    Err(_) if is_remote(text) => remote.push((field, text.to_owned())),
                    Err(_) => {}
                }
            }
        }
        for field in ["helmCharts", "helmChartInflationGenerator"] {
            for chart in root.get(field).items() {
                let name = chart.get("name").text().or(chart.get("chartName").text()).unwrap_or(field);
                remote.push((field, name.to_owned()));
            }
        }
        for patch in patches(&root) {
            files.extend(patch.file.map(|file| files::absolute(&folder.join(file))));
        }
        (out.remote, out.folders, out.files, out.is_component) = (remote, folders, files, is_component);
        Some(out)
    }

    /// A file, as the same text for all that ask for it.
    pub(super) fn text_of(&self, path: &Path) -> Option<Arc<Source>> {
        self.sources.get(path)
    }

    pub(super) fn root(&self) -> Option<Node<'_>> {
        self.documents.first().and_then(|document| document.root())
    }
}

/// Whether an entry that is not in the file system names a repository or a file elsewhere.
fn is_remote(entry: &str) -> bool {
    let first = entry.split('/').next().unwrap_or_default();
    entry.contains("://")
        || entry.contains("?ref=")
        || entry.starts_with("git@")
        || entry.contains(".git/")
        || entry.ends_with(".git")
        || entry.contains('/') && first.contains('.') && !first.starts_with('.') && !first.ends_with(".yaml")
}

/// A patch of a kustomization.
pub(super) struct Patch<'k> {
    /// Its file, as written.
    pub(super) file: Option<&'k str>,
    /// Its text, where it is in the kustomization.
    pub(super) inline: Option<Node<'k>>,
    /// What it changes, where it says so.
    pub(super) target: Node<'k>,
}

/// The patches of a kustomization, in their order.
pub(super) fn patches<'k>(root: &Node<'k>) -> Vec<Patch<'k>> {
    let mut out = Vec::new();
    for entry in root.get("patchesStrategicMerge").items() {
        let is_inline = entry.text().is_some_and(|text| text.contains('\n'));
        let file = entry.text().filter(|_| !is_inline);
        out.push(Patch { file, inline: is_inline.then(|| entry.clone()), target: entry.get("target") });
    }
    for field in ["patches", "patchesJson6902"] {
        for entry in root.get(field).items() {
            let inline = entry.get("patch");
            let file = entry.get("path").text().or(entry.text());
            let inline = inline.text().is_some().then_some(inline);
            out.push(Patch { file: file.filter(|_| inline.is_none()), inline, target: entry.get("target") });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::is_remote;

    #[test]
    fn entries_elsewhere_are_told_from_paths() {
        for entry in [
            "https://example.com/a.yaml",
            "github.com/org/repo//deploy?ref=v1",
            "git@example.com:org/repo.git",
            "ssh://git@example.com/a",
            "github.com/org/repo/deploy",
        ] {
            assert!(is_remote(entry), "{entry}");
        }
        for entry in ["../base", "a.yaml", "./x/y", "apps/web", "web.yaml/x"] {
            assert!(!is_remote(entry), "{entry}");
        }
    }
}
