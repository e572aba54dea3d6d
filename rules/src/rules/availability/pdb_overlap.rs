//! Two PodDisruptionBudgets select the same pods.
//!
//! # Why
//! The eviction API supports one budget a pod. Where two select it, each eviction fails with status
//! 500, however many replicas are healthy: `kubectl drain` retries without end, and Karpenter neither
//! consolidates the node nor replaces it. It is an error where both budgets are applied together, and a
//! warning for files of one folder. Several budgets of the same pods are one finding.
//!
//! # Fix
//! Keep one of them, or make their selectors exclusive with a label that one workload alone has.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: embedder}
//!  spec:
//!    maxUnavailable: 1
//!    selector: {matchLabels: {app: embedder}}
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: ml}
//!  spec:
//!    maxUnavailable: 1
//! -  selector: {matchLabels: {team: ml}} # <-
//! +  selector: {matchLabels: {team: ml, app: ranker}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: embedder}
//!  spec:
//!    replicas: 3
//!    selector: {matchLabels: {app: embedder}}
//!    template:
//!      metadata: {labels: {app: embedder, team: ml}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/embedder:1.0.0
//!            resources: {requests: {cpu: 1, memory: 2Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-budgets>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>

use std::sync::Arc;

use crate::rules::partners::{around_budget, budgets, overlapping};
use crate::rules::prelude::*;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-overlap",
    kinds: &[Kind::PDB],
    reads: kinds![[Kind::PDB], WORKLOAD_KINDS],
    pairs: &[
        Pair { with: &[Kind::PDB], partners: overlapping, beside: around_budget },
        Pair { with: WORKLOAD_KINDS, partners: budgets, beside: around_budget },
    ],
    docs: docs(include_str!("pdb_overlap.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.path(&["spec", "selector"]);
    if object.may_lack_fields() || !node.is_mapping() {
        return None;
    }
    let views = ctx.cluster().views();
    let namespace = object.namespace_or_default();
    let (workloads, _) = views.selected_by(object);
    let mut said: Vec<&str> = Vec::new();
    for workload in workloads {
        for template in templates(&workload.object) {
            if selector::matches(&node, &template.labels()) != Some(true) {
                continue;
            }
            let all = views.pdbs_of(namespace, &template).0;
            // Two of one name are one object, or alternatives.
            let is_other = |other: &Object| other.name() != object.name() && !other.is_patched_by_kustomize();
            let is_earlier = |other: &Object| other.sort_key() < object.sort_key();
            let rivals: Vec<(&Object, Severity)> = all
                .iter()
                .copied()
                .filter(|other| is_other(other) && is_earlier(other))
                .filter_map(|other| Some((other, severity(object, other, ctx)?)))
                .collect();
            // Of all budgets of the pods the one that sorts last is reported, with all others.
            let is_said_later = all.iter().any(|later| {
                let is_beside = |other: &Object| severity(later, other, ctx).is_some();
                is_other(later)
                    && !is_earlier(later)
                    && is_beside(object)
                    && rivals.iter().all(|(other, _)| other.name() != later.name() && is_beside(other))
            });
            let rivals: Vec<_> = rivals.into_iter().filter(|(one, _)| !said.contains(&one.name())).collect();
            let Some(((first, _), more)) = rivals.split_first().filter(|_| !is_said_later) else { continue };
            said.extend(rivals.iter().map(|(one, _)| one.name()));
            let severity = rivals.iter().map(|(_, severity)| *severity).max().unwrap_or(Severity::Error);
            let whose = workload.object.display_name();
            // A line that is rendered several times is not one of them.
            let this = match is_rendered_beside(object, first) {
                true => format!("`{}`", object.display_name()),
                false => "this one".to_owned(),
            };
            let count = if more.is_empty() { "two".to_owned() } else { (rivals.len() + 1).to_string() };
            let others = match more.len() {
                0 => format!("{this} and `{}`", first.name()),
                n => format!("{this}, `{}` and {n} more", first.name()),
            };
            let message = format!("the pods of `{whose}` have {count} PDBs, {others}: no eviction succeeds");
            let finding = ctx.report(&node, message);
            finding.help("keep one of them, or make their selectors exclusive").severity(severity);
            for (other, _) in &rivals {
                finding.identified_by(other.name()).related(
                    other,
                    &other.path(&["spec", "selector"]),
                    "the other PDB",
                );
            }
            finding.related(&workload.object, &workload.object.path(&["metadata", "name"]), "the pods");
        }
    }
    None
}

/// Whether two objects are rendered from one file, each by a run of its own.
fn is_rendered_beside(object: &Object, other: &Object) -> bool {
    let sources = object.origin().zip(other.origin()).map(|(a, b)| (&a.source, &b.source));
    sources.is_some_and(|(a, b)| a.path() == b.path() && !Arc::ptr_eq(a, b))
}

/// An error where both are applied together for certain; `None` where they may belong to two clusters.
fn severity(object: &Object, other: &Object, ctx: &Context<'_>) -> Option<Severity> {
    if ctx.cluster().surely_pairs(object, other) {
        return Some(Severity::Error);
    }
    let folder = |object: &Object| {
        let path = object.origin()?.source.path().to_owned();
        Some(path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned()))
    };
    (folder(object) == folder(other)).then_some(Severity::Warning)
}
