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

use crate::facts::cron::{Schedule, to_utc};
use crate::facts::timezone::{Zone, is_known};
use crate::karpenter::budget::{Budget, DisruptionReason, Week};
use crate::lint::finding::ellipsize;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-utc",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("budget_utc.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

const HOUR: i64 = 60;
const DAY: i64 = 24 * HOUR;

/// Words in comments that indicate local time.
const LOCAL_WORDS: &[&str] = &[
    "business hour",
    "working hour",
    "work hour",
    "office hour",
    "working day",
    "business day",
    "local time",
    "업무",
    "근무",
    "영업",
];
/// Common abbreviations of time zones.
const ZONES: &[&str] = &[
    "KST", "JST", "IST", "SGT", "CET", "CEST", "BST", "PST", "PDT", "PT", "MST", "MDT", "CST", "CDT", "EST",
    "EDT", "ET", "AEST", "AEDT",
];

/// The daily window of a budget.
#[derive(Clone, Copy)]
struct Window {
    /// Minutes after midnight.
    start: i64,
    minutes: i64,
}

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let (list, calendar) = pool.written_budgets()?;
    let remarks = remarks(object, &list);
    // A comment that mentions UTC shows that the author knows.
    if remarks.iter().any(|r| has_word(r, &["UTC", "GMT"])) {
        return None;
    }
    let zone = ctx.platform().zone().or_else(|| annotated(object));
    let windows: Vec<(Node<'_>, &Budget, Window)> = list
        .items()
        .zip(calendar.budgets())
        .filter_map(|(node, budget)| Some((node.get("schedule"), budget, window(budget)?)))
        .collect();
    match zone {
        Some(zone) => {
            let off: Vec<&(Node<'_>, &Budget, Window)> =
                windows.iter().filter(|(_, budget, window)| is_off(*window, budget, &zone)).collect();
            let (node, _, window) = off.first()?;
            let written = ellipsize(node.text().unwrap_or_default());
            let place = zone.city();
            let at = |offset: i64| clock(window.start + offset);
            let until = clock(window.start + window.minutes + zone.standard);
            let summer = match zone.summer {
                Some(summer) => format!(", in summer from {}", at(summer)),
                None => String::new(),
            };
            let week = Week::of(calendar, DisruptionReason::Drifted, Some(zone.clone()));
            let message = format!(
                "`{written}` counts in UTC: in {place} it is from {} to {until}{summer}",
                at(zone.standard)
            );
            let finding = ctx.report(node, message);
            if !calendar.never_allows() {
                finding.schedule_grid(week);
            }
            match zone.summer {
                Some(_) => {
                    finding.help("write hours of UTC that do in summer and in winter");
                }
                None => {
                    finding.help("write the hours in UTC, and say so in a comment");
                    if let Some(fix) = shifted(&list, &off, &zone) {
                        finding.fix(fix);
                    }
                }
            }
        }
        None => {
            let said = remarks.iter().find_map(|remark| local_word(remark));
            let (word, is_zone) = said?;
            let told = windows.iter().find(|(_, budget, window)| is_zone || kind(*window, budget).is_some());
            if let Some((node, _, _)) = told {
                let written = ellipsize(node.text().unwrap_or_default());
                ctx.report(
                    node,
                    format!("`{written}` counts in UTC, but a comment here speaks of `{}`", ellipsize(&word)),
                )
                .help("write the hours in UTC; with `platform.timezone` set gpulint shows both");
            }
        }
    }
    None
}

/// Moves the affected windows to the intended hours.
fn shifted(list: &Node<'_>, off: &[&(Node<'_>, &Budget, Window)], zone: &Zone) -> Option<Fix> {
    let title = format!("move the windows from UTC to {}", zone.city());
    let mut fix = Fix::new(title, Safety::Unsafe);
    let mut more = Vec::new();
    for (node, _, _) in off {
        let mut schedules = to_utc(node.text()?, zone.standard)?.into_iter();
        fix = fix.set(node, Value::String(schedules.next()?));
        let budget = list.items().find(|b| b.get("schedule").pointer() == node.pointer())?;
        for schedule in schedules {
            let mut copy = budget.to_json();
            copy["schedule"] = Value::String(schedule);
            more.push(copy);
        }
    }
    Some(more.into_iter().fold(fix, |fix, budget| fix.append(list, budget)))
}

