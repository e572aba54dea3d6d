//! A suppression has ended.
//!
//! # Why
//! Somebody allowed this until a day that has passed: the repair was promised for then. From the
//! day after its `until` a suppression covers nothing, so what it hid is reported again beside
//! this. The day itself still counts, in UTC.
//!
//! # Fix
//! Repair what it covers and remove the suppression. If there is a reason to wait longer, write
//! a later day and say why.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: ConfigMap
//! metadata:
//!   name: limits
//! data:
//!   # gpulint: allow[yaml-duplicate-key] until=2020-01-31 two teams set this # <-
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
    id: "suppression-expired",
    group: Group::Suppression,
    severity: Severity::Warning,
    since: "0.1.0",
    kinds: &[],
    reads: &[],
    params: &[],
    rejected_by: &[],
    fix: None,
    docs: docs(include_str!("suppression_expired.rs")),
    check: Check::Builtin,
};
