//! A trigger that KEDA cannot use.
//!
//! # Why
//! Metadata values must be text, so an unquoted number or boolean makes the API server refuse the
//! object. What KEDA's admission does not look at fails later: a missing key, `70%` where a number
//! belongs, a metric type that the trigger does not have, a word that no scaler knows. Then no
//! scaler is built, the object is not Ready, and the replicas stay where they are.
//!
//! # Fix
//! Quote every metadata value, write the keys that the trigger type needs, and look at the
//! suggestions for misspelt ones.
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
//!    triggers:
//!      - type: kubernetes-workload
//! -      metadata:
//! -        podSelector: app=llm-client
//! -        value: 4 # <-
//! +      metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>

use std::collections::BTreeMap;

use crate::facts::suggest::nearest;
use crate::keda::check::problems;
use crate::keda::removed::{removed_key, removed_type};
use crate::keda::scalers;
use crate::keda::scalers::{KeySource, KeyStatus, LATER_TYPES, Scaler, TABLE_VERSION};
use crate::keda::value::number;
use crate::keda::{Trigger, ellipsize, triggers, uses_modifiers, with_article};
use crate::rules::prelude::*;
use crate::tree::placeholder::is_placeholder;
use crate::tree::scalar::Scalar;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-invalid",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    fix: Some(Safety::Unsafe),
    owns: &[Ownership { path: "spec/triggers/*/metadata/*", aspect: Aspect::Value }],
    docs: docs(include_str!("keda_trigger_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let modifiers = if object.is(Kind::SCALED_JOB) { Some(false) } else { uses_modifiers(object) };
    let mut names: BTreeMap<&str, Node<'_>> = BTreeMap::new();
    for trigger in triggers(object) {
        if !trigger.node.is_mapping() {
            continue;
        }
        let name = trigger.node.get("name");
        if let Some(text) = name.text().filter(|t| !t.is_empty()) {
            if let Some(first) = names.get(text) {
                ctx.report(&name, format!("a second trigger is named `{}`", ellipsize(text)))
                    .help("give each trigger a name of its own: KEDA refuses the object")
                    .related(object, first, "the first")
                    .rejected_by(Some(Authority::KedaAdmission));
            } else {
                names.insert(text, name);
            }
        }
        cached(&trigger, ctx);
        let scaler = trigger.kind().and_then(scalers::scaler);
        texts(object, &trigger, scaler, ctx);
        let Some(kind) = trigger.kind() else {
            continue;
        };
        let Some(scaler) = scaler else {
            unknown_type(&trigger.node.get("type"), kind, ctx);
            continue;
        };
        keys(&trigger, scaler, ctx);
        metric_type(object, &trigger, kind, ctx);
        // What a patch leaves out may stand in what it is laid over.
        if !object.is_partial() && trigger.metadata().is_set() {
            for problem in problems(trigger.clone(), scaler, modifiers) {
                ctx.report(&problem.node, problem.message).help(problem.help);
            }
        }
        if kind == "prometheus" {
            address(&trigger, ctx);
            if object.is(Kind::SCALED_OBJECT) && modifiers == Some(false) {
                threshold(&trigger.metadata().get("threshold"), ctx);
            }
        }
    }
    None
}

/// KEDA's admission knows three types that have nothing to keep.
fn cached(trigger: &Trigger<'_>, ctx: &mut Context<'_>) {
    let cached = trigger.node.get("useCachedMetrics");
    if let Some(kind @ ("cpu" | "memory" | "cron")) = trigger.kind()
        && cached.bool() == Some(true)
    {
        ctx.report(
            &cached,
            format!("{} trigger cannot use cached metrics, and KEDA refuses it", with_article(kind)),
        )
        .help("leave `useCachedMetrics` out")
        .fix(Fix::new("remove `useCachedMetrics`", Safety::Safe).remove(&cached))
        .rejected_by(Some(Authority::KedaAdmission));
    }
}

/// Every metadata value must be text.
fn texts(object: &Object, trigger: &Trigger<'_>, scaler: Option<&Scaler>, ctx: &mut Context<'_>) {
    for (name, value) in trigger.metadata().entries() {
        if value.is_unknown() || is_placeholder(name) {
            continue;
        }
        let text = match value.scalar() {
            Some(Scalar::Str(_)) => continue,
            Some(Scalar::Null) => {
                let needed =
                    scaler.is_some_and(|s| s.keys.iter().any(|k| k.required && k.names().any(|n| n == name)));
                // What is needed is missed by name.
                if !needed {
                    ctx.report(&value, format!("`{}` is null, which counts as absent", ellipsize(name)))
                        .help("write a quoted value, or leave the key out")
                        .severity(Severity::Warning);
                }
                continue;
            }
            Some(Scalar::Bool(b)) => Some(b.to_string()),
            Some(_) => value.string_or_number().map(std::borrow::Cow::into_owned),
            None => None,
        };
        let what = match value.scalar() {
            Some(scalar) => scalar.type_name(),
            None if value.is_sequence() => "list",
            None => "map",
        };
        let article = if what == "integer" { "an" } else { "a" };
        let finding = ctx.report(
            &value,
            format!("`{}` is {article} {what}, and metadata values must be text", ellipsize(name)),
        );
        finding.rejected_by(Some(Authority::ApiServer));
        let Some(text) = text else {
            finding.help("write one quoted value");
            continue;
        };
        // `0777` and `1e3` are read as other numbers than they look: somebody has to choose.
        let written = value
            .span()
            .zip(object.origin())
            .and_then(|(span, o)| o.source.text().get(span.start as usize..span.end as usize));
        let plain = written.is_none_or(|w| w == text) || what == "boolean";
        let shown = if plain { &text } else { written.unwrap_or(&text) };
        finding.help(format!("write \"{}\"", ellipsize(shown)));
        if plain {
            finding.fix(Fix::new("quote the value", Safety::Safe).set(&value, json!(text)));
        }
    }
}

fn unknown_type(node: &Node<'_>, kind: &str, ctx: &mut Context<'_>) {
    let keda = ctx.platform().keda;
    if let Some((_, since)) = LATER_TYPES.iter().find(|(name, _)| *name == kind) {
        if keda < *since {
            ctx.report(node, format!("trigger type `{kind}` comes with KEDA {since}"))
                .help(format!("KEDA {keda} has no such scaler: update it, or use another"))
                .severity(Severity::Warning);
        }
        return;
    }
    // Newer versions know more types; what an old one knew is another rule's.
    if kind.is_empty() || keda > TABLE_VERSION || removed_type(kind).is_some() {
        return;
    }
    let near = nearest(kind, scalers::names());
    let finding = ctx.report(node, format!("KEDA has no trigger type `{}`", ellipsize(kind)));
    finding.severity(Severity::Warning);
    match near {
        Some(near) => finding.help(format!("did you mean `{near}`?")),
        None => finding.help("look at the list of scalers"),
    };
}

/// Keys that nobody reads, or not from there.
fn keys(trigger: &Trigger<'_>, scaler: &'static Scaler, ctx: &mut Context<'_>) {
    let metadata = trigger.metadata();
    let newer = ctx.platform().keda > TABLE_VERSION;
    for (name, value) in metadata.entries() {
        if is_placeholder(name) {
            continue;
        }
        let short = ellipsize(name);
        match scaler.key_status(name) {
            KeyStatus::Read | KeyStatus::Rejected(..) => {}
            KeyStatus::NotInMetadata(key) => {
                let help = if key.reads(KeySource::Env) {
                    format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name)
                } else {
                    "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
                };
                ctx.report(&value, format!("`{short}` is not read from metadata"))
                    .at_key()
                    .help(help)
                    .severity(Severity::Warning);
            }
            KeyStatus::NotInEnvironment(key) => {
                ctx.report(&value, format!("`{}` is not read from the environment", key.name))
                    .at_key()
                    .help(if key.reads(KeySource::Metadata) {
                        format!("write `{}` itself", key.name)
                    } else {
                        "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
                    })
                    .severity(Severity::Warning);
            }
            KeyStatus::Unknown if newer || removed_key(scaler.name, name).is_some() => {}
            KeyStatus::Unknown => {
                let known = scaler.keys.iter().filter(|k| k.reads(KeySource::Metadata));
                let near = nearest(name, known.flat_map(|k| k.names()));
                let finding = ctx
                    .report(&value, format!("{} trigger does not read `{short}`", with_article(scaler.name)));
                finding.at_key().severity(Severity::Warning);
                match near {
                    Some(near) if !metadata.get(near).is_set() => {
                        finding.help(format!("did you mean `{near}`?")).fix(
                            Fix::new(format!("rename it to `{near}`"), Safety::Unsafe)
                                .move_to(&value, &metadata.get(near)),
                        );
                    }
                    _ => {
                        finding.help("KEDA ignores it without a word: remove it");
                    }
                }
            }
        }
    }
}

