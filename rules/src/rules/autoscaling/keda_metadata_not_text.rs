//! A value in a trigger's metadata is not text.
//!
//! # Why
//! The metadata of a trigger is a map of strings. The API server rejects a ScaledObject or ScaledJob
//! with an unquoted number or boolean, a list or a map in it.
//!
//! # Fix
//! Quote every value. `0777` and `1e3` are numbers to YAML that look like other ones: decide what is
//! meant.
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
//!        metadata:
//!          podSelector: app=llm-client
//! -        value: 4 # <-
//! +        value: "4"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>

use crate::rules::prelude::*;
use crate::tree::scalar::Scalar;

pub(crate) static RULE: Rule = Rule {
    id: "keda-metadata-not-text",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    owns: &[Ownership { path: "spec/triggers/*/metadata/*", aspect: Aspect::Value }],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_metadata_not_text.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for (name, value) in trigger.metadata().entries() {
        if value.is_unknown() || is_placeholder(name) {
            continue;
        }
        match value.scalar() {
            Some(Scalar::Str(_)) => {}
            Some(Scalar::Null) => null(trigger, name, &value, ctx),
            _ => not_text(name, &value, ctx),
        }
    }
    None
}

/// KEDA treats a key without value as absent. If the scaler requires it, keda-trigger-invalid reports it as
/// missing.
fn null(trigger: &Trigger<'_>, name: &str, value: &Node<'_>, ctx: &mut Context<'_>) {
    let needs = |s: &crate::keda::scalers::Scaler| {
        s.keys.iter().any(|key| key.required && key.names().any(|n| n == name))
    };
    if !trigger.scaler(ctx.platform().keda).is_some_and(needs) {
        ctx.report(value, format!("`{}` is null, which counts as absent", ellipsize(name)))
            .help("write a quoted value, or leave the key out")
            .severity(Severity::Warning);
    }
}

fn not_text(name: &str, value: &Node<'_>, ctx: &mut Context<'_>) {
    let what = match value.scalar() {
        Some(scalar) => scalar.type_name(),
        None if value.is_sequence() => "list",
        None => "map",
    };
    let text = match value.scalar() {
        Some(Scalar::Bool(b)) => Some(b.to_string()),
        Some(_) => value.string_or_number().map(std::borrow::Cow::into_owned),
        None => None,
    };
    // `0777` and `1e3` are parsed to numbers that look different, so the intended text is not known.
    let origin = ctx.object().origin();
    let written = (value.span().zip(origin))
        .and_then(|(span, o)| o.source.text().get(span.start as usize..span.end as usize));
    let article = if what == "integer" { "an" } else { "a" };
    let message = format!("`{}` is {article} {what}, and metadata values must be text", ellipsize(name));
    let finding = ctx.report(value, message);
    let Some(text) = text else {
        finding.help("write one quoted value");
        return;
    };
    let plain = written.is_none_or(|w| w == text) || what == "boolean";
    let shown = if plain { &text } else { written.unwrap_or(&text) };
    finding.help(format!("write \"{}\"", ellipsize(shown)));
    if plain {
        finding.fix(Fix::safe("quote the value").set(value, json!(text)));
    }
}
