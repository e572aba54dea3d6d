//! What the folders around a file say of it: charts and kustomizations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use gpulint_rules::source::PatchTarget;

use super::kustomization::{KUSTOMIZATIONS, Kustomization};
use super::{Input, SkipReason};

/// Charts and patches around the inputs.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// Folders with a `Chart.yaml`.
    charts: HashSet<PathBuf>,
    /// Kustomizations by their folders.
    kustomizations: BTreeMap<PathBuf, Kustomization>,
    /// Files that a kustomization names as resources.
    resources: HashSet<PathBuf>,
    /// Files that a kustomization names as patches.
    patches: HashSet<PathBuf>,
    /// What kustomizations change in a file.
    targets: HashMap<PathBuf, Vec<PatchTarget>>,
}

impl Folders {
    /// Looks at every folder that an input is in or under.
    pub(crate) fn discover(inputs: &[Input]) -> Folders {
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
                if let Some(kustomization) = Kustomization::read(folder) {
                    folders.kustomizations.insert(folder.to_owned(), kustomization);
                }
            }
        }
        for kustomization in folders.kustomizations.values() {
            folders.resources.extend(kustomization.resources.clone());
            folders.patches.extend(kustomization.patches.clone());
        }
        folders.resolve_patch_targets();
        folders
    }

    /// What each kustomization changes in the files that it and those below it list.
    fn resolve_patch_targets(&mut self) {
        for (folder, kustomization) in &self.kustomizations {
            let mut targets = kustomization.targets.clone();
            for component in &kustomization.components {
                let component = self.kustomizations.get(component);
                targets.extend(component.into_iter().flat_map(|c| c.targets.clone()));
            }
            if targets.is_empty() {
                continue;
            }
            let mut seen = HashSet::from([folder]);
            let mut open = vec![kustomization];
            while let Some(kustomization) = open.pop() {
                for path in &kustomization.resources {
                    if !seen.insert(path) {
                        continue;
                    }
                    match self.kustomizations.get(path) {
                        Some(below) => open.push(below),
                        None => {
                            let file = self.targets.entry(path.clone()).or_default();
                            file.extend(targets.iter().cloned());
                        }
                    }
                }
            }
        }
    }

    /// Why a file is no manifest, where its name and its folders say so.
    pub(crate) fn skip_reason(&self, input: &Input) -> Option<SkipReason> {
        let path = &input.absolute;
        let name = path.file_name()?.to_string_lossy();
        if name == "gpulint.yaml" {
            return Some(SkipReason::Config);
        }
        if KUSTOMIZATIONS.contains(&&*name) {
            return Some(SkipReason::Kustomization);
        }
        let in_templates = path.ancestors().skip(1).any(|folder| {
            folder.file_name().is_some_and(|n| n == "templates")
                && folder.parent().is_some_and(|p| self.charts.contains(p))
        });
        if in_templates {
            return Some(SkipReason::HelmTemplate);
        }
        let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
        let beside_chart = path.parent().is_some_and(|p| self.charts.contains(p));
        (name.starts_with("values") && yaml && beside_chart).then_some(SkipReason::HelmValues)
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
        let beside = |folder: &Path| self.kustomizations.contains_key(folder);
        named && beside(folder)
            || folder.file_name().is_some_and(|name| name == "patches") && folder.parent().is_some_and(beside)
    }

    /// Whether kustomize completes the file.
    pub(crate) fn is_kustomized(&self, input: &Input) -> bool {
        let path = &input.absolute;
        let beside = |folder| self.kustomizations.contains_key(folder);
        self.resources.contains(path) || path.parent().is_some_and(beside)
    }

    /// What kustomizations change in a file.
    pub(crate) fn targets(&self, input: &Input) -> &[PatchTarget] {
        self.targets.get(&input.absolute).map_or(&[], Vec::as_slice)
    }
}
