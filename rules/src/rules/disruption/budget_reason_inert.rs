//! A budget is for a reason for which the pool disrupts no node.
//!
//! # Why
//! With `consolidationPolicy: WhenEmpty` Karpenter removes empty nodes only: a budget for the reason
//! `Underutilized` limits what never happens. With `consolidateAfter: Never` it consolidates nothing, and a
//! budget for `Empty` has no effect either. Drift, which may be what the budget was meant for, stays as it
//! is without one: 10 % of the nodes at a time, or unlimited beside other budgets.
//!
//! # Fix
//! Name the reason that is meant, or remove it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    limits: {cpu: 400}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    disruption:
//!      consolidationPolicy: WhenEmpty
//!      consolidateAfter: 5m
//!      budgets:
//!        - {nodes: 10%}
//!        - nodes: 5%
//! -        reasons: [Underutilized] # <-
//! +        reasons: [Drifted]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#disruption-budgets>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-reason-inert",
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("budget_reason_inert.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let disruption = pool.disruption();
    let (policy, after) = (disruption.get("consolidationPolicy"), disruption.get("consolidateAfter"));
    let (inert, why): (&[&str], &str) = if after.text() == Some("Never") {
        (&["Underutilized", "Empty"], "`consolidateAfter: Never`")
    } else if policy.text() == Some("WhenEmpty") {
        (&["Underutilized"], "`consolidationPolicy: WhenEmpty`")
    } else {
        return None;
    };
    for budget in disruption.get("budgets").items() {
        let mut reasons = budget.get("reasons").items().filter_map(|node| Some((node.text()?, node)));
        let Some((name, node)) = reasons.find(|(name, _)| inert.contains(name)) else { continue };
        ctx.report(
            &node,
            format!("with {why} no node is disrupted as {name}: this budget has nothing to limit"),
        )
        .identified_by(name)
        .help("name `Drifted` if that is meant, or remove the reason");
    }
    None
}
