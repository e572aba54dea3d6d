//! The scaling modifiers of a ScaledObject lack a formula or a target above 0.
//!
//! # Why
//! With `scalingModifiers` one formula over the triggers' names replaces all their metrics. KEDA's
//! admission rejects the block without a `formula`, and a formula without a `target` above 0. An
//! `activationTarget` that is no number is accepted, and fails at every poll.
//!
//! # Fix
//! Write `formula` and `target`, and numbers without a unit or a per cent sign.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    advanced:
//!      scalingModifiers:
//!        formula: waiting / 2
//! -      target: 5% # <-
//! +      target: "5"
//!    triggers:
//!      - type: kubernetes-workload
//!        name: waiting
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#scalingmodifiers>

use crate::keda::value::GoFloat;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-modifiers-invalid",
    kinds: &[Kind::SCALED_OBJECT],
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("keda_modifiers_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    uses_modifiers(object)?.then_some(())?;
    let block = object.path(&["spec", "advanced", "scalingModifiers"]);
    let formula = block.get("formula");
    let target = block.get("target");
    if formula.text().is_none_or(str::is_empty) {
        if !formula.is_unknown() {
            ctx.report(&formula, "`scalingModifiers` without a `formula`")
                .help("write a formula over the triggers' names, or leave the block out");
        }
    } else if !target.is_unknown() && (!target.is_set() || target.text() == Some("")) {
        ctx.report(&target, "a formula needs a `target`")
            .help("write the formula's result that one replica can handle");
    }
    if let Some(text) = target.text().filter(|t| !t.is_empty()) {
        let rejected = match GoFloat::parse(text) {
            GoFloat::Value(n) => n <= 0.0,
            GoFloat::Unsure => false,
            GoFloat::Invalid => true,
        };
        if rejected {
            ctx.report(&target, format!("target `{}` is not a number above 0", ellipsize(text)))
                .help("write a plain number such as \"5\"");
        }
    }
    let activation = block.get("activationTarget");
    let text = activation.text().filter(|t| !t.is_empty())?;
    if GoFloat::parse(text) == GoFloat::Invalid {
        ctx.report(&activation, format!("`activationTarget` `{}` is not a number", ellipsize(text)))
            .help("write a plain number: KEDA fails over this one at every poll")
            .rejected_by(None);
    }
    None
}
