//! A schedule fires on every day that meets one of both day fields.
//!
//! # Why
//! Where both the day of the month and the day of the week are restricted, cron takes every day that meets
//! either of them. `1-7 * mon` is not the first Monday of a month: it is its first seven days, and all of its
//! Mondays. This holds for the windows of KEDA's `cron` trigger, for Karpenter's disruption budgets and for
//! CronJobs, all of which use robfig/cron. Reported are ranges of three or more days of the month beside days
//! of the week, for CronJobs with accelerators only. A comment beside the schedule, or above it or its item,
//! that says "or" shows that its author knows, and so does a command of a CronJob that asks for the date.
//!
//! # Fix
//! Restrict one of both fields and write `*` in the other. Cron cannot say the first Monday of a month: a
//! CronJob can look at the date when it starts.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: billing, namespace: finance}
//!  spec:
//!    scaleTargetRef: {name: billing}
//!    minReplicaCount: 2
//!    maxReplicaCount: 12
//!    triggers:
//!      - type: cron
//!        metadata:
//!          timezone: Europe/Oslo
//! -        start: 0 7 1-5 * 1-5 # <-
//! -        end: 0 19 1-5 * 1-5
//! +        start: 0 7 1-5 * *
//! +        end: 0 19 1-5 * *
//!          desiredReplicas: "10"
//! ```
//!
//! # References
//! - <https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format>
//! - <https://keda.sh/docs/latest/scalers/cron/>

use crate::facts::cron::Schedule;
use crate::facts::text::lines_upwards;
use crate::rules::prelude::*;
use crate::workload::class::has_word;

pub(crate) static RULE: Rule = Rule {
    id: "cron-days-either",
    kinds: &[Kind::NODE_POOL, Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::CRON_JOB],
    docs: docs(include_str!("cron_days_either.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Maximum number of lines above a schedule whose comments are read.
const LINES_ABOVE: usize = 12;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::CRON_JOB) {
        if uses_accelerators(object) && is_suspended(object) == Some(false) && !asks_for_date(object) {
            inspect(object, &object.path(&["spec", "schedule"]), ctx);
        }
        return None;
    }
    for budget in object.root().items_at(&["spec", "disruption", "budgets"]) {
        inspect(object, &budget.get("schedule"), ctx);
    }
    for trigger in triggers(object).filter(|trigger| trigger.kind() == Some("cron")) {
        // Both ends of a window mostly have the days of each other: one finding is enough.
        let metadata = trigger.metadata();
        let _ = inspect(object, &metadata.get("start"), ctx)
            .or_else(|| inspect(object, &metadata.get("end"), ctx));
    }
    None
}

fn inspect(object: &Object, node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = node.text()?;
    let (either, both) = Schedule::parse(text).ok()?.days_of_either_and_both()?;
    if says_either(object, node) {
        return Some(());
    }
    let days = |days: i64| if days == 1 { "one day".to_owned() } else { format!("{days} days") };
    let message = format!(
        "`{}` fires on about {} a month, not on {}: a day that meets either field counts",
        ellipsize(text),
        days(either),
        match both {
            0 => "less than one".to_owned(),
            1 => "one".to_owned(),
            _ => both.to_string(),
        }
    );
    ctx.report(node, message)
        .help("write `*` as the day of the month or as the day of the week: cron cannot ask for both");
    Some(())
}

/// Whether a container of a CronJob asks for the date, so that it may end at once on other days.
fn asks_for_date(object: &Object) -> bool {
    templates(object).iter().flat_map(Template::all_containers).any(|container| {
        let line = command_line(&container);
        has_word(&line, "date") || mentions(&line, &["datetime", "weekday", "strftime"])
    })
}

/// Whether a comment about a schedule says that either of both days counts.
fn says_either(object: &Object, node: &Node<'_>) -> bool {
    let comments = comments_on(object, node);
    // A suppression has the id of the rule, in which there is such a word.
    let comments = comments.iter().filter(|comment| !comment.trim_start().starts_with("gpulint:"));
    let mut words = comments.flat_map(|comment| comment.split(|c: char| !c.is_alphanumeric()));
    words.any(|word| matches!(word, "or" | "either" | "plus" | "also" | "additionally"))
}

/// The comments on a schedule, in lower case: on its line, on the lines of its item of a list up to there, and on the lines right
/// above it or its item that are nothing else.
fn comments_on(object: &Object, node: &Node<'_>) -> Vec<String> {
    let Some((source, span)) = object.source().zip(node.span()) else { return Vec::new() };
    let mut comments = Vec::new();
    // A CronJob has no list of schedules.
    let mut is_above = object.is(Kind::CRON_JOB);
    let lines = lines_upwards(source.text(), span.end as usize).take(LINES_ABOVE + 1);
    for (at, line) in lines.enumerate() {
        let line = line.trim_start();
        if at > 0 && is_above && !line.starts_with('#') {
            break;
        }
        comments.extend(line.split_once('#').map(|(_, comment)| comment.to_lowercase()));
        is_above |= line.starts_with('-');
    }
    comments
}
