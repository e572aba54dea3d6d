//! KEDA ignores a key in a trigger's metadata.
//!
//! # Why
//! KEDA ignores metadata keys that the trigger type does not have, without an event or a log line: a misspelt
//! `activationThreshold` leaves the default in force. Some keys are read from a TriggerAuthentication or from
//! the environment alone, and others never from there. Credentials for AWS are not read where KEDA's operator
//! signs (`identityOwner: operator`), or the pod identity `aws` of the TriggerAuthentication. Of the targets
//! for a stream in Redis one alone is read: `lagCount` or `pendingEntriesCount` of a `consumerGroup`, or else
//! `streamLength`.
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
use crate::keda::sources::Authentication;
use crate::keda::synonyms::{TRIGGER_FIELDS, intended_key, meant_key};
use crate::keda::value::whole;
use crate::keda::{is_redis_stream, with_article};
use crate::rules::autoscaling::keda_trigger_invalid::{READS, authentication, blames};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-key-ignored",
    fix: Some(Safety::Unsafe),
    reads: &READS,
    depends_on: &[Product::Keda],
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("keda_trigger_key_ignored.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let scaler = trigger.scaler(ctx.platform().keda)?;
    let signer = Signer::of(trigger, scaler, ctx);
    for (name, value) in trigger.metadata().entries() {
        if is_placeholder(name) {
            continue;
        }
        match (scaler.key_status(name), &signer) {
            (_, Some(signer)) if AWS_CREDENTIALS.contains(&name) => signer.report(name, &value, ctx),
            (_, Some(signer @ Signer::PodIdentity(_))) if name == "identityOwner" => {
                signer.report(name, &value, ctx);
            }
            (status, _) => report(status, (name, &value), (trigger, scaler), ctx),
        }
    }
    if let Some(signer) = signer {
        signer.report_parameters(trigger, ctx);
    }
    if is_redis_stream(scaler.name) {
        unread_targets(trigger, ctx);
    }
    None
}

