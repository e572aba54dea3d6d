//! Applies a fix to a value, as the JSON Patch of an admission webhook does to an object.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
};
use serde_json::Value;

use super::{Fix, FixError, Operation};
use crate::tree::node::{Node, Shape};
use crate::tree::pointer::Pointer;
use crate::tree::scalar::Scalar;

/// The value after the operations and guards of the fix. Objects that the fix creates are not part of it.
///
/// # Errors
/// [`FixError::Patch`] if a guard or operation fails.
pub fn apply(value: &Value, fix: &Fix) -> Result<Value, FixError> {
    patch(value.clone(), fix)
}

/// Applies a fix to a value that is not used again.
fn patch(mut value: Value, fix: &Fix) -> Result<Value, FixError> {
    let patch: Vec<PatchOperation> = fix.operations.iter().map(patch_operation).collect::<Result<_, _>>()?;
    // If an operation fails the value is dropped, so no rollback is needed.
    json_patch::patch_unsafe(&mut value, &patch).map_err(|error| FixError::Patch(error.to_string()))?;
    Ok(value)
}

/// Converts an operation to the type of the library that applies it.
fn patch_operation(operation: &Operation) -> Result<PatchOperation, FixError> {
    let pointer =
        |text: &String| PointerBuf::parse(text.clone()).map_err(|error| FixError::Patch(error.to_string()));
    Ok(match operation {
        Operation::Test { path, value } => {
            PatchOperation::Test(TestOperation { path: pointer(path)?, value: value.clone() })
        }
        Operation::Add { path, value } => {
            PatchOperation::Add(AddOperation { path: pointer(path)?, value: value.clone() })
        }
        Operation::Replace { path, value } => {
            PatchOperation::Replace(ReplaceOperation { path: pointer(path)?, value: value.clone() })
        }
        Operation::Remove { path } => PatchOperation::Remove(RemoveOperation { path: pointer(path)? }),
        Operation::Move { from, path } => {
            PatchOperation::Move(MoveOperation { from: pointer(from)?, path: pointer(path)? })
        }
    })
}

/// The value of an object after a fix. Subtrees that no operation reaches are not copied but referenced.
#[derive(Clone, Debug)]
pub(super) struct Patched<'a> {
    /// The value, in which [`stand_in`] replaces the collections in `written`.
    pub(super) value: Value,
    /// The referenced collections; empty if the whole value was copied.
    pub(super) written: Vec<Node<'a>>,
}

/// First character of a string that replaces a collection; no other string of the value begins with it.
const STAND_IN: char = '\0';

impl<'a> Patched<'a> {
    /// The value of an object after a fix.
    ///
    /// # Errors
    /// As [`apply`].
    pub(super) fn new(root: &Node<'a>, fix: &Fix) -> Result<Patched<'a>, FixError> {
        let sparse = Outline::of(root, fix).and_then(|(value, written)| {
            let value = patch(value, fix).ok()?;
            Some(Patched { value, written })
        });
        // An operation may reach what an earlier one has moved, so the whole value is copied.
        sparse.map_or_else(|| Ok(Patched { value: patch(root.to_json(), fix)?, written: Vec::new() }), Ok)
    }
}

/// Copies a value as far as the operations reach into it.
struct Outline<'a> {
    written: Vec<Node<'a>>,
    is_ambiguous: bool,
}

impl<'a> Outline<'a> {
    /// `None` if a string of the value could be taken for a stand-in.
    fn of(root: &Node<'a>, fix: &Fix) -> Option<(Value, Vec<Node<'a>>)> {
        let mut reached: Vec<(Pointer, bool)> = Vec::new();
        for operation in &fix.operations {
            // Values that are compared or moved are copied as a whole.
            let (ends, wholes, value): (_, _, Option<&Value>) = match operation {
                Operation::Test { path, value } => (None, Some(path), Some(value)),
                Operation::Add { path, value } | Operation::Replace { path, value } => {
                    (Some(path), None, Some(value))
                }
                Operation::Remove { path } => (Some(path), None, None),
                Operation::Move { from, path } => (Some(path), Some(from), None),
            };
            if value.is_some_and(is_ambiguous) {
                return None;
            }
            for (path, whole) in
                ends.map(|path| (path, false)).into_iter().chain(wholes.map(|path| (path, true)))
            {
                reached.push((Pointer::parse(path)?, whole));
            }
        }
        if fix.creates.iter().any(is_ambiguous) {
            return None;
        }
        let paths: Vec<(&[String], bool)> = reached.iter().map(|(at, whole)| (at.steps(), *whole)).collect();
        let mut outline = Outline { written: Vec::new(), is_ambiguous: false };
        let value = outline.value(root, &paths);
        (!outline.is_ambiguous).then_some((value, outline.written))
    }

