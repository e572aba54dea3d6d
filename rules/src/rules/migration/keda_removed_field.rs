//! A trigger has a type or a key that KEDA no longer reads.
//!
//! # Why
//! KEDA removes what it deprecated. `metricName` has had no effect since 2.12, and with
//! `metadata.type` a `cpu` trigger has no scaler since 2.18. What is ignored misleads whoever reads
//! the manifest; what is rejected stops the scaling after an upgrade.
//!
//! # Fix
//! Write what replaced it: the finding names it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router}
//!  spec:
//!    scaleTargetRef: {name: router}
//!    minReplicaCount: 2
//!    triggers:
//!      - type: cpu
//! -      metadata:
//! -        type: Utilization # <-
//! -        value: "70"
//! +      metricType: Utilization
//! +      metadata: {value: "70"}
//! ```
//!
//! # References
//! - <https://github.com/kedacore/keda/blob/main/CHANGELOG.md>
//! - <https://keda.sh/docs/latest/scalers/cpu/>

use crate::keda::removed::{RemovedKey, removed_key, removed_type};
use crate::keda::scalers::KeyStatus;
use crate::keda::with_article;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-removed-field",
    fix: Some(Safety::Safe),
    depends_on: &[Product::Keda],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("keda_removed_field.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::error(Group::Migration)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kind = trigger.kind()?;
    if let Some((since, instead)) = removed_type(kind) {
        let gone = ctx.platform().keda >= since;
        ctx.report(&trigger.node.get("type"), format!("trigger type `{kind}` is gone since KEDA {since}"))
            .help(format!("use `{instead}`"))
            .severity(if gone { Severity::Error } else { Severity::Warning });
        return None;
    }
    let scaler = trigger.scaler(ctx.platform().keda)?;
    for (name, value) in trigger.metadata().entries() {
        match (scaler.key_status(name), removed_key(kind, name)) {
            (KeyStatus::Rejected(since, instead), _) => {
                rejected_key(trigger, name, &value, since, instead, ctx);
            }
            // A scaler that still reads such a key uses it for another purpose.
            (KeyStatus::Read, Some(old)) if old.trigger_types.is_empty() => {}
            (_, Some(old)) => ignored_key(trigger, kind, old, &value, ctx),
            _ => {}
        }
    }
    None
}

/// A key that the scaler rejects since some version.
fn rejected_key(
    trigger: &Trigger<'_>,
    name: &str,
    value: &Node<'_>,
    since: Version,
    instead: &str,
    ctx: &mut Context<'_>,
) {
    let severity = if ctx.platform().keda < since { Severity::Warning } else { Severity::Error };
    let kind = with_article(trigger.kind().unwrap_or_default());
    let metric_type = trigger.node.get("metricType");
    let finding = ctx.report(value, format!("{kind} trigger no longer allows `{name}` since KEDA {since}"));
    finding.severity(severity);
    if !trigger.is_resource() {
        finding.help(format!("write {instead}"));
        return;
    }
    finding.help("write it as the trigger's `metricType`");
    if metric_type.is_set() {
        finding.fix(Fix::safe(format!("remove `{name}`")).remove(value));
    } else if metric_type.is_absent() && matches!(value.text(), Some("Utilization" | "AverageValue")) {
        finding.fix(Fix::safe("move it to `metricType`").move_to(value, &metric_type));
    }
}

/// A key that has no effect, or will have none.
fn ignored_key(trigger: &Trigger<'_>, kind: &str, old: &RemovedKey, value: &Node<'_>, ctx: &mut Context<'_>) {
    let keda = ctx.platform().keda;
    let key = old.key;
    let (message, severity) = if keda < old.since {
        (format!("KEDA {} removes `{key}` from the `{kind}` trigger", old.since), Severity::Info)
    } else {
        let severity = if old.trigger_types.is_empty() { Severity::Info } else { Severity::Warning };
        (format!("`{key}` has no effect since KEDA {}", old.since), severity)
    };
    let headers = trigger.metadata().get("customHeaders");
    let finding = ctx.report(value, message).at_key().help(old.replacement).severity(severity);
    match (key, value.text()) {
        ("metricName", _) if keda >= old.since => {
            finding.fix(Fix::safe("remove `metricName`").remove(value));
        }
        ("cortexOrgID", Some(id)) if headers.is_absent() && !id.contains([',', '=']) => {
            let header = json!(format!("X-Scope-OrgID={id}"));
            finding.fix(Fix::unsafe_("send it as a header").set(&headers, header).remove(value));
        }
        _ => {}
    }
}
