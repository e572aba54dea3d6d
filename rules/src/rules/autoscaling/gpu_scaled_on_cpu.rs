//! A workload on accelerators is scaled on CPU or memory alone.
//!
//! # Why
//! A model server that is saturated waits for its GPU: its CPU stays nearly idle and its memory constant,
//! so an autoscaler that measures only these adds no replica while requests queue. An HPA without `metrics`
//! scales on 80 % of the CPU request.
//!
//! # Fix
//! Scale on what the clients feel, such as waiting requests, or on the utilization of the GPU, and keep
//! `cpu` only as a second trigger. Infrastructure such as a DaemonSet's helpers is not reported.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//! -    - type: cpu # <-
//! -      metricType: Utilization
//! -      metadata: {value: "70"}
//! +    - type: prometheus
//! +      metadata:
//! +        serverAddress: http://prometheus.monitoring:9090
//! +        query: sum(vllm:num_requests_waiting)
//! +        threshold: "5"
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
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: llm}
//!  spec:
//!    maxUnavailable: 1
//!    unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector: {matchLabels: {app: llm}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-performance.html>

use std::sync::Arc;

use crate::cluster::views::{AUTOSCALER_MAKERS, scale_target};
use crate::keda::resource_metrics::resource_metrics;
use crate::rules::autoscaling::autoscaler_without_range::fixed_count;
use crate::rules::autoscaling::scale_target::{target, target_name};
use crate::rules::class_evidence::CLASSED_TARGETS;
use crate::rules::prelude::*;
use crate::workload::devices::accelerator_names;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-scaled-on-cpu",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: kinds![CLASSED_TARGETS, AUTOSCALER_MAKERS],
    docs: docs(include_str!("gpu_scaled_on_cpu.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (node, signal) = if object.is(Kind::HPA) { of_hpa(object)? } else { of_scaled_object(object)? };
    let target = target(object, ctx)?;
    // A signal without a range decides nothing, which autoscaler-without-range reports.
    if fixed_count(object).is_some() {
        return None;
    }
    let classified = ctx.class_of(target);
    if classified.is(WorkloadClass::Infra) || !uses_accelerators(target) {
        return None;
    }
    // Two autoscalers of one target are reported by keda-hpa-conflict.
    let made = ctx.cluster().views().made_autoscalers_of(&Arc::new(scale_target(object)?));
    if made.iter().any(|other| ctx.pairs_with(other)) {
        return None;
    }
    let name = target_name(object);
    ctx.report(
        &node,
        format!("`{name}` runs on accelerators, but {signal} alone decides how many replicas it has"),
    )
    .help(format!("scale on waiting requests, or on the utilization of its {}", accelerator_names(target).1))
    .related(target, &target.path(&["metadata", "name"]), "it requests accelerators");
    None
}

/// The first metric, if all metrics are CPU or memory.
fn of_hpa(object: &Object) -> Option<(Node<'_>, &'static str)> {
    // KEDA's own HPA is reported on its ScaledObject.
    if object.is_owned() || object.path(&["metadata", "name"]).is_unknown() {
        return None;
    }
    let metrics = object.path(&["spec", "metrics"]);
    if metrics.is_absent() {
        return Some((metrics, "CPU"));
    }
    let mut words = Vec::new();
    for metric in metrics.items() {
        let body = match metric.get("type").text()? {
            "Resource" => metric.get("resource"),
            "ContainerResource" => metric.get("containerResource"),
            _ => return None,
        };
        words.push(body.get("name").text()?);
    }
    Some((metrics.index(0).get("type"), signal(&words)?))
}

fn of_scaled_object(object: &Object) -> Option<(Node<'_>, &'static str)> {
    let words: Option<Vec<&str>> = triggers(object).map(|trigger| trigger.kind()).collect();
    let first = resource_metrics(object).into_iter().next()?;
    Some((first.node, signal(&words?)?))
}

/// The words of a message for metrics named `cpu` and `memory`. `None` if any other metric is among them.
fn signal(words: &[&str]) -> Option<&'static str> {
    let has = |word: &str| words.contains(&word);
    match (has("cpu"), has("memory")) {
        _ if !words.iter().all(|word| matches!(*word, "cpu" | "memory")) => None,
        (true, true) => Some("the use of CPU and memory"),
        (true, false) => Some("the use of CPU"),
        (false, true) => Some("the use of memory"),
        (false, false) => None,
    }
}
