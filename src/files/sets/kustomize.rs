//! The files that kustomizations apply together.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::Bond;
use rayon::prelude::*;

use super::draft::{Draft, Sign};
use super::environments::{beside_each_other, ends, is_environment, name_of};
use super::identity;
use super::index::Files;
use super::names::SetName;
use super::transform::{Reach, Transform};

use crate::files::kustomization::Kustomization;

/// Maximum depth to which nested kustomizations are followed.
const MAX_DEPTH: usize = 16;

/// Collects the files that kustomizations reach.
pub(super) struct Expansion<'f, 'a> {
    files: &'f Files<'a>,
    seen: HashSet<(&'a Path, Option<Arc<str>>, String, String)>,
    pub(super) reach: Reach,
}

impl<'f, 'a> Expansion<'f, 'a> {
    pub(super) fn new(files: &'f Files<'a>) -> Self {
        Expansion { files, seen: HashSet::new(), reach: Vec::new() }
    }

    fn find(&self, folder: &Path) -> Option<&'a Kustomization> {
        Some(self.find_with_folder(folder)?.1)
    }

    fn find_with_folder(&self, folder: &Path) -> Option<(&'a PathBuf, &'a Kustomization)> {
        self.files.folders.kustomizations.get_key_value(folder)
    }

    /// Applies the kustomization of a folder, if there is one.
    pub(super) fn kustomization(&mut self, folder: &Path, how: &Transform) -> bool {
        self.expand(folder, how, 0)
    }

    fn expand(&mut self, folder: &Path, how: &Transform, depth: usize) -> bool {
        let Some((folder, own)) = self.find_with_folder(folder) else { return false };
        let key = (folder.as_path(), how.namespace.clone(), how.prefix.clone(), how.suffix.clone());
        if depth > MAX_DEPTH || !self.seen.insert(key) {
            return true;
        }
        let components: Vec<&Kustomization> =
            own.components.iter().filter_map(|path| self.find(path)).collect();
        let how = how.with(own, &components);
        self.entries(own, &how, depth);
        // The name changes of a component apply to all objects and are in `how` already; here the component
        // only adds its objects.
        components.into_iter().for_each(|component| self.entries(component, &how, depth));
        true
    }

    fn entries(&mut self, of: &Kustomization, how: &Transform, depth: usize) {
        for path in &of.resources {
            match self.files.at(path) {
                Some(file) => self.reach.push((file, how.clone())),
                None => _ = self.expand(path, how, depth + 1),
            }
        }
    }

    /// Applies a component on top of the files that have been applied.
    pub(super) fn component(&mut self, folder: &Path, how: &Transform) {
        if let Some(component) = self.find(folder) {
            self.reach.iter_mut().for_each(|(_, how)| how.add_component(component));
            self.entries(component, how, 0);
        }
    }

    /// Applies all files below a folder, as Flux does for a folder without a kustomization: the outermost
    /// kustomizations below it are applied as such.
    pub(super) fn generated(&mut self, folder: &Path, how: &Transform) {
        if self.kustomization(folder, how) {
            return;
        }
        let files: Vec<(&Path, usize)> = self.files.below(folder).collect();
        for (path, file) in files {
            let above = path.ancestors().skip(1).take_while(|above| *above != folder);
            match above.filter(|above| self.find(above).is_some()).last() {
                Some(kustomization) => _ = self.kustomization(kustomization, how),
                None => self.reach.push((file, how.clone())),
            }
        }
    }
}

/// A kustomization that no other one includes.
pub(super) struct Top<'a> {
    pub(super) folder: &'a Path,
    pub(super) reach: Reach,
}

/// The kustomizations that no other one includes, except components, which are not built alone.
pub(super) fn tops<'a>(files: &Files<'a>) -> Vec<Top<'a>> {
    let all = files.folders.kustomizations_in_order();
    let mut included: HashSet<&PathBuf> = HashSet::new();
    for (folder, kustomization) in &all {
        let paths = kustomization.resources.iter().chain(&kustomization.components);
        included.extend(paths.filter(|path| path != folder));
    }
    let is_top = |(folder, kustomization): &(&'a PathBuf, &'a Kustomization)| {
        !kustomization.is_component && !included.contains(folder)
    };
    let tops = all.into_par_iter().filter(is_top).map(|(folder, _)| {
        let mut expansion = Expansion::new(files);
        expansion.kustomization(folder, &Transform::default());
        Top { folder, reach: expansion.reach }
    });
    tops.filter(|top| !top.reach.is_empty()).collect()
}

