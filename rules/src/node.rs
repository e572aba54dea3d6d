//! The cursor: how rules read a tree.
//!
//! Looking something up never fails. A node that is absent still knows its pointer, so that it
//! can be reported at its nearest written ancestor and be set by a fix. A scalar that holds a
//! placeholder is unknown: neither absent nor a value.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::pointer::Pointer;
use crate::source::placeholder::is_placeholder;
use crate::source::{NONE, Scalar, SlotKind, Span, Tree};

/// A place in an object's tree, written or not.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    tree: &'a Tree,
    root: u32,
    /// `NONE` where the node is absent.
    slot: u32,
    way: Way,
}

/// How a node was reached.
#[derive(Clone, Debug)]
enum Way {
    /// As the arena's own parents say.
    Direct,
    /// By keys that are not written, below a node that is: rules ask for much that is absent.
    Below(Below),
    /// In any other way.
    Trail(Arc<Trail>),
}

/// What is not written, below a slot.
#[derive(Clone, Copy, Debug)]
struct Below {
    above: u32,
    len: u8,
    /// The keys, each with its length before it.
    keys: [u8; Below::ROOM],
}

impl Below {
    const ROOM: usize = 27;

    fn new(above: u32) -> Below {
        Below {
            above,
            len: 0,
            keys: [0; Below::ROOM],
        }
    }

    /// One key further; `None` where there is no room for it.
    fn join(mut self, key: &str) -> Option<Below> {
        let from = usize::from(self.len);
        let end = from + 1 + key.len();
        let (first, rest) = self.keys.get_mut(from..end)?.split_first_mut()?;
        *first = u8::try_from(key.len()).ok()?;
        rest.copy_from_slice(key.as_bytes());
        self.len = u8::try_from(end).ok()?;
        Some(self)
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        let mut rest = &self.keys[..usize::from(self.len)];
        std::iter::from_fn(move || {
            let (len, more) = rest.split_first()?;
            let (key, more) = more.split_at_checked(usize::from(*len))?;
            rest = more;
            // What was joined is text.
            std::str::from_utf8(key).ok()
        })
    }
}

#[derive(Debug)]
struct Trail {
    above: Above,
    step: Step,
}

#[derive(Debug)]
enum Above {
    Slot(u32),
    Trail(Arc<Trail>),
}

#[derive(Debug)]
enum Step {
    Key(Box<str>),
    Index(usize),
}

/// What shape a written node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Not written.
    Absent,
    /// A map.
    Mapping,
    /// A list.
    Sequence,
    /// Anything else, null included.
    Scalar,
}

impl<'a> Node<'a> {
    pub(crate) fn new(tree: &'a Tree, root: u32) -> Node<'a> {
        Node {
            tree,
            root,
            slot: root,
            way: Way::Direct,
        }
    }

    /// A node whose pointer counts from the document's root.
    pub(crate) fn in_document(tree: &'a Tree, slot: u32) -> Node<'a> {
        Node {
            tree,
            root: 0,
            slot,
            way: Way::Direct,
        }
    }

    /// What shape the node has.
    #[must_use]
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

    fn target(&self) -> u32 {
        self.tree.resolve(self.slot)
    }

    fn kind(&self) -> SlotKind {
        self.tree.slot(self.target()).kind
    }

    /// Whether nothing is written here.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.slot == NONE
    }

    /// Whether something other than null is written here: Kubernetes reads null as absent.
    #[must_use]
    pub fn exists(&self) -> bool {
        !self.is_absent() && !matches!(self.scalar(), Some(Scalar::Null))
    }

    /// Whether null is written here.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.scalar(), Some(Scalar::Null))
    }

