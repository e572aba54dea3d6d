//! A range on a custom label contains no number.
//!
//! # Why
//! Karpenter draws the value of a label that is not its own from the range of `Gt`, `Lt`, `Gte` and `Lte`.
//! Where no number from 0 up is in the range it panics, and no pod of the cluster gets a node until the
//! object is deleted. For the labels of instance types nothing is drawn.
//!
//! # Fix
//! Write a range that has a number in it, or list the values with `In`.
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
//! -        - {key: example.com/slots, operator: Lt, values: ["0"]} # <-
//! +        - {key: example.com/slots, operator: In, values: ["4"]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>

use crate::karpenter::empty_range::empty_ranges;
use crate::karpenter::requirement::normalise;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-range-empty",
    kinds: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    docs: docs(include_str!("requirement_range_empty.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(pool) = NodePool::new(object) {
        if !pool.is_other_provider() && !pool.labels().is_unknown() {
            report(&pool.requirements(), &pool.labels(), "when a pod picks the pool", ctx);
        }
        return None;
    }
    // Karpenter starts no node for a DaemonSet.
    for template in templates(object).into_iter().filter(|_| !object.is(Kind::DAEMON_SET)) {
        let terms = template.required_terms();
        let selector = template.spec.get("nodeSelector");
        for term in terms.items() {
            report(&term.get("matchExpressions"), &selector, "if a NodePool has that label", ctx);
        }
    }
    None
}

/// Reports the empty ranges of a list. If a label sets the value, Karpenter does not choose one.
fn report(list: &Node<'_>, labels: &Node<'_>, condition: &str, ctx: &mut Context<'_>) {
    let lines: Vec<Node<'_>> = list.items().collect();
    let given: Vec<&str> = labels.entries().into_iter().map(|(key, _)| normalise(key)).collect();
    for (node, key) in empty_ranges(&lines, &given) {
        ctx.report(&node, format!("no number is left for `{key}`: Karpenter panics {condition}"))
            .help("write a range that has a number from 0 up, or list the values with `In`");
    }
}
