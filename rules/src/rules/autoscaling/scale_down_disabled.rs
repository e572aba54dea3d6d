//! Replicas with accelerators that the HPA never takes away.
//!
//! # Why
//! `scaleDown.selectPolicy: Disabled` forbids the HPA every step down. After one peak all accelerators stay
//! until somebody changes the number by hand. KEDA still goes from the minimum to zero where the minimum is 0
//! and no trigger is active, but not from the peak to the minimum before.
//!
//! # Fix
//! Write `selectPolicy: Min` with a slow policy, such as one pod in ten minutes, and a stabilization window.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
//!    minReplicas: 1
//!    maxReplicas: 8
//!    metrics:
//!      - type: Pods
//!        pods:
//!          metric: {name: queue_length}
//!          target: {type: AverageValue, averageValue: "5"}
//!    behavior:
//!      scaleDown:
//! -      selectPolicy: Disabled # <-
//! +      selectPolicy: Min
//!        policies: [{type: Pods, value: 1, periodSeconds: 600}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat}}
//!      spec:
//!        containers:
//!          - name: chat
//!            image: example.com/chat:1.0.0
//!            resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#configurable-scaling-behavior>

use crate::rules::autoscaling::hpa_behavior;
use crate::rules::autoscaling::scale_target::target;
use crate::rules::autoscaling::signals::replica_range;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scale-down-disabled",
    kinds: &[Kind::HPA, Kind::SCALED_OBJECT],
    reads: SCALABLE_KINDS,
    docs: docs(include_str!("scale_down_disabled.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let policy = hpa_behavior(object).path(&["scaleDown", "selectPolicy"]);
    let (least, most) = replica_range(object)?;
    if policy.text() != Some("Disabled") || least >= most {
        return None;
    }
    let workload = target(object, ctx)?;
    if !uses_accelerators(workload) {
        return None;
    }
    let message = format!(
        "`{}` never goes down from a peak: up to {most} replicas keep their accelerators",
        workload.display_name()
    );
    ctx.report(&policy, message)
        .help("write `selectPolicy: Min` with a slow policy, such as one pod in ten minutes")
        .related(workload, &workload.path(&["metadata", "name"]), "it requests accelerators");
    None
}
