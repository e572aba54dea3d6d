//! The reference of gpulint.yaml, generated from its schema.

use gpulint_rules::lint::config::Config;
use gpulint_rules::{Group, ParamDefault, RULES};
use serde_json::Value;

use super::{cell, prose};

/// Maximum number of values of a field that are listed; a longer list consists of the names of rules.
const LISTED: usize = 12;

pub(super) fn page() -> String {
    let schema = Config::schema();
    let mut out = String::from(
        "# gpulint.yaml\n\n\
         Every key is optional. Unknown keys, unknown rules and wrong types are errors. \
         [`config.json`](../schemas/config.json) is the JSON Schema of the file, which \
         `gpulint schema config` prints; editors that know it complete the keys.\n\n",
    );
    let Some(keys) = schema["properties"].as_object() else {
        return out;
    };
    for (name, key) in keys {
        out.push_str(&format!("## `{name}`\n\n"));
        if let Some(text) = key["description"].as_str() {
            out.push_str(&format!("{}.\n\n", prose(text)));
        }
        if name == "rules" {
            rules(&mut out);
            continue;
        }
        let mut rows = Vec::new();
        rows_of(&schema, key, name, &mut rows);
        // The row of the section itself, whose description is the text above.
        if rows.len() > 1 && value_of(key) == "mapping" {
            rows.remove(0);
        } else if let Some([_, _, _, about]) = rows.first_mut() {
            about.clear();
        }
        out.push_str("| key | value | default | |\n|---|---|---|---|\n");
        for row in rows {
            out.push_str(&format!("| {} |\n", row.map(|text| cell(&text)).join(" | ")));
        }
        out.push('\n');
    }
    out
}

/// Writes the section on `rules`, with the parameters.
fn rules(out: &mut String) {
    let groups: Vec<String> =
        Group::ALL.iter().map(|group| format!("[`{0}`](../groups/{0}.md)", group.name())).collect();
    out.push_str(&format!(
        "Keys are the ids of [rules](../rules/index.md), groups ({}), and `all`. A value is `off`, `on`, \
         `error`, `warning`, `info`, or a mapping with `severity`, `enabled` and, for a rule, its parameters:\n\n\
         ```yaml\nrules:\n  spot-pool-low-diversity: off\n  pdb-missing: error\n  \
         training: {{severity: error}}\n```\n\n",
        groups.join(", "),
    ));
    out.push_str("| rule | parameter | default | |\n|---|---|---|---|\n");
    for rule in RULES {
        for param in rule.params {
            let default = match param.default {
                ParamDefault::Int { default, min, max } => format!("`{default}`, from {min} to {max}"),
                ParamDefault::Strings(list) => format!("`[{}]`", list.join(", ")),
            };
            let about = cell(&prose(param.description));
            out.push_str(&format!(
                "| [`{id}`](../rules/{id}.md) | `{}` | {default} | {about} |\n",
                param.name,
                id = rule.id
            ));
        }
    }
    out.push('\n');
}

/// Adds a row for a key, and for the keys below it.
fn rows_of(schema: &Value, key: &Value, path: &str, rows: &mut Vec<[String; 4]>) {
    let default = match &key["default"] {
        Value::Null => String::new(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let about = prose(key["description"].as_str().unwrap_or_default());
    rows.push([format!("`{path}`"), value_of(key), default, about]);
    below(schema, key, path, rows);
}

fn below(schema: &Value, key: &Value, path: &str, rows: &mut Vec<[String; 4]>) {
    for (name, inner) in key["properties"].as_object().into_iter().flatten() {
        rows_of(schema, inner, &format!("{path}.{name}"), rows);
    }
    if key["items"].is_object() {
        below(schema, &key["items"], &format!("{path}[]"), rows);
    }
    for inner in key["anyOf"].as_array().into_iter().flatten() {
        below(schema, inner, path, rows);
    }
}

fn value_of(key: &Value) -> String {
    if let Some(reference) = key["$ref"].as_str() {
        return match reference.rsplit('/').next() {
            Some("rules") => "as [`rules`](#rules)".to_owned(),
            Some("version") => {
                format!("version, such as `\"{}\"`", key["default"].as_str().unwrap_or_default())
            }
            other => other.unwrap_or_default().to_owned(),
        };
    }
    if let Some(values) = key["enum"].as_array() {
        if values.len() > LISTED {
            return "rules".to_owned();
        }
        let values: Vec<String> = values.iter().map(literal).collect();
        return values.join(", ");
    }
    if !key["const"].is_null() {
        return literal(&key["const"]);
    }
    if let Some(any) = key["anyOf"].as_array() {
        let any: Vec<String> = any.iter().map(value_of).collect();
        return any.join(" or ");
    }
    let kinds: Vec<&str> = match &key["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect(),
        _ => Vec::new(),
    };
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|kind| match kind {
            "array" => format!("list of {}", several(&value_of(&key["items"]))),
            "object" => "mapping".to_owned(),
            "boolean" => "`true`, `false`".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    kinds.join(" or ")
}

fn several(kind: &str) -> String {
    match kind {
        "string" => "strings".to_owned(),
        "mapping" => "mappings".to_owned(),
        other => other.to_owned(),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn every_key_of_the_schema_is_on_the_page() {
        let page = page();
        for part in [
            "## `fail-on`\n",
            "| `fail-on` | `error`, `warning`, `info`, `never` | `warning` |",
            "| `platform.karpenter` | version, such as `\"1.15\"` |",
            "| `platform.keda` | version, such as `\"2.21\"` |",
            "| `overrides[].paths` | list of strings |",
            "| `clusters[].name` | string |",
            "| `webhook.namespaces[].selector.matchLabels` | mapping |",
            "| `webhook.mutate` | `safe`, `warn`, `off`, `false` or list of rules | `safe` |",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }
}
