//! A GPU pod is privileged, or uses the host's IPC namespace or its network devices.
//!
//! # Why
//! Using a GPU needs no privileges: the device plugin gives a container its devices. A privileged
//! container sees all GPUs of the node, those of other pods included, and can do to the node what root
//! can. `hostIPC` is often set for shared memory and opens the memory of every process on the node
//! instead. Pods that take care of nodes, and those with network devices such as EFA or RDMA, are left
//! alone.
//!
//! HAMi divides no GPU for a privileged container. Up to 2.6 its webhook leaves the pod to the default
//! scheduler, which finds `nvidia.com/gpumem` and `nvidia.com/gpucores` on no node, so that it stays
//! Pending; newer ones reject it. A pod that asks for these is an error.
//!
//! The device plugin of EFA gives a container its devices in `/dev/infiniband`. A `hostPath` mounted there
//! shows those of the whole node, of other adapters too on B200. Libfabric opens each of them, and finds no
//! EFA where one fails: NCCL goes on over TCP without a word. It is a warning where all nodes of the pods are
//! `p6-b200`, with which this was measured.
//!
//! Device files of accelerators, such as `/dev/nvidia0` or `/dev/kfd`, need no `hostPath` beside the resource:
//! the device plugin gives the container those of its device, and the cgroup keeps it from others. A file of
//! one card is not there on every node.
//!
//! # Fix
//! Remove `privileged` and `hostIPC`. For shared memory mount an emptyDir with `medium: Memory` at
//! `/dev/shm`. Remove the `hostPath` beside `vpc.amazonaws.com/efa`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//! -          securityContext: {privileged: true} # <-
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/security/pod-security-standards/>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/pod-security.html>
//! - <https://github.com/aws-samples/aws-do-eks/pull/63>
//! - <https://github.com/Project-HAMi/HAMi/issues/1352>

use crate::rules::gpu::{is_left_alone, selected_types};
use crate::rules::prelude::*;
use crate::rules::scheduling::quota_key_inert::OF_HAMI;
use crate::workload::devices::extended_resources_of;
use crate::workload::diagnostic::only_waits;
use crate::workload::gpu::{EFA, requested_extended_resources};

pub(crate) static RULE: Rule = Rule {
    id: "privileged-gpu-pod",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE, Kind::NODE_POOL],
    docs: docs(include_str!("privileged_gpu_pod.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// Whether a resource is a GPU. Other accelerators, such as TPUs, may need the devices of the node.
fn is_gpu(resource: &&str) -> bool {
    resource.starts_with("nvidia.com/") || *resource == "amd.com/gpu"
}

/// Reports a privileged container that asks HAMi for a part of a GPU (`Handle` of its `pkg/scheduler/webhook.go`, 2.3 to 2.7). With
/// its scheduler by name older releases place the pod.
fn divided_by_hami(template: &Template<'_>, privileged: &[Node<'_>], ctx: &mut Context<'_>) -> Option<()> {
    if template.spec.get("schedulerName").is_set() {
        return None;
    }
    let (container, resource) = privileged.iter().find_map(|container| {
        let mut names = extended_resources_of(container).into_iter();
        Some((container, names.find(|name| OF_HAMI.contains(name))?))
    })?;
    let name = ellipsize(container.get("name").text().unwrap_or("main"));
    let message = format!(
        "HAMi divides no GPU for `{name}`, which is privileged: no node has `{resource}` for the pod"
    );
    ctx.report(&container.path(&["securityContext", "privileged"]), message)
        .severity(Severity::Error)
        .help("remove `privileged`: HAMi gives a container its part of a GPU without it");
    Some(())
}

/// The GPUs of the largest usual nodes: a container with as many sees no others.
const MOST_GPUS: i64 = 8;

/// Reports the network devices of the node in a container that has its own from the device plugin of EFA.
fn fabric_of_host(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_fabric = |path: &str| matches!(path.trim_end_matches('/'), "/dev/infiniband" | "/dev");
    // A privileged container has all devices of the node anyway.
    let gets_efa = |container: &Node<'_>| {
        devices_of(container, EFA).is_some()
            && container.path(&["securityContext", "privileged"]).bool() != Some(true)
    };
    let mounts: Vec<Node<'_>> = template
        .containers()
        .filter(gets_efa)
        .flat_map(|container| container.get("volumeMounts").items().collect::<Vec<_>>())
        .filter(|mount| mount.get("mountPath").text().is_some_and(is_fabric))
        .collect();
    let mut volumes = template.spec.get("volumes").items();
    let (volume, mount) = volumes.find_map(|volume| {
        let name = volume.get("name").text()?;
        let is_of_host = volume.path(&["hostPath", "path"]).text().is_some_and(is_fabric);
        let mount = mounts.iter().find(|mount| is_of_host && mount.get("name").text() == Some(name))?;
        Some((volume, mount))
    })?;
    let object = ctx.object();
    let types = selected_types(template, ctx).map(|(types, _)| types);
    let is_sure = types
        .is_some_and(|types| !types.is_empty() && types.iter().all(|one| one.name.starts_with("p6-b200.")));
    ctx.report(
        &volume.path(&["hostPath", "path"]),
        format!(
            "the node's `{}` hides the devices that `{EFA}` gives",
            volume.path(&["hostPath", "path"]).text()?
        ),
    )
    .severity(if is_sure { Severity::Warning } else { Severity::Info })
    .help("remove the volume: the device plugin of EFA gives a container its devices")
    .related(object, mount, "mounted there");
    None
}

