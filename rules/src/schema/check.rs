//! Asks an object's schema, and turns what the validator says into violations.

use std::collections::BTreeSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::json::{Array as _, Node as _, Object as _};
use jsonschema::{Draft, JsonType, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::facts::date;
use crate::facts::duration::GoDuration;
use crate::facts::quantity::Quantity;
use crate::karpenter::undecodable::is_undecodable_quantity;
use crate::kind::Kind;
use crate::object::{Object, ObjectId};
use crate::platform::{Platform, Version};
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::tree::pointer::Pointer;

use super::instance::{TreeJson, TreeNode, to_json_value};
use super::structural::{CRD_DATE_TIME, GO_QUANTITY};
use super::table;
use super::table::SchemaEntry;
use super::violation::{LengthUnit, Violation, ViolationKind};
use super::{core, metadata, validation};

/// Our own keyword: items differ, wholly or in some fields.
pub(super) const LIST_TYPE_KEYWORD: &str = "gpulint-distinct";

/// The most violations that are told of one object. Who has more has another problem, and each
/// costs a way through the tree.
const MAX_VIOLATIONS: usize = 256;

/// The kinds that have a schema in some version.
pub(crate) const KINDS: &[Kind] = &[
    Kind::NODE_POOL,
    Kind::NODE_CLAIM,
    Kind::NODE_OVERLAY,
    Kind::EC2_NODE_CLASS,
    Kind::AUTO_MODE_NODE_CLASS,
    Kind::SCALED_OBJECT,
    Kind::SCALED_JOB,
    Kind::TRIGGER_AUTHENTICATION,
    Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    Kind::POD,
    Kind::SERVICE,
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::DAEMON_SET,
    Kind::REPLICA_SET,
    Kind::JOB,
    Kind::CRON_JOB,
    Kind::HPA,
    Kind::PDB,
    Kind::RESOURCE_CLAIM,
    Kind::RESOURCE_CLAIM_TEMPLATE,
    Kind::DEVICE_CLASS,
    Kind::VALIDATING_WEBHOOK_CONFIGURATION,
    Kind::MUTATING_WEBHOOK_CONFIGURATION,
];

/// Everything the API server refuses in an object, each place once. Missing fields are told of
/// fragments too, because a fragment is reported as such; of patches they are not.
pub(crate) fn check(object: &Object) -> Vec<Violation> {
    let Some(entry) = table::find(object.id()) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let (tree, root) = object.tree();
    if !entry.fast_accept().is_some_and(|quick| quick.accepts(tree, root))
        && let Some(validator) = entry.validator()
    {
        for error in validator.iter_errors(object.instance()) {
            translate(&error, &mut out);
        }
    }
    metadata::check(object, &mut out);
    let root = object.root();
    let from = out.len();
    validation::validate(object, &mut out);
    for violation in out.iter_mut().skip(from).take(MAX_VIOLATIONS) {
        // Like the schema, validation may say that a part of the frame is missing.
        if is_envelope(&violation.pointer) && root.at(&violation.pointer).is_absent() {
            violation.kind = ViolationKind::Missing;
        }
    }
    out.truncate(MAX_VIOLATIONS);
    let kustomized = object.origin().is_some_and(|o| o.source.is_kustomized());
    out.retain(|violation| {
        is_reportable(&root, violation, object.is_patch())
            && !(kustomized && may_be_set_by_kustomize(&root, &violation.pointer))
    });
    // A part that is missing is told by the field in it that is missed, where one is.
    let missing: BTreeSet<Pointer> =
        out.iter().filter(|v| v.kind == ViolationKind::Missing).map(|v| v.pointer.clone()).collect();
    // In their order what stands below a pointer follows it.
    let inner = |at: &Pointer| {
        let next = missing.range(at.clone()..).nth(1);
        next.is_some_and(|next| next.steps().starts_with(at.steps()))
    };
    out.retain(|v| v.kind != ViolationKind::Missing || !inner(&v.pointer));
    let mut seen = BTreeSet::new();
    out.retain(|violation| seen.insert(violation.pointer.clone()));
    out
}

/// The parts of an object that hold everything else.
const ENVELOPE_FIELDS: &[&str] = &["spec", "template", "jobTemplate", "jobTargetRef", "metadata"];

/// Whether a place belongs to the frame of an object: a part, or a field right below one.
pub(crate) fn is_envelope(pointer: &Pointer) -> bool {
    let above = pointer.steps().split_last().map_or(&[][..], |(_, above)| above);
    above.iter().all(|step| ENVELOPE_FIELDS.contains(&step.as_str()))
}

/// Whether kustomize may write what is absent here: its transformers know namespaces, labels and
/// the selectors that follow from labels.
fn may_be_set_by_kustomize(root: &Node<'_>, pointer: &Pointer) -> bool {
    let last = pointer.steps().last().map_or("", String::as_str);
    matches!(last, "namespace" | "selector" | "labels") && root.at(pointer).is_absent()
}

/// Whether the input really says so: what a placeholder hides is not known, and a patch only
/// writes what it changes.
fn is_reportable(root: &Node<'_>, violation: &Violation, patch: bool) -> bool {
    let steps = violation.pointer.steps();
    let last = steps.last().map_or("", String::as_str);
    // A patch with a target may have any name.
    if patch && steps == ["metadata", "name"] {
        return false;
    }
    let parent = root.at(&Pointer::from_steps(steps.iter().take(steps.len().saturating_sub(1)).cloned()));
    match violation.kind {
        ViolationKind::Missing => !patch && !parent.has_unknown_key(),
        ViolationKind::Unknown => !(is_placeholder(last) || patch && last.starts_with('$')),
        ViolationKind::Count { .. } => {
            let node = root.at(&violation.pointer);
            !(node.is_unknown() || patch && node.is_mapping())
        }
        _ => !root.at(&violation.pointer).is_unknown(),
    }
}

fn translate(error: &ValidationError<'_>, out: &mut Vec<Violation>) {
    let Some(pointer) = Pointer::parse(error.instance_path().as_str()) else {
        return;
    };
    let range = |limit: &Value, lower: bool, exclusive: bool| ViolationKind::Range {
        limit: limit.to_string(),
        lower,
        exclusive,
    };
    let count = |of: LengthUnit, limit: u64, lower: bool| ViolationKind::Count { of, limit, lower };
    let problem = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            out.extend(
                unexpected
                    .iter()
                    .map(|name| Violation { pointer: pointer.join(name), kind: ViolationKind::Unknown }),
            );
            return;
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            out.push(Violation { pointer: pointer.join(name), kind: ViolationKind::Missing });
            return;
        }
        ValidationErrorKind::Custom { keyword, message } if keyword == LIST_TYPE_KEYWORD => {
            let (index, keys) = message.split_once(' ').unwrap_or((message, ""));
            out.push(Violation {
                pointer: pointer.join(index),
                kind: ViolationKind::Duplicate { keys: keys.split_whitespace().map(str::to_owned).collect() },
            });
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
        // What is left combines schemas; our own data has none of it.
        _ => ViolationKind::Invalid {
            message: "the value has none of the forms that the schema allows".to_owned(),
            help: None,
            fix: None,
        },
    };
    out.push(Violation { pointer, kind: problem });
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

/// A validator of a JSON Schema on our trees. `None` where the schema does not build.
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
        .build(schema)
        .ok()
}

