//! Objects of kinds whose CustomResourceDefinition the user brings: what its schema and its validation rules reject.
//!
//! The schema takes the place of ours for that kind and version: it is what the user's cluster has. The validation
//! rules (`x-kubernetes-validations`) are evaluated on objects that the schema accepts, as the API server does.

mod defaults;
mod validations;

use jsonschema::Validator;
use serde_json::Value;

use crate::kind::definitions::{CustomResourceDefinitions, ServedVersion};
use crate::object::Object;
use crate::steps;

use super::instance::TreeJson;
use super::structural::of_crd;
use validations::Validations;
pub(crate) use validations::failed_validations;

/// What a schema is compiled to.
#[derive(Debug)]
struct CompiledSchema {
    /// `None` if the schema is not valid.
    validator: Option<Validator<TreeJson>>,
    /// `None` if no part of the schema has a rule that is evaluated.
    validations: Option<Validations>,
}

impl CompiledSchema {
    fn of(served: &ServedVersion) -> Option<&CompiledSchema> {
        let compile = |schema: &Value| CompiledSchema {
            // A version without a schema accepts everything.
            validator: schema
                .is_object()
                .then(|| super::keywords::validator(&of_crd(schema, false)))
                .flatten(),
            validations: Validations::new(schema),
        };
        served.compiled(|schema| steps::unlimited(|| compile(schema)))
    }
}

/// The validator of an object's kind and version. `None` if no definition was brought for it.
pub(super) fn validator<'d>(
    object: &Object,
    definitions: &'d CustomResourceDefinitions,
) -> Option<Option<&'d Validator<TreeJson>>> {
    let served = definitions.find(object.id())?;
    Some(CompiledSchema::of(served)?.validator.as_ref())
}

/// The structural schema of an object's kind and version, which names the fields.
pub(super) fn structural<'d>(
    object: &Object,
    definitions: &'d CustomResourceDefinitions,
) -> Option<&'d Value> {
    Some(&definitions.find(object.id())?.schema)
}