/// Adds the sets of kustomizations: one for all that do not repeat each other's objects, and one for each of
/// the others.
pub(super) fn add<'a>(draft: &mut Draft<'_, 'a>, tops: Vec<Top<'a>>) {
    let files = draft.files;
    let mut free: Vec<Top<'_>> = Vec::new();
    for top in tops {
        let configured = draft.clusters_of_folder(top.folder);
        if !configured.is_empty() {
            for set in configured {
                top.reach.iter().for_each(|(file, how)| draft.add_member(*file, set, how));
            }
            continue;
        }
        let is_free = |(file, _): &(usize, Transform)| {
            !files.list[*file].objects.is_empty() && !draft.is_claimed(*file)
        };
        if top.reach.iter().any(is_free) {
            free.push(top);
        }
    }
    let mut repeats = repeating(files, free.iter().map(|top| &top.reach));
    for number in sharing_environments(&free) {
        repeats[number] = true;
    }
    let (repeating, others): (Vec<_>, Vec<_>) =
        free.into_iter().enumerate().partition(|(number, _)| repeats[*number]);
    for (_, top) in repeating {
        let name = SetName::Folder(top.folder.to_owned());
        let set = draft.add_set(name, Bond::Certain, Sign::Kustomization, vec![top.folder.to_owned()]);
        top.reach.iter().for_each(|(file, how)| draft.add_member(*file, set, how));
    }
    let others: Vec<Top<'_>> = others.into_iter().map(|(_, top)| top).collect();
    for (name, tops) in by_environment(&others) {
        let places: Vec<PathBuf> = tops.iter().map(|top| top.folder.to_owned()).collect();
        let set = match places.as_slice() {
            [] => return,
            [only] => {
                let name = SetName::Folder(only.clone());
                draft.add_set(name, Bond::Certain, Sign::Kustomization, places)
            }
            _ => draft.add_set(SetName::Fixed(name), Bond::Likely, Sign::Kustomizations, places),
        };
        for top in tops {
            top.reach.iter().for_each(|(file, how)| draft.add_member(*file, set, how));
        }
    }
}

/// The kustomizations that may be of one cluster, with a name for all of them: those of each environment, and with them those
/// that belong to no environment.
fn by_environment<'t, 'a>(tops: &'t [Top<'a>]) -> Vec<(String, Vec<&'t Top<'a>>)> {
    let folders = beside_each_other(tops.iter().map(|top| top.folder));
    let names: Vec<Vec<String>> = tops.iter().map(|top| name_of(top.folder, &folders)).collect();
    let ends: BTreeSet<&Vec<String>> = ends(names.iter()).into_iter().collect();
    if ends.len() < 2 {
        return vec![("kustomizations".to_owned(), tops.iter().collect())];
    }
    let of = |end: &Vec<String>| {
        let members = tops.iter().zip(&names).filter(|(_, name)| end.starts_with(name));
        (end.join("/"), members.map(|(top, _)| top).collect())
    };
    ends.into_iter().map(of).collect()
}

/// Whether each of some groups of files contains objects that another group contains as well.
fn repeating<'r>(files: &Files<'_>, groups: impl Iterator<Item = &'r Reach>) -> Vec<bool> {
    let mut first: HashMap<u64, usize> = HashMap::new();
    let mut repeats = Vec::new();
    for (number, reach) in groups.enumerate() {
        repeats.push(false);
        for (file, how) in reach {
            for identity in files.list[*file].objects.iter().filter_map(|o| identity::applied(o, how)) {
                let holder = *first.entry(identity).or_insert(number);
                if holder != number {
                    repeats[holder] = true;
                    repeats[number] = true;
                }
            }
        }
    }
    repeats
}

/// The kustomizations beside each other that are named like environments and apply a common file. They may
/// change its names, so that their objects differ.
fn sharing_environments(tops: &[Top<'_>]) -> BTreeSet<usize> {
    let mut first: HashMap<(&Path, usize), usize> = HashMap::new();
    let mut found = BTreeSet::new();
    for (number, top) in tops.iter().enumerate() {
        let name = top.folder.file_name().unwrap_or_default().to_string_lossy();
        let Some(parent) = top.folder.parent().filter(|_| is_environment(&name)) else { continue };
        for (file, _) in &top.reach {
            let holder = *first.entry((parent, *file)).or_insert(number);
            if holder != number {
                found.extend([holder, number]);
            }
        }
    }
    found
}
