//! A claim names a device class that cannot exist.
//!
//! # Why
//! A DeviceClass is an object, so its name is a DNS name. `nvidia.com/gpu` and
//! `nvidia.com/mig-1g.10gb` are resources of the device plugin, and their slash makes the API
//! server refuse the claim. With NVIDIA's driver a whole GPU is the class `gpu.nvidia.com`, a MIG
//! device is `mig.nvidia.com`, and a selector chooses the profile.
//!
//! # Fix
//! Name the driver's class. For a MIG profile add the selector on the attribute `profile`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaimTemplate
//!  metadata: {name: slice}
//!  spec:
//!    spec:
//!      devices:
//!        requests:
//!          - name: gpu
//!            exactly:
//! -            deviceClassName: nvidia.com/mig-1g.5gb # <-
//! +            deviceClassName: mig.nvidia.com
//! +            selectors:
//! +              - cel:
//! +                  expression: device.attributes['gpu.nvidia.com'].profile == '1g.5gb'
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>
//! - <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu>

use crate::facts::names::is_dns_subdomain;
use crate::rules::prelude::*;
use crate::schema::validation::quote;
use crate::workload::dra::class_blocks;

pub(crate) static RULE: Rule = Rule {
    id: "dra-device-class-name",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("dra_device_class_name.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for block in class_blocks(object) {
        let node = block.get("deviceClassName");
        let Some(name) = node.text() else { continue };
        if name.is_empty() || is_dns_subdomain(name) {
            continue;
        }
        let finding = ctx.report(&node, format!("{} is not a valid name of a DeviceClass", quote(name)));
        let Some((class, profile)) = class_of(name) else {
            finding.help("name a DeviceClass: a DNS name, as `gpu.nvidia.com`");
            continue;
        };
        let help = match &profile {
            Some(profile) => {
                format!("write `{class}`, and select the profile `{profile}`")
            }
            None => format!("write `{class}`, the class of NVIDIA's driver"),
        };
        finding.help(help).fix(repair(&block, &node, class, profile.as_deref()));
    }
    None
}

/// The device class of NVIDIA's driver for a resource of its device plugin, and the MIG profile.
fn class_of(name: &str) -> Option<(&'static str, Option<String>)> {
    let resource = name.strip_prefix("nvidia.com/")?;
    if resource == "gpu" {
        return Some(("gpu.nvidia.com", None));
    }
    let name = resource.strip_prefix("mig-")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+');
    // The resource name ends in `.me` if the profile ends in `+me`.
    let profile = match name.strip_suffix(".me") {
        Some(rest) => format!("{rest}+me"),
        None => name.to_owned(),
    };
    (!name.is_empty() && name.chars().all(plain)).then_some(("mig.nvidia.com", Some(profile)))
}

fn repair(block: &Node<'_>, node: &Node<'_>, class: &str, profile: Option<&str>) -> Fix {
    let fix = Fix::new(format!("use the class `{class}`; it must exist in the cluster"), Safety::Unsafe)
        .set(node, json!(class));
    let Some(profile) = profile else {
        return fix;
    };
    let expression = format!("device.attributes['gpu.nvidia.com'].profile == '{profile}'");
    fix.append(&block.get("selectors"), json!({"cel": {"expression": expression}}))
}
