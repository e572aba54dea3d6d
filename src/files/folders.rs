//! What the folders around a file say of it: charts and kustomizations.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpulint_rules::Node;
use gpulint_rules::source::{self, Source};

use super::{Input, Reason, absolute};

/// The names that kustomize knows.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Charts and patches around the inputs.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// Folders with a `Chart.yaml`.
    charts: HashSet<PathBuf>,
    /// Folders with a kustomization.
    kustomizations: HashSet<PathBuf>,
    /// Files that a kustomization names as resources.
    resources: HashSet<PathBuf>,
    /// Files that a kustomization names as patches.
    patches: HashSet<PathBuf>,
}

impl Folders {
    /// Looks at every folder that an input is in or under.
    pub(crate) fn around(inputs: &[Input]) -> Folders {
        let mut folders = Folders::default();
        let mut seen: HashSet<&Path> = HashSet::new();
        for input in inputs {
            for folder in input.absolute.ancestors().skip(1) {
                if !seen.insert(folder) {
                    break;
                }
                if folder.join("Chart.yaml").is_file() {
                    folders.charts.insert(folder.to_owned());
                }
                for name in KUSTOMIZATIONS {
                    folders.read_kustomization(folder, name);
                }
            }
        }
        folders
    }

    fn read_kustomization(&mut self, folder: &Path, name: &str) {
        let path = folder.join(name);
        if !path.is_file() {
            return;
        }
        // What cannot be read names nothing; where it was given, the reader complains of it.
        let Ok(bytes) = fs::read(&path) else {
            return;
        };
        self.kustomizations.insert(folder.to_owned());
        let source = Source::new(name, bytes);
        for document in source::read(&source) {
            if let Some(root) = document.root() {
                let files = |names: Vec<&str>| {
                    let paths = names.into_iter().map(|f| absolute(&folder.join(f)));
                    paths.collect::<Vec<PathBuf>>()
                };
                self.patches.extend(files(patch_files(&root)));
                let resources = root.get("resources").items();
                self.resources
                    .extend(files(resources.filter_map(|f| f.text()).collect()));
            }
        }
    }

    /// Why a file is no manifest, where its name and its folders say so.
    pub(crate) fn class(&self, input: &Input) -> Option<Reason> {
        let path = &input.absolute;
        let name = path.file_name()?.to_string_lossy();
        if name == "gpulint.yaml" {
            return Some(Reason::Config);
        }
        if KUSTOMIZATIONS.contains(&&*name) {
            return Some(Reason::Kustomization);
        }
        let in_templates = path.ancestors().skip(1).any(|folder| {
            folder.file_name().is_some_and(|n| n == "templates")
                && folder.parent().is_some_and(|p| self.charts.contains(p))
        });
        if in_templates {
            return Some(Reason::HelmTemplate);
        }
        let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
        let beside_chart = path.parent().is_some_and(|p| self.charts.contains(p));
        (name.starts_with("values") && yaml && beside_chart).then_some(Reason::HelmValues)
    }

    /// Whether a kustomization names the file as a patch, or its own name says so beside one: the
    /// patches that a scaffold writes are often commented out.
    pub(crate) fn is_patch(&self, input: &Input) -> bool {
        let path = &input.absolute;
        if self.patches.contains(path) {
            return true;
        }
        if self.resources.contains(path) {
            return false;
        }
        let Some(folder) = path.parent() else {
            return false;
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let named = stem.strip_suffix("patch");
        let named = named.is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '_', '.']));
        let beside = |folder: &Path| self.kustomizations.contains(folder);
        named && beside(folder)
            || folder.file_name().is_some_and(|name| name == "patches")
                && folder.parent().is_some_and(beside)
    }

    /// Whether kustomize completes the file.
    pub(crate) fn is_kustomized(&self, input: &Input) -> bool {
        let path = &input.absolute;
        let beside = |folder| self.kustomizations.contains(folder);
        self.resources.contains(path) || path.parent().is_some_and(beside)
    }
}

/// The files that a kustomization's patches stand in; inline patches are text, not files.
fn patch_files<'a>(root: &Node<'a>) -> Vec<&'a str> {
    let mut files = Vec::new();
    for field in ["patches", "patchesJson6902"] {
        files.extend(root.get(field).items().filter_map(|p| p.get("path").text()));
    }
    let merges = root.get("patchesStrategicMerge");
    files.extend(merges.items().filter_map(|p| p.text()));
    files.retain(|file| !file.contains('\n'));
    files
}
