//! A suppression does not say why.
//!
//! # Why
//! Whoever meets it in a year cannot tell an agreed exception from a finding that somebody wanted
//! out of the way. Without a reason nobody dares to remove it, and it outlives what it was for.
//!
//! # Fix
//! Write a few words behind it: who agreed, until what happens, the ticket.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: limits
//! data:
//!   cpu: "4"
//!   # gpulint: allow[yaml-duplicate-key] # <-
//!   cpu: "8"
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: limits
//! data:
//!   cpu: "4"
//!   # gpulint: allow[yaml-duplicate-key] the generator writes both, ticket 4711
//!   cpu: "8"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>

use crate::lint::finding::Severity;
use crate::lint::rule::{Check, Group, Rule, docs};

pub(crate) static RULE: Rule = Rule {
    id: "suppression-without-reason",
    group: Group::Suppression,
    severity: Severity::Info,
    since: "0.1.0",
    kinds: &[],
    reads: &[],
    params: &[],
    rejected_by: &[],
    fix: None,
    docs: docs(include_str!("suppression_without_reason.rs")),
    check: Check::Builtin,
};
