//! A queue trigger ignores messages that are processed, and scales to zero.
//!
//! # Why
//! A message that a consumer holds is not visible in the queue. With `scaleOnInFlight: false`, or
//! `excludeUnacknowledged: "true"` of RabbitMQ, it does not count: as soon as the last message is taken the
//! trigger is inactive, and after `cooldownPeriod` KEDA scales to zero and ends the pod that works on it.
//! Work that takes longer than the cooldown is lost or done twice. A ScaledJob lets its Jobs finish. Over
//! AMQP, RabbitMQ never counts them: that is a warning where the cooldown is a minute or less or pods have
//! accelerators, else an info. It is an info too where their `terminationGracePeriodSeconds` is longer than
//! the cooldown, and nothing is said from a cooldown of twelve hours. A list of Redis, such as a queue of
//! Celery or Bull, does not count what its consumers have taken either: with accelerators that is a warning
//! up to the usual cooldown of five minutes, and an info for others where the cooldown is shorter than
//! that.
//!
//! # Fix
//! Remove the setting, ask RabbitMQ over HTTP, keep one replica, or use a ScaledJob for long work.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: worker, namespace: video}
//!  spec:
//!    scaleTargetRef: {name: worker}
//!    minReplicaCount: 0
//!    maxReplicaCount: 9
//!    triggers:
//!      - type: aws-sqs-queue
//!        metadata:
//!          queueURL: https://sqs.us-east-1.amazonaws.com/111122223333/video
//!          awsRegion: us-east-1
//!          queueLength: "1"
//! -        scaleOnInFlight: "false" # <-
//!        authenticationRef: {name: aws}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/aws-sqs/>
//! - <https://keda.sh/docs/latest/scalers/rabbitmq-queue/>

use crate::keda::paused::never_scales_in;
use crate::keda::value::boolean;
use crate::rules::autoscaling::scale_target::{rests_at_zero, target};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-in-flight-ignored",
    kinds: &[Kind::SCALED_OBJECT],
    reads: SCALABLE_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_in_flight_ignored.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The cooldown, in seconds, within which hardly any work ends.
const SHORT_COOLDOWN: i64 = 60;
/// The cooldown of KEDA where none is written, in seconds.
const USUAL_COOLDOWN: i64 = 300;
/// The cooldown within which nearly all work ends: twelve hours.
const LONG_COOLDOWN: i64 = 43_200;
/// The end of the help.
const GIVE: &str = "a longer grace period";

/// Types of triggers with the key that leaves held messages out, and its value.
const KEYS: [(&str, &str, bool); 3] = [
    ("aws-sqs-queue", "scaleOnInFlight", false),
    ("azure-pipelines", "scaleOnInFlight", false),
    ("rabbitmq", "excludeUnacknowledged", true),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let idle = spec.get("idleReplicaCount");
    if !(rests_at_zero(object)? || idle.int() == Some(0))
        || object.is_partial()
        || uses_modifiers(object) != Some(false)
        || never_scales_in(object) != Some(false)
    {
        return None;
    }
    let left_out: Vec<(Trigger<'_>, Option<LeftOut<'_>>)> = triggers(object)
        .map(|trigger| {
            let by = left_out(&trigger).or_else(|| list_of_redis(&trigger));
            (trigger, by)
        })
        .collect();
    // Another trigger may stay active while work is done; a resource trigger does not keep replicas.
    if left_out.iter().any(|(trigger, by)| by.is_none() && !trigger.is_resource()) {
        return None;
    }
    let cooldown =
        spec.get("cooldownPeriod").int_or(USUAL_COOLDOWN).filter(|cooldown| *cooldown < LONG_COOLDOWN)?;
    let workload = target(object, ctx);
    // Pods that are given time may finish their work.
    let has_time = workload.is_some_and(|workload| is_given_more(workload, cooldown));
    let message = "messages in progress do not count: KEDA scales to zero while a pod still works on one";
    for by in left_out.into_iter().filter_map(|(_, by)| by) {
        match by {
            LeftOut::Key(node, key) => {
                ctx.report(&node, message)
                    .severity(if has_time { Severity::Info } else { Severity::Warning })
                    .help(format!(
                        "remove `{key}`, keep one replica, use a ScaledJob for long work, or {GIVE}"
                    ))
                    .fix(Fix::unsafe_(format!("remove `{key}`")).remove(&node));
            }
            LeftOut::List(node) => {
                let has_devices = workload.is_some_and(uses_accelerators);
                if has_time || cooldown > USUAL_COOLDOWN || cooldown == USUAL_COOLDOWN && !has_devices {
                    continue;
                }
                ctx.report(&node, message)
                    .severity(if has_devices { Severity::Warning } else { Severity::Info })
                    .help(format!("raise `cooldownPeriod`, keep one replica, use a ScaledJob, or {GIVE}"));
            }
            LeftOut::Amqp(node) => {
                // Nobody has chosen it, and work that ends within the cooldown is not lost.
                let is_long = cooldown <= SHORT_COOLDOWN || workload.is_some_and(uses_accelerators);
                ctx.report(&node, message)
                    .severity(if is_long && !has_time { Severity::Warning } else { Severity::Info })
                    .help(format!(
                        "ask over HTTP (`protocol: http`), keep one replica, use a ScaledJob, or {GIVE}"
                    ));
            }
        }
    }
    None
}

