//! A NodeClass of EKS Auto Mode has a value that AWS does not accept, or lacks one.
//!
//! # Why
//! The class must say in which subnets and with which security groups nodes start, and may name the role of
//! the nodes or an instance profile, not both. Pods in subnets of their own need security groups of their
//! own. The volume for images and pods has from 1 to 59000 GiB, 3000 to 16000 IOPS and a throughput of 125 to
//! 1000 MiB/s. With other values the class is rejected or never Ready, and its pools start no nodes.
//!
//! # Fix
//! Write what the help says.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: eks.amazonaws.com/v1
//!  kind: NodeClass
//!  metadata: {name: web}
//!  spec:
//!    role: AmazonEKSAutoNodeRole
//!    subnetSelectorTerms: [{id: subnet-0123456789abcdef0}]
//!    securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]
//! -  ephemeralStorage: {size: 160Gi, iops: 20000} # <-
//! +  ephemeralStorage: {size: 160Gi, iops: 16000}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html>

use crate::facts::quantity::Quantity;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-class-invalid",
    kinds: &[Kind::AUTO_MODE_NODE_CLASS],
    docs: docs(include_str!("auto_mode_class_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodeClass)
};

/// What a class must have, with an example.
const REQUIRED: [(&str, &str); 2] = [
    ("subnetSelectorTerms", "such as `[{tags: {kubernetes.io/role/internal-elb: \"1\"}}]`"),
    ("securityGroupSelectorTerms", "such as `[{tags: {aws:eks:cluster-name: NAME}}]`"),
];

/// Bounds of settings of the volume, with their unit.
const BOUNDS: [(&str, i64, i64, &str); 2] =
    [("iops", 3000, 16_000, "IOPS"), ("throughput", 125, 1000, "MiB/s")];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.is_incomplete() || spec.is_unknown() || spec.has_unknown_key() {
        return None;
    }
    let (role, profile) = (spec.get("role"), spec.get("instanceProfile"));
    if role.is_set() && profile.is_set() {
        ctx.report(&profile, "the class has both `role` and `instanceProfile`")
            .help("keep one of them")
            .related(object, &role, "`role` is here");
    }
    let is_whole = !object.may_lack_fields();
    for (name, example) in REQUIRED.into_iter().filter(|_| is_whole) {
        let terms = spec.get(name);
        if !terms.is_unknown() && terms.items().next().is_none() {
            ctx.report(&terms, format!("the class has no `{name}`, which are required"))
                .help(format!("add them, {example}"));
        }
    }
    let (subnets, groups) = (spec.get("podSubnetSelectorTerms"), spec.get("podSecurityGroupSelectorTerms"));
    if is_whole && subnets.is_set() && !groups.is_set() {
        ctx.report(&subnets, "`podSubnetSelectorTerms` need `podSecurityGroupSelectorTerms` beside them")
            .at_key()
            .help("add the security groups of the pods");
    }
    volume(&spec.get("ephemeralStorage"), ctx);
    None
}

fn volume(storage: &Node<'_>, ctx: &mut Context<'_>) {
    for (name, least, most, unit) in BOUNDS {
        let node = storage.get(name);
        let Some(value) = node.int().filter(|value| !(least..=most).contains(value)) else { continue };
        ctx.report(&node, format!("`{name}` of the volume is {value} {unit}, outside {least} to {most}"))
            .help(format!("write {} or what the pods need", value.clamp(least, most)));
    }
    let size = storage.get("size");
    if let Some(text) = size.string_or_number().filter(|text| !is_placeholder(text) && !is_size(text)) {
        ctx.report(&size, format!("`{}` is not a size of a volume", ellipsize(&text)))
            .help("write 1Gi to 59000Gi, or the like in G, Ti or T");
    }
}

/// Whether a size is one that the class takes: 1 to 59000Gi, 64000G, 58Ti or 64T.
fn is_size(text: &str) -> bool {
    const UNITS: [(&str, u32); 4] = [("Gi", 59_000), ("Ti", 58), ("G", 64_000), ("T", 64)];
    let parts = UNITS.iter().find_map(|(unit, most)| Some((text.strip_suffix(unit)?, *most)));
    match parts.map(|(number, most)| (number.parse::<u32>(), most)) {
        Some((Ok(number), most)) => (1..=most).contains(&number),
        // Another form of a size within the bounds: which forms the API server takes is not documented.
        _ => Quantity::decode(text).is_ok_and(|size| {
            let gib = size.milli() / (1000_i128 << 30);
            (1..=59_000).contains(&gib) && text.chars().any(char::is_alphabetic)
        }),
    }
}
