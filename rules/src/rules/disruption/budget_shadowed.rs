//! A disruption budget never has an effect.
//!
//! # Why
//! Of all budgets that are active the strictest counts. A budget that is never the strictest, at no
//! minute of the week, for no reason and in no size of pool, has no effect: whoever wrote it believes
//! in a window or a limit that is not there.
//!
//! # Fix
//! Remove it, or make the budget that covers it say what was meant: name its `reasons`, or give it a
//! schedule.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 16}
//!    disruption:
//!      consolidationPolicy: WhenEmpty
//!      consolidateAfter: 5m
//!      budgets:
//!        - nodes: "1"
//! -      - nodes: "5" # <-
//! -        schedule: 0 2 * * sat
//! -        duration: 4h
//! +      - {nodes: "0", schedule: 0 9 * * mon-fri, duration: 8h}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets>

use crate::karpenter::budget::{Budget, ShadowKind};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-shadowed",
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("budget_shadowed.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // A patch may be merged with other budgets.
    let (list, calendar) = pool.written_budgets().filter(|_| !object.is_partial())?;
    if !calendar.is_exact() {
        return None;
    }
    for (index, kind) in calendar.shadowed() {
        let (message, help) = match kind {
            // An empty list of reasons is reported separately.
            ShadowKind::NeverApplies if names_no_reason(calendar.budgets().get(index)) => continue,
            ShadowKind::NeverApplies => {
                ("this budget is never active".to_owned(), "give it a duration, or remove it")
            }
            ShadowKind::Duplicate(other) => {
                (format!("this budget says the same as the one at index {other}"), "remove one of them")
            }
            ShadowKind::Shadowed => (
                "another budget is at least as strict whenever this one is active".to_owned(),
                "remove it, or limit the stricter one by `reasons` or a schedule",
            ),
        };
        ctx.report(&list.index(index), message).help(help);
    }
    None
}

fn names_no_reason(budget: Option<&Budget>) -> bool {
    let reasons = budget.and_then(|b| b.reasons.as_ref());
    reasons.is_some_and(Vec::is_empty)
}