/// What the HPA is told to compute.
fn metric_type(object: &Object, trigger: &Trigger<'_>, kind: &str, ctx: &mut Context<'_>) {
    let node = trigger.node.get("metricType");
    if node.is_unknown() {
        return;
    }
    let written = node.text().filter(|t| !t.is_empty());
    if object.is(Kind::SCALED_JOB) {
        if written.is_some() {
            ctx.report(&node, "a ScaledJob takes no `metricType`, and KEDA makes no Job with it")
                .help("remove it")
                .fix(Fix::new("remove `metricType`", Safety::Safe).remove(&node));
        }
        return;
    }
    let metadata = trigger.metadata();
    match (trigger.is_resource(), written) {
        (true, Some("Utilization")) => {
            let value = metadata.get("value");
            if let Some(text) = value.text().map(str::trim)
                && !text.is_empty()
                && !text.parse::<i32>().is_ok_and(|n| n > 0)
            {
                ctx.report(&value, format!("a utilization of `{}` is no whole per cent", ellipsize(text)))
                    .help("write a plain number above 0, such as \"70\"");
            }
        }
        // A target that is no quantity stops KEDA's operator: another rule's.
        (true, Some("AverageValue")) => {}
        // The old place of the metric type: another rule's.
        (true, None) if metadata.get("type").is_set() => {}
        (true, None) => {
            ctx.report(&node, format!("{} trigger needs a `metricType`", with_article(kind)))
                .help("write `metricType: Utilization` or `metricType: AverageValue`");
        }
        (true, Some(other)) => {
            ctx.report(
                &node,
                format!("{} trigger has no metric type `{}`", with_article(kind), ellipsize(other)),
            )
            .help("write `Utilization` or `AverageValue`");
        }
        (false, None | Some("AverageValue" | "Value")) => {}
        (false, Some(_)) if matches!(kind, "pulsar" | "splunk-observability" | "external-mock") => {}
        (false, Some(other)) => {
            ctx.report(
                &node,
                format!("{} trigger has no metric type `{}`", with_article(kind), ellipsize(other)),
            )
            .help("write `AverageValue` for a total, `Value` for an average or a ratio");
        }
    }
}

