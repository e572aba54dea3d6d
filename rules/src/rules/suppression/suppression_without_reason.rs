//! A suppression has no reason.
//!
//! # Why
//! Whoever meets it in a year cannot tell an agreed exception from a finding that somebody wanted
//! out of the way. Without a reason nobody dares to remove it, and it outlives what it was for. In an annotation
//! it is a warning: the admission webhook shows it to whoever writes it.
//!
//! # Fix
//! Write a few words behind it: who agreed, until what happens, the ticket.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: limits}
//!  data:
//!    cpu: "4"
//! -  # gpulint: allow[yaml-duplicate-key] # <-
//! +  # gpulint: allow[yaml-duplicate-key] the generator writes both, ticket 4711
//!    cpu: "8"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "suppression-without-reason",
    docs: docs(include_str!("suppression_without_reason.rs")),
    ..Rule::info(Group::Suppression)
};
