//! Applies a fix to a value, as the JSON Patch of an admission webhook does to an object.

use serde_json::Value;

use super::{Fix, FixError};
use crate::tree::node::{Node, Shape};
use crate::tree::scalar::Scalar;

/// The value after the operations and guards of the fix. Objects that the fix creates are not part of it.
///
/// # Errors
/// [`FixError::Patch`] if a guard or operation fails.
pub fn apply(value: &Value, fix: &Fix) -> Result<Value, FixError> {
    patch(value.clone(), fix)
}

/// The same for a value that nobody needs any more.
pub(super) fn patch(mut value: Value, fix: &Fix) -> Result<Value, FixError> {
    let patch: json_patch::Patch = serde_json::to_value(&fix.operations)
        .and_then(serde_json::from_value)
        .map_err(|error| FixError::Patch(error.to_string()))?;
    // If an operation fails the value is dropped, so no rollback is needed.
    json_patch::patch_unsafe(&mut value, &patch).map_err(|error| FixError::Patch(error.to_string()))?;
    Ok(value)
}

/// Whether a node has a value: as [`semantic_eq`] with the value that the node has.
pub(super) fn is_value_of(node: &Node<'_>, value: &Value) -> bool {
    match (node.shape(), value) {
        (Shape::Mapping, Value::Object(map)) => {
            let entries = node.entries();
            entries.len() == map.len()
                && entries
                    .iter()
                    .all(|(key, child)| map.get(*key).is_some_and(|value| is_value_of(child, value)))
        }
        (Shape::Sequence, Value::Array(list)) => {
            let mut items = node.items();
            list.iter().all(|value| items.next().is_some_and(|item| is_value_of(&item, value)))
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
#[must_use]
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
    use crate::lint::fix::{Operation, Safety};

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
            let tree = crate::tree::Tree::from_json(own);
            for value in &values {
                assert_eq!(
                    is_value_of(&Node::new(&tree, 0), value),
                    semantic_eq(own, value),
                    "{own} {value}"
                );
            }
        }
    }
}
