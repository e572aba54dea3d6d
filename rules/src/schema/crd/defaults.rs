//! The object as validation rules see it: without nulls and with defaults, as the API server prepares it for
//! validation.

use serde_json::{Map, Value};

use crate::steps;

/// Removes nulls that the schema does not allow, and sets the defaults of absent fields.
pub(super) fn apply(schema: &Value, value: &mut Value) {
    steps::take(8);
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let more = schema.get("additionalProperties").filter(|more| more.is_object());
            fields.retain(|name, value| {
                let inner = properties.and_then(|known| known.get(name)).or(more);
                !value.is_null() || inner.is_some_and(|inner| flag(inner, "nullable"))
            });
            for (name, inner) in properties.into_iter().flatten() {
                if let Some(default) = inner.get("default")
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(inner) = properties.and_then(|known| known.get(name)).or(more) {
                    apply(inner, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for item in items {
                    apply(inner, item);
                }
            }
        }
        _ => {}
    }
}

/// A value as a CEL expression sees it: only the fields that the schema declares, under names that are
/// identifiers, and with numbers of the declared type. `None` if it contains a value whose CEL type is not a
/// number, string, boolean, list or map, such as a duration.
///
/// `is_root`: for the metadata of an object or of an embedded object, expressions see only the names.
pub(super) fn view(schema: &Value, value: &Value, is_root: bool) -> Option<Value> {
    steps::take(16);
    let kind = schema.get("type").and_then(Value::as_str);
    match value {
        Value::Object(fields) => {
            let mut out = Map::new();
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                for (name, inner) in properties {
                    if let Some(value) = fields.get(name) {
                        out.insert(escape(name)?, view(inner, value, false)?);
                    }
                }
            } else if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
                for (name, value) in fields {
                    out.insert(name.clone(), view(inner, value, false)?);
                }
            }
            if is_root || flag(schema, "x-kubernetes-embedded-resource") {
                for name in ["apiVersion", "kind"] {
                    if let Some(value) = fields.get(name) {
                        out.insert(name.to_owned(), value.clone());
                    }
                }
                let metadata = fields.get("metadata").and_then(Value::as_object);
                let names = ["name", "generateName"]
                    .into_iter()
                    .filter_map(|name| Some((name.to_owned(), metadata?.get(name)?.clone())));
                out.insert("metadata".to_owned(), Value::Object(names.collect()));
            }
            Some(Value::Object(out))
        }
        Value::Array(items) => {
            let inner = schema.get("items")?;
            items
                .iter()
                .map(|item| view(inner, item, false))
                .collect::<Option<Vec<Value>>>()
                .map(Value::Array)
        }
        Value::String(_) => {
            let format = schema.get("format").and_then(Value::as_str);
            let own_type = matches!(format, Some("byte" | "date" | "date-time" | "duration"));
            (!own_type).then(|| value.clone())
        }
        Value::Number(number) if kind == Some("number") => Some(Value::from(number.as_f64()?)),
        other => Some(other.clone()),
    }
}

/// Whether a value contains a list whose items have no order. Comparing it means comparing sets or maps.
pub(super) fn has_unordered_list(schema: &Value, value: &Value) -> bool {
    let inner = |name: &str| {
        let properties = schema.get("properties").and_then(|known| known.get(name));
        properties.or_else(|| schema.get("additionalProperties"))
    };
    steps::take(4);
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| inner(name).is_some_and(|inner| has_unordered_list(inner, value))),
        Value::Array(items) => {
            let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
            matches!(list_type, Some("set" | "map"))
                || schema
                    .get("items")
                    .is_some_and(|inner| items.iter().any(|item| has_unordered_list(inner, item)))
        }
        _ => false,
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

/// Names that CEL reserves. As fields they are written `__namespace__`.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in expressions. `None` if it has none.
/// <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules>
fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/'));
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (identifier && starts).then(|| {
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{apply, escape, has_unordered_list, view};

    #[test]
    fn defaults_are_written_and_nulls_dropped() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 3}}},
            "d": {"type": "string", "nullable": true},
            "e": {"type": "array", "items": {"type": "object", "properties": {"f": {"default": 1}}}},
        }});
        let mut value = json!({"a": null, "d": null, "e": [{}], "g": null});
        apply(&schema, &mut value);
        assert_eq!(value, json!({"a": "x", "b": {"c": 3}, "d": null, "e": [{"f": 1}]}));
    }

    #[test]
    fn expressions_see_declared_fields_under_identifiers() {
        let schema = json!({"type": "object", "properties": {
            "a-b": {"type": "number"}, "namespace": {"type": "string"}, "my__x": {"type": "integer"},
            "my_field": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let value = json!({
            "a-b": 1, "namespace": "n", "my__x": 2, "my_field": "m", "labels": {"a.b/c": "d"}, "unknown": 1,
        });
        let seen = json!({
            "a__dash__b": 1.0, "__namespace__": "n", "my__underscores__x": 2, "my_field": "m",
            "labels": {"a.b/c": "d"},
        });
        assert_eq!(view(&schema, &value, false), Some(seen));
        assert_eq!(escape("0a"), None);
        let duration = json!({"type": "string", "format": "duration"});
        assert_eq!(view(&duration, &json!("1h"), false), None);
    }

    #[test]
    fn lists_without_an_order_are_found_where_they_have_a_value() {
        let schema = json!({"properties": {"a": {"items": {}, "x-kubernetes-list-type": "set"}}});
        assert!(has_unordered_list(&schema, &json!({"a": [1]})));
        assert!(!has_unordered_list(&schema, &json!({"b": [1]})));
    }
}
