//! Converts jsonschema's errors to violations.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::steps;
use crate::tree::Tree;
use crate::tree::pointer::Pointer;

use super::compiled::CompiledSchema;
use super::instance::TreeNode;
use super::keywords::{LIST_TYPE_KEYWORD, TYPE_KEYWORD, type_error};
use super::violation::{InvalidKind, LengthUnit, MAX_VIOLATIONS, Violation, ViolationKind};

/// Steps for converting a violation.
const STEPS_PER_VIOLATION: usize = 100;

/// The violations of a schema in a tree, at most [`MAX_VIOLATIONS`], in the order of the document.
pub(super) fn violations(schema: &CompiledSchema, tree: &Tree, root: u32) -> Vec<Violation> {
    let mut out = Vec::new();
    collect(schema, tree, root, "", &mut out);
    out.sort_by_cached_key(|violation| position(tree, root, &violation.pointer));
    out
}

/// The slots on the path to a field. Slots are numbered in the order of the document; an absent field, or one that is null,
/// sorts last.
fn position(tree: &Tree, root: u32, pointer: &Pointer) -> Vec<u32> {
    let is_set = |child: &u32| !tree.is_null(tree.resolve(*child));
    let mut at = Some(root);
    let slot = |step: &String| {
        at = at.map(|slot| tree.resolve(slot)).and_then(|slot| match tree.slot(slot).kind.is_mapping() {
            true => tree.entry(slot, step).map(|(child, _)| child).filter(is_set),
            false => tree.item(slot, step.parse().ok()?),
        });
        at.unwrap_or(u32::MAX)
    };
    pointer.steps().iter().map(slot).collect()
}

/// Adds the violations of a value at the JSON Pointer `at`.
fn collect(schema: &CompiledSchema, tree: &Tree, slot: u32, at: &str, out: &mut Vec<Violation>) {
    let Some(validator) = schema.validator() else { return };
    for error in validator.iter_errors(TreeNode::new(tree, slot)) {
        if out.len() >= MAX_VIOLATIONS {
            return;
        }
        steps::take(STEPS_PER_VIOLATION);
        let place = format!("{at}{}", error.instance_path());
        match error.kind() {
            ValidationErrorKind::Custom { keyword, message } if keyword == TYPE_KEYWORD => {
                if let Some((slot, of)) = type_error(message) {
                    collect(&of, tree, slot, &place, out);
                }
            }
            _ => {
                if let Some(pointer) = Pointer::parse(&place) {
                    add(&error, pointer, out);
                }
            }
        }
    }
}

fn add(error: &ValidationError<'_>, pointer: Pointer, out: &mut Vec<Violation>) {
    let range = |limit: &Value, lower: bool, exclusive: bool| ViolationKind::Range {
        limit: limit.to_string(),
        lower,
        exclusive,
    };
    let count = |of: LengthUnit, limit: u64, lower: bool| ViolationKind::Count { of, limit, lower };
    let problem = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            out.extend(
                unexpected.iter().map(|name| Violation::new(pointer.join(name), ViolationKind::Unknown)),
            );
            return;
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            out.push(Violation::new(pointer.join(name), ViolationKind::Missing));
            return;
        }
        ValidationErrorKind::Custom { keyword, message } if keyword == LIST_TYPE_KEYWORD => {
            let (index, keys) = message.split_once(' ').unwrap_or((message, ""));
            let keys = keys.split_whitespace().map(str::to_owned).collect();
            out.push(Violation::new(pointer.join(index), ViolationKind::Duplicate { keys }));
            return;
        }
        ValidationErrorKind::Type { kind } => ViolationKind::Type {
            expected: match kind {
                TypeKind::Single(one) => vec![type_name(*one)],
                TypeKind::Multiple(set) => set.iter().map(type_name).collect(),
            },
        },
        ValidationErrorKind::Enum { options } => ViolationKind::Enum {
            allowed: options
                .as_array()
                .into_iter()
                .flatten()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .filter(|v| !v.is_empty())
                .collect(),
        },
        ValidationErrorKind::Pattern { pattern } => ViolationKind::Pattern { pattern: pattern.clone() },
        ValidationErrorKind::Format { format } => ViolationKind::Format { format: format.clone() },
        ValidationErrorKind::Minimum { limit } => range(limit, true, false),
        ValidationErrorKind::Maximum { limit } => range(limit, false, false),
        ValidationErrorKind::ExclusiveMinimum { limit } => range(limit, true, true),
        ValidationErrorKind::ExclusiveMaximum { limit } => range(limit, false, true),
        ValidationErrorKind::MinLength { limit } => count(LengthUnit::Characters, *limit, true),
        ValidationErrorKind::MaxLength { limit } => count(LengthUnit::Characters, *limit, false),
        ValidationErrorKind::MinItems { limit } => count(LengthUnit::Items, *limit, true),
        ValidationErrorKind::MaxItems { limit } => count(LengthUnit::Items, *limit, false),
        ValidationErrorKind::MinProperties { limit } => count(LengthUnit::Entries, *limit, true),
        ValidationErrorKind::MaxProperties { limit } => count(LengthUnit::Entries, *limit, false),
        ValidationErrorKind::UniqueItems => ViolationKind::Duplicate { keys: Vec::new() },
        // A map without declared fields, as in a CustomResourceDefinition that stands in for the real one.
        ValidationErrorKind::FalseSchema => ViolationKind::Invalid {
            of: InvalidKind::Other,
            message:
                "its CustomResourceDefinition declares no fields of this map: the API server ignores them"
                    .to_owned(),
            help: Some(
                "declare them in the CustomResourceDefinition, or set `x-kubernetes-preserve-unknown-fields`"
                    .to_owned(),
            ),
            fix: None,
        },
        // Keywords that combine schemas, such as `not`.
        _ => ViolationKind::Invalid {
            of: InvalidKind::Other,
            message: "the value has none of the forms that the schema allows".to_owned(),
            help: None,
            fix: None,
        },
    };
    out.push(Violation::new(pointer, problem));
}

fn type_name(of: JsonType) -> &'static str {
    match of {
        JsonType::Array => "list",
        JsonType::Boolean => "boolean",
        JsonType::Integer => "integer",
        JsonType::Null => "null",
        JsonType::Number => "number",
        JsonType::Object => "map",
        JsonType::String => "string",
    }
}
