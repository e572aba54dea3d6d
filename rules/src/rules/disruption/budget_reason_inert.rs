//! A budget is for a reason for which the pool disrupts no node.
//!
//! # Why
//! With `consolidationPolicy: WhenEmpty` Karpenter removes empty nodes only: a budget for the reason
//! `Underutilized` limits what never happens. With `consolidateAfter: Never` it consolidates nothing, and a
//! budget for `Empty` has no effect either; nor does it in a static pool. Drift, which may be what the budget
//! was meant for, stays as it is without one: 10 % of the nodes at a time, or unlimited beside other budgets.
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

use crate::karpenter::budget::DisruptionReason;
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
    let why = if pool.is_static() {
        "`replicas`"
    } else if disruption.get("consolidateAfter").text() == Some("Never") {
        "`consolidateAfter: Never`"
    } else {
        "`consolidationPolicy: WhenEmpty`"
    };
    for budget in disruption.get("budgets").items() {
        let mut reasons = budget.get("reasons").items().filter_map(|node| Some((node.text()?, node)));
        let is_inert =
            |name: &str| DisruptionReason::parse(name).is_some_and(|reason| !pool.is_disrupted_as(reason));
        let Some((name, node)) = reasons.find(|(name, _)| is_inert(name)) else { continue };
        ctx.report(
            &node,
            format!("with {why} no node is disrupted as {name}: this budget has nothing to limit"),
        )
        .identified_by(name)
        .help("name `Drifted` if that is meant, or remove the reason");
    }
    None
}
