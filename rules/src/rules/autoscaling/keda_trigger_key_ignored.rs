//! KEDA ignores a key in a trigger's metadata.
//!
//! # Why
//! KEDA ignores metadata keys that the trigger type does not have, without an event or a log line: a misspelt
//! `activationThreshold` leaves the default in force. Some keys are read from a TriggerAuthentication or from
//! the environment alone, and others never from there. Of the targets for a stream in Redis one alone is
//! read: `lagCount` or `pendingEntriesCount` of a `consumerGroup`, or else `streamLength`.
//!
//! # Fix
//! Write the key as the finding suggests, remove it, or move a credential to a TriggerAuthentication.
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
//!          value: "4"
//! -        activatonValue: "1" # <-
//! +        activationValue: "1"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/>
//! - <https://keda.sh/docs/latest/concepts/authentication/>

use crate::keda::removed::removed_key;
use crate::keda::scalers::{KeySource, KeyStatus, Scaler, ScalerKey, key_added_after, key_read_before};
use crate::keda::synonyms::meant_key;
use crate::keda::value::whole;
use crate::keda::{is_redis_stream, with_article};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-key-ignored",
    fix: Some(Safety::Unsafe),
    reads: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    depends_on: &[Product::Keda],
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("keda_trigger_key_ignored.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let scaler = trigger.scaler(ctx.platform().keda)?;
    for (name, value) in trigger.metadata().entries() {
        if is_placeholder(name) {
            continue;
        }
        match scaler.key_status(name) {
            KeyStatus::Read | KeyStatus::Rejected(..) if name == "identityOwner" => {
                identity_owner(trigger, &value, ctx);
            }
            KeyStatus::Read | KeyStatus::Rejected(..) => {}
            KeyStatus::NotInMetadata(key) => {
                ctx.report(&value, format!("`{}` is not read from metadata", ellipsize(name))).at_key().help(
                    instead(
                        key,
                        KeySource::Env,
                        format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name),
                    ),
                );
            }
            KeyStatus::NotInEnvironment(key) => {
                ctx.report(&value, format!("`{}` is not read from the environment", key.name))
                    .at_key()
                    .help(instead(key, KeySource::Metadata, format!("write `{}` itself", key.name)));
            }
            KeyStatus::Unknown => unknown(trigger, scaler, name, &value, ctx),
        }
    }
    if is_redis_stream(scaler.name) {
        unread_targets(trigger, ctx);
    }
    None
}

/// The targets of a trigger on a stream in Redis that it does not read: what it counts depends on the other keys
/// (`redis_streams_scaler.go`, KEDA 2.12 to 2.21).
fn unread_targets(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let metadata = trigger.metadata();
    let group = metadata.get("consumerGroup");
    let lag = metadata.get("lagCount");
    if group.is_unknown() || metadata.get("consumerGroupFromEnv").is_set() {
        return None;
    }
    let has_group = group.text().is_some_and(|group| !group.is_empty());
    let has_lag = lag.text().and_then(whole).is_some_and(|lag| lag != 0);
    let unread: &[(&str, &str, Severity)] = match (has_group, has_lag) {
        (false, _) => &[
            ("lagCount", "without `consumerGroup`", Severity::Warning),
            ("pendingEntriesCount", "without `consumerGroup`", Severity::Warning),
        ],
        (true, true) => &[
            ("pendingEntriesCount", "beside `lagCount`", Severity::Info),
            ("streamLength", "beside `consumerGroup`", Severity::Info),
        ],
        (true, false) => &[("streamLength", "beside `consumerGroup`", Severity::Warning)],
    };
    for (name, when, severity) in unread {
        let value = metadata.get(name);
        if value.is_set() {
            ctx.report(&value, format!("`{name}` is not read {when}"))
                .at_key()
                .severity(*severity)
                .help("remove it, or the key that decides what is counted");
        }
    }
    None
}

/// `identityOwner` of the metadata is read for credentials and for `aws-eks` alone: the pod identity `aws` decides by its
/// own fields.
fn identity_owner(trigger: &Trigger<'_>, value: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let reference = trigger.node.get("authenticationRef");
    let name = reference.get("name").text()?;
    let kind = reference.get("kind");
    let (kind, namespace) = match kind.text() {
        _ if kind.is_unknown() => return None,
        None | Some("TriggerAuthentication") => {
            (Kind::TRIGGER_AUTHENTICATION, ctx.object().namespace_or_default())
        }
        Some("ClusterTriggerAuthentication") => (Kind::CLUSTER_TRIGGER_AUTHENTICATION, "default"),
        Some(_) => return None,
    };
    let source = ctx.partner(kind, namespace, name)?;
    let provider = source.path(&["spec", "podIdentity", "provider"]);
    if provider.text() != Some("aws") {
        return None;
    }
    ctx.report(value, "`identityOwner` is not read beside the pod identity `aws`")
        .at_key()
        .severity(Severity::Info)
        .help("remove it; `podIdentity.identityOwner` and `roleArn` of the TriggerAuthentication decide")
        .related(source, &provider, "the pod identity");
    None
}

