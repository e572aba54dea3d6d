//! A requirement has too few or too many values for its operator.
//!
//! # Why
//! `In` needs at least one value; `Gt`, `Lt`, `Gte` and `Lte` need exactly one, a whole number that
//! is not negative. The API server refuses everything else. Values beside `Exists` or
//! `DoesNotExist` are taken and ignored, and `NotIn` without values means `Exists`: both are read
//! as something that they do not say. A NodeOverlay with an empty `NotIn` is refused.
//!
//! # Fix
//! Give the operator what it compares with, as text in quotes: `values: ["4"]`. Two bounds are two
//! requirements on the same key.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata: {name: general}
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!       requirements:
//!         - key: karpenter.k8s.aws/instance-category
//!           operator: Exists
//!           values: [c, m, r] # <-
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!   limits: {cpu: 500}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata: {name: general}
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!       requirements:
//!         - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!   limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://karpenter.sh/docs/concepts/scheduling/#selecting-nodes>

use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::requirement::Operator;
use crate::karpenter::requirement_list::{KINDS, RequirementItem, is_comparison};
use crate::lint::finding::ellipsize;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-arity",
    kinds: &KINDS,
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("requirement_arity.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = RequirementList::of(object)?;
    for item in list.items() {
        // A patch may give the rest elsewhere.
        if object.is_partial() && !item.values().is_set() {
            continue;
        }
        let Some(operator) = item.operator() else {
            continue;
        };
        match operator {
            Operator::In if item.count() == Some(0) => nothing(&item, ctx),
            Operator::NotIn if item.count() == Some(0) => everything(&item, list.location, ctx),
            Operator::Exists | Operator::DoesNotExist => ignored(&item, operator, ctx),
            _ if is_comparison(operator) => number(&item, operator, ctx),
            _ => {}
        }
    }
    None
}

fn nothing(item: &RequirementItem<'_>, ctx: &mut Context<'_>) {
    ctx.report(&item.values(), "`In` without values matches nothing, and the API server refuses it")
        .help("list the values, or write `operator: Exists` for any value");
}

fn everything(item: &RequirementItem<'_>, place: KeyLocation, ctx: &mut Context<'_>) {
    let finding = if place == KeyLocation::Overlay {
        ctx.report(
            &item.values(),
            "`NotIn` without values excludes nothing, and the API server refuses it here",
        )
    } else {
        let finding = ctx.report(
            &item.values(),
            "`NotIn` without values excludes nothing: Karpenter reads it as `Exists`",
        );
        finding.severity(Severity::Warning)
    };
    finding.help("list the values to exclude, or write `operator: Exists`");
    let mut fix = Fix::new("write `Exists`", Safety::Safe).set(&item.0.get("operator"), json!("Exists"));
    if !item.values().is_absent() {
        fix = fix.remove(&item.values());
    }
    if place != KeyLocation::Overlay {
        finding.fix(fix);
    }
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
    ctx.report(&values, format!("`{operator}` takes no values: these are ignored"))
        .severity(Severity::Warning)
        .help(help);
}

fn number(item: &RequirementItem<'_>, operator: Operator, ctx: &mut Context<'_>) {
    let values = item.values();
    let Some(texts) = item.texts() else {
        return;
    };
    let [text] = texts.as_slice() else {
        let (message, help) = if texts.is_empty() {
            (
                format!("`{operator}` has nothing to compare with, and the API server refuses it"),
                "write one number, in quotes: `values: [\"4\"]`",
            )
        } else {
            (
                format!("`{operator}` takes one value, and this has {}", texts.len()),
                "write one number; two bounds are two requirements on the same key",
            )
        };
        ctx.report(&values, message).help(help);
        return;
    };
    if text.parse::<i64>().is_ok_and(|n| n >= 0) {
        return;
    }
    let node = values.index(0);
    ctx.report(
        &node,
        format!("`{operator}` compares whole numbers from 0 up, and `{}` is none", ellipsize(text)),
    )
    .help("write a number such as \"4\"; memory is in MiB, without a unit");
}
