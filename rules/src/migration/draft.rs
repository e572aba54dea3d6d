//! A conversion in progress: the operations so far and the value they produce.
//!
//! Operations apply in order, and each one sees the result of those before it, so each is built from the
//! value as it is at that point.

use serde_json::{Map, Value};

use super::ConversionError;
use crate::lint::fix::{Fix, Operation, Safety};
use crate::object::Object;
use crate::steps;
use crate::tree::pointer::Pointer;

/// A path from the root of the object.
pub(super) type FieldPath<'a> = &'a [&'a str];

/// Steps of an operation: pointers, lookups and its values.
const STEPS_PER_OPERATION: usize = 400;
/// Steps of copying a node of the object.
const STEPS_PER_NODE: usize = 20;

/// The conversion of one object.
pub(super) struct PatchBuilder {
    value: Value,
    operations: Vec<Operation>,
}

fn pointer(path: FieldPath<'_>) -> String {
    Pointer::from_steps(path.iter().copied()).to_string()
}

impl PatchBuilder {
    /// Starts a conversion. Adds guards for everything that conversions read: the type and the `spec`.
    pub(super) fn new(object: &Object) -> Result<PatchBuilder, ConversionError> {
        let (tree, root) = object.tree();
        steps::take(STEPS_PER_NODE * (tree.end(root) - root) as usize);
        let value = object.root().to_json();
        if !value.get("spec").is_some_and(Value::is_object) {
            return Err("it has no `spec` to convert".into());
        }
        let guard = |name: &str| Operation::Test { path: pointer(&[name]), value: value[name].clone() };
        Ok(PatchBuilder { operations: vec![guard("apiVersion"), guard("kind"), guard("spec")], value })
    }

    /// The current value at a path; null counts as absent.
    pub(super) fn get(&self, path: FieldPath<'_>) -> Option<&Value> {
        path.iter().try_fold(&self.value, |at, step| at.get(step)).filter(|v| !v.is_null())
    }

    pub(super) fn text(&self, path: FieldPath<'_>) -> Option<&str> {
        self.get(path).and_then(Value::as_str)
    }

    /// Sets a value, replacing any existing one.
    pub(super) fn set(&mut self, path: FieldPath<'_>, value: Value) -> Result<(), ConversionError> {
        steps::take(STEPS_PER_OPERATION);
        let step = self.ensure_parent(path)?;
        let Some(map) = self.map_mut(&path[..path.len() - 1]) else {
            return Err(not_a_map(path));
        };
        let old = map.insert(step.to_owned(), value.clone());
        if old.as_ref() == Some(&value) {
            return Ok(());
        }
        let path = pointer(path);
        self.operations.push(match old {
            Some(_) => Operation::Replace { path, value },
            None => Operation::Add { path, value },
        });
        Ok(())
    }

    /// Removes the value at a path, including null.
    pub(super) fn remove(&mut self, path: FieldPath<'_>) {
        steps::take(STEPS_PER_OPERATION);
        let Some((step, parent)) = path.split_last() else { return };
        if self.map_mut(parent).and_then(|m| m.remove(*step)).is_some() {
            self.operations.push(Operation::Remove { path: pointer(path) });
        }
    }

    /// Moves the value at a path. Does nothing if there is none. Fails if the target has a value: the object
    /// was converted in part, and the user must decide which value is right.
    pub(super) fn move_to(&mut self, from: FieldPath<'_>, to: FieldPath<'_>) -> Result<(), ConversionError> {
        steps::take(STEPS_PER_OPERATION);
        if self.get(from).is_none() {
            self.remove(from);
            return Ok(());
        }
        if self.get(to).is_some() {
            return Err(format!("`{}` and `{}` are both written: keep one", from.join("."), to.join(".")));
        }
        self.remove(to);
        self.ensure_parent(to)?;
        let Some((step, parent)) = from.split_last() else {
            return Ok(());
        };
        let Some(value) = self.map_mut(parent).and_then(|m| m.remove(*step)) else {
            return Ok(());
        };
        if let (Some((step, parent)), true) = (to.split_last(), !to.is_empty())
            && let Some(map) = self.map_mut(parent)
        {
            map.insert((*step).to_owned(), value);
            self.operations.push(Operation::Move { from: pointer(from), path: pointer(to) });
        }
        Ok(())
    }

    /// Appends an item to an existing list.
    pub(super) fn push(&mut self, list: FieldPath<'_>, item: Value) {
        steps::take(STEPS_PER_OPERATION);
        let items = self.value.pointer_mut(&pointer(list)).and_then(Value::as_array_mut);
        if let Some(items) = items {
            items.push(item.clone());
            self.operations.push(Operation::Add { path: format!("{}/-", pointer(list)), value: item });
        }
    }

    /// Creates the missing maps above a path with one operation, and returns the last step.
    fn ensure_parent<'p>(&mut self, path: FieldPath<'p>) -> Result<&'p str, ConversionError> {
        let Some((last, parents)) = path.split_last() else {
            return Err(not_a_map(path));
        };
        let written =
            (0..=parents.len()).rev().find(|n| self.get(&parents[..*n]).is_some()).unwrap_or_default();
        if self.get(&parents[..written]).is_some_and(|v| !v.is_object()) {
            return Err(not_a_map(path));
        }
        if written < parents.len() {
            let mut value = Value::Object(Map::new());
            for step in parents[written + 1..].iter().rev() {
                value = Value::Object(Map::from_iter([((*step).to_owned(), value)]));
            }
            let place = &parents[..=written];
            if let Some(map) = self.map_mut(&parents[..written]) {
                let old = map.insert(parents[written].to_owned(), value.clone());
                let path = pointer(place);
                self.operations.push(match old {
                    Some(_) => Operation::Replace { path, value },
                    None => Operation::Add { path, value },
                });
            }
        }
        Ok(last)
    }

    fn map_mut(&mut self, path: FieldPath<'_>) -> Option<&mut Map<String, Value>> {
        path.iter().try_fold(&mut self.value, |at, step| at.get_mut(step)).and_then(Value::as_object_mut)
    }

    /// The value that the operations produce.
    pub(super) fn into_value(self) -> Value {
        self.value
    }

    /// The fix. It is unsafe: a conversion between APIs is never applied without review.
    pub(super) fn into_fix(self, title: impl Into<String>) -> Fix {
        let mut fix = Fix::new(title, Safety::Unsafe);
        fix.operations = self.operations;
        fix
    }
}

fn not_a_map(path: FieldPath<'_>) -> ConversionError {
    format!("`{}` cannot be written here", path.join("."))
}
