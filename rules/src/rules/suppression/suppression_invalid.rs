//! A suppression cannot be parsed.
//!
//! # Why
//! A comment that begins with `gpulint:`, or the annotation `gpulint.dev/allow`, names a rule
//! that does not exist, has a date that does not exist, or lacks a bracket. What cannot be
//! understood suppresses nothing, so the finding it was meant for still fails the run, or worse,
//! somebody believes that a rule is allowed which never looked. Rules about suppressions cannot
//! be suppressed, and the webhook's configuration may forbid that an annotation allows a rule.
//!
//! # Fix
//! In a file write `# gpulint: allow[rule-id, other-id] until=2027-01-31 reason`, on an object
//! the annotation `gpulint.dev/allow: "rule-id: reason; other-id until=2027-01-31: reason"`. The
//! date and the reason may be left out; `gpulint rules` lists the ids.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: limits}
//!  data:
//! -  gpus: "8" # gpulint: allow[yaml-double-keys] two teams set this # <-
//! +  gpus: "4"
//! +  gpus: "8" # gpulint: allow[yaml-duplicate-key] two teams set this
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "suppression-invalid",
    docs: docs(include_str!("suppression_invalid.rs")),
    ..Rule::error(Group::Suppression)
};
