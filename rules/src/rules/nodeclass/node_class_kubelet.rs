//! Karpenter or the API server rejects a kubelet setting.
//!
//! # Why
//! `spec.kubelet` has six eviction signals and four kinds of reserved resources. A reservation cannot be
//! negative, and images are collected down to the low mark only if the high one is above it. The API server
//! rejects the rest. From 1.15 on it takes anything, and Karpenter's controller decodes the map as the
//! kubelet's own configuration: with an unknown field, another type or a wrong amount the class is not Ready.
//! `maxPods` and reserved amounts may then be expressions, under the feature gate `NodeClassCEL`.
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

use crate::cel;
use crate::karpenter::installation;
use crate::karpenter::installation::INSTALLERS;
use crate::karpenter::kubelet;
use crate::karpenter::kubelet::{Fault, FaultKind};
use crate::karpenter::minors;
use crate::karpenter::minors::has_open_kubelet;
use crate::karpenter::node_class::{EVICTION_SIGNALS, RESERVABLE_RESOURCES};
use crate::rules::manifest::message_parts::with_article;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-kubelet",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    reads: &INSTALLERS,
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
    // Before this version the API server checks these, or they stop Karpenter, which duration-undecodable reports.
    if has_open_kubelet(ctx.platform().karpenter) {
        check_keys(&kubelet.get("evictionMinimumReclaim"), &EVICTION_SIGNALS, "not an eviction signal", ctx);
        open(class, ctx);
    }
    None
}

/// What only the controller checks.
fn open(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) {
    let authority = Some(Authority::Karpenter);
    for Fault { node, kind } in kubelet::faults(class) {
        let shown = ellipsize(node.raw_text().unwrap_or_default());
        let (message, help) = match kind {
            FaultKind::UnknownField => {
                unknown_field(&node, ctx);
                continue;
            }
            FaultKind::Type(wanted) => (
                format!("the kubelet takes {} here", with_article(wanted)),
                "write it as the kubelet's own configuration has it".to_owned(),
            ),
            FaultKind::Threshold => (
                format!("`{shown}` is neither a percentage nor a quantity"),
                "write a percentage of 0 to 100, or an amount such as 500Mi".to_owned(),
            ),
            FaultKind::Duration => (
                format!("`{shown}` is not a duration"),
                "write it as Go does, such as `90s` or `1m30s`".to_owned(),
            ),
            FaultKind::Range(least, most) => {
                (format!("{shown} is outside the bounds"), format!("write a number from {least} to {most}"))
            }
        };
        ctx.report(&node, message).rejected_by(authority).help(help);
    }
    for node in kubelet::expressions(class) {
        expression(&node, ctx);
    }
}

fn unknown_field(node: &Node<'_>, ctx: &mut Context<'_>) {
    let pointer = node.pointer();
    let Some((name, above)) = pointer.steps().split_last() else { return };
    let above = above.get(2..).unwrap_or_default().join("/");
    let fields = kubelet::fields_below(&above);
    let finding = ctx.report(node, format!("the kubelet has no field `{}`", ellipsize(name)));
    finding.rejected_by(Some(Authority::Karpenter)).at_key();
    if let Some(near) = nearest(name, fields.iter().copied()) {
        finding.help(format!("did you mean `{near}`?"));
    }
}

/// An expression: it has to parse, and needs a feature gate.
fn expression(node: &Node<'_>, ctx: &mut Context<'_>) {
    let text = node.text().unwrap_or_default();
    if cel::syntax_error(text).is_some() {
        ctx.report(node, format!("`{}` is neither a quantity nor an expression", ellipsize(text)))
            .rejected_by(Some(Authority::Karpenter))
            .help("write an amount such as 100m, or an expression such as `vcpus * 10`");
        return;
    }
    let Some(gate) = minors::gate("NodeClassCEL") else { return };
    let default = gate.state(ctx.platform().karpenter).is_some_and(|(_, on)| on);
    let settings = INSTALLERS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    let settings = settings.filter(|object| ctx.pairs_with(object));
    let mut on = settings.filter_map(|object| installation::setting(object, gate)?.on);
    if default || on.any(|on| on) {
        return;
    }
    ctx.report(node, "an expression needs the feature gate `NodeClassCEL`, which is off by default")
        .rejected_by(Some(Authority::Karpenter))
        .help("turn the gate on in `settings.awsFeatureGates`, or write a fixed value");
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
