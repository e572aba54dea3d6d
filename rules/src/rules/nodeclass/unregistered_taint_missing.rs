//! A custom AMI's nodes start without the taint `karpenter.sh/unregistered`.
//!
//! # Why
//! Karpenter's own user data registers a node with this taint, and Karpenter removes it when the node has its
//! labels and taints. With `amiFamily: Custom` nothing adds it, so pods may start on a node that is not prepared
//! for them.
//!
//! # Fix
//! Register the node with `karpenter.sh/unregistered:NoExecute`; Karpenter removes it.
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

use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "unregistered-taint-missing",
    docs: docs(include_str!("unregistered_taint_missing.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = class.user_data().filter(|_| class.family() == Some(AmiFamily::Custom))?;
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
