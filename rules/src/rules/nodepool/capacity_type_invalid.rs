//! A pool names a capacity type that does not exist.
//!
//! # Why
//! `karpenter.sh/capacity-type` is `on-demand`, `spot` or `reserved`, compared letter by letter.
//! Karpenter rejects a requirement without any valid value, and the pool is never Ready. If one of
//! several values is wrong, it only writes a line to its log and goes on with the rest: `[Spot,
//! on-demand]` silently means on-demand alone. A template label is not checked at all, and a pod
//! that asks for a value that does not exist is ignored.
//!
//! # Fix
//! Write the value as Karpenter spells it.
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
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//! -        - key: karpenter.sh/capacity-type
//! -          operator: In
//! -          values: [ondemand] # <-
//! +        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#capacity-type>

use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;
use crate::workload::template::PREFERRED_AFFINITY;

pub(crate) static RULE: Rule = Rule {
    id: "capacity-type-invalid",
    kinds: KINDS_AND_WORKLOADS,
    rejected_by: &[Authority::Karpenter],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("capacity_type_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

const VALID: [&str; 3] = ["on-demand", "spot", "reserved"];

/// The component that rejects a list without any valid value: Karpenter, since 1.5 for its own kinds, and
/// always for pods, which it then ignores.
const KARPENTER: Option<Authority> = Some(Authority::Karpenter);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(list) = ctx.requirements() {
        if let Some(pool) = NodePool::new(object) {
            // The value of a label is not validated: the pool is Ready but matches nothing.
            let label = pool.labels().get(CAPACITY_TYPE);
            value(&label, Severity::Error, None, None, ctx);
        }
        let checked = list.location != KeyLocation::Claim
            && list.provider.karpenter_version(ctx.platform()) >= Version::new(1, 5);
        let by = KARPENTER.filter(|_| checked);
        for requirement in list.items().filter(|item| item.key() == Some(CAPACITY_TYPE)) {
            expression(&requirement.node, Severity::Error, by, ctx);
            few(requirement, by, ctx);
        }
        return None;
    }
    for template in templates(object) {
        let selected = template.spec.get("nodeSelector").get(CAPACITY_TYPE);
        value(&selected, Severity::Error, KARPENTER, None, ctx);
        for term in template.required_terms().items() {
            for e in term.get("matchExpressions").items() {
                expression(&e, Severity::Error, KARPENTER, ctx);
            }
        }
        for preferred in template.spec.path(&["affinity", "nodeAffinity", PREFERRED_AFFINITY]).items() {
            for e in preferred.path(&["preference", "matchExpressions"]).items() {
                expression(&e, Severity::Warning, None, ctx);
            }
        }
    }
    None
}

/// Whether a value exists. An unknown value may.
fn is_valid(node: &Node<'_>) -> bool {
    node.is_unknown() || node.text().is_some_and(|t| VALID.contains(&t))
}

/// A requirement of a pool or an expression of a pod. `none` is the severity if no value is valid, and `by`
/// the component that rejects it.
fn expression(expression: &Node<'_>, none: Severity, by: Option<Authority>, ctx: &mut Context<'_>) {
    if expression.get("key").text() != Some(CAPACITY_TYPE) {
        return;
    }
    let values = expression.get("values");
    let severity = match expression.get("operator").text() {
        Some("In") if values.items().any(|v| is_valid(&v)) => none.min(Severity::Warning),
        Some("In") => none,
        // No node has that value, so nothing is excluded.
        Some("NotIn") => Severity::Info,
        _ => return,
    };
    for item in values.items() {
        value(&item, severity, by, Some(&values), ctx);
    }
}

/// `minValues` counts only valid values.
fn few(item: &RequirementItem<'_>, by: Option<Authority>, ctx: &mut Context<'_>) {
    let wanted = item.node.get("minValues");
    let (Some(Operator::In), Some(number)) = (item.operator(), wanted.int()) else { return };
    let values = item.values();
    let all = i64::try_from(values.items().count()).unwrap_or(i64::MAX);
    let valid = values.items().filter(is_valid).count();
    let valid = i64::try_from(valid).unwrap_or(i64::MAX);
    // A list that is too short in any case is reported by min-values-unsatisfiable.
    if valid == 0 || valid >= number || all < number {
        return;
    }
    ctx.report(&wanted, format!("`minValues` is {number}, but only {valid} of the values exist"))
        .rejected_by(by)
        .help("the capacity types are `on-demand`, `spot` and `reserved`");
}

fn value(
    node: &Node<'_>,
    severity: Severity,
    by: Option<Authority>,
    list: Option<&Node<'_>>,
    ctx: &mut Context<'_>,
) {
    let Some(text) = node.text().filter(|t| !VALID.contains(t)) else { return };
    let meant = meant(text);
    let finding = ctx.report(node, format!("`{}` is not a capacity type", ellipsize(text)));
    finding.rejected_by(by).severity(severity);
    match meant {
        Some(word) => {
            finding.help(format!("write `{word}`"));
            let twice = list.is_some_and(|l| l.items().any(|v| v.text() == Some(word)));
            finding.fix(if twice {
                Fix::new(format!("remove it: `{word}` is there already"), Safety::Safe).remove(node)
            } else {
                Fix::new(format!("write `{word}`"), Safety::Safe).set(node, json!(word))
            });
        }
        None => {
            finding.help("the capacity types are `on-demand`, `spot` and `reserved`");
        }
    }
}

/// The intended capacity type, if it is certain.
fn meant(text: &str) -> Option<&'static str> {
    let letters: String =
        text.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
    match letters.as_str() {
        "ondemand" => Some("on-demand"),
        "spot" => Some("spot"),
        "reserved" => Some("reserved"),
        _ => None,
    }
}
