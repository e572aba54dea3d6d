//! A key is written twice in one mapping.
//!
//! # Why
//! kubectl keeps the later value and drops the earlier one silently, because it sends the object as JSON:
//! the limit that somebody wrote first is simply gone, and the API server never sees it. It rejects such an
//! object only where a client sends the YAML itself, with strict validation. Keys are compared after they
//! were read: `true` and `"true"` are one key. Where both have the same value, however it is written, nothing is
//! lost: this is a warning.
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
    docs: docs(include_str!("yaml_duplicate_key.rs")),
    ..Rule::error(Group::Manifest)
};
