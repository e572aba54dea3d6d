//! Number of devices that the containers and pods of a template request, and number of pods that are created from it.

use std::collections::BTreeMap;

use crate::catalog::Accelerator;
use crate::facts::quantity::Quantity;
use crate::object::{Memo, Object};
use crate::tree::node::Node;
use crate::workload::gpu::{
    is_accelerator, is_extended, requested_extended_resources, requests_accelerator, uses_device,
};
use crate::workload::ray::{self, Extent};
use crate::workload::template::{Template, replicas, templates};

/// Whether a pod of a workload requests an accelerator of a device plugin, and whether one does so in any way.
static ACCELERATORS: Memo<(bool, bool)> = Memo::new();

fn accelerators(object: &Object) -> (bool, bool) {
    if object.workload().is_none() {
        return (false, false);
    }
    *object.memo(&ACCELERATORS, || {
        let templates = templates(object);
        (templates.iter().any(requests_accelerator), templates.iter().any(uses_device))
    })
}

/// Whether a pod of a workload requests an accelerator, as a resource or through a claim.
pub(crate) fn uses_accelerators(object: &Object) -> bool {
    accelerators(object).1
}

/// Whether a pod of a workload requests an amount of the extended resource of an accelerator. For what depends on the amount,
/// or on the device plugin: devices of claims are counted nowhere.
pub(crate) fn requests_device_plugin(object: &Object) -> bool {
    accelerators(object).0
}

/// The names of the accelerators of an object in messages: those of GPUs unless all that it requests are others.
pub(crate) fn accelerator_names(object: &Object) -> (&'static str, &'static str) {
    names_of_accelerators(templates(object).iter().flat_map(requested_extended_resources))
}

/// The names in messages of the accelerators among resources: those of GPUs unless all are others.
pub(crate) fn names_of_accelerators<'r>(
    resources: impl Iterator<Item = &'r str>,
) -> (&'static str, &'static str) {
    let mut names = resources.filter_map(Accelerator::of_part).map(Accelerator::names);
    let gpus = Accelerator::Nvidia.names();
    let first = names.next().unwrap_or(gpus);
    if names.all(|name| name == first) { first } else { gpus }
}

#[derive(Clone, Debug)]
pub(crate) struct Devices<'a> {
    pub(crate) count: i64,
    pub(crate) node: Node<'a>,
}

/// The devices of a resource that a container requests; `None` if it requests none or their number is unknown.
pub(crate) fn devices_of<'a>(container: &Node<'a>, resource: &str) -> Option<Devices<'a>> {
    devices_in(&container.get("resources"), resource)
}

/// The devices of a resource in limits and requests.
pub(crate) fn devices_in<'a>(resources: &Node<'a>, resource: &str) -> Option<Devices<'a>> {
    let node = ["limits", "requests"]
        .map(|side| resources.path(&[side, resource]))
        .into_iter()
        .find(Node::is_set)?;
    let quantity = Quantity::at(&node)?;
    let count = i64::try_from(quantity.value()).ok()?;
    (quantity.is_whole() && count > 0).then_some(Devices { count, node })
}

/// The whole GPUs that a container requests.
pub(crate) fn gpus_of<'a>(container: &Node<'a>) -> Option<Devices<'a>> {
    gpus_in(&container.get("resources"))
}

/// The whole GPUs in limits and requests.
pub(crate) fn gpus_in<'a>(resources: &Node<'a>) -> Option<Devices<'a>> {
    ["nvidia.com/gpu", "amd.com/gpu"].iter().find_map(|resource| devices_in(resources, resource))
}

/// The extended resources that a pod requests, as the scheduler computes them: the sum over containers and sidecars,
/// or the largest init container.
pub(crate) fn pod_devices<'a>(template: &Template<'a>) -> BTreeMap<&'a str, Devices<'a>> {
    let mut out: BTreeMap<&'a str, Devices<'a>> = BTreeMap::new();
    for container in template.containers() {
        for name in extended_resources_of(&container) {
            if let Some(devices) = devices_of(&container, name) {
                let sum = out.entry(name).or_insert(Devices { count: 0, node: devices.node });
                sum.count = sum.count.saturating_add(devices.count);
            }
        }
    }
    let mut sidecars: BTreeMap<&'a str, i64> = BTreeMap::new();
    let mut largest: BTreeMap<&'a str, Devices<'a>> = BTreeMap::new();
    for container in template.spec.get("initContainers").items() {
        for name in extended_resources_of(&container) {
            let Some(devices) = devices_of(&container, name) else { continue };
            if container.get("restartPolicy").text() == Some("Always") {
                let sum = out.entry(name).or_insert(Devices { count: 0, node: devices.node });
                sum.count = sum.count.saturating_add(devices.count);
                *sidecars.entry(name).or_default() += devices.count;
            } else {
                let count = devices.count.saturating_add(sidecars.get(name).copied().unwrap_or(0));
                let most = largest.entry(name).or_insert(Devices { count: 0, node: devices.node });
                most.count = most.count.max(count);
            }
        }
    }
    for (name, devices) in largest {
        match out.get_mut(name) {
            Some(sum) if sum.count >= devices.count => {}
            _ => _ = out.insert(name, devices),
        }
    }
    out
}

