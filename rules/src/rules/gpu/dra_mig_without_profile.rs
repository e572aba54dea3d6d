//! A claim for a MIG slice does not say which profile.
//!
//! # Why
//! The class `mig.nvidia.com` contains slices of all sizes. A claim without a selector on `profile` or
//! on memory gets any that is free: a model that needs 20 GB may get a slice of 5 GB, and a small model
//! may occupy the largest slice.
//!
//! # Fix
//! Select the profile: `device.attributes['gpu.nvidia.com'].profile == '1g.10gb'`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaimTemplate
//!  metadata: {name: slice, ownerReferences: []}
//!  spec:
//!    spec:
//!      devices:
//!        requests:
//!          - name: gpu
//!            exactly:
//! -            deviceClassName: mig.nvidia.com # <-
//! +            deviceClassName: mig.nvidia.com
//! +            selectors:
//! +              - cel:
//! +                  expression: device.attributes['gpu.nvidia.com'].profile == '1g.5gb'
//! ```
//!
//! # References
//! - <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu>

use crate::rules::prelude::*;
use crate::workload::dra::class_blocks;

pub(crate) static RULE: Rule = Rule {
    id: "dra-mig-without-profile",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    docs: docs(include_str!("dra_mig_without_profile.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for block in class_blocks(object) {
        let class = block.get("deviceClassName");
        if class.text() != Some("mig.nvidia.com") || block.get("allocationMode").text() == Some("All") {
            continue;
        }
        let selectors = block.get("selectors");
        if selectors.has_unknown() || block.has_unknown_key() {
            continue;
        }
        // Administrators look at all devices.
        if block.get("adminAccess").bool() == Some(true) || selectors.items().any(|s| chooses(&s)) {
            continue;
        }
        ctx.report(&class, "a claim of `mig.nvidia.com` without a profile gets a slice of any size")
            .help("add a CEL selector such as `device.attributes['gpu.nvidia.com'].profile == '1g.10gb'`");
    }
    None
}

fn chooses(selector: &Node<'_>) -> bool {
    let expression = selector.path(&["cel", "expression"]);
    expression
        .raw_text()
        .is_none_or(|text| ["profile", "capacity", "uuid"].iter().any(|word| text.contains(word)))
}
