//! KEDA cannot use the scaling modifiers of a ScaledObject.
//!
//! # Why
//! With `scalingModifiers` one formula over the triggers' names replaces all their metrics. KEDA's
//! admission compiles it: it needs a target above 0, and every name in it must be the `name` of a
//! trigger that is neither `cpu` nor `memory`. A dash reads as a minus sign, so `queue-length` is
//! never a name; a formula that yields true or false is refused as well.
//!
//! # Fix
//! Give each trigger of the formula a `name` of letters, digits and underscores, write `target`
//! as a number, and turn a condition into one with `condition ? 1 : 0`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
//!    advanced:
//!      scalingModifiers:
//!        target: "4"
//! -      formula: waiting + runing # <-
//! +      formula: waiting + running
//!    triggers:
//!      - type: kubernetes-workload
//!        name: waiting
//!        metadata: {podSelector: "app=llm-client", value: "4"}
//!      - type: kubernetes-workload
//!        name: running
//!        metadata: {podSelector: "app=llm-batch", value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#scalingmodifiers>

use std::collections::BTreeSet;

use crate::facts::suggest::nearest;
use crate::keda::formula::{FormulaError, formula_error};
use crate::keda::{ellipsize, triggers, uses_modifiers};
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
    if uses_modifiers(object) != Some(true) {
        return None;
    }
    let block = object.path(&["spec", "advanced", "scalingModifiers"]);
    let formula = block.get("formula");
    let target = block.get("target");
    if !formula.is_unknown() {
        match formula.text() {
            Some(text) if !text.is_empty() => {
                if !target.is_set() && !target.is_unknown() || target.text() == Some("") {
                    ctx.report(&target, "a formula needs a `target`")
                        .help("write the value of the formula that one replica should bear");
                }
                judge(object, &formula, text, ctx);
            }
            _ => {
                ctx.report(&formula, "`scalingModifiers` without a `formula`")
                    .help("write a formula over the triggers' names, or leave the block out");
            }
        }
    }
    if let Some(text) = target.text()
        && !text.is_empty()
        && is_no_target(text)
    {
        ctx.report(&target, format!("target `{}` is no number above 0", ellipsize(text)))
            .help("write a plain number such as \"5\"");
    }
    let activation = block.get("activationTarget");
    if let Some(text) = activation.text()
        && !text.is_empty()
        && go_float(text) == Float::None
    {
        ctx.report(&activation, format!("`activationTarget` is `{}`, which is no number", ellipsize(text)))
            .help("write a plain number: KEDA fails over this one at every poll")
            .rejected_by(None);
    }
    for trigger in triggers(object).filter(|t| t.is_resource()) {
        let container = trigger.metadata().get("containerName");
        if container.is_set() {
            ctx.report(&container, "scaling modifiers drop a resource trigger that names a container")
                .help("leave `containerName` out, or take the formula away")
                .severity(Severity::Warning);
        }
    }
    None
}

fn judge(object: &Object, formula: &Node<'_>, text: &str, ctx: &mut Context<'_>) {
    let list = object.path(&["spec", "triggers"]);
    let mut names = BTreeSet::new();
    let mut resource = BTreeSet::new();
    for trigger in triggers(object) {
        let name = trigger.node.get("name");
        if name.is_unknown() || trigger.node.get("type").is_unknown() || trigger.node.is_unknown() {
            return;
        }
        if let Some(text) = name.text() {
            let among = if trigger.is_resource() { &mut resource } else { &mut names };
            among.insert(text);
        }
    }
    // Without triggers to read, a patch say, no name is known.
    if !list.is_sequence() || (names.is_empty() && object.is_partial()) {
        return;
    }
    let Some(why) = formula_error(text, &names) else {
        return;
    };
    let (message, help) = match why {
        FormulaError::UnknownName(name) if resource.contains(name.as_str()) => (
            format!("`{}` is a resource trigger, which no formula can read", ellipsize(&name)),
            "take it out of the formula: the HPA weighs it beside the formula's result".to_owned(),
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
    ctx.report(formula, message).help(help);
}

/// A number as Go's `strconv.ParseFloat` reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Float {
    Value(f64),
    /// A spelling that only Go reads.
    Unsure,
    None,
}

fn go_float(text: &str) -> Float {
    match text.parse::<f64>() {
        // Go refuses what does not fit; the words for infinity it takes.
        Ok(n) if n.is_infinite() && text.bytes().any(|b| b.is_ascii_digit()) => Float::None,
        Ok(n) => Float::Value(n),
        // Hexadecimal, and underscores with it.
        Err(_) if is_hexadecimal(text) => Float::Unsure,
        Err(_) => Float::None,
    }
}

fn is_hexadecimal(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.starts_with("0x") || digits.starts_with("0X")
}

fn is_no_target(text: &str) -> bool {
    match go_float(text) {
        Float::Value(n) => n <= 0.0,
        Float::Unsure => false,
        Float::None => true,
    }
}