/// Device files of accelerators on a node, and the beginning of the resource whose device plugin gives them to a
/// container.
const DEVICE_FILES: [(&str, &str); 6] = [
    ("/dev/nvidia", "nvidia.com/"),
    ("/dev/kfd", "amd.com/"),
    ("/dev/dri", "amd.com/"),
    ("/dev/dri", "gpu.intel.com/"),
    ("/dev/neuron", "aws.amazon.com/neuron"),
    ("/dev/accel", "habana.ai/"),
];

/// Reports device files of the node in a pod that has its own from a device plugin.
fn devices_of_host(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let resources = requested_extended_resources(template);
    // A privileged container has all devices of the node, and may be told which of them to use.
    let is_privileged = |container: Node<'_>| {
        let privileged = container.path(&["securityContext", "privileged"]);
        privileged.is_set() && privileged.bool() != Some(false)
    };
    if template.all_containers().any(is_privileged) {
        return None;
    }
    let mut found = template.spec.get("volumes").items().filter_map(|volume| {
        let path = volume.path(&["hostPath", "path"]);
        let text = path.text()?;
        let has_plugin = |(file, prefix): &(&str, &str)| {
            text.starts_with(file) && resources.iter().any(|resource| resource.starts_with(prefix))
        };
        let (_, prefix) = DEVICE_FILES.iter().find(|row| has_plugin(row))?;
        let resource = resources.iter().find(|resource| resource.starts_with(prefix))?;
        Some((path, *resource))
    });
    let (path, resource) = found.next()?;
    let more = found.count();
    let text = path.text()?;
    // `/dev/nvidia0` is one card of each node, whichever the pod gets.
    let names_card =
        text.strip_prefix("/dev/nvidia").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let message = format!(
        "`{}`{more} is a device of the node, beside those that the device plugin gives for `{resource}`",
        ellipsize(text)
    );
    ctx.report(&path, message)
        .severity(if names_card { Severity::Warning } else { Severity::Info })
        .help("remove the volume: the device plugin makes the devices that the pod gets available to it");
    None
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !requests_device_plugin(object) || is_left_alone(object, ctx) || is_test(object) || only_waits(object)
    {
        return None;
    }
    let name = object.display_name();
    for template in templates(object) {
        let network = |resource: &str| {
            let resource = resource.to_ascii_lowercase();
            ["efa", "rdma", "hca", "roce", "sriov", "infiniband"].iter().any(|sign| resource.contains(sign))
        };
        let resources = requested_extended_resources(&template);
        let gpus = resources.iter().any(is_gpu);
        let fabric = |volume: Node<'_>| {
            volume.path(&["hostPath", "path"]).raw_text().is_some_and(|path| path.contains("/infiniband"))
        };
        fabric_of_host(&template, ctx);
        devices_of_host(&template, ctx);
        let has_fabric = template.spec.get("volumes").items().any(fabric);
        if !gpus || has_fabric || resources.iter().any(|resource| network(resource)) {
            continue;
        }
        // Other containers may need it for the node, such as an init container that sets a sysctl.
        let is_privileged = |container: &Node<'_>| {
            container.path(&["securityContext", "privileged"]).bool() == Some(true)
                && extended_resources_of(container).iter().any(is_gpu)
                && gpus_of(container).is_none_or(|devices| devices.count < MOST_GPUS)
        };
        let privileged: Vec<Node<'_>> = template.all_containers().filter(is_privileged).collect();
        if divided_by_hami(&template, &privileged, ctx).is_some() {
            continue;
        }
        if let Some((first, more)) = privileged.split_first() {
            let container = first.get("name").text().unwrap_or("main");
            let message = match more.len() {
                0 => {
                    format!("container `{container}` of `{name}` is privileged: it sees all GPUs of the node")
                }
                1 => format!(
                    "container `{container}` and 1 other of `{name}` are privileged: they see all GPUs of the node"
                ),
                n => format!(
                    "container `{container}` and {n} others of `{name}` are privileged: they see all GPUs of the node"
                ),
            };
            let finding = ctx.report(&first.path(&["securityContext", "privileged"]), message);
            finding.help("remove `privileged`: the device plugin gives a container its GPUs");
            for other in more {
                finding.related(object, &other.path(&["securityContext", "privileged"]), "this one too");
            }
            continue;
        }
        let ipc = template.spec.get("hostIPC");
        if ipc.bool() == Some(true) {
            let mut mounts =
                template.containers().flat_map(|one| one.get("volumeMounts").items().collect::<Vec<_>>());
            let has_own = mounts.any(|mount| mount.get("mountPath").text() == Some("/dev/shm"));
            ctx.report(
                &ipc,
                format!("`{name}` shares the memory of all processes of its node through `hostIPC`"),
            )
            .help(match has_own {
                true => "remove `hostIPC`: `/dev/shm` is a volume of the pod already",
                false => "mount an emptyDir with `medium: Memory` at `/dev/shm` instead",
            });
        }
    }
    None
}
