//! Karpenter runs without the feature gate that an object needs.
//!
//! # Why
//! Karpenter reads NodeOverlays only under the feature gate `NodeOverlay`, starts nodes for static
//! NodePools (`replicas`) only under `StaticCapacity`, repairs nodes only under `NodeRepair`, and
//! calls a node class with expressions in `kubelet` or with GPU sharing for DRA not Ready without
//! `NodeClassCEL` and `DRANVIDIAGPU`. These gates are off by default. The API server accepts the
//! objects all the same. From 1.15 on there are two lists of gates, and a gate in the other list has
//! no effect. Only what the input shows counts: Karpenter's own Deployment, or the values of its
//! Helm chart.
//!
//! # Fix
//! Turn the gate on in its own list: `settings.featureGates` or `settings.awsFeatureGates` in the
//! values of the chart, `FEATURE_GATES` or `AWS_FEATURE_GATES` in the Deployment. Or remove the
//! objects.
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

use crate::karpenter::installation;
use crate::karpenter::installation::INSTALLERS;
use crate::karpenter::kubelet;
use crate::karpenter::minors;
use crate::karpenter::minors::Gate;
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::workload::charts::ValuePlace;

pub(crate) static RULE: Rule = Rule {
    id: "feature-gate-off",
    kinds: &INSTALLERS,
    reads: &[Kind::NODE_OVERLAY, Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("feature_gate_off.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// What an object lacks without a gate.
struct Need {
    gate: &'static str,
    kind: Kind,
    consequence: &'static str,
    is_needed: fn(&Object) -> bool,
}

const NEEDS: [Need; 6] = [
    Need { gate: "NodeOverlay", kind: Kind::NODE_OVERLAY, consequence: "has no effect", is_needed: |_| true },
    Need {
        gate: "StaticCapacity",
        kind: Kind::NODE_POOL,
        consequence: "gets no nodes",
        is_needed: is_static,
    },
    Need {
        gate: "ReservedCapacity",
        kind: Kind::EC2_NODE_CLASS,
        consequence: "uses no reservations",
        is_needed: |class| class.path(&["spec", "capacityReservationSelectorTerms"]).items().next().is_some(),
    },
    Need {
        gate: "NodeRepair",
        kind: Kind::NODE_POOL,
        consequence: "has a budget for repairs that never happen",
        is_needed: has_budget_for_repair,
    },
    Need {
        gate: "NodeClassCEL",
        kind: Kind::EC2_NODE_CLASS,
        consequence: "is not Ready: it has an expression",
        is_needed: |class| {
            Ec2NodeClass::new(class).is_some_and(|class| !kubelet::expressions(&class).is_empty())
        },
    },
    Need {
        gate: "DRANVIDIAGPU",
        kind: Kind::EC2_NODE_CLASS,
        consequence: "is not Ready: it asks for shared GPUs",
        is_needed: shares_gpus,
    },
];

/// Gates that do nothing without another one.
const DEPENDENT: [(&str, &str); 2] =
    [("TerminateFirstRepair", "NodeRepair"), ("RebootForRepair", "NodeRepair")];

fn is_static(pool: &Object) -> bool {
    pool.path(&["spec", "replicas"]).is_set()
}

fn has_budget_for_repair(pool: &Object) -> bool {
    let budgets = pool.path(&["spec", "disruption", "budgets"]);
    budgets
        .items()
        .any(|budget| budget.get("reasons").items().any(|reason| reason.text() == Some("Unhealthy")))
}

/// Whether the annotation of a class names a mode of sharing GPUs.
fn shares_gpus(class: &Object) -> bool {
    let annotation =
        class.path(&["metadata", "annotations"]).get("karpenter.k8s.aws/nvidia-consumable-capacity");
    annotation.text().is_some_and(|mode| !matches!(mode, "" | "disabled"))
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || !installation::may_set_gates(object) {
        return None;
    }
    let version = ctx.platform().karpenter;
    for gate in minors::gates() {
        let Some((_, default)) = gate.state(version) else { continue };
        if let Some(place) = installation::misplaced(object, gate) {
            let list = if object.is(Kind::DEPLOYMENT) { gate.list.variable() } else { gate.list.setting() };
            let message =
                format!("feature gate `{}` has no effect here: it belongs into `{list}`", gate.name);
            report_place(&place, message, ctx).identified_by(gate.name).help(format!("move it to `{list}`"));
        }
        let Some(setting) = installation::setting(object, gate) else { continue };
        if setting.on.unwrap_or(default) {
            dependent(object, gate, &setting.place, version, ctx);
        } else {
            NEEDS
                .iter()
                .filter(|need| need.gate == gate.name)
                .for_each(|need| needed(object, need, gate, &setting.place, ctx));
        }
    }
    None
}

/// Reports a gate that is on without the one that it needs.
fn dependent(
    object: &Object,
    gate: &Gate,
    place: &ValuePlace<'_>,
    version: Version,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (_, other) = DEPENDENT.iter().find(|(name, _)| *name == gate.name)?;
    let other = minors::gate(other)?;
    let (_, default) = other.state(version)?;
    let setting = installation::setting(object, other)?;
    if !setting.on.unwrap_or(default) {
        let message = format!("feature gate `{}` has no effect without `{}`", gate.name, other.name);
        report_place(place, message, ctx)
            .identified_by(gate.name)
            .help(format!("turn on `{}` as well", other.name));
    }
    None
}

/// Reports an object that needs a gate which is off.
fn needed(object: &Object, need: &Need, gate: &Gate, place: &ValuePlace<'_>, ctx: &mut Context<'_>) {
    let candidates = ctx.cluster().of(need.kind);
    let is_subject = |subject: &&Object| (need.is_needed)(subject) && ctx.pairs_with(subject);
    let Some(subject) = candidates.into_iter().find(is_subject) else { return };
    let (kind, name, consequence) = (subject.kind(), subject.display_name(), need.consequence);
    let message = format!("feature gate `{}` is off, so {kind} `{name}` {consequence}", gate.name);
    let finding = report_place(place, message, ctx).identified_by(gate.name);
    finding.related(subject, &subject.path(&["metadata", "name"]), consequence);
    if object.is(Kind::DEPLOYMENT) {
        let variable = gate.list.variable();
        finding.help(format!("write `{}=true` in `{variable}`, or change the {kind}", gate.name));
        return;
    }
    let list = gate.list.setting();
    finding.help(format!("write `settings.{list}.{}: true`, or change the {kind}", gate.chart));
    if !place.is_in_text {
        let title = format!("turn on the feature gate `{}`", gate.name);
        finding.fix(Fix::new(title, Safety::Unsafe).set(&place.node, json!(true)));
    }
}
