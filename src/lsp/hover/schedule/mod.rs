//! Cron schedules: their week in the time zone that they are written for, in UTC and in the configured time
//! zone.

mod week;

use gpulint_rules::facts::cron::Schedule;
use gpulint_rules::facts::timezone::Zone;
use gpulint_rules::karpenter::budget::{Budget, Nodes, Week};
use gpulint_rules::karpenter::nodepool::{NodePool, budget};
use gpulint_rules::{Kind, Platform};

use super::Place;
use super::times::both;
use super::words::code;
use crate::lsp::view::View;
use week::{Windows, moments, windows_between, windows_of};

/// A time zone other than the one that a schedule is written for.
struct Clock {
    /// A name such as `UTC` or `Seoul, summer time`.
    name: String,
    /// The offset from the zone of the schedule, in minutes.
    ahead: i64,
}

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    let platform = &view.engine.settings().platform;
    let path = place.path();
    match path.as_slice() {
        ["spec", "disruption", "budgets"] if place.object.is(Kind::NODE_POOL) => of_budgets(place, platform),
        ["spec", "disruption", "budgets", _, field] | ["spec", "disruption", "budgets", _, field, _]
            if place.object.is(Kind::NODE_POOL) =>
        {
            let known = matches!(*field, "nodes" | "schedule" | "duration" | "reasons");
            known.then(|| of_budget(place, platform))?
        }
        ["spec", "triggers", _, "metadata", "start" | "end" | "timezone" | "desiredReplicas"] => {
            of_trigger(place, platform)
        }
        ["spec", "schedule" | "timeZone"] if place.object.is(Kind::CRON_JOB) => of_cron_job(place, platform),
        _ => None,
    }
}

/// The week of all budgets of a pool.
fn of_budgets(place: &Place<'_>, platform: &Platform) -> Option<String> {
    let pool = NodePool::new(place.object)?;
    let parts: Vec<String> = Week::all(pool.calendar()?, platform.zone()).iter().map(of_week).collect();
    Some(format!("When Karpenter may disrupt nodes of this pool:\n\n{}", parts.join("\n\n")))
}

/// The grid of a week, or one line if all hours are equal.
pub(super) fn of_week(week: &Week) -> String {
    match week.lines().as_slice() {
        [one] => format!("- {one}"),
        lines => format!("```text\n{}\n```", lines.join("\n")),
    }
}

fn of_budget(place: &Place<'_>, platform: &Platform) -> Option<String> {
    let item = place.ancestor(4);
    if item.has_unknown() || NodePool::new(place.object)?.is_static() {
        return None;
    }
    let Budget { nodes, schedule, duration, reasons } = budget(&item)?;
    let reasons = match reasons {
        Some(reasons) if reasons.is_empty() => return None,
        Some(reasons) => {
            let names: Vec<String> = reasons.iter().map(|reason| code(reason.name())).collect();
            format!(" for {}", names.join(", "))
        }
        None => String::new(),
    };
    let most = match nodes {
        nodes if nodes.is_zero() => "Karpenter disrupts no node".to_owned(),
        Nodes::Percent(percent) => {
            format!("Karpenter disrupts at most {percent}% of the nodes at a time, rounded up")
        }
        Nodes::Count(1) => "Karpenter disrupts at most 1 node at a time".to_owned(),
        Nodes::Count(count) => format!("Karpenter disrupts at most {count} nodes at a time"),
    };
    let (schedule, seconds) = match (schedule, duration) {
        (None, None) => return Some(format!("{most}{reasons}, at all times.")),
        (Some(Ok(schedule)), Some(seconds)) => (schedule, seconds),
        _ => return None,
    };
    if schedule.never_fires() {
        return Some(format!("{most}{reasons}, at all times: the schedule never fires."));
    }
    let length = i64::try_from(seconds / 60).ok()?;
    let clocks = local(&clocks_of(None), platform);
    let head = format!("{most}{reasons}");
    match windows_of(&schedule, length) {
        Some(windows) => Some(list(&head, "UTC", &windows, &clocks)),
        None => {
            let starts = on_some_days(&schedule, item.get("schedule").text()?)?;
            Some(format!("{head}, for {} each time: {starts} (UTC).", both(seconds)))
        }
    }
}

fn of_trigger(place: &Place<'_>, platform: &Platform) -> Option<String> {
    let trigger = place.ancestor(3);
    let metadata = trigger.get("metadata");
    if trigger.get("type").text() != Some("cron") || metadata.has_unknown() {
        return None;
    }
    let text = |name: &str| metadata.get(name).text();
    let (start, end) = (Schedule::parse(text("start")?).ok()?, Schedule::parse(text("end")?).ok()?);
    let zone = Zone::find(text("timezone")?)?;
    let replicas = metadata.get("desiredReplicas").string_or_number()?;
    let noun = if replicas == "1" { "replica" } else { "replicas" };
    let head = format!("At least {} {noun}", code(&replicas).trim_matches('`'));
    let windows = windows_between(&start, &end)?;
    let clocks = local(&clocks_of(Some(&zone)), platform);
    Some(list(&head, &zone.name, &windows, &clocks))
}

