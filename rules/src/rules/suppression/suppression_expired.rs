//! A suppression has expired.
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
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: limits}
//!  data:
//! -  # gpulint: allow[yaml-duplicate-key] until=2020-01-31 two teams set this # <-
//!    gpus: "8"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "suppression-expired",
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("suppression_expired.rs")),
    ..Rule::warning(Group::Suppression)
};
