//! KEDA cannot compute the formula of scaling modifiers.
//!
//! # Why
//! KEDA's admission compiles the formula. Every name in it must be the `name` of a trigger that is
//! neither `cpu` nor `memory`, and the result must be a number. A dash is read as a minus sign, so
//! `queue-length` is never a name. The object is rejected.
//!
//! # Fix
//! Give each trigger of the formula a `name` of letters, digits and underscores, and turn a condition
//! into a number with `condition ? 1 : 0`.
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
//!        target: "4"
//! -      formula: runing / 2 # <-
//! +      formula: running / 2
//!    triggers:
//!      - type: kubernetes-workload
//!        name: running
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#scalingmodifiers>
//! - <https://expr-lang.org/docs/language-definition>

use std::collections::BTreeSet;

use crate::keda::formula::{FormulaError, formula_error};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-formula-invalid",
    kinds: &[Kind::SCALED_OBJECT],
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("keda_formula_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let formula = object.path(&["spec", "advanced", "scalingModifiers", "formula"]);
    let text = formula.text().filter(|t| !t.is_empty())?;
    let mut names = BTreeSet::new();
    let mut resource_names = BTreeSet::new();
    for trigger in triggers(object) {
        let name = trigger.node.get("name");
        if name.is_unknown() || trigger.node.get("type").is_unknown() || trigger.node.is_unknown() {
            return None;
        }
        let among = if trigger.is_resource() { &mut resource_names } else { &mut names };
        among.extend(name.text());
    }
    // In a patch without triggers, the names of the triggers are not known.
    if !object.path(&["spec", "triggers"]).is_sequence() || (names.is_empty() && object.is_partial()) {
        return None;
    }
    let (message, help) = match formula_error(text, &names)? {
        FormulaError::UnknownName(name) if resource_names.contains(name.as_str()) => (
            format!("`{}` is a resource trigger, which no formula can read", ellipsize(&name)),
            "remove it from the formula: the HPA evaluates `cpu` and `memory` triggers separately".to_owned(),
        ),
        FormulaError::UnknownName(name) => {
            let dashed = names.iter().find(|n| n.contains('-') && text.contains(**n));
            let help = match (dashed, nearest(&name, names.iter().copied())) {
                (Some(dashed), _) => {
                    format!("a dash is a minus sign: rename trigger `{}` with underscores", ellipsize(dashed))
                }
                (None, Some(near)) => format!("did you mean `{}`?", ellipsize(near)),
                (None, None) => "give a trigger this `name`".to_owned(),
            };
            (format!("no trigger is named `{}`, which the formula uses", ellipsize(&name)), help)
        }
        FormulaError::Boolean => (
            "the formula yields true or false, not a number".to_owned(),
            "write `condition ? 1 : 0`".to_owned(),
        ),
        FormulaError::Text => (
            "the formula is a text, not a number".to_owned(),
            "take the quotes inside the formula away".to_owned(),
        ),
        FormulaError::Condition => (
            "the formula has a number where a condition belongs".to_owned(),
            "compare it: `value > 0 ? … : …`".to_owned(),
        ),
        FormulaError::Syntax => (
            "the formula does not parse".to_owned(),
            "look for an operator or a bracket too many or too few".to_owned(),
        ),
    };
    ctx.report(&formula, message).help(help);
    None
}
