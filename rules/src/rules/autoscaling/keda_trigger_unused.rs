//! A trigger that scales nothing: a formula does not use it, or KEDA leaves it out.
//!
//! # Why
//! With `scalingModifiers` KEDA hands the HPA one metric, the result of the formula, in the place of all
//! others. A trigger that the formula does not name scales nothing: neither up nor from zero. One without a
//! name cannot be named, and KEDA logs an error for it at each poll. KEDA still asks its source, so when the
//! source fails, the object does. `cpu` and `memory` triggers stay metrics of their own.
//!
//! In a ScaledJob KEDA leaves out `cpu` and `memory`, which only an HPA can measure: such a trigger starts
//! no job.
//!
//! # Fix
//! Give the trigger a `name` and use it in the formula, as in `max(orders, refunds)`, or remove it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: worker, namespace: shop}
//!  spec:
//!    scaleTargetRef: {name: worker}
//!    minReplicaCount: 1
//!    maxReplicaCount: 12
//!    advanced:
//!      scalingModifiers:
//! -      formula: orders * 2
//! +      formula: max(orders * 2, refunds)
//!        target: "10"
//!    triggers:
//!      - type: metrics-api
//!        name: orders
//!        metadata:
//!          url: "http://stats.shop.svc:8080/orders"
//!          valueLocation: open
//!          targetValue: "10"
//!      - type: metrics-api
//! -      name: refunds # <-
//! +      name: refunds
//!        metadata:
//!          url: "http://stats.shop.svc:8080/refunds"
//!          valueLocation: open
//!          targetValue: "10"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#scalingmodifiers>
//! - <https://github.com/kedacore/keda/issues/5367>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-unused",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    docs: docs(include_str!("keda_trigger_unused.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::SCALED_JOB) {
        // `getScaledJobMetrics` of KEDA 2.21 passes over metrics that are not external.
        for trigger in triggers(object).filter(Trigger::is_resource) {
            let kind = trigger.kind().unwrap_or_default();
            ctx.report(
                &trigger.node.get("type"),
                format!("a `{kind}` trigger starts no job: KEDA leaves it out"),
            )
            .help("use a trigger that counts the work that waits, such as the length of a queue");
        }
        return None;
    }
    let formula = object.path(&["spec", "advanced", "scalingModifiers", "formula"]);
    let text = formula.text().filter(|text| !text.is_empty())?;
    // Escapes and functions over all values may read names in another way.
    if text.contains('\\') || text.contains("$env") {
        return None;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let uses = |name: &str| text.split(|c: char| !is_part(c)).any(|word| word == name);
    for trigger in triggers(object) {
        let name = trigger.node.get("name");
        if trigger.kind().is_none() || trigger.is_resource() || name.is_unknown() {
            continue;
        }
        match name.text().filter(|name| !name.is_empty()) {
            None if trigger.node.has_unknown_key() => {}
            None => {
                let kind = crate::keda::with_article(trigger.kind().unwrap_or_default());
                ctx.report(
                    &trigger.node.get("type"),
                    format!("{kind} trigger without a name scales nothing: the formula cannot use it"),
                )
                .help("give it a `name`, and use it in `scalingModifiers.formula`, or remove it")
                .related(object, &formula, "only what the formula names counts");
            }
            // A dash makes the name unusable, which keda-formula-invalid reports where the formula has it.
            Some(used) if uses(used) || (!used.chars().all(is_part) && text.contains(used)) => {}
            Some(unused) => {
                let message =
                    format!("trigger `{}` scales nothing: the formula does not use it", ellipsize(unused));
                ctx.report(&name, message)
                    .help("use it in `scalingModifiers.formula`, or remove it")
                    .related(object, &formula, "only what the formula names counts");
            }
        }
    }
    None
}
