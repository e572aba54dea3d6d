//! The workers of a RayService end with its head.
//!
//! # Why
//! The head of a Ray cluster keeps its state in memory. When its pod is evicted with its node, or is
//! killed, a new head knows nothing of the workers and ends them: no request is answered until all of them
//! have started again and have loaded their models. With `gcsFaultToleranceOptions` the state is in Redis,
//! the workers stay, and answer requests while the head is away. Ray's documentation recommends it for each
//! RayService.
//!
//! It is information, for services that have two workers or more, or scale to them.
//!
//! # Fix
//! Run Redis with a volume or as a managed service, and name it in `gcsFaultToleranceOptions`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayService
//!  metadata: {name: rank}
//!  spec:
//!    serveConfigV2: |
//!      applications: [{name: rank, import_path: "rank:app"}]
//! -  rayClusterConfig: # <-
//! +  rayClusterConfig:
//! +    gcsFaultToleranceOptions: {redisAddress: "redis:6379"}
//!      headGroupSpec:
//!        rayStartParams: {num-cpus: "0"}
//!        template:
//!          spec:
//!            containers:
//!              - name: head
//!                image: rayproject/ray:2.49.2-py311
//!                resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!      workerGroupSpecs:
//!        - groupName: gpu
//!          replicas: 2
//!          minReplicas: 2
//!          maxReplicas: 4
//!          rayStartParams: {}
//!          template:
//!            spec:
//!              containers:
//!                - name: worker
//!                  image: rayproject/ray:2.49.2-py311-gpu
//!                  resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-ft.html>
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/rayservice-high-availability.html>

use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::environment::may_define;
use crate::workload::ray::{Extent, cluster_spec, group_pods};

pub(crate) static RULE: Rule = Rule {
    id: "ray-service-without-recovery",
    kinds: &[Kind::RAY_SERVICE],
    docs: docs(include_str!("ray_service_without_recovery.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Availability)
};

/// An annotation of KubeRay before 1.3 that does the same, and the variable with the address of Redis.
const ENABLED: &str = "ray.io/ft-enabled";
const ADDRESS: &str = "RAY_REDIS_ADDRESS";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = cluster_spec(object);
    if object.may_lack_fields() || !cluster.is_mapping() || cluster.has_unknown_key() || is_example(object) {
        return None;
    }
    let annotations = object.path(&["metadata", "annotations"]);
    let head = cluster.path(&["headGroupSpec", "template", "spec", "containers"]).items().next()?;
    if cluster.get("gcsFaultToleranceOptions").is_set()
        || annotations.has_unknown_key()
        || annotations.get(ENABLED).is_set()
        || may_define(&head, |name| name == ADDRESS)
    {
        return None;
    }
    let groups = cluster.get("workerGroupSpecs");
    let workers: i64 =
        groups.items().map(|group| group_pods(&cluster, &group, Extent::Most)).sum::<Option<i64>>()?;
    if workers < 2 {
        return None;
    }
    let name = object.display_name();
    let message = format!("the workers of RayService `{name}` end with its head, whose state is in memory");
    ctx.report(&cluster, message).help("write `gcsFaultToleranceOptions` with the address of a Redis");
    None
}
