//! Ray workers restart in place, while Ray's autoscaler counts on new pods.
//!
//! # Why
//! Ray's autoscaler knows a worker by its pod. With `restartPolicy: Always` or `OnFailure` a worker that ends
//! starts again in its pod: the first version of the autoscaler then never removes the pod when it is idle,
//! and its node, which may have GPUs, stays. Ray's manual asks for `Never` with both versions; KubeRay starts
//! another pod in place of one that has failed. Where `autoscalerOptions.version` is `v2`, KubeRay 1.4 to 1.7
//! sets `Never` by itself, and starts no pod of a cluster that says something else.
//!
//! It is a warning where the cluster does not start, and for workers with GPUs where the autoscaler is of the
//! first version: `version` is `v1`, or is not written and Ray is older than 2.47. Otherwise it is
//! information. Groups of one fixed size are left alone, and so are policies that are not written.
//!
//! # Fix
//! Write `restartPolicy: Never`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayCluster
//!  metadata: {name: features}
//!  spec:
//!    enableInTreeAutoscaling: true
//!    autoscalerOptions: {version: v2}
//!    headGroupSpec:
//!      rayStartParams: {}
//!      template:
//!        spec:
//!          containers:
//!            - name: head
//!              image: rayproject/ray:2.49.2-py311
//!              resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!    workerGroupSpecs:
//!      - groupName: cpu
//!        minReplicas: 0
//!        maxReplicas: 10
//!        rayStartParams: {}
//!        template:
//!          spec:
//! -          restartPolicy: OnFailure # <-
//! +          restartPolicy: Never
//!            containers:
//!              - name: worker
//!                image: rayproject/ray:2.49.2-py311
//!                resources: {requests: {cpu: 7, memory: 28Gi}, limits: {memory: 28Gi}}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html>
//! - <https://github.com/ray-project/kuberay/pull/5012>
//! - <https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go>

use crate::rules::prelude::*;
use crate::workload::environment::may_define;
use crate::workload::gpu::has_device_in;
use crate::workload::ray::{cluster_spec, ray_version};

pub(crate) static RULE: Rule = Rule {
    id: "ray-worker-restart-policy",
    kinds: &[Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ray_worker_restart_policy.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The version of Ray's autoscaler in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autoscaler {
    First,
    /// The second, by the field of the cluster: KubeRay knows it only then (`IsAutoscalingV2Enabled`).
    Second,
    /// Ray decides.
    Either,
}

/// The first version of Ray whose autoscaler is the second one without a setting (`AutoscalerOptions.Version` of KubeRay 1.4).
const FIRST_WITH_SECOND: Version = Version::new(2, 47);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = cluster_spec(object);
    if object.may_lack_fields() || cluster.get("enableInTreeAutoscaling").bool() != Some(true) {
        return None;
    }
    let autoscaler = autoscaler_of(&cluster)?;
    if autoscaler == Autoscaler::Second {
        report(&cluster.get("headGroupSpec"), autoscaler, ctx);
    }
    for group in cluster.get("workerGroupSpecs").items() {
        // An idle worker of a group that cannot shrink is wanted.
        let least = group.get("minReplicas").int_or(0)?;
        let is_fixed = group.get("maxReplicas").int().is_some_and(|most| most <= least);
        if autoscaler == Autoscaler::Second || !is_fixed {
            report(&group, autoscaler, ctx);
        }
    }
    None
}

fn autoscaler_of(cluster: &Node<'_>) -> Option<Autoscaler> {
    let version = cluster.path(&["autoscalerOptions", "version"]);
    match version.text() {
        Some("v1") => return Some(Autoscaler::First),
        Some("v2") => return Some(Autoscaler::Second),
        _ if version.is_set() => return None,
        _ => {}
    }
    let mut heads = cluster.path(&["headGroupSpec", "template", "spec", "containers"]).items();
    let may_choose = heads.any(|head| may_define(&head, |name| name == "RAY_enable_autoscaler_v2"));
    let is_old = ray_version(cluster).is_some_and(|version| version < FIRST_WITH_SECOND);
    Some(if is_old && !may_choose { Autoscaler::First } else { Autoscaler::Either })
}

/// Reports a policy with which the pods of a group start again.
fn report(group: &Node<'_>, autoscaler: Autoscaler, ctx: &mut Context<'_>) -> Option<()> {
    let node = group.path(&["template", "spec", "restartPolicy"]);
    let policy = node.text().filter(|policy| matches!(*policy, "Always" | "OnFailure"))?;
    let (message, severity) = match autoscaler {
        Autoscaler::Second => (
            format!("KubeRay starts no pod: `{policy}` is not allowed with the autoscaler of version 2"),
            Severity::Warning,
        ),
        Autoscaler::First if has_device_in(group) => (
            "a worker that has restarted is never removed when idle: its accelerators stay".to_owned(),
            Severity::Warning,
        ),
        Autoscaler::First => {
            ("a worker that has restarted is never removed when it is idle".to_owned(), Severity::Info)
        }
        Autoscaler::Either => (
            format!(
                "Ray's autoscaler needs `Never`, not `{policy}`: a worker that has restarted may stay idle"
            ),
            Severity::Info,
        ),
    };
    ctx.report(&node, message)
        .severity(severity)
        .help("write `Never`: KubeRay starts another pod in place of one that has failed")
        .fix(Fix::unsafe_("end pods that fail").set(&node, json!("Never")));
    None
}
