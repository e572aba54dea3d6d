//! A key is written twice in one mapping.
//!
//! # Why
//!
//! A lenient reader keeps the later value and drops the earlier one without a word; the API
//! server refuses the object where the client asks for strict validation, as kubectl does. The
//! limit that somebody wrote first is then simply gone. Keys are compared after they were read:
//! `true` and `"true"` are one key.
//!
//! # Fix
//!
//! Remove one of the two, or merge them.
//!
//! # Bad
//!
//! ```yaml,bad
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: pool-notes
//! data:
//!   team: vision
//!   team: speech # <-
//! ```
//!
//! # Good
//!
//! ```yaml,good
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: pool-notes
//! data:
//!   team: speech
//! ```
//!
//! # References
//!
//! - <https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation>

use crate::lint::finding::Severity;
use crate::lint::rule::{Authority, Check, Group, Rule, docs};

pub(crate) static RULE: Rule = Rule {
    id: "yaml-duplicate-key",
    group: Group::Manifest,
    severity: Severity::Error,
    since: "0.1.0",
    kinds: &[],
    reads: &[],
    params: &[],
    rejected_by: &[Authority::ApiServer],
    fix: None,
    docs: docs(include_str!("yaml_duplicate_key.rs")),
    check: Check::Builtin,
};
