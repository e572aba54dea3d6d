//! Writes values as YAML, in the styles that users write: block or flow, plain or quoted.

use serde_json::Value;

use super::Random;

/// The value as a YAML document.
pub(crate) fn written(value: &Value, random: &mut Random) -> String {
    let mut out = String::new();
    block(value, 0, random, &mut out);
    out
}

fn block(value: &Value, depth: usize, random: &mut Random, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, child) in map {
                out.push_str(&indent);
                out.push_str(&scalar(key, random));
                out.push(':');
                below(child, depth, random, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&indent);
                out.push('-');
                below(item, depth, random, out);
            }
        }
        other => {
            out.push_str(&indent);
            out.push_str(&flow(other, random));
            out.push('\n');
        }
    }
}

fn below(value: &Value, depth: usize, random: &mut Random, out: &mut String) {
    let filled = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if filled && !(depth > 1 && random.one_in(3)) {
        out.push('\n');
        block(value, depth + 1, random, out);
    } else {
        out.push(' ');
        out.push_str(&flow(value, random));
        if random.one_in(12) {
            out.push_str(" # so be it");
        }
        out.push('\n');
    }
}

fn flow(value: &Value, random: &mut Random) -> String {
    match value {
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(k, v)| format!("{}: {}", scalar(k, random), flow(v, random))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|v| flow(v, random)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => scalar(text, random),
        other => other.to_string(),
    }
}

/// A string. It is sometimes plain, if a plain scalar is read as the same string.
fn scalar(text: &str, random: &mut Random) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() > 5
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c));
    if plain && !random.one_in(5) {
        return text.to_owned();
    }
    if random.one_in(3) && !text.contains(['\'', '\n']) {
        return format!("'{text}'");
    }
    Value::from(text).to_string()
}
