//! A pod asks for GPUs in two ways at once.
//!
//! # Why
//! The device plugin and the driver for dynamic resource allocation do not know of each other. A pod
//! that asks for `nvidia.com/gpu` and has a claim for a GPU reserves two, or the same one twice on a
//! node where both run. A pod of KAI that asks for a part of a GPU by an annotation, such as
//! `gpu-fraction` or `gpu-memory`, and has `nvidia.com/gpu` in its limits, also with 0 or in an init
//! container, is rejected by KAI's webhook.
//!
//! Two resources of NVIDIA's device plugin in one container, such as `nvidia.com/gpu` and a MIG profile, or
//! two profiles, are two ways as well. For each of them the plugin sets `NVIDIA_VISIBLE_DEVICES`, and the
//! kubelet keeps one value: the devices of the other resource are reserved and not seen. Where the plugin
//! hands over devices by CDI the container sees both, and a process of CUDA uses one MIG device only.
//!
//! # Fix
//! Ask in one way: remove the resource, or the claim or annotation. Use the devices of two resources in two
//! containers.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaimTemplate
//!  metadata: {name: gpu}
//!  spec:
//!    spec:
//!      devices:
//!        requests:
//!          - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//! -            limits: {nvidia.com/gpu: 1} # <-
//!              claims: [{name: gpu}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>
//! - <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu>
//! - <https://github.com/kai-scheduler/KAI-Scheduler/tree/main/docs/gpu-sharing>
//! - <https://github.com/NVIDIA/k8s-device-plugin/issues/728>

use crate::rules::gpu::dra_claims::{asks_for_gpus, claims, resolve};
use crate::rules::prelude::*;
use crate::workload::devices::extended_resources_of;
use crate::workload::gpu_share::{KAI_SCHEDULER, gpu_share};
use crate::workload::mig::is_mig_resource;

pub(crate) static RULE: Rule = Rule {
    id: "dra-and-device-plugin",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE, Kind::DEVICE_CLASS],
    docs: docs(include_str!("dra_and_device_plugin.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        of_share(object, &template, ctx);
    }
    if !requests_device_plugin(object) {
        return None;
    }
    for template in templates(object) {
        for container in template.all_containers() {
            of_two_resources(object, &container, ctx);
        }
        let Some(claim) =
            claims(&template).find_map(|c| resolve(object, &c, ctx).filter(|c| asks_for_gpus(c)))
        else {
            continue;
        };
        // A device class may stand for the extended resource: then the pod requests the same devices twice on purpose.
        let mut classes = ctx.cluster().of(Kind::DEVICE_CLASS);
        if classes.any(|class| class.path(&["spec", "extendedResourceName"]).is_set()) {
            return None;
        }
        let devices = pod_devices(&template);
        if let Some((resource, devices)) = devices.iter().find(|(name, _)| name.starts_with("nvidia.com/")) {
            let (name, owner) = (claim.display_name(), object.display_name());
            let message = format!("`{owner}` asks for `{resource}` and has claim `{name}` for a GPU");
            ctx.report(&devices.node, message)
                .at_key()
                .help("ask in one way: remove the resource or the claim")
                .related(claim, &claim.path(&["metadata", "name"]), "the claim");
        }
    }
    None
}

/// Reports a container with devices of two resources of NVIDIA's plugin, which sets one variable for each (`Allocate` of its
/// `internal/plugin`, 0.9 to 0.18; `deviceRunContainerOptions` of Kubernetes `pkg/kubelet/cm/devicemanager/pod_devices.go`).
fn of_two_resources(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_device =
        |name: &&str| matches!(*name, "nvidia.com/gpu" | "nvidia.com/gpu.shared") || is_mig_resource(name);
    let names = extended_resources_of(container);
    let mut found =
        names.into_iter().filter(is_device).filter_map(|name| Some((name, devices_of(container, name)?)));
    let ((first, devices), (second, others)) = (found.next()?, found.next()?);
    let name = ellipsize(container.get("name").text().unwrap_or("main"));
    let message = format!("container `{name}` sees the devices of `{first}` or of `{second}`, not both");
    ctx.report(&others.node, message)
        .at_key()
        .help("ask for one of them, or use the other in a container of its own: the plugin sets one variable for each")
        .related(object, &devices.node, "the other resource");
    None
}

/// Reports pods that ask KAI for a part of a GPU and for whole ones.
fn of_share(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let of_kai = template.spec.get("schedulerName").text() == Some(KAI_SCHEDULER);
    let (key, share) = gpu_share(template).filter(|_| of_kai && !object.may_lack_fields())?;
    // KAI looks for the key, whatever its amount is (`getFirstGPULimit` of its webhook).
    let mut limits =
        template.all_containers().map(|container| container.path(&["resources", "limits", "nvidia.com/gpu"]));
    let limit = limits.find(Node::is_set)?;
    let message = format!("KAI's webhook rejects pods with `{key}` that have a limit of `nvidia.com/gpu`");
    ctx.report(&limit, message)
        .severity(Severity::Error)
        .at_key()
        .help("ask in one way: remove the resource or the annotation")
        .related(object, &share, "asks for a part of a GPU");
    None
}