/// KEDA adds `/api/v1/query` itself, and asks from its own namespace.
fn address(trigger: &Trigger<'_>, ctx: &mut Context<'_>) {
    let node = trigger.metadata().get("serverAddress");
    let Some(text) = node.text().map(str::trim).filter(|t| !t.is_empty()) else {
        return;
    };
    let lower = text.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://")) else {
        ctx.report(&node, format!("`serverAddress` `{}` has no `http://` or `https://`", ellipsize(text)))
            .help("write the scheme before it");
        return;
    };
    let path = text.trim_end_matches('/');
    if let Some(end) =
        ["/api/v1/query_range", "/api/v1/query", "/graph"].iter().find(|end| path.ends_with(**end))
    {
        let base = path.strip_suffix(end).unwrap_or(path);
        ctx.report(&node, format!("`serverAddress` ends in `{end}`, and KEDA adds its own path"))
            .help(format!("remove `{end}`"))
            .fix(Fix::new(format!("remove `{end}`"), Safety::Safe).set(&node, json!(base)));
        return;
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    if !name.is_empty() && !name.contains(['.', '[']) {
        ctx.report(&node, format!("`{}` is looked up in KEDA's namespace", ellipsize(name)))
            .help("write the namespace too: `http://NAME.NAMESPACE.svc:PORT`")
            .severity(Severity::Warning);
    }
}

/// An HPA target has three decimals: what rounds to 0 is refused.
fn threshold(node: &Node<'_>, ctx: &mut Context<'_>) {
    if let Some(text) = node.text().map(str::trim)
        && let Some(n) = number(text)
        && n < 0.0005
    {
        ctx.report(node, format!("threshold {} counts as 0, and the HPA is refused", ellipsize(text)))
            .help("write 0.001 or more");
    }
}
