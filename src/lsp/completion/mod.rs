//! Completion while YAML is being typed.
//!
//! The text is often invalid while it is being typed, so nothing here needs a document that parses:
//! [`sketch`] finds the fields by indentation. The completions are derived from the schema of the kind, the
//! catalogue of instance types, the table of KEDA's triggers, and the other objects of the sets that the file
//! is applied with.

mod comments;
mod configuration;
mod cursor;
mod fields;
mod item;
mod keys;
mod labels;
mod objects;
mod sketch;
#[cfg(test)]
mod tests;
mod values;

use crate::lsp::view::View;

pub(crate) use configuration::configuration;
use cursor::Cursor;
pub(crate) use item::{Item, ItemKind};
use sketch::{KeyPlace, Place, Sketch, ValuePlace};

/// The completions at an offset of a file of manifests, the most useful first.
pub(crate) fn manifest(text: &str, offset: u32, view: Option<&View<'_>>) -> Vec<Item> {
    let sketch = sketch::read(text, offset);
    let asked = match &sketch.place {
        Place::Nowhere => return Vec::new(),
        Place::Comment(start) => return comments::complete(text, *start, offset, view),
        Place::Key(place) => place.parent,
        Place::Value(place) => place.node,
    };
    let object = sketch.object_of(asked);
    let cursor = Cursor {
        kind: sketch.field(object, "kind").filter(|kind| !kind.is_empty()),
        api_version: sketch.field(object, "apiVersion").filter(|version| !version.is_empty()),
        steps: steps_within(&sketch, object, asked),
        sketch: &sketch,
        object,
        view,
    };
    match &sketch.place {
        Place::Key(place) => keys(&cursor, place),
        Place::Value(place) => values(&cursor, place),
        Place::Nowhere | Place::Comment(_) => Vec::new(),
    }
}

fn steps_within(sketch: &Sketch<'_>, object: usize, node: usize) -> Vec<String> {
    let mut steps = sketch.steps(node);
    steps.drain(..sketch.steps(object).len().min(steps.len()));
    steps
}

fn keys(cursor: &Cursor<'_>, place: &KeyPlace) -> Vec<Item> {
    let mut out = fields::complete(cursor, place);
    if out.is_empty() {
        out = keys::complete(cursor, place);
    }
    out
}

fn values(cursor: &Cursor<'_>, place: &ValuePlace) -> Vec<Item> {
    // The cursor is at an item of a list of mappings: complete its first field.
    if let Some(column) = place.item_column.filter(|_| !place.quoted) {
        let (parent, word) = (place.node, place.word);
        let place = KeyPlace { parent, word, entry: None, column, flow: false, quoted: false };
        let fields = keys(cursor, &place);
        if !fields.is_empty() {
            return fields;
        }
    }
    values::complete(cursor, place)
}
