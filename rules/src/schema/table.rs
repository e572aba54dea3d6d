//! The schemas of the kind table, compiled on first use.

use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use crate::kind::{KINDS, Kind, SchemaSource};
use crate::object::ObjectId;

use super::compiled::CompiledSchema;
use super::core::read_yaml;
use super::operators;
use super::structural::{of_core, of_crd};

pub(super) struct SchemaEntry {
    pub(super) kind: Kind,
    pub(super) version: &'static str,
    pub(super) source: SchemaSource,
    pub(super) schema: CompiledSchema,
    structural: OnceLock<Value>,
}

/// The schemas: one entry per kind and version that has a definition.
pub(super) static SCHEMAS: LazyLock<Vec<SchemaEntry>> = LazyLock::new(|| {
    let entries = KINDS.iter().flat_map(|info| {
        info.schemas.unwrap_or_default().iter().map(|schema| SchemaEntry {
            kind: info.kind,
            version: schema.version,
            source: schema.source,
            schema: CompiledSchema::new(|| json_schema(info.kind, schema.version, schema.source)),
            structural: OnceLock::new(),
        })
    });
    entries.collect()
});

/// The entry for the kind and version of an object.
pub(super) fn find(id: &ObjectId) -> Option<&'static SchemaEntry> {
    SCHEMAS.iter().find(|e| e.version == id.version && id.is(e.kind))
}

fn json_schema(kind: Kind, version: &str, source: SchemaSource) -> Value {
    match source {
        // KEDA's admission webhook decodes objects of its kinds into Go structs, so integer formats are
        // bounds.
        SchemaSource::Crd(text) => of_crd(&read_yaml(text), kind.group == "keda.sh"),
        SchemaSource::Core(name) => of_core(name).unwrap_or(Value::Bool(true)),
        SchemaSource::Operator => of_crd(&operators::schema(kind, version), false),
    }
}

impl SchemaEntry {
    /// The structural schema, which names the fields.
    pub(super) fn structural(&self) -> &Value {
        self.structural.get_or_init(|| match self.source {
            SchemaSource::Crd(text) => read_yaml(text),
            SchemaSource::Core(name) => super::core::definition(name).cloned().unwrap_or_default(),
            SchemaSource::Operator => operators::schema(self.kind, self.version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SCHEMAS;

    #[test]
    fn every_schema_builds() {
        for entry in SCHEMAS.iter() {
            assert!(entry.schema.validator().is_some(), "{} {}", entry.kind, entry.version);
        }
    }
}
