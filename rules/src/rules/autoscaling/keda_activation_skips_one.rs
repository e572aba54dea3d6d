//! An activation threshold of 1 leaves a single message waiting.
//!
//! # Why
//! KEDA starts the first replica when a value is above the activation threshold, not when it reaches it. With
//! `activationQueueLength: "1"`, one message in the queue starts nothing: it waits until a second one
//! arrives. The default is 0, with which any message does.
//!
//! Only triggers that count whole items are looked at, such as messages of SQS, RabbitMQ, Kafka, or Redis,
//! or `SELECT count(…) FROM …` in SQL. A lag of Kafka may stand at 1 with all messages read, and a bucket
//! may hold a file that stays: there it is a note. A rate or a utilization may well have an activation
//! threshold of 1, and so may a trigger beside another one that starts replicas.
//!
//! # Fix
//! Write 0, or leave the activation threshold out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: mailer}
//!  spec:
//!    scaleTargetRef: {name: mailer}
//!    minReplicaCount: 0
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: redis-streams
//!        metadata:
//!          address: redis.mail:6379
//!          stream: mails
//!          consumerGroup: mailer
//!          lagCount: "5"
//! -        activationLagCount: "1" # <-
//! +        activationLagCount: "0"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#activating-and-scaling-thresholds>

use crate::keda::paused::is_on;
use crate::keda::value::number;
use crate::rules::autoscaling::scale_target::rests_at_zero;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-activation-skips-one",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    depends_on: &[Product::Keda],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_activation_skips_one.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The trigger types whose value is a number of items. Each of them compares with `value > threshold`
/// (`GetMetricsAndActivity` of KEDA 2.8 to 2.21).
const COUNTING: [&str; 36] = [
    "activemq",
    "apache-kafka",
    "artemis-queue",
    "aws-sqs-queue",
    "azure-blob",
    "azure-eventhub",
    "azure-pipelines",
    "azure-queue",
    "azure-servicebus",
    "beanstalkd",
    "cassandra",
    "gcp-cloudtasks",
    "gcp-pubsub",
    "gcp-storage",
    "ibmmq",
    "kafka",
    "liiklus",
    "mongodb",
    "mssql",
    "mysql",
    "nats-jetstream",
    "nsq",
    "openstack-swift",
    "postgresql",
    "pulsar",
    "rabbitmq",
    "redis",
    "redis-cluster",
    "redis-cluster-streams",
    "redis-sentinel",
    "redis-sentinel-streams",
    "redis-streams",
    "selenium-grid",
    "solace-event-queue",
    "stan",
    "temporal",
];

/// The types that may count one more than there is to do: transactions leave a mark in a topic of Kafka that no consumer
/// reads, and a bucket has an object for its folder or one that stays.
const MAY_HAVE_ONE: [&str; 5] = ["apache-kafka", "azure-blob", "gcp-storage", "kafka", "openstack-swift"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_at_zero = rests_at_zero(object)? || object.path(&["spec", "idleReplicaCount"]).int() == Some(0);
    if !is_at_zero || uses_modifiers(object)? || is_on(object, "force-activation")? {
        return None;
    }
    // Another trigger may start replicas before the second message arrives.
    let others = triggers(object).filter(|trigger| !trigger.is_resource());
    let found: Option<Vec<(Node<'_>, Severity)>> =
        others.map(|trigger| activation_of_one(&trigger, ctx)).collect();
    for (activation, severity) in found? {
        ctx.report(&activation, "a single item does not activate the scaler: KEDA activates it above 1")
            .severity(severity)
            .help("write 0, or leave it out: then a single item activates it")
            .fix(Fix::unsafe_("activate with the first item").set(&activation, json!("0")));
    }
    None
}

/// Whether a query of SQL gives a number of rows alone: an average or a ratio of counts is none.
fn counts_rows(query: &str) -> bool {
    let query = query.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let rest = query.strip_prefix("select count(").and_then(|rest| rest.split_once(')'));
    let between = rest.and_then(|(_, after)| after.split_once(" from "));
    between.is_some_and(|(between, _)| !between.contains(['/', '*', '+', '-', '(', ',']))
}

/// The activation threshold of a trigger that counts whole items, if it is 1, with the severity.
fn activation_of_one<'a>(trigger: &Trigger<'a>, ctx: &Context<'_>) -> Option<(Node<'a>, Severity)> {
    let kind = trigger.kind()?;
    let scaler = trigger.scaler(ctx.platform().keda).filter(|_| COUNTING.contains(&kind))?;
    let metadata = trigger.metadata();
    // Solace has several, the one for messages first.
    let key = scaler.keys.iter().find(|key| key.name.starts_with("activation"))?;
    let activation = metadata.get(key.name);
    let mode = metadata.get("mode");
    let is_mode = |names: &[&str]| mode.is_absent() || mode.text().is_some_and(|mode| names.contains(&mode));
    let counts_items = match kind {
        "gcp-pubsub" => is_mode(&["SubscriptionSize", "NumUndeliveredMessages"]),
        "rabbitmq" => is_mode(&["QueueLength"]),
        // A second threshold may activate it.
        "solace-event-queue" => {
            metadata.entries().iter().filter(|(key, _)| key.ends_with("Target")).count() == 2
        }
        "cassandra" | "mssql" | "mysql" | "postgresql" => {
            metadata.get("query").text().is_some_and(counts_rows)
        }
        _ => true,
    };
    let severity = if MAY_HAVE_ONE.contains(&kind) { Severity::Info } else { Severity::Warning };
    (counts_items && number(activation.text()?.trim()) == Some(1.0)).then_some((activation, severity))
}
