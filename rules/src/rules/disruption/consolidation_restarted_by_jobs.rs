//! A CronJob runs more often than nodes wait before they are consolidated.
//!
//! # Why
//! Karpenter counts `consolidateAfter` from the last pod that came to a node or ended there, those of
//! DaemonSets aside. Where the pods of a CronJob come more often, the time never passes on the node that
//! they go to, with `WhenEmpty` as with `WhenEmptyOrUnderutilized`: at least one node of the pool stays as
//! it is, however large or empty it is between the runs.
//!
//! # Fix
//! Write a shorter `consolidateAfter`, or give the jobs a pool of their own.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: batch}
//!  spec:
//!    limits: {cpu: 400}
//! -  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 45m} # <-
//! +  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: batch}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!  ---
//!  apiVersion: batch/v1
//!  kind: CronJob
//!  metadata: {name: import}
//!  spec:
//!    schedule: "*/20 * * * *"
//!    jobTemplate:
//!      spec:
//!        template:
//!          spec:
//!            restartPolicy: Never
//!            nodeSelector: {karpenter.sh/nodepool: batch}
//!            containers:
//!              - name: main
//!                image: example.com/import:1.4.0
//!                resources: {requests: {cpu: 1, memory: 2Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#consolidation>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1921>

use super::goes_to;
use crate::facts::cron::Schedule;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "consolidation-restarted-by-jobs",
    reads: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    docs: docs(include_str!("consolidation_restarted_by_jobs.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

const DAY: i64 = 24 * 60;
/// The minutes that are looked at.
const WEEK: i64 = 7 * DAY;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let after = pool.disruption().get("consolidateAfter");
    let text = after.text()?;
    let seconds = GoDuration::parse(text).ok()?.seconds();
    if pool.is_static() || seconds == 0 {
        return None;
    }
    let found = ctx.cluster().of(Kind::CRON_JOB).find_map(|job| {
        let schedule = job.path(&["spec", "schedule"]);
        let is_frequent = !job.may_lack_fields()
            && is_suspended(job) == Some(false)
            && runs_within(schedule.text()?, seconds)
            && ctx.pairs_with(job)
            && goes_to(job, pool, ctx);
        is_frequent.then_some((job, schedule))
    });
    let (job, schedule) = found?;
    let message = format!(
        "pods of CronJob `{}` come more often than every {text}: the node that they go to is never consolidated",
        job.display_name()
    );
    ctx.report(&after, message)
        .help("write a shorter `consolidateAfter`, or give the jobs a pool of their own")
        .related(job, &schedule, "each of its pods starts the time again");
    None
}

/// Whether the longest pause between two runs is shorter than some seconds. It goes through the runs of each day: asked for the
/// next one, a schedule begins its day again, which took 65 % of a check of spack/spack-infrastructure.
fn runs_within(schedule: &str, seconds: i64) -> bool {
    let Ok(schedule) = Schedule::parse(schedule) else { return false };
    if schedule.never_fires() {
        return false;
    }
    let is_too_long = |pause: i64| pause.saturating_mul(60) >= seconds;
    let (mut day, mut last) = (0, 0);
    while !is_too_long(day * DAY - last) {
        let minutes = schedule.fires_on(day).then(|| schedule.minutes_of_day());
        for run in minutes.into_iter().flatten().map(|minute| day * DAY + i64::from(minute)) {
            if is_too_long(run - last) {
                return false;
            }
            last = run;
            if last >= WEEK {
                return true;
            }
        }
        day += 1;
    }
    false
}
