//! Adapter with which jsonschema validates a [`Tree`] without converting it to JSON.
//!
//! Aliases and merges are resolved. Members with a null value are absent, and a float without a fraction is
//! an integer, as for the API server. Errors carry a JSON Pointer, by which callers find the node.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use serde_json::{Number, Value};

use crate::steps;
use crate::tree::scalar::Scalar;
use crate::tree::{SlotKind, Tree};

/// Steps for creating an error, which copies its path. jsonschema may create all errors before the first one
/// is read.
const STEPS_PER_ERROR: usize = 100;

/// Marker type of the representation.
pub(crate) struct TreeJson;

/// A node of a tree with aliases resolved, or a text outside of any tree.
#[derive(Clone, Copy)]
pub(crate) enum TreeNode<'a> {
    Slot(&'a Tree, u32),
    Text(&'a str),
}

impl<'a> TreeNode<'a> {
    pub(crate) fn new(tree: &'a Tree, slot: u32) -> TreeNode<'a> {
        TreeNode::Slot(tree, tree.resolve(slot))
    }

    fn scalar(self) -> Option<Scalar<'a>> {
        match self {
            TreeNode::Slot(tree, at) => tree.scalar(at),
            TreeNode::Text(text) => Some(Scalar::Str(text)),
        }
    }

    /// The value of a scalar; null for a collection.
    fn scalar_value(self) -> Value {
        match self.scalar() {
            Some(Scalar::Bool(b)) => Value::Bool(b),
            Some(Scalar::Str(text)) => Value::String(text.to_owned()),
            Some(Scalar::Null) | None => Value::Null,
            Some(_) => self.as_number().map_or(Value::Null, Value::Number),
        }
    }

    fn is_null_slot(tree: &Tree, slot: u32) -> bool {
        tree.is_null(tree.resolve(slot))
    }
}

impl Json for TreeJson {
    type Node<'a> = TreeNode<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    // A lookup scans the mapping, so a single pass over the members costs no more.
    const KEYS_PER_LOOKUP: usize = 16;

    fn prepare_key(key: &str) -> Box<str> {
        Box::from(key)
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(TreeNode<'_>) -> T) -> T {
        f(TreeNode::Text(string))
    }
}

impl<'a> Node<'a, TreeJson> for TreeNode<'a> {
    type Object = Mapping<'a>;
    type Array = Sequence<'a>;
    type Number = Number;

    fn as_object(&self) -> Option<Mapping<'a>> {
        match *self {
            TreeNode::Slot(tree, at) if tree.slot(at).kind.is_mapping() => Some(Mapping { tree, at }),
            _ => None,
        }
    }

    fn as_array(&self) -> Option<Sequence<'a>> {
        match *self {
            TreeNode::Slot(tree, at) if self.json_type() == JsonType::Array => Some(Sequence { tree, at }),
            _ => None,
        }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match self.scalar() {
            Some(Scalar::Str(text)) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<Number> {
        match self.scalar()?.or_integer() {
            Scalar::Int(n) => Some(Number::from(n)),
            Scalar::UInt(n) => Some(Number::from(n)),
            Scalar::Float(n) => Number::from_f64(n),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.scalar() {
            Some(Scalar::Bool(b)) => Some(b),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self.scalar(), Some(Scalar::Null))
    }

    fn json_type(&self) -> JsonType {
        steps::take(1);
        if let TreeNode::Slot(tree, at) = *self {
            match tree.slot(at).kind {
                SlotKind::Mapping | SlotKind::FlowMapping => return JsonType::Object,
                SlotKind::Sequence | SlotKind::FlowSequence => return JsonType::Array,
                _ => {}
            }
        }
        match self.scalar() {
            Some(Scalar::Bool(_)) => JsonType::Boolean,
            Some(Scalar::Int(_) | Scalar::UInt(_) | Scalar::Float(_)) => JsonType::Number,
            Some(Scalar::Str(_)) => JsonType::String,
            Some(Scalar::Null) | None => JsonType::Null,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.scalar(), expected) {
            (Some(Scalar::Str(text)), Value::String(value)) => text == value,
            (Some(Scalar::Str(_)), _) => false,
            (Some(_), _) => jsonschema::json::cmp::equal(&self.scalar_value(), expected),
            (None, _) => jsonschema::json::cmp::equal(&to_json_value(*self), expected),
        }
    }

    /// Called for errors only. Their value is not used, so collections are not copied.
    fn to_value(&self) -> Cow<'a, Value> {
        steps::take(STEPS_PER_ERROR);
        Cow::Owned(self.scalar_value())
    }

    fn identity(&self) -> Option<NodeIdentity> {
        match *self {
            TreeNode::Slot(tree, at) => {
                Some(NodeIdentity::tagged(std::ptr::from_ref::<Tree>(tree) as usize, at))
            }
            TreeNode::Text(_) => None,
        }
    }
}

/// Converts a node with its descendants to JSON.
pub(crate) fn to_json_value(cursor: TreeNode<'_>) -> Value {
    if let Some(map) = cursor.as_object() {
        return Value::Object(
            map.members().map(|(name, node)| (name.to_owned(), to_json_value(node))).collect(),
        );
    }
    if let Some(list) = cursor.as_array() {
        return Value::Array(list.elements().map(to_json_value).collect());
    }
    cursor.scalar_value()
}

/// A mapping without the members whose value is null.
pub(crate) struct Mapping<'a> {
    tree: &'a Tree,
    at: u32,
}

impl<'a> Object<'a, TreeJson> for Mapping<'a> {
    type Node = TreeNode<'a>;
    type MemberName = &'a str;
    type MembersIter = std::vec::IntoIter<(&'a str, TreeNode<'a>)>;

    fn len(&self) -> usize {
        self.members().len()
    }

    fn is_empty(&self) -> bool {
        self.members().next().is_none()
    }

    fn get(&self, key: &Box<str>) -> Option<TreeNode<'a>> {
        let (child, _) = self.tree.entry(self.at, key)?;
        (!TreeNode::is_null_slot(self.tree, child)).then(|| TreeNode::new(self.tree, child))
    }

    fn members(&self) -> Self::MembersIter {
        self.tree
            .entries(self.at)
            .into_iter()
            .filter(|(_, child, _)| !TreeNode::is_null_slot(self.tree, *child))
            .map(|(name, child, _)| (name, TreeNode::new(self.tree, child)))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

pub(crate) struct Sequence<'a> {
    tree: &'a Tree,
    at: u32,
}

impl<'a> Array<'a, TreeJson> for Sequence<'a> {
    type Node = TreeNode<'a>;
    type ElementsIter = std::vec::IntoIter<TreeNode<'a>>;

    fn len(&self) -> usize {
        self.tree.children(self.at).count()
    }

    fn elements(&self) -> Self::ElementsIter {
        self.tree
            .children(self.at)
            .map(|child| TreeNode::new(self.tree, child))
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn is_unique(&self) -> bool {
        let values: Vec<Value> = self.elements().map(to_json_value).collect();
        jsonschema::json::unique::is_unique(&values)
    }
}