    /// The value of a node. `paths` are the paths of the operations below it.
    fn value(&mut self, node: &Node<'a>, paths: &[(&[String], bool)]) -> Value {
        let is_whole = paths.iter().any(|(path, whole)| path.is_empty() && *whole);
        let passes = paths.iter().any(|(path, _)| !path.is_empty());
        let below = |step: &str| -> Vec<(&[String], bool)> {
            let paths = paths.iter().filter_map(|(path, whole)| Some((path.split_first()?, *whole)));
            paths.filter(|((first, _), _)| *first == step).map(|((_, rest), whole)| (rest, whole)).collect()
        };
        match node.shape() {
            Shape::Scalar | Shape::Absent => self.copy(node),
            _ if is_whole => self.copy(node),
            Shape::Mapping if passes => {
                let entries = node.entries().into_iter();
                Value::Object(
                    entries.map(|(key, child)| (key.to_owned(), self.value(&child, &below(key)))).collect(),
                )
            }
            Shape::Sequence if passes => {
                let items = node.items().enumerate();
                Value::Array(items.map(|(at, item)| self.value(&item, &below(&at.to_string()))).collect())
            }
            Shape::Mapping | Shape::Sequence => {
                self.written.push(node.clone());
                Value::String(format!("{STAND_IN}{}", self.written.len() - 1))
            }
        }
    }

    fn copy(&mut self, node: &Node<'a>) -> Value {
        let value = node.to_json();
        self.is_ambiguous |= is_ambiguous(&value);
        value
    }
}

/// Whether a string of the value could be taken for a stand-in.
fn is_ambiguous(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with(STAND_IN),
        Value::Array(list) => list.iter().any(is_ambiguous),
        Value::Object(map) => map.values().any(is_ambiguous),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a node has a value, in which stand-ins replace the collections in `written`: like [`semantic_eq`] with the
/// node's value.
pub(super) fn is_value_of(node: &Node<'_>, value: &Value, written: &[Node<'_>]) -> bool {
    if let Value::String(text) = value
        && let Some(stand_in) = text.strip_prefix(STAND_IN).filter(|_| !written.is_empty())
    {
        let stands_for = stand_in.parse().ok().and_then(|at: usize| written.get(at));
        return stands_for.is_some_and(|written| written.has_value_of(node));
    }
    match (node.shape(), value) {
        (Shape::Mapping, Value::Object(map)) => {
            let entries = node.entries();
            let has = |(key, child): &(&str, Node<'_>)| {
                map.get(*key).is_some_and(|value| is_value_of(child, value, written))
            };
            entries.len() == map.len() && entries.iter().all(has)
        }
        (Shape::Sequence, Value::Array(list)) => {
            let mut items = node.items();
            list.iter().all(|value| items.next().is_some_and(|item| is_value_of(&item, value, written)))
                && items.next().is_none()
        }
        (Shape::Mapping | Shape::Sequence, _) => false,
        (Shape::Scalar | Shape::Absent, _) => match (node.scalar(), value) {
            (Some(Scalar::Str(text)), value) => value.as_str() == Some(text),
            _ => semantic_eq(&node.to_json(), value),
        },
    }
}

