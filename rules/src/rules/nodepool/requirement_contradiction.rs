//! Requirements or labels of one key exclude each other.
//!
//! # Why
//! All requirements and template labels of a pool hold together. If two on the same key exclude
//! each other, no node can have a fitting label. Nobody rejects that. Karpenter reads it as "the
//! label is not there": for a label that every instance type has the pool stays Ready and never
//! starts a node; for one of your own, nodes come up without it, or drift at once and are
//! replaced forever.
//!
//! # Fix
//! Keep the line that is meant. Old and new spellings, such as `beta.kubernetes.io/arch` and
//! `kubernetes.io/arch`, are one key.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//! -    metadata:
//! -      labels:
//! -        kubernetes.io/arch: arm64 # <-
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//! -        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//! +        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//! +        - {key: kubernetes.io/arch, operator: In, values: [arm64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>

use std::collections::BTreeMap;

use crate::karpenter::requirement::{Requirement, normalise};
use crate::karpenter::requirement_list::is_comparison;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-contradiction",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    docs: docs(include_str!("requirement_contradiction.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

/// A requirement on a key: its node and its content.
type Line<'a> = (Node<'a>, Requirement);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::NODE_OVERLAY) {
        return None;
    }
    let list = ctx.requirements()?;
    let labels = NodePool::new(object).map(|pool| pool.labels().entries()).unwrap_or_default();
    let of_list = list.items().filter_map(|item| item.key());
    let mut keys: Vec<&str> = of_list.chain(labels.iter().map(|(key, _)| *key)).map(normalise).collect();
    keys.sort_unstable();
    // Most objects have no key twice.
    if keys.windows(2).all(|pair| pair[0] != pair[1]) {
        return None;
    }
    let mut by_key: BTreeMap<&str, Vec<Line<'_>>> = BTreeMap::new();
    for item in list.items() {
        if let (Some(key), Some(requirement)) = (item.key(), known(item)) {
            let lines = by_key.entry(normalise(key)).or_default();
            lines.push((key_node(item), requirement));
        }
    }
    for (key, node) in labels {
        if let Some(value) = node.text().filter(|_| !is_placeholder(key)) {
            let lines = by_key.entry(normalise(key)).or_default();
            lines.push((node, Requirement::is(value)));
        }
    }
    for (key, lines) in by_key {
        inspect(object, key, &lines, ctx);
    }
    None
}

/// The content of a requirement that is well-formed and known.
fn known(item: &RequirementItem<'_>) -> Option<Requirement> {
    let operator = item.operator()?;
    let texts = item.texts()?;
    let well_formed = match operator {
        Operator::In => !texts.is_empty(),
        _ if is_comparison(operator) => {
            matches!(texts.as_slice(), [one] if one.parse::<i64>().is_ok_and(|n| n >= 0))
        }
        _ => true,
    };
    well_formed.then(|| Requirement::new(operator, &texts, None))
}

fn key_node<'a>(item: &RequirementItem<'a>) -> Node<'a> {
    let values = item.values();
    if values.is_set() { values } else { item.node.get("operator") }
}

/// Reports the first requirement that contradicts those before it.
fn inspect(object: &Object, key: &str, lines: &[Line<'_>], ctx: &mut Context<'_>) {
    let Some(((_, first), rest)) = lines.split_first() else { return };
    let mut all = first.clone();
    for (at, (node, requirement)) in rest.iter().enumerate() {
        if all.meets(requirement) {
            all = all.intersect(requirement);
            continue;
        }
        let before = &lines[..=at];
        // If one earlier requirement contradicts it, only that one; otherwise all of them together.
        let culprits: Vec<&Line<'_>> = match before.iter().find(|(_, r)| !r.meets(requirement)) {
            Some(one) => vec![one],
            None => before.iter().collect(),
        };
        let message = match culprits.as_slice() {
            [(_, one)] => format!(
                "`{}` {} and {} exclude each other",
                ellipsize(key),
                ellipsize(&one.to_string()),
                ellipsize(&requirement.to_string())
            ),
            several => {
                format!(
                    "the {} requirements on `{}` leave no value together",
                    several.len() + 1,
                    ellipsize(key)
                )
            }
        };
        let finding = ctx.report(node, message);
        finding.help("no node can meet them all: keep the one that is meant");
        for (other, _) in culprits {
            finding.related(object, other, "it has to go together with this");
        }
        return;
    }
}
