//! The cursor with which rules read a tree.
//!
//! A lookup never fails. An absent node keeps the path by which it was looked up, so that a finding can be
//! placed at its nearest existing ancestor and a fix can create it. A scalar with a placeholder is *unknown*:
//! it is set, but none of the typed accessors return a value for it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::steps;
use crate::tree::placeholder::is_placeholder;
use crate::tree::pointer::Pointer;
use crate::tree::scalar::Scalar;
use crate::tree::{Change, Keys, NONE, SlotKind, Span, Tree, key_hash};

/// A position in the tree of an object; the node there may be absent.
#[derive(Debug)]
pub struct Node<'a> {
    tree: &'a Tree,
    root: u32,
    /// `NONE` if the node is absent.
    slot: u32,
    way: NodePath,
}

/// The path from the root to a node, unless it follows from the parents in the arena.
#[derive(Clone, Debug)]
enum NodePath {
    /// The path is that of the arena's parents.
    Direct,
    /// Steps below a slot, stored in the node. Rules look up many absent fields: this allocates nothing.
    Inline(InlineSteps),
    /// Steps below a slot that do not fit inline.
    Heap(HeapSteps),
}

/// A [`Node`] without its borrow of the tree, for caches that own the tree.
#[derive(Clone, Debug)]
pub struct NodeId {
    root: u32,
    slot: u32,
    way: NodePath,
}

/// Steps below a slot, each terminated by [`END`].
#[derive(Clone, Copy, Debug)]
struct InlineSteps {
    above: u32,
    len: u8,
    steps: [u8; InlineSteps::CAPACITY],
}

#[derive(Clone, Debug)]
struct HeapSteps {
    above: u32,
    steps: Arc<[u8]>,
}

// Derived, it would be inlined everywhere.
impl Clone for Node<'_> {
    #[cfg_attr(not(debug_assertions), inline)]
    fn clone(&self) -> Self {
        Node { tree: self.tree, root: self.root, slot: self.slot, way: self.way.clone() }
    }
}

/// Terminator of a step. The byte 0xFF does not occur in UTF-8.
const END: u8 = 0xFF;

impl InlineSteps {
    /// Keeps `Node` within a cache line of 64 bytes.
    const CAPACITY: usize = 42;

    /// Appends a step; false if there is no room for it.
    fn push(&mut self, step: &str) -> bool {
        let from = usize::from(self.len);
        let end = from + step.len() + 1;
        let Some(room) = self.steps.get_mut(from..end) else { return false };
        room[..step.len()].copy_from_slice(step.as_bytes());
        room[step.len()] = END;
        self.len = end as u8;
        true
    }

    fn steps(&self) -> &[u8] {
        &self.steps[..usize::from(self.len)]
    }
}

impl NodePath {
    fn heap(above: u32, steps: &[u8], more: &str) -> NodePath {
        let steps = [steps, more.as_bytes(), &[END]].concat();
        NodePath::Heap(HeapSteps { above, steps: steps.into() })
    }

    /// Appends a step. `slot` is the node itself while the path is direct.
    fn push(&mut self, slot: u32, step: &str) {
        match self {
            NodePath::Direct => {
                let mut near = InlineSteps { above: slot, len: 0, steps: [0; InlineSteps::CAPACITY] };
                *self = match near.push(step) {
                    true => NodePath::Inline(near),
                    false => NodePath::heap(slot, &[], step),
                };
            }
            NodePath::Inline(near) => {
                if !near.push(step) {
                    *self = NodePath::heap(near.above, near.steps(), step);
                }
            }
            NodePath::Heap(far) => *self = NodePath::heap(far.above, &far.steps, step),
        }
    }

    /// The slot at which the steps begin, and the steps; `None` for a direct path.
    fn steps(&self) -> Option<(u32, &[u8])> {
        match self {
            NodePath::Direct => None,
            NodePath::Inline(near) => Some((near.above, near.steps())),
            NodePath::Heap(far) => Some((far.above, &far.steps)),
        }
    }
}

