//! A document exceeds a limit on nesting, aliases or size.
//!
//! # Why
//! A few lines of aliases can stand for billions of nodes. Kubernetes' reader rejects such a
//! document, and so does gpulint: at 256 levels of nesting, a million nodes after aliases are
//! expanded, 256 MiB a file, or an anchor whose value holds its own alias.
//!
//! # Fix
//! Write the repeated part out, or split the document.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: pool-notes}
//! data: &data
//!   again: *data # <-
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: pool-notes}
//! data:
//!   again: once
//! ```
//!
//! # References
//! - <https://pkg.go.dev/sigs.k8s.io/yaml>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "yaml-limit-exceeded",
    docs: docs(include_str!("yaml_limit_exceeded.rs")),
    ..Rule::error(Group::Manifest)
};
