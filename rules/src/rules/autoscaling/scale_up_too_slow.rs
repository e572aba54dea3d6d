//! A model server waits minutes before it scales out.
//!
//! # Why
//! With a stabilization window on the way out the HPA acts on the lowest demand of the whole window: the
//! load has to last that long before the first pod is started, and the pod then needs a node and a model.
//! The default is 0. From two minutes up that is advice, from five minutes up a warning.
//!
//! # Fix
//! Remove `behavior.scaleUp.stabilizationWindowSeconds`, or write at most a minute. To dampen growth, limit
//! the pods a period with `policies`.
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
//!          scaleUp:
//! -          stabilizationWindowSeconds: 600 # <-
//! +          stabilizationWindowSeconds: 0
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

use crate::rules::autoscaling::scale_target::{model_server, target_name};
use crate::rules::class_evidence::CLASSED_TARGETS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scale-up-too-slow",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: CLASSED_TARGETS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("scale_up_too_slow.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let window = super::hpa_behavior(object).get("scaleUp").get("stabilizationWindowSeconds");
    let seconds = window.int().filter(|seconds| (120..=3600).contains(seconds))?;
    let server = model_server(object, ctx).filter(|server| server.confidence >= Confidence::Medium)?;
    let message =
        format!("model server `{}` scales out only after {seconds} seconds of load", target_name(object));
    let finding = ctx.report(&window, message);
    finding
        .help("write 0, and limit growth with `policies` where that is needed")
        .severity(if seconds >= 300 { Severity::Warning } else { Severity::Info })
        .fix(Fix::unsafe_("scale out at once").set(&window, json!(0)));
    server.explain(finding);
    None
}
