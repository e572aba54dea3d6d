//! The keywords and formats that compiled schemas use in addition to JSON Schema, and the validator that
//! supports them.

use std::collections::BTreeSet;
use std::sync::Arc;

use jsonschema::json::{Array as _, Node as _, Object as _};
use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::facts::duration::GoDuration;
use crate::facts::quantity::Quantity;
use crate::facts::{base64, date};
use crate::karpenter::undecodable::is_undecodable_quantity;
use crate::tree::placeholder::is_placeholder;

use super::acceptor::ValidationOptions;
use super::compiled::CompiledSchema;
use super::instance::{TreeJson, TreeNode, to_json_value};

/// Names the type and the field whose history ([`super::field_history`]) a value has. Not a keyword of validation.
pub(super) const HISTORY_KEYWORD: &str = "x-gpulint-history";
/// Keyword for `x-kubernetes-list-type`: items must differ, as a whole (`set`) or in some fields (`map`).
pub(super) const LIST_TYPE_KEYWORD: &str = "gpulint-distinct";
/// Keyword for a type that is compiled separately ([`CompiledSchema::of_type`]), in place of `$ref`.
pub(super) const TYPE_KEYWORD: &str = "gpulint-type";
/// Format of a quantity that Go's parser accepts. It applies in addition to the pattern of the CRD.
pub(crate) const GO_QUANTITY: &str = "quantity that is read";
/// Format of a date-time that the API server accepts in a CRD, which Go's parser may reject.
pub(crate) const CRD_DATE_TIME: &str = "date-time that is stored";

/// Builds the validator of a JSON Schema for trees. `None` if the schema is invalid.
pub(super) fn validator(schema: &Value) -> Option<Validator<TreeJson>> {
    jsonschema::options_for::<TreeJson>()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(true)
        .with_format("quantity", |text: &str| matches_format("quantity", text))
        .with_format(GO_QUANTITY, |text: &str| matches_format(GO_QUANTITY, text))
        .with_format("date-time", |text: &str| matches_format("date-time", text))
        .with_format(CRD_DATE_TIME, |text: &str| matches_format(CRD_DATE_TIME, text))
        .with_format("duration", |text: &str| matches_format("duration", text))
        .with_format("byte", |text: &str| matches_format("byte", text))
        .with_keyword(LIST_TYPE_KEYWORD, list_type_keyword)
        .with_keyword(TYPE_KEYWORD, type_keyword)
        .build(schema)
        .ok()
}

pub(super) fn matches_format(name: &str, text: &str) -> bool {
    match name {
        "quantity" => Quantity::decode(text).is_ok(),
        GO_QUANTITY => !is_undecodable_quantity(text),
        "date-time" => date::is_go_rfc3339(text),
        CRD_DATE_TIME => date::is_crd_date_time(text),
        "duration" => GoDuration::parse(text).is_ok(),
        "byte" => base64::decoded(text).is_some(),
        _ => false,
    }
}

#[derive(Debug)]
pub(super) struct ListType {
    /// The fields that identify an item, with their defaults; empty if items are compared as a whole.
    keys: Vec<(Box<str>, Value)>,
}

impl ListType {
    pub(super) fn new(value: &Value) -> ListType {
        let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
        let mut defaults = list("defaults").into_iter();
        let keys = list("keys")
            .iter()
            .filter_map(Value::as_str)
            .map(|name| (Box::from(name), defaults.next().unwrap_or_default()))
            .collect();
        ListType { keys }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(name, _)| name.as_ref())
    }

    /// The index of the first item that repeats an earlier one. Items with placeholders are skipped.
    pub(super) fn first_duplicate(&self, list: TreeNode<'_>) -> Option<usize> {
        let mut seen = BTreeSet::new();
        for (at, item) in list.as_array()?.elements().enumerate() {
            let value = if self.keys.is_empty() {
                to_json_value(item)
            } else {
                let Some(map) = item.as_object() else { continue };
                let key = |(name, default): &(Box<str>, Value)| {
                    map.get(name).map_or_else(|| default.clone(), to_json_value)
                };
                Value::Array(self.keys.iter().map(key).collect())
            };
            let text = value.to_string();
            if !is_placeholder(&text) && !seen.insert(text) {
                return Some(at);
            }
        }
        None
    }
}

impl<'i> Keyword<'i, TreeJson> for ListType {
    fn validate(&self, instance: TreeNode<'i>) -> Result<(), ValidationError<'i>> {
        match self.first_duplicate(instance) {
            None => Ok(()),
            Some(at) => {
                let names: Vec<&str> = self.names().collect();
                let message = format!("{at} {}", names.join(" "));
                Err(ValidationError::custom(message))
            }
        }
    }

    fn is_valid(&self, instance: TreeNode<'i>) -> bool {
        self.first_duplicate(instance).is_none()
    }
}

fn list_type_keyword<'a>(
    _parent: &'a Map<String, Value>,
    value: &'a Value,
    _path: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i, TreeJson>>, ValidationError<'a>> {
    Ok(Box::new(ListType::new(value)))
}

struct TypeReference {
    name: Box<str>,
    schema: Arc<CompiledSchema>,
}

impl TypeReference {
    /// The error of a value that the type may reject. It names the value and the type, so that [`super::errors`] can
    /// add the type's own errors.
    fn error<'i>(&self, slot: u32) -> ValidationError<'i> {
        ValidationError::custom(format!("{slot} {}", self.name))
    }
}

/// Parses the error message of a [`TYPE_KEYWORD`]: a slot, and the schema of its type.
pub(super) fn type_error(message: &str) -> Option<(u32, Arc<CompiledSchema>)> {
    let (slot, name) = message.split_once(' ')?;
    Some((slot.parse().ok()?, CompiledSchema::of_type(name)))
}

impl<'i> Keyword<'i, TreeJson> for TypeReference {
    fn validate(&self, instance: TreeNode<'i>) -> Result<(), ValidationError<'i>> {
        match instance {
            TreeNode::Slot(_, slot) if !self.is_valid(instance) => Err(self.error(slot)),
            TreeNode::Slot(..) | TreeNode::Text(_) => Ok(()),
        }
    }

    fn is_valid(&self, instance: TreeNode<'i>) -> bool {
        self.schema.is_valid(instance)
    }

    /// Reports the value as a whole if the acceptor rejects it. [`super::errors`] then calls the type's own
    /// validator.
    fn iter_errors(&self, instance: TreeNode<'i>) -> Box<dyn Iterator<Item = ValidationError<'i>> + 'i> {
        let error = match instance {
            TreeNode::Slot(tree, slot)
                if !self.schema.accepts(tree, slot, ValidationOptions::default()).is_valid =>
            {
                Some(self.error(slot))
            }
            TreeNode::Slot(..) | TreeNode::Text(_) => None,
        };
        Box::new(error.into_iter())
    }
}

fn type_keyword<'a>(
    _parent: &'a Map<String, Value>,
    value: &'a Value,
    _path: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i, TreeJson>>, ValidationError<'a>> {
    let name = value.as_str().unwrap_or_default();
    Ok(Box::new(TypeReference { name: Box::from(name), schema: CompiledSchema::of_type(name) }))
}