/// Whether two values are equal for Kubernetes: the order of members does not matter, and numbers are
/// compared by value, not by notation.
pub fn semantic_eq(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| semantic_eq(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| semantic_eq(a, b))
        }
        (Value::Number(a), Value::Number(b)) => {
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lint::fix::Safety;
    use crate::tree::Tree;

    #[test]
    fn guards_are_kept() {
        let before = json!({"a": {"b": 1}});
        let mut fix = Fix::new("set b", Safety::Safe);
        fix.operations = vec![
            Operation::Test { path: "/a/b".to_owned(), value: json!(1) },
            Operation::Replace { path: "/a/b".to_owned(), value: json!(2) },
        ];
        assert_eq!(apply(&before, &fix), Ok(json!({"a": {"b": 2}})));
        let other = apply(&json!({"a": {"b": 3}}), &fix);
        assert!(matches!(other, Err(FixError::Patch(_))), "{other:?}");
    }

    #[test]
    fn numbers_are_what_they_count() {
        assert!(semantic_eq(&json!({"a": [1.0, {}], "b": 2}), &json!({"b": 2, "a": [1, {}]})));
        assert!(!semantic_eq(&json!("1"), &json!(1)));
        assert!(!semantic_eq(&json!([1, 2]), &json!([2, 1])));
    }

    #[test]
    fn nodes_have_the_values_that_they_read_as() {
        let values = [
            json!({"a": [1.0, {}], "b": 2}),
            json!({"b": 2, "a": [1, {}]}),
            json!({"b": 2, "a": [1, {}], "c": null}),
            json!({"a": "1"}),
            json!({"a": 1}),
            json!({"a": null}),
            json!({"b": null}),
            json!({"a": [1, 2]}),
            json!({"a": [1]}),
            json!({"a": {"b": "x"}}),
            json!({"a": true}),
        ];
        for own in &values {
            let tree = Tree::from_json(own);
            for value in &values {
                assert_eq!(
                    is_value_of(&Node::new(&tree, 0), value, &[]),
                    semantic_eq(own, value),
                    "{own} {value}"
                );
            }
        }
    }

    /// Fixes with every operation at several kinds of places.
    fn fixes() -> Vec<Fix> {
        let paths = [
            "/a", "/a/b", "/a/b/c", "/l", "/l/0", "/l/1", "/l/-", "/l/1/x", "/l/1/x/y", "/n", "/a~1b",
            "/none/x", "",
        ];
        let values = [json!(1), json!({"y": [2]}), json!("\0"), json!([{"x": {"y": 1}}])];
        let mut single = Vec::new();
        for (at, path) in paths.iter().map(|path| (*path).to_owned()).enumerate() {
            let value = values[at % values.len()].clone();
            single.push(Operation::Add { path: path.clone(), value: value.clone() });
            single.push(Operation::Replace { path: path.clone(), value });
            single.push(Operation::Test { path: path.clone(), value: json!({"y": 1}) });
            single
                .push(Operation::Move { from: path.clone(), path: paths[(at + 5) % paths.len()].to_owned() });
            single.push(Operation::Remove { path });
        }
        let pairs = single.iter().enumerate().flat_map(|(at, first)| {
            let others = single.iter().skip(at % 3).step_by(3);
            others.map(move |second| vec![first.clone(), second.clone()])
        });
        let lists = single.iter().map(|one| vec![one.clone()]).chain(pairs);
        lists.map(|operations| Fix { operations, ..Fix::new("change it", Safety::Safe) }).collect()
    }

    #[test]
    fn what_no_operation_reaches_stands_for_itself() {
        let values = [
            json!({"a": {"b": {"c": 1}, "d": [{"e": 1.5}]}, "l": [[1, 2], {"x": {"y": 1}}, "z"], "n": 1, "a/b": {"f": {}}}),
            json!({"a": {"b": {"c": "\0", "g": {}}}, "l": [{"x": {"y": {"z": []}}}, {"x": {"y": {"z": []}}}]}),
        ];
        let (mut sparse, mut other) = (0, 0);
        for value in &values {
            let tree = Tree::from_json(value);
            let root = Node::new(&tree, 0);
            for fix in fixes() {
                let patched = match (Patched::new(&root, &fix), apply(value, &fix)) {
                    (Ok(patched), Ok(expected)) => (patched, expected),
                    (patched, expected) => {
                        assert!(patched.is_err() && expected.is_err(), "{fix:?} {patched:?} {expected:?}");
                        continue;
                    }
                };
                let (patched, expected) = patched;
                sparse += usize::from(!patched.written.is_empty());
                let read = Tree::from_json(&expected);
                assert!(
                    is_value_of(&Node::new(&read, 0), &patched.value, &patched.written),
                    "{fix:?} {patched:?}"
                );
                let others = values.iter().filter(|value| !semantic_eq(value, &expected));
                for wrong in others {
                    other += 1;
                    let wrong = Tree::from_json(wrong);
                    assert!(!is_value_of(&Node::new(&wrong, 0), &patched.value, &patched.written));
                }
            }
        }
        assert!(sparse > 300 && other > 300, "{sparse} {other}");
    }
}