/// The items of a list. A type of its own: closures would be compiled without optimizations in the crates that use them.
#[derive(Debug)]
pub struct Items<'a> {
    list: Node<'a>,
    /// The slot of the next item.
    next: u32,
    end: u32,
    index: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        if self.next >= self.end {
            return None;
        }
        steps::take(1);
        let (at, index) = (self.next, self.index);
        self.next = self.list.tree.end(at);
        self.index += 1;
        Some(self.list.child(at, false, || Cow::Owned(index.to_string())))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Absent,
    Mapping,
    Sequence,
    Scalar,
}

impl<'a> Node<'a> {
    /// The root of an object in a tree.
    pub fn new(tree: &'a Tree, root: u32) -> Node<'a> {
        Node { tree, root, slot: root, way: NodePath::Direct }
    }

    /// The node at a slot that has a direct path from `root`.
    pub fn from_slot(tree: &'a Tree, root: u32, slot: u32) -> Node<'a> {
        Node { tree, root, slot, way: NodePath::Direct }
    }

    /// The slot of a mapping with a direct path, for [`Node::from_slot`].
    pub(crate) fn direct_mapping(&self) -> Option<u32> {
        let direct = matches!(self.way, NodePath::Direct) && self.slot != NONE;
        (direct && self.tree.slot(self.slot).kind.is_mapping()).then_some(self.slot)
    }

    /// The tree and the slot of the value, for a walk through the tree itself. `None` if the node is absent.
    pub fn value_slot(&self) -> Option<(&'a Tree, u32)> {
        (!self.is_absent()).then(|| (self.tree, self.resolved_slot()))
    }

    /// The node at a slot, with a pointer from the root of the document instead of an object in it.
    pub fn from_document_slot(tree: &'a Tree, slot: u32) -> Node<'a> {
        Node { tree, root: 0, slot, way: NodePath::Direct }
    }

    /// The position of the node, to be stored with the tree.
    pub fn id(&self) -> NodeId {
        NodeId { root: self.root, slot: self.slot, way: self.way.clone() }
    }

    /// The node at a position in the same tree.
    pub fn from_id(tree: &'a Tree, spot: &NodeId) -> Node<'a> {
        Node { tree, root: spot.root, slot: spot.slot, way: spot.way.clone() }
    }

    /// The shape of the node; an alias has that of its target.
    pub fn shape(&self) -> Shape {
        if self.slot == NONE {
            return Shape::Absent;
        }
        match self.kind() {
            SlotKind::Mapping | SlotKind::FlowMapping => Shape::Mapping,
            SlotKind::Sequence | SlotKind::FlowSequence => Shape::Sequence,
            _ => Shape::Scalar,
        }
    }

    fn resolved_slot(&self) -> u32 {
        self.tree.resolve(self.slot)
    }

    fn kind(&self) -> SlotKind {
        self.tree.slot(self.resolved_slot()).kind
    }

    /// Whether both are written in the same form: a fast check that implies [`Node::has_value_of`].
    pub(super) fn is_written_as(&self, other: &Node<'_>) -> bool {
        self.slot != NONE && other.slot != NONE && self.tree.is_written_as(self.slot, other.tree, other.slot)
    }

    pub fn is_absent(&self) -> bool {
        self.slot == NONE
    }

    /// Whether the node has a value other than null. Kubernetes treats null as absent.
    pub fn is_set(&self) -> bool {
        !self.is_absent() && !self.is_null()
    }

    pub fn is_null(&self) -> bool {
        self.slot != NONE && self.tree.is_null(self.resolved_slot())
    }

    pub fn is_mapping(&self) -> bool {
        self.shape() == Shape::Mapping
    }

    pub fn is_sequence(&self) -> bool {
        self.shape() == Shape::Sequence
    }

    /// Whether texts of the document may be placeholders: a quick test of the whole document.
    pub fn may_hold_placeholder(&self) -> bool {
        self.tree.may_have_placeholders
    }

    /// Whether the node is a placeholder, so that its value is unknown.
    pub fn is_unknown(&self) -> bool {
        self.tree.may_have_placeholders
            && matches!(self.scalar(), Some(Scalar::Str(text)) if is_placeholder(text))
    }

    /// Whether a key of the mapping is a placeholder, so that it may have any field.
    pub fn has_unknown_key(&self) -> bool {
        self.tree.may_have_placeholders && self.entries().iter().any(|(key, _)| is_placeholder(key))
    }

    /// Whether the node or a descendant is a placeholder.
    pub fn has_unknown(&self) -> bool {
        self.slot != NONE && self.tree.may_have_placeholders && holds_placeholder(self.tree, self.slot)
    }

    /// The value of a key; an absent node if this is not a mapping or does not have the key.
    #[cfg_attr(not(debug_assertions), inline)]
    pub fn get(&self, name: &str) -> Node<'a> {
        // Most names are literals, whose hashes are computed at compile time.
        self.get_of_hash(name, key_hash(name))
    }

    /// Whether this is a mapping with the key. Cheaper than [`Node::get`] where most have none.
    #[cfg_attr(not(debug_assertions), inline)]
    pub fn has(&self, name: &str) -> bool {
        let hash = key_hash(name);
        self.mapping_slot().is_some_and(|at| self.tree.entry_of_hash(at, name, hash).is_some())
    }

    fn get_of_hash(&self, name: &str, hash: u16) -> Node<'a> {
        let Some(at) = self.mapping_slot() else { return self.absent_child(name) };
        match self.tree.entry_of_hash(at, name, hash) {
            // The common case: neither a merge nor an alias on the path.
            Some((slot, false)) if at == self.slot && matches!(self.way, NodePath::Direct) => {
                Node { tree: self.tree, root: self.root, slot, way: NodePath::Direct }
            }
            Some((child, merged)) => self.child(child, merged, || Cow::Borrowed(name)),
            None => self.absent_child(name),
        }
    }

    /// The slot of a key's value, and whether it came from a merge.
    fn entry(&self, name: &str) -> Option<(u32, bool)> {
        self.tree.entry(self.mapping_slot()?, name)
    }

    /// The slot of a mapping; `None` for other nodes.
    fn mapping_slot(&self) -> Option<u32> {
        if self.slot == NONE {
            return None;
        }
        let at = self.resolved_slot();
        self.tree.slot(at).kind.is_mapping().then_some(at)
    }

    fn absent_child(&self, step: &str) -> Node<'a> {
        let mut way = self.way.clone();
        way.push(self.slot, step);
        Node { tree: self.tree, root: self.root, slot: NONE, way }
    }

    /// Several [`Node::get`]s in a row.
    pub fn path(&self, names: &[&str]) -> Node<'a> {
        let mut node = self.clone();
        for name in names {
            let at = node.mapping_slot();
            match at.and_then(|at| self.tree.entry(at, name)) {
                // The common case: neither a merge nor an alias on the path.
                Some((child, false)) if at == Some(node.slot) && matches!(node.way, NodePath::Direct) => {
                    node.slot = child;
                }
                Some((child, merged)) => {
                    node = node.child(child, merged, || Cow::Borrowed(name));
                }
                None => {
                    node.way.push(node.slot, name);
                    node.slot = NONE;
                }
            }
        }
        node
    }

