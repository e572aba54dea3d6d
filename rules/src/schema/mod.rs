//! What the API server refuses, kind by kind: the schema of an object's kind, asked on the object's
//! own tree, and the validation that lies beyond a schema.
//!
//! ```text
//! schemas/<group>/<version>/<Kind>.yaml ─┐ structural schemas, as a CRD has them
//! schemas/core/*.json  (generated) ──────┤ core types, one a line
//! schemas/core/strict.yaml ──────────────┤ what the server checks in code: enums, bounds
//!                                        ▼
//!                          structural ─► jsonschema::Validator, built when first asked
//!                                        ▼
//! object's tree ─► instance ─► check(object) ─► [Violation]  ─► rules manifest-incomplete,
//!                  validation/ (core kinds) ─────┘                unknown-field, invalid-value
//! ```
//!
//! A violation is a place and what is wrong there, no words: the rules speak. What the input does
//! not tell is no violation: a placeholder is unknown, and what a patch does not write is not
//! missing. Kinds without a schema here have no violations.

mod check;
mod core;
mod fast_accept;
mod instance;
mod keywords;
mod metadata;
mod structural;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod validation;
mod violation;

pub(crate) use check::{cluster_is_newer, fields_at, has_schema, is_envelope};
pub(crate) use keywords::{CRD_DATE_TIME, GO_QUANTITY};
pub(crate) use violation::{LengthUnit, Violation, ViolationKind};
