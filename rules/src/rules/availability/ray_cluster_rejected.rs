//! KubeRay makes no pods of a cluster, because it finds its specification invalid.
//!
//! # Why
//! The schema of a RayCluster accepts more than KubeRay does. What its controller finds wrong is an event
//! of the object: no pod is made, and a server in front of it has no endpoints. The Service of the head has
//! a name that KubeRay writes; in a RayService it rejects another one since 1.3, because a new cluster
//! could not take it over. `RAY_REDIS_ADDRESS` without `gcsFaultToleranceOptions` is rejected since 1.3,
//! and so is the password of Redis in a place of its own beside it. A group cannot be suspended while Ray's
//! autoscaler scales it. Since 1.4 names have to begin with a letter and end after 53 characters, those of
//! a RayService and of a RayJob after 47.
//!
//! # Fix
//! Leave out the name of the head's Service: it is `<cluster>-head-svc`. Write the address of Redis in
//! `gcsFaultToleranceOptions`. Shorten the name.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayService
//!  metadata: {name: rank}
//!  spec:
//!    serveConfigV2: |
//!      applications: [{name: rank, import_path: "rank:app"}]
//!    rayClusterConfig:
//!      headGroupSpec:
//!        headService:
//!          metadata:
//! -          name: rank-head # <-
//! +          labels: {app: rank}
//!        rayStartParams: {}
//!        template:
//!          spec:
//!            containers:
//!              - name: head
//!                image: rayproject/ray:2.49.2-py311
//!                resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//! ```
//!
//! # References
//! - <https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go>
//! - <https://github.com/awslabs/ai-on-eks/issues/169>

use crate::rules::prelude::*;
use crate::workload::environment::entry;
use crate::workload::ray::cluster_spec;

pub(crate) static RULE: Rule = Rule {
    id: "ray-cluster-rejected",
    kinds: &[Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE],
    docs: docs(include_str!("ray_cluster_rejected.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The longest name of a RayCluster, and the end that KubeRay adds to that of a RayService or RayJob (`constant.go`).
const LONGEST: usize = 53;
const ADDED: usize = 6;

/// `ValidateRayClusterSpec` and `ValidateRayServiceSpec` of KubeRay 1.3 to 1.7, and the names of 1.4 and later.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = cluster_spec(object);
    if object.may_lack_fields() || cluster.has_unknown_key() {
        return None;
    }
    name(object, ctx);
    if !cluster.is_mapping() {
        return None;
    }
    let head = cluster.get("headGroupSpec");
    let service = head.path(&["headService", "metadata", "name"]);
    if object.is(Kind::RAY_SERVICE) && service.is_set() && service.text() != Some("") {
        ctx.report(&service, "KubeRay 1.3 and later reject a name for the head's Service in a RayService")
            .help("remove it: KubeRay calls the Service `<cluster>-head-svc`");
    }
    redis(object, &cluster, &head, ctx);
    if cluster.get("enableInTreeAutoscaling").bool() == Some(true) {
        for group in cluster.get("workerGroupSpecs").items() {
            let suspend = group.get("suspend");
            if suspend.bool() == Some(true) {
                ctx.report(
                    &suspend,
                    "KubeRay rejects a suspended group in a cluster that Ray's autoscaler scales",
                )
                .help("set `minReplicas` and `maxReplicas` to 0, or remove the group");
            }
        }
    }
    None
}

fn redis(object: &Object, cluster: &Node<'_>, head: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let options = cluster.get("gcsFaultToleranceOptions");
    let enabled = object.path(&["metadata", "annotations", "ray.io/ft-enabled"]);
    let container = head.path(&["template", "spec", "containers"]).items().next()?;
    if options.is_unknown() || enabled.is_unknown() {
        return None;
    }
    if !options.is_set() {
        let address = entry(&container, "RAY_REDIS_ADDRESS")?.get("name");
        if enabled.text() != Some("true") {
            ctx.report(
                &address,
                "KubeRay 1.3 and later reject `RAY_REDIS_ADDRESS` without `gcsFaultToleranceOptions`",
            )
            .help("write the address as `gcsFaultToleranceOptions.redisAddress`");
        }
        return None;
    }
    let variables = ["RAY_REDIS_ADDRESS", "REDIS_PASSWORD"];
    let of_variables =
        variables.into_iter().filter_map(|name| Some((name, entry(&container, name)?.get("name"))));
    let parameter = head.path(&["rayStartParams", "redis-password"]);
    let parameter = parameter.is_set().then_some(("redis-password", parameter));
    for (name, node) in of_variables.chain(parameter) {
        ctx.report(&node, format!("KubeRay rejects `{name}` beside `gcsFaultToleranceOptions`"))
            .identified_by(name)
            .help("write it in `gcsFaultToleranceOptions`");
    }
    None
}

/// Reports a name with which KubeRay cannot name what it makes.
fn name(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.path(&["metadata", "name"]);
    // A prefix may be added to it.
    let text = node.text().filter(|_| !object.is_patched_by_kustomize())?;
    let longest = if object.is(Kind::RAY_CLUSTER) { LONGEST } else { LONGEST - ADDED };
    let kind = object.kind();
    if text.len() > longest {
        let message =
            format!("KubeRay 1.4 and later reject this name: a {kind} has at most {longest} characters");
        ctx.report(&node, message).help(format!("shorten it by {}", text.len() - longest));
    } else if !text.starts_with(|c: char| c.is_ascii_lowercase()) || text.contains('.') {
        let is_valid =
            text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        if is_valid && !text.is_empty() {
            let message = format!("KubeRay 1.4 and later reject this name of a {kind}");
            ctx.report(&node, message).help("begin it with a letter, and write no dot");
        }
    }
    None
}
