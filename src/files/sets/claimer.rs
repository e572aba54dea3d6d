//! Objects that make a controller apply files, and the resolution of their paths.

use std::path::{Component, Path, PathBuf};

use gpulint_rules::Object;
use rayon::prelude::*;

use super::index::Files;
use super::transform::Reach;
use crate::files::without_link;

/// The group of Argo CD's objects.
const ARGO_CD: &str = "argoproj.io";
/// The group of the Flux Operator's objects.
pub(super) const FLUX_OPERATOR: &str = "fluxcd.controlplane.io";

/// The cluster to which something is applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Destination {
    /// The cluster in which the applying tool runs.
    Local,
    /// A cluster that the Argo CD of an environment calls its own.
    Environment(String),
    /// The cluster of a kubeconfig in a Secret.
    KubeConfig(String),
    /// A cluster by its address or name in Argo CD.
    Cluster(String),
}

/// The tool that applies files to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Flux,
    Argo,
    /// A kustomization that contains Kustomizations of Flux or Applications, and that is applied by hand or
    /// by a script.
    Kustomize,
}

/// An object that makes a controller apply files.
#[derive(Debug)]
pub(super) struct Claimer {
    pub(super) tool: Tool,
    /// The index of the file that contains it; `None` for a kustomization.
    pub(super) file: Option<usize>,
    /// The path of the file, or the folder of the kustomization.
    pub(super) place: PathBuf,
    pub(super) destination: Destination,
    /// The folders that it applies.
    pub(super) folders: Vec<PathBuf>,
    /// The files that it applies.
    pub(super) reach: Reach,
}

/// The name of a repository, from its address.
pub(super) fn repository(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    url.rsplit(['/', ':']).next().unwrap_or(url)
}

/// An object of Flux or Argo CD.
pub(super) struct GitOpsObject<'a> {
    /// The index of its file.
    pub(super) file: usize,
    pub(super) object: &'a Object,
}

impl<'a> GitOpsObject<'a> {
    pub(super) fn all(files: &Files<'a>) -> Vec<GitOpsObject<'a>> {
        let files = files.list.par_iter().enumerate();
        let is_gitops =
            |group: &str| group.ends_with(".fluxcd.io") || group == ARGO_CD || group == FLUX_OPERATOR;
        let objects = files.flat_map_iter(|(file, one)| {
            let found = one.objects.iter().filter(|object| is_gitops(&object.id().group));
            found.map(move |object| GitOpsObject { file, object })
        });
        objects.collect()
    }
}

/// Resolves the paths in objects of Flux and Argo CD.
pub(super) struct Checkout<'f, 'a> {
    pub(super) files: &'f Files<'a>,
    /// The folder that contains all files.
    root: PathBuf,
}

impl<'f, 'a> Checkout<'f, 'a> {
    pub(super) fn new(files: &'f Files<'a>) -> Self {
        Checkout { files, root: files.root() }
    }

    /// The nearest folder above with `.git`, or the one that contains all files.
    pub(super) fn root_of(&self, file: &Path) -> PathBuf {
        let mut above = file.ancestors().skip(1);
        let repository = above.find(|folder| self.files.folders.directories.has(folder, ".git"));
        repository.unwrap_or(&self.root).to_owned()
    }

    /// Resolves a path that is relative to the root of the checkout to a folder. A controller may see a part
    /// of the repository as its root, so each folder between the root and the file is tried.
    pub(super) fn folder(&self, file: &Path, written: &str) -> Option<PathBuf> {
        let path = plain(written)?;
        let root = self.root_of(file);
        let mut roots: Vec<&Path> =
            file.ancestors().skip(1).take_while(|above| above.starts_with(&root)).collect();
        roots.push(&root);
        roots.dedup();
        if path.as_os_str().is_empty() {
            return Some(root);
        }
        let folders: Vec<PathBuf> = roots.into_iter().rev().map(|above| above.join(&path)).collect();
        let is_there = |folder: &PathBuf| self.files.has_folder(folder);
        // The input has what links lead to, not the links.
        let linked = || folders.iter().map(|folder| without_links(folder, &root)).find(is_there);
        folders.iter().find(|folder| is_there(folder)).cloned().or_else(linked)
    }
}

/// A path below a root, with the links in it resolved.
fn without_links(path: &Path, root: &Path) -> PathBuf {
    let parts = path.strip_prefix(root).unwrap_or(Path::new("")).components();
    parts.fold(root.to_owned(), |path, part| without_link(path.join(part)))
}

/// A relative path without `.` and `..`; a leading `/` is ignored. `None` if it leads out of the checkout.
fn plain(written: &str) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in Path::new(written.trim_start_matches('/')).components() {
        match part {
            Component::Normal(part) => out.push(part),
            Component::ParentDir if !out.pop() => return None,
            _ => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::plain;

    #[test]
    fn paths_are_below_the_root() {
        assert_eq!(plain("./apps/a"), Some(PathBuf::from("apps/a")));
        assert_eq!(plain("/apps/a/../b/"), Some(PathBuf::from("apps/b")));
        assert_eq!(plain("./"), Some(PathBuf::new()));
        assert_eq!(plain("../x"), None);
    }
}
