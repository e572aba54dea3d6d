//! What trigger types scale on, and descriptions of them and of their metadata keys for editors.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::scalers::{KeySource, ScalerKey};
use super::value::KeyType;
use crate::facts::table::rows;

/// A type: its kind, the key of its target, its description.
type Row = [&'static str; 3];

static TYPES: LazyLock<BTreeMap<&str, Row>> = LazyLock::new(|| {
    rows::<4>(include_str!("types.tsv"))
        .map(|[name, kind, target, meaning]| (name, [kind, target, meaning]))
        .collect()
});

/// What a trigger type scales on.
pub fn of_type(name: &str) -> Option<&'static str> {
    TYPES.get(name).map(|[.., meaning]| *meaning)
}

/// Whether triggers of a type count work that waits in a queue, for which no client waits.
pub(crate) fn reads_queue(name: &str) -> bool {
    TYPES.get(name).is_some_and(|[kind, ..]| *kind == "queue")
}

/// Whether triggers of a type ask a system of metrics.
pub(crate) fn reads_metrics(name: &str) -> bool {
    TYPES.get(name).is_some_and(|[kind, ..]| *kind == "metrics")
}

/// The key of the target of a type that counts what waits for all replicas.
pub(crate) fn target_of_queue(name: &str) -> Option<&'static str> {
    TYPES.get(name).map(|[_, target, _]| *target).filter(|target| *target != "-")
}

/// The description of a metadata key: whether it is required, its type, default, values and sources.
pub fn of_key(key: &ScalerKey) -> String {
    let mut out = String::from(match (key.required, key.sources.len()) {
        (true, 1) => "required: ",
        (true, _) => "required here or elsewhere: ",
        (false, _) => "optional: ",
    });
    out.push_str(match key.kind {
        KeyType::String => "text",
        KeyType::Int => "integer",
        KeyType::Uint => "integer that is not negative",
        KeyType::Float => "number",
        KeyType::Bool => "boolean",
        KeyType::Duration => "duration",
        KeyType::List => "list",
        KeyType::Ints => "list of integers",
        KeyType::Map => "`key=value` pairs",
        KeyType::Params => "URL parameters",
    });
    if matches!(key.kind, KeyType::List | KeyType::Ints | KeyType::Map) {
        out.push_str(&format!(", separated by `{}`", key.separator));
    }
    if let Some(default) = key.default {
        out.push_str(&format!("; default `{default}`"));
    }
    if !key.values.is_empty() {
        out.push_str(&format!("; one of `{}`", key.values.join("`, `")));
    }
    let elsewhere: Vec<&str> = key.sources.iter().filter_map(|source| source_name(*source)).collect();
    if !elsewhere.is_empty() {
        out.push_str(&format!("; also read from {}", elsewhere.join(" and ")));
    }
    if let Some(alias) = key.alias {
        out.push_str(&format!("; also spelled `{alias}`"));
    }
    out
}

fn source_name(source: KeySource) -> Option<&'static str> {
    match source {
        KeySource::Metadata => None,
        KeySource::Env => Some("the environment of the target"),
        KeySource::Authentication => Some("a TriggerAuthentication"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{TYPES, of_key, of_type, target_of_queue};
    use crate::keda::scalers::{names, scaler};
    use crate::platform::Product;

    #[test]
    fn every_type_has_a_meaning() {
        let types: BTreeSet<&str> = Product::Keda.supported().flat_map(names).collect();
        for name in &types {
            assert!(of_type(name).is_some_and(|meaning| !meaning.is_empty()), "{name}");
        }
        assert_eq!(TYPES.len(), types.len());
        assert!(TYPES.values().all(|[kind, ..]| matches!(*kind, "queue" | "metrics" | "-")));
    }

    #[test]
    fn targets_are_keys() {
        for name in names(Product::Keda.newest()) {
            let scaler = scaler(name, Product::Keda.newest()).expect("a type");
            assert!(target_of_queue(name).is_none_or(|target| scaler.key(target).is_some()), "{name}");
        }
    }

    #[test]
    fn keys_say_what_they_hold() {
        let key = |name: &str, key: &str| {
            let scaler = scaler(name, Product::Keda.newest()).expect("a type");
            of_key(scaler.keys.iter().find(|k| k.name == key).expect("a key"))
        };
        assert_eq!(key("prometheus", "threshold"), "required: number");
        assert_eq!(key("activemq", "targetQueueSize"), "optional: integer; default `10`");
        assert_eq!(
            key("activemq", "username"),
            "required here or elsewhere: text; also read from a TriggerAuthentication and the environment of the target"
        );
    }
}
