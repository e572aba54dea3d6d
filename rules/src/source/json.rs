//! A `serde_json` value as a tree: what an admission review carries. No spans.

use std::sync::Arc;

use serde_json::Value;

use super::scalar::TagKind;
use super::tree::{Key, NONE, Slot, SlotKind, Span, Tree};

impl Tree {
    /// Builds a tree from a JSON value. It answers every question a tree from text answers,
    /// except where something stands.
    #[must_use]
    pub fn from_json(value: &Value) -> Tree {
        let mut tree = Tree::new(Arc::from(""), false);
        let mut text = String::new();
        push(&mut tree, &mut text, value, NONE, NONE);
        tree.text = Arc::from(text);
        // A webhook keeps the objects of a whole cluster.
        tree.slots.shrink_to_fit();
        tree.keys.shrink_to_fit();
        tree
    }
}

/// All texts stand one behind the other in `text`: thousands of small strings cost several times as
/// much. The spans are into it; nobody is told, because nobody can see it.
fn push(tree: &mut Tree, text: &mut String, value: &Value, parent: u32, key: u32) -> u32 {
    let at = u32::try_from(tree.slots.len()).unwrap_or(NONE - 2);
    let kind = match value {
        Value::Object(_) => SlotKind::Mapping,
        Value::Array(_) => SlotKind::Sequence,
        Value::String(_) => SlotKind::Quoted,
        _ => SlotKind::Plain,
    };
    tree.slots.push(Slot {
        span: Span::default(),
        key,
        parent,
        next: NONE,
        data: NONE,
        kind,
        tag: TagKind::None,
        merges: false,
    });
    match value {
        Value::Object(map) => {
            let mut last = NONE;
            for (name, value) in map {
                let span = store(text, name);
                let key = u32::try_from(tree.keys.len()).unwrap_or(NONE - 2);
                tree.keys.push(Key {
                    span,
                    text: NONE,
                    merge: false,
                });
                let child = push(tree, text, value, at, key);
                link(tree, at, &mut last, child);
            }
        }
        Value::Array(items) => {
            let mut last = NONE;
            for value in items {
                let child = push(tree, text, value, at, NONE);
                link(tree, at, &mut last, child);
            }
        }
        Value::String(string) => tree.slots[at as usize].span = store(text, string),
        other => tree.slots[at as usize].span = store(text, &other.to_string()),
    }
    at
}

fn link(tree: &mut Tree, parent: u32, last: &mut u32, child: u32) {
    if *last == NONE {
        tree.slots[parent as usize].data = child;
    } else {
        tree.slots[*last as usize].next = child;
    }
    *last = child;
}

fn store(text: &mut String, string: &str) -> Span {
    let end = |text: &String| u32::try_from(text.len()).unwrap_or(NONE);
    let start = end(text);
    text.push_str(string);
    Span::new(start, end(text))
}
