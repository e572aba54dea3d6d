//! The sets of an input: which files are applied to one cluster together.
//!
//! The evidence, in descending order of certainty: `clusters` of the configuration, Flux and Argo CD,
//! kustomizations, folders that are named like environments. A file that none of them claims belongs to the
//! sets of its folder, or to a set of its own. Without any set, folders beside each other may be parts of one cluster.

mod argo;
mod beside;
mod claimer;
mod draft;
mod environments;
mod facts;
mod flux;
mod gitops;
mod identity;
mod index;
mod kustomize;
mod names;
mod reference;
mod releases;
mod template_patch;
mod transform;

use super::Folders;
use claimer::{Checkout, GitOpsObject};
use draft::Draft;
use index::Files;

pub(crate) use draft::{Evidence, Sets, Sign, UNCLAIMED};
pub(crate) use flux::{FluxBuild, FluxChanges};
pub(crate) use index::SetFile;
pub(crate) use reference::references;
pub(crate) use releases::{Release, ReleaseParameter, ReleaseValues, ValuesPlace};

pub(crate) fn discover_sets(list: &[SetFile<'_>], folders: &Folders) -> Sets {
    let files = Files::new(list, folders);
    if files.is_empty() {
        return Sets::default();
    }
    let mut draft = Draft::new(&files);
    draft.add_configured();
    let (tops, claimers) = rayon::join(|| kustomize::tops(&files), || gitops::claimers(&files));
    gitops::add(&mut draft, claimers, &tops);
    kustomize::add(&mut draft, tops);
    draft.add_configured_files();
    environments::add(&mut draft);
    let mut sets = draft.finish();
    if sets.partition.is_whole() {
        sets.partition.bond = beside::bond(&files);
    }
    facts::add(&mut sets, &files);
    sets
}

/// The Kustomizations of Flux in an input that apply a folder of it.
pub(crate) fn discover_builds(list: &[SetFile<'_>], folders: &Folders) -> Vec<FluxBuild> {
    let files = Files::new(list, folders);
    if files.is_empty() {
        return Vec::new();
    }
    flux::builds(&Checkout::new(&files), &GitOpsObject::all(&files))
}

/// The releases of charts in an input.
pub(crate) fn discover_releases(list: &[SetFile<'_>], folders: &Folders) -> Vec<Release> {
    let files = Files::new(list, folders);
    if files.is_empty() || !folders.has_charts() {
        return Vec::new();
    }
    let checkout = Checkout::new(&files);
    let objects = GitOpsObject::all(&files);
    let mut releases: Vec<Release> = Vec::new();
    let found = argo::releases(&checkout, &objects).into_iter().chain(flux::releases(&checkout, &objects));
    for release in found {
        let path = list[release.file].input.absolute.clone();
        let release = Release { path, ..release };
        // Kustomizations of several environments may apply one object without a change.
        if !releases.iter().any(|known| known.is_same(&release)) {
            releases.push(release);
        }
    }
    releases
}
