//! NVIDIA's device plugin rejects the configuration for GPU sharing.
//!
//! # Why
//! NVIDIA's device plugin shares GPUs by time-slicing or by MPS, not by both at once. MPS works only
//! for whole GPUs under `nvidia.com/gpu`, and a shared resource needs at least two replicas. The plugin
//! ends with an error at such a configuration, and its nodes advertise no GPU.
//!
//! # Fix
//! Keep one of `timeSlicing` and `mps`, name `nvidia.com/gpu`, and give it two or more `replicas`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: device-plugin, namespace: gpu-operator}
//!  data:
//!    any: | # <-
//!      version: v1
//!      sharing:
//!        mps:
//!          resources:
//! -          - {name: nvidia.com/mig-1g.10gb, replicas: 4}
//! +          - {name: nvidia.com/gpu, replicas: 4}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus>

use crate::rules::gpu::sharing;
use crate::rules::prelude::*;

const CONFIG_MAP: Kind = Kind::new("", "ConfigMap");

pub(crate) static RULE: Rule = Rule {
    id: "gpu-sharing-config-invalid",
    kinds: &[CONFIG_MAP],
    docs: docs(include_str!("gpu_sharing_config_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    sharing::for_each(object, |entry, config| {
        if let Some((message, help)) = fault(config) {
            ctx.report(entry, message).at_key().help(help);
        }
    });
    None
}

fn fault(config: &Node<'_>) -> Option<(String, &'static str)> {
    let sharing = config.get("sharing");
    let (slicing, mps) = (sharing.get("timeSlicing"), sharing.get("mps"));
    let has = |kind: &Node<'_>| kind.get("resources").items().next().is_some();
    if has(&slicing) && has(&mps) {
        let message = "`timeSlicing` and `mps` are both set, and the device plugin accepts only one of them";
        return Some((message.to_owned(), "keep one of them"));
    }
    for resource in mps.get("resources").items() {
        if let Some(name) = resource.get("name").text().filter(|name| *name != "nvidia.com/gpu") {
            let message = format!("MPS shares `nvidia.com/gpu` only, not `{name}`");
            return Some((message, "name `nvidia.com/gpu`"));
        }
    }
    for resource in slicing.get("resources").items() {
        let name = resource.get("name").text().unwrap_or("nvidia.com/gpu");
        if !name.starts_with("nvidia.com/") && name.contains('/') {
            let message = format!("NVIDIA's device plugin has no resource `{name}` to share");
            return Some((message, "name `nvidia.com/gpu`"));
        }
    }
    let mut shared = slicing.get("resources").items().chain(mps.get("resources").items());
    let few = shared.find_map(|r| r.get("replicas").int().filter(|n| *n < 2))?;
    Some((format!("a shared GPU needs 2 or more replicas, not {few}"), "write 2 or more `replicas`"))
}
