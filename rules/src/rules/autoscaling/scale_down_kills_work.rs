//! A scale-down kills a worker before its work is done.
//!
//! # Why
//! A queue that gets shorter lowers the number of replicas, and the HPA that KEDA makes does not know which
//! pods are at work: a pod gets SIGTERM in the middle of a message, and is killed after
//! `terminationGracePeriodSeconds`, 30 by default. Work that takes longer is lost or done twice, and the hour
//! of a GPU with it. KEDA's documentation names two ways out: pods that have the time to finish, or a
//! ScaledJob, whose Jobs a scale-down does not end.
//!
//! It is a warning where the manifest says how long work may take: a time limit of Celery, or a variable
//! such as `TASK_TIMEOUT_SECONDS`, `MAX_PROCESSING_SECONDS` or `VISIBILITY_TIMEOUT` of SQS, and for agents
//! of Azure Pipelines and runners of GitHub with less than ten minutes, whose builds fail. For workers on
//! accelerators that leave the time at its default it is advice.
//!
//! # Fix
//! Raise `terminationGracePeriodSeconds` above the longest work and let the worker finish its message after
//! SIGTERM, or use a ScaledJob.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: transcriber, namespace: audio}
//!  spec:
//!    selector: {matchLabels: {app: transcriber}}
//!    template:
//!      metadata: {labels: {app: transcriber}}
//!      spec:
//! -      terminationGracePeriodSeconds: 60
//! +      terminationGracePeriodSeconds: 1860
//!        containers:
//!          - name: worker
//!            image: example.com/transcriber:3.1.0
//!            env: [{name: TASK_TIMEOUT_SECONDS, value: "1800"}]
//!            resources: {requests: {cpu: 2, memory: 8Gi}}
//!  ---
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: transcriber, namespace: audio}
//!  spec:
//!    scaleTargetRef:
//! -    name: transcriber # <-
//! +    name: transcriber
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: aws-sqs-queue
//!        metadata:
//!          queueURL: https://sqs.eu-west-1.amazonaws.com/111122223333/audio
//!          queueLength: "1"
//!          awsRegion: eu-west-1
//!        authenticationRef: {name: aws}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#long-running-executions>
//! - <https://github.com/kedacore/keda/issues/6719>

use super::scale_target::target;
use crate::keda::meaning::reads_queue;
use crate::keda::paused::never_scales_in;
use crate::rules::prelude::*;
use crate::workload::server::flag;

