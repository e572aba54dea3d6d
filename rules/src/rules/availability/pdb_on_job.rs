//! A PodDisruptionBudget on pods of a Job allows no eviction.
//!
//! # Why
//! For `maxUnavailable`, and for a percentage in `minAvailable`, the disruption controller asks the
//! owner of the pods for its number of replicas through the `scale` subresource. A Job has none:
//! the PodDisruptionBudget gets the condition `DisruptionAllowed=False` with the reason `SyncFailed`
//! and allows no eviction, not even of the other pods that it selects, as long as a pod of the Job
//! exists. Pods of CronJobs, JobSets and ScaledJobs belong to Jobs too. A whole number in
//! `minAvailable` is compared with the healthy pods and works; if it is as large as the Job's
//! parallelism, it allows no eviction either. Meanwhile no node of these pods can be drained.
//!
//! # Fix
//! Write `minAvailable` as a whole number that is smaller than the number of pods. A run that must
//! not be interrupted is better protected by `karpenter.sh/do-not-disrupt: "true"` on its pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    parallelism: 8
//!    backoffLimit: 20
//!    template:
//!      metadata: {labels: {app: embed}}
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: "2"}}
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: embed}
//!  spec:
//! -  maxUnavailable: 2 # <-
//! +  minAvailable: 6
//!    selector: {matchLabels: {app: embed}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors>
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>

use crate::cluster::views::disruptions::{IntOrPercent, allows_none, runs_as_job, selects_by_job_label};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-on-job",
    kinds: &[Kind::PDB],
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("pdb_on_job.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (most, least) = (spec.get("maxUnavailable"), spec.get("minAvailable"));
    // A budget that allows no eviction for any pods is reported by pdb-blocks-evictions.
    if object.is_partial() || most.is_set() == least.is_set() || allows_none(object) {
        return None;
    }
    let (workloads, unknown) = ctx.cluster().views().selected_by(object);
    let jobs = || workloads.iter().map(|workload| &workload.object).filter(|object| runs_as_job(object));
    let first = jobs().next();
    let whose = match first {
        Some(job) => format!("{} `{}`", job.kind(), job.display_name()),
        None if selects_by_job_label(object) => "a Job".to_owned(),
        None => return None,
    };
    if most.is_set() || matches!(IntOrPercent::read(&least)?, IntOrPercent::Percent(_)) {
        let (field, node) = if most.is_set() { ("maxUnavailable", &most) } else { ("minAvailable", &least) };
        IntOrPercent::read(node)?;
        let value = node.string_or_number()?;
        let finding = ctx.report(
            node,
            format!("`{field}: {value}` allows no eviction while {whose} runs, because a Job has no scale"),
        );
        match workloads.iter().map(|workload| &workload.object).find(|object| !runs_as_job(object)) {
            // The Job is caught by labels that are meant for others.
            Some(meant) => finding.help(format!(
                "narrow the selector to the pods of `{}`: add a label that those of the Job do not have",
                meant.display_name()
            )),
            None => finding.help(
                "write `minAvailable` as a whole number, or protect the pods with `karpenter.sh/do-not-disrupt`",
            ),
        };
        if let Some(job) = first {
            finding.related(job, &job.path(&["metadata", "name"]), "its pods");
        }
        return None;
    }
    let IntOrPercent::Count(keep) = IntOrPercent::read(&least)? else { return None };
    let pods = jobs().map(pods_of).sum::<Option<i64>>()?;
    if unknown || first.is_none() || jobs().count() != workloads.len() || pods == 0 || keep < pods {
        return None;
    }
    let run = if jobs().count() == 1 { format!("{whose} runs") } else { "its Jobs run".to_owned() };
    let finding = ctx.report(&least, format!("`minAvailable: {keep}` allows no eviction: {run} {pods}"));
    finding.help("lower it, or protect the pods with `karpenter.sh/do-not-disrupt: \"true\"` instead");
    for job in jobs().take(3) {
        let parallelism = job.path(&["spec", "parallelism"]);
        let node = if parallelism.is_set() { parallelism } else { job.path(&["metadata", "name"]) };
        finding.related(job, &node, "its pods");
    }
    None
}

/// Maximum number of pods of a Job that run at once. `None` if it is not known.
fn pods_of(job: &Object) -> Option<i64> {
    if !job.is(Kind::JOB) {
        return None;
    }
    let number = |field: &str, default: i64| {
        let node = job.path(&["spec", field]);
        if node.is_set() { node.int() } else { Some(default) }
    };
    Some(number("parallelism", 1)?.min(number("completions", i64::MAX)?).max(0))
}
