//! CronJob: name, schedule and time zone.

use serde_json::json;

use crate::facts::cron::{CronError, Schedule};
use crate::facts::duration::GoDuration;
use crate::facts::timezone;
use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::tree::node::Node;

use super::{Checker, job, quote};

pub(super) fn cron_job<'a>(object: &'a Object, spec: &Node<'a>, report: &mut Checker<'a>) {
    let node = object.path(&["metadata", "name"]);
    if node.text().is_some_and(|n| n.len() > 52) {
        report
            .error(&node, "the name of a CronJob has 52 characters at most")
            .help("its Jobs add 11 characters to it");
    }
    schedule(spec, report);
    time_zone(&spec.get("timeZone"), report);
    let template = spec.get("jobTemplate");
    let inner = template.get("spec");
    if template.is_mapping() && !inner.is_set() {
        report.required(&template, "spec");
    }
    if !inner.is_mapping() {
        return;
    }
    job::body(&inner, false, report);
    let chosen = inner.get("selector");
    if chosen.is_set() {
        report
            .error(&chosen, "the API server writes a Job's `selector` itself")
            .help("leave it out")
            .fix(Fix::new("remove `selector`", Safety::Safe).remove(&chosen));
    }
    let manual = inner.get("manualSelector");
    if manual.bool() == Some(true) {
        report
            .error(&manual, "a CronJob's Jobs have no `manualSelector`")
            .help("leave it out")
            .fix(Fix::new("remove `manualSelector`", Safety::Safe).remove(&manual));
    }
}

/// The schedule: five fields or a descriptor, `@every` included, without a `TZ=` prefix.
fn schedule<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let node = spec.get("schedule");
    let Some(text) = report.required_text(spec, "schedule") else { return };
    if text.contains("TZ") {
        let rest = text
            .strip_prefix("CRON_TZ=")
            .or_else(|| text.strip_prefix("TZ="))
            .and_then(|t| t.split_once(' '));
        let zone = spec.get("timeZone");
        let refusal = report.error(&node, "the time zone does not belong into the schedule");
        refusal.help("write it as `timeZone`");
        if let Some((name, rest)) = rest
            && zone.is_absent()
        {
            refusal.fix(
                Fix::new("move the time zone to `timeZone`", Safety::Safe)
                    .set(&node, json!(rest.trim()))
                    .set(&zone, json!(name)),
            );
        }
        return;
    }
    if let Some(every) = text.strip_prefix("@every ") {
        if GoDuration::parse(every).is_err() {
            report
                .error(&node, format!("{} is not a duration", quote(every)))
                .help("write hours, minutes and seconds: `@every 1h30m`");
        }
        return;
    }
    // `robfig/cron` rejects blanks around a descriptor.
    let error = match Schedule::parse(text) {
        Ok(_) if text.trim().starts_with('@') && text.trim() != text => {
            CronError::Descriptor(text.to_owned())
        }
        Ok(_) => return,
        Err(error) => error,
    };
    let message = match &error {
        CronError::FieldCount { found } => format!("the schedule has {found} fields, not 5"),
        CronError::Descriptor(_) => format!("{} is not a known schedule", quote(text)),
        CronError::Field { field, text, .. } => format!("{field} {} is not valid", quote(text)),
        CronError::TimeZone(_) => "the schedule holds a time zone".to_owned(),
    };
    let help = match &error {
        CronError::Field { field, .. } => {
            let (least, most) = field.bounds();
            format!("{field}: {least} to {most}, `*`, ranges, lists and steps")
        }
        _ => "write minute, hour, day of month, month and day of week: `0 3 * * 1`".to_owned(),
    };
    report.error(&node, message).help(help);
}

fn time_zone<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    let Some(name) = node.text() else { return };
    if timezone::is_known(name) {
        return;
    }
    let refusal = report.error(node, format!("{} is not a time zone", quote(name)));
    match timezone::nearest(name) {
        Some(near) if near.eq_ignore_ascii_case(name) => {
            refusal
                .help(format!("write `{near}`"))
                .fix(Fix::new(format!("write `{near}`"), Safety::Safe).set(node, json!(near)));
        }
        Some(near) => {
            refusal.help(format!("did you mean `{near}`?"));
        }
        None => {
            refusal.help("write a name of the time zone database: `Europe/Berlin`, `Etc/UTC`");
        }
    }
}