/// The window of a budget that opens once a day.
fn window(budget: &Budget) -> Option<Window> {
    let Some(Ok(schedule)) = &budget.schedule else {
        return None;
    };
    if !schedule.restricts_hours() || schedule.never_fires() {
        return None;
    }
    let length = i64::try_from(budget.duration?).ok()?.div_euclid(60);
    let hits = |s: &Schedule| s.minutes_of_day().map(i64::from).collect::<Vec<_>>();
    let hits = hits(schedule);
    let (first, last) = (*hits.first()?, *hits.last()?);
    let closed = hits.windows(2).any(|pair| pair[1] - pair[0] > length);
    let minutes = last - first + length;
    (!closed && (1..DAY).contains(&minutes)).then_some(Window { start: first, minutes })
}

/// The part of the day that a window is intended for.
#[derive(Clone, Copy, PartialEq)]
enum Hours {
    Office,
    Night,
}

/// The hours that a window is intended for. A budget of zero at night has no obvious intention.
fn kind(window: Window, budget: &Budget) -> Option<Hours> {
    let start = window.start.rem_euclid(DAY);
    let end = start + window.minutes;
    let office = (6 * HOUR..=10 * HOUR + 30).contains(&start)
        && (15 * HOUR..=20 * HOUR + 30).contains(&end)
        && window.minutes >= 5 * HOUR;
    let night = (start >= 21 * HOUR && end <= DAY + 8 * HOUR) || (start <= 5 * HOUR && end <= 8 * HOUR);
    if office {
        Some(Hours::Office)
    } else if night && !budget.nodes.is_zero() && window.minutes <= 8 * HOUR {
        Some(Hours::Night)
    } else {
        None
    }
}

/// Whether the hours of a window are typical as written, but not after conversion from UTC to the zone.
fn is_off(window: Window, budget: &Budget, zone: &Zone) -> bool {
    let there = |offset: i64| Window { start: window.start + offset, ..window };
    kind(window, budget).is_some()
        && kind(there(zone.standard), budget).is_none()
        && zone.summer.is_none_or(|o| kind(there(o), budget).is_none())
}

fn clock(minute: i64) -> String {
    let minute = minute.rem_euclid(DAY);
    format!("{:02}:{:02}", minute / HOUR, minute % HOUR)
}

/// The zone given by an annotation of the pool. A name without location (`UTC`, `EST`) is ambiguous and
/// ignored.
fn annotated(object: &Object) -> Option<Zone> {
    let annotations = object.path(&["metadata", "annotations"]);
    annotations
        .entries()
        .iter()
        .filter_map(|(_, value)| value.text())
        .find(|text| text.contains('/') && is_known(text))
        .and_then(Zone::find)
}

/// The comments in the list of budgets, and those directly above it.
fn remarks(object: &Object, list: &Node<'_>) -> Vec<String> {
    let (Some(origin), Some(key), Some(span)) = (object.origin(), list.key_span(), list.span()) else {
        return Vec::new();
    };
    let text = origin.source.text();
    let (start, end) = (key.start as usize, span.end as usize);
    let (Some(before), Some(inside), Some(after)) =
        (text.get(..start), text.get(start..end), text.get(end..))
    else {
        return Vec::new();
    };
    let above = before.lines().rev().skip(1).map(str::trim);
    let above = above.take_while(|line| line.starts_with('#'));
    let rest = after.lines().next().unwrap_or_default();
    let same = inside.lines().map(str::to_owned);
    // A comment after the last value on its line.
    let mut lines: Vec<String> = same.collect();
    if let Some(last) = lines.last_mut() {
        last.push_str(rest);
    }
    let said = |line: &str| match line.trim_start().strip_prefix('#') {
        Some(comment) => Some(comment.to_owned()),
        None => line.split_once(" #").map(|(_, comment)| comment.to_owned()),
    };
    let above: Vec<&str> = above.take(8).collect();
    above.into_iter().chain(lines.iter().map(String::as_str)).filter_map(said).collect()
}

/// The word of a comment that indicates local time, and whether it is a time zone.
fn local_word(remark: &str) -> Option<(String, bool)> {
    if let Some(zone) = ZONES.iter().find(|zone| has_word(remark, &[zone])) {
        return Some(((*zone).to_owned(), true));
    }
    let lower = remark.to_lowercase();
    let at = LOCAL_WORDS.iter().find_map(|word| lower.find(word))?;
    // Up to the end of the last word: `hours`, `근무시간`.
    let letter = |c: &char| c.is_alphanumeric();
    let blank = |c: &char| *c == ' ';
    let mut rest = lower[at..].chars().peekable();
    let mut said: String = std::iter::from_fn(|| rest.next_if(letter)).collect();
    if said.is_ascii() && rest.next_if(blank).is_some() {
        said.push(' ');
        said.extend(std::iter::from_fn(|| rest.next_if(letter)));
    }
    Some((said, false))
}

fn has_word(text: &str, words: &[&str]) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
}
