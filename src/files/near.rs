//! Whether something near a file says what it is applied together with, found without a walk of the checkout.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::absolute;
use super::kustomization::Kustomization;

/// Folders that hold what Flux or Argo CD apply, by convention.
const GITOPS_FOLDERS: &[&str] =
    &["clusters", "flux", "flux-system", "argocd", "argo-cd", "argo", "applications", "bootstrap", "gitops"];

/// What is known of the folders above some files.
#[derive(Debug, Default)]
pub(crate) struct Near {
    folders: HashMap<PathBuf, Folder>,
}

#[derive(Debug)]
struct Folder {
    /// Whether it is the root of a repository.
    is_root: bool,
    /// What its kustomization lists.
    listed: Vec<PathBuf>,
    /// Whether it holds a folder of Flux or Argo CD.
    has_gitops: bool,
}

impl Folder {
    fn read(folder: &Path) -> Folder {
        Folder {
            is_root: folder.join(".git").exists(),
            listed: Kustomization::read(folder)
                .map(|kustomization| kustomization.resources)
                .unwrap_or_default(),
            has_gitops: GITOPS_FOLDERS.iter().any(|name| folder.join(name).is_dir()),
        }
    }
}

impl Near {
    /// The checkout that a file is in if a kustomization above the file lists it or a folder that it is in, or a folder
    /// beside those above is one of Flux or Argo CD. A checkout is the folder above with `.git`, or the current one.
    pub(crate) fn claiming_checkout(&mut self, file: &Path) -> Option<PathBuf> {
        let here = absolute(Path::new("."));
        let mut found = false;
        for above in file.ancestors().skip(1) {
            let folder = self.folders.entry(above.to_owned()).or_insert_with(|| Folder::read(above));
            found |= folder.has_gitops || folder.listed.iter().any(|path| file.starts_with(path));
            if folder.is_root {
                return found.then(|| above.to_owned());
            }
            // Above the current folder only a repository counts.
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