/// Whether a text has a format of the structural schemas.
pub(super) fn matches_format(name: &str, text: &str) -> bool {
    match name {
        "quantity" => Quantity::parse(text).is_ok(),
        GO_QUANTITY => !is_undecodable_quantity(text),
        "date-time" => date::is_go_rfc3339(text),
        CRD_DATE_TIME => date::is_crd_date_time(text),
        "duration" => GoDuration::parse(text).is_ok(),
        "byte" => is_base64(text),
        _ => false,
    }
}

/// Standard base64 with its padding, as Go decodes bytes; line breaks are skipped.
fn is_base64(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    let body = digits.iter().take_while(|b| **b != b'=').count();
    digits.len().is_multiple_of(4)
        && digits.len() - body <= 2
        && digits[body..].iter().all(|b| *b == b'=')
        && digits[..body].iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// The list types of structural schemas.
#[derive(Debug)]
pub(super) struct ListType {
    /// Empty where whole items must differ.
    keys: Vec<(Box<str>, Value)>,
}

impl ListType {
    /// From the value of the keyword.
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

    /// The first item that repeats an earlier one. Items that hold a placeholder are not known.
    pub(super) fn first_duplicate(&self, list: TreeNode<'_>) -> Option<usize> {
        let mut seen = BTreeSet::new();
        for (at, item) in list.as_array()?.elements().enumerate() {
            let value = if self.keys.is_empty() {
                to_json_value(item)
            } else {
                let Some(map) = item.as_object() else {
                    continue;
                };
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
                let names: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_ref()).collect();
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

/// Whether a kind has a schema in this version.
pub(crate) fn has_schema(id: &ObjectId) -> bool {
    table::find(id).is_some()
}

/// Whether the cluster runs a newer version than the schemas are of, so that it may know more
/// fields and values than they do.
pub(crate) fn cluster_is_newer(object: &Object, platform: &Platform) -> bool {
    match object.id().group.as_str() {
        "karpenter.sh" | "karpenter.k8s.aws" => platform.karpenter > Version::new(1, 14),
        "eks.amazonaws.com" => false,
        "keda.sh" => platform.keda > Version::new(2, 20),
        _ => platform.kubernetes > Version::new(1, 34),
    }
}

/// The names of the fields that a place of an object may have; empty where any, or where the
/// kind has no schema.
pub(crate) fn fields_at(object: &Object, pointer: &Pointer) -> Vec<String> {
    let Some(entry) = table::find(object.id()) else {
        return Vec::new();
    };
    fields(entry, pointer)
}

fn fields(entry: &'static SchemaEntry, pointer: &Pointer) -> Vec<String> {
    let steps = pointer.steps();
    let (mut schema, steps) = match steps.split_first() {
        Some((first, rest)) if first == "metadata" => {
            match core::definition(super::structural::OBJECT_META) {
                Some(schema) => (schema, rest),
                None => return Vec::new(),
            }
        }
        _ => (entry.structural(), steps),
    };
    for step in steps {
        schema = resolve(schema);
        let next = schema["properties"]
            .get(step)
            .or_else(|| schema.get("items").filter(|_| step.parse::<usize>().is_ok()))
            .or_else(|| schema.get("additionalProperties"));
        match next {
            Some(next) => schema = next,
            None => return Vec::new(),
        }
    }
    let fields = resolve(schema)["properties"].as_object();
    let mut names: Vec<String> = fields.into_iter().flatten().map(|(k, _)| k.clone()).collect();
    if steps.is_empty() && pointer.steps().is_empty() {
        for name in ["apiVersion", "kind", "metadata"] {
            if !names.iter().any(|n| n == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

fn resolve(schema: &'static Value) -> &'static Value {
    schema.get("$ref").and_then(Value::as_str).and_then(core::definition).unwrap_or(schema)
}
