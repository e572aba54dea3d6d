//! A workload names a queue of Kueue, KAI or Volcano that does not exist.
//!
//! # Why
//! Kueue suspends a workload with the label `kueue.x-k8s.io/queue-name` until its LocalQueue admits it. If
//! its namespace has no LocalQueue of that name, or the LocalQueue names no ClusterQueue that exists, the
//! workload stays suspended, and only its events say why. It is reported where other queues of that kind
//! are in the input. Pods of KAI name a Queue by the label `kai.scheduler/queue`: without it, or without
//! the parent that it names, they stay Pending, and so do pods of a Queue that is the parent of others. The
//! default scheduler does not read that label: pods that do not name `kai-scheduler` start outside of the
//! quota of their queue. The webhook of Volcano rejects a Job whose Queue does not exist; `default` always does.
//!
//! # Fix
//! Write the name of a LocalQueue of the same namespace, or of a Queue of KAI or Volcano, or create it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: LocalQueue
//!  metadata: {name: research, namespace: models}
//!  spec: {clusterQueue: gpu}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata:
//!    name: evaluate
//!    namespace: models
//!    labels:
//! -    kueue.x-k8s.io/queue-name: reserch # <-
//! +    kueue.x-k8s.io/queue-name: research
//!  spec:
//!    suspend: true
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
//! - <https://kueue.sigs.k8s.io/docs/concepts/local_queue/>
//! - <https://kueue.sigs.k8s.io/docs/tasks/run/jobs/>
//! - <https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/queues/README.md>

use super::kueue::{propose, queue_name};
use crate::cluster::versions::Fact;
use crate::rules::prelude::*;
use crate::workload::gpu_share::{
    KAI_QUEUE, KAI_SCHEDULER, gpu_share, is_left_to_default_scheduler, kai_queue,
};

/// Maximum number of queues that are compared.
const MAX_COMPARED: usize = 64;

/// Queues of Volcano, which are of the cluster.
const VOLCANO_QUEUE: Kind = Kind::new("scheduling.volcano.sh", "Queue");
/// The queues that Volcano creates (`pkg/scheduler/cache/factory.go` and its hierarchical queues, 1.8 to 1.12).
const VOLCANO_DEFAULTS: [&str; 2] = ["default", "root"];

/// The name of the ClusterQueue that platforms with Kueue bring.
const DEFAULT_QUEUE: &str = "default";
/// The queues that the chart of KAI creates.
const KAI_DEFAULTS: [&str; 2] = ["default-queue", "default-parent-queue"];

pub(crate) static RULE: Rule = Rule {
    id: "queue-missing",
    kinds: kinds![[Kind::LOCAL_QUEUE, KAI_QUEUE], WORKLOAD_KINDS],
    reads: &[Kind::LOCAL_QUEUE, Kind::CLUSTER_QUEUE, KAI_QUEUE, VOLCANO_QUEUE],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("queue_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.is_owned() {
        return None;
    }
    if object.is(Kind::LOCAL_QUEUE) {
        return of_local_queue(object, ctx);
    }
    if object.is(Kind::VOLCANO_JOB) {
        of_volcano(object, ctx);
    }
    of_kai(object, ctx);
    let node = queue_name(object);
    let name = node.text().filter(|name| !name.is_empty())?;
    let namespace = object.namespace_or_default();
    if may_be_unread(ctx.cluster(), Kind::LOCAL_QUEUE.kind, name) {
        return None;
    }
    let mut elsewhere = Vec::new();
    let mut here = Vec::new();
    let is_there = |queue: &Object| ctx.pairs_with(queue);
    let (group, kind) = (Kind::LOCAL_QUEUE.group, Kind::LOCAL_QUEUE.kind);
    if ctx.cluster().all(group, kind, namespace, name).iter().any(is_there) {
        return None;
    }
    // Whether there is another one is asked of some: a cluster has few queues.
    for queue in ctx.cluster().of(Kind::LOCAL_QUEUE).take(MAX_COMPARED).filter(|queue| ctx.pairs_with(queue))
    {
        if queue.namespace_or_default() == namespace || queue.is_namespace_unknown() {
            if queue.name() == name {
                return None;
            }
            here.push(queue);
        } else if queue.name() == name {
            // An object without a namespace is applied to any.
            if queue.namespace().is_none() || object.namespace().is_none() {
                return None;
            }
            elsewhere.push(queue);
        }
    }
    let message = format!(
        "namespace `{namespace}` has no LocalQueue `{}`: the workload stays suspended",
        ellipsize(name)
    );
    if let Some(queue) = elsewhere.first() {
        let other = queue.namespace_or_default();
        ctx.report(&node, message)
            .help(format!("create it in this namespace: a LocalQueue of `{other}` admits nothing from here"))
            .related(queue, &queue.path(&["metadata", "namespace"]), "the LocalQueue of this name");
    } else if let Some(first) = here.first() {
        let finding = ctx.report(&node, message);
        propose(finding, &node, name, &here);
        finding.related(first, &first.path(&["metadata", "name"]), "a LocalQueue of the namespace");
    }
    None
}

