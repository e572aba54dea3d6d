//! Nodes start without the taint `karpenter.sh/unregistered`.
//!
//! # Why
//! Karpenter's own user data registers a node with this taint, and Karpenter removes it when the node has its
//! labels and taints. With `amiFamily: Custom` nothing adds it, so pods may start on a node that is not prepared
//! for them. A flag `--register-with-taints` in a NodeConfig replaces the list in which Karpenter's own part has
//! the taint, and those of the pool.
//!
//! # Fix
//! Register the node with `karpenter.sh/unregistered:NoExecute`; Karpenter removes it. Write other taints as
//! `taints` or `startupTaints` of the NodePool, and not in user data.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{id: ami-0123456789abcdef0}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    amiFamily: Custom
//!    userData: | # <-
//!      #!/bin/bash
//! -    /etc/eks/bootstrap.sh prod
//! +    /etc/eks/bootstrap.sh prod --kubelet-extra-args \
//! +      --register-with-taints=karpenter.sh/unregistered:NoExecute
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#custom>
//! - <https://github.com/aws/karpenter-provider-aws/issues/7486>

use super::significant_lines;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "unregistered-taint-missing",
    docs: docs(include_str!("unregistered_taint_missing.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = class.user_data()?;
    match class.family()? {
        AmiFamily::Custom => of_custom_image(class, text, ctx),
        AmiFamily::Al2023 => by_flag(class, text, ctx),
        _ => None,
    }
}

/// The flag of the kubelet with the taints of a node.
const FLAG: &str = "--register-with-taints=";

/// Reports a flag in a NodeConfig that replaces the taints of Karpenter's own NodeConfig: the kubelet's flags win over the
/// `registerWithTaints` of its configuration (`generateNodeConfig` in `pkg/providers/amifamily/bootstrap/nodeadm.go`).
fn by_flag(class: &Ec2NodeClass<'_>, text: &str, ctx: &mut Context<'_>) -> Option<()> {
    if text.contains("karpenter.sh/unregistered") || text.contains("{{") || !text.contains("node.eks.aws/") {
        return None;
    }
    let is_item = |line: &&str| {
        let item = line.strip_prefix("- ").map(|item| item.trim_start_matches([' ', '"', '\'']));
        item.is_some_and(|item| item.starts_with(FLAG) && !item.contains('$'))
    };
    let line = significant_lines(text).find(is_item)?;
    let (object, node) = (ctx.object(), class.get("userData"));
    let start = line.as_ptr() as usize - text.as_ptr() as usize;
    ctx.report(
        &node,
        "the flag replaces the taints that Karpenter registers nodes with: pods may start before the node is ready",
    )
    .at_key()
    .help("remove it, and write the taint in `taints` or `startupTaints` of the NodePool")
    .at_part(object, &node, start..start + line.len());
    None
}

fn of_custom_image(class: &Ec2NodeClass<'_>, text: &str, ctx: &mut Context<'_>) -> Option<()> {
    // A missing family is reported by ami-family-mismatch; Karpenter registers the taint for all but Custom.
    if !class.get("amiFamily").is_set() {
        return None;
    }
    let starts = ["/etc/eks/bootstrap.sh", "nodeadm", "node.eks.aws/", "kubelet"];
    if text.contains("karpenter.sh/unregistered") || !starts.iter().any(|s| text.contains(s)) {
        return None;
    }
    // The user data of an image that EKS publishes is not in the manifest.
    let alias = |term: Node<'_>| term.get("alias").is_set() || term.is_unknown();
    if class.get("amiSelectorTerms").items().any(alias) {
        return None;
    }
    // A template or variable may contain the taint.
    let hidden = |line: &str| {
        let lower = line.to_ascii_lowercase();
        lower.contains('$') && (lower.contains("taint") || lower.contains("kubelet-extra-args"))
    };
    if text.contains("{{") || text.lines().any(hidden) {
        return None;
    }
    ctx.report(
        &class.get("userData"),
        "user data does not register the taint `karpenter.sh/unregistered`: pods may start before the node is ready",
    )
    .at_key()
    .help("register them with `karpenter.sh/unregistered:NoExecute`; Karpenter removes it when the node is ready");
    None
}
