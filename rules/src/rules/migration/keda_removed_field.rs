//! A field or a trigger that KEDA no longer reads.
//!
//! # Why
//! KEDA drops what it deprecated: `metricName` has had no effect since 2.12, `metadata.type` of a
//! `cpu` trigger stops the scaler since 2.18, the pod identities `azure` and `aws-kiam` and a
//! rollout strategy `default` are refused by the API server. What is merely ignored misleads
//! whoever reads the manifest; what is refused stops an upgrade.
//!
//! # Fix
//! Write what took its place: the finding says what.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: router}
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
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
use crate::keda::scalers;
use crate::keda::scalers::KeyStatus;
use crate::keda::{Trigger, ellipsize, triggers, with_article};
use crate::platform::Version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-removed-field",
    kinds: &[
        Kind::SCALED_OBJECT,
        Kind::SCALED_JOB,
        Kind::TRIGGER_AUTHENTICATION,
        Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    ],
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("keda_removed_field.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::SCALED_OBJECT) || object.is(Kind::SCALED_JOB) {
        for trigger in triggers(object) {
            of_trigger(&trigger, ctx);
        }
    } else {
        for holder in ["", "awsSecretManager", "azureKeyVault", "gcpSecretManager"] {
            let spec = object.get("spec");
            let holder = if holder.is_empty() { spec } else { spec.get(holder) };
            identity(&holder.path(&["podIdentity", "provider"]), ctx);
        }
    }
    if object.is(Kind::SCALED_JOB) {
        rollout(object, ctx);
    }
    None
}

fn of_trigger(trigger: &Trigger<'_>, ctx: &mut Context<'_>) {
    let keda = ctx.platform().keda;
    let Some(kind) = trigger.kind() else {
        return;
    };
    if let Some((since, instead)) = removed_type(kind) {
        let node = trigger.node.get("type");
        let finding = ctx.report(&node, format!("trigger type `{kind}` is gone since KEDA {since}"));
        finding.help(format!("use `{instead}`"));
        if keda < since {
            finding.severity(Severity::Warning);
        }
        return;
    }
    let Some(scaler) = scalers::scaler(kind) else {
        return;
    };
    for (name, value) in trigger.metadata().entries() {
        match (scaler.key_status(name), removed_key(kind, name)) {
            (KeyStatus::Rejected(since, instead), _) => gone(trigger, name, &value, since, instead, ctx),
            (reading, Some(old)) => {
                // A scaler that reads such a key has its own use for it.
                let own = matches!(reading, KeyStatus::Read) && old.trigger_types.is_empty();
                if !own {
                    old_one(trigger, kind, old, &value, ctx);
                }
            }
            _ => {}
        }
    }
}

/// A key that the scaler refuses since a version.
fn gone(
    trigger: &Trigger<'_>,
    name: &str,
    value: &Node<'_>,
    since: Version,
    instead: &str,
    ctx: &mut Context<'_>,
) {
    let keda = ctx.platform().keda;
    let kind = trigger.kind().unwrap_or_default();
    let metric_type = trigger.node.get("metricType");
    let finding =
        ctx.report(value, format!("{} trigger refuses `{name}` since KEDA {since}", with_article(kind)));
    if trigger.is_resource() {
        finding.help("write it as the trigger's `metricType`");
        let legal = matches!(value.text(), Some("Utilization" | "AverageValue"));
        if legal && metric_type.is_absent() {
            finding.fix(Fix::new("move it to `metricType`", Safety::Safe).move_to(value, &metric_type));
        } else if metric_type.is_set() {
            finding.fix(Fix::new(format!("remove `{name}`"), Safety::Safe).remove(value));
        }
    } else {
        finding.help(format!("write {instead}"));
    }
    if keda < since {
        finding.severity(Severity::Warning);
    }
}

/// A key that is ignored, or will be.
fn old_one(trigger: &Trigger<'_>, kind: &str, old: &RemovedKey, value: &Node<'_>, ctx: &mut Context<'_>) {
    let keda = ctx.platform().keda;
    let key = old.key;
    let refused = old.rejected_between.is_some_and(|(from, before)| (from..before).contains(&keda));
    let (message, severity) = if refused {
        (format!("{} trigger of KEDA {keda} refuses `{key}`", with_article(kind)), Severity::Error)
    } else if keda < old.since {
        (format!("`{key}` of a `{kind}` trigger goes with KEDA {}", old.since), Severity::Info)
    } else {
        let severity = if old.trigger_types.is_empty() { Severity::Info } else { Severity::Warning };
        (format!("`{key}` has no effect since KEDA {}", old.since), severity)
    };
    let headers = trigger.metadata().get("customHeaders");
    let finding = ctx.report(value, message);
    finding.at_key().help(old.replacement).severity(severity);
    if key == "metricName" && keda >= old.since {
        finding.fix(Fix::new("remove `metricName`", Safety::Safe).remove(value));
    } else if let ("cortexOrgID", Some(id), true) = (key, value.text(), headers.is_absent())
        && !id.contains([',', '='])
    {
        finding.fix(
            Fix::new("send it as a header", Safety::Unsafe)
                .set(&headers, json!(format!("X-Scope-OrgID={id}")))
                .remove(value),
        );
    }
}

/// Providers that were taken out of the definition.
fn identity(provider: &Node<'_>, ctx: &mut Context<'_>) {
    let since = Version::new(2, 15);
    let instead = match provider.text() {
        Some("aws-kiam") => "aws",
        Some("azure") => "azure-workload",
        _ => return,
    };
    let keda = ctx.platform().keda;
    let name = ellipsize(provider.text().unwrap_or_default());
    let finding = ctx.report(provider, format!("pod identity `{name}` is gone since KEDA {since}"));
    finding
        .help(format!("set up `{instead}`: it needs roles of its own"))
        .rejected_by(Some(Authority::ApiServer));
    if keda < since {
        finding.severity(Severity::Warning);
    }
}

fn rollout(object: &Object, ctx: &mut Context<'_>) {
    let keda = ctx.platform().keda;
    let since = Version::new(2, 20);
    let spec = object.get("spec");
    let old = spec.get("rolloutStrategy");
    let strategy = spec.path(&["rollout", "strategy"]);
    for node in [&old, &strategy] {
        if node.text() == Some("default") {
            let finding =
                ctx.report(node, format!("rollout strategy `default` is refused since KEDA {since}"));
            finding
                .help("write `immediate`, which means the same")
                .rejected_by(Some(Authority::ApiServer))
                .fix(Fix::new("write `immediate`", Safety::Safe).set(node, json!("immediate")));
            if keda < since {
                finding.severity(Severity::Warning);
            }
        }
    }
    if matches!(old.text(), Some("gradual" | "immediate")) {
        let finding = ctx.report(&old, "`rolloutStrategy` is deprecated since KEDA 2.8");
        finding.at_key().help("write it as `rollout.strategy`").severity(Severity::Warning);
        if strategy.is_absent() {
            finding.fix(Fix::new("move it to `rollout.strategy`", Safety::Safe).move_to(&old, &strategy));
        }
    }
}
