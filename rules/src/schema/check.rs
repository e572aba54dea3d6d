//! Checks an object against the schema of its kind and the API server's own validation.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::facts::suggest;
use crate::facts::suggest::SUGGESTIONS_PER_RULE;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::kind::{Kind, SchemaSource};
use crate::object::{Memo, Object, ObjectId};
use crate::platform::{Platform, Product};
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::tree::pointer::Pointer;

use super::acceptor::{ValidationOptions, is_set_by_kustomize};
use super::field_history::FieldHistory;
use super::table::SchemaEntry;
use super::violation::{MAX_VIOLATIONS, Violation, ViolationKind};
use super::{core, crd, errors, metadata, operators, pods, table, validation};
use crate::steps;

/// The result of a check against a built-in schema.
#[derive(Debug, Default)]
struct Checked {
    violations: Vec<Violation>,
    /// The slots of fields that not every version has, or that need a feature gate.
    histories: Vec<(u32, &'static FieldHistory)>,
}

/// `None` if the computation takes too many steps.
static CHECKED: Memo<Option<Checked>> = Memo::new();
/// The definitions, and the violations of their schema. `None` if computing them takes too many steps.
static DEFINED_VIOLATIONS: Memo<(CustomResourceDefinitions, Option<Vec<Violation>>)> = Memo::new();

/// The violations of an object against its schema and the API server's own validation, computed at the first
/// call. If `definitions` define the object's kind and version, their schema is used, otherwise the built-in
/// one. If the computation takes too many steps, the calling rule is cancelled.
pub(crate) fn violations<'o>(
    object: &'o Object,
    definitions: &CustomResourceDefinitions,
) -> Cow<'o, [Violation]> {
    let Some(schema) = crd::schema(object, definitions) else {
        return Cow::Borrowed(&checked(object).violations);
    };
    let (tree, root) = object.tree();
    let declared = || crd::structural(object, definitions);
    let compute = || limited(|| check(object, declared, errors::violations(schema, tree, root)));
    let (known, remembered) = object.memo(&DEFINED_VIOLATIONS, || (definitions.clone(), compute()));
    // An object may outlive a configuration, so the definitions may have changed.
    if known.address() == definitions.address() {
        Cow::Borrowed(finished(remembered.as_deref()))
    } else {
        Cow::Owned(finished(compute()))
    }
}

/// Whether the violations of an object are those of a definition that the user gives, which says what the cluster has.
pub(crate) fn is_defined(object: &Object, definitions: &CustomResourceDefinitions) -> bool {
    crd::schema(object, definitions).is_some()
}

/// The file with the definition that does not accept a field, if it was found in the input and the published schema of the kind
/// accepts the field: a cluster may have the definition of another release, or the whole of it.
pub(crate) fn contesting_file(
    object: &Object,
    field: &Pointer,
    definitions: &CustomResourceDefinitions,
) -> Option<String> {
    let file = definitions.file_of(object.id())?;
    let published = CustomResourceDefinitions::default();
    let accepts = has_schema(object.id(), &published)
        && violations(object, &published).iter().all(|violation| violation.pointer != *field);
    accepts.then(|| file.to_owned())
}

/// Whether the user's definition of the object's kind accepts what stands at a field, or its absence. `None` if the user gives
/// no definition.
pub(crate) fn accepted_by_definition(
    object: &Object,
    field: &Pointer,
    definitions: &CustomResourceDefinitions,
) -> Option<bool> {
    crd::schema(object, definitions)?;
    Some(violations(object, definitions).iter().all(|violation| violation.pointer != *field))
}

/// The fields of an object that not every version of Kubernetes has, or that need a feature gate. None if `definitions`
/// define the object's kind and version, which say what the cluster has.
pub(crate) fn fields_with_history<'o>(
    object: &'o Object,
    definitions: &CustomResourceDefinitions,
) -> impl Iterator<Item = (Node<'o>, &'static FieldHistory)> + use<'o> {
    let histories = match definitions.find(object.id()) {
        Some(_) => &[][..],
        None => &checked(object).histories,
    };
    let (tree, root) = object.tree();
    histories.iter().map(move |(slot, history)| (Node::from_slot(tree, root, *slot), *history))
}

fn checked(object: &Object) -> &Checked {
    let remembered = object.memo(&CHECKED, || match table::find(object.id()) {
        None => limited(|| Checked { violations: without_schema(object), histories: Vec::new() }),
        Some(entry) => limited(|| of_kind(entry, object)),
    });
    finished(remembered.as_ref())
}

/// Checks an object against the schema of its kind. An object that is valid apart from its uncertain parts has no
/// violations of it.
fn of_kind(entry: &SchemaEntry, object: &Object) -> Checked {
    let schema = &entry.schema;
    let (tree, root) = object.tree();
    let accepted = schema.accepts(tree, root, validation_options(object));
    let mut histories = Vec::new();
    if accepted.may_have_history {
        schema.acceptor().add_histories(tree, root, &mut histories);
    }
    let mut of_schema = if accepted.is_valid { Vec::new() } else { errors::violations(schema, tree, root) };
    if matches!(entry.source, SchemaSource::Operator) {
        of_schema.retain(operators::is_of_structure);
    }
    Checked { violations: check(object, || Some(entry.structural()), of_schema), histories }
}

