//! A Volcano Queue may use less than one of its jobs requests.
//!
//! # Why
//! `capability` is the most that all pods of a Queue of Volcano may use. Pods of a job beyond it are made and
//! stay Pending. Karpenter knows nothing of queues: it starts nodes for them, on which Volcano does not place
//! them. If the job also needs all its pods at a time, it never runs.
//!
//! # Fix
//! Raise `capability`, or let the job run fewer pods at a time.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: scheduling.volcano.sh/v1beta1
//! kind: Queue
//! metadata: {name: vision}
//! spec:
//!   weight: 1
//!   capability: {nvidia.com/gpu: 4} # <-
//! ---
//! apiVersion: batch.volcano.sh/v1alpha1
//! kind: Job
//! metadata: {name: detector, namespace: vision}
//! spec:
//!   schedulerName: volcano
//!   queue: vision
//!   minAvailable: 8
//!   tasks:
//!     - name: worker
//!       replicas: 8
//!       template:
//!         spec:
//!           restartPolicy: Never
//!           containers:
//!             - name: train
//!               image: example.com/detector:2.1.0
//!               resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: scheduling.volcano.sh/v1beta1
//! kind: Queue
//! metadata: {name: vision}
//! spec:
//!   weight: 1
//!   capability: {nvidia.com/gpu: 8}
//! ---
//! apiVersion: batch.volcano.sh/v1alpha1
//! kind: Job
//! metadata: {name: detector, namespace: vision}
//! spec:
//!   schedulerName: volcano
//!   queue: vision
//!   minAvailable: 8
//!   tasks:
//!     - name: worker
//!       replicas: 8
//!       template:
//!         spec:
//!           restartPolicy: Never
//!           containers:
//!             - name: train
//!               image: example.com/detector:2.1.0
//!               resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://volcano.sh/en/docs/queue/>

use crate::fit::amount;
use crate::karpenter::scheduling::pod_requests;
use crate::rules::prelude::*;
use crate::workload::devices::pods_of;

pub(crate) static RULE: Rule = Rule {
    id: "volcano-queue-too-small",
    kinds: &[QUEUE],
    reads: &[QUEUE, Kind::VOLCANO_JOB, Kind::NODE_POOL],
    docs: docs(include_str!("volcano_queue_too_small.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

const QUEUE: Kind = Kind::new("scheduling.volcano.sh", "Queue");

fn check(queue: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Files beside each other may define it for several numbers of nodes, and one is applied.
    ctx.partner(QUEUE, "default", queue.name())?;
    let capability = queue.path(&["spec", "capability"]);
    if queue.may_lack_fields() {
        return None;
    }
    let is_queued = |job: &&Object| job.path(&["spec", "queue"]).text() == Some(queue.name());
    let jobs: Vec<&Object> = ctx
        .cluster()
        .of(Kind::VOLCANO_JOB)
        .filter(is_queued)
        .filter(|job| !job.is_partial() && ctx.pairs_with(job))
        .collect();
    for (resource, node) in capability.entries() {
        let Some(most) = Quantity::at(&node) else { continue };
        let above = jobs.iter().find_map(|job| {
            let all = requested(job, resource)?;
            (all > most.milli()).then_some((*job, all))
        });
        if let Some((job, all)) = above {
            report(queue, job, resource, (&node, all, most.milli()), ctx);
        }
    }
    None
}

/// What all pods of a job request of a resource. `None` if that is not known.
fn requested(job: &Object, resource: &str) -> Option<i128> {
    let mut all = 0;
    for template in templates(job) {
        let each = pod_requests(&to_scheduling_pod(&template)?).get(resource).copied().unwrap_or(0);
        all += each * i128::from(pods_of(job, &template)?);
    }
    Some(all)
}

fn report(
    queue: &Object,
    job: &Object,
    resource: &str,
    (node, all, most): (&Node<'_>, i128, i128),
    ctx: &mut Context<'_>,
) {
    let minimum = job.path(&["spec", "minAvailable"]);
    let tasks = job.path(&["spec", "tasks"]);
    let replicas: Option<i64> = tasks.items().map(|task| task.get("replicas").int_or(1)).sum();
    // Without the field it is the number of all pods.
    let needs_all = !minimum.is_set() || minimum.int() == replicas;
    let name = job.display_name();
    let (all, most) = (amount(resource, all), amount(resource, most));
    let what = format!(
        "`{name}` requests {all} of `{resource}`, and Queue `{}` may use {most}",
        queue.display_name()
    );
    let effect = if needs_all { "it never runs" } else { "some of its pods wait" };
    let has_pools = ctx.cluster().of(Kind::NODE_POOL).any(|pool| ctx.pairs_with(pool));
    let severity = if needs_all || has_pools { Severity::Warning } else { Severity::Info };
    ctx.report(node, format!("{what}: {effect}"))
        .severity(severity)
        .help(match has_pools {
            true => "raise it, or run fewer pods at a time: Karpenter starts nodes for the pods that wait",
            false => "raise it, or run fewer pods at a time",
        })
        .related(job, &job.path(&["spec", "queue"]), "this job is in the queue");
}
