//! The window of a `cron` trigger is open when nobody expects it.
//!
//! # Why
//! KEDA keeps no record of a window. At each poll it computes the next time of `start` and the next time of
//! `end`: the window is open if the end comes first. An `end` that comes once more before the next `start`
//! therefore opens the window until then: with a start on weekdays and an end on all days, replicas stay from
//! Friday to Sunday night. A `start` that comes once more before the next `end` opens nothing, and `*` in the
//! place of the minutes fires sixty times. A window over midnight whose end has the days of its start is open
//! over the whole weekend: the end of Friday night comes on Monday. A window whose `start` never comes is always
//! open; one whose `end` never comes is always closed.
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

use crate::facts::cron::Schedule;
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
            over_weekend(&window, &trigger, object, ctx);
        }
    }
    None
}

/// Reports a window over midnight whose `end` has the days of its `start`, so that the last one of the week is not closed
/// on the morning after.
fn over_weekend(
    window: &CronWindow,
    trigger: &Trigger<'_>,
    object: &Object,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let metadata = trigger.metadata();
    let days = window.start.weekly_days().filter(|days| window.end.weekly_days() == Some(*days))?;
    let opening = window.opening()?;
    let is_one_a_day = |schedule: &Schedule| schedule.minutes_of_day().count() == 1;
    if !is_over_midnight(window)?
        || !is_one_a_day(&window.start)
        || !is_one_a_day(&window.end)
        || !opening.unended.is_empty()
        || !opening.unstarted.is_empty()
    {
        return None;
    }
    let is_long = |(from, to): &&Stretch| to - from > 1440;
    let (long, short) = opening.open.iter().partition::<Vec<_>, _>(is_long);
    let [stretch] = long.as_slice() else { return None };
    // Another window for the days between: the week is divided on purpose.
    let is_complement = |other: &Trigger<'_>| {
        let other = other.metadata();
        let same = |a: &str, b: &str| other.get(a).text() == metadata.get(b).text();
        same("start", "end") && same("end", "start")
    };
    let says_so = |name: Option<&str>| {
        name.is_some_and(|name| ["weekend", "off-", "offhours", "outside"].iter().any(|w| name.contains(w)))
    };
    // A window that raises nothing is reported by keda-cron-replicas-ineffective.
    let raises_nothing = metadata
        .get("desiredReplicas")
        .string_or_number()
        .and_then(|number| number.parse::<i64>().ok())
        .is_some_and(|number| min_replicas(object).is_some_and(|floor| number <= floor));
    if short.is_empty()
        || raises_nothing
        || says_so(trigger.node.get("name").text())
        || says_so(Some(object.name()))
        || triggers(object).any(|other| other.kind() == Some("cron") && is_complement(&other))
    {
        return None;
    }
    let (from, to) = named(stretch, &opening);
    let end = metadata.get("end");
    let mut fields: Vec<String> = end.text()?.split_whitespace().map(str::to_owned).collect();
    *fields.get_mut(4)? = days_after(days);
    ctx.report(&end, format!("`end` has the days of `start`: the window stays open from {from} to {to}"))
        .help(format!("write `{}`, the days after, unless it is meant to stay open", fields.join(" ")))
        .schedule_grid(Week::of_window(
            &opening.within_week(),
            metadata.get("timezone").text().unwrap_or("UTC"),
        ));
    None
}

/// Whether the first end of a day comes before its first start.
fn is_over_midnight(window: &CronWindow) -> Option<bool> {
    Some(window.end.minutes_of_day().next()? < window.start.minutes_of_day().next()?)
}

