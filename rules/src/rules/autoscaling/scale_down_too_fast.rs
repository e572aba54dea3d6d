//! Replicas on accelerators are removed soon after the load drops.
//!
//! # Why
//! Each replica that goes takes a node with it, and each that comes back waits for a node, an image and a
//! model. A stabilization window that is shorter than the pauses in the load makes both happen again and
//! again. The default is 300 seconds. Model servers should wait 60 seconds, interactive ones 30, batch
//! workers 300; a window of 0 is reported whatever the work is. Of a ScaledObject that rests at zero a
//! short `cooldownPeriod` is reported as advice: the way to zero is the window and then the cooldown.
//!
//! # Fix
//! Raise `behavior.scaleDown.stabilizationWindowSeconds`, or leave it out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    advanced:
//!      horizontalPodAutoscalerConfig:
//!        behavior:
//!          scaleDown:
//! -          stabilizationWindowSeconds: 0 # <-
//! +          stabilizationWindowSeconds: 60
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: server
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 90}
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#stabilization-window>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#cooldownperiod>

use crate::rules::autoscaling::scale_target::{rests_at_zero, target, target_name};
use crate::rules::class_evidence::CLASSED_TARGETS;
use crate::rules::prelude::*;
use crate::workload::class::Classified;

pub(crate) static RULE: Rule = Rule {
    id: "scale-down-too-fast",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: CLASSED_TARGETS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("scale_down_too_fast.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The shortest cooldown before scaling to zero that saves a node start, in seconds.
const COOLDOWN: i64 = 120;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let behavior = super::hpa_behavior(object);
    let down = behavior.get("scaleDown");
    let window = down.get("stabilizationWindowSeconds");
    let cooldown = spec.get("cooldownPeriod");
    if !window.is_set() && !cooldown.is_set() {
        return None;
    }
    let target = target(object, ctx).filter(|target| uses_accelerators(target))?;
    let classified = ctx.class_of(target);
    if classified.is(WorkloadClass::Infra) {
        return None;
    }
    let (least, work) = least(&classified);
    let name = target_name(object);
    let select = down.get("selectPolicy");
    if let Some(seconds) = window.int().filter(|seconds| (0..least).contains(seconds))
        && select.text() != Some("Disabled")
        && !select.is_unknown()
    {
        let message = match work {
            Some(work) => format!("{work} `{name}` loses replicas after {seconds} seconds of less load"),
            None => format!("`{name}` loses replicas on accelerators as soon as the load drops"),
        };
        let wanted = if work.is_some() { least } else { 60 };
        ctx.report(&window, message)
            .help(format!("write {wanted} or more, or leave the default of 300: a new replica takes minutes"))
            .related(
                target,
                &target.path(&["metadata", "name"]),
                format!("its class: {}", classified.evidence),
            )
            .fix(Fix::unsafe_(format!("wait {wanted} seconds")).set(&window, json!(wanted)));
    }
    let zero = object.is(Kind::SCALED_OBJECT)
        && (rests_at_zero(object) == Some(true) || spec.get("idleReplicaCount").int() == Some(0));
    if let Some(seconds) = cooldown.int().filter(|seconds| (0..COOLDOWN).contains(seconds))
        && zero
        && !classified.is(WorkloadClass::Batch)
    {
        ctx.report(&cooldown, format!("`{name}` goes to zero {seconds} seconds after its last request"))
            .help(format!("write {COOLDOWN} or more: the next request waits for node, image and model"))
            .severity(Severity::Info)
            .related(target, &target.path(&["metadata", "name"]), "it requests accelerators");
    }
    None
}

/// The shortest window for a class of workload, and the name of the class for the message. For unknown workloads only 0 is
/// too short.
fn least(classified: &Classified) -> (i64, Option<&'static str>) {
    if classified.is(WorkloadClass::Interactive) {
        (30, Some("interactive server"))
    } else if classified.is(WorkloadClass::Realtime) {
        (60, Some("model server"))
    } else if classified.is(WorkloadClass::Batch) {
        (300, Some("batch worker"))
    } else {
        (1, None)
    }
}
