//! Builds a tree from a `serde_json` value, as for the object of an admission review. Such a tree has no
//! spans.

use std::sync::Arc;

use serde_json::Value;

use super::placeholder::may_contain_placeholder;
use super::scalar::TagKind;
use crate::tree::{MappingKey, NONE, PATCH_DIRECTIVE, Slot, SlotKind, Span, Tree, key_hash};

impl Tree {
    /// Builds a tree from a JSON value. It reads like a tree from text, except that it has no spans.
    #[must_use]
    pub fn from_json(value: &Value) -> Tree {
        let mut tree = Tree::new(Arc::from(""), false);
        let mut text = String::new();
        push(&mut tree, &mut text, value, NONE, None);
        tree.may_have_placeholders = may_contain_placeholder(&text);
        tree.text = Arc::from(text);
        // The webhook keeps the objects of a whole cluster in memory.
        tree.slots.shrink_to_fit();
        tree.out_of_line_keys.shrink_to_fit();
        tree
    }
}

/// Appends all keys and scalars to one `text`, which takes a fraction of the memory of single strings. Slot
/// spans are offsets into it; they are internal, because `has_spans` is false.
fn push(tree: &mut Tree, text: &mut String, value: &Value, parent: u32, key: Option<MappingKey>) {
    let kind = match value {
        Value::Object(_) => SlotKind::Mapping,
        Value::Array(_) => SlotKind::Sequence,
        Value::String(_) => SlotKind::Quoted,
        _ => SlotKind::Plain,
    };
    let slot = Slot::new(kind, TagKind::None, Span::default(), parent);
    let at = tree.push(slot, key);
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let key =
                    MappingKey { span: store(text, name), text: NONE, hash: key_hash(name), merge: false };
                tree.has_patch_directive |= name == PATCH_DIRECTIVE;
                push(tree, text, value, at, Some(key));
            }
        }
        Value::Array(items) => {
            for value in items {
                push(tree, text, value, at, None);
            }
        }
        Value::String(string) => tree.slots[at as usize].span = store(text, string),
        other => tree.slots[at as usize].span = store(text, &other.to_string()),
    }
    if kind.is_collection() {
        tree.slots[at as usize].data = u32::try_from(tree.slots.len()).unwrap_or(NONE);
    }
}

fn store(text: &mut String, string: &str) -> Span {
    let end = |text: &String| u32::try_from(text.len()).unwrap_or(NONE);
    let start = end(text);
    text.push_str(string);
    Span::new(start, end(text))
}
