//! Applies a fix to a value, as the JSON Patch of an admission webhook does to an object.

use serde_json::Value;

use super::{Fix, FixError};

/// The value after the operations and guards of the fix. Objects that the fix creates are not part of it.
///
/// # Errors
/// [`FixError::Patch`] if a guard or operation fails.
pub fn apply(value: &Value, fix: &Fix) -> Result<Value, FixError> {
    let patch: json_patch::Patch = serde_json::to_value(&fix.operations)
        .and_then(serde_json::from_value)
        .map_err(|error| FixError::Patch(error.to_string()))?;
    let mut out = value.clone();
    // If an operation fails the copy is dropped, so no rollback is needed.
    json_patch::patch_unsafe(&mut out, &patch).map_err(|error| FixError::Patch(error.to_string()))?;
    Ok(out)
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
}
