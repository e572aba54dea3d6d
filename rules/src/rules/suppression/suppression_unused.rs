//! A suppression suppresses nothing.
//!
//! # Why
//! A comment or annotation allows a finding that is not there: the manifest was repaired, the
//! comment slid to another line, or it never stood where it should. Left alone it will silence
//! the next mistake at that place, and readers take it for a statement about what is written
//! there. Rules that are off, and rules that would need the whole cluster to speak, are not
//! counted: their silence says nothing.
//!
//! # Fix
//! Remove the rule's id, or the whole suppression. Where it should cover something, put the
//! comment on the line of the finding or on the line directly above it.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: limits
//! data:
//!   # gpulint: allow[yaml-duplicate-key] until=2027-01-31 two teams set this # <-
//!   gpus: "8"
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: limits
//! data:
//!   gpus: "8"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>

use crate::lint::finding::Severity;
use crate::lint::rule::{Check, Group, Rule, docs};

pub(crate) static RULE: Rule = Rule {
    id: "suppression-unused",
    group: Group::Suppression,
    severity: Severity::Warning,
    since: "0.1.0",
    kinds: &[],
    reads: &[],
    params: &[],
    rejected_by: &[],
    fix: None,
    docs: docs(include_str!("suppression_unused.rs")),
    check: Check::Builtin,
};
