//! The names of fields, from the schema of the kind.

use gpulint_rules::{Outline, OutlineShape, field_meaning};

use super::cursor::Cursor;
use super::item::{Item, ItemKind, line_end};
use super::sketch::KeyPlace;

/// The fields that can be added to a mapping, required ones first.
pub(super) fn complete(cursor: &Cursor<'_>, place: &KeyPlace) -> Vec<Item> {
    let outline = match cursor.outline(&cursor.steps) {
        Some(outline) => outline,
        None if cursor.steps.is_empty() => return envelope(cursor, place),
        None => return Vec::new(),
    };
    if outline.shape() == OutlineShape::List {
        return if place.flow || place.entry.is_some() { Vec::new() } else { items(cursor, place, &outline) };
    }
    let written = written(cursor, place);
    let fields = outline.fields().into_iter().filter(|(name, _)| !written.contains(name));
    fields.map(|(name, field)| item(cursor, place, name, &field, outline.requires(name))).collect()
}

/// The fields that every object has.
fn envelope(cursor: &Cursor<'_>, place: &KeyPlace) -> Vec<Item> {
    let written = written(cursor, place);
    // Without these fields the document is not a manifest, but the values of a chart or a workflow, for
    // example.
    let is_manifest = |name: &&str| matches!(*name, "apiVersion" | "kind" | "metadata" | "spec");
    if !written.is_empty() && !written.iter().any(is_manifest) {
        return Vec::new();
    }
    let fields = [
        ("apiVersion", "string", false),
        ("kind", "string", false),
        ("metadata", "ObjectMeta", true),
        ("spec", "map", true),
    ];
    let left = fields.into_iter().filter(|(name, ..)| !written.contains(name));
    left.map(|(name, of, is_map)| {
        let shape = if is_map { OutlineShape::Map } else { OutlineShape::Scalar };
        Item {
            span: place.word,
            label: name.to_owned(),
            insert: insert(cursor, place, name, shape),
            kind: ItemKind::Field,
            detail: Some(of.to_owned()),
            documentation: None,
        }
    })
    .collect()
}

/// The names of the other fields of the mapping.
pub(super) fn written<'c>(cursor: &'c Cursor<'_>, place: &KeyPlace) -> Vec<&'c str> {
    let fields = cursor.sketch.nodes[place.parent].children.iter();
    let others = fields.filter(|field| Some(**field) != place.entry);
    others.map(|field| cursor.sketch.nodes[*field].key.as_str()).collect()
}

fn item(cursor: &Cursor<'_>, place: &KeyPlace, name: &str, field: &Outline<'_>, required: bool) -> Item {
    let mut detail = field.type_name();
    if required {
        detail.push_str(", required");
    }
    if let Some(default) = field.default().filter(|default| !default.is_object() && !default.is_array()) {
        let text = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        detail.push_str(&format!(", default {text}"));
    }
    let values = field.values();
    let values = (!values.is_empty()).then(|| format!("One of `{}`.", values.join("`, `")));
    Item {
        span: place.word,
        label: name.to_owned(),
        insert: insert(cursor, place, name, field.shape()),
        kind: ItemKind::Field,
        detail: Some(detail),
        documentation: meaning(cursor, name, field).map(|meaning| format!("{meaning}.")).or(values),
    }
}

/// The description of a field: from its schema, otherwise from gpulint's own texts.
fn meaning(cursor: &Cursor<'_>, name: &str, field: &Outline<'_>) -> Option<String> {
    if let Some(description) = field.description() {
        return Some(description.trim_end_matches('.').to_owned());
    }
    let mut steps = cursor.steps.clone();
    steps.push(name.to_owned());
    field_meaning(cursor.kind?, &steps).map(str::to_owned)
}

/// The text to insert for a field: its name, and the start of its value.
pub(super) fn insert(cursor: &Cursor<'_>, place: &KeyPlace, name: &str, shape: OutlineShape) -> String {
    if place.quoted || place.entry.is_some() {
        return name.to_owned();
    }
    if place.flow {
        return format!("{name}: ");
    }
    let indent = " ".repeat(place.column + 2);
    let end = line_end(cursor.sketch.text);
    match shape {
        OutlineShape::Scalar => format!("{name}: "),
        OutlineShape::Map => format!("{name}:{end}{indent}"),
        OutlineShape::List => format!("{name}:{end}{indent}- "),
    }
}

/// The completions for the start of an item in a list in block style.
fn items(cursor: &Cursor<'_>, place: &KeyPlace, list: &Outline<'_>) -> Vec<Item> {
    let Some(of) = list.child("0") else {
        return Vec::new();
    };
    let dash = |item: Item| Item {
        label: format!("- {}", item.label),
        insert: format!("- {}", item.insert),
        ..item
    };
    let inside = KeyPlace { column: place.column + 2, ..place.clone() };
    let fields = of.fields().into_iter();
    let fields = fields.map(|(name, field)| dash(item(cursor, &inside, name, &field, of.requires(name))));
    let values = of.values().into_iter().map(|value| {
        dash(Item {
            span: place.word,
            label: value.to_owned(),
            insert: value.to_owned(),
            kind: ItemKind::Choice,
            detail: None,
            documentation: None,
        })
    });
    fields.chain(values).collect()
}