pub(crate) static RULE: Rule = Rule {
    id: "scale-down-kills-work",
    kinds: &[Kind::SCALED_OBJECT],
    reads: SCALABLE_KINDS,
    docs: docs(include_str!("scale_down_kills_work.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Options of Celery with the seconds that a task may take.
const LIMITS: [&str; 2] = ["--time-limit", "--soft-time-limit"];
/// Words of variables for the work, and for a time. A variable has one of each.
const WORK: [&str; 7] = ["TASK", "JOB", "MESSAGE", "WORK", "PROCESSING", "INFERENCE", HIDDEN];
/// The word for the time in which SQS shows a message to no other consumer.
const HIDDEN: &str = "VISIBILITY";
const TIME: [&str; 4] = ["TIMEOUT", "TIME", "DURATION", "RUNTIME"];
/// The word that, with a unit of time, stands for one of [`TIME`]: `MAX_PROCESSING_SECONDS`.
const MOST: &str = "MAX";
const UNITS: [&str; 11] =
    ["MS", "MILLIS", "MILLISECONDS", "S", "SEC", "SECS", "SECONDS", "MIN", "MINS", "MINUTES", "HOURS"];
/// Words of times for something else than the work on a message.
const OTHER: [&str; 24] = [
    "BATCH",
    "EXPIRY",
    "GUNICORN",
    "HEARTBEAT",
    "INTERVAL",
    "KEEPALIVE",
    "LOCK",
    "QUEUE",
    "RESULT",
    "SHUTDOWN",
    "WAIT",
    "MEMORY",
    "MEM",
    "RATE",
    "CPU",
    "CONNECT",
    "CONNECTION",
    "POLL",
    "SIZE",
    "GRACE",
    "RETRY",
    "STARTUP",
    "IDLE",
    "CONCURRENCY",
];
/// Seconds of grace in which the agents of most builds end by themselves.
const LONG_ENOUGH_FOR_BUILDS: i64 = 600;
/// Seconds that are left to the pod besides its work in the help.
const AFTER: i64 = 60;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (min, most) = (min_replicas(object)?, max_replicas(object)?);
    let is_queue = |trigger: Trigger<'_>| trigger.kind().is_some_and(reads_queue);
    let scale_down = spec.path(&["advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown"]);
    let goes_down = scale_down.get("selectPolicy").text() != Some("Disabled");
    // The step to zero is left to KEDA, which takes it when the queue is empty.
    let kills = goes_down && most > 1 && min < most && !never_scales_in(object)?;
    let is_for_agents = triggers(object).all(|trigger| trigger.kind().is_some_and(starts_builds));
    if object.is_partial() || !(is_for_agents || triggers(object).all(is_queue)) || !kills {
        return None;
    }
    let workload = target(object, ctx)?;
    let templates = templates(workload);
    let [template] = templates.as_slice() else { return None };
    let period = template.spec.get("terminationGracePeriodSeconds");
    let is_open =
        workload.is_partial() || workload.is_patched_by_kustomize() || template.spec.has_unknown_key();
    let hooked =
        template.all_containers().any(|container| container.path(&["lifecycle", "preStop"]).is_set());
    let mut containers = template.containers();
    if is_open || containers.any(|container| server_of(&container).is_some()) {
        return None;
    }
    let grace = template.grace_seconds()?;
    let node = object.path(&["spec", "scaleTargetRef", "name"]);
    let name = ellipsize(workload.name());
    let stated = template
        .containers()
        .filter_map(|container| longest(&container))
        .max_by_key(|(seconds, ..)| *seconds);
    if is_for_agents {
        if grace < LONG_ENOUGH_FOR_BUILDS && !hooked {
            let message = format!(
                "a scale-down ends agents of `{name}` in the middle of their builds, after {grace} s"
            );
            ctx.report(&node, message)
                .help("use a ScaledJob, which starts an agent for each build and ends none")
                .related(workload, &template.spec, "its pods");
        }
        return None;
    }
    match stated {
        Some((seconds, what, place)) if seconds >= 2 * grace && !hooked => {
            let message = format!(
                "a scale-down kills pods of `{name}` after {grace} s, and `{what}` allows work of {seconds} s"
            );
            ctx.report(&node, message)
                .help(format!(
                    "raise `terminationGracePeriodSeconds` to {}, or use a ScaledJob",
                    seconds + AFTER
                ))
                .related(workload, &place, "how long work may take");
        }
        None if !period.is_set() && !hooked && uses_accelerators(workload) => {
            let message = format!(
                "a scale-down gives pods of `{name}` {grace} s to finish the message that they work on"
            );
            ctx.report(&node, message)
                .severity(Severity::Info)
                .help("set `terminationGracePeriodSeconds` above the longest work, or use a ScaledJob")
                .related(workload, &template.spec, "its pods");
        }
        _ => {}
    }
    None
}

/// Whether triggers of a type count builds that wait for an agent.
fn starts_builds(kind: &str) -> bool {
    matches!(kind, "azure-pipelines" | "github-runner")
}

/// The longest time that the options or variables of a container give to a piece of work, their name and place.
fn longest<'a>(container: &Node<'a>) -> Option<(i64, String, Node<'a>)> {
    let line = command_line(container);
    let is_celery = line.contains("celery");
    let options = LIMITS.iter().filter(|_| is_celery).filter_map(|name| {
        let seconds: i64 = flag(&line, name)?.parse().ok()?;
        let field = if container.get("args").is_set() { "args" } else { "command" };
        Some((seconds, (*name).to_owned(), container.get(field)))
    });
    let variables = container.get("env").items().filter_map(|entry| {
        let name = entry.get("name").text()?;
        let value = entry.get("value");
        Some((seconds(name, value.string_or_number()?.parse().ok()?)?, ellipsize(name).into_owned(), value))
    });
    options.chain(variables.collect::<Vec<_>>()).max_by_key(|(seconds, ..)| *seconds)
}

/// The seconds of a variable, if its name says that it limits a piece of work.
fn seconds(name: &str, value: i64) -> Option<i64> {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split('_').collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let is_time = has(&TIME) || has(&[MOST]) && has(&UNITS);
    if !has(&WORK) || !is_time || has(&OTHER) {
        return None;
    }
    let seconds = match () {
        () if has(&["MS", "MILLIS", "MILLISECONDS"]) => Some(value / 1000),
        () if has(&["MIN", "MINS", "MINUTES"]) => value.checked_mul(60),
        () if has(&["HOURS"]) => value.checked_mul(3600),
        // Without a unit, a number of seconds that no count of minutes or milliseconds would be.
        () if has(&["S", "SEC", "SECS", "SECONDS"]) || (120..=86_400).contains(&value) => Some(value),
        () => None,
    }?;
    // A message is hidden for minutes by default and out of caution.
    (seconds >= LONG_ENOUGH_FOR_BUILDS || !has(&[HIDDEN])).then_some(seconds)
}
