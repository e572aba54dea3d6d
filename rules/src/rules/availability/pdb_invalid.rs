//! The API server rejects the numbers or the selector of a PodDisruptionBudget.
//!
//! # Why
//! The API server rejects a budget with both `minAvailable` and `maxUnavailable`, a negative number,
//! more than 100 %, a number in quotes, or a selector with an unknown operator or an invalid label. The
//! pods then have no budget at all, and a drain or a consolidation may evict all of them at once.
//!
//! # Fix
//! Write one of the two fields: a number without quotes, or a whole percentage with them. Write `In`, `NotIn`,
//! `Exists` or `DoesNotExist` as the operator of an expression.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: embedder}
//!  spec:
//! -  maxUnavailable: "1" # <-
//! +  maxUnavailable: 1
//!    selector: {matchLabels: {app: embedder}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>

use crate::rules::manifest::field_errors;
use crate::rules::prelude::*;
use crate::schema::validation::{Checker, pdb};

pub(crate) static RULE: Rule = Rule {
    id: "pdb-invalid",
    kinds: &[Kind::PDB],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("pdb_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut checker = Checker::new(object);
    pdb::budget(object, &mut checker);
    field_errors::report(object, checker.into_errors(), ctx);
    None
}
