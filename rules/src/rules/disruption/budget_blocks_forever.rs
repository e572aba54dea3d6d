//! Disruption budgets never allow a node to be disrupted.
//!
//! # Why
//! A budget of zero without an end also stops the replacement of drifted nodes: a new AMI, a
//! security fix or a changed node class arrives only when a node expires, and not at all with
//! `expireAfter: Never`; empty nodes stay until then. It does not protect what it is meant to protect
//! either: expiry ignores budgets and takes a node in the middle of a run. A window whose duration
//! reaches the next hit of its schedule never closes and is the same thing. Beside
//! `consolidateAfter: Never` it is information, as both keep the nodes as they are, and so it is where the
//! budget names reasons and nodes expire within three weeks. Budgets hold for drift in a static pool as well.
//!
//! # Fix
//! Give the zero budget a schedule and a duration that leave some time open, protect the pods
//! themselves with `karpenter.sh/do-not-disrupt`, or name the reasons that shall be stopped. A few
//! minutes are enough: Karpenter asks budgets when it begins to replace a node, not while it does.
//! `min-open-minutes` sets how many minutes of a week must be open for drifted nodes, all windows
//! together.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata: {name: web}
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!       requirements:
//!         - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!         - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!   limits: {cpu: 200}
//!   disruption:
//!     consolidationPolicy: WhenEmptyOrUnderutilized
//!     consolidateAfter: 5m
//!     budgets:
//!       - nodes: "0" # <-
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata: {name: web}
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!       requirements:
//!         - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!         - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!   limits: {cpu: 200}
//!   disruption:
//!     consolidationPolicy: WhenEmptyOrUnderutilized
//!     consolidateAfter: 5m
//!     budgets:
//!       - nodes: 10%
//!       - {nodes: "0", schedule: 0 8 * * mon-fri, duration: 10h}
//! ```
//!
//! The week of this pool, as reports draw it: what budgets let go in each hour.
//!
//! ```week
//! # blocked   . limited   all reasons
//!      00    03    06    09    12    15    18    21     UTC
//! Mon  . . . . . . . . # # # # # # # # # # . . . . . .
//! Tue  . . . . . . . . # # # # # # # # # # . . . . . .
//! Wed  . . . . . . . . # # # # # # # # # # . . . . . .
//! Thu  . . . . . . . . # # # # # # # # # # . . . . . .
//! Fri  . . . . . . . . # # # # # # # # # # . . . . . .
//! Sat  . . . . . . . . . . . . . . . . . . . . . . . .
//! Sun  . . . . . . . . . . . . . . . . . . . . . . . .
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets>
//! - <https://karpenter.sh/docs/concepts/disruption/#expiration>

