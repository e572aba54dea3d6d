//! Folders beside each other that are the parts of one cluster: one of them has all its NodePools.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use gpulint_rules::karpenter::nodepool::NODEPOOL_LABEL;
use gpulint_rules::workload::template::{templates, workload_kind};
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
/// pods that would make it an example of its own, pods of another folder select a label of the pools or tolerate a taint of theirs, and
/// no object is there twice. Folders of lessons have pools and pods that know nothing of each other.
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
    let here = manifests.iter().filter(|file| files.folder(**file) == Some(first));
    let keys: HashSet<String> =
        here.flat_map(|file| files.list[*file].objects).flat_map(keys_of_nodes).collect();
    let mut seen = HashSet::new();
    let mut is_meant = false;
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
            is_meant |= !is_here && asks_for(object, &keys);
        }
    }
    Some(is_meant)
}

/// The keys of labels and taints that a NodePool gives its nodes.
fn keys_of_nodes(object: &Object) -> Vec<String> {
    if !object.is(Kind::NODE_POOL) {
        return Vec::new();
    }
    let template = object.path(&["spec", "template"]);
    let labels = template.path(&["metadata", "labels"]).entries().into_iter().map(|(key, _)| key.to_owned());
    let taints = template.path(&["spec", "taints"]).items();
    let taints = taints.filter_map(|taint| taint.get("key").text().map(str::to_owned));
    labels.chain(taints).chain([NODEPOOL_LABEL.to_owned()]).collect()
}

/// Whether the pods of an object select nodes by one of these keys, or tolerate a taint with one.
fn asks_for(object: &Object, keys: &HashSet<String>) -> bool {
    let is_one = |key: &str| keys.contains(key);
    templates(object).iter().any(|template| {
        let selects = template.spec.get("nodeSelector").entries().iter().any(|(key, _)| is_one(key));
        let mut tolerations = template.spec.get("tolerations").items();
        selects || tolerations.any(|toleration| toleration.get("key").text().is_some_and(is_one))
    })
}

/// Whether a folder, or one above it, has a name for one of several clusters.
fn is_alternative(folder: &Path, common: &Path) -> bool {
    let rest = folder.strip_prefix(common).unwrap_or(folder);
    rest.iter().any(|name| {
        let name = name.to_string_lossy();
        is_environment(&name) || ENVIRONMENT_FOLDERS.contains(&&*name)
    })
}
