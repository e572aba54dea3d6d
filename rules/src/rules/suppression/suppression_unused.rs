//! A suppression matches no finding.
//!
//! # Why
//! A comment or annotation allows a finding that is not there: the manifest was repaired, the
//! comment slid to another line, or it never stood where it should. Left alone it will silence
//! the next mistake at that place, and readers take it for a statement about what is written
//! there. Rules that are off are not counted, and rules that would need the whole cluster to
//! speak only where they do speak about another line of the object: otherwise their silence
//! says nothing.
//!
//! # Fix
//! Remove the rule's id, or the whole suppression. Where it should cover something, put the
//! comment on the line of the finding or directly above it; its reason may go on in more lines.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: limits}
//!  data:
//! -  # gpulint: allow[yaml-duplicate-key] until=2027-01-31 two teams set this # <-
//!    gpus: "8"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "suppression-unused",
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("suppression_unused.rs")),
    ..Rule::warning(Group::Suppression)
};
