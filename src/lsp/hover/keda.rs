//! Triggers of KEDA: the keys that a type reads, and the description of one key.

use gpulint_rules::keda::scalers::{KeySource, KeyStatus, Scaler, ScalerKey, scaler};
use gpulint_rules::keda::value::KeyType;
use gpulint_rules::{Kind, Version};

use super::Place;
use super::words::{code, more, sentence};
use crate::lsp::view::View;

/// Maximum number of optional keys to name.
const MAX_KEYS: usize = 12;

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    if !place.object.is(Kind::SCALED_OBJECT) && !place.object.is(Kind::SCALED_JOB) {
        return None;
    }
    let path = place.path();
    let trigger = match path.as_slice() {
        ["spec", "triggers", _, "type"] | ["spec", "triggers", _, "metadata", _] => place.ancestor(3),
        _ => return None,
    };
    let keda = view.engine.settings().platform.keda;
    let scaler = scaler(trigger.get("type").text()?, keda)?;
    match path.last()? {
        &"type" => Some(of_type(scaler, keda)),
        key => of_key(scaler, key),
    }
}

fn of_type(scaler: &Scaler, keda: Version) -> String {
    let mut out = format!("**Trigger {}** (KEDA {keda})\n", code(scaler.name));
    let readable = || scaler.keys.iter().filter(|key| is_in_metadata(key));
    let names = |required: bool| -> Vec<String> {
        readable()
            .filter(|key| key.required == required && !key.name.ends_with('*'))
            .map(|key| match key.default {
                Some(default) if !required => format!("{} ({})", code(key.name), default),
                _ => code(key.name),
            })
            .collect()
    };
    let (needed, mut optional) = (names(true), names(false));
    if !needed.is_empty() {
        out.push_str(&format!("\n- needs {}", needed.join(", ")));
    }
    if !optional.is_empty() {
        let others = optional.len().saturating_sub(MAX_KEYS);
        optional.truncate(MAX_KEYS);
        out.push_str(&format!("\n- may have {}", more(optional, others)));
    }
    let secret: Vec<String> = scaler
        .keys
        .iter()
        .filter(|key| key.reads(KeySource::Authentication) && !is_in_metadata(key))
        .map(|key| code(key.name))
        .collect();
    if !secret.is_empty() {
        let others = secret.len().saturating_sub(MAX_KEYS);
        let shown = secret.into_iter().take(MAX_KEYS).collect();
        out.push_str(&format!("\n- from a TriggerAuthentication: {}", more(shown, others)));
    }
    out.trim_end().to_owned()
}

fn is_in_metadata(key: &ScalerKey) -> bool {
    (key.reads(KeySource::Metadata) || key.reads(KeySource::Env)) && key.rejected_since.is_none()
}

fn of_key(scaler: &Scaler, written: &str) -> Option<String> {
    let title = format!("{} of trigger {}", code(written), code(scaler.name));
    let named = |name: &str| scaler.keys.iter().find(|key| key.names().any(|known| known == name));
    match scaler.key_status(written) {
        KeyStatus::Rejected(version, instead) => {
            Some(format!("{title}: KEDA {version} and later reject it. {}.", sentence(instead)))
        }
        KeyStatus::NotInMetadata(key) => {
            let source = if key.reads(KeySource::Authentication) {
                "a TriggerAuthentication"
            } else {
                "an environment variable of the target"
            };
            Some(format!("{title}: KEDA reads it from {source}, not from here."))
        }
        KeyStatus::NotInEnvironment(key) => {
            Some(format!("{title}: KEDA does not read {} from the environment.", code(key.name)))
        }
        KeyStatus::Unknown => None,
        KeyStatus::Read => match (named(written), written.strip_suffix("FromEnv").and_then(named)) {
            (Some(key), _) => Some(of_known(&title, key)),
            (None, Some(key)) => Some(format!(
                "{title}: the name of an environment variable of the target's container, whose value is {}.",
                code(key.name)
            )),
            (None, None) => None,
        },
    }
}

fn of_known(title: &str, key: &ScalerKey) -> String {
    let need = if key.required { "required" } else { "optional" };
    let mut lines = vec![format!("{}, {need}", kind(key))];
    if let Some(default) = key.default.filter(|default| !default.is_empty()) {
        lines.push(format!("default: {}", code(default)));
    }
    if !key.values.is_empty() {
        let values: Vec<String> = key.values.iter().map(|value| code(value)).collect();
        lines.push(format!("one of {}", values.join(", ")));
    }
    let mut elsewhere = Vec::new();
    if key.reads(KeySource::Env) {
        elsewhere.push(format!("from the environment with {}", code(&format!("{}FromEnv", key.name))));
    }
    if key.reads(KeySource::Authentication) {
        elsewhere.push("from a TriggerAuthentication".to_owned());
    }
    if !elsewhere.is_empty() {
        lines.push(format!("can also come {}", elsewhere.join(", or ")));
    }
    if let Some(alias) = key.alias {
        lines.push(format!("other name: {}", code(alias)));
    }
    let list: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
    format!("{title}\n\n{}", list.join("\n"))
}

/// The type of the value. Metadata contains only strings, which KEDA parses.
fn kind(key: &ScalerKey) -> String {
    let separator = code(&key.separator.to_string());
    match key.kind {
        KeyType::String => "text".to_owned(),
        KeyType::Int => "a whole number".to_owned(),
        KeyType::Uint => "a whole number from 0 up".to_owned(),
        KeyType::Float => "a number".to_owned(),
        KeyType::Bool => "`true` or `false`".to_owned(),
        KeyType::Duration => "a duration such as `30s`, or milliseconds".to_owned(),
        KeyType::List => format!("a list with {separator} between the items"),
        KeyType::Ints if key.ranges => format!("whole numbers or ranges, with {separator} between them"),
        KeyType::Ints => format!("whole numbers with {separator} between them"),
        KeyType::Map => format!("`key=value` pairs with {separator} between them"),
        KeyType::Params => "parameters of a URL".to_owned(),
    }
}