fn of_cron_job(place: &Place<'_>, platform: &Platform) -> Option<String> {
    let spec = place.object.get("spec");
    let written = spec.get("schedule").text()?;
    let schedule = Schedule::parse(written).ok()?;
    let zone = spec.get("timeZone");
    let zone = if zone.is_set() { Some(Zone::find(zone.text()?)?) } else { None };
    let name =
        zone.as_ref().map_or("the time zone of kube-controller-manager, mostly UTC", |zone| &zone.name);
    let Some(starts) = moments(&schedule) else {
        return Some(format!("Starts {} ({name}).", on_some_days(&schedule, written)?));
    };
    let clocks = match &zone {
        Some(zone) => local(&clocks_of(Some(zone)), platform),
        None => Vec::new(),
    };
    let mut out = format!("Starts **{}** ({name}).", starts.text(0));
    for clock in clocks.iter().filter(|_| schedule.restricts_hours()) {
        out.push_str(&format!("\n- {}: {}", clock.name, starts.text(clock.ahead)));
    }
    Some(out.replacen(".\n- ", ".\n\n- ", 1))
}

/// The windows in the zone that they are written for, and in other zones.
fn list(head: &str, zone: &str, windows: &Windows, clocks: &[Clock]) -> String {
    if windows.is_always() {
        return format!("{head}, at all times.");
    }
    let mut out = format!("{head}: **{}** ({zone}).", windows.text(0));
    let others: Vec<String> =
        clocks.iter().map(|clock| format!("- {}: {}", clock.name, windows.text(clock.ahead))).collect();
    if !others.is_empty() {
        out.push_str(&format!("\n\n{}", others.join("\n")));
    }
    out
}

/// The clocks of UTC for a schedule in a zone; none if the zone is UTC.
fn clocks_of(zone: Option<&Zone>) -> (Option<Zone>, Vec<Clock>) {
    let Some(zone) = zone.filter(|zone| !zone.is_utc()) else {
        return (None, Vec::new());
    };
    let mut clocks = Vec::new();
    let of = |name: &str, offset: i64| Clock { name: name.to_owned(), ahead: -offset };
    match zone.summer {
        None => clocks.push(of("UTC", zone.standard)),
        Some(summer) => {
            let city = zone.city();
            clocks.push(of(&format!("UTC while {city} has standard time"), zone.standard));
            clocks.push(of(&format!("UTC while {city} has summer time"), summer));
        }
    }
    (Some(zone.clone()), clocks)
}

/// Adds the clocks of the configured zone. If both zones have summer time, the changes may be on different
/// days of the year, and the configured zone is left out.
fn local((own, known): &(Option<Zone>, Vec<Clock>), platform: &Platform) -> Vec<Clock> {
    let mut clocks: Vec<Clock> =
        known.iter().map(|clock| Clock { name: clock.name.clone(), ahead: clock.ahead }).collect();
    let Some(zone) = platform.zone().filter(|zone| !zone.is_utc()) else {
        return clocks;
    };
    let is_own = own.as_ref().is_some_and(|own| own.name == zone.name);
    let base = own.as_ref().map_or(0, |own| own.standard);
    let changes = own.as_ref().and_then(|own| own.summer);
    let city = zone.city();
    match (zone.summer, changes) {
        _ if is_own => {}
        (Some(_), Some(_)) => {}
        (None, None) => clocks.push(Clock { name: city, ahead: zone.standard - base }),
        (Some(summer), None) => {
            clocks.push(Clock { name: format!("{city}, standard time"), ahead: zone.standard - base });
            clocks.push(Clock { name: format!("{city}, summer time"), ahead: summer - base });
        }
        (None, Some(own_summer)) => {
            let other = own.as_ref().map(Zone::city).unwrap_or_default();
            let name = |season: &str| format!("{city} while {other} has {season} time");
            clocks.push(Clock { name: name("standard"), ahead: zone.standard - base });
            clocks.push(Clock { name: name("summer"), ahead: zone.standard - own_summer });
        }
    }
    clocks
}

/// Describes the starts of a schedule that depends on the day of the month or on the month.
fn on_some_days(schedule: &Schedule, written: &str) -> Option<String> {
    let times = week::times(&schedule.minutes_of_day().map(i64::from).collect::<Vec<_>>());
    let fields: Vec<&str> = match written.trim() {
        "@monthly" => vec!["1", "*", "*"],
        "@yearly" | "@annually" => vec!["1", "1", "*"],
        text => text.split_whitespace().skip(2).collect(),
    };
    let [day, month, weekday] = fields.as_slice() else { return None };
    let any = |field: &str| matches!(field, "*" | "?");
    let mut parts = Vec::new();
    if !any(day) {
        parts.push(format!("day {} of the month", code(day)));
    }
    if !any(weekday) {
        parts.push(format!("weekday {}", code(weekday)));
    }
    // If both day fields are restricted, a day matches if either of them does.
    let mut text = format!("{times} on {}", parts.join(" or "));
    if parts.is_empty() {
        text = format!("{times} every day");
    }
    if !any(month) {
        text.push_str(&format!(", in month {}", code(month)));
    }
    Some(text)
}
