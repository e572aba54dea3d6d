//! A ScaledObject has a fallback that KEDA never uses.
//!
//! # Why
//! A fallback sets the replicas while a metric cannot be read. Resource metrics have none, so KEDA's
//! admission rejects a fallback beside nothing but `cpu` and `memory`. A fallback with
//! `behavior: scalingModifiers` needs a formula. With a formula KEDA reads the formula's `target` as a whole
//! number: where it is not one, there is no fallback.
//!
//! Until KEDA 2.17 a trigger with `metricType: Value` has no fallback, nor has a formula with it in 2.17,
//! whose admission rejects a fallback that no metric uses.
//!
//! # Fix
//! Leave the fallback out where all triggers are `cpu` or `memory`, and write the target of scaling
//! modifiers as a whole number. Before KEDA 2.18 write `metricType: AverageValue`, with a query for all replicas.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    fallback: {failureThreshold: 3, replicas: 6}
//!    advanced:
//!      scalingModifiers:
//!        formula: waiting / 2
//! -      target: "2.5" # <-
//! +      target: "2"
//!    triggers:
//!      - type: kubernetes-workload
//!        name: waiting
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#fallback>

use crate::keda::fallback::Fallback;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-fallback-ineffective",
    kinds: &[Kind::SCALED_OBJECT],
    rejected_by: &[Authority::KedaAdmission],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_fallback_ineffective.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let fallback = Fallback::of(object)?;
    if fallback.has_resource_triggers_only() {
        let message = "`fallback` has no effect on `cpu` and `memory` triggers: KEDA rejects it";
        ctx.report(&fallback.node, message).help("leave it out: resource metrics never fall back");
        return None;
    }
    of_values(object, &fallback, ctx);
    let block = object.path(&["spec", "advanced", "scalingModifiers"]);
    let behavior = fallback.node.get("behavior");
    let formula = block.get("formula");
    let empty = !formula.is_unknown() && (!formula.is_set() || formula.text() == Some(""));
    if behavior.text() == Some("scalingModifiers") && empty {
        let message = "fallback `scalingModifiers` without a formula in `advanced.scalingModifiers`";
        ctx.report(&behavior, message).help("write the formula, or another behavior such as `static`");
    }
    let target = block.get("target");
    let text = target.text().filter(|_| fallback.modifiers)?;
    if text.parse::<f64>().is_ok_and(|n| n > 0.0) && text.parse::<i64>().is_err() {
        let message = format!("target `{}` is not an integer, which disables the fallback", ellipsize(text));
        ctx.report(&target, message)
            .help("write a whole number without a dot or an exponent")
            .rejected_by(None);
    }
    None
}

/// The first version with a fallback for metrics of the type `Value`, and the one before, whose admission looks for others:
/// `isFallbackEnabled` in `pkg/fallback/fallback.go` and `CheckFallbackValid`, KEDA 2.12 to 2.18.
const VALUES_SINCE: Version = Version::new(2, 18);
const REJECTED_SINCE: Version = Version::new(2, 17);

/// Reports metrics of the type `Value`, for which older versions have no fallback.
fn of_values(object: &Object, fallback: &Fallback<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let keda = ctx.platform().keda;
    if keda >= VALUES_SINCE {
        return None;
    }
    let triggers = fallback.triggers.as_ref()?.iter().filter(|trigger| !trigger.is_resource());
    let types: Vec<Node<'_>> = match fallback.modifiers {
        // Before, each trigger decides for itself whether the result of the formula falls back.
        true if keda < REJECTED_SINCE => return None,
        true => vec![object.path(&["spec", "advanced", "scalingModifiers", "metricType"])],
        false => triggers.map(|trigger| trigger.node.get("metricType")).collect(),
    };
    let (values, others): (Vec<_>, Vec<_>) = types.iter().partition(|one| one.text() == Some("Value"));
    if types.iter().any(Node::is_unknown) || values.is_empty() {
        return None;
    }
    if others.is_empty() {
        let rejected = keda >= REJECTED_SINCE;
        let message = match rejected {
            true => "KEDA 2.17 has no fallback for metrics of the type `Value`, and rejects it",
            false => "KEDA before 2.18 has no fallback for metrics of the type `Value`, which all are",
        };
        let finding = ctx.report(&fallback.node, message);
        finding.help("update KEDA, or write `metricType: AverageValue` and a query for all replicas");
        finding.rejected_by(rejected.then_some(Authority::KedaAdmission));
        finding.related(object, values[0], "the type");
        return None;
    }
    for value in values {
        ctx.report(
            value,
            "KEDA before 2.18 has no fallback for this trigger: its metric is of the type `Value`",
        )
        .severity(Severity::Warning)
        .rejected_by(None)
        .help("update KEDA, or write `AverageValue` and a query for all replicas");
    }
    None
}
