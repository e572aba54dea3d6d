//! An object is too costly to be checked in full.
//!
//! # Why
//! Rules are run for an object as long as they take no more than a bounded number of steps, so that nobody stalls
//! the admission server with an object of some kilobytes. Where a rule takes more, it is cut short: what it would
//! have found is not known. What other rules found holds. Objects that people write need some ten thousand of the
//! twenty million steps; an object that needs more has lists of many thousand entries.
//!
//! # Fix
//! Shorten the longest lists of the object, or split it: the finding names the first rule that did not finish.
//!
//! # Example
//! ```yaml
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata: {name: gpu} # <- an error, if the list below goes on for megabytes
//! spec:
//!   template:
//!     spec:
//!       requirements:
//!         - {key: example.com/rack-1, operator: NotIn, values: [a1, a2, a3]} # and so on
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#timeouts>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "step-limit-exceeded",
    docs: docs(include_str!("step_limit_exceeded.rs")),
    ..Rule::error(Group::Manifest)
};
