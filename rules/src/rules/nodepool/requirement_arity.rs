//! A requirement has too few or too many values for its operator.
//!
//! # Why
//! `In` needs at least one value, and `Gt`, `Lt`, `Gte` and `Lte` exactly one: the API server rejects
//! everything else. Values beside `Exists` or `DoesNotExist` are accepted and ignored, and `NotIn` without
//! values means `Exists`: both seem to say something else. A NodeOverlay with an empty `NotIn` is rejected.
//!
//! # Fix
//! Give the operator what it compares with, as text in quotes: `values: ["4"]`. Two bounds are two
//! requirements on the same key.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - key: karpenter.k8s.aws/instance-category
//! -          operator: Exists
//! +          operator: In
//!            values: [c, m, r] # <-
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>

use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::requirement_list::{KINDS, is_comparison};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-arity",
    kinds: &KINDS,
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("requirement_arity.rs")),
    check: Check::Requirements(check),
    ..Rule::error(Group::NodePool)
};

fn check(list: &RequirementList<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for item in list.items() {
        // In a patch, the values may be set elsewhere.
        if ctx.object().is_partial() && !item.values().is_set() {
            continue;
        }
        let Some(operator) = item.operator() else { continue };
        match operator {
            Operator::In if item.count() == Some(0) => nothing(item, ctx),
            Operator::NotIn if item.count() == Some(0) => everything(item, list.location, ctx),
            Operator::Exists | Operator::DoesNotExist => ignored(item, operator, ctx),
            _ if is_comparison(operator) => {
                count(item, operator, ctx);
            }
            _ => {}
        }
    }
    None
}

fn nothing(item: &RequirementItem<'_>, ctx: &mut Context<'_>) {
    ctx.report(&item.values(), "`In` without values matches nothing: the API server rejects it")
        .help("list the values, or write `operator: Exists` for any value");
}

fn everything(item: &RequirementItem<'_>, location: KeyLocation, ctx: &mut Context<'_>) {
    let (values, help) = (item.values(), "list the values to exclude, or write `operator: Exists`");
    if location == KeyLocation::Overlay {
        ctx.report(&values, "`NotIn` without values excludes nothing: the API server rejects it here")
            .help(help);
        return;
    }
    let fix = Fix::new("write `Exists`", Safety::Safe).set(&item.node.get("operator"), json!("Exists"));
    ctx.report(&values, "`NotIn` without values excludes nothing: Karpenter reads it as `Exists`")
        .severity(Severity::Warning)
        .help(help)
        .fix(if values.is_absent() { fix } else { fix.remove(&values) });
}

fn ignored(item: &RequirementItem<'_>, operator: Operator, ctx: &mut Context<'_>) {
    let values = item.values();
    if !values.is_sequence() || values.items().next().is_none() {
        return;
    }
    let help = match operator {
        Operator::Exists => "write `operator: In` to choose among them, or remove `values`",
        _ => "write `operator: NotIn` to exclude them, or remove `values`",
    };
    ctx.report(&values, format!("`{operator}` does not use `values`: they are ignored"))
        .severity(Severity::Warning)
        .help(help);
}

fn count(item: &RequirementItem<'_>, operator: Operator, ctx: &mut Context<'_>) -> Option<()> {
    let texts = item.texts().filter(|texts| texts.len() != 1)?;
    let (message, help) = if texts.is_empty() {
        (
            format!("`{operator}` has no value to compare with: the API server rejects it"),
            "write one number, in quotes: `values: [\"4\"]`",
        )
    } else {
        (
            format!("`{operator}` requires one value, not {}", texts.len()),
            "write one number; two bounds are two requirements on the same key",
        )
    };
    ctx.report(&item.values(), message).help(help);
    None
}
