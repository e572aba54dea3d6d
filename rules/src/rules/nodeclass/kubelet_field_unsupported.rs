//! A kubelet setting has no effect with this AMI family.
//!
//! # Why
//! From Karpenter 1.15 on `spec.kubelet` accepts every field of the kubelet. AL2023 takes them all; to AL2,
//! Bottlerocket and Windows Karpenter can hand on only some, and `registerWithTaints` is its own to write.
//! With another field the class is not Ready, and its pools start no nodes.
//!
//! # Fix
//! Remove the field, or use AL2023.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {karpenter: "1.15"}
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: bottlerocket@v1.44.0}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  kubelet: {shutdownGracePeriod: 30s} # <-
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>

use crate::karpenter::kubelet;
use crate::karpenter::minors::has_open_kubelet;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "kubelet-field-unsupported",
    rejected_by: &[Authority::Karpenter],
    depends_on: &[Product::Karpenter],
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("kubelet_field_unsupported.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !has_open_kubelet(ctx.platform().karpenter) {
        return None;
    }
    let taints = class.get("kubelet").get("registerWithTaints");
    if !taints.is_absent() {
        ctx.report(&taints, "`registerWithTaints` is written by Karpenter itself")
            .at_key()
            .help("write the taints into the NodePool");
    }
    let family = class.family()?;
    if matches!(family, AmiFamily::Al2023 | AmiFamily::Custom) {
        return None;
    }
    let family = family.name();
    for node in kubelet::unsupported(class) {
        let pointer = node.pointer();
        let field = pointer.steps().last().map_or("", String::as_str);
        if field == "clusterDNS" {
            ctx.report(&node, format!("{family} uses only one address of `clusterDNS`"))
                .help("keep one address, or use AL2023");
        } else {
            ctx.report(&node, format!("`{}` does not reach nodes of {family}", ellipsize(field)))
                .at_key()
                .help("remove it, or use AL2023, which supports every field of the kubelet");
        }
    }
    None
}
