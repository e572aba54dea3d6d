//! Karpenter or the API server rejects a kubelet setting.
//!
//! # Why
//! `spec.kubelet` has six eviction signals and four kinds of reserved resources. A reservation cannot be
//! negative, and images are collected down to the low mark only if the high one is above it. The API server
//! rejects the rest; from 1.15 on Karpenter's controller does, and the class is not Ready.
//!
//! # Fix
//! Use the kubelet's own names, amounts from 0 up, and a high mark above the low one.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    kubelet:
//!      evictionHard:
//! -      memory.free: 5% # <-
//! +      memory.available: 5%
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>

use crate::facts::duration::GoDuration;
use crate::karpenter::node_class::{EVICTION_SIGNALS, OPEN_KUBELET_SINCE, RESERVABLE_RESOURCES};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-kubelet",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("node_class_kubelet.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kubelet = class.get("kubelet");
    let authority = super::kubelet_authority(ctx);
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod"] {
        check_keys(&kubelet.get(field), &EVICTION_SIGNALS, "not an eviction signal", ctx);
    }
    for reserved in ["kubeReserved", "systemReserved"].map(|field| kubelet.get(field)) {
        check_keys(&reserved, &RESERVABLE_RESOURCES, "not a resource that can be reserved", ctx);
        for (name, node) in reserved.entries() {
            if node.text().is_some_and(|t| t.starts_with('-')) {
                ctx.report(&node, format!("`{}` cannot be negative", ellipsize(name)))
                    .rejected_by(authority)
                    .help("write how much to keep back, such as 100m or 200Mi");
            }
        }
    }
    let (high, low) = (kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent"));
    if let (Some(most), Some(least)) = (high.int(), low.int())
        && most <= least
    {
        ctx.report(&high, format!("the high mark, {most}, has to be above the low one, {least}"))
            .rejected_by(authority)
            .help("images are collected from the high mark down to the low one")
            .related(class.object(), &low, "the low mark");
    }
    // Before this version such a text stops Karpenter for all classes, which duration-undecodable reports.
    if ctx.platform().karpenter >= OPEN_KUBELET_SINCE {
        for (_, node) in kubelet.get("evictionSoftGracePeriod").entries() {
            if let Some(text) = node.text().filter(|t| GoDuration::parse(t).is_err()) {
                ctx.report(&node, format!("`{}` is not a duration", ellipsize(text)))
                    .rejected_by(authority)
                    .help("write it as Go does, such as `90s` or `1m30s`");
            }
        }
    }
    None
}

fn check_keys(map: &Node<'_>, known: &[&'static str], what: &str, ctx: &mut Context<'_>) {
    let authority = super::kubelet_authority(ctx);
    for (key, node) in map.entries() {
        // A null entry counts as absent.
        if known.contains(&key) || is_placeholder(key) || node.is_null() {
            continue;
        }
        let finding = ctx.report(&node, format!("`{}` is {what}", ellipsize(key)));
        finding.rejected_by(authority).at_key();
        // Short names are similar to each other: `gpu` is not a misspelling of `cpu`.
        match nearest(key, known.iter().copied()).filter(|_| key.len() > 4) {
            Some(word) => finding.help(format!("write `{word}`")),
            None => finding.help(format!("valid are {}", known.join(", "))),
        };
    }
}
