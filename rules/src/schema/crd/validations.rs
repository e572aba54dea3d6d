//! The validation rules of a CustomResourceDefinition (`x-kubernetes-validations`), and which of them an
//! object violates.
//!
//! Uncertain results are not reported: rules that compare with the stored object (`oldSelf`), expressions
//! that are not supported, values behind a placeholder, and evaluations that fail.

use serde_json::Value;

use crate::cel::Expression;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::object::Object;
use crate::tree::pointer::Pointer;

use super::super::check::violations;
use super::{CompiledDefinition, defaults};

/// Maximum depth of the schemas whose rules are read.
const MAX_DEPTH: usize = 64;

/// The rules of a schema, by the part of the schema that they are in.
#[derive(Debug, Default)]
pub(super) struct Validations {
    here: Vec<ValidationRule>,
    properties: Vec<(String, Validations)>,
    /// The rules of the items of a list, or of the values of a map.
    each: Option<Box<Validations>>,
}

#[derive(Debug)]
struct ValidationRule {
    expression: Expression,
    text: String,
    message: Option<String>,
    message_expression: Option<Expression>,
    /// The path from the value to the field that the rule is about.
    field_path: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FailedValidation {
    /// The field, which may be absent.
    pub(crate) pointer: Pointer,
    pub(crate) message: String,
    pub(crate) rule: String,
}

impl Validations {
    /// The rules of a schema and of all schemas in it; `None` if there are none.
    pub(super) fn new(schema: &Value) -> Option<Validations> {
        Validations::below(schema, MAX_DEPTH)
    }

    fn below(schema: &Value, depth: usize) -> Option<Validations> {
        let depth = depth.checked_sub(1)?;
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        let properties = schema.get("properties").and_then(Value::as_object);
        let each = schema.get("items").or_else(|| schema.get("additionalProperties"));
        let found = Validations {
            here: rules.into_iter().flatten().filter_map(ValidationRule::new).collect(),
            properties: properties
                .into_iter()
                .flatten()
                .filter_map(|(name, inner)| Some((name.clone(), Validations::below(inner, depth)?)))
                .collect(),
            each: each.and_then(|inner| Validations::below(inner, depth)).map(Box::new),
        };
        let empty = found.here.is_empty() && found.properties.is_empty() && found.each.is_none();
        (!empty).then_some(found)
    }

    fn evaluate(&self, schema: &Value, value: &Value, at: &Pointer, evaluation: &mut Evaluation<'_>) {
        // The API server does not evaluate rules on a null value.
        if value.is_null() || evaluation.is_full() {
            return;
        }
        if !self.here.is_empty() && !evaluation.object.root().at(at).has_unknown() {
            self.evaluate_here(schema, value, at, evaluation);
        }
        for (name, inner) in &self.properties {
            if let (Some(schema), Some(value)) = (schema["properties"].get(name), value.get(name)) {
                inner.evaluate(schema, value, &at.join(name), evaluation);
            }
        }
        let Some(inner) = &self.each else { return };
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    inner.evaluate(&schema["items"], item, &at.join(&index.to_string()), evaluation);
                }
            }
            Value::Object(entries) => {
                let declared = schema.get("properties");
                for (name, value) in entries {
                    if declared.is_none_or(|known| known.get(name).is_none()) {
                        inner.evaluate(&schema["additionalProperties"], value, &at.join(name), evaluation);
                    }
                }
            }
            _ => {}
        }
    }

    fn evaluate_here(&self, schema: &Value, value: &Value, at: &Pointer, evaluation: &mut Evaluation<'_>) {
        let Some(view) = defaults::view(schema, value, at.steps().is_empty()) else { return };
        let unordered = defaults::has_unordered_list(schema, value);
        for rule in &self.here {
            if evaluation.is_full() || unordered && rule.expression.depends_on_list_type() {
                continue;
            }
            if rule.expression.evaluate(&view) == Some(Value::Bool(false)) {
                evaluation.failed.push(FailedValidation {
                    pointer: rule.field_path.iter().fold(at.clone(), |at, step| at.join(step)),
                    message: rule.message(&view),
                    rule: rule.text.clone(),
                });
            }
        }
    }
}

/// The evaluation of the rules of a schema for an object.
struct Evaluation<'o> {
    object: &'o Object,
    /// Maximum number of violated rules, after which the evaluation ends.
    limit: usize,
    failed: Vec<FailedValidation>,
}

impl Evaluation<'_> {
    fn is_full(&self) -> bool {
        self.failed.len() >= self.limit
    }
}

impl ValidationRule {
    /// `None` if the rule is not evaluated.
    fn new(rule: &Value) -> Option<ValidationRule> {
        let text = |name: &str| rule.get(name).and_then(Value::as_str);
        let expression = Expression::parse(text("rule")?)?;
        if expression.has_variable("oldSelf") {
            return None;
        }
        Some(ValidationRule {
            expression,
            text: text("rule")?.trim().to_owned(),
            message: text("message").map(|message| message.trim().to_owned()).filter(|text| !text.is_empty()),
            message_expression: text("messageExpression").and_then(Expression::parse),
            field_path: steps(text("fieldPath").unwrap_or_default()).unwrap_or_default(),
        })
    }

    fn message(&self, view: &Value) -> String {
        let computed = self.message_expression.as_ref().and_then(|expression| expression.evaluate(view));
        match (computed, &self.message) {
            (Some(Value::String(text)), _) if !text.trim().is_empty() && !text.contains('\n') => {
                text.trim().to_owned()
            }
            (_, Some(message)) => message.clone(),
            _ => format!("failed rule: {}", self.text),
        }
    }
}

/// The steps of a `fieldPath` such as `.spec.template` or `.metadata.labels['a.b']`. `None` if the text is
/// not a path.
fn steps(path: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, after) = quoted.split_once("']")?;
            out.push(name.to_owned());
            rest = after;
        } else {
            let field = rest.strip_prefix('.')?;
            let end = field.find(['.', '[']).unwrap_or(field.len());
            let (name, after) = field.split_at(end);
            if name.is_empty() {
                return None;
            }
            out.push(name.to_owned());
            rest = after;
        }
    }
    Some(out)
}

/// The rules, in the user's definition of the object's kind, that the object violates, at most `limit`. None
/// for a patch, a fragment, or an object that the schema rejects, because the API server then does not
/// evaluate rules.
pub(crate) fn failed_validations(
    object: &Object,
    definitions: &CustomResourceDefinitions,
    limit: usize,
) -> Vec<FailedValidation> {
    let compiled =
        definitions.find(object.id()).and_then(|served| Some((served, CompiledDefinition::of(served)?)));
    let Some((served, validations)) =
        compiled.and_then(|(served, compiled)| Some((served, compiled.validations.as_ref()?)))
    else {
        return Vec::new();
    };
    if object.may_lack_fields() || !violations(object, definitions).is_empty() {
        return Vec::new();
    }
    let mut value = object.root().to_json();
    defaults::apply(&served.schema, &mut value);
    let mut evaluation = Evaluation { object, limit, failed: Vec::new() };
    validations.evaluate(&served.schema, &value, &Pointer::default(), &mut evaluation);
    evaluation.failed
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn field_paths_are_steps() {
        let said = |path: &str| steps(path).map(|steps| steps.join(" "));
        assert_eq!(said(".spec.a"), Some("spec a".to_owned()));
        assert_eq!(said("['a.b'].c"), Some("a.b c".to_owned()));
        assert_eq!(said(""), Some(String::new()));
        assert_eq!(said("spec"), None);
    }
}
