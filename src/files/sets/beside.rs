//! Folders beside each other that are the parts of one cluster: one of them has all its NodePools.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use gpulint_rules::workload::template::workload_kind;
use gpulint_rules::{Bond, Kind, Object};

use super::environments::{ENVIRONMENT_FOLDERS, is_environment};
use super::identity;
use super::index::Files;
use super::transform::Transform;

/// Maximum number of folders, and of levels below the one that has them all. Larger trees have more than one application.
const MAX_FOLDERS: usize = 16;
const MAX_LEVELS: usize = 2;

/// The kinds of which a cluster has those of one folder.
const OF_NODES: [Kind; 2] = [Kind::NODE_POOL, Kind::EC2_NODE_CLASS];

/// How certain it is that files which no set claims are of one cluster: likely, if one folder has all NodePools and node classes, and no
/// pods that would make it an example of its own, and no object is there twice.
pub(super) fn bond(files: &Files<'_>) -> Bond {
    match is_one_cluster(files) {
        Some(true) => Bond::Likely,
        _ => Bond::Folders,
    }
}

fn is_one_cluster(files: &Files<'_>) -> Option<bool> {
    let is_manifest = |file: &usize| !files.list[*file].objects.is_empty();
    let manifests: Vec<usize> = (0..files.list.len()).filter(is_manifest).collect();
    let is_of_nodes = |object: &Object| OF_NODES.iter().any(|kind| object.is(*kind));
    let has_nodes = |file: &usize| files.list[*file].objects.iter().any(is_of_nodes);
    // Most inputs have none.
    let first = files.folder(*manifests.iter().find(|file| has_nodes(file))?)?;
    let folders: BTreeSet<&Path> = manifests.iter().map(|file| files.folder(*file)).collect::<Option<_>>()?;
    let common = first.ancestors().find(|above| folders.iter().all(|folder| folder.starts_with(above)))?;
    let is_too_deep =
        |folder: &&Path| folder.strip_prefix(common).is_ok_and(|rest| rest.components().count() > MAX_LEVELS);
    // A folder with the pools and folders below it are compared anyway.
    if common == first || folders.len() > MAX_FOLDERS || folders.iter().any(is_too_deep) {
        return None;
    }
    let mut seen = HashSet::new();
    for file in manifests {
        let folder = files.folder(file)?;
        let is_here = folder == first;
        if !is_here && (has_nodes(&file) || is_alternative(folder, common)) {
            return None;
        }
        for object in files.list[file].objects {
            let source = object.origin().map(|origin| &origin.source);
            let is_copied = source.is_some_and(|source| source.is_example() || source.is_template());
            let has_pods = is_here && workload_kind(object).is_some();
            let identity = identity::applied(object, &Transform::default());
            let is_twice = identity.is_some_and(|identity| !seen.insert(identity));
            if is_copied || has_pods && !object.is(Kind::DAEMON_SET) || is_twice {
                return None;
            }
        }
    }
    Some(true)
}

/// Whether a folder, or one above it, has a name for one of several clusters.
fn is_alternative(folder: &Path, common: &Path) -> bool {
    let rest = folder.strip_prefix(common).unwrap_or(folder);
    rest.iter().any(|name| {
        let name = name.to_string_lossy();
        is_environment(&name) || ENVIRONMENT_FOLDERS.contains(&&*name)
    })
}
