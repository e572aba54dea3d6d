//! A queue trigger ignores messages that are processed, and scales to zero.
//!
//! # Why
//! A message that a consumer holds is not visible in the queue. With `scaleOnInFlight: false`, or
//! `excludeUnacknowledged: "true"` of RabbitMQ, it does not count: as soon as the last message is taken the
//! trigger is inactive, and after `cooldownPeriod` KEDA scales to zero and ends the pod that works on it.
//! Work that takes longer than the cooldown is lost or done twice. A ScaledJob lets its Jobs finish.
//!
//! # Fix
//! Remove the setting, keep one replica, or use a ScaledJob for long work.
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

use crate::keda::uses_modifiers;
use crate::keda::value::boolean;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-in-flight-ignored",
    kinds: &[Kind::SCALED_OBJECT],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_in_flight_ignored.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Types of triggers with the key that leaves held messages out, and its value.
const KEYS: [(&str, &str, bool); 3] = [
    ("aws-sqs-queue", "scaleOnInFlight", false),
    ("azure-pipelines", "scaleOnInFlight", false),
    ("rabbitmq", "excludeUnacknowledged", true),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let rests_at_zero =
        spec.get("minReplicaCount").int_or(0)? == 0 || spec.get("idleReplicaCount").int() == Some(0);
    if !rests_at_zero || object.is_partial() || uses_modifiers(object) != Some(false) {
        return None;
    }
    let left_out = |trigger: &Trigger<'_>| {
        let (_, key, value) = KEYS.iter().find(|(kind, ..)| trigger.kind() == Some(*kind))?;
        let node = trigger.metadata().get(key);
        (boolean(node.text()?.trim()) == Some(*value)).then_some(())
    };
    // Another trigger may stay active while work is done; a resource trigger does not keep replicas.
    if triggers(object).any(|trigger| left_out(&trigger).is_none() && !trigger.is_resource()) {
        return None;
    }
    for trigger in triggers(object) {
        let Some((_, key, _)) = KEYS.iter().find(|(kind, ..)| trigger.kind() == Some(*kind)) else {
            continue;
        };
        let node = trigger.metadata().get(key);
        let message = "messages in progress do not count: KEDA scales to zero while a pod still works on one";
        ctx.report(&node, message)
            .help(format!("remove `{key}`, keep one replica, or use a ScaledJob for long work"))
            .fix(Fix::unsafe_(format!("remove `{key}`")).remove(&node));
    }
    None
}
