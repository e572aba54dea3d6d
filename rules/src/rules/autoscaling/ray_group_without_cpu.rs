//! Ray's autoscaler ends because a group of its cluster has no number of CPUs.
//!
//! # Why
//! With `enableInTreeAutoscaling` Ray's autoscaler reads the resources of each group, the head's too, from the
//! RayCluster, not from the pods: `num-cpus` in `rayStartParams`, or the CPU limit of the first container, since
//! 2.43 also its CPU request. Where a group has none of them it raises `Autoscaler failed to detect CPU
//! resources`, and no worker of any group is ever started or removed, while the cluster looks healthy. Leaving
//! the CPU limit out is good practice for other pods; here a number has to be written somewhere.
//!
//! A default limit of a LimitRange does not help: it is written in the pods alone.
//!
//! # Fix
//! Write `num-cpus` in the group's `rayStartParams`, or the CPU limit of the Ray container.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayCluster
//!  metadata: {name: features}
//!  spec:
//!    enableInTreeAutoscaling: true
//!    headGroupSpec:
//!      rayStartParams: {num-cpus: "0"}
//!      template:
//!        spec:
//!          containers:
//!            - name: head
//!              image: rayproject/ray:2.49.2-py311
//!              resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!    workerGroupSpecs:
//!      - groupName: gpu
//!        minReplicas: 0
//!        maxReplicas: 4
//! -      rayStartParams: {} # <-
//! +      rayStartParams: {num-cpus: "7"}
//!        template:
//!          spec:
//!            containers:
//!              - name: worker
//!                image: rayproject/ray:2.49.2-py311-gpu
//!                resources: {requests: {memory: 28Gi}, limits: {memory: 28Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://github.com/ray-project/kuberay/issues/2612>
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html>

use crate::rules::prelude::*;
use crate::workload::ray::{cluster_spec, ray_version};

pub(crate) static RULE: Rule = Rule {
    id: "ray-group-without-cpu",
    kinds: &[Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE],
    docs: docs(include_str!("ray_group_without_cpu.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The last version of Ray that was seen to read no requests; 2.43 reads them (`_get_num_cpus` of
/// `autoscaler/_private/kuberay/autoscaling_config.py`).
const WITHOUT_REQUESTS: Version = Version::new(2, 40);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = cluster_spec(object);
    if object.may_lack_fields()
        || object.is_owned()
        || cluster.get("enableInTreeAutoscaling").bool() != Some(true)
    {
        return None;
    }
    let version = ray_version(&cluster);
    // A group of Ray 2.52 may have resources of its own.
    inspect(&cluster.get("headGroupSpec"), "the head".to_owned(), version, ctx);
    for group in cluster.get("workerGroupSpecs").items() {
        let name = group.get("groupName").text().unwrap_or_default();
        inspect(&group, format!("group `{}`", ellipsize(name)), version, ctx);
    }
    None
}

fn inspect(group: &Node<'_>, name: String, version: Option<Version>, ctx: &mut Context<'_>) -> Option<()> {
    let parameters = group.get("rayStartParams");
    let containers = group.path(&["template", "spec", "containers"]);
    let resources = containers.items().next()?.get("resources");
    let unknown = [group, &parameters, &resources].iter().any(|node| node.has_unknown_key())
        || parameters.is_unknown()
        || resources.has_unknown();
    // `resources` of the group comes before all of them (Ray 2.52).
    if unknown
        || group.get("resources").is_set()
        || parameters.get("num-cpus").is_set()
        || resources.path(&["limits", "cpu"]).is_set()
    {
        return None;
    }
    let request = resources.path(&["requests", "cpu"]);
    if request.is_set() && version.is_none_or(|version| version > WITHOUT_REQUESTS) {
        return None;
    }
    let why = match version {
        Some(version) if request.is_set() => format!("Ray {version} does not read the CPU request of {name}"),
        _ => format!("{name} has no number of CPUs"),
    };
    ctx.report(&parameters, format!("Ray's autoscaler ends, and starts no worker: {why}"))
        .help("write `num-cpus` in `rayStartParams`, or the CPU limit of the Ray container");
    None
}
