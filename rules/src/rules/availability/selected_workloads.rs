//! How the workloads relate whose pods one selector matches: versions of one program, parts of one group, or others.

use crate::cluster::Cluster;
use crate::facts::text::is_digits;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::command::{OptionValue, Word, base_name, words};
use crate::workload::gpu::uses_device;
use crate::workload::image::image_of;
use crate::workload::launcher::Launch;
use crate::workload::ports::{self, target_of};
use crate::workload::suspended::is_suspended;
use crate::workload::template::{Template, replicas, templates};

/// Words in keys of labels that tell versions of one workload apart.
const VERSION_WORDS: [&str; 12] = [
    "version", "track", "canary", "release", "slot", "color", "colour", "revision", "variant", "stage",
    "lane", "env",
];

/// Words in names of versions of one workload.
const VERSION_NAMES: [&str; 8] =
    ["canary", "stable", "blue", "green", "baseline", "preview", "shadow", "new"];

/// Words in names of workloads that run one program, each with a share of the work.
const SHARE_NAMES: [&str; 9] =
    ["master", "primary", "replica", "spot", "ondemand", "prefill", "decode", "a", "b"];

/// Words in names of the parts of a group that runs one program over several pods. Elsewhere a worker is another program
/// than what its name begins with.
const GROUP_NAMES: [&str; 3] = ["leader", "worker", "head"];

/// Whether two workloads are versions of one program or parts of one group, so that one selector for both is meant: by
/// their containers, a label that tells versions apart, or their names.
pub(in crate::rules) fn belong_together(a: &Object, b: &Object) -> bool {
    are_versions(a, b) || run_alike(a, b)
}

/// Whether a label that tells versions apart, or their names, show that two workloads are versions of one program or
/// parts of one group.
pub(in crate::rules) fn are_versions(a: &Object, b: &Object) -> bool {
    let is_part = |word: &str| {
        VERSION_NAMES.contains(&word)
            || SHARE_NAMES.contains(&word)
            || GROUP_NAMES.contains(&word) && is_in_group(a) && is_in_group(b)
            || version_number(word)
    };
    stem(a, is_part) == stem(b, is_part) || has_version_label(a, b)
}

/// Whether one of two servers of different models is to replace the other, as its name or a label for versions says.
pub(super) fn are_model_versions(a: &Object, b: &Object) -> bool {
    let is_version = |word: &str| VERSION_NAMES.contains(&word) || version_number(word);
    stem(a, is_version) == stem(b, is_version) || has_version_label(a, b)
}

/// The words of a name without those of parts.
fn stem(object: &Object, is_part: impl Fn(&str) -> bool) -> Vec<&str> {
    object.name().split(['-', '.', '_']).filter(|word| !is_part(word)).collect()
}

/// Whether the pods may be part of a group that runs one program: they have accelerators, or run a program that is
/// distributed over pods.
fn is_in_group(object: &Object) -> bool {
    const DISTRIBUTED: [&str; 5] = ["ray", "dask", "spark", "mpirun", "deepspeed"];
    let is_distributed = |container: Node<'_>| {
        let starts = |word: &Word<'_>| {
            DISTRIBUTED.contains(&base_name(&word.text).split('-').next().unwrap_or_default())
        };
        Launch::of(&container).is_some() || words(&container).iter().any(starts)
    };
    templates(object)
        .iter()
        .any(|template| uses_device(template) || template.containers().any(is_distributed))
}

/// Whether the containers of two workloads run the same programs: the same images, with the same words before the first
/// option, or servers that are not known to have different models.
pub(super) fn run_alike(a: &Object, b: &Object) -> bool {
    let programs = |object: &Object| -> Vec<(String, Vec<String>)> {
        let all = templates(object);
        let mut out: Vec<_> = all
            .iter()
            .flat_map(Template::containers)
            .filter_map(|container| {
                let image = image_of(&container)?.repository.to_owned();
                let words = words(&container);
                let own = words.iter().map(|word| word.text.clone());
                let is_server =
                    Launch::of(&container).is_some_and(|launch| launch.program.server().is_some());
                // Servers of models are compared by their models.
                let program =
                    if is_server { Vec::new() } else { own.take_while(|w| !w.starts_with('-')).collect() };
                Some((image, program))
            })
            .collect();
        out.sort();
        out.dedup();
        out
    };
    let are_other_models = || model(a).zip(model(b)).is_some_and(|(a, b)| a != b);
    programs(a) == programs(b) && !are_other_models()
}

/// The model that the servers of a workload answer for, if it is one: the name that clients ask for, which may be that of several
/// quantizations, or else the model.
pub(super) fn model(workload: &Object) -> Option<String> {
    only(workload, |launch, container| match launch.option(&["served-model-name"]) {
        OptionValue::Text(name, _) => Some(name),
        _ => Some(launch.model(container)?.0),
    })
}

/// The model that the servers of a workload load, if it is one, under whatever name.
pub(super) fn loaded_model(workload: &Object) -> Option<String> {
    only(workload, |launch, container| Some(launch.model(container)?.0))
}

/// What the only server of a workload says.
fn only(workload: &Object, read: impl Fn(&Launch<'_>, &Node<'_>) -> Option<String>) -> Option<String> {
    let templates = templates(workload);
    let containers = templates.iter().flat_map(Template::containers);
    let mut found = containers.filter_map(|container| read(&Launch::of(&container)?, &container));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// How the ports of a Service are among those that the containers of a workload list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PortMatch {
    Listed,
    /// The containers list no ports at all, which says nothing about what they listen on.
    NoneListed,
    OthersListed,
}

/// A port by name needs a container port of that name; one by number is compared with the numbers that are listed.
pub(super) fn port_of(spec: &Node<'_>, workload: &Object) -> PortMatch {
    let templates = templates(workload);
    let containers: Vec<Node<'_>> = templates.iter().flat_map(Template::lasting_containers).collect();
    let targets: Vec<Node<'_>> = spec.get("ports").items().map(|port| target_of(&port)).collect();
    let is_listed = |target: &Node<'_>| containers.iter().any(|one| ports::find(one, target).is_some());
    let mut ordinary = templates.iter().flat_map(Template::containers);
    let mut lists_none = || ordinary.all(|one| one.get("ports").items().next().is_none());
    match targets.iter().any(is_listed) {
        true => PortMatch::Listed,
        false if lists_none() && targets.iter().any(|target| target.int().is_some()) => PortMatch::NoneListed,
        false => PortMatch::OthersListed,
    }
}

/// `v2`, `20240501`
fn version_number(word: &str) -> bool {
    is_digits(word.strip_prefix('v').unwrap_or(word))
}

/// Whether a label that names a version has different values in both, or only one has it.
pub(super) fn has_version_label(a: &Object, b: &Object) -> bool {
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

/// Whether a workload has no pods as it is written: a suspended CronJob or Job, or no replicas.
pub(in crate::rules) fn is_stopped(workload: &Object) -> bool {
    is_suspended(workload) == Some(true) || replicas(workload) == Some(0)
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
