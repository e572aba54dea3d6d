//! A GPU job of a namespace with queues names none of them.
//!
//! # Why
//! Kueue counts what its queues admit. A job without `kueue.x-k8s.io/queue-name` starts at once, past the quota
//! and past everyone who waits, and its GPUs are missing from the account: admitted jobs stay Pending on nodes
//! that are full. It is reported where the namespace has a LocalQueue whose ClusterQueue covers the
//! accelerators that the job requests, as a warning where other jobs of the namespace are queued. A LocalQueue
//! called `default` takes jobs without a name. It is another matter where a configuration of Kueue in the input
//! has `manageJobsWithoutQueueName: true`, and its selector selects the namespace: Kueue suspends the job, and
//! never starts it. That is a warning. A label on the pods alone queues each pod by itself, where Kueue
//! manages pods: some of a run start, hold their GPUs and wait for the others. From Kueue 0.15 on, an annotation
//! of that name is not read.
//!
//! # Fix
//! Add the label with the name of a LocalQueue to the object.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ClusterQueue
//!  metadata: {name: gpu}
//!  spec:
//!    namespaceSelector: {}
//!    resourceGroups:
//!      - coveredResources: [cpu, memory, nvidia.com/gpu]
//!        flavors:
//!          - name: l4
//!            resources:
//!              - {name: cpu, nominalQuota: 80}
//!              - {name: memory, nominalQuota: 320Gi}
//!              - {name: nvidia.com/gpu, nominalQuota: 8}
//!  ---
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: LocalQueue
//!  metadata: {name: research, namespace: models}
//!  spec: {clusterQueue: gpu}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata:
//! -  name: evaluate # <-
//! +  name: evaluate
//!    namespace: models
//! +  labels: {kueue.x-k8s.io/queue-name: research}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/evaluate:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/tasks/run/jobs/>
//! - <https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/>

use super::kueue::{CONFIGURATION, QUEUE_LABEL, WithoutQueue, queue_name, without_queue};
use crate::rules::gitops::{DELIVERERS, gets_labels};
use crate::rules::prelude::*;
use crate::workload::devices::first_accelerator;

const JOBS: &[Kind] =
    &[Kind::JOB, Kind::JOB_SET, Kind::PYTORCH_JOB, Kind::MPI_JOB, Kind::TF_JOB, Kind::JAX_JOB, Kind::RAY_JOB];

pub(crate) static RULE: Rule = Rule {
    id: "gpu-job-not-queued",
    kinds: JOBS,
    reads: kinds![[Kind::LOCAL_QUEUE, Kind::CLUSTER_QUEUE], DELIVERERS, WORKLOAD_KINDS, CONFIGURATION],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_job_not_queued.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Maximum number of workloads of the namespace in which one with a queue is searched for.
const MOST_COMPARED: usize = 64;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let name = queue_name(object);
    let labels = object.path(&["metadata", "labels"]);
    let namespace = object.namespace()?;
    if object.may_lack_fields()
        || object.is_owned()
        || name.is_set()
        || labels.has_unknown_key()
        || labels.is_unknown()
        || gets_labels(object, ctx)
    {
        return None;
    }
    let queues = ctx.cluster().in_namespace(Kind::LOCAL_QUEUE, namespace);
    let queues: Vec<&Object> = queues.filter(|queue| ctx.cluster().likely_pairs(object, queue)).collect();
    if queues.iter().any(|queue| queue.name() == "default") {
        return None;
    }
    let templates = templates(object);
    let (resource, _) = templates.iter().find_map(first_accelerator)?;
    let mut pods = templates.iter().map(|template| template.metadata.get("labels").get(QUEUE_LABEL));
    if let Some(label) = pods.find(Node::is_set) {
        let name = object.display_name();
        let (what, severity) = match is_suspended(object) {
            Some(true) => ("Kueue does not see the job, which stays suspended", Severity::Warning),
            _ => ("Kueue admits each by itself, and does not queue the job", Severity::Info),
        };
        ctx.report(&label, format!("the queue is on the pods of `{name}`: {what}"))
            .at_key()
            .severity(severity)
            .help("move the label to `metadata.labels` of the object");
        return None;
    }
    let jobs = object.path(&["spec", "replicatedJobs"]);
    let labels_of_jobs = jobs.items().map(|job| job.path(&["template", "metadata", "labels"]));
    if let Some(label) = labels_of_jobs.map(|labels| labels.get(QUEUE_LABEL)).find(Node::is_set) {
        let replicas = jobs.items().map(|job| job.get("replicas").int().unwrap_or(1));
        if replicas.sum::<i64>() > 1 {
            let name = object.display_name();
            let message =
                format!("the queue is on the Jobs of `{name}`: Kueue admits each by itself, not the JobSet");
            ctx.report(&label, message)
                .at_key()
                .severity(Severity::Info)
                .help("move the label to `metadata.labels` of the JobSet");
        }
        return None;
    }
    let annotation = object.annotation(QUEUE_LABEL);
    if annotation.is_set() {
        let message = "Kueue 0.15 and later read the queue from the labels, and not from this annotation";
        ctx.report(&annotation, message)
            .at_key()
            .severity(Severity::Warning)
            .help("move it to `metadata.labels`: the job runs past the queues");
        return None;
    }
    let covers = |queue: &&&Object| {
        let name = queue.path(&["spec", "clusterQueue"]);
        let cluster_queue = name.text().and_then(|name| ctx.partner(Kind::CLUSTER_QUEUE, "default", name));
        cluster_queue.is_some_and(|queue| {
            let groups = queue.path(&["spec", "resourceGroups"]);
            let mut covered =
                groups.items().flat_map(|group| group.get("coveredResources").items().collect::<Vec<_>>());
            covered.any(|one| one.text() == Some(resource))
        })
    };
    let queue = *queues.iter().find(covers)?;
    let mut others = ctx.cluster().views().workloads_in(namespace).take(MOST_COMPARED);
    let is_used = others.any(|other| queue_name(&other.object).is_set());
    let is_complete = ctx.cluster().is_complete();
    let job = object.display_name();
    let suspending = match without_queue(object, ctx) {
        WithoutQueue::Starts => None,
        WithoutQueue::Suspended(by) => Some(by),
        WithoutQueue::Unknown => return None,
    };
    let (message, is_warning) = match suspending {
        Some(_) => {
            (format!("`{job}` names no queue: Kueue manages it all the same, and never starts it"), true)
        }
        None => (
            format!("`{job}` takes `{resource}` past the queues of its namespace: it names none"),
            is_used || is_complete,
        ),
    };
    let queue_named = queue.name().to_owned();
    let finding = ctx.report(&object.path(&["metadata", "name"]), message);
    finding
        .severity(if is_warning { Severity::Warning } else { Severity::Info })
        .help(format!("add the label `{QUEUE_LABEL}: {queue_named}`"))
        .fix(
            Fix::unsafe_(format!("queue it in `{queue_named}`"))
                .set(&labels.get(QUEUE_LABEL), json!(queue_named)),
        )
        .related(queue, &queue.path(&["metadata", "name"]), "a LocalQueue of the namespace");
    if let Some(by) = suspending {
        let text = "has `manageJobsWithoutQueueName: true`";
        finding.related(by, &by.path(&["metadata", "name"]), text);
    }
    None
}
