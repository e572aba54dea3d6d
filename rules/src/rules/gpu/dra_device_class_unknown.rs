//! A claim names a device class that NVIDIA's driver does not install.
//!
//! # Why
//! A claim of a class that does not exist is never allocated, and its pods stay Pending. NVIDIA's
//! driver installs `gpu.nvidia.com`, `mig.nvidia.com`, `vfio.gpu.nvidia.com` and two classes for
//! compute domains. Another name under `nvidia.com` may be a class of your own, but none of the input
//! is called so.
//!
//! # Fix
//! Name one of the driver's classes, or add the DeviceClass to the input.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaimTemplate
//!  metadata: {name: whole, ownerReferences: []}
//!  spec:
//!    spec:
//!      devices:
//!        requests:
//!          - name: gpu
//!            exactly:
//! -            deviceClassName: gpus.nvidia.com # <-
//! +            deviceClassName: gpu.nvidia.com
//! ```
//!
//! # References
//! - <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu>

use crate::cluster::objects::Lookup;
use crate::rules::gpu::dra_claims::NVIDIA_CLASSES;
use crate::rules::prelude::*;
use crate::workload::dra::class_blocks;

pub(crate) static RULE: Rule = Rule {
    id: "dra-device-class-unknown",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    reads: &[Kind::DEVICE_CLASS],
    reports_absence: true,
    docs: docs(include_str!("dra_device_class_unknown.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for block in class_blocks(object) {
        let class = block.get("deviceClassName");
        let Some(name) = class.text() else { continue };
        let vendors = name == "nvidia.com" || name.ends_with(".nvidia.com");
        if !vendors || NVIDIA_CLASSES.contains(&name) {
            continue;
        }
        if matches!(ctx.cluster().find(Kind::DEVICE_CLASS, "default", name), Lookup::Found(_)) {
            continue;
        }
        let finding =
            ctx.report(&class, format!("NVIDIA's driver has no class `{name}`, nor does the input"));
        match nearest(name, NVIDIA_CLASSES) {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding.help("name `gpu.nvidia.com` or `mig.nvidia.com`, or add the DeviceClass"),
        };
    }
    None
}
