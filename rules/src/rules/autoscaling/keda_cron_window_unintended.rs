//! The window of a `cron` trigger is open when nobody expects it.
//!
//! # Why
//! KEDA keeps no record of a window. At each poll it computes the next time of `start` and the next time of
//! `end`: the window is open if the end comes first. An `end` that comes once more before the next `start`
//! therefore opens the window until then: with a start on weekdays and an end on all days, replicas stay from
//! Friday to Sunday night. A `start` that comes once more before the next `end` opens nothing, and `*` in the
//! place of the minutes fires sixty times. A window whose times are equal, or whose `start` never comes, is
//! always open; one whose `end` never comes is always closed.
//!
//! # Fix
//! Give `start` and `end` the same days, or for a window over midnight the end the days after.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: runner, namespace: ci}
//!  spec:
//!    scaleTargetRef: {name: runner}
//!    minReplicaCount: 0
//!    maxReplicaCount: 4
//!    triggers:
//!      - type: cron
//!        metadata:
//!          timezone: Europe/Oslo
//!          start: 0 7 * * 1-5
//! -        end: 0 19 * * * # <-
//! +        end: 0 19 * * 1-5
//!          desiredReplicas: "4"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cron/>
//! - <https://github.com/kedacore/keda/issues/4677>

use crate::facts::date::{REFERENCE_MONDAY, civil_from_days};
use crate::karpenter::budget::{DAYS, Week};
use crate::keda::cron_window::{CronWindow, Opening, Stretch, WEEK};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-cron-window-unintended",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_cron_window_unintended.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for trigger in triggers(object).filter(|trigger| trigger.kind() == Some("cron")) {
        let metadata = trigger.metadata();
        if let Some(window) = CronWindow::read(&metadata) {
            check_window(&window, &metadata, ctx);
        }
    }
    None
}

fn check_window(window: &CronWindow, metadata: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (start, end) = (metadata.get("start"), metadata.get("end"));
    if let Some(open) = window.constant() {
        let (node, message) = match open {
            true => (&start, "the window is always open: `start` never comes"),
            false => (&end, "the window is always closed: `end` never comes"),
        };
        ctx.report(node, message).help("write a day that exists");
        return None;
    }
    let opening = window.opening()?;
    if opening.is_always() {
        let message = "the window is always open: `end` comes only together with `start`";
        ctx.report(&end, message).help("write two different times");
        return None;
    }
    let zone = metadata.get("timezone").text().unwrap_or("UTC");
    let week = opening.is_weekly.then(|| Week::of_window(&opening.within_week(), zone));
    let finding = if let Some(stretch) = opening.unended.first() {
        let (from, to) = named(stretch, &opening);
        let message = format!("`end` comes again before `start`: the window stays open from {from} to {to}");
        ctx.report(&end, message)
    } else if let Some(stretch) = opening.unstarted.first() {
        let (from, to) = named(stretch, &opening);
        let message = format!("`start` comes again before `end`: the window opens on {to}, not on {from}");
        ctx.report(&start, message)
    } else {
        return None;
    };
    match better(window, metadata) {
        Some(changes) => {
            let mut fix = Fix::unsafe_("let each `start` have one `end`");
            for (field, text) in &changes {
                fix = fix.set(&metadata.get(field), json!(text));
            }
            let words: Vec<String> =
                changes.iter().map(|(field, text)| format!("`{field}: {text}`")).collect();
            finding.help(format!("write {}", words.join(" and "))).fix(fix);
        }
        None => _ = finding.help("give `start` and `end` the same days, or the end the days after"),
    }
    if let Some(week) = week {
        finding.schedule_grid(week);
    }
    None
}

/// The begin and the end of a stretch in words: `Fri 22:10`, or `5 Jan 22:10` where days of the month count.
fn named(stretch: &Stretch, opening: &Opening) -> (String, String) {
    let name = |minute: i64| {
        let time = format!("{:02}:{:02}", minute.rem_euclid(1440) / 60, minute.rem_euclid(60));
        if opening.is_weekly {
            let day = usize::try_from(minute.rem_euclid(WEEK) / 1440).unwrap_or_default();
            return format!("{} {time}", DAYS[day]);
        }
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (_, month, day) = civil_from_days((REFERENCE_MONDAY + minute).div_euclid(1440));
        format!("{day} {} {time}", MONTHS[usize::from(month.clamp(1, 12)) - 1])
    };
    (name(stretch.0), name(stretch.1))
}

/// The texts of `start` and `end` with which each start has one end, by field: whole hours in the place of each minute,
/// and the days of the start for the end. `None` if these are not enough.
fn better(window: &CronWindow, metadata: &Node<'_>) -> Option<Vec<(&'static str, String)>> {
    let fields = |name: &str| -> Option<Vec<String>> {
        let text = metadata.get(name).text()?;
        let fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (fields.len() == 5).then_some(fields)
    };
    let (written_start, written_end) = (fields("start")?, fields("end")?);
    let (mut start, mut end) = (written_start.clone(), written_end.clone());
    for text in [&mut start, &mut end] {
        if text[0] == "*" && text[1] != "*" {
            text[0] = "0".to_owned();
        }
    }
    if window.start.weekly_days() != window.end.weekly_days() && start[0..4] != end[0..4] {
        let first = |schedule: &crate::facts::cron::Schedule| schedule.minutes_of_day().next();
        let over_midnight = first(&window.end)? < first(&window.start)?;
        end[4] = if over_midnight { days_after(window.start.weekly_days()?) } else { start[4].clone() };
    }
    let parse = |fields: &[String]| crate::facts::cron::Schedule::parse(&fields.join(" ")).ok();
    let changed = CronWindow { start: parse(&start)?, end: parse(&end)? };
    let opening = changed.opening()?;
    if !opening.unended.is_empty() || !opening.unstarted.is_empty() || opening.is_always() {
        return None;
    }
    let mut changes = Vec::new();
    if start != written_start {
        changes.push(("start", start.join(" ")));
    }
    if end != written_end {
        changes.push(("end", end.join(" ")));
    }
    (!changes.is_empty()).then_some(changes)
}

/// The days after those of a week (bit 0 is Sunday), as a field of a schedule.
fn days_after(days: u8) -> String {
    let mut out: Vec<u32> = (0..7_u32).filter(|day| days >> day & 1 == 1).map(|day| (day + 1) % 7).collect();
    out.sort_unstable();
    match out.as_slice() {
        [] | [_, _, _, _, _, _, _] => "*".to_owned(),
        [first, .., last] if out.len() > 2 && last - first == out.len() as u32 - 1 => {
            format!("{first}-{last}")
        }
        _ => out.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}
