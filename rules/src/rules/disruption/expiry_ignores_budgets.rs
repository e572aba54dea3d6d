//! Nodes expire in the hours in which the budgets of their pool allow no disruption.
//!
//! # Why
//! Budgets hold off drift, consolidation and the removal of empty nodes. Expiry waits for none of them: a
//! node whose `expireAfter` has passed is drained at once. Where nodes live for a day or less, some expire
//! in each window that a budget closes, and what it was to protect is moved. Nodes that live for up to a week
//! are reported where windows for all reasons close a quarter of the week, and, as an info, those that live for
//! less than the default of 30 days where they close half of it: as many expire inside them. A window that
//! names reasons says that only these are to wait.
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

use crate::karpenter::budget::{Budget, Calendar, Nodes};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "expiry-ignores-budgets",
    is_new_in_v1: true,
    docs: docs(include_str!("expiry_ignores_budgets.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

const HOUR: u64 = 3600;
/// Within a day nodes expire in every window that opens daily.
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 30 * DAY;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = pool.template_spec().get("expireAfter");
    let text = node.text()?;
    // Less than an hour is short in any case (`expire-after-short`).
    let life = pool.expire_after()?.seconds().filter(|seconds| (HOUR..MONTH).contains(seconds))?;
    if pool.object().is_partial() {
        return None;
    }
    let (budgets, calendar) = pool.written_budgets()?;
    let name = pool.object().display_name();
    if life <= DAY {
        let window = budgets.items().find(closes)?;
        let message =
            format!("nodes of pool `{name}` expire after {text}, also while its budgets allow no disruption");
        ctx.report(&node, message)
            .help("no budget delays expiry: write a longer time, or `Never` where drift replaces nodes often enough")
            .related(pool.object(), &window, "this budget does not hold for expiry");
        return None;
    }
    // Nodes of EKS Auto Mode live for 21 days at most, so that a long life is all that can be had there.
    if life > WEEK && pool.is_auto_mode() {
        return None;
    }
    let share = closed_share(calendar)?;
    let (least, severity) = if life <= WEEK { (25, Severity::Warning) } else { (50, Severity::Info) };
    if share < least {
        return None;
    }
    let window = budgets.items().find(|budget| closes(budget) && !budget.get("reasons").is_set())?;
    let message = format!(
        "nodes of pool `{name}` expire after {text}, also in the {share}% of the week that its budgets close"
    );
    let longer =
        if pool.is_auto_mode() { "`336h`" } else { "`Never` where drift replaces nodes often enough" };
    ctx.report(&node, message)
        .severity(severity)
        .help(format!("no budget delays expiry: write {longer}, or protect the pods themselves"))
        .related(pool.object(), &window, "this budget does not hold for expiry");
    None
}

/// Whether a budget allows no disruption in windows.
fn closes(budget: &Node<'_>) -> bool {
    let nodes = budget.get("nodes").string_or_number();
    budget.get("schedule").is_set()
        && nodes.and_then(|nodes| Nodes::parse(&nodes)).is_some_and(Nodes::is_zero)
}

/// The percentage of the time that windows close for all reasons. `None` where they close all of it, or none, or where the
/// pool allows no disruption at any time.
fn closed_share(calendar: &Calendar) -> Option<i64> {
    let closes = |budget: &Budget| budget.nodes.is_zero() && budget.reasons.is_none();
    let is_shut = |budget: &Budget| closes(budget) && budget.schedule.is_none();
    if calendar.never_allows() || calendar.budgets().iter().any(is_shut) {
        return None;
    }
    let (closed, (_, all)) = (calendar.minutes_of(closes), calendar.span());
    (closed > 0 && closed < all).then(|| closed * 100 / all)
}
