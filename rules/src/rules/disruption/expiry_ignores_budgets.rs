//! Nodes expire in the hours in which the budgets of their pool allow no disruption.
//!
//! # Why
//! Budgets hold off drift, consolidation and the removal of empty nodes. Expiry waits for none of them: a
//! node whose `expireAfter` has passed is drained at once. Where nodes live for a day or less, some expire
//! in each window that a budget closes, and what it was to protect is moved.
//!
//! # Fix
//! Write a longer `expireAfter`, or `Never` where drift replaces nodes often enough. What must not be moved
//! needs a PodDisruptionBudget or the annotation `karpenter.sh/do-not-disrupt`, which hold a drain until
//! `terminationGracePeriod` ends.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: web}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//! -      expireAfter: 12h # <-
//! +      expireAfter: 336h
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    disruption:
//!      consolidateAfter: 5m
//!      budgets:
//!        - {nodes: "10%"}
//!        - {nodes: "0", schedule: "0 8 * * *", duration: 10h}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#expiration>
//! - <https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets>

use crate::karpenter::budget::Nodes;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "expiry-ignores-budgets",
    docs: docs(include_str!("expiry_ignores_budgets.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

/// Within a day nodes expire in every window that opens daily.
const DAY: u64 = 24 * HOUR;
const HOUR: u64 = 3600;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = pool.template_spec().get("expireAfter");
    let text = node.text()?;
    // Less than an hour is short in any case (`expire-after-short`).
    pool.expire_after()?.seconds().filter(|seconds| (HOUR..=DAY).contains(seconds))?;
    if pool.object().is_partial() {
        return None;
    }
    let (budgets, _) = pool.written_budgets()?;
    let closes = |budget: &Node<'_>| {
        let nodes = budget.get("nodes").string_or_number();
        budget.get("schedule").is_set()
            && nodes.and_then(|nodes| Nodes::parse(&nodes)).is_some_and(Nodes::is_zero)
    };
    let window = budgets.items().find(closes)?;
    let name = pool.object().display_name();
    let message =
        format!("nodes of pool `{name}` expire after {text}, also while its budgets allow no disruption");
    ctx.report(&node, message)
        .help("no budget delays expiry: write a longer time, or `Never` where drift replaces nodes often enough")
        .related(pool.object(), &window, "this budget does not hold for expiry");
    None
}