/// The violations of an object of a kind without a schema: those of its data, and of the pods that a controller makes of it.
fn without_schema(object: &Object) -> Vec<Violation> {
    let mut out = Vec::new();
    validation::data::check(object, &mut out);
    pods::check(object, || None, &mut out);
    reportable(object, out)
}

/// Computes violations within the limits of a result that all rules share.
fn limited<T>(check: impl FnOnce() -> T) -> Option<T> {
    steps::limited(steps::SHARED, || suggest::at_most(SUGGESTIONS_PER_RULE, check)).0
}

fn finished<T>(violations: Option<T>) -> T {
    violations.unwrap_or_else(|| steps::cut_short())
}

/// Completes the violations of an object; `out` has those of the schema. There is at most one per field.
/// Fragments have violations for missing fields, which the rule manifest-incomplete summarizes; patches have
/// none. `declared` gives the structural schema of the kind.
pub(super) fn check<'s>(
    object: &Object,
    declared: impl Fn() -> Option<&'s Value>,
    mut out: Vec<Violation>,
) -> Vec<Violation> {
    if out.len() < MAX_VIOLATIONS {
        metadata::check(object, &mut out);
    }
    let root = object.root();
    let from = out.len();
    if from < MAX_VIOLATIONS {
        validation::validate(object, MAX_VIOLATIONS - from, &mut out);
    }
    for violation in out.iter_mut().skip(from).take(MAX_VIOLATIONS) {
        // An absent part of the envelope is a missing field, even if validation code reports it in another
        // way.
        if is_envelope(&violation.pointer) && root.at(&violation.pointer).is_absent() {
            violation.kind = ViolationKind::Missing;
        }
    }
    pods::check(object, declared, &mut out);
    reportable(object, out)
}

/// The violations that are certain, at most one per field.
fn reportable(object: &Object, mut out: Vec<Violation>) -> Vec<Violation> {
    let root = object.root();
    out.truncate(MAX_VIOLATIONS);
    let kustomized = is_kustomized(object);
    let listed = object.origin().is_some_and(|o| !o.source.routes().is_empty());
    out.retain(|violation| {
        is_reportable(&root, violation, object.is_patch())
            && !(kustomized && may_be_set_by_kustomize(&root, &violation.pointer))
            && !(listed && is_quoted_by_kustomize(&root, violation))
            && !(violation.kind == ViolationKind::Missing && operators::is_filled(object, &violation.pointer))
    });
    // If a field inside a missing part is reported as missing, the part itself is not reported.
    let missing: BTreeSet<Pointer> =
        out.iter().filter(|v| v.kind == ViolationKind::Missing).map(|v| v.pointer.clone()).collect();
    // Pointers are sorted, so descendants follow their ancestor.
    let inner = |at: &Pointer| {
        let next = missing.range(at.clone()..).nth(1);
        next.is_some_and(|next| next.steps().starts_with(at.steps()))
    };
    out.retain(|v| v.kind != ViolationKind::Missing || !inner(&v.pointer));
    let mut seen = BTreeSet::new();
    out.retain(|violation| seen.insert(violation.pointer.clone()));
    out
}

/// Fields that only group other fields.
const ENVELOPE_FIELDS: &[&str] = &["spec", "template", "jobTemplate", "jobTargetRef", "metadata"];

/// Whether a pointer is one of the grouping fields of an object, or a field directly below one.
pub(crate) fn is_envelope(pointer: &Pointer) -> bool {
    let above = pointer.steps().split_last().map_or(&[][..], |(_, above)| above);
    above.iter().all(|step| ENVELOPE_FIELDS.contains(&step.as_str()))
}

/// The uncertain parts of an object, whose violations are not reported.
pub(super) fn validation_options(object: &Object) -> ValidationOptions {
    ValidationOptions {
        is_patch: object.is_patch(),
        is_kustomized: is_kustomized(object),
        has_placeholders: object.tree().0.may_have_placeholders,
    }
}

fn is_kustomized(object: &Object) -> bool {
    object.origin().is_some_and(|origin| origin.source.is_kustomized())
}

/// Whether a transformer of kustomize may set this absent field.
fn may_be_set_by_kustomize(root: &Node<'_>, pointer: &Pointer) -> bool {
    let last = pointer.steps().last().map_or("", String::as_str);
    is_set_by_kustomize(last) && !root.at(pointer).is_set()
}

