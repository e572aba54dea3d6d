//! A Kafka trigger never reaches the maximum: the topic has fewer partitions.
//!
//! # Why
//! In a consumer group one consumer reads a partition, and more of them wait without work. KEDA's Kafka
//! scalers therefore ask for at most as many replicas as the topic has partitions, whatever `maxReplicaCount`
//! says: the lag grows, and nothing tells why. It is reported where the input has the KafkaTopic of Strimzi,
//! and Kafka is the only trigger, with the metric type `AverageValue`.
//!
//! # Fix
//! Give the topic as many partitions as there are to be consumers (their number can only grow), or write the
//! number of partitions in `maxReplicaCount`. `allowIdleConsumers: "true"` lifts the limit, for consumers
//! that do more than read.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: orders, namespace: shop}
//!  spec:
//!    scaleTargetRef: {name: orders}
//! -  maxReplicaCount: 40 # <-
//! +  maxReplicaCount: 6
//!    fallback: {failureThreshold: 3, replicas: 2}
//!    triggers:
//!      - type: apache-kafka
//!        metadata:
//!          bootstrapServers: events-kafka-bootstrap.shop.svc:9092
//!          consumerGroup: orders
//!          topic: orders
//!          lagThreshold: "50"
//!  ---
//!  apiVersion: kafka.strimzi.io/v1beta2
//!  kind: KafkaTopic
//!  metadata: {name: orders, namespace: shop, labels: {strimzi.io/cluster: events}}
//!  spec: {partitions: 6, replicas: 3}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/apache-kafka/>
//! - <https://strimzi.io/docs/operators/latest/configuring#type-KafkaTopic-reference>

use crate::cluster::together::is_in_written_namespace;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "replicas-beyond-partitions",
    kinds: &[Kind::SCALED_OBJECT],
    reads: &[Kind::KAFKA_TOPIC],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("replicas_beyond_partitions.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Keys with which a scaler counts something else than the partitions of one topic, or knows no limit.
const OTHER_LIMITS: [&str; 3] =
    ["allowIdleConsumers", "partitionLimitation", "ensureEvenDistributionOfPartitions"];

/// The limit is in `getLagForAllPartitions` and `GetMetricsAndActivity` of `kafka_scaler.go` and `apache_kafka_scaler.go` (KEDA 2.14 to
/// 2.21).
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let max = object.path(&["spec", "maxReplicaCount"]);
    let replicas = max.int()?;
    let mut all = triggers(object);
    let (trigger, None) = (all.next()?, all.next()) else { return None };
    let is_kafka = matches!(trigger.kind(), Some("kafka" | "apache-kafka"));
    let metadata = trigger.metadata();
    let is_off = |node: Node<'_>| !node.is_set() || node.raw_text() == Some("false");
    let is_limited = OTHER_LIMITS.iter().all(|key| is_off(metadata.get(key)));
    // With `Value` the HPA multiplies the limited lag by the replicas that there are.
    let metric = trigger.node.get("metricType");
    let is_average = !metric.is_set() || metric.text() == Some("AverageValue");
    if !is_kafka
        || !is_limited
        || !is_average
        || metadata.has_unknown()
        || uses_modifiers(object) != Some(false)
    {
        return None;
    }
    let wanted = metadata.get("topic").text().filter(|topic| !topic.contains(','))?;
    let servers = metadata.get("bootstrapServers").text()?;
    let name_of = |topic: &Object| topic.path(&["spec", "topicName"]).text().map(str::to_owned);
    let mut topics = ctx.cluster().of(Kind::KAFKA_TOPIC).filter(|topic| {
        let cluster = topic.path(&["metadata", "labels", "strimzi.io/cluster"]).text();
        name_of(topic).as_deref().unwrap_or(topic.name()) == wanted
            && cluster.is_some_and(|cluster| is_served(topic, cluster, servers))
    });
    let (topic, None) = (topics.next()?, topics.next()) else { return None };
    let partitions = topic.path(&["spec", "partitions"]);
    let count = partitions.int().filter(|count| (1..replicas).contains(count))?;
    // A minimum above the partitions keeps consumers ready that wait.
    let is_below = min_replicas(object).is_some_and(|min| min <= count);
    if !ctx.pairs_with(topic) || topic.may_lack_fields() || !is_below {
        return None;
    }
    let message = format!(
        "topic `{}` has {count} partitions: KEDA scales to {count} replicas at most",
        ellipsize(wanted)
    );
    ctx.report(&max, message)
        .help(format!("write `maxReplicaCount: {count}`, or give the topic {replicas} partitions"))
        .related(topic, &partitions, "its partitions")
        .fix(Fix::unsafe_("write the number of partitions").set(&max, json!(count)));
    Some(())
}

/// Whether one of the servers of a trigger is a Service of Strimzi for the cluster of a topic. Strimzi names them
/// `CLUSTER-kafka-bootstrap` and `CLUSTER-kafka-brokers`, and the namespace of both is behind that.
fn is_served(topic: &Object, cluster: &str, servers: &str) -> bool {
    let start = format!("{cluster}-kafka-");
    servers.split(',').any(|server| {
        let host = server.split(':').next().unwrap_or_default();
        let labels: Vec<&str> = host.trim().split('.').collect();
        let Some(at) = labels.iter().rposition(|label| label.starts_with(&start)) else { return false };
        match labels[at + 1..] {
            [namespace] | [namespace, "svc", ..] => {
                !is_in_written_namespace(topic) || topic.namespace() == Some(namespace)
            }
            _ => true,
        }
    })
}
