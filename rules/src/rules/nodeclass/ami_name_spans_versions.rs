//! An AMI name pattern matches images of several Kubernetes versions.
//!
//! # Why
//! Karpenter takes the newest image that a `name` matches, whatever Kubernetes version it was built
//! for. EKS publishes images for all its versions on one day, and those of a new version before the
//! cluster is upgraded: a kubelet that is newer than the API server is not supported and may not join,
//! and one that is too old comes as easily. An alias picks the image of the cluster's own version.
//!
//! # Fix
//! Write the version of the control plane into the name, or select by an alias, such as
//! `al2023@v20260810`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    amiFamily: AL2023
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - owner: amazon
//! -      name: amazon-eks-node-al2023-x86_64-nvidia-* # <-
//! +      name: amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260810
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>
//! - <https://kubernetes.io/releases/version-skew-policy/#kubelet>

use super::public_name;
use crate::karpenter::ami_name::minors_named;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-name-spans-versions",
    docs: docs(include_str!("ami_name_spans_versions.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for term in class.get("amiSelectorTerms").items() {
        let Some((node, first, second)) = spans_versions(&term) else { continue };
        let message =
            format!("the name matches images of Kubernetes {first} to {second}, and the newest image wins");
        ctx.report(&node, message)
            .help("write the version of the control plane into the name, or select by an alias");
    }
    None
}

/// The name of a term that matches images of several versions of Kubernetes, with the first and the last of them.
pub(in crate::rules) fn spans_versions<'a>(term: &Node<'a>) -> Option<(Node<'a>, String, String)> {
    let (node, pattern) = public_name(term)?;
    let (first, last) = versions(pattern)?;
    Some((node, first, last))
}

/// The first and the last version of Kubernetes whose images a pattern matches, if they differ.
fn versions(pattern: &str) -> Option<(String, String)> {
    if !pattern.contains(['*', '?']) {
        return None;
    }
    let several = minors_named(pattern).find(|minors| minors.len() > 1)?;
    Some((format!("1.{}", several.first()?), format!("1.{}", several.last()?)))
}
