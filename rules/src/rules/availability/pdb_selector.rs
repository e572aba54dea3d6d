//! A PodDisruptionBudget selects nothing or everything, or is refused for its shape.
//!
//! # Why
//! `policy/v1` reads an empty selector as every pod of the namespace: one budget then covers
//! serving, training and helpers alike, and two budgets over one pod make its eviction fail for
//! ever. Without a selector the budget covers nothing. The API server refuses a budget with both
//! `minAvailable` and `maxUnavailable`, a negative number, more than 100 %, a number in quotes and
//! a selector that cannot be read, so that the pods stay without any protection.
//!
//! # Fix
//! Select the labels of one workload's pods, and write one of the two fields: a number without
//! quotes or a whole percentage with them.
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

use crate::rules::prelude::*;
use crate::schema::validation::{Checker, may_hold_more_fields, quote, selector};
use crate::workload::template::{WORKLOAD_KINDS, workload_kind};

pub(crate) static RULE: Rule = Rule {
    id: "pdb-selector",
    kinds: &[Kind::PDB],
    reads: WORKLOAD_KINDS,
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("pdb_selector.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if !spec.is_mapping() {
        return None;
    }
    let least = spec.get("minAvailable");
    let most = spec.get("maxUnavailable");
    if least.is_set() && most.is_set() {
        ctx.report(&least, "`minAvailable` and `maxUnavailable` exclude each other")
            .help("keep one: `maxUnavailable` also holds when the number of replicas changes")
            .related(object, &most, "the other one")
            .fix(Fix::new("keep `maxUnavailable`", Safety::Unsafe).remove(&least));
    }
    amount(&least, ctx);
    amount(&most, ctx);
    let mut report = Checker::new(object);
    let node = spec.get("selector");
    selector::selector(&node, &mut report);
    let refusals = report.into_errors();
    let readable = refusals.is_empty();
    for refusal in refusals {
        refusal.report(ctx);
    }
    if readable {
        reach(object, &spec, &node, ctx);
    }
    None
}

/// A whole number of 0 or more, or a whole percentage of 100 at most, in quotes.
fn amount(node: &Node<'_>, ctx: &mut Context<'_>) {
    let name = node.pointer().steps().last().cloned().unwrap_or_default();
    if let Some(count) = node.int() {
        if count < 0 {
            ctx.report(node, format!("`{name}` {count} is below 0")).help("write 0 or more, or a percentage");
        }
        return;
    }
    let Some(text) = node.text() else {
        return;
    };
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if let Some(percent) = text.strip_suffix('%')
        && digits(percent)
    {
        if percent.parse::<u32>().is_ok_and(|p| p <= 100) {
            return;
        }
        ctx.report(node, format!("`{name}` {} is above 100 %", quote(text))).help("write 100% at most");
        return;
    }
    if digits(text)
        && let Ok(count) = text.parse::<i32>()
    {
        ctx.report(node, format!("`{name}` is a number in quotes, which is refused"))
            .help(format!("write {count} without quotes"))
            .fix(Fix::new("remove the quotes", Safety::Safe).set(node, json!(count)));
        return;
    }
    ctx.report(node, format!("`{name}` {} is neither a number nor a percentage", quote(text)))
        .help("write a whole number without quotes, or a whole percentage such as `50%`");
}

/// What the selector selects, of what is known.
fn reach(object: &Object, spec: &Node<'_>, node: &Node<'_>, ctx: &mut Context<'_>) {
    // In v1beta1 an empty selector selected nothing; that is another rule's matter.
    if object.is_partial()
        || object.id().version != "v1"
        || may_hold_more_fields(spec)
        || may_hold_more_fields(node)
    {
        return;
    }
    if !node.is_set() {
        ctx.report(node, "without `selector` the PDB protects no pod")
            .help("select the labels of the pods to protect")
            .severity(Severity::Warning);
        return;
    }
    if !node.is_mapping() {
        return;
    }
    let (workloads, unknown) = ctx.index().views().selected_by(object);
    let says = |field: &str| {
        let part = node.get(field);
        part.is_unknown() || !part.entries().is_empty() || part.items().next().is_some()
    };
    if !says("matchLabels") && !says("matchExpressions") {
        let several = workloads.len() > 1;
        let message = if several {
            format!("an empty `selector` selects every pod, here of {} workloads", workloads.len())
        } else {
            "an empty `selector` selects every pod of the namespace".to_owned()
        };
        let finding = ctx.report(node, message);
        finding.help("select the labels of one workload's pods").rejected_by(None);
        if !several {
            finding.severity(Severity::Warning);
        }
        return;
    }
    if !workloads.is_empty() || unknown || !ctx.index().is_complete() {
        return;
    }
    // Operators make pods of objects that nobody here can expand.
    let namespace = object.id().namespace_or_default();
    let hidden = ctx.index().objects().iter().any(|other| {
        let id = other.id();
        id.namespace_or_default() == namespace
            && (other.is_partial() || (id.group.contains('.') && workload_kind(other).is_none()))
            && !is_plain(&id.group)
    });
    ctx.report(node, "`selector` matches the pods of no workload")
        .help("compare it with the labels of the pod templates")
        .severity(if hidden { Severity::Info } else { Severity::Warning });
}

/// Groups whose objects make no pods of their own.
fn is_plain(group: &str) -> bool {
    group.ends_with(".k8s.io") || matches!(group, "keda.sh" | "karpenter.sh" | "karpenter.k8s.aws")
}
