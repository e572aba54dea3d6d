//! A pool's `terminationGracePeriod` is shorter than the runs on its nodes.
//!
//! # Why
//! Karpenter does not replace a drifted node while a pod with `karpenter.sh/do-not-disrupt` runs on it, as
//! long as the pool has no `terminationGracePeriod`. With the field set it does: the node is drained in spite
//! of the annotation, and when the period is over, the pods are deleted. A new image of an alias, or any
//! change of the pool, then ends every run that takes longer. Expiry does the same.
//!
//! # Fix
//! Write a period that is longer than the longest run, or keep drift away while runs go on: a budget of
//! `nodes: "0"` for the reason `Drifted`, and `expireAfter: Never`. Below `short-seconds` the period is short
//! for protected pods of any length.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: batch}
//!  spec:
//!    template:
//!      metadata: {labels: {example.com/team: batch}}
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -      terminationGracePeriod: 30m # <-
//! +      terminationGracePeriod: 12h
//!    limits: {cpu: 400}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: render}
//!  spec:
//!    activeDeadlineSeconds: 43200
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector: {example.com/team: batch}
//!        containers:
//!          - name: main
//!            image: example.com/render:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod>
//! - <https://karpenter.sh/docs/concepts/disruption/#drift>

use std::sync::Arc;

use crate::cluster::placement::{EvictionBlocker, READS, termination_grace_period};
use crate::facts::duration::format_hours;
use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::rules::prelude::*;
use crate::workload::template::run_limit;

pub(crate) static RULE: Rule = Rule {
    id: "grace-period-ends-runs",
    reads: READS,
    params: &[Param {
        name: "short-seconds",
        description: "the period, in seconds, below which it is short for protected pods of any length",
        default: ParamDefault::Int { default: 600, min: 1, max: 604_800 },
    }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("grace_period_ends_runs.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

/// What drains a node in spite of the annotation, as the subject of a sentence.
fn cause(pool: &NodePool<'_>) -> Option<&'static str> {
    let drift_is_held = pool
        .written_budgets()
        .is_some_and(|(_, calendar)| calendar.is_always(DisruptionReason::Drifted, AllowanceState::Zero));
    if !drift_is_held {
        return Some("drift");
    }
    pool.expire_after()?.seconds().map(|_| "expiry")
}

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let limit = termination_grace_period(object).filter(|_| !object.is_partial())?;
    let cause = cause(pool)?;
    let guests = ctx.cluster().views().blockers_on(object, ctx.platform());
    // The finding about the grace period of pods is at the same field.
    if guests.iter().any(|guest| guest.grace > limit) {
        return None;
    }
    let short = limit < ctx.int("short-seconds");
    let concerned = |guest: &&Arc<EvictionBlocker>| {
        guest.protected && run_limit(&guest.workload).map_or(short, |run| run > limit)
    };
    let mut concerned: Vec<&Arc<EvictionBlocker>> = guests.iter().filter(concerned).collect();
    // The longest run first; of equal ones the first in the order of the objects.
    concerned.sort_by_key(|guest| std::cmp::Reverse(run_limit(&guest.workload).unwrap_or(0)));
    let guest = &concerned.first()?.workload;
    report(pool, guest, limit, cause, ctx);
    None
}

fn report(pool: &NodePool<'_>, guest: &Object, limit: i64, cause: &str, ctx: &mut Context<'_>) {
    let field = pool.template_spec().get("terminationGracePeriod");
    let (name, after) = (guest.display_name(), written(limit));
    let run = run_limit(guest);
    let message = match run {
        Some(run) => {
            format!(
                "{cause} no longer waits for `{name}`, which may run for {}, and ends it after {after}",
                written(run)
            )
        }
        None => {
            format!("{cause} no longer waits for the protected pods of `{name}`, and ends them after {after}")
        }
    };
    let finding = ctx.report(&field, message);
    finding.related(guest, &guest.path(&["metadata", "name"]), "its pods run here with do-not-disrupt");
    match run {
        Some(run) => {
            let hours = format_hours(run.saturating_add(3599) / 3600 * 3600);
            finding
                .help(format!("write `{hours}` or more, or a budget of `nodes: \"0\"` for `Drifted`"))
                .fix(
                    Fix::new(format!("let runs of {hours} end"), Safety::Unsafe)
                        .replaces_nodes()
                        .set(&field, json!(hours)),
                );
        }
        None if runs_forever(guest) => {
            finding.help("write a period in which these pods can hand over their work");
        }
        None => {
            finding.help("write a period that is longer than the longest run");
        }
    }
}

/// Seconds as people write them: `90s`, `30m`, `72h`.
fn written(seconds: i64) -> String {
    match seconds {
        s if s % 3600 == 0 && s > 0 => format!("{}h", s / 3600),
        s if s % 60 == 0 && s > 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}
