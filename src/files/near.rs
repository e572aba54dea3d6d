//! Finds the chart or checkout that a file is applied with from the folders above it, without a walk of the
//! checkout.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::folders::{chart_above, parents_of};
use super::kustomization::Kustomization;
use super::{Directories, Disk, absolute};

/// Folders that conventionally contain objects of Flux or Argo CD.
const GITOPS_FOLDERS: &[&str] =
    &["clusters", "flux", "flux-system", "argocd", "argo-cd", "argo", "applications", "bootstrap", "gitops"];

/// The folders above some files, each read once.
#[derive(Debug, Default)]
pub(crate) struct Near {
    folders: HashMap<PathBuf, Folder>,
}

#[derive(Debug)]
struct Folder {
    is_root: bool,
    /// The paths that its kustomization lists.
    listed: Vec<PathBuf>,
    /// Whether it contains a folder of Flux or Argo CD.
    has_gitops: bool,
    is_chart: bool,
}

impl Folder {
    fn read(folder: &Path) -> Folder {
        Folder {
            is_root: folder.join(".git").exists(),
            listed: Kustomization::read(folder, &Disk::default(), &Directories::default())
                .map(|kustomization| kustomization.resources)
                .unwrap_or_default(),
            has_gitops: GITOPS_FOLDERS.iter().any(|name| folder.join(name).is_dir()),
            is_chart: folder.join("Chart.yaml").is_file(),
        }
    }
}

impl Near {
    fn folder(&mut self, path: &Path) -> &Folder {
        self.folders.entry(path.to_owned()).or_insert_with(|| Folder::read(path))
    }

    /// The folder of the chart that installs a file as it is written, from its folder `crds`: for nested
    /// charts, the outermost one.
    pub(crate) fn claiming_chart(&mut self, file: &Path) -> Option<PathBuf> {
        let mut chart = parents_of(file, "crds").find(|chart| self.folder(chart).is_chart)?;
        while let Some(above) = chart_above(chart).filter(|above| self.folder(above).is_chart) {
            chart = above;
        }
        Some(chart.to_owned())
    }

    /// The checkout that contains a file, if a kustomization above the file lists it or a folder that
    /// contains it, or if one of the folders above contains a folder of Flux or Argo CD. A checkout is the
    /// nearest folder above with `.git`, or the current one.
    pub(crate) fn claiming_checkout(&mut self, file: &Path) -> Option<PathBuf> {
        let here = absolute(Path::new("."));
        let mut found = false;
        for above in file.ancestors().skip(1) {
            let folder = self.folder(above);
            found |= folder.has_gitops || folder.listed.iter().any(|path| file.starts_with(path));
            if folder.is_root {
                return found.then(|| above.to_owned());
            }
            // Above the current folder only the root of a repository counts as a checkout.
            if above == here {
                let repository = here.ancestors().skip(1).any(|above| above.join(".git").exists());
                if !repository {
                    return found.then_some(here);
                }
            }
        }
        None
    }
}