use crate::karpenter::budget::{AllowanceState, Budget, Calendar, DisruptionReason, WEEK, Week};
use crate::rules::class_evidence::CLASSED_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-blocks-forever",
    reads: CLASSED_WORKLOADS,
    params: &[Param {
        name: "min-open-minutes",
        description: "the minutes of a week, all windows together, in which drifted nodes must be replaceable",
        default: ParamDefault::Int { default: 5, min: 1, max: 10_080 },
    }],
    docs: docs(include_str!("budget_blocks_forever.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Maximum number of days after which all nodes of a pool are new ones anyway: the longest life of a node of EKS Auto Mode.
const SOON_DAYS: u64 = 21;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let (list, written) = pool.written_budgets()?;
    // A schedule that never fires is reported by budget-schedule-invalid.
    let fires = |budget: &Budget| !matches!(&budget.schedule, Some(Ok(schedule)) if schedule.never_fires());
    let nodes: Vec<Node<'_>> =
        list.items().zip(written.budgets()).filter(|(_, b)| fires(b)).map(|(n, _)| n).collect();
    let without_idle;
    let calendar = if nodes.len() == written.budgets().len() {
        written
    } else {
        let budgets: Vec<Budget> = written.budgets().iter().filter(|b| fires(b)).cloned().collect();
        without_idle = Calendar::new(&budgets);
        &without_idle
    };
    let budgets = calendar.budgets();
    if calendar.never_allows() {
        return None;
    }
    let shut: Vec<DisruptionReason> = DisruptionReason::ALL
        .into_iter()
        .filter(|r| pool.is_disrupted_as(*r) && calendar.is_always(*r, AllowanceState::Zero))
        .collect();
    let always_zero = |reason: DisruptionReason| {
        budgets.iter().enumerate().position(|(i, b)| {
            b.nodes.is_zero() && b.applies_to(reason) && (b.schedule.is_none() || calendar.always_active(i))
        })
    };
    let told = shut.last().and_then(|main| always_zero(*main));
    if shut.is_empty() {
        report_narrow(&list, calendar, object, ctx);
    } else {
        report_shut(pool, (&list, told.map(|at| (&nodes[at], &budgets[at]))), (calendar, &shut), ctx);
    }
    for (i, budget) in budgets.iter().enumerate() {
        if Some(i) == told || budget.nodes.is_zero() || !calendar.always_active(i) {
            continue;
        }
        ctx.report(&nodes[i].get("duration"), "the window never closes: the next one opens before it ends")
            .severity(Severity::Info)
            .help("shorten `duration`, or remove it with `schedule`");
    }
    None
}

/// Reports reasons for which nodes never go, at the budget that is always zero if there is one.
fn report_shut(
    pool: &NodePool<'_>,
    (list, at): (&Node<'_>, Option<(&Node<'_>, &Budget)>),
    (calendar, shut): (&Calendar, &[DisruptionReason]),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = pool.object().display_name();
    let endless = at.is_some_and(|(_, budget)| budget.schedule.is_some());
    let node = match at {
        Some((node, _)) if endless => node.get("duration"),
        Some((node, _)) => node.get("nodes"),
        None => list.clone(),
    };
    let training =
        ctx.cluster().views().purpose(pool).is_some_and(|(class, _)| class == WorkloadClass::Training);
    let expires = pool.expire_after().is_some_and(|span| span.seconds().is_some());
    let what = if shut.contains(&DisruptionReason::Drifted) {
        "replaces a drifted node"
    } else if shut == [DisruptionReason::Underutilized] {
        "consolidates a node in use"
    } else {
        "removes an empty node"
    };
    let why = if endless { "the window of zero never closes" } else { "the budget is always zero" };
    let week = Week::of(calendar, *shut.last()?, ctx.platform().zone());
    // Expiry does not ask budgets.
    let until = if expires { " before it expires" } else { "" };
    // Who names the reasons that wait, and lets nodes live for days only, has decided how long these wait.
    let names_reasons = at.is_some_and(|(_, budget)| budget.reasons.is_some());
    let days = pool.expire_after().and_then(|span| span.seconds()).map(|seconds| seconds / DAY);
    let soon = days.filter(|days| names_reasons && *days <= SOON_DAYS);
    let finding = ctx.report(&node, format!("`{name}` never {what}{until}: {why}"));
    finding.schedule_grid(week);
    if pool.disruption().get("consolidateAfter").text() == Some("Never") {
        // The author keeps the nodes in both ways.
        finding.severity(Severity::Info).help(
            "if the freeze is not meant, leave a window for patches: nodes keep their images until then",
        );
    } else if shut == [DisruptionReason::Underutilized] {
        finding
            .severity(Severity::Info)
            .help("if that is meant, `consolidationPolicy: WhenEmpty` says it better");
    } else if let Some(days) = soon {
        finding
            .severity(Severity::Info)
            .help(format!("if a patch may not wait up to {days} days, leave a window for it"));
    } else if training && expires {
        finding
            .severity(Severity::Info)
            .help("leave a window for patches; expiry ignores budgets and still ends runs");
    } else if let Some(duration) = node.text().filter(|_| endless) {
        finding.help(format!("shorten `duration: {duration}`: the windows leave no gap"));
    } else if at.is_none() {
        finding.help("leave a window for patches: the windows of these budgets leave no gap");
    } else {
        finding.help("leave a window for patches: add a `schedule` and a `duration` to it");
    }
    None
}

/// Reports that drifted nodes can be replaced during few minutes of a week.
fn report_narrow(list: &Node<'_>, calendar: &Calendar, object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let open = open_minutes(calendar);
    let wanted = ctx.int("min-open-minutes");
    if open >= wanted {
        return None;
    }
    let name = object.display_name();
    let week = Week::of(calendar, DisruptionReason::Drifted, ctx.platform().zone());
    let time = match open {
        0 => "less than a minute".to_owned(),
        1 => "one minute".to_owned(),
        more => format!("{more} minutes"),
    };
    let message = format!("drifted nodes of `{name}` can be replaced during {time} of a week");
    ctx.report(list, message)
        .schedule_grid(week)
        .help(format!("leave {wanted} minutes of a week without a zero budget"));
    None
}

/// The minutes of a week in which drifted nodes may be replaced, on average: a freeze of some weeks ends.
fn open_minutes(calendar: &Calendar) -> i64 {
    let intervals = calendar.intervals(DisruptionReason::Drifted);
    let open = intervals.iter().filter(|one| one.state != AllowanceState::Zero);
    open.map(|one| one.minutes).sum::<i64>() * WEEK / calendar.span().1
}
