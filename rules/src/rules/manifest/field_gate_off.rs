//! A field needs a feature gate of Kubernetes that is off by default.
//!
//! # Why
//! While the gate is off, the API server removes the field from the object without a message: the
//! manifest says one thing, the cluster does another. Alpha gates are off in every cluster that does
//! not turn them on, and Amazon EKS turns on none. A field that the version of the cluster does not have at all
//! is reported by `unknown-field`.
//!
//! # Fix
//! Remove the field, or wait for the version in which the gate is on by default. While the version of
//! the cluster is not stated, only fields are reported whose gate is off in every later version too.
//! State the version in `platform.kubernetes` or with `--kubernetes`.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {kubernetes: "1.34"}
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: shards}
//!  spec:
//!    serviceName: shards
//!    replicas: 8
//!    selector: {matchLabels: {app: shards}}
//!    updateStrategy:
//!      type: RollingUpdate
//! -    rollingUpdate: {maxUnavailable: 2} # <-
//! +    rollingUpdate: {partition: 0}
//!    template:
//!      metadata: {labels: {app: shards}}
//!      spec:
//!        containers: [{name: main, image: "example.com/shards:1.4"}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>

use crate::kind::SCHEMA_KINDS;
use crate::rules::manifest::message_parts::quoted_field;
use crate::rules::manifest::misplaced::is_of_container;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{FeatureGate, FieldHistory};

pub(crate) static RULE: Rule = Rule {
    id: "field-gate-off",
    kinds: SCHEMA_KINDS,
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("field_gate_off.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A custom resource keeps the field; whether the pods that its controller makes keep it depends on the controller.
    let is_custom = Product::of_group(object.group()) != Some(Product::Kubernetes);
    if is_custom || schema::may_differ(object, ctx.definitions()) {
        return None;
    }
    for (node, history) in schema::fields_with_history(object, ctx.definitions()) {
        if let Some(gate) = gate_off(history, ctx) {
            report(object, &node, gate, ctx);
        }
    }
    None
}

/// The gate of a field that is certainly off in the cluster. `None` also if the cluster's version does not have the field.
fn gate_off(history: &FieldHistory, ctx: &Context<'_>) -> Option<&'static FeatureGate> {
    let platform = ctx.platform();
    let is_stated = platform.is_stated(Product::Kubernetes);
    let later =
        Product::Kubernetes.supported().filter(|version| !is_stated && *version > platform.kubernetes);
    let versions: Vec<Version> = std::iter::once(platform.kubernetes).chain(later).collect();
    let is_off = |gate: &&&FeatureGate| {
        versions.iter().all(|version| gate.is_off(*version, platform))
            && !ctx.cluster().is_gate_shown(gate.name)
    };
    history.gates.iter().filter(|_| history.range.contains(platform.kubernetes)).find(is_off).copied()
}

fn report(object: &Object, node: &Node<'_>, gate: &FeatureGate, ctx: &mut Context<'_>) {
    let platform = ctx.platform();
    let (version, is_eks) = (platform.kubernetes, platform.eks);
    let on_from =
        Product::Kubernetes.supported().find(|later| *later > version && !gate.is_off(*later, platform));
    let (field, name) = (quoted_field(&node.pointer()), gate.name);
    let stage = gate.stage_in(version).map_or("alpha", |stage| stage.stage);
    let message =
        format!("{field} has no effect: feature gate `{name}` ({stage}) is off by default in {version}");
    let finding = ctx.report(node, message);
    finding.at_key();
    if !is_eks {
        finding.severity(Severity::Info);
    }
    let remedy = if is_of_container(object, node) { "move it into a container" } else { "remove the field" };
    finding.help(match on_from {
        Some(from) => format!("{remedy}; the gate is on from Kubernetes {from} on"),
        None if is_eks => format!("{remedy}; Amazon EKS does not turn on this gate"),
        None => format!("{remedy}, or turn on `{name}` in the cluster"),
    });
}
