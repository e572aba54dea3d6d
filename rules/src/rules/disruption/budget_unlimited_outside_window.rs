//! At times no disruption budget applies, and all nodes may go at once.
//!
//! # Why
//! The limit of 10% is only the default of a list that is not written. As soon as `budgets` is
//! there, what no entry covers is unlimited: outside the windows of scheduled budgets, for the
//! reasons that no budget names, and always with `budgets: []` or `reasons: []`. A list with one
//! "zero in office hours" entry therefore lets Karpenter take the whole pool at 18:00, and with
//! it every model that took minutes to load.
//!
//! # Fix
//! Add a budget without a schedule: it is the limit at all other times. Where several budgets
//! apply, the strictest wins.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-inference}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption:
//!      consolidationPolicy: WhenEmptyOrUnderutilized
//!      consolidateAfter: 5m
//!      budgets: # <-
//!        - {nodes: "0", schedule: 0 9 * * mon-fri, duration: 8h}
//! +      - nodes: 10%
//! ```
//!
//! The week of this pool before the change, as reports draw it: in each hour, what budgets let go.
//!
//! ```week
//! # blocked   ! unlimited   all reasons
//!      00    03    06    09    12    15    18    21     UTC
//! Mon  ! ! ! ! ! ! ! ! ! # # # # # # # # ! ! ! ! ! ! !
//! Tue  ! ! ! ! ! ! ! ! ! # # # # # # # # ! ! ! ! ! ! !
//! Wed  ! ! ! ! ! ! ! ! ! # # # # # # # # ! ! ! ! ! ! !
//! Thu  ! ! ! ! ! ! ! ! ! # # # # # # # # ! ! ! ! ! ! !
//! Fri  ! ! ! ! ! ! ! ! ! # # # # # # # # ! ! ! ! ! ! !
//! Sat  ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! !
//! Sun  ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! ! !
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1939>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/2183>

use crate::karpenter::budget::{AllowanceState, Budget, Calendar, DisruptionReason, Week};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-unlimited-outside-window",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("budget_unlimited_outside_window.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // The drift of a static pool is bounded by its `limits.nodes` as well.
    let (list, calendar) = pool.written_budgets().filter(|_| !pool.is_static())?;
    let is_weighty = || pool.is_gpu_intended() || is_production(object.name());
    let mut is_idle = false;
    for (item, budget) in list.items().zip(calendar.budgets()) {
        if budget.reasons.as_ref().is_some_and(Vec::is_empty) {
            is_idle = true;
            let finding =
                ctx.report(&item.get("reasons"), "a budget with an empty list of reasons never applies");
            finding.help("name the reasons, or remove `reasons` for all of them");
            if !is_weighty() {
                finding.severity(Severity::Info);
            }
        }
    }
    if is_idle || calendar.never_allows() {
        return None;
    }
    let open: Vec<DisruptionReason> = DisruptionReason::ALL
        .into_iter()
        .filter(|r| calendar.is_ever(*r, AllowanceState::Unlimited))
        .collect();
    let matters: Vec<DisruptionReason> =
        open.iter().copied().filter(|reason| pool.is_disrupted_as(*reason)).collect();
    if matters.is_empty() {
        return None;
    }
    let name = object.display_name();
    let always = matters.iter().all(|r| calendar.is_always(*r, AllowanceState::Unlimited));
    let when = match (calendar.budgets().is_empty(), always) {
        (true, _) => "with an empty list there is no limit at all",
        (_, true) => "no budget ever applies",
        _ => "outside the windows there is no limit",
    };
    let whom = if open.len() == DisruptionReason::ALL.len() {
        format!("all nodes of `{name}` may be disrupted at once")
    } else {
        let names: Vec<&str> = matters.iter().map(|r| r.name()).collect();
        format!("all nodes of `{name}` may go at once when {}", names.join(" or "))
    };
    let remedy = Remedy::of(calendar, &open, &matters);
    // Whoever limits a reason in a window wants a limit for it.
    let is_slip = matters.iter().any(|reason| is_limited_in_window(calendar, *reason));
    let harmless = !(is_slip || is_weighty()) || matters == [DisruptionReason::Empty];
    let week = Week::of(calendar, worst(calendar, &matters), ctx.platform().zone());
    let finding = ctx.report(&list, format!("{whom}: {when}"));
    finding.schedule_grid(week).help(remedy.help);
    if let Some(budget) = remedy.budget {
        let title = "limit all other times to `10%` of the nodes";
        finding.fix(Fix::new(title, Safety::Unsafe).append(&list, budget));
    }
    if harmless {
        finding.severity(Severity::Info);
    }
    None
}

/// Whether budgets limit a reason at some times, and not at others.
fn is_limited_in_window(calendar: &Calendar, reason: DisruptionReason) -> bool {
    !calendar.is_always(reason, AllowanceState::Unlimited)
}

/// What to write instead, and the budget to add where it is one.
struct Remedy {
    help: String,
    budget: Option<Value>,
}

impl Remedy {
    fn of(calendar: &Calendar, open: &[DisruptionReason], matters: &[DisruptionReason]) -> Remedy {
        if let Some(reason) = matters.iter().find(|reason| opens_a_window(calendar, **reason)) {
            let help = format!(
                "a budget only limits: to keep nodes at other times, write `nodes: \"0\"` for {reason} then"
            );
            return Remedy { help, budget: None };
        }
        if open.len() == DisruptionReason::ALL.len() {
            let help = "add `nodes: 10%` without a schedule; the strictest budget wins".to_owned();
            return Remedy { help, budget: Some(json!({"nodes": "10%"})) };
        }
        let names: Vec<&str> = open.iter().map(|reason| reason.name()).collect();
        let has_schedule = calendar.budgets().iter().any(|budget| budget.schedule.is_some());
        let how = if has_schedule { " without a schedule" } else { "" };
        let help = format!("add a budget `nodes: 10%`{how} for {}", names.join(" and "));
        Remedy { help, budget: Some(json!({"nodes": "10%", "reasons": names})) }
    }
}

/// Whether the windows of a reason let nodes go, as if it were kept at all other times.
fn opens_a_window(calendar: &Calendar, reason: DisruptionReason) -> bool {
    let mut scheduled = calendar.budgets().iter().filter(|budget| budget.schedule.is_some());
    let lets_go = |budget: &Budget| budget.applies_to(reason) && !budget.nodes.is_zero();
    scheduled.any(lets_go) && calendar.coverage(reason).zero_minutes == 0
}

/// The reason that is unlimited for the longest time. `Drifted` if it is among several.
fn worst(calendar: &Calendar, reasons: &[DisruptionReason]) -> DisruptionReason {
    let unlimited = |r: &DisruptionReason| calendar.coverage(*r).unlimited_minutes;
    let worst = reasons.iter().copied().max_by_key(unlimited);
    worst.unwrap_or(DisruptionReason::Drifted)
}

fn is_production(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| matches!(word, "prod" | "prd" | "production"))
}
