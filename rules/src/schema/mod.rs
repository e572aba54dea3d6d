//! Validation as in the API server, kind by kind: the schema of a kind, applied to an object's tree, and the
//! validation beyond schemas.
//!
//! ```text
//! schemas/<group>/<version>/<Kind>.yaml ─┐ structural schemas, as in a CRD
//! schemas/core/*.json  (generated) ──────┤ core types, one per line, with the fields of all versions
//! schemas/core/*.tsv   (generated) ──────┤ field_history: the versions and feature gates of fields
//! schemas/core/strict.yaml ──────────────┤ checks in Go code: enums, bounds
//! schemas/operators.json (generated) ────┤ kinds of operators, with what any of their releases accepts
//!                                        ▼
//!                          structural ─► compiled: acceptor, and jsonschema::Validator (keywords) for what it does not accept
//!                                        ▼
//! object's tree ─► instance ─► check(object) ─► [Violation]  ─► rules manifest-incomplete,
//!                  validation/ (core kinds) ─────┤                unknown-field, invalid-value
//!                  pods (templates of operators) ┘
//! ```
//!
//! A CustomResourceDefinition that the user provides replaces the schema of its kind (crd/).
//!
//! A violation is a field and a reason; rules word it as a finding. The kind table (`crate::kind`) names the
//! schema of each kind; a kind without one has no violations. A placeholder is an unknown value and not a
//! violation, and a patch has no missing fields.

mod acceptor;
mod check;
mod compiled;
mod core;
mod crd;
mod errors;
mod field_history;
mod instance;
mod keywords;
mod metadata;
mod operators;
pub(crate) mod outline;
mod pods;
mod structural;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod validation;
mod violation;

pub(crate) use check::{
    accepted_by_definition, contesting_file, fields_at, fields_of, fields_with_history, has_schema,
    is_defined, is_envelope, other_shape_at, outdated_schemas, violations,
};
pub(crate) use crd::failed_validations;
pub(crate) use field_history::{FeatureGate, FieldHistory, feature_gate};
pub(crate) use keywords::{CRD_DATE_TIME, GO_QUANTITY};
pub(crate) use operators::{Operator, may_differ, operator_of};
pub(crate) use violation::{InvalidKind, LengthUnit, Subject, Violation, ViolationKind};
