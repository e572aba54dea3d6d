//! Objects of kinds whose CustomResourceDefinition the user provides: violations of its schema and of its
//! validation rules.
//!
//! The schema replaces the built-in one for that kind and version, because it is the one in the user's
//! cluster. The validation rules (`x-kubernetes-validations`) are evaluated on objects that the schema
//! accepts, as in the API server.

mod defaults;
mod validations;

use serde_json::Value;

use crate::kind::definitions::{CustomResourceDefinitions, ServedVersion};
use crate::object::Object;
use crate::steps;

use super::compiled::CompiledSchema;
use super::structural::of_crd;
use validations::Validations;
pub(crate) use validations::failed_validations;

#[derive(Debug)]
struct CompiledDefinition {
    schema: CompiledSchema,
    /// `None` if no part of the schema has a rule that can be evaluated.
    validations: Option<Validations>,
}

impl CompiledDefinition {
    fn of(served: &ServedVersion) -> Option<&CompiledDefinition> {
        let compile = |schema: &Value| CompiledDefinition {
            schema: CompiledSchema::new({
                // A version without a schema accepts everything.
                let schema = if schema.is_object() { of_crd(schema, false) } else { Value::Bool(true) };
                move || schema.clone()
            }),
            validations: Validations::new(schema),
        };
        served.compiled(|schema| steps::unlimited(|| compile(schema)))
    }
}

/// The schema of an object's kind and version. `None` if the user provides no definition for it.
pub(super) fn schema<'d>(
    object: &Object,
    definitions: &'d CustomResourceDefinitions,
) -> Option<&'d CompiledSchema> {
    let served = definitions.find(object.id())?;
    Some(&CompiledDefinition::of(served)?.schema)
}

/// The structural schema of an object's kind and version, which names the fields.
pub(super) fn structural<'d>(
    object: &Object,
    definitions: &'d CustomResourceDefinitions,
) -> Option<&'d Value> {
    Some(&definitions.find(object.id())?.schema)
}