fn check_window(window: &CronWindow, metadata: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (start, end) = (metadata.get("start"), metadata.get("end"));
    // KEDA refuses equal texts, which keda-trigger-invalid reports.
    if start.text() == end.text() {
        return None;
    }
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
    if let Some([whole, each]) = readings(window, metadata) {
        finding.help(format!("write {whole} for one window a week, or {each} for one a day"));
    } else if let Some(changes) = better(window, metadata) {
        let mut fix = Fix::unsafe_("let each `start` have one `end`");
        for (field, text) in &changes {
            fix = fix.set(&metadata.get(field), json!(text));
        }
        let words: Vec<String> = changes.iter().map(|(field, text)| format!("`{field}: {text}`")).collect();
        finding.help(format!("write {}", words.join(" and "))).fix(fix);
    } else {
        finding.help("give `start` and `end` the same days, or the end the days after");
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

/// The five fields of a schedule in the metadata of a trigger.
fn fields(metadata: &Node<'_>, name: &str) -> Option<Vec<String>> {
    let fields: Vec<String> = metadata.get(name).text()?.split_whitespace().map(str::to_owned).collect();
    (fields.len() == 5).then_some(fields)
}

/// What to write for one window a week, and for one a day, where one of both schedules has a single day and the other a
/// range of days that begins or ends with it: either may be meant.
fn readings(window: &CronWindow, metadata: &Node<'_>) -> Option<[String; 2]> {
    let (start, end) = (fields(metadata, "start")?, fields(metadata, "end")?);
    let (of_start, of_end) = (window.start.weekly_days()?, window.end.weekly_days()?);
    let with_days =
        |name: &str, fields: &[String], days: &str| format!("`{name}: {} {days}`", fields[..4].join(" "));
    let is_one = |days: u8| days.count_ones() == 1;
    let over_midnight = is_over_midnight(window)?;
    if is_one(of_end) && !is_one(of_start) {
        let (first, last) = bounds(of_start)?;
        let each = if over_midnight { days_after(of_start) } else { start[4].clone() };
        let is_last = of_end == 1 << last || of_end == 1 << ((last + 1) % 7);
        is_last.then(|| [with_days("start", &start, &first.to_string()), with_days("end", &end, &each)])
    } else if is_one(of_start) && !is_one(of_end) && !over_midnight {
        let (first, last) = bounds(of_end)?;
        (of_start == 1 << first)
            .then(|| [with_days("end", &end, &last.to_string()), with_days("start", &start, &end[4])])
    } else {
        None
    }
}

/// The first and the last day of the days of a week (bit 0 is Sunday) that follow each other without a gap.
fn bounds(days: u8) -> Option<(u32, u32)> {
    let has = |day: u32| days >> (day % 7) & 1 == 1;
    let mut firsts = (0..7).filter(|day| has(*day) && !has(day + 6));
    let first = firsts.next()?;
    let last = (0..7).find(|day| has(*day) && !has(day + 1))?;
    firsts.next().is_none().then_some((first, last))
}

/// The texts of `start` and `end` with which each start has one end, by field: the first minute of an hour in the place of
/// each one, the first time of a range in the place of all, and the days of the start for the end. `None` if these are not
/// enough.
fn better(window: &CronWindow, metadata: &Node<'_>) -> Option<Vec<(&'static str, String)>> {
    let (written_start, written_end) = (fields(metadata, "start")?, fields(metadata, "end")?);
    let (mut start, mut end) = (written_start.clone(), written_end.clone());
    for text in [&mut start, &mut end] {
        if text[0] == "*" && text[1] != "*" {
            text[0] = "0".to_owned();
        }
    }
    if window.start.weekly_days() != window.end.weekly_days() && start[0..4] != end[0..4] {
        let days = window.start.weekly_days()?;
        end[4] = if is_over_midnight(window)? { days_after(days) } else { start[4].clone() };
    }
    let mut first = start.clone();
    let is_range = |field: &str| field.contains(['*', '-', '/']) && !field.contains(',');
    let minute = window.start.minutes_of_day().next()?;
    if is_range(&first[0]) {
        first[0] = (minute % 60).to_string();
    }
    if is_range(&first[1]) {
        first[1] = (minute / 60).to_string();
    }
    let start = [start, first].into_iter().find(|start| is_paired(start, &end) == Some(true))?;
    let mut changes = Vec::new();
    if start != written_start {
        changes.push(("start", start.join(" ")));
    }
    if end != written_end {
        changes.push(("end", end.join(" ")));
    }
    (!changes.is_empty()).then_some(changes)
}

fn is_paired(start: &[String], end: &[String]) -> Option<bool> {
    let parse = |fields: &[String]| Schedule::parse(&fields.join(" ")).ok();
    let opening = CronWindow { start: parse(start)?, end: parse(end)? }.opening()?;
    Some(opening.unended.is_empty() && opening.unstarted.is_empty() && !opening.is_always())
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
