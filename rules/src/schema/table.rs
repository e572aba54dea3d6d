//! The schemas of the kind table, compiled on first use.

use std::sync::{LazyLock, OnceLock};

use jsonschema::Validator;
use serde_json::Value;

use crate::kind::{KINDS, Kind, SchemaSource};
use crate::object::ObjectId;

use super::core::read_yaml;
use super::fast_validator::FastValidator;
use super::instance::TreeJson;
use super::structural::{of_core, of_core_alone, of_crd, of_crd_alone};

/// The schema of a kind in one version, with what is compiled from it.
pub(super) struct SchemaEntry {
    pub(super) kind: Kind,
    pub(super) version: &'static str,
    pub(super) source: SchemaSource,
    fast_validator: OnceLock<Option<FastValidator>>,
    validator: OnceLock<Option<Validator<TreeJson>>>,
    structural: OnceLock<Value>,
}

/// One entry per kind and version that has a definition.
pub(super) static SCHEMAS: LazyLock<Vec<SchemaEntry>> = LazyLock::new(|| {
    let entries = KINDS.iter().flat_map(|info| {
        info.schemas.unwrap_or_default().iter().map(|schema| SchemaEntry {
            kind: info.kind,
            version: schema.version,
            source: schema.source,
            fast_validator: OnceLock::new(),
            validator: OnceLock::new(),
            structural: OnceLock::new(),
        })
    });
    entries.collect()
});

/// The schema of the kind and version of an object.
pub(super) fn find(id: &ObjectId) -> Option<&'static SchemaEntry> {
    SCHEMAS.iter().find(|e| e.version == id.version && id.is(e.kind))
}

impl SchemaEntry {
    /// The JSON Schema validator of what the other does not support, built on first use.
    pub(super) fn validator(&self) -> Option<&Validator<TreeJson>> {
        let build = || super::keywords::validator(&self.schema()?);
        self.validator.get_or_init(build).as_ref()
    }

    /// The validator of most objects, built on first use.
    pub(super) fn fast_validator(&self) -> Option<&FastValidator> {
        let build = || match self.source {
            SchemaSource::Crd(text) => {
                let decoded = self.is_decoded();
                Some(FastValidator::new(&of_crd_alone(&read_yaml(text), decoded), decoded))
            }
            SchemaSource::Core(name) => Some(FastValidator::new(&of_core_alone(name)?, true)),
        };
        self.fast_validator.get_or_init(build).as_ref()
    }

    /// Whether an admission webhook decodes the object into Go structs.
    fn is_decoded(&self) -> bool {
        self.kind.group == "keda.sh"
    }

    /// The JSON Schema. Not kept: the validator copies what it needs.
    fn schema(&self) -> Option<Value> {
        match self.source {
            SchemaSource::Crd(text) => Some(of_crd(&read_yaml(text), self.is_decoded())),
            SchemaSource::Core(name) => of_core(name),
        }
    }

    /// The structural schema, which names the fields.
    pub(super) fn structural(&self) -> &Value {
        self.structural.get_or_init(|| match self.source {
            SchemaSource::Crd(text) => read_yaml(text),
            SchemaSource::Core(name) => super::core::definition(name).cloned().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SCHEMAS;

    #[test]
    fn every_schema_builds() {
        for entry in SCHEMAS.iter() {
            assert!(entry.validator().is_some(), "{} {}", entry.kind, entry.version);
        }
    }
}
