//! Whether something near a file says what it is applied together with, found without a walk of the checkout.

use std::path::{Path, PathBuf};

use super::absolute;
use super::kustomization::Kustomization;

/// Folders that hold what Flux or Argo CD apply, by convention.
const GITOPS_FOLDERS: &[&str] =
    &["clusters", "flux", "flux-system", "argocd", "argo-cd", "argo", "applications", "bootstrap", "gitops"];

/// The checkout that a file is in: the folder above with `.git`, or the current one.
pub(crate) fn checkout(file: &Path) -> Option<PathBuf> {
    let repository = file.ancestors().skip(1).find(|folder| folder.join(".git").exists());
    let here = || Some(absolute(Path::new("."))).filter(|here| file.starts_with(here));
    repository.map(Path::to_owned).or_else(here)
}

/// Whether a kustomization above a file lists it or a folder that it is in, or a folder beside those above is one of
/// Flux or Argo CD.
pub(crate) fn has_claim(file: &Path, checkout: &Path) -> bool {
    let above = || file.ancestors().skip(1).take_while(|folder| folder.starts_with(checkout));
    let lists = |folder: &Path| {
        let listed = Kustomization::read(folder).map(|kustomization| kustomization.resources);
        listed.is_some_and(|paths| paths.iter().any(|path| file.starts_with(path)))
    };
    above().any(lists) || above().any(|folder| GITOPS_FOLDERS.iter().any(|name| folder.join(name).is_dir()))
}
