//! The strategy of a ScaledJob does not fit what its trigger counts.
//!
//! # Why
//! The `default` strategy starts as many Jobs as there are messages beyond the running Jobs: a message that a
//! Job works on must be among them. With `scaleOnInFlight: "false"`, `excludeUnacknowledged: "true"`, or over
//! AMQP it is not, and new messages wait until as many Jobs have ended as there are messages. `accurate` starts a
//! Job for each message and leaves out only Jobs that have not begun: where messages in progress count, it
//! starts further Jobs for them at each poll, unless the worker deletes a message as soon as it has it. Azure's
//! Service Bus counts the messages that a receiver has locked, and so does SQS by default. That
//! is an info, and a warning where a run takes many polls: with an accelerator. With `maxReplicaCount: 1` a
//! second Job never starts, and nothing is said.
//!
//! # Fix
//! Use `accurate` with a trigger that counts waiting messages, and `default` with one that counts all.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledJob
//!  metadata: {name: detect, namespace: vision}
//!  spec:
//!    maxReplicaCount: 20
//!    rollout: {strategy: gradual}
//! -  scalingStrategy: {strategy: default} # <-
//! +  scalingStrategy: {strategy: accurate}
//!    triggers:
//!      - type: aws-sqs-queue
//!        metadata:
//!          queueURL: https://sqs.eu-west-1.amazonaws.com/111122223333/detect
//!          queueLength: "1"
//!          awsRegion: eu-west-1
//!          scaleOnInFlight: "false"
//!        authenticationRef: {name: aws}
//!    jobTargetRef:
//!      activeDeadlineSeconds: 3600
//!      template:
//!        metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!        spec:
//!          restartPolicy: Never
//!          containers:
//!            - name: detect
//!              image: "example.com/detect:2.1.0"
//!              resources: {requests: {cpu: "3", memory: 12Gi}, limits: {memory: 12Gi}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledjob-spec/#scalingstrategy>
//! - <https://keda.sh/docs/latest/scalers/aws-sqs/>

use crate::keda::value::boolean;
use crate::rules::autoscaling::keda_in_flight_ignored::{LeftOut, left_out};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scaled-job-strategy-mismatch",
    kinds: &[Kind::SCALED_JOB],
    docs: docs(include_str!("scaled_job_strategy_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let strategy = object.path(&["spec", "scalingStrategy", "strategy"]);
    // Several triggers are combined in other ways.
    let mut all = triggers(object);
    let only = all.next().filter(|_| all.next().is_none())?;
    if object.is_partial() || object.path(&["spec", "scalingStrategy"]).has_unknown() {
        return None;
    }
    // One Job at a time is what every strategy comes to.
    if object.path(&["spec", "maxReplicaCount"]).int().is_some_and(|most| most <= 1) {
        return None;
    }
    match (strategy.text().unwrap_or("default"), left_out(&only)) {
        ("default", Some(by)) => {
            let place = match by {
                _ if strategy.is_set() => strategy,
                LeftOut::Key(node, _) | LeftOut::Amqp(node) | LeftOut::List(node) => node,
            };
            ctx.report(&place, "messages in progress do not count: new ones wait until running Jobs end")
                .help("write `scalingStrategy: {strategy: accurate}`");
        }
        ("accurate", None) => {
            let by = counts_in_progress(&only)?;
            // It loads a model or data, so that a run takes several polls. A deadline is an upper bound alone.
            let severity = if uses_accelerators(object) { Severity::Warning } else { Severity::Info };
            ctx.report(&strategy, "messages in progress count: more Jobs start for them at each poll")
                .help(format!("{by}, unless workers delete a message at once"))
                .severity(severity);
        }
        _ => {}
    }
    None
}

/// What to write so that the messages that a consumer holds do not count. `None` if they do not, or it is not known.
fn counts_in_progress(trigger: &Trigger<'_>) -> Option<&'static str> {
    let metadata = trigger.metadata();
    match trigger.kind()? {
        "aws-sqs-queue" => {
            let counts = metadata.get("scaleOnInFlight");
            let is_on =
                counts.is_absent() || counts.text().and_then(|text| boolean(text.trim())) == Some(true);
            is_on.then_some("write `scaleOnInFlight: \"false\"`, or `strategy: default`")
        }
        "rabbitmq" => {
            let is_length = metadata.get("mode").text() == Some("QueueLength");
            let is_http = metadata.get("protocol").text() == Some("http");
            (is_length && is_http && metadata.get("excludeUnacknowledged").is_absent())
                .then_some("write `excludeUnacknowledged: \"true\"`, or `strategy: default`")
        }
        // `ActiveMessageCount` (`azure_servicebus_scaler.go`), in which locked messages are: they stay active until they are completed.
        "azure-servicebus" => Some("write `strategy: default`"),
        _ => None,
    }
}
