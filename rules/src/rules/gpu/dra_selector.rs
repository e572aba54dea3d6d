//! A selector of a claim reads an attribute that NVIDIA's devices do not have.
//!
//! # Why
//! Selectors are CEL expressions over attributes. The API server compiles them and does not know which
//! attributes exist: with another domain than the driver's, or with `profile` on whole GPUs, the
//! expression fails for every device, and the claim is never allocated. A name that is close to one of
//! the driver's is a warning.
//!
//! # Fix
//! Read attributes of the domain `gpu.nvidia.com`. `profile` and `parentUUID` exist on devices of the
//! class `mig.nvidia.com` only.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaimTemplate
//!  metadata: {name: large-gpu, ownerReferences: []}
//!  spec:
//!    spec:
//!      devices:
//!        requests:
//!          - name: gpu
//!            exactly:
//!              deviceClassName: gpu.nvidia.com
//!              selectors:
//!                - cel:
//! -                  expression: device.attributes['nvidia.com'].brand == 'Tesla' # <-
//! +                  expression: device.attributes['gpu.nvidia.com'].brand == 'Tesla'
//! ```
//!
//! # References
//! - <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>

use crate::rules::prelude::*;
use crate::workload::dra::class_blocks;

pub(crate) static RULE: Rule = Rule {
    id: "dra-selector",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    docs: docs(include_str!("dra_selector.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

const DOMAIN: &str = "gpu.nvidia.com";

/// The attributes that the driver publishes for its devices.
const ATTRIBUTES: [&str; 18] = [
    "type",
    "uuid",
    "productName",
    "brand",
    "architecture",
    "cudaComputeCapability",
    "driverVersion",
    "cudaDriverVersion",
    "addressingMode",
    "profile",
    "parentUUID",
    "parentIndex",
    "parentMinor",
    "index",
    "minor",
    "pcieBusID",
    "pciBusID",
    "numa",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for block in class_blocks(object) {
        let Some(class @ ("gpu.nvidia.com" | "mig.nvidia.com")) = block.get("deviceClassName").text() else {
            continue;
        };
        for selector in block.get("selectors").items() {
            let expression = selector.path(&["cel", "expression"]);
            if let Some(text) = expression.text() {
                inspect(&expression, text, class, ctx);
            }
        }
    }
    None
}

fn inspect(expression: &Node<'_>, text: &str, class: &str, ctx: &mut Context<'_>) -> Option<()> {
    // An expression that tests whether an attribute exists, or has a default, handles its absence.
    if ["has(", " in ", "orValue", "?.", "[?"].iter().any(|guard| text.contains(guard)) {
        return None;
    }
    for (domain, attribute) in attributes(text) {
        if domain != DOMAIN {
            // Kubernetes itself and other drivers publish attributes too.
            if domain == "nvidia.com" || domain.ends_with(".nvidia.com") {
                let message = format!("NVIDIA's devices have no attributes of the domain `{domain}`");
                ctx.report(expression, message).help(format!("write `{DOMAIN}`"));
                return None;
            }
            continue;
        }
        if class == "gpu.nvidia.com" && matches!(attribute, "profile" | "parentUUID") {
            ctx.report(expression, format!("whole GPUs have no attribute `{attribute}`: this selects none"))
                .help("name the class `mig.nvidia.com`, or remove the selector");
            return None;
        }
        if !ATTRIBUTES.contains(&attribute)
            && let Some(near) = nearest(attribute, ATTRIBUTES)
        {
            ctx.report(expression, format!("NVIDIA's devices have no attribute `{attribute}`"))
                .severity(Severity::Warning)
                .help(format!("did you mean `{near}`?"));
            return None;
        }
    }
    None
}

/// The attributes that an expression reads: `device.attributes['domain'].name`, or with `["name"]`.
fn attributes(text: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    for (at, found) in text.match_indices("device.attributes[") {
        let rest = &text[at + found.len()..];
        let Some((domain, rest)) = quoted(rest) else { continue };
        let Some(rest) = rest.strip_prefix(']') else { continue };
        let name = if let Some(rest) = rest.strip_prefix('.') {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            &rest[..end]
        } else if let Some((name, _)) = rest.strip_prefix('[').and_then(quoted) {
            name
        } else {
            continue;
        };
        if !name.is_empty() {
            out.push((domain, name));
        }
    }
    out
}

/// A quoted text, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote)
}