    /// The items of a list at the end of a path; empty if the path does not exist. Cheaper than `path(..).items()`,
    /// because no absent node is created.
    pub fn items_at(&self, names: &[&str]) -> Items<'a> {
        let mut node = self.clone();
        for name in names {
            match node.entry(name) {
                Some((child, merged)) => node = node.child(child, merged, || Cow::Borrowed(name)),
                None => return Items { list: node, next: 0, end: 0, index: 0 },
            }
        }
        node.into_items()
    }

    /// The node at a pointer. A numeric step is an index in a list and a key in a mapping.
    pub fn at(&self, pointer: &Pointer) -> Node<'a> {
        pointer.steps().iter().fold(self.clone(), |node, step| node.step(step))
    }

    /// The node at a step of a pointer.
    pub fn step(&self, step: &str) -> Node<'a> {
        match step.parse::<usize>() {
            Ok(index) if self.is_sequence() => self.index(index),
            _ => self.get(step),
        }
    }

    /// Where the text has a field that aliases may repeat: the last of its nodes that is there, and the number of steps to it.
    pub fn place_in_text(&self, pointer: &Pointer) -> (u32, usize) {
        let mut node = self.clone();
        for (depth, step) in pointer.steps().iter().enumerate() {
            let next = node.step(step);
            if next.is_absent() {
                return (node.resolved_slot(), depth);
            }
            node = next;
        }
        (node.resolved_slot(), pointer.steps().len())
    }

    /// Whether the text repeats parts of its document by aliases.
    pub fn has_aliases(&self) -> bool {
        !self.tree.aliases().is_empty()
    }

    /// An item of a list; an absent node past its end.
    pub fn index(&self, index: usize) -> Node<'a> {
        let item = if self.is_sequence() { self.tree.item(self.resolved_slot(), index) } else { None };
        match item {
            Some(at) => self.child(at, false, || Cow::Owned(index.to_string())),
            None => self.absent_child(&index.to_string()),
        }
    }

    /// The items of a list; empty for other nodes.
    pub fn items(&self) -> Items<'a> {
        self.clone().into_items()
    }

    fn into_items(self) -> Items<'a> {
        let (next, end) = match self.is_sequence() {
            true => (self.resolved_slot() + 1, self.tree.end(self.resolved_slot())),
            false => (0, 0),
        };
        Items { list: self, next, end, index: 0 }
    }

    /// The entries of a mapping as Kubernetes decodes them: without duplicates, with merges applied.
    pub fn entries(&self) -> Vec<(&'a str, Node<'a>)> {
        if !self.is_mapping() {
            return Vec::new();
        }
        let at = self.resolved_slot();
        if self.tree.slot(at).keys() == Keys::Unique {
            let mut out = Vec::with_capacity(self.tree.children(at).count());
            for child in self.tree.children(at) {
                let name = self.tree.key_name(child);
                out.push((name, self.child(child, false, || Cow::Borrowed(name))));
            }
            steps::take(out.len());
            return out;
        }
        self.tree
            .entries(at)
            .into_iter()
            .map(|(name, at, merged)| (name, self.child(at, merged, || Cow::Borrowed(name))))
            .collect()
    }

    #[inline]
    fn child<'s>(&self, at: u32, merged: bool, step: impl FnOnce() -> Cow<'s, str>) -> Node<'a> {
        if self.is_direct(merged) {
            return Node { tree: self.tree, root: self.root, slot: at, way: NodePath::Direct };
        }
        let mut way = self.way.clone();
        way.push(self.slot, &step());
        Node { tree: self.tree, root: self.root, slot: at, way }
    }

    /// Whether a child of this node has a direct path.
    #[inline]
    fn is_direct(&self, merged: bool) -> bool {
        matches!(self.way, NodePath::Direct) && !merged && self.tree.slot(self.slot).kind != SlotKind::Alias
    }

    /// The value of a scalar; `None` for collections and absent nodes.
    pub fn scalar(&self) -> Option<Scalar<'a>> {
        if self.slot == NONE {
            return None;
        }
        let at = self.resolved_slot();
        // The caller will read the text.
        steps::take(1 + self.tree.text_len(at) / 32);
        self.tree.scalar(at)
    }

    /// The text of a scalar, even if it is a number, a boolean or a placeholder.
    pub fn raw_text(&self) -> Option<&'a str> {
        if self.slot == NONE {
            return None;
        }
        let at = self.resolved_slot();
        steps::take(1 + self.tree.text_len(at) / 32);
        (!self.tree.slot(at).kind.is_collection()).then(|| self.tree.scalar_text(at))
    }

    /// What was written in place of the text, if a kustomization or a GitOps controller sets that.
    pub fn change(&self) -> Option<&'a Change> {
        if self.slot == NONE { None } else { self.tree.change(self.resolved_slot()) }
    }

    /// The value of a string; `None` for placeholders and other types.
    pub fn text(&self) -> Option<&'a str> {
        if self.slot == NONE {
            return None;
        }
        self.text_of(self.slot)
    }

    /// The text of a field, as `get(name).text()` without the node: for fields that are read of each item of long lists.
    #[cfg_attr(not(debug_assertions), inline)]
    pub fn text_at(&self, name: &str) -> Option<&'a str> {
        self.text_of_hash(name, key_hash(name))
    }

    fn text_of_hash(&self, name: &str, hash: u16) -> Option<&'a str> {
        let (field, _) = self.tree.entry_of_hash(self.mapping_slot()?, name, hash)?;
        self.text_of(field)
    }

    fn text_of(&self, slot: u32) -> Option<&'a str> {
        let at = self.tree.resolve(slot);
        steps::take(1 + self.tree.text_len(at) / 32);
        match self.tree.scalar(at) {
            Some(Scalar::Str(text)) if !(self.tree.may_have_placeholders && is_placeholder(text)) => {
                Some(text)
            }
            _ => None,
        }
    }

    /// A string or a number as text, for quantities, ports and int-or-string fields; `None` for placeholders.
    pub fn string_or_number(&self) -> Option<Cow<'a, str>> {
        match self.scalar()? {
            Scalar::Str(text) if !(self.tree.may_have_placeholders && is_placeholder(text)) => {
                Some(Cow::Borrowed(text))
            }
            Scalar::Int(n) => Some(Cow::Owned(n.to_string())),
            Scalar::UInt(n) => Some(Cow::Owned(n.to_string())),
            Scalar::Float(n) => Some(Cow::Owned(n.to_string())),
            _ => None,
        }
    }

    /// The value of an integer. Floats without a fraction are integers, as in JSON.
    pub fn int(&self) -> Option<i64> {
        match self.scalar()? {
            Scalar::Int(n) => Some(n),
            Scalar::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => Some(f as i64),
            _ => None,
        }
    }

    /// The value of an integer, or `default` for an absent node; `None` if it is another type or unknown.
    pub fn int_or(&self, default: i64) -> Option<i64> {
        if self.is_set() { self.int() } else { Some(default) }
    }

    pub fn bool(&self) -> Option<bool> {
        match self.scalar()? {
            Scalar::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// The path of the node from the root of the object. In a tree that was made from another, the path there.
    pub fn pointer(&self) -> Pointer {
        /// Few nodes are deeper.
        const TYPICAL_DEPTH: usize = 12;
        let mut steps: Vec<Cow<'_, str>> = Vec::with_capacity(TYPICAL_DEPTH);
        let mut at = self.slot;
        if let Some((above, way)) = self.way.steps() {
            let ended = way.strip_suffix(&[END]).unwrap_or(way);
            let texts = ended.split(|byte| *byte == END);
            // Steps were pushed as `&str`, so the conversion loses nothing.
            steps.extend(texts.map(String::from_utf8_lossy));
            steps.reverse();
            at = above;
        }
        while at != self.root && at != NONE {
            let slot = self.tree.slot(at);
            if !self.tree.has_key(at) {
                steps.push(Cow::Owned(self.tree.index_in_parent(at).to_string()));
            } else {
                steps.push(Cow::Borrowed(self.tree.key_name(at)));
            }
            at = slot.parent;
        }
        steps.reverse();
        let pointer = Pointer::shared(&steps);
        match &self.tree.made_from {
            Some(from) => from.places.origin_of(pointer),
            None => pointer,
        }
    }

    /// Number of leading steps of the path that exist and are not null; `depth`, the length of the path, if all do.
    pub fn existing_prefix_len(&self, depth: usize) -> usize {
        let pointer = self.pointer();
        let mut node = match &self.tree.made_from {
            Some(from) => Node::new(&from.tree, from.root),
            None => Node::new(self.tree, self.root),
        };
        for (written, step) in pointer.steps().iter().enumerate() {
            node = match step.parse::<usize>() {
                Ok(index) if node.is_sequence() => node.index(index),
                _ => node.get(step),
            };
            if !node.is_set() {
                return written;
            }
        }
        depth
    }

    /// The span of the value; for an alias that of the alias itself. `None` for absent nodes and for trees
    /// that were built from a value.
    pub fn span(&self) -> Option<Span> {
        if self.slot == NONE || !self.tree.has_spans() {
            return None;
        }
        Some(self.tree.span(self.slot))
    }

    /// The span of the key, if the node is the value of a mapping entry.
    pub fn key_span(&self) -> Option<Span> {
        if self.slot == NONE || !self.tree.has_spans() {
            return None;
        }
        self.tree.key_span(self.slot)
    }

    /// Whether the collection is written in flow style, `{}` or `[]`.
    pub fn is_flow(&self) -> bool {
        self.slot != NONE && matches!(self.kind(), SlotKind::FlowMapping | SlotKind::FlowSequence)
    }

    /// The node as a JSON value with aliases and merges resolved; null for an absent node.
    pub fn to_json(&self) -> Value {
        match self.shape() {
            Shape::Absent => Value::Null,
            Shape::Mapping => {
                let entries = self.entries();
                // Each entry has its own name and its own place in the map.
                steps::take(8 * entries.len());
                Value::Object(entries.into_iter().map(|(k, n)| (k.to_owned(), n.to_json())).collect())
            }
            Shape::Sequence => Value::Array(self.items().map(|n| n.to_json()).collect()),
            Shape::Scalar => match self.scalar() {
                Some(Scalar::Bool(b)) => Value::Bool(b),
                Some(Scalar::Int(n)) => Value::from(n),
                Some(Scalar::UInt(n)) => Value::from(n),
                Some(Scalar::Float(n)) => whole_or_float(n),
                Some(Scalar::Str(text)) => Value::String(text.to_owned()),
                Some(Scalar::Null) | None => Value::Null,
            },
        }
    }
}

/// Whether a key or a scalar in a subtree is a placeholder.
fn holds_placeholder(tree: &Tree, at: u32) -> bool {
    steps::take(1);
    let at = tree.resolve(at);
    let slot = tree.slot(at);
    match slot.kind {
        // Only the effective entries: a merged value that is overridden does not count.
        SlotKind::Mapping | SlotKind::FlowMapping if slot.has_merge_key() => tree
            .entries(at)
            .into_iter()
            .any(|(name, child, _)| is_placeholder(name) || holds_placeholder(tree, child)),
        SlotKind::Mapping | SlotKind::FlowMapping => tree
            .children(at)
            .any(|child| is_placeholder(tree.key_name(child)) || holds_placeholder(tree, child)),
        SlotKind::Sequence | SlotKind::FlowSequence => {
            tree.children(at).any(|child| holds_placeholder(tree, child))
        }
        _ => matches!(tree.scalar(at), Some(Scalar::Str(text)) if is_placeholder(text)),
    }
}

/// Go's `encoding/json` writes a float without a fraction as an integer.
fn whole_or_float(n: f64) -> Value {
    if n.fract() == 0.0 && n.abs() < 9e15 { Value::from(n as i64) } else { Value::from(n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_nodes_have_a_pointer() {
        let tree = Tree::from_json(&json!({"a": {"b": [1]}, "": {}}));
        let root = Node::new(&tree, 0);
        let long = "a-key-that-is-longer-than-what-there-is-room-for";
        let cases: [(Node<'_>, &[&str]); 9] = [
            (root.path(&["a", "c"]), &["a", "c"]),
            (root.path(&["a", "c", "d", "e"]), &["a", "c", "d", "e"]),
            (root.path(&["a", "c", long, "d"]), &["a", "c", long, "d"]),
            (root.path(&["a", long, "d"]), &["a", long, "d"]),
            (root.path(&["", "", "x", ""]), &["", "", "x", ""]),
            (root.path(&["x", "a\0b", "y"]), &["x", "a\0b", "y"]),
            (root.path(&["a", "b"]).index(7).get("x"), &["a", "b", "7", "x"]),
            (root.path(&["x", "y"]).index(0).get("z"), &["x", "y", "0", "z"]),
            (root.path(&["ä", "öü"]), &["ä", "öü"]),
        ];
        for (node, steps) in cases {
            assert!(node.is_absent());
            assert_eq!(node.pointer().steps(), steps);
        }
    }
}
