//! A Deployment trains: when the run ends, it starts again.
//!
//! # Why
//! The pods of a Deployment, a StatefulSet or a ReplicaSet have `restartPolicy: Always`. When a training
//! script is done, the kubelet starts its container again: it trains from the beginning, overwrites the
//! result or fails on it, and holds its accelerators until somebody deletes the object. Nothing says whether
//! a run has succeeded, and a rollout or the loss of a node starts it anew.
//!
//! # Fix
//! Run it as a Job, or as the object of a training operator.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata: {name: tune}
//! spec:
//!   replicas: 1
//!   strategy: {type: Recreate}
//!   selector: {matchLabels: {app: tune}}
//!   template:
//!     metadata: {labels: {app: tune}}
//!     spec:
//!       containers:
//!         - name: main
//!           image: example.com/tune:1.4.0
//!           command: [python, train.py] # <-
//!           resources:
//!             requests: {cpu: 3, memory: 12Gi}
//!             limits: {memory: 12Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: tune}
//! spec:
//!   backoffLimit: 2
//!   activeDeadlineSeconds: 600
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!         - name: main
//!           image: example.com/tune:1.4.0
//!           command: [python, train.py]
//!           resources:
//!             requests: {cpu: 3, memory: 12Gi}
//!             limits: {memory: 12Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/>

use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "training-in-deployment",
    kinds: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::REPLICA_SET],
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("training_in_deployment.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Words of scripts that keep running: loops, workers of a queue, servers, and shells that wait.
const STAYS: [&str; 14] = [
    "while",
    "sleep",
    "tail",
    "celery",
    "worker",
    "serve",
    "server",
    "uvicorn",
    "gunicorn",
    "ray start",
    "watch",
    "agent",
    "listen",
    "schedule",
];

/// Options of training scripts whose names have such a word.
const OPTIONS: [&str; 6] =
    ["num_workers", "num-workers", "--workers", "lr_scheduler", "lr-scheduler", "--scheduler"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || !trains(object, ctx) || replicas(object) == Some(0) {
        return None;
    }
    let classified = ctx.class_of(object);
    // Its name and labels do not say what its command does.
    if classified.is_declared() || classified.confidence < Confidence::Medium {
        return None;
    }
    let templates = templates(object);
    let [template] = templates.as_slice() else { return None };
    let mut containers = template.containers();
    let (container, None) = (containers.next()?, containers.next()) else { return None };
    let line = command_line(&container).to_ascii_lowercase();
    let line = OPTIONS.iter().fold(line, |line, option| line.replace(option, ""));
    let answers =
        ["ports", "readinessProbe", "livenessProbe"].iter().any(|field| container.get(field).is_set());
    if line.is_empty() || answers || STAYS.iter().any(|word| line.contains(word)) {
        return None;
    }
    let field = ["command", "args"].map(|field| container.get(field)).into_iter().find(Node::is_set)?;
    let (kind, name, reason) = (object.kind(), object.display_name(), &classified.evidence);
    ctx.report(&field, format!("{kind} `{name}` trains, and starts again whenever the run ends: {reason}"))
        .help("run it as a Job, which ends with the run and says whether it has succeeded");
    None
}