/// `help` if the key can be set in `source`, otherwise help that names the only remaining source.
fn instead(key: &ScalerKey, source: KeySource, help: String) -> String {
    if key.reads(source) {
        help
    } else {
        "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
    }
}

/// Fields of a trigger that people write into its metadata.
const TRIGGER_FIELDS: [&str; 4] = ["authenticationRef", "metricType", "name", "useCachedMetrics"];

fn unknown(trigger: &Trigger<'_>, scaler: &Scaler, name: &str, value: &Node<'_>, ctx: &mut Context<'_>) {
    if removed_key(scaler.name, name).is_some() {
        // keda-removed-field reports it.
        return;
    }
    // A `cpu` or `memory` trigger requires it, which keda-metric-type-invalid reports.
    let owned = name == "metricType" && trigger.is_resource() && trigger.node.get(name).is_absent();
    if owned && ctx.is_rule_enabled("keda-metric-type-invalid") {
        return;
    }
    let keda = ctx.platform().keda;
    if let Some(since) = key_added_after(scaler.name, name, keda) {
        let kind = with_article(scaler.name);
        ctx.report(value, format!("{kind} trigger reads `{}` from KEDA {since} on", ellipsize(name)))
            .at_key()
            .help(format!("KEDA {keda} silently ignores it: update KEDA, or remove it"));
        return;
    }
    let metadata = trigger.metadata();
    let known = scaler.keys.iter().filter(|k| k.reads(KeySource::Metadata)).flat_map(|k| k.names());
    let synonym = meant_key(scaler.name, name);
    let near = synonym.or_else(|| nearest(name, known)).map(|near| (near, metadata.get(near)));
    let beside = trigger.node.get(name);
    let is_of_trigger = TRIGGER_FIELDS.contains(&name) && beside.is_absent();
    // A version newer than the table has more keys, of which some may be near a known one.
    let is_newer = keda > Product::Keda.newest();
    if is_newer && !is_of_trigger && near.as_ref().is_none_or(|(_, other)| other.is_set()) {
        return;
    }
    let mut message = format!("{} trigger does not read `{}`", with_article(scaler.name), ellipsize(name));
    if let Some(last) = key_read_before(scaler.name, name, keda) {
        message = format!("{message} after KEDA {last}");
    }
    let is_elsewhere = names_other_namespace(trigger, name, value, ctx.object());
    let finding = ctx.report(value, message).at_key();
    match near {
        _ if is_of_trigger => {
            let fix = Fix::unsafe_("move it beside `type`");
            // Metadata are texts, and this field is none.
            let fix = match (name, value.text()) {
                ("useCachedMetrics", Some(text @ ("true" | "false"))) => {
                    fix.remove(value).set(&beside, json!(text == "true"))
                }
                _ => fix.move_to(value, &beside),
            };
            finding.help("move it beside `type`: it is a field of the trigger, not of its metadata").fix(fix)
        }
        Some((near, other)) if !other.is_set() => {
            let default = synonym.and_then(|key| scaler.key(key)?.default);
            let finding = finding.help(match default {
                Some(default) => format!("write `{near}`: until then its default holds, `{default}`"),
                None => format!("did you mean `{near}`?"),
            });
            if is_newer {
                return;
            }
            finding.fix(Fix::unsafe_(format!("rename it to `{near}`")).move_to(value, &other))
        }
        _ if is_elsewhere => finding.help(
            "it counts pods of the ScaledObject's namespace alone: move the ScaledObject, or use another trigger",
        ),
        _ => finding.help("KEDA silently ignores it: remove it"),
    };
}

/// Whether a key of a `kubernetes-workload` trigger is meant to count pods of another namespace, which KEDA cannot
/// (`kubernetes_workload_scaler.go` lists those of the scaled object's namespace).
fn names_other_namespace(trigger: &Trigger<'_>, name: &str, value: &Node<'_>, object: &Object) -> bool {
    trigger.kind() == Some("kubernetes-workload")
        && name.to_ascii_lowercase().contains("namespace")
        && !object.is_namespace_unknown()
        && value.text().is_some_and(|text| text != object.namespace_or_default())
}
