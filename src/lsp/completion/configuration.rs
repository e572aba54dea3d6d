//! Completion in `gpulint.yaml`, from its JSON Schema.

use std::sync::LazyLock;

use gpulint_rules::lint::config::Config;
use gpulint_rules::{Group, find_rule};
use serde_json::Value;

use super::item::{Item, ItemKind, Values, line_end};
use super::sketch::{self, KeyPlace, Place, Sketch, ValuePlace};

static SCHEMA: LazyLock<Value> = LazyLock::new(Config::schema);

pub(crate) fn configuration(text: &str, offset: u32) -> Vec<Item> {
    let sketch = sketch::read(text, offset);
    match &sketch.place {
        Place::Nowhere | Place::Comment(_) => Vec::new(),
        Place::Key(place) => keys(&sketch, place),
        Place::Value(place) => {
            if let Some(column) = place.item_column.filter(|_| !place.quoted) {
                let (parent, word) = (place.node, place.word);
                let fields = keys(
                    &sketch,
                    &KeyPlace { parent, word, entry: None, column, flow: false, quoted: false },
                );
                if !fields.is_empty() {
                    return fields;
                }
            }
            values(&sketch, place)
        }
    }
}

/// Collects the alternatives of a schema and follows references.
fn alternatives<'s>(schema: &'s Value, out: &mut Vec<&'s Value>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        alternatives(&SCHEMA["$defs"][name], out);
    }
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        alternatives(alternative, out);
    }
    out.push(schema);
}

/// The schemas that apply at the end of a path.
fn at(steps: &[String]) -> Vec<&'static Value> {
    let mut here = Vec::new();
    alternatives(&SCHEMA, &mut here);
    for step in steps {
        let mut inside = Vec::new();
        for schema in here {
            let child = schema["properties"].get(step);
            let item = || schema.get("items").filter(|_| step.parse::<usize>().is_ok());
            let other = || schema.get("additionalProperties").filter(|other| other.is_object());
            if let Some(child) = child.or_else(item).or_else(other) {
                alternatives(child, &mut inside);
            }
        }
        here = inside;
    }
    here
}

fn has_type(schemas: &[&Value], name: &str) -> bool {
    schemas.iter().any(|schema| match &schema["type"] {
        Value::String(one) => one == name,
        Value::Array(many) => many.iter().any(|one| one == name),
        _ => false,
    })
}

fn keys(sketch: &Sketch<'_>, place: &KeyPlace) -> Vec<Item> {
    let here = at(&sketch.steps(place.parent));
    let others = sketch.nodes[place.parent].children.iter().filter(|child| Some(**child) != place.entry);
    let written: Vec<&str> = others.map(|child| sketch.nodes[*child].key.as_str()).collect();
    let mut out: Vec<Item> = Vec::new();
    for schema in &here {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if written.contains(&name.as_str()) || out.iter().any(|item| item.label == *name) {
                continue;
            }
            out.push(Item {
                span: place.word,
                label: name.clone(),
                insert: insert(sketch, place, name, field),
                kind: kind_of(name),
                detail: detail(field),
                documentation: description(field),
            });
        }
    }
    out
}

fn kind_of(name: &str) -> ItemKind {
    let is_rule =
        find_rule(name).is_some() || name == "all" || Group::ALL.iter().any(|group| group.name() == name);
    if is_rule { ItemKind::Rule } else { ItemKind::Field }
}

fn description(schema: &Value) -> Option<String> {
    let mut all = Vec::new();
    alternatives(schema, &mut all);
    let own = schema["description"].as_str();
    own.or_else(|| all.iter().find_map(|schema| schema["description"].as_str())).map(str::to_owned)
}

fn detail(schema: &Value) -> Option<String> {
    // The severity of a rule that the configuration does not set.
    let own = schema["anyOf"].as_array().into_iter().flatten();
    let severity = own.filter_map(|one| one["properties"]["severity"]["default"].as_str()).next();
    let default = schema
        .get("default")
        .map(|default| default.as_str().map_or_else(|| default.to_string(), str::to_owned));
    let default = severity.map(str::to_owned).or(default);
    default.filter(|text| text.len() <= 60).map(|text| format!("default {text}"))
}

fn insert(sketch: &Sketch<'_>, place: &KeyPlace, name: &str, field: &Value) -> String {
    if place.quoted || place.entry.is_some() {
        return name.to_owned();
    }
    let mut all = Vec::new();
    alternatives(field, &mut all);
    let has_scalar = all.iter().any(|schema| schema.get("enum").is_some() || schema.get("const").is_some());
    let (is_map, is_list) = (has_type(&all, "object"), has_type(&all, "array"));
    let indent = " ".repeat(place.column + 2);
    let end = line_end(sketch.text);
    match (place.flow || has_scalar, is_map, is_list) {
        (false, true, _) => format!("{name}:{end}{indent}"),
        (false, _, true) => format!("{name}:{end}{indent}- "),
        _ => format!("{name}: "),
    }
}

fn values(sketch: &Sketch<'_>, place: &ValuePlace) -> Vec<Item> {
    let here = at(&sketch.steps(place.node));
    let mut values = Values::new(place);
    let list = sketch.nodes[place.node].parent;
    let is_item = sketch.nodes[place.node].key_span.is_none();
    let siblings = sketch.nodes[list].children.iter().filter(|other| is_item && **other != place.node);
    let others: Vec<&str> = siblings.filter_map(|other| sketch.scalar(*other)).collect();
    for schema in &here {
        let listed = schema["enum"].as_array().into_iter().flatten();
        for value in listed.chain(schema.get("const")) {
            match value {
                Value::String(text) if others.contains(&text.as_str()) => {}
                // `on` and `off` are levels, with or without quotes.
                Value::String(text) if matches!(text.as_str(), "on" | "off") => {
                    values.raw(ItemKind::Choice, text, text, None);
                }
                Value::String(text) => {
                    let detail = find_rule(text).map(|rule| rule.summary().to_owned());
                    values.text(kind_of_value(text), text, detail);
                }
                Value::Bool(bool) if !place.quoted => {
                    let text = bool.to_string();
                    values.raw(ItemKind::Choice, &text, &text, None);
                }
                _ => {}
            }
        }
    }
    if has_type(&here, "boolean") && !place.quoted {
        values.raw(ItemKind::Choice, "true", "true", None);
        values.raw(ItemKind::Choice, "false", "false", None);
    }
    if values.out.is_empty() {
        for default in here.iter().filter_map(|schema| schema["default"].as_str()) {
            let is_version = default.chars().all(|c| c.is_ascii_digit() || c == '.');
            values.raw(
                ItemKind::Value,
                default,
                &if is_version && !place.quoted { format!("\"{default}\"") } else { default.to_owned() },
                Some("default".to_owned()),
            );
        }
        for default in here.iter().filter_map(|schema| schema["default"].as_i64()) {
            let text = default.to_string();
            values.raw(ItemKind::Value, &text, &text, Some("default".to_owned()));
        }
    }
    values.out
}

fn kind_of_value(text: &str) -> ItemKind {
    match kind_of(text) {
        ItemKind::Rule => ItemKind::Rule,
        _ => ItemKind::Choice,
    }
}