/// The extended resources that a container names, without duplicates.
pub(crate) fn extended_resources_of<'a>(container: &Node<'a>) -> Vec<&'a str> {
    extended_resources_in(&container.get("resources"))
}

/// The extended resources in limits and requests, without duplicates.
pub(crate) fn extended_resources_in<'a>(resources: &Node<'a>) -> Vec<&'a str> {
    let limits = resources.get("limits").entries();
    let requests = resources.get("requests").entries();
    let mut out: Vec<&str> =
        limits.iter().chain(&requests).map(|(name, _)| *name).filter(|n| is_extended(n)).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The first accelerator that a template requests, with its number.
pub(crate) fn first_accelerator<'a>(template: &Template<'a>) -> Option<(&'a str, Devices<'a>)> {
    pod_devices(template).into_iter().find(|(name, _)| is_accelerator(name))
}

/// Number of pods from a template that run at a time. `None` if it is unknown.
pub(crate) fn pods_of(object: &Object, template: &Template<'_>) -> Option<i64> {
    let pointer = template.spec.pointer();
    let above = |levels: usize| object.root().at(&pointer.above(levels));
    let id = object.id();
    match (id.group.as_str(), id.kind.as_str()) {
        ("", "Pod") => Some(1),
        ("batch", "Job" | "CronJob") => parallel(&above(2)),
        ("keda.sh", "ScaledJob") => parallel(&object.path(&["spec", "jobTargetRef"])),
        ("jobset.x-k8s.io", _) | ("trainer.kubeflow.org", "TrainJob") => {
            Some(above(4).get("replicas").int_or(1)?.saturating_mul(parallel(&above(2))?))
        }
        ("kubeflow.org", "Notebook") => Some(1),
        ("kubeflow.org" | "batch.volcano.sh", _) => above(2).get("replicas").int_or(1),
        ("ray.io", _) => ray::pods_of_template(template, Extent::First),
        ("leaderworkerset.x-k8s.io", _) => {
            pods_of_groups(object, template, object.path(&["spec", "replicas"]).int_or(1)?)
        }
        _ => replicas(object),
    }
}

/// Number of pods of a template for a number of replicas of its object: a replica of a LeaderWorkerSet is a group of
/// pods.
pub(crate) fn pods_of_groups(object: &Object, template: &Template<'_>, replicas: i64) -> Option<i64> {
    if object.group() != "leaderworkerset.x-k8s.io" {
        return Some(replicas);
    }
    let group = object.path(&["spec", "leaderWorkerTemplate"]);
    let size = group.get("size").int_or(1)?;
    let in_group = match (template.is_of_leaders(), template.is_of_workers()) {
        (true, _) => 1,
        (_, true) => size - 1,
        _ => size,
    };
    Some(replicas.saturating_mul(in_group))
}

/// Number of pods of a Job that run at a time.
fn parallel(spec: &Node<'_>) -> Option<i64> {
    let parallelism = spec.get("parallelism").int_or(1)?;
    let completions = spec.get("completions");
    if !completions.is_set() {
        return Some(parallelism);
    }
    Some(parallelism.min(completions.int()?))
}

/// Number of pods with accelerators in one run, from all templates. `None` if it is unknown.
pub(crate) fn pods_with_accelerators(object: &Object) -> Option<i64> {
    let mut total = 0i64;
    for template in templates(object).iter().filter(|t| uses_device(t)) {
        total = total.saturating_add(pods_of(object, template)?);
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn devices_add_up_as_in_the_scheduler() {
        let gpu = |n: i64| json!({"limits": {"nvidia.com/gpu": n}});
        let object = Object::from_json(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": gpu(1)},
                    {"name": "i", "resources": gpu(4)},
                ],
                "containers": [{"name": "c", "resources": gpu(1)}, {"name": "d", "resources": gpu(2)}],
            },
        }))
        .expect("an object");
        let templates = templates(&object);
        let counts: Vec<_> = pod_devices(&templates[0]).into_iter().map(|(n, d)| (n, d.count)).collect();
        assert_eq!(counts, [("nvidia.com/gpu", 5)]);
    }

    #[test]
    fn pods_are_counted_by_kind() {
        let pod = json!({"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}});
        let cases = [
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 4, "completions": 3, "template": pod}}),
                3,
            ),
            (
                json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [
                {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": pod}}}]}}),
                8,
            ),
            (
                json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {
                "Master": {"template": pod}, "Worker": {"replicas": 3, "template": pod}}}}),
                4,
            ),
            (
                json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": {
                "replicas": 2, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": pod, "workerTemplate": pod}}}),
                8,
            ),
            (
                json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {
                "headGroupSpec": {"template": pod}, "workerGroupSpecs": [{"replicas": 2, "template": pod}]}}),
                3,
            ),
        ];
        for (mut value, pods) in cases {
            value["metadata"] = json!({"name": "a"});
            let object = Object::from_json(&value).expect("an object");
            assert_eq!(pods_with_accelerators(&object), Some(pods), "{value}");
        }
    }
}
