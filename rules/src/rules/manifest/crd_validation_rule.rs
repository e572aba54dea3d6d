//! An object fails a validation rule of its CustomResourceDefinition.
//!
//! # Why
//! A CustomResourceDefinition can hold rules that one field of an object sets for another, written
//! in CEL under `x-kubernetes-validations`. The API server evaluates them when an object is
//! applied, and rejects an object that fails one. With `--crds`, gpulint evaluates the rules of
//! your own definitions before that, for every kind that they define.
//!
//! Rules that compare with the stored object (`oldSelf`) are not evaluated, nor those that use what
//! gpulint does not evaluate exactly as the API server does.
//!
//! # Fix
//! Change the field so that the rule holds. The message is that of the definition.
//!
//! # Example
//! The manifests are checked with `--crds` and this definition:
//!
//! ```yaml,crd
//! apiVersion: apiextensions.k8s.io/v1
//! kind: CustomResourceDefinition
//! metadata: {name: inferencepools.example.com}
//! spec:
//!   group: example.com
//!   names: {kind: InferencePool, plural: inferencepools}
//!   scope: Namespaced
//!   versions:
//!     - name: v1
//!       served: true
//!       storage: true
//!       schema:
//!         openAPIV3Schema:
//!           type: object
//!           properties:
//!             spec:
//!               type: object
//!               properties: {minReplicas: {type: integer}, maxReplicas: {type: integer}}
//!               x-kubernetes-validations:
//!                 - rule: self.minReplicas <= self.maxReplicas
//!                   message: minReplicas must not be above maxReplicas
//!                   fieldPath: .minReplicas
//! ```
//!
//! ```yaml,diff
//!  apiVersion: example.com/v1
//!  kind: InferencePool
//!  metadata: {name: llama}
//!  spec:
//! -  minReplicas: 8 # <-
//! +  minReplicas: 2
//!    maxReplicas: 4
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules>

use crate::kind::SCHEMA_KINDS;
use crate::rules::prelude::*;
use crate::schema;

/// Maximum number of findings per object.
const MAX_FINDINGS: usize = 20;

pub(crate) static RULE: Rule = Rule {
    id: "crd-validation-rule",
    kinds: SCHEMA_KINDS,
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("crd_validation_rule.rs")),
    check: Check::CatchAll(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let name = ctx.definitions().name_of(object.id())?;
    let failed = schema::failed_validations(object, ctx.definitions(), MAX_FINDINGS);
    if failed.is_empty() {
        return None;
    }
    let reported: Vec<Pointer> = ctx.earlier_rejections(None).cloned().collect();
    for validation in failed {
        // A finding of a more specific rule has priority.
        if reported.iter().any(|at| at.is_related_to(&validation.pointer)) {
            continue;
        }
        let node = object.root().at(&validation.pointer);
        let help = format!("`{name}` has the rule `{}`", validation.rule);
        ctx.report(&node, validation.message).help(help);
    }
    None
}
