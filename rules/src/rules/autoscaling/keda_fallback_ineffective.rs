//! A ScaledObject's fallback never does what it says.
//!
//! # Why
//! A fallback holds the replicas while a metric cannot be read. Resource triggers have none, so
//! KEDA's admission refuses one beside nothing but `cpu` and `memory`. Where an empty answer
//! counts as 0, which is Prometheus' default, a lost scrape target is no failure: the service
//! scales in instead. A count outside the bounds is clamped, and a fractional target of scaling
//! modifiers switches the fallback off without a word.
//!
//! # Fix
//! Write `ignoreNullValues: "false"` where an empty answer means that something is broken, keep
//! `replicas` between the bounds, and write the target of scaling modifiers as a whole number.
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
//!    fallback:
//!      failureThreshold: 3
//! -    replicas: 12 # <-
//! +    replicas: 6
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: "app=llm-client", value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#fallback>

use crate::keda::value::boolean;
use crate::keda::{Trigger, ellipsize, triggers, uses_modifiers};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-fallback-ineffective",
    kinds: &[Kind::SCALED_OBJECT],
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("keda_fallback_ineffective.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

/// Trigger types for which an empty answer counts as 0 unless `ignoreNullValues` says no.
const NULL_IS_ZERO: &[&str] = &["prometheus", "loki", "aws-cloudwatch"];
/// Trigger types for which it does where `ignoreNullValues` says so.
const NULL_MAY_BE_ZERO: &[&str] = &["azure-app-insights", "elasticsearch", "opensearch"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let fallback = spec.get("fallback");
    if !fallback.is_mapping() {
        return None;
    }
    let modifiers = uses_modifiers(object)?;
    let list = spec.get("triggers");
    let all: Vec<Trigger<'_>> = triggers(object).collect();
    let known = list.is_sequence() && all.iter().all(|t| t.kind().is_some());
    if known && !modifiers && !all.is_empty() && all.iter().all(Trigger::is_resource) {
        ctx.report(&fallback, "a fallback does nothing for `cpu` and `memory` triggers, and KEDA refuses it")
            .help("leave it out: resource metrics never fall back");
        return None;
    }
    behavior(&spec, &fallback, ctx);
    bounds(&spec, &fallback, ctx);
    if modifiers {
        fraction(&spec, ctx);
    } else if known {
        masked(&fallback, &all, ctx);
    }
    None
}

fn behavior(spec: &Node<'_>, fallback: &Node<'_>, ctx: &mut Context<'_>) {
    let behavior = fallback.get("behavior");
    let formula = spec.path(&["advanced", "scalingModifiers", "formula"]);
    let empty = !formula.is_unknown() && (!formula.is_set() || formula.text() == Some(""));
    if behavior.text() == Some("scalingModifiers") && empty {
        ctx.report(&behavior, "fallback `scalingModifiers` without a formula in `advanced.scalingModifiers`")
            .help("write the formula, or another behavior such as `static`");
    }
}

/// The HPA clamps a count outside the bounds.
fn bounds(spec: &Node<'_>, fallback: &Node<'_>, ctx: &mut Context<'_>) {
    let replicas = fallback.get("replicas");
    let behavior = fallback.get("behavior");
    let (Some(count), false) = (replicas.int(), behavior.is_unknown()) else {
        return;
    };
    let number = |name: &str, default: i64| {
        let node = spec.get(name);
        if node.is_set() {
            node.int()
        } else if node.is_unknown() {
            None
        } else {
            Some(default)
        }
    };
    let (Some(min), Some(max)) = (number("minReplicaCount", 0), number("maxReplicaCount", 100)) else {
        return;
    };
    // A minimum of 0 lets the target rest at 0, where a fallback of 0 leaves it.
    let low = count < min.max(1) && !(count == 0 && min <= 0);
    if count > max {
        ctx.report(&replicas, format!("a fallback of {count} replicas is cut to the maximum, {max}"))
            .help(format!("write {max} or less, or raise `maxReplicaCount`"))
            .severity(Severity::Warning);
    } else if low && matches!(behavior.text(), None | Some("static")) {
        ctx.report(&replicas, format!("a fallback of {count} replicas is raised to the minimum, {min}"))
            .help(format!("write {min} or more"))
            .severity(Severity::Warning);
    }
}

/// KEDA reads the target as a whole number here, and gives the fallback up where it is none.
fn fraction(spec: &Node<'_>, ctx: &mut Context<'_>) {
    let target = spec.path(&["advanced", "scalingModifiers", "target"]);
    if let Some(text) = target.text()
        && text.parse::<f64>().is_ok_and(|n| n > 0.0)
        && text.parse::<i64>().is_err()
    {
        ctx.report(
            &target,
            format!("target `{}` is no whole number, which disables the fallback", ellipsize(text)),
        )
        .help("write a whole number without a dot or an exponent")
        .rejected_by(None);
    }
}

/// Every trigger that could fall back takes an empty answer for 0.
fn masked(fallback: &Node<'_>, all: &[Trigger<'_>], ctx: &mut Context<'_>) {
    let mut first = None;
    for trigger in all.iter().filter(|t| !t.is_resource()) {
        let kind = trigger.kind().unwrap_or_default();
        let ignore = trigger.metadata().get("ignoreNullValues");
        if ignore.is_unknown() {
            return;
        }
        let written = ignore.text().and_then(|t| boolean(t.trim()));
        let zero = (NULL_IS_ZERO.contains(&kind) && written != Some(false))
            || (NULL_MAY_BE_ZERO.contains(&kind) && written == Some(true));
        // The query itself may say what an empty answer means.
        let query = trigger.metadata().get("query");
        let guarded =
            query.is_unknown() || query.text().is_some_and(|q| q.contains("vector(") || q.contains("absent"));
        if !zero || guarded {
            return;
        }
        first.get_or_insert(kind);
    }
    if let Some(kind) = first {
        ctx.report(
            fallback,
            format!("an empty answer counts as 0 for `{kind}`, so this fallback never fires"),
        )
        .help("write `ignoreNullValues: \"false\"` where an empty answer is a failure")
        .severity(Severity::Warning);
    }
}