/// Reports pods of KAI, or a queue, whose queue or parent is not among those of the input.
fn of_kai(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = if object.is(KAI_QUEUE) {
        object.path(&["spec", "parentQueue"])
    } else {
        let templates = templates(object);
        let of_kai =
            |template: &&Template<'_>| template.spec.get("schedulerName").text() == Some(KAI_SCHEDULER);
        let Some(template) = templates.iter().find(of_kai) else {
            return without_kai(object, &templates, ctx);
        };
        kai_queue(object, template)
    };
    let name = node
        .text()
        .filter(|name| !name.is_empty() && !is_placeholder(name) && !KAI_DEFAULTS.contains(name))?;
    // Queues have no namespace; one that is written all the same changes nothing.
    let all: Vec<&Object> = ctx.cluster().of(KAI_QUEUE).take(MAX_COMPARED).collect();
    if all.len() == MAX_COMPARED {
        return None;
    }
    if all.iter().any(|queue| queue.name() == name) {
        return if object.is(KAI_QUEUE) { None } else { parent_queue(&node, name, &all, ctx) };
    }
    let is_other = |queue: &&Object| !queue.is_same_resource(object) && ctx.pairs_with(queue);
    let queues: Vec<&Object> = all.into_iter().filter(is_other).collect();
    let first = *queues.first()?;
    let effect = if object.is(KAI_QUEUE) { "its pods" } else { "the pods" };
    let message = format!("no Queue of KAI is called `{}`: {effect} stay Pending", ellipsize(name));
    let finding = ctx.report(&node, message);
    propose(finding, &node, name, &queues);
    finding.related(first, &first.path(&["metadata", "name"]), "a Queue of the input");
    None
}

/// Reports a Job of Volcano whose Queue is not among those of the input: its webhook asks for it (`pkg/webhooks/admission/jobs/validate`).
fn of_volcano(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.path(&["spec", "queue"]);
    let name = node
        .text()
        .filter(|name| !name.is_empty() && !is_placeholder(name) && !VOLCANO_DEFAULTS.contains(name))?;
    let all: Vec<&Object> = ctx.cluster().of(VOLCANO_QUEUE).take(MAX_COMPARED).collect();
    if all.len() == MAX_COMPARED || all.iter().any(|queue| queue.name() == name) {
        return None;
    }
    let queues: Vec<&Object> = all.into_iter().filter(|queue| ctx.pairs_with(queue)).collect();
    let first = *queues.first()?;
    let message = format!("no Queue of Volcano is called `{}`: its webhook rejects the Job", ellipsize(name));
    let finding = ctx.report(&node, message);
    propose(finding, &node, name, &queues);
    finding.related(first, &first.path(&["metadata", "name"]), "a Queue of the input");
    None
}

/// Reports pods whose queue of KAI has queues below it: the scheduler takes jobs of leaf queues alone (`docs/queues` of KAI 0.9).
fn parent_queue(node: &Node<'_>, name: &str, queues: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let is_below =
        |queue: &&&Object| queue.path(&["spec", "parentQueue"]).text() == Some(name) && ctx.pairs_with(queue);
    let child = *queues.iter().find(is_below)?;
    let message =
        format!("Queue `{}` of KAI has queues below it: its own pods stay Pending", ellipsize(name));
    ctx.report(node, message)
        .reports_absence(false)
        .help(format!(
            "name a queue with a parent and without others below it, such as `{}`",
            ellipsize(child.name())
        ))
        .related(child, &child.path(&["spec", "parentQueue"]), "a queue below it");
    None
}

/// Reports pods with a queue of KAI that the default scheduler places, which does not read it.
fn without_kai(object: &Object, templates: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    // A part of a GPU without KAI is reported by `gpu-not-requested`.
    let outside = |template: &&Template<'_>| {
        is_left_to_default_scheduler(template)
            && (gpu_share(template).is_none() || requests_accelerator(template))
    };
    let template = templates.iter().find(outside).filter(|_| !object.may_lack_fields())?;
    let node = kai_queue(object, template);
    let name = node.text().filter(|name| !name.is_empty())?;
    let message = format!("the default scheduler does not read queue `{}` of KAI", ellipsize(name));
    ctx.report(&node, message)
        .reports_absence(false)
        .help(format!("write `schedulerName: {KAI_SCHEDULER}` in the pods, or remove the label"));
    None
}

/// Reports a LocalQueue whose ClusterQueue is not among those of the input.
fn of_local_queue(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.path(&["spec", "clusterQueue"]);
    let name = node.text()?;
    let (group, kind) = (Kind::CLUSTER_QUEUE.group, Kind::CLUSTER_QUEUE.kind);
    if !ctx.cluster().all(group, kind, "default", name).is_empty() {
        return None;
    }
    let queues: Vec<&Object> = ctx
        .cluster()
        .of(Kind::CLUSTER_QUEUE)
        .take(MAX_COMPARED)
        .filter(|queue| ctx.pairs_with(queue))
        .collect();
    let first = *queues.first()?;
    if queues.iter().any(|queue| queue.name() == name) {
        return None;
    }
    // Platforms bring a queue of this name; OpenShift AI that of `kueue.defaultClusterQueueName` of its DataScienceCluster.
    let is_complete = ctx.cluster().is_complete();
    if name == DEFAULT_QUEUE && !is_complete {
        return None;
    }
    // The administrators of a cluster often keep its ClusterQueues elsewhere: a name that is similar to none may be one of theirs.
    let is_similar = nearest(name, queues.iter().map(|queue| queue.name())).is_some();
    let may_be_brought = !is_complete && (!is_similar || ctx.cluster().is_shown(&Fact::OpenShift));
    let message = match may_be_brought {
        true => format!(
            "the input has no ClusterQueue `{}`: without one the queue admits nothing",
            ellipsize(name)
        ),
        false => format!("no ClusterQueue is called `{}`: the queue admits nothing", ellipsize(name)),
    };
    let finding = ctx.report(&node, message);
    if may_be_brought {
        finding.severity(Severity::Info);
    }
    propose(finding, &node, name, &queues);
    finding.related(first, &first.path(&["metadata", "name"]), "a ClusterQueue of the input");
    None
}
