//! A Deployment trains: when the run ends, it starts again.
//!
//! # Why
//! The pods of a Deployment, a StatefulSet or a ReplicaSet have `restartPolicy: Always`. When a training
//! script is done, the kubelet starts its container again: it trains from the beginning, overwrites the
//! result or fails on it, and holds its accelerators until somebody deletes the object. Nothing says
//! whether a run has succeeded, and a rollout or the loss of a node starts it anew. That is so as well
//! where the first rank starts Ray, and then trains in the foreground.
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

use crate::rules::availability::server_port_mismatch::starts_others;
use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::class::is_training_command;
use crate::workload::command::{Word, base_name};
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

/// Programs that run a script of training until its end.
const PROGRAMS: [&str; 9] =
    ["accelerate", "bash", "deepspeed", "python", "python3", "sh", "source", "torchrun", "uv"];

/// Whether a command line, in lower case, may be one that keeps running.
fn may_stay(line: &str) -> bool {
    let line = OPTIONS.iter().fold(line.to_owned(), |line, option| line.replace(option, ""));
    STAYS.iter().any(|word| line.contains(word))
}

/// Whether a script of the container runs training in the foreground, outside of a loop, and does nothing after it. A command in
/// the background may be the training itself.
fn ends_with_training(container: &Node<'_>) -> bool {
    if starts_others(container) {
        return false;
    }
    let words = words(container);
    let commands: Vec<&[Word<'_>]> =
        words.split(|word| word.text == ";").filter(|command| !command.is_empty()).collect();
    let first = |at: usize| commands.get(at).map(|command: &&[Word<'_>]| command[0].text.as_str());
    let trains = |command: &[Word<'_>]| {
        let is_before = |text: &str| matches!(text, "then" | "else" | "exec" | "time") || text.contains('=');
        let mut texts = command.iter().map(|word| word.text.as_str()).skip_while(|text| is_before(text));
        let Some(program) = texts.next() else { return false };
        let line = texts.fold(program.to_owned(), |line, text| line + " " + text);
        let runs = PROGRAMS.contains(&base_name(program)) || program.ends_with(".sh");
        runs && is_training_command(&line) && !may_stay(&line.to_ascii_lowercase())
    };
    let mut loops = 0;
    for (at, command) in commands.iter().enumerate() {
        match command[0].text.as_str() {
            "while" | "until" | "for" => loops += 1,
            "done" => loops -= 1,
            _ if loops == 0 && trains(command) => {
                return matches!(first(at + 1), None | Some("else" | "elif" | "fi" | "exit"));
            }
            _ => {}
        }
    }
    false
}

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
    // A rank of Ray has ports and a loop that waits for the others. What it does at last is what counts.
    let ends = ends_with_training(&container);
    let is_rank = line.contains("ray start") && ends;
    // A command asks no server: `nvidia-smi`, `pgrep`, the age of a file.
    let is_request = |probe: &Node<'_>| probe.is_set() && !probe.get("exec").is_set();
    let answers = container.get("ports").is_set()
        || ["readinessProbe", "livenessProbe"].iter().any(|field| is_request(&container.get(field)));
    if line.is_empty() || !is_rank && (answers || may_stay(&line) && !ends) {
        return None;
    }
    let field = ["command", "args"].map(|field| container.get(field)).into_iter().find(Node::is_set)?;
    let (kind, name, reason) = (object.kind(), object.display_name(), &classified.evidence);
    ctx.report(&field, format!("{kind} `{name}` trains, and starts again whenever the run ends: {reason}"))
        .help("run it as a Job, which ends with the run and says whether it has succeeded");
    None
}
