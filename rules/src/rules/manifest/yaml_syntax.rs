//! A document does not parse.
//!
//! # Why
//! A document that does not parse is not applied, and kubectl stops at it: what stands behind it
//! in the file is not applied either. gpulint reads on at the next `---`, so the other documents
//! are still checked. What parses but has no JSON form is rejected as well: `.inf`, `.nan`, a
//! mapping as a key, an alias without its anchor, bytes that are no UTF-8.
//!
//! # Fix
//! Repair the place that the finding names. The cause often stands one line above it: a missing
//! quote, a tab in the indentation, a colon followed by a blank inside plain text.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: pool-notes}
//!  data:
//! -  open: [a, b # <-
//! +  open: "[a, b"
//! ```
//!
//! # References
//! - <https://yaml.org/spec/1.2.2/>
//! - <https://pkg.go.dev/sigs.k8s.io/yaml>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "yaml-syntax",
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("yaml_syntax.rs")),
    ..Rule::error(Group::Manifest)
};
