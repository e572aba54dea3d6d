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
        push(&mut tree, value, NONE, NONE);
        tree
    }
}

fn push(tree: &mut Tree, value: &Value, parent: u32, key: u32) -> u32 {
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
                let text = store(tree, name);
                let key = u32::try_from(tree.keys.len()).unwrap_or(NONE - 2);
                tree.keys.push(Key {
                    span: Span::default(),
                    text,
                    merge: false,
                });
                let child = push(tree, value, at, key);
                link(tree, at, &mut last, child);
            }
        }
        Value::Array(items) => {
            let mut last = NONE;
            for value in items {
                let child = push(tree, value, at, NONE);
                link(tree, at, &mut last, child);
            }
        }
        Value::String(text) => tree.slots[at as usize].data = store(tree, text),
        other => tree.slots[at as usize].data = store(tree, &other.to_string()),
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

fn store(tree: &mut Tree, text: &str) -> u32 {
    tree.strings.push(Box::from(text));
    u32::try_from(tree.strings.len() - 1).unwrap_or(NONE - 2)
}
