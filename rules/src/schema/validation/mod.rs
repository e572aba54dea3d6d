//! Validation beyond the schema: what the API server checks in code for its own kinds.

use crate::object::Object;

use super::violation::Violation;

/// Adds what is wrong with an object of a core kind. Placeholders are unknown, and in a partial
/// object what is absent is not missing (those violations are dropped by the caller as well).
pub(crate) fn validate(_object: &Object, _out: &mut Vec<Violation>) {}
