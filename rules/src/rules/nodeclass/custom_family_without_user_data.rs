//! `amiFamily: Custom` without user data: Karpenter configures nothing on the nodes.
//!
//! # Why
//! For every other family Karpenter writes the user data that joins a node to the cluster. With `Custom` it
//! passes on what `userData` has, and here that is nothing. An image of EKS, Bottlerocket or Canonical that
//! starts without user data never joins: Karpenter pays for a node, ends it after 15 minutes, and starts
//! the next one. An image of your own joins only if it has been built to find its cluster by itself, which
//! gpulint cannot see: then ignore this.
//!
//! # Fix
//! Write the family of the image, or the user data that joins it to the cluster.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//! -  amiFamily: Custom # <-
//! +  amiFamily: AL2023
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - owner: amazon
//!        name: amazon-eks-node-al2023-x86_64-standard-1.34-v20260810
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#custom>
//! - <https://github.com/aws/karpenter-provider-aws/issues/4708>

use std::collections::BTreeSet;

use super::public_name;
use crate::karpenter::ami_name::{ImageFamily, image_of_parameter, images_named};
use crate::karpenter::node_class::AMI_FAMILIES;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "custom-family-without-user-data",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("custom_family_without_user_data.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let (family, data) = (class.get("amiFamily"), class.get("userData"));
    let is_empty = !data.is_set() || data.text().is_some_and(|text| text.trim().is_empty());
    if family.text() != Some("Custom") || !is_empty || data.is_unknown() {
        return None;
    }
    if object.may_lack_fields() || class.spec().has_unknown_key() {
        return None;
    }
    let terms = class.get("amiSelectorTerms");
    let found: Option<Vec<Found>> = terms.items().map(|term| found(&term)).collect();
    let Some(found) = found.filter(|found| !found.is_empty()) else {
        ctx.report(&family, "`Custom` without user data: nodes join only if their image finds the cluster")
            .severity(Severity::Warning)
            .help("write user data that joins the cluster, or the family of the image");
        return None;
    };
    let families: BTreeSet<&str> = found.iter().flat_map(|one| one.families.iter().copied()).collect();
    let name = match Vec::from_iter(families.iter().copied()).as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    let images = match name {
        Some("AL2") if found.iter().any(|one| one.is_canonical) => "Canonical's images".to_owned(),
        Some(name) => format!("images of {name}"),
        None => "these images".to_owned(),
    };
    let is_certain = found.iter().all(|one| one.is_certain);
    let what = if is_certain { "never join the cluster" } else { "need it to join the cluster" };
    let finding = ctx.report(&family, format!("`Custom` without user data: {images} {what}"));
    if !is_certain {
        finding.severity(Severity::Warning);
    }
    let Some(name) = name else {
        finding.help("write a class for each family, with its `amiFamily`");
        return None;
    };
    finding
        .help(format!("write `amiFamily: {name}`, for which Karpenter writes the user data"))
        .fix(Fix::unsafe_(format!("write the family {name}")).set(&family, json!(name)).replaces_nodes());
    None
}

/// The public images that a term selects.
struct Found {
    /// The families whose user data they read.
    families: Vec<&'static str>,
    /// Whether no image of the own account can be meant.
    is_certain: bool,
    is_canonical: bool,
}

/// The public images of a term. `None` if it may select others.
fn found(term: &Node<'_>) -> Option<Found> {
    if let Some(alias) = term.get("alias").text() {
        let name = alias.split('@').next()?;
        let (_, family) = AMI_FAMILIES.iter().find(|(known, _)| *known == name)?;
        return Some(Found { families: vec![*family], is_certain: true, is_canonical: false });
    }
    let (images, is_certain) = match term.get("ssmParameter").text() {
        Some(name) => (Vec::from_iter(image_of_parameter(name)), true),
        // Without an owner, images of the own account count as well.
        None => (images_named(public_name(term)?.1), term.get("owner").is_set()),
    };
    let of = |family: ImageFamily| match family {
        // Canonical's images have the script of AL2, and no family of their own.
        ImageFamily::Ubuntu => ImageFamily::Al2.name(),
        family => family.name(),
    };
    let families: Vec<&str> = images.iter().map(|image| of(image.family)).collect();
    let is_canonical = images.iter().any(|image| image.family == ImageFamily::Ubuntu);
    (!families.is_empty()).then_some(Found { families, is_certain, is_canonical })
}
