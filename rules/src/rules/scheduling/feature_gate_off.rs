//! Karpenter runs without the feature gate that an object needs.
//!
//! # Why
//! Karpenter reads NodeOverlays only under the feature gate `NodeOverlay`, and starts nodes for
//! static NodePools (`replicas`) only under `StaticCapacity`. Both gates are off by default. The API
//! server accepts the objects all the same, and nothing says that they have no effect. Only what the
//! input shows counts: Karpenter's own Deployment, or the values of its Helm chart.
//!
//! # Fix
//! Turn the gate on: `settings.featureGates.nodeOverlay` or `settings.featureGates.staticCapacity`
//! in the values of the chart. Or remove the objects.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: karpenter
//!        version: 1.14.1
//!        sourceRef: {kind: HelmRepository, name: karpenter}
//!    values:
//!      settings:
//!        clusterName: prod
//!        featureGates:
//! -        nodeOverlay: false # <-
//! +        nodeOverlay: true
//!  ---
//!  apiVersion: karpenter.sh/v1alpha1
//!  kind: NodeOverlay
//!  metadata: {name: discount}
//!  spec:
//!    priceAdjustment: "-20%"
//!    requirements:
//!      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/settings/#feature-gates>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "feature-gate-off",
    kinds: &[Kind::DEPLOYMENT, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: &[Kind::NODE_OVERLAY, Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("feature_gate_off.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// A gate that is off by default.
struct Gate {
    name: &'static str,
    value: &'static str,
}

const OVERLAY: Gate = Gate { name: "NodeOverlay", value: "nodeOverlay" };
const STATIC: Gate = Gate { name: "StaticCapacity", value: "staticCapacity" };

/// Gates that show that an environment variable is Karpenter's.
const KNOWN: [&str; 5] =
    ["SpotToSpotConsolidation", "NodeRepair", "ReservedCapacity", "NodeOverlay", "StaticCapacity"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    for gate in [OVERLAY, STATIC] {
        let Some(node) = off(object, &gate) else { continue };
        let index = ctx.cluster();
        let (subject, consequence) = if gate.name == OVERLAY.name {
            let overlay = index.of(Kind::NODE_OVERLAY).find(|overlay| ctx.pairs_with(overlay));
            (overlay, "has no effect")
        } else {
            let pool = index.views().static_pools().iter().find(|pool| ctx.pairs_with(pool));
            (pool, "gets no nodes")
        };
        let Some(subject) = subject else { continue };
        let (kind, name) = (subject.kind(), subject.display_name());
        let message = format!("feature gate `{}` is off, so {kind} `{name}` {consequence}", gate.name);
        let finding = ctx.report(&node, message).identified_by(gate.name);
        finding.related(subject, &subject.path(&["metadata", "name"]), consequence);
        if object.is(Kind::DEPLOYMENT) {
            finding.help(format!("write `{}=true` in `FEATURE_GATES`, or remove the {kind}", gate.name));
        } else {
            let title = format!("turn on the feature gate `{}`", gate.name);
            finding
                .help(format!("write `settings.featureGates.{}: true`, or remove the {kind}", gate.value))
                .fix(Fix::new(title, Safety::Unsafe).set(&node, json!(true)));
        }
    }
    None
}

/// The node at which an installation of Karpenter leaves a gate off. `None` if the object is something else, or the gate is
/// on or not known.
fn off<'a>(object: &'a Object, gate: &Gate) -> Option<Node<'a>> {
    if object.is(Kind::DEPLOYMENT) {
        let templates = templates(object);
        let containers = templates.iter().flat_map(Template::containers);
        return containers.into_iter().find_map(|container| off_in_environment(&container, gate));
    }
    let values = values(object)?;
    let gates = values.path(&["settings", "featureGates"]);
    let node = gates.get(gate.value);
    // A chart without `settings` is an old version of Karpenter's, or wraps it.
    let readable = values.get("settings").is_mapping() && !values.has_unknown_key() && !gates.has_unknown();
    let is_off = if node.is_set() { node.bool() == Some(false) } else { !has_other_values(object) };
    (readable && !values.get("settings").has_unknown_key() && is_off).then_some(node)
}

fn off_in_environment<'a>(container: &Node<'a>, gate: &Gate) -> Option<Node<'a>> {
    let value = container
        .get("env")
        .items()
        .find(|entry| entry.get("name").text() == Some("FEATURE_GATES"))?
        .get("value");
    let text = value.text()?;
    let gates = || text.split(',').filter_map(|one| one.split_once('=')).map(|(k, v)| (k.trim(), v.trim()));
    let ours = gates().any(|(name, _)| KNOWN.contains(&name));
    let state = gates().find(|(name, _)| *name == gate.name).map(|(_, state)| state);
    let is_off = state.is_none_or(|state| matches!(state, "false" | "False" | "FALSE" | "f" | "F" | "0"));
    (ours && is_off).then_some(value)
}

fn values(object: &Object) -> Option<Node<'_>> {
    let spec = object.get("spec");
    if object.is(Kind::HELM_RELEASE) {
        let chart = spec.path(&["chart", "spec", "chart"]);
        return (chart.text()? == "karpenter").then(|| spec.get("values"));
    }
    let source = spec.get("source");
    (source.get("chart").text()? == "karpenter").then(|| source.path(&["helm", "valuesObject"]))
}

fn has_other_values(object: &Object) -> bool {
    let spec = object.get("spec");
    let helm = spec.path(&["source", "helm"]);
    spec.get("valuesFrom").is_set()
        || ["values", "valueFiles", "parameters"].iter().any(|field| helm.get(field).is_set())
}
