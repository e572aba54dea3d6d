//! An autoscaler of a StatefulSet leaves large volumes behind when it scales in.
//!
//! # Why
//! A StatefulSet keeps the claims of replicas that it removes: `persistentVolumeClaimRetentionPolicy` is
//! `Retain` by default. After one peak all volumes of `maxReplicas` stay and are paid for, and the next
//! replica finds what the last one of its number has left. That is what a database needs, and waste for a
//! cache, an index or scratch space. Reported are volumes of 100Gi and more; images of databases and of
//! brokers are left out.
//!
//! # Fix
//! Write `whenScaled: Delete` where a replica can do without the old data (Kubernetes 1.27), or
//! `whenScaled: Retain` to say that it is kept on purpose.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: tiles, namespace: maps}
//! -spec: # <-
//! +spec:
//! +  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
//!    serviceName: tiles
//!    selector: {matchLabels: {app: tiles}}
//!    template:
//!      metadata: {labels: {app: tiles}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/tiles:2.8.0
//!            resources: {requests: {cpu: "1", memory: 4Gi}, limits: {memory: 4Gi}}
//!            volumeMounts: [{name: cache, mountPath: /cache}]
//!    volumeClaimTemplates:
//!      - metadata: {name: cache}
//!        spec:
//!          accessModes: [ReadWriteOnce]
//!          resources: {requests: {storage: 200Gi}}
//!  ---
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: tiles, namespace: maps}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: tiles}
//!    minReplicas: 2
//!    maxReplicas: 12
//!    metrics:
//!      - type: Resource
//!        resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scaled-in-volumes-kept",
    kinds: &[Kind::STATEFUL_SET],
    reads: &[Kind::HPA, Kind::SCALED_OBJECT],
    docs: docs(include_str!("scaled_in_volumes_kept.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

/// The GiB of a volume that is worth a word.
const LARGE: i128 = 100;

/// Words in the images and names of programs whose replicas need the data that they had.
const KEEPERS: [&str; 51] = [
    "arango",
    "cassandra",
    "ceph",
    "clickhouse",
    "cockroach",
    "consul",
    "cortex",
    "couch",
    "dgraph",
    "druid",
    "elastic",
    "etcd",
    "hbase",
    "hdfs",
    "influx",
    "kafka",
    "loki",
    "maria",
    "milvus",
    "mimir",
    "minio",
    "mongo",
    "mysql",
    "nats",
    "neo4j",
    "opensearch",
    "pgvector",
    "pinot",
    "postgres",
    "prometheus",
    "pulsar",
    "qdrant",
    "quest",
    "rabbitmq",
    "redis",
    "redpanda",
    "scylla",
    "solr",
    "surreal",
    "tempo",
    "thanos",
    "tikv",
    "timescale",
    "typesense",
    "valkey",
    "vault",
    "vespa",
    "victoria",
    "weaviate",
    "yugabyte",
    "zookeeper",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let kept = spec.path(&["persistentVolumeClaimRetentionPolicy", "whenScaled"]);
    if object.may_lack_fields()
        || object.controller().is_some()
        || spec.has_unknown_key()
        || !kept.is_absent()
    {
        return None;
    }
    let templates = templates(object);
    let keeps = |container: Node<'_>| {
        let image = container.get("image");
        image.text().is_none_or(|image| mentions(image, &KEEPERS))
    };
    if mentions(object.name(), &KEEPERS) || templates.iter().flat_map(Template::containers).any(keeps) {
        return None;
    }
    let views = ctx.cluster().views();
    let replicas = views.replicas(object).filter(|replicas| replicas.autoscaled)?;
    let autoscaler = views.autoscaler_of(object)?;
    let more = replicas.max.checked_sub(replicas.floor).filter(|more| *more > 0)?;
    let sizes = spec.get("volumeClaimTemplates").items().filter_map(|claim| {
        let size = Quantity::at(&claim.path(&["spec", "resources", "requests", "storage"]))?;
        Some(size.value() >> 30).filter(|size| *size >= LARGE)
    });
    let each = sizes.fold(0_i128, i128::saturating_add);
    if each == 0 {
        return None;
    }
    let total = each.saturating_mul(i128::from(more));
    let message = format!(
        "PersistentVolumeClaims of removed replicas are kept: up to {more} replicas with {total} GiB together"
    );
    ctx.report(&kept, message)
        .help("write `whenScaled: Delete` if a new replica can do without them, or `Retain` on purpose")
        .related(autoscaler, &autoscaler.path(&["metadata", "name"]), "changes the number of replicas");
    None
}
