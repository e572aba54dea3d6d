//! Reading and schema: YAML, kinds, fields and values, by API version.

pub(crate) mod api_version_not_served;
pub(crate) mod api_version_unknown;
pub(crate) mod cel_syntax_error;
pub(crate) mod cluster_scoped_namespace;
pub(crate) mod crd_validation_rule;
pub(crate) mod duplicate_object;
mod duplicate_relation;
pub(crate) mod environment_not_expanded;
pub(super) mod field_errors;
pub(crate) mod field_gate_off;
pub(crate) mod field_needs_newer_version;
pub(crate) mod invalid_value;
pub(crate) mod manifest_incomplete;
pub(super) mod message_parts;
mod misplaced;
pub(crate) mod placeholder_unexpanded;
pub(crate) mod render_failed;
pub(crate) mod secret_in_plain_text;
mod since;
mod stand_in;
pub(crate) mod step_limit_exceeded;
pub(crate) mod unknown_field;
mod violation_message;
pub(crate) mod yaml_duplicate_key;
pub(crate) mod yaml_limit_exceeded;
pub(crate) mod yaml_syntax;
pub(crate) mod yaml_text_after_end;
