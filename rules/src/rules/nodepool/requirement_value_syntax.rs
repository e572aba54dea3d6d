//! A requirement has a value that no label can have.
//!
//! # Why
//! The value of a label has at most 63 letters, digits, `-`, `_` and `.`, and starts and ends with a
//! letter or digit. The CRD does not check the values of requirements, so the API server takes the
//! object. Karpenter's controller checks them: the pool is never Ready, starts no node, and the
//! pod that waits does not say why. Blanks are the usual cause: `"g6, g6e"` is one value, not two.
//!
//! # Fix
//! Write one value an entry, as the label has it.
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
//! -        - key: karpenter.k8s.aws/instance-category
//! -          operator: In
//! -          values: ["c, m, r"] # <-
//! +        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>

use crate::facts::names::is_label_value;
use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::requirement_list::is_comparison;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-value-syntax",
    rejected_by: &[Authority::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("requirement_value_syntax.rs")),
    check: Check::Requirements(check),
    ..Rule::error(Group::NodePool)
};

fn check(list: &RequirementList<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for item in list.items() {
        let operator = item.operator();
        // A NodeClaim is not validated, and excluding an impossible label value has no effect.
        if list.location == KeyLocation::Claim && operator != Some(Operator::In) {
            continue;
        }
        for node in item.values().items() {
            let Some(text) = node.text().filter(|t| !is_label_value(t)) else { continue };
            // A value that is not a number is reported by another rule.
            if operator.is_some_and(is_comparison) && text.parse::<i64>().map_or(true, |n| n < 0) {
                continue;
            }
            report(item, &node, text, list.location, ctx);
        }
    }
    None
}

fn report(
    item: &RequirementItem<'_>,
    node: &Node<'_>,
    text: &str,
    location: KeyLocation,
    ctx: &mut Context<'_>,
) {
    let finding = ctx.report(node, format!("no label can have the value `{}`", ellipsize(text)));
    if location == KeyLocation::Claim {
        finding.rejected_by(None);
    }
    let several = split(text);
    let trimmed = text.trim();
    if several.len() > 1 {
        finding.help("write one value an entry");
        let mut all: Vec<Value> = Vec::new();
        for other in item.values().items() {
            if other.pointer() == node.pointer() {
                all.extend(several.iter().map(|v| json!(v)));
            } else {
                all.push(other.to_json());
            }
        }
        let fix = Fix::new("make it several values", Safety::Safe);
        finding.fix(fix.set(&item.values(), Value::Array(all)));
    } else if trimmed != text && is_label_value(trimmed) && !trimmed.is_empty() {
        finding.help(format!("write `{trimmed}`, without blanks"));
        let fix = Fix::new(format!("write `{trimmed}`"), Safety::Safe);
        finding.fix(fix.set(node, json!(trimmed)));
    } else if text.len() > 63 {
        finding.help("a label's value has at most 63 characters");
    } else {
        finding.help("write letters, digits, `-`, `_` and `.`, with a letter or digit at both ends");
    }
}

/// The comma-separated parts, if each of them is a valid value.
fn split(text: &str) -> Vec<&str> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.iter().all(|p| !p.is_empty() && is_label_value(p)) { parts } else { Vec::new() }
}