    /// Whether the node is a mapping.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        self.shape() == Shape::Mapping
    }

    /// Whether the node is a list.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        self.shape() == Shape::Sequence
    }

    /// Whether a placeholder is written here, so that its value is not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.tree.unsure && matches!(self.scalar(), Some(Scalar::Str(text)) if is_placeholder(text))
    }

    /// Whether the node, or anything below it, is unknown.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.slot != NONE && self.tree.unsure && holds_placeholder(self.tree, self.slot)
    }

    /// The child of a mapping; absent where the node is no mapping or has no such key.
    #[must_use]
    pub fn get(&self, name: &str) -> Node<'a> {
        if self.slot != NONE {
            let at = self.target();
            if matches!(
                self.tree.slot(at).kind,
                SlotKind::Mapping | SlotKind::FlowMapping
            ) && let Some((child, merged)) = self.tree.entry(at, name)
            {
                return self.child(child, merged, || Step::Key(Box::from(name)));
            }
        }
        let way = match &self.way {
            Way::Direct => Below::new(self.slot).join(name),
            Way::Below(below) => below.join(name),
            Way::Trail(_) => None,
        };
        Node {
            tree: self.tree,
            root: self.root,
            slot: NONE,
            way: match way {
                Some(below) => Way::Below(below),
                None => Way::Trail(self.trail(Step::Key(Box::from(name)))),
            },
        }
    }

    /// Several [`Node::get`]s in a row.
    #[must_use]
    pub fn path(&self, names: &[&str]) -> Node<'a> {
        let mut node = self.clone();
        for name in names {
            node = node.get(name);
        }
        node
    }

    /// The place a pointer names: digits index lists, everything else is a key.
    #[must_use]
    pub fn at(&self, pointer: &Pointer) -> Node<'a> {
        let mut node = self.clone();
        for step in pointer.steps() {
            node = match step.parse::<usize>() {
                Ok(index) if node.is_sequence() => node.index(index),
                _ => node.get(step),
            };
        }
        node
    }

    /// An item of a list; absent where there is none.
    #[must_use]
    pub fn index(&self, index: usize) -> Node<'a> {
        self.items().nth(index).unwrap_or_else(|| Node {
            tree: self.tree,
            root: self.root,
            slot: NONE,
            way: Way::Trail(self.trail(Step::Index(index))),
        })
    }

    /// The items of a list; none where the node is no list.
    pub fn items(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let sequence = self.is_sequence();
        let children = if sequence {
            Some(self.tree.children(self.target()))
        } else {
            None
        };
        let this = self.clone();
        children
            .into_iter()
            .flatten()
            .enumerate()
            .map(move |(i, at)| this.child(at, false, || Step::Index(i)))
    }

    /// The entries of a mapping as Kubernetes reads them: each name once, merges applied.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'a str, Node<'a>)> {
        if !self.is_mapping() {
            return Vec::new();
        }
        self.tree
            .entries(self.target())
            .into_iter()
            .map(|(name, at, merged)| (name, self.child(at, merged, || Step::Key(Box::from(name)))))
            .collect()
    }

    fn child(&self, at: u32, merged: bool, step: impl FnOnce() -> Step) -> Node<'a> {
        let direct = matches!(self.way, Way::Direct)
            && !merged
            && self.tree.slot(self.slot).kind != SlotKind::Alias;
        Node {
            tree: self.tree,
            root: self.root,
            slot: at,
            way: if direct {
                Way::Direct
            } else {
                Way::Trail(self.trail(step()))
            },
        }
    }

    fn trail(&self, step: Step) -> Arc<Trail> {
        let above = match &self.way {
            Way::Direct => Above::Slot(self.slot),
            Way::Below(below) => below.keys().fold(Above::Slot(below.above), |above, key| {
                let step = Step::Key(Box::from(key));
                Above::Trail(Arc::new(Trail { above, step }))
            }),
            Way::Trail(trail) => Above::Trail(Arc::clone(trail)),
        };
        Arc::new(Trail { above, step })
    }

    /// The value of a scalar; `None` for collections and absent nodes.
    #[must_use]
    pub fn scalar(&self) -> Option<Scalar<'a>> {
        if self.slot == NONE {
            return None;
        }
        self.tree.scalar(self.target())
    }

    /// A scalar's text as it is written, before it was read as a number or a boolean.
    #[must_use]
    pub fn written(&self) -> Option<&'a str> {
        self.scalar()?;
        Some(self.tree.scalar_text(self.target()))
    }

    /// A string that is no placeholder.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        match self.scalar() {
            Some(Scalar::Str(text)) if !(self.tree.unsure && is_placeholder(text)) => Some(text),
            _ => None,
        }
    }

    /// A string or a number as text: quantities, ports, int-or-string fields. No placeholder.
    #[must_use]
    pub fn quantity_text(&self) -> Option<Cow<'a, str>> {
        match self.scalar()? {
            Scalar::Str(text) if !(self.tree.unsure && is_placeholder(text)) => {
                Some(Cow::Borrowed(text))
            }
            Scalar::Int(n) => Some(Cow::Owned(n.to_string())),
            Scalar::UInt(n) => Some(Cow::Owned(n.to_string())),
            Scalar::Float(n) => Some(Cow::Owned(n.to_string())),
            _ => None,
        }
    }

    /// A whole number; floats without a fraction count, as they do in JSON.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self.scalar()? {
            Scalar::Int(n) => Some(n),
            #[allow(clippy::cast_possible_truncation)]
            Scalar::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => Some(f as i64),
            _ => None,
        }
    }

    /// A boolean.
    #[must_use]
    pub fn bool(&self) -> Option<bool> {
        match self.scalar()? {
            Scalar::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// Where the node is, from the object's root.
    #[must_use]
    pub fn pointer(&self) -> Pointer {
        let mut steps = Vec::new();
        let mut at = self.slot;
        let mut trail = None;
        match &self.way {
            Way::Direct => {}
            Way::Below(below) => {
                steps.extend(below.keys().map(str::to_owned));
                steps.reverse();
                at = below.above;
            }
            Way::Trail(way) => trail = Some(way),
        }
        while let Some(t) = trail {
            steps.push(match &t.step {
                Step::Key(key) => key.to_string(),
                Step::Index(index) => index.to_string(),
            });
            match &t.above {
                Above::Slot(slot) => {
                    at = *slot;
                    trail = None;
                }
                Above::Trail(above) => trail = Some(above),
            }
        }
        while at != self.root && at != NONE {
            let slot = self.tree.slot(at);
            if !self.tree.has_key(at) {
                let index = self
                    .tree
                    .children(slot.parent)
                    .position(|c| c == at)
                    .unwrap_or_default();
                steps.push(index.to_string());
            } else {
                steps.push(self.tree.key_name(at).to_owned());
            }
            at = slot.parent;
        }
        steps.reverse();
        Pointer::from_steps(steps)
    }

    /// How many of the node's `depth` steps lead to something written other than null.
    pub(crate) fn written_depth(&self, depth: usize) -> usize {
        let pointer = self.pointer();
        let mut node = Node::new(self.tree, self.root);
        for (written, step) in pointer.steps().iter().enumerate() {
            node = match step.parse::<usize>() {
                Ok(index) if node.is_sequence() => node.index(index),
                _ => node.get(step),
            };
            if !node.exists() {
                return written;
            }
        }
        depth
    }

    /// The span of the value as written; an alias counts as itself. `None` where nothing is
    /// written or the tree has no spans.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        (self.slot != NONE && self.tree.has_spans()).then(|| self.tree.slot(self.slot).span)
    }

    /// The span of the key of this entry, where it is one.
    #[must_use]
    pub fn key_span(&self) -> Option<Span> {
        if self.slot == NONE || !self.tree.has_spans() {
            return None;
        }
        self.tree.key_span(self.slot)
    }

    /// Whether the collection is written in flow style, `{}` or `[]`.
    #[must_use]
    pub fn is_flow(&self) -> bool {
        self.slot != NONE && matches!(self.kind(), SlotKind::FlowMapping | SlotKind::FlowSequence)
    }

    /// The node as a JSON value, aliases and merges applied. Absent is null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self.shape() {
            Shape::Absent => Value::Null,
            Shape::Mapping => Value::Object(
                self.entries()
                    .into_iter()
                    .map(|(k, n)| (k.to_owned(), n.to_json()))
                    .collect(),
            ),
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
    let at = tree.resolve(at);
    let slot = tree.slot(at);
    match slot.kind {
        // What a merge brings and something else overrides does not count.
        SlotKind::Mapping | SlotKind::FlowMapping if slot.merges => tree
            .entries(at)
            .into_iter()
            .any(|(name, child, _)| is_placeholder(name) || holds_placeholder(tree, child)),
        SlotKind::Mapping | SlotKind::FlowMapping => tree
            .children(at)
            .any(|child| is_placeholder(tree.key_name(child)) || holds_placeholder(tree, child)),
        SlotKind::Sequence | SlotKind::FlowSequence => tree
            .children(at)
            .any(|child| holds_placeholder(tree, child)),
        _ => matches!(tree.scalar(at), Some(Scalar::Str(text)) if is_placeholder(text)),
    }
}

/// JSON as Go writes it has no `1.0`: a float without a fraction is a whole number.
fn whole_or_float(n: f64) -> Value {
    #[allow(clippy::cast_possible_truncation)]
    if n.fract() == 0.0 && n.abs() < 9e15 {
        Value::from(n as i64)
    } else {
        Value::from(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_absent_knows_its_pointer() {
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
            (
                root.path(&["a", "b"]).index(7).get("x"),
                &["a", "b", "7", "x"],
            ),
            (
                root.path(&["x", "y"]).index(0).get("z"),
                &["x", "y", "0", "z"],
            ),
            (root.path(&["ä", "öü"]), &["ä", "öü"]),
        ];
        for (node, steps) in cases {
            assert!(node.is_absent());
            assert_eq!(node.pointer().steps(), steps);
        }
    }
}
