//! An annotation protects nothing because Karpenter no longer reads it.
//!
//! # Why
//!
//! `karpenter.sh/do-not-evict` and `karpenter.sh/do-not-consolidate` were read up to v0.32. Today
//! they are text: a training pod that carries one is consolidated away like any other.
//!
//! # Fix
//!
//! Write `karpenter.sh/do-not-disrupt`. On nodes it is broader than the old
//! `do-not-consolidate`: it holds off drift as well.
//!
//! # Bad
//!
//! ```yaml,bad
//! apiVersion: batch/v1
//! kind: Job
//! metadata:
//!   name: pretrain
//! spec:
//!   template:
//!     metadata:
//!       annotations:
//!         karpenter.sh/do-not-evict: "true" # <-
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!         - name: main
//!           image: example.com/pretrain:1.4.0
//! ```
//!
//! # Good
//!
//! ```yaml,fixed
//! apiVersion: batch/v1
//! kind: Job
//! metadata:
//!   name: pretrain
//! spec:
//!   template:
//!     metadata:
//!       annotations:
//!         karpenter.sh/do-not-disrupt: "true"
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!         - name: main
//!           image: example.com/pretrain:1.4.0
//! ```
//!
//! # References
//!
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://karpenter.sh/v0.32/upgrading/v1beta1-migration/>

use crate::finding::Severity;
use crate::fix::{Fix, Safety};
use crate::model::workload::{WORKLOAD_KINDS, templates};
use crate::node::Node;
use crate::object::{Kind, Object};
use crate::rule::{Check, Context, Group, Rule, docs};

const NEW: &str = "karpenter.sh/do-not-disrupt";
const OLD: [&str; 2] = [
    "karpenter.sh/do-not-evict",
    "karpenter.sh/do-not-consolidate",
];

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-annotation",
    group: Group::Migration,
    severity: Severity::Error,
    since: "0.1.0",
    kinds: KINDS,
    reads: &[],
    params: &[],
    refused_by: &[],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("karpenter_legacy_annotation.rs")),
    check: Check::Object(check),
};

const KINDS: &[Kind] = &{
    let mut kinds = [Kind::NODE_POOL; WORKLOAD_KINDS.len() + 2];
    let mut i = 0;
    while i < WORKLOAD_KINDS.len() {
        kinds[i + 1] = WORKLOAD_KINDS[i];
        i += 1;
    }
    kinds[WORKLOAD_KINDS.len() + 1] = Kind::NODE;
    kinds
};

fn check(object: &Object, ctx: &mut Context<'_>) {
    let own = object.path(&["metadata", "annotations"]);
    let mut places: Vec<Node<'_>> = Vec::new();
    if object.is(Kind::NODE_POOL) {
        places.push(object.path(&["spec", "template", "metadata", "annotations"]));
    }
    if object.is(Kind::NODE) {
        places.push(own.clone());
    }
    for template in templates(object) {
        places.push(template.metadata.get("annotations"));
    }
    // On the workload itself the old name was as much without effect as the new one is: moving
    // it is do-not-disrupt-misplaced's business once it has the new name.
    if !object.is(Kind::NODE) && !object.is(Kind::POD) {
        places.push(own);
    }
    for annotations in places {
        for old in OLD {
            let node = annotations.get(old);
            if node.exists() {
                report(&node, &annotations.get(NEW), old, ctx);
            }
        }
    }
}

fn report(node: &Node<'_>, new: &Node<'_>, old: &str, ctx: &mut Context<'_>) {
    let finding = ctx.report(
        node,
        format!("`{old}` is not read since Karpenter 0.33, so nothing is protected"),
    );
    finding.at_key().help(format!("write `{NEW}` instead"));
    if new.exists() {
        finding
            .severity(Severity::Info)
            .fix(Fix::new(format!("remove `{old}`"), Safety::Safe).remove(node));
    } else {
        finding.fix(Fix::new(format!("rename it to `{NEW}`"), Safety::Safe).relocate(node, new));
    }
}
