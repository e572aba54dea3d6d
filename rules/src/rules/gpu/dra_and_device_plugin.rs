//! A pod asks for GPUs through the device plugin and in another way.
//!
//! # Why
//! The device plugin and the driver for dynamic resource allocation do not know of each other. A pod
//! that asks for `nvidia.com/gpu` and has a claim for a GPU reserves two, or the same one twice on a
//! node where both run. A pod of KAI that asks for a part of a GPU by an annotation, such as
//! `gpu-fraction` or `gpu-memory`, and has `nvidia.com/gpu` in its limits, also with 0 or in an init
//! container, is rejected by KAI's webhook.
//!
//! # Fix
//! Ask in one way: remove the resource, or the claim or annotation.
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

use crate::rules::gpu::dra_claims::{asks_for_gpus, claims, resolve};
use crate::rules::prelude::*;
use crate::workload::gpu_share::{KAI_SCHEDULER, gpu_share};

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