fn report(
    status: KeyStatus<'_>,
    (name, value): (&str, &Node<'_>),
    (trigger, scaler): (&Trigger<'_>, &Scaler),
    ctx: &mut Context<'_>,
) {
    match status {
        KeyStatus::Read | KeyStatus::Rejected(..) => {}
        KeyStatus::NotInMetadata(key) => {
            let help = format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name);
            ctx.report(value, format!("`{}` is not read from metadata", ellipsize(name)))
                .at_key()
                .help(instead(key, KeySource::Env, help));
        }
        KeyStatus::NotInEnvironment(key) => {
            ctx.report(value, format!("`{}` is not read from the environment", key.name))
                .at_key()
                .help(instead(key, KeySource::Metadata, format!("write `{}` itself", key.name)));
        }
        KeyStatus::Unknown => unknown(trigger, scaler, name, value, ctx),
    }
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

/// The signer of requests to AWS where KEDA reads no credentials (`GetAwsAuthorization` in `pkg/scalers/aws` of KEDA 2.14 to
/// 2.21).
enum Signer<'a> {
    /// The pod identity `aws` of this TriggerAuthentication.
    PodIdentity(&'a Object),
    /// KEDA's operator, as `identityOwner` says; with the TriggerAuthentication that the trigger names.
    Operator(Option<&'a Object>),
}

/// The credentials for AWS, in the metadata and as parameters.
const AWS_CREDENTIALS: [&str; 8] = [
    "awsAccessKeyID",
    "awsAccessKeyIDFromEnv",
    "awsAccessKeyId",
    "awsRoleArn",
    "awsSecretAccessKey",
    "awsSecretAccessKeyFromEnv",
    "awsSessionToken",
    "awsSessionTokenFromEnv",
];

impl<'a> Signer<'a> {
    fn of(trigger: &Trigger<'_>, scaler: &Scaler, ctx: &Context<'a>) -> Option<Signer<'a>> {
        scaler.key("identityOwner")?;
        let source = authentication(ctx.object(), trigger, ctx);
        let identity = match source.map(|source| Authentication::of(&source.get("spec"))) {
            None if !trigger.has_authentication() => "none",
            Some(Authentication::Known(parameters)) => parameters.identity,
            _ => return None,
        };
        let owner = trigger.metadata().get("identityOwner");
        match source {
            Some(source) if identity == "aws" => Some(Signer::PodIdentity(source)),
            _ if identity != "aws" && owner.text() == Some("operator") => Some(Signer::Operator(source)),
            _ => None,
        }
    }

    /// Reports a key of the metadata that is not read.
    fn report(&self, name: &str, value: &Node<'_>, ctx: &mut Context<'_>) {
        let (beside, instead) = match self {
            Signer::PodIdentity(_) => {
                ("the pod identity `aws`", "write it as `podIdentity.roleArn` of the TriggerAuthentication")
            }
            Signer::Operator(_) => (
                "`identityOwner: operator`",
                "remove it, or name a TriggerAuthentication with `podIdentity: {provider: aws}` and this `roleArn`",
            ),
        };
        // A role that nobody assumes has other permissions than those of the operator.
        let is_role = name == "awsRoleArn";
        let finding = ctx.report(value, format!("`{name}` is not read beside {beside}")).at_key();
        finding.help(match name {
            "awsRoleArn" => instead,
            "identityOwner" => {
                "remove it; `podIdentity.identityOwner` and `roleArn` of the TriggerAuthentication decide"
            }
            _ => "remove it, or what it stands beside",
        });
        finding.severity(if is_role { Severity::Warning } else { Severity::Info });
        if let Signer::PodIdentity(source) = self {
            finding.related(source, &source.path(&["spec", "podIdentity", "provider"]), "the pod identity");
        }
    }

    /// Reports a TriggerAuthentication of which nothing is read.
    fn report_parameters(&self, trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
        let Signer::Operator(Some(source)) = self else { return None };
        let Authentication::Known(given) = Authentication::of(&source.get("spec")) else { return None };
        if given.names.is_empty() || !given.names.iter().all(|name| AWS_CREDENTIALS.contains(name)) {
            return None;
        }
        let name = source.display_name();
        ctx.report(
            &trigger.metadata().get("identityOwner"),
            format!("with `identityOwner: operator` KEDA reads no credentials of `{name}`"),
        )
        .help("remove `identityOwner`, or the `authenticationRef`")
        .related(source, &source.path(&["metadata", "name"]), "this gives credentials");
        None
    }
}

/// `help` if the key can be set in `source`, otherwise help that names the only remaining source.
fn instead(key: &ScalerKey, source: KeySource, help: String) -> String {
    if key.reads(source) {
        help
    } else {
        "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
    }
}

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
    let synonym = meant_key(scaler.name, name);
    let near = intended_key(scaler, name).map(|near| (near, metadata.get(near)));
    // That the key which is meant is absent may be an error, and is reported there.
    if near.is_some() && blames(value, trigger, ctx) {
        return;
    }
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
    let object = ctx.object().clone();
    let field = field_of_spec(name, &object);
    let finding = ctx.report(value, message).at_key();
    if let Some(field) = field {
        if field.is_set() {
            finding.help(format!("remove it: `spec.{name}` counts"));
            return;
        }
        finding.help("move it to `spec`: it is a field of the object, not of a trigger");
        if let Some(number) = value.text().and_then(whole).filter(|number| *number >= 0) {
            finding.fix(Fix::unsafe_("move it to `spec`").remove(value).set(&field, json!(number)));
        }
        return;
    }
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

/// The field of the object's `spec` with the name of a key, which scalers do not read.
fn field_of_spec<'a>(name: &str, object: &'a Object) -> Option<Node<'a>> {
    let is_of_kind = match name {
        "maxReplicaCount" | "minReplicaCount" | "pollingInterval" => true,
        "cooldownPeriod" | "idleReplicaCount" | "initialCooldownPeriod" => object.is(Kind::SCALED_OBJECT),
        _ => false,
    };
    is_of_kind.then(|| object.path(&["spec", name]))
}

/// Whether a key of a `kubernetes-workload` trigger is meant to count pods of another namespace, which KEDA cannot
/// (`kubernetes_workload_scaler.go` lists those of the scaled object's namespace).
fn names_other_namespace(trigger: &Trigger<'_>, name: &str, value: &Node<'_>, object: &Object) -> bool {
    trigger.kind() == Some("kubernetes-workload")
        && name.to_ascii_lowercase().contains("namespace")
        && !object.is_namespace_unknown()
        && value.text().is_some_and(|text| text != object.namespace_or_default())
}
