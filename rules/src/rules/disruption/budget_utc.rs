//! A budget's schedule was written for local time, but it counts in UTC.
//!
//! # Why
//! Schedules of disruption budgets are always in UTC, and there is no field for another zone. In Seoul
//! a window at `0 9 * * mon-fri` for eight hours lasts from 18:00 to 02:00: nodes go in the middle of
//! the working day, and are kept in the evening. Reported is a window that reads as office hours, or
//! one for the night that lets nodes go, and that falls on other hours in the zone of
//! `platform.timezone` in the configuration, or of an annotation of the pool whose value is a time
//! zone. Where neither is there, a comment that speaks of business hours or of a zone is a sign as well.
//!
//! # Fix
//! Write the hours in UTC, and say so in a comment. With a zone whose clocks are never changed the fix
//! moves all such windows; a window that then starts on another day for some hours only becomes two.
//! Where clocks are changed in summer no schedule is right all year: choose one that holds in both.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: web, annotations: {example.com/timezone: Asia/Seoul}}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 200}
//!    disruption:
//!      consolidationPolicy: WhenEmptyOrUnderutilized
//!      consolidateAfter: 5m
//!      budgets:
//!        - nodes: 10%
//!        - nodes: "0"
//! -        schedule: 0 9 * * mon-fri # <-
//! +        schedule: 0 0 * * mon-fri
//!          duration: 8h
//! ```
//!
//! Its week before the change: the hours that are blocked are the evening and the night in Seoul.
//!
//! ```week
//! # blocked   . limited   all reasons
//!      00    03    06    09    12    15    18    21     UTC
//! Mon  . . . . . . . . . # # # # # # # # . . . . . . .
//! Tue  . . . . . . . . . # # # # # # # # . . . . . . .
//! Wed  . . . . . . . . . # # # # # # # # . . . . . . .
//! Thu  . . . . . . . . . # # # # # # # # . . . . . . .
//! Fri  . . . . . . . . . # # # # # # # # . . . . . . .
//! Sat  . . . . . . . . . . . . . . . . . . . . . . . .
//! Sun  . . . . . . . . . . . . . . . . . . . . . . . .
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#schedule>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1446>

use crate::facts::cron::to_utc;
use crate::facts::timezone::{Zone, is_known};
use crate::karpenter::budget::{Budget, Calendar, DisruptionReason, Week};
use crate::rules::disruption::budget_comments::{budget_comments, has_word, local_time_word};
use crate::rules::disruption::budget_hours::{DAY, HOUR, Window, daily_window, is_shifted, is_typical};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-utc",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("budget_utc.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

struct DailyBudget<'a> {
    schedule: Node<'a>,
    budget: &'a Budget,
    window: Window,
}

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let (list, calendar) = pool.written_budgets()?;
    let comments = budget_comments(object, &list);
    // A comment that mentions UTC shows that the author knows.
    if comments.iter().any(|comment| has_word(comment, &["UTC", "GMT"])) {
        return None;
    }
    let daily = list.items().zip(calendar.budgets()).filter_map(|(node, budget)| {
        Some(DailyBudget { schedule: node.get("schedule"), budget, window: daily_window(budget)? })
    });
    let daily: Vec<DailyBudget<'_>> = daily.collect();
    match ctx.platform().zone().or_else(|| annotated_zone(object)) {
        Some(zone) => {
            let mut shifted = daily;
            shifted.retain(|one| is_shifted(one.window, one.budget, &zone));
            report_shifted(&list, calendar, &shifted, &zone, ctx)
        }
        None => report_comment(&daily, &comments, ctx),
    }
}

/// Reports the first window that is at other hours in the zone than its schedule suggests.
fn report_shifted(
    list: &Node<'_>,
    calendar: &Calendar,
    shifted: &[DailyBudget<'_>],
    zone: &Zone,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let DailyBudget { schedule, window, .. } = shifted.first()?;
    let written = ellipsize(schedule.text().unwrap_or_default());
    let city = zone.city();
    let opens = |offset: i64| clock(window.start + offset);
    let closes = clock(window.start + window.minutes + zone.standard);
    let summer = match zone.summer {
        Some(summer) => format!(", in summer from {}", opens(summer)),
        None => String::new(),
    };
    let week = Week::of(calendar, DisruptionReason::Drifted, Some(zone.clone()));
    let from = opens(zone.standard);
    let message = format!("`{written}` counts in UTC: in {city} it is from {from} to {closes}{summer}");
    let finding = ctx.report(schedule, message);
    if !calendar.never_allows() {
        finding.schedule_grid(week);
    }
    if zone.summer.is_some() {
        finding.help("write hours of UTC that do in summer and in winter");
        return None;
    }
    finding.help("write the hours in UTC, and say so in a comment");
    if let Some(fix) = moved_to_utc(list, shifted, zone) {
        finding.fix(fix);
    }
    None
}

/// Reports a window beside a comment that mentions local time, if the zone is not known.
fn report_comment(daily: &[DailyBudget<'_>], comments: &[String], ctx: &mut Context<'_>) -> Option<()> {
    let (word, is_zone) = comments.iter().find_map(|comment| local_time_word(comment))?;
    let is_meant = |one: &&DailyBudget<'_>| is_zone || is_typical(one.window, one.budget);
    let DailyBudget { schedule, .. } = daily.iter().find(is_meant)?;
    let written = ellipsize(schedule.text().unwrap_or_default());
    let message = format!("`{written}` counts in UTC, but a comment here speaks of `{}`", ellipsize(&word));
    ctx.report(schedule, message)
        .help("write the hours in UTC; with `platform.timezone` set gpulint shows both");
    None
}

/// A fix that moves windows to the hours that they are meant for. A window that starts on another day for some of its
/// hours becomes two budgets.
fn moved_to_utc(list: &Node<'_>, shifted: &[DailyBudget<'_>], zone: &Zone) -> Option<Fix> {
    let title = format!("move the windows from UTC to {}", zone.city());
    let mut fix = Fix::new(title, Safety::Unsafe);
    let mut added = Vec::new();
    for DailyBudget { schedule: node, .. } in shifted {
        let mut schedules = to_utc(node.text()?, zone.standard)?.into_iter();
        fix = fix.set(node, Value::String(schedules.next()?));
        let budget = list.items().find(|budget| budget.get("schedule").pointer() == node.pointer())?;
        for schedule in schedules {
            let mut copy = budget.to_json();
            copy["schedule"] = Value::String(schedule);
            added.push(copy);
        }
    }
    Some(added.into_iter().fold(fix, |fix, budget| fix.append(list, budget)))
}

fn clock(minute: i64) -> String {
    let minute = minute.rem_euclid(DAY);
    format!("{:02}:{:02}", minute / HOUR, minute % HOUR)
}

/// The zone given by an annotation of the pool. A name without location (`UTC`, `EST`) is ambiguous and
/// ignored.
fn annotated_zone(object: &Object) -> Option<Zone> {
    let annotations = object.path(&["metadata", "annotations"]);
    annotations
        .entries()
        .iter()
        .filter_map(|(_, value)| value.text())
        .find(|text| text.contains('/') && is_known(text))
        .and_then(Zone::find)
}
