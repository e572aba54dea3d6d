//! A key is written twice in one mapping.
//!
//! # Why
//! A lenient reader keeps the later value and drops the earlier one silently; the API
//! server rejects the object where the client asks for strict validation, as kubectl does. The
//! limit that somebody wrote first is then simply gone. Keys are compared after they were read:
//! `true` and `"true"` are one key. Where both have the same value nothing is lost: this is a warning.
//!
//! # Fix
//! Remove one of the two, or merge them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: pool-notes}
//!  data:
//! -  team: vision
//!    team: speech # <-
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "yaml-duplicate-key",
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("yaml_duplicate_key.rs")),
    ..Rule::error(Group::Manifest)
};
