//! The schemas of core types: generated, one type a line, and read one type at a time.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::structural::read_yaml;

/// Written by `tests/it/schemas.rs`.
const GENERATED: &str = include_str!("../../schemas/core/v1.34.json");
/// What the server checks in code rather than by schema; written by hand.
const STRICT_YAML: &str = include_str!("../../schemas/core/strict.yaml");
/// What a core type inside a CRD has beside its generated form; written by hand.
const EMBEDDED_YAML: &str = include_str!("../../schemas/core/embedded.yaml");

struct Definition {
    text: &'static str,
    parsed: OnceLock<Value>,
}

static DEFINITIONS: LazyLock<BTreeMap<&'static str, Definition>> = LazyLock::new(|| {
    GENERATED
        .lines()
        .filter_map(|line| {
            let (name, text) = line.strip_prefix("\"io.k8s.")?.split_once("\":{")?;
            let name = &line[1..="io.k8s.".len() + name.len()];
            let text = &line[line.len() - text.len() - 1..];
            let parsed = OnceLock::new();
            Some((name, Definition { text: text.strip_suffix(',').unwrap_or(text), parsed }))
        })
        .collect()
});

static STRICT_OVERLAY: LazyLock<Value> = LazyLock::new(|| read_yaml(STRICT_YAML));
static EMBEDDED_OVERLAY: LazyLock<Value> = LazyLock::new(|| read_yaml(EMBEDDED_YAML));

/// A type as it was generated.
pub(super) fn definition(name: &str) -> Option<&'static Value> {
    let found = DEFINITIONS.get(name)?;
    Some(found.parsed.get_or_init(|| serde_json::from_str(found.text).unwrap_or(Value::Null)))
}

/// A type with what the server checks in code.
pub(super) fn strict(name: &str) -> Option<Value> {
    apply_overlay(name, &STRICT_OVERLAY)
}

/// A type as a CRD embeds it.
pub(super) fn embedded(name: &str) -> Option<Value> {
    apply_overlay(name, &EMBEDDED_OVERLAY)
}

fn apply_overlay(name: &str, overlay: &Value) -> Option<Value> {
    let mut schema = definition(name)?.clone();
    let (Some(map), Some(more)) = (schema.as_object_mut(), overlay.get(name)) else {
        return Some(schema);
    };
    let names = |list: &Value| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|n| Some(n.as_str()?.to_owned())).collect()
    };
    let mut required = map.get("required").map(names).unwrap_or_default();
    required.extend(more.get("required").map(names).unwrap_or_default());
    if let Some(filled) = more.get("filled") {
        map.insert("filled".to_owned(), filled.clone());
    }
    let optional = more.get("optional").map(names).unwrap_or_default();
    required.retain(|name| !optional.contains(name));
    required.dedup();
    map.insert("required".to_owned(), Value::from(required));
    if let (Some(Value::Object(properties)), Some(Value::Object(extra))) =
        (map.get_mut("properties"), more.get("properties"))
    {
        for (name, keywords) in extra {
            let property = properties.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(property), Value::Object(keywords)) = (property, keywords) {
                merge_keywords(property, keywords);
            }
        }
    }
    Some(schema)
}

/// Keywords of the overlay, those of `items` into the items.
fn merge_keywords(property: &mut Map<String, Value>, keywords: &Map<String, Value>) {
    for (keyword, value) in keywords {
        match (property.get_mut(keyword), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge_keywords(inner, more),
            _ => {
                property.insert(keyword.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFINITIONS, EMBEDDED_OVERLAY, STRICT_OVERLAY, definition, embedded, strict};

    #[test]
    fn each_line_is_a_type() {
        assert!(DEFINITIONS.len() > 150, "{}", DEFINITIONS.len());
        for name in DEFINITIONS.keys() {
            assert!(definition(name).is_some_and(serde_json::Value::is_object), "{name}");
        }
    }

    #[test]
    fn the_inner_overlay_speaks_of_types_that_are_there() {
        for name in EMBEDDED_OVERLAY.as_object().expect("a map").keys() {
            assert!(embedded(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_overlay_speaks_of_what_is_there() {
        for (name, more) in STRICT_OVERLAY.as_object().expect("a map") {
            let schema = definition(name).unwrap_or_else(|| panic!("no type {name}"));
            let known = &schema["properties"];
            for key in ["required", "optional"] {
                for field in more[key].as_array().into_iter().flatten() {
                    let field = field.as_str().expect("a name");
                    assert!(known.get(field).is_some(), "{name} has no {field}");
                    if key == "optional" {
                        let required = schema["required"].to_string();
                        assert!(required.contains(field), "{name}.{field} is optional already");
                    }
                }
            }
            for (field, _) in more["properties"].as_object().into_iter().flatten() {
                assert!(known.get(field).is_some(), "{name} has no {field}");
            }
            assert!(strict(name).is_some());
        }
    }
}
