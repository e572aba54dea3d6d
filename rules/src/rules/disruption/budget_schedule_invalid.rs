//! A disruption budget has a schedule that Karpenter cannot use.
//!
//! # Why
//! The API server checks the shape of a schedule only roughly. A weekday of 7, a range that runs
//! backwards or a time zone of its own pass, and Karpenter finds the mistake only when it is about to
//! disrupt a node. From then on it allows nothing, for any reason, even where the budget names another
//! one: no consolidation, no drift, no new AMI, while the pool still says Ready. A date that does not
//! exist (31 February) does the opposite of what was meant: such a budget counts as active at all
//! times. `schedule` and `duration` only come together; one alone is rejected.
//!
//! # Fix
//! Write five fields, in UTC, weekdays 0 to 6 or `sun` to `sat`, or one of `@hourly`, `@daily`,
//! `@weekly`, `@monthly`, `@yearly`, and a `duration` of hours and minutes.
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
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!    limits: {cpu: 200}
//!    disruption:
//!      consolidationPolicy: WhenEmptyOrUnderutilized
//!      consolidateAfter: 5m
//!      budgets:
//!        - nodes: 20%
//!        - nodes: "0"
//! -        schedule: 0 0 * * sat-sun # <-
//! +        schedule: 0 0 * * sat,sun
//!          duration: 24h
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1866>
//! - <https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format>

use crate::facts::cron;
use crate::facts::cron::{CronError, Schedule};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "budget-schedule-invalid",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    fix: Some(Safety::Safe),
    owns: &[Ownership { path: "spec/disruption/budgets/*/schedule", aspect: Aspect::Value }],
    docs: docs(include_str!("budget_schedule_invalid.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for budget in pool.disruption().get("budgets").items() {
        let schedule = budget.get("schedule");
        let duration = budget.get("duration");
        match (schedule.is_set(), duration.is_set()) {
            (true, false) => {
                ctx.report(&schedule, "the budget has a `schedule` but no `duration`")
                    .rejected_by(Some(Authority::ApiServer))
                    .help("add `duration`, for example `8h`: the API server rejects one without the other");
            }
            (false, true) => {
                ctx.report(&duration, "the budget has a `duration` but no `schedule`")
                    .rejected_by(Some(Authority::ApiServer))
                    .help("add `schedule`: the API server rejects one without the other");
            }
            _ => {}
        }
        if let Some(text) = schedule.text() {
            inspect(&schedule, text, ctx);
        }
    }
    None
}

fn inspect(node: &Node<'_>, text: &str, ctx: &mut Context<'_>) {
    let by = if cron::crd_accepts(text) { Authority::Karpenter } else { Authority::ApiServer };
    let error = match Schedule::parse(text) {
        // The library accepts spaces that the pattern of the CRD does not.
        Ok(_) if by == Authority::ApiServer => {
            let better = text.trim();
            ctx.report(
                node,
                "the API server rejects the schedule: it has blanks around it, or a line break after it",
            )
            .rejected_by(Some(by))
            .help(format!("write `{}` alone", ellipsize(better)))
            .fix(Fix::new("remove the blanks", Safety::Safe).set(node, json!(better)));
            return;
        }
        Ok(schedule) => {
            if schedule.never_fires() {
                ctx.report(
                    node,
                    format!(
                        "schedule `{}` names no date that exists, so its budget always applies",
                        ellipsize(text)
                    ),
                )
                .help("write a day that the month has, or remove `schedule` and `duration`");
            }
            return;
        }
        Err(error) => error,
    };
    let problem = error.to_string().replace('"', "`");
    let effect = match by {
        Authority::ApiServer => "the API server rejects the schedule",
        _ => "the schedule stops all disruption of the pool",
    };
    let help = match &error {
        CronError::TimeZone(_) => "schedules are in UTC: shift the hours and drop the prefix",
        CronError::Descriptor(_) => "write five fields, or @hourly, @daily, @weekly, @monthly or @yearly",
        CronError::FieldCount { .. } => "write minute, hour, day of month, month and day of week, in UTC",
        CronError::Field { .. } => "write numbers, lists and ascending ranges; weekdays are 0 to 6",
    };
    let finding = ctx.report(node, format!("{effect}: {problem}"));
    finding.help(help).rejected_by(Some(by));
    if let Some(better) = cron::suggest(text) {
        finding.fix(Fix::new(format!("write `{better}`"), Safety::Safe).set(node, json!(better)));
    }
}
