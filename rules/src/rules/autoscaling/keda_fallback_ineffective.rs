//! A ScaledObject has a fallback that KEDA never uses.
//!
//! # Why
//! A fallback sets the replicas while a metric cannot be read. Resource metrics have none, so KEDA's
//! admission rejects a fallback beside nothing but `cpu` and `memory`. A fallback with
//! `behavior: scalingModifiers` needs a formula. With a formula KEDA reads the formula's `target` as a whole
//! number: where it is not one, there is no fallback.
//!
//! # Fix
//! Leave the fallback out where all triggers are `cpu` or `memory`, and write the target of scaling
//! modifiers as a whole number.
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
