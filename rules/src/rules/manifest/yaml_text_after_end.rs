//! Text after the end of a document is ignored.
//!
//! # Why
//! Three dots end a document. Kubernetes' readers take the first document of what stands between
//! two `---` lines and drop the rest silently, so an object behind `...` is never applied.
//!
//! # Fix
//! Begin the next document with `---`, or remove the text.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: first}
//! -...
//! +---
//!  apiVersion: v1 # <-
//!  kind: ConfigMap
//! -metadata: {name: dropped}
//! +metadata: {name: second}
//! ```
//!
//! # References
//! - <https://yaml.org/spec/1.2.2/#document-markers>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "yaml-text-after-end",
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("yaml_text_after_end.rs")),
    ..Rule::warning(Group::Manifest)
};
