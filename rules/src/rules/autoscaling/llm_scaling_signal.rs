//! A model server scales on a metric that says little about its load.
//!
//! # Why
//! A server of language models keeps its GPU busy from the first request on: utilization is near 100 %
//! long before requests wait. And it allocates most of the GPU's memory at the start, so used memory
//! does not change with load at all. On a MIG slice the utilization metrics of DCGM are absent or 0.
//!
//! # Fix
//! Scale on the requests that wait or run, or on the use of the KV cache:
//! `sum(vllm:num_requests_waiting)`. On MIG read `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, which goes from 0 to 1.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: llm, namespace: models}
//! spec:
//!   scaleTargetRef: {name: llm}
//!   minReplicaCount: 2
//!   maxReplicaCount: 8
//!   triggers:
//!     - type: prometheus
//!       metricType: Value
//!       metadata:
//!         serverAddress: http://prometheus.monitoring.svc:9090
//!         query: avg(DCGM_FI_DEV_GPU_UTIL) # <-
//!         threshold: "70"
//! ---
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata: {name: llm, namespace: models}
//! spec:
//!   selector: {matchLabels: {app: llm}}
//!   template:
//!     metadata: {labels: {app: llm}}
//!     spec:
//!       containers:
//!         - name: vllm
//!           image: vllm/vllm-openai:v0.11.0
//!           resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: llm, namespace: models}
//! spec:
//!   scaleTargetRef: {name: llm}
//!   minReplicaCount: 2
//!   maxReplicaCount: 8
//!   triggers:
//!     - type: prometheus
//!       metadata:
//!         serverAddress: http://prometheus.monitoring.svc:9090
//!         query: sum(vllm:num_requests_waiting)
//!         threshold: "5"
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-observability.html>
//! - <https://github.com/NVIDIA/dcgm-exporter/issues/216>

use crate::promql::metrics::missing_on_slices;
use crate::rules::autoscaling::scale_target::unique_target;
use crate::rules::prelude::*;
use crate::workload::mig::is_mig_resource;
use crate::workload::server::likely_server_of;

pub(crate) static RULE: Rule = Rule {
    id: "llm-scaling-signal",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: REPLICATED_KINDS,
    docs: docs(include_str!("llm_scaling_signal.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

/// Servers whose work is bound by the cache of tokens.
const OF_LANGUAGE: [ServerId; 4] = [ServerId::Vllm, ServerId::Sglang, ServerId::Tgi, ServerId::TensorRtLlm];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signal {
    Utilization,
    Memory,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let signals = if object.is(Kind::HPA) { of_hpa(object)? } else { of_scaled_object(object)? };
    let (node, first) = signals.first()?.clone();
    let workload = unique_target(object, ctx)?;
    let templates = templates(workload);
    let utilization = signals.iter().find(|(_, signal)| *signal == Signal::Utilization);
    if let Some((node, _)) = utilization
        && templates.iter().any(asks_for_slice)
    {
        ctx.report(node, "the target runs on a MIG slice, where GPU utilization metrics are absent or 0")
            .help("read `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, which goes from 0 to 1")
            .severity(Severity::Warning)
            .related(workload, &workload.path(&["metadata", "name"]), "the target");
        return None;
    }
    if signals.iter().any(|(_, signal)| *signal != first) {
        return None;
    }
    let server = templates.iter().flat_map(Template::containers).find_map(|container| {
        likely_server_of(&container).filter(|server| OF_LANGUAGE.contains(&server.id))
    })?;
    let server = server.name;
    let finding = match first {
        Signal::Utilization => {
            let message = format!(
                "`{}` runs {server}, whose GPU is busy long before requests wait",
                workload.display_name()
            );
            ctx.report(&node, message)
        }
        Signal::Memory => {
            let message = format!(
                "`{}` runs {server}, which allocates GPU memory at the start: its use does not follow the load",
                workload.display_name()
            );
            let finding = ctx.report(&node, message);
            finding.severity(Severity::Warning)
        }
    };
    finding.help("scale on waiting requests or the use of the KV cache").related(
        workload,
        &workload.path(&["metadata", "name"]),
        "the target",
    );
    None
}

/// The signals of a ScaledObject. `None` if one of its triggers reads another signal.
fn of_scaled_object(object: &Object) -> Option<Vec<(Node<'_>, Signal)>> {
    // A schedule is not a signal of load.
    let others = triggers(object).filter(|trigger| trigger.kind() != Some("cron")).count();
    let mut out = Vec::new();
    for query in queries(object) {
        let expr = query.parsed.expr()?;
        let names = expr.metric_names();
        // What slices do not have is reported by gpu-metric-unknown where the query selects them.
        if missing_on_slices(expr).is_some() {
            return None;
        }
        let is = |known: &[&str]| !names.is_empty() && names.iter().all(|name| known.contains(name));
        let signal = if is(&["DCGM_FI_DEV_GPU_UTIL"]) {
            Signal::Utilization
        } else if is(&["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"]) {
            Signal::Memory
        } else {
            return None;
        };
        out.push((query.node(object), signal));
    }
    (out.len() == others).then_some(out)
}

/// The signals of an HPA. `None` if one of its metrics is another signal.
fn of_hpa(object: &Object) -> Option<Vec<(Node<'_>, Signal)>> {
    let mut out = Vec::new();
    for entry in object.path(&["spec", "metrics"]).items() {
        // Only KEDA's own HPA can read such a metric.
        if entry
            .path(&["external", "metric", "selector", "matchLabels", "scaledobject.keda.sh/name"])
            .is_set()
        {
            return None;
        }
        let names = ["pods", "external"].map(|source| entry.path(&[source, "metric", "name"]));
        let name = names.into_iter().find(Node::is_set)?;
        let text = name.text()?.to_ascii_lowercase();
        let signal = match text.as_str() {
            "gpu_utilization" | "dcgm_fi_dev_gpu_util" | "gpu_util" => Signal::Utilization,
            "dcgm_fi_dev_fb_used" => Signal::Memory,
            _ => return None,
        };
        out.push((name, signal));
    }
    Some(out)
}

/// Whether a container of the template asks for a MIG slice.
fn asks_for_slice(template: &Template<'_>) -> bool {
    template.all_containers().any(|container| {
        ["requests", "limits"].iter().any(|side| {
            let amounts = container.path(&["resources", side]).entries();
            amounts.iter().any(|(name, _)| is_mig_resource(name))
        })
    })
}
