//! An alert on GPU memory always fires beside a server that preallocates it.
//!
//! # Why
//! vLLM allocates a share of each GPU's memory when it starts, 0.9 by default, and keeps it: how much of
//! it the requests need is not seen from outside. An alert above a share that the server has anyway
//! fires all the time, and hides the alerts that matter.
//!
//! # Fix
//! Alert on the use of the KV cache, `vllm:kv_cache_usage_perc`, or on waiting requests. Where the GPUs
//! run something else as well, restrict the alert to those.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: monitoring.coreos.com/v1
//! kind: PrometheusRule
//! metadata: {name: gpus, namespace: monitoring}
//! spec:
//!   groups:
//!   - name: memory
//!     rules:
//!     - alert: GpuMemoryTight
//!       expr: DCGM_FI_DEV_FB_USED/(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9 # <-
//!       for: 5m
//! ---
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata: {name: llm, namespace: chat}
//! spec:
//!   selector: {matchLabels: {app: llm}}
//!   template:
//!     metadata: {labels: {app: llm}}
//!     spec:
//!       containers:
//!         - name: vllm
//!           image: vllm/vllm-openai:v0.11.0
//!           args: [--model, mistralai/Mistral-7B-v0.3, --gpu-memory-utilization, "0.92"]
//!           resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: monitoring.coreos.com/v1
//! kind: PrometheusRule
//! metadata: {name: gpus, namespace: monitoring}
//! spec:
//!   groups:
//!     - name: memory
//!       rules:
//!         - alert: KvCacheTight
//!           expr: max(vllm:kv_cache_usage_perc) > 0.9
//!           for: 5m
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>
//! - <https://docs.vllm.ai/en/latest/configuration/conserving_memory/>

use std::sync::Arc;

use crate::cluster::query::Query;
use crate::promql::expr::Binary;
use crate::promql::{Expr, PROMETHEUS_RULE_KINDS, QueryPlace};
use crate::rules::prelude::*;
use crate::workload::server::{flag, is_server};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-memory-alert-always-fires",
    kinds: kinds![PROMETHEUS_RULE_KINDS, [Kind::CONFIG_MAP]],
    reads: REPLICATED_KINDS,
    docs: docs(include_str!("gpu_memory_alert_always_fires.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

/// The share that vLLM allocates by default.
const SHARE: f64 = 0.9;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    for query in queries(object).iter().filter(|query| query.place == QueryPlace::Alert) {
        let Some(limit) = query.parsed.expr().and_then(limit) else { continue };
        let servers = cluster.query::<MemoryShares>(&());
        let is_above =
            |(ObjectKey(server), share): &&(ObjectKey, f64)| *share >= limit && ctx.pairs_with(server);
        let Some((ObjectKey(server), share)) = servers.iter().find(is_above) else { continue };
        let message = format!(
            "`{}` allocates {} % of its GPU's memory at the start, so this alert fires all the time",
            server.display_name(),
            (share * 100.0).round()
        );
        ctx.report(&query.node(object), message)
            .help("alert on `vllm:kv_cache_usage_perc` instead")
            .identified_by(query.text.as_str())
            .related(server, &server.path(&["metadata", "name"]), "the server");
    }
    None
}

/// The share of GPU memory in use above which an alert on all GPUs fires.
fn limit(expr: &Expr) -> Option<f64> {
    const USED: &str = "DCGM_FI_DEV_FB_USED";
    const FREE: &str = "DCGM_FI_DEV_FB_FREE";
    let Expr::Binary(comparison) = expr else { return None };
    let Binary { lhs, rhs: Expr::Number(limit), op, .. } = &**comparison else { return None };
    // A query for some GPUs, or for the sum of several, does not show the memory of the server.
    let mut is_plain = matches!(op.as_str(), ">" | ">=");
    expr.walk(&mut |expr| match expr {
        Expr::Selector(selector) => is_plain &= selector.matchers.is_empty(),
        Expr::Aggregate(aggregate) => is_plain &= aggregate.op == "max",
        Expr::Call(_) | Expr::Negative(_) => is_plain = false,
        _ => {}
    });
    if !is_plain {
        return None;
    }
    let (ratio, limit) = match lhs {
        Expr::Binary(product) if product.op == "*" => match (&product.lhs, &product.rhs) {
            (ratio, Expr::Number(100.0)) | (Expr::Number(100.0), ratio) => (ratio, limit / 100.0),
            _ => return None,
        },
        ratio => (ratio, *limit),
    };
    let Expr::Binary(ratio) = ratio else { return None };
    let whole = ratio.rhs.metric_names();
    if ratio.op != "/" || ratio.lhs.metric_names() != [USED] || !whole.contains(&FREE) {
        return None;
    }
    let known = [USED, FREE, "DCGM_FI_DEV_FB_RESERVED"];
    if whole == [FREE] {
        return Some(limit / (1.0 + limit));
    }
    (whole.contains(&USED) && whole.iter().all(|name| known.contains(name))).then_some(limit)
}

/// The workloads of vLLM, each with the share of its GPUs' memory that it allocates at the start.
struct MemoryShares;

impl Query for MemoryShares {
    const SLOT: QuerySlot = QuerySlot::MemoryShares;
    const KINDS: &'static [Kind] = REPLICATED_KINDS;
    type Key = ();
    type Value = Arc<[(ObjectKey, f64)]>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<[(ObjectKey, f64)]> {
        let workloads = REPLICATED_KINDS.iter().flat_map(|kind| cluster.of(*kind));
        workloads.filter_map(|workload| Some((ObjectKey(workload.clone()), share(workload)?))).collect()
    }
}

/// The share of its GPUs' memory that a workload of vLLM allocates.
fn share(object: &Object) -> Option<f64> {
    templates(object).iter().filter(|template| uses_device(template)).find_map(|template| {
        let container = template.containers().find(|container| is_server(container, ServerId::Vllm))?;
        let line = command_line(&container);
        match flag(&line, "--gpu-memory-utilization") {
            Some(text) => text.parse().ok(),
            None => Some(SHARE),
        }
    })
}