/// Whether pods have more time to end than the cooldown, which work of seconds does not need.
fn is_given_more(workload: &Object, cooldown: i64) -> bool {
    let periods = templates(workload).into_iter();
    periods
        .filter_map(|one| one.spec.get("terminationGracePeriodSeconds").int())
        .any(|grace| grace > cooldown)
}

/// What leaves messages out that a consumer holds.
pub(super) enum LeftOut<'a> {
    /// A key of the metadata.
    Key(Node<'a>, &'static str),
    /// The protocol: over AMQP a broker says how many messages are ready (`getQueueStatus` of the scaler).
    Amqp(Node<'a>),
    /// A list, from which a consumer takes what it works on.
    List(Node<'a>),
}

/// The name of the list that a trigger of Redis counts (`LLEN` of the scaler, KEDA 2.14 to 2.21).
fn list_of_redis<'a>(trigger: &Trigger<'a>) -> Option<LeftOut<'a>> {
    let is_list = matches!(trigger.kind(), Some("redis" | "redis-cluster" | "redis-sentinel"));
    let name = trigger.metadata().get("listName");
    let text = name.text().filter(|_| is_list)?.to_ascii_lowercase();
    // A list of what is in work, which a consumer empties at the end.
    (!mentions(&text, &["active", "processing", "progress", "unacked", "pending"]))
        .then_some(LeftOut::List(name))
}

pub(super) fn left_out<'a>(trigger: &Trigger<'a>) -> Option<LeftOut<'a>> {
    let (_, key, value) = KEYS.iter().find(|(kind, ..)| trigger.kind() == Some(*kind))?;
    let metadata = trigger.metadata();
    let node = metadata.get(key);
    if node.text().is_some_and(|text| boolean(text.trim()) == Some(*value)) {
        return Some(LeftOut::Key(node, key));
    }
    let (protocol, mode) = (metadata.get("protocol"), metadata.get("mode"));
    let counts_length = !mode.is_set() && !mode.is_unknown() || mode.text() == Some("QueueLength");
    if trigger.kind() != Some("rabbitmq") || !counts_length {
        return None;
    }
    let host = metadata.get("host");
    match protocol.text() {
        Some("amqp") => Some(LeftOut::Amqp(protocol)),
        Some("auto") | None if !protocol.is_unknown() => {
            let scheme = host.text()?.split_once("://")?.0;
            matches!(scheme, "amqp" | "amqps").then_some(LeftOut::Amqp(host))
        }
        _ => None,
    }
}
