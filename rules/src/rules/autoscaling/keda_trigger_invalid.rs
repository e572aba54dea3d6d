//! KEDA cannot build a scaler from a trigger's metadata.
//!
//! # Why
//! KEDA's admission does not look at a trigger's metadata. A key that is missing, `70%` where a
//! number belongs, a word that the scaler does not know or a threshold that an HPA rounds to 0 fails
//! later: no scaler or no HPA is made, the object is not Ready, and the replicas stay where they are.
//!
//! # Fix
//! Write the keys that the trigger type needs, with values that it can read.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    triggers:
//!      - type: kubernetes-workload
//! -      metadata: {podSelector: app=llm-client, value: 4 pods} # <-
//! +      metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>

use crate::keda::check::problems;
use crate::keda::value::number;
use crate::keda::{ellipsize, triggers, uses_modifiers};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-invalid",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    docs: docs(include_str!("keda_trigger_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let has_hpa = object.is(Kind::SCALED_OBJECT);
    let modifiers = if has_hpa { uses_modifiers(object) } else { Some(false) };
    for trigger in triggers(object) {
        let Some(scaler) = trigger.scaler() else { continue };
        if has_hpa {
            utilization(&trigger, ctx);
        }
        // Fields that a patch does not set may be in the object that it patches.
        if !object.is_partial() && trigger.metadata().is_set() {
            for problem in problems(trigger.clone(), scaler, modifiers) {
                let finding = ctx.report(&problem.node, problem.message).help(problem.help);
                finding.identified_by(problem.keys);
            }
        }
        if has_hpa && modifiers == Some(false) {
            threshold(&trigger, ctx);
        }
    }
    None
}

/// A `cpu` or `memory` target of type Utilization is decoded as a 32-bit integer.
fn utilization(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !trigger.is_resource() || trigger.node.get("metricType").text() != Some("Utilization") {
        return None;
    }
    let value = trigger.metadata().get("value");
    let text = value.text().map(str::trim).filter(|t| !t.is_empty())?;
    if !text.parse::<i32>().is_ok_and(|n| n > 0) {
        ctx.report(&value, format!("a utilization of `{}` is not an integer percentage", ellipsize(text)))
            .help("write a plain number above 0, such as \"70\"");
    }
    None
}

/// A target of an HPA has three decimals: the API server rejects a value that rounds to 0.
fn threshold(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if trigger.kind() != Some("prometheus") {
        return None;
    }
    let node = trigger.metadata().get("threshold");
    let text = node.text()?.trim();
    if number(text)? < 0.0005 {
        ctx.report(
            &node,
            format!("threshold {} is rounded to 0: the API server rejects the HPA", ellipsize(text)),
        )
        .help("write 0.001 or more");
    }
    None
}