/// Whether kustomize writes a value as the string that its field requires: it reads YAML 1.2, in which `on`, `off`,
/// `yes` and `no` are text, and quotes them in its output.
fn is_quoted_by_kustomize(root: &Node<'_>, violation: &Violation) -> bool {
    let ViolationKind::Type { expected } = &violation.kind else { return false };
    let text = root.at(&violation.pointer).raw_text().unwrap_or_default().to_ascii_lowercase();
    expected.contains(&"string") && matches!(text.as_str(), "on" | "off" | "yes" | "no" | "y" | "n")
}

/// Whether a violation is certain. It is not if a placeholder hides the value, or if a patch leaves the field
/// out.
fn is_reportable(root: &Node<'_>, violation: &Violation, patch: bool) -> bool {
    let steps = violation.pointer.steps();
    let last = steps.last().map_or("", String::as_str);
    // kustomize ignores the name of a patch that has a target.
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

/// Whether there is a schema for this kind and version.
pub(crate) fn has_schema(id: &ObjectId, definitions: &CustomResourceDefinitions) -> bool {
    definitions.find(id).is_some() || table::find(id).is_some()
}

/// The product whose schemas an object is checked against, if the cluster runs a newer version of it, which
/// may have fields and values that the schemas do not have. `None` for definitions that the user provides,
/// because they come from the cluster.
pub(crate) fn outdated_schemas(
    object: &Object,
    platform: &Platform,
    definitions: &CustomResourceDefinitions,
) -> Option<Product> {
    if definitions.find(object.id()).is_some() {
        return None;
    }
    Product::of_group(object.group()).filter(|product| platform.version(*product) > product.newest())
}

/// The names of the fields that the schema declares at a pointer, or that pods have there. Empty for free-form maps and for
/// kinds without a schema.
pub(crate) fn fields_at(
    object: &Object,
    pointer: &Pointer,
    definitions: &CustomResourceDefinitions,
) -> Vec<String> {
    let schema = crd::structural(object, definitions);
    let schema = schema.or_else(|| Some(table::find(object.id())?.structural()));
    let declared = schema.map(|schema| fields(schema, pointer)).unwrap_or_default();
    if declared.is_empty() {
        return pods::fields_at(object, pointer);
    }
    declared
}

/// The names of the fields that a schema declares.
pub(super) fn field_names(schema: &Value) -> Vec<String> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// The word for what the schema takes at a pointer, such as `a string`, if the value there has another shape: a map, a list or
/// a scalar.
pub(crate) fn other_shape_at(
    object: &Object,
    pointer: &Pointer,
    value: &Node<'_>,
    definitions: &CustomResourceDefinitions,
) -> Option<&'static str> {
    let schema =
        crd::structural(object, definitions).or_else(|| Some(table::find(object.id())?.structural()));
    let declared = schema.and_then(|schema| schema_at(schema, pointer.steps()));
    let at = declared.filter(|at| at["type"].is_string()).or_else(|| pods::definition_at(object, pointer))?;
    let (word, is_fitting) = match at["type"].as_str()? {
        "object" => ("a map", value.is_mapping()),
        "array" => ("a list", value.is_sequence()),
        of => {
            let word = match of {
                "string" => "a string",
                "boolean" => "`true` or `false`",
                _ => "a number",
            };
            (word, !value.is_mapping() && !value.is_sequence())
        }
    };
    (!is_fitting && !value.is_unknown()).then_some(word)
}

/// The names of the fields that the first schema of a kind declares at a path.
pub(crate) fn fields_of(kind: Kind, path: &[&str]) -> Vec<String> {
    let entry = table::SCHEMAS.iter().find(|entry| entry.kind == kind);
    let path = Pointer::from_steps(path.iter().map(|step| (*step).to_owned()));
    entry.map(|entry| fields(entry.structural(), &path)).unwrap_or_default()
}

fn child<'s>(schema: &'s Value, step: &str) -> Option<&'s Value> {
    schema["properties"]
        .get(step)
        .or_else(|| schema.get("items").filter(|_| step.parse::<usize>().is_ok()))
        .or_else(|| schema.get("additionalProperties"))
}

/// The schema at the end of a path, with references resolved.
pub(super) fn schema_at<'s>(schema: &'s Value, steps: &[String]) -> Option<&'s Value> {
    steps.iter().try_fold(resolve(schema), |schema, step| Some(resolve(child(schema, step)?)))
}

fn fields(schema: &Value, pointer: &Pointer) -> Vec<String> {
    let steps = pointer.steps();
    let (schema, steps) = match steps.split_first() {
        Some((first, rest)) if first == "metadata" => {
            match core::definition(super::structural::OBJECT_META) {
                Some(schema) => (schema, rest),
                None => return Vec::new(),
            }
        }
        _ => (schema, steps),
    };
    let Some(at) = schema_at(schema, steps) else {
        return Vec::new();
    };
    let mut names = field_names(at);
    if steps.is_empty() && pointer.steps().is_empty() {
        for name in ["apiVersion", "kind", "metadata"] {
            if !names.iter().any(|n| n == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

fn resolve(schema: &Value) -> &Value {
    schema.get("$ref").and_then(Value::as_str).and_then(core::definition).unwrap_or(schema)
}
