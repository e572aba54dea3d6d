//! How the workloads relate whose pods one selector matches: versions of one program, parts of one group, or others.

use crate::cluster::Cluster;
use crate::object::Object;
use crate::workload::class::repository;
use crate::workload::template::{Template, templates};

/// Words in keys of labels that tell versions of one workload apart.
const VERSION_WORDS: [&str; 12] = [
    "version", "track", "canary", "release", "slot", "color", "colour", "revision", "variant", "stage",
    "lane", "env",
];

/// Words in names of the parts of one group, or of versions of one workload.
const PART_WORDS: [&str; 20] = [
    "leader", "worker", "head", "master", "primary", "replica", "canary", "stable", "blue", "green",
    "baseline", "preview", "shadow", "spot", "ondemand", "prefill", "decode", "a", "b", "new",
];

/// Whether two workloads are versions of one program or parts of one group, so that one selector for both is meant: by
/// the images of their containers, a label that tells versions apart, or their names.
pub(in crate::rules) fn belong_together(a: &Object, b: &Object) -> bool {
    are_versions(a, b) || images(a) == images(b)
}

/// Whether a label that tells versions apart, or their names, show that two workloads are versions of one program or
/// parts of one group.
pub(in crate::rules) fn are_versions(a: &Object, b: &Object) -> bool {
    let is_part = |word: &str| PART_WORDS.contains(&word) || version_number(word);
    let words = |name: &str| name.split(['-', '.', '_']).map(str::to_owned).collect::<Vec<_>>();
    let (mut left, mut right) = (words(a.name()), words(b.name()));
    left.retain(|word| !is_part(word));
    right.retain(|word| !is_part(word));
    left == right || has_version_label(a, b)
}

/// `v2`, `20240501`
fn version_number(word: &str) -> bool {
    let digits = word.strip_prefix('v').unwrap_or(word);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a label that names a version has different values in both, or only one has it.
fn has_version_label(a: &Object, b: &Object) -> bool {
    let (left, right) = (templates(a), templates(b));
    let (Some(left), Some(right)) = (left.first(), right.first()) else { return false };
    let (left, right) = (left.labels(), right.labels());
    let value = |labels: &[(&str, crate::tree::node::Node<'_>)], key: &str| {
        let found = labels.iter().find(|(label, _)| *label == key);
        found.and_then(|(_, value)| value.text().map(str::to_owned))
    };
    let is_version = |key: &str| {
        let lower = key.to_ascii_lowercase();
        lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| VERSION_WORDS.contains(&word))
    };
    let keys = left.iter().chain(&right).map(|(key, _)| *key);
    keys.filter(|key| is_version(key) && *key != "app.kubernetes.io/version")
        .any(|key| value(&left, key) != value(&right, key))
}

/// The repositories of the images of a workload's containers.
fn images(object: &Object) -> Vec<String> {
    let mut out: Vec<String> = templates(object)
        .iter()
        .flat_map(Template::containers)
        .filter_map(|container| container.get("image").text().map(|image| repository(image).to_owned()))
        .collect();
    out.sort();
    out.dedup();
    out
}

/// Whether the images of all containers of a workload are known.
pub(in crate::rules) fn has_known_images(object: &Object) -> bool {
    let all = templates(object);
    !all.is_empty()
        && all.iter().flat_map(Template::containers).all(|container| container.get("image").text().is_some())
}

/// Whether two objects are applied to one cluster, under two names.
pub(in crate::rules) fn run_together(a: &Object, b: &Object, cluster: &Cluster) -> bool {
    a.name() != b.name()
        && cluster.likely_pairs(a, b)
        && !a.is_patched_by_kustomize()
        && !b.is_patched_by_kustomize()
}
