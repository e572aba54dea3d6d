//! An autoscaler follows a counter as if it were a level.
//!
//! # Why
//! A counter only rises until its process restarts: compared with a target as it is, it asks for more and
//! more replicas, up to the maximum, however little there is to do, and never for fewer. `delta` of a
//! counter is no remedy, because it does not know of restarts, at which its value falls below zero. This is
//! checked in triggers of KEDA and in the rules of prometheus-adapter, whose query is a sum of the series
//! where a rule has none.
//!
//! # Fix
//! Write `rate(…[2m])`, and a target in units of a second.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//! -        query: sum(vllm:request_success_total{namespace="chat"}) # <-
//! +        query: sum(rate(vllm:request_success_total{namespace="chat"}[2m]))
//!          threshold: "4"
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/concepts/metric_types/#counter>
//! - <https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md>

use crate::promql::expr::{Binary, Call, Selector};
use crate::promql::identifiers::of_part;
use crate::promql::load::Sense;
use crate::promql::metrics::{MetricType, metric};
use crate::promql::{Expr, QUERY_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "promql-counter-as-level",
    kinds: &QUERY_KINDS,
    docs: docs(include_str!("promql_counter_as_level.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Monitoring)
};

/// Counters of TorchServe whose names do not show it.
const TORCH_SERVE: [&str; 2] = ["ts_inference_latency_microseconds", "ts_queue_latency_microseconds"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let scales = match query.place {
            // A formula may take the counter apart.
            QueryPlace::Trigger => uses_modifiers(object) == Some(false) || object.is(Kind::SCALED_JOB),
            QueryPlace::Adapter => true,
            QueryPlace::Alert | QueryPlace::Record | QueryPlace::Dashboard => false,
        };
        let Some(expr) = query.parsed.expr().filter(|_| scales) else { continue };
        let found = level(expr).and_then(|selector| Some((selector, is_counter(selector.name.as_deref()?)?)));
        let (message, help, certain) = if let Some((selector, certain)) = found {
            let name = ellipsize(selector.name.as_deref().unwrap_or_default());
            (
                format!(
                    "`{name}` is a counter, which only rises: replicas grow to the maximum and stay there"
                ),
                "write `rate(…[2m])` of it, and a target in units of a second",
                certain,
            )
        } else if let Some((function, name)) = difference(expr) {
            let name = ellipsize(name);
            (
                format!(
                    "`{function}` of `{name}`, which is a counter: it falls below zero when a server restarts"
                ),
                "write `rate(…[2m])` of it: a ratio of two rates keeps its target",
                false,
            )
        } else {
            continue;
        };
        ctx.report(&query.node(object), message)
            .help(help)
            .severity(if certain { Severity::Error } else { Severity::Warning })
            .at_query(object, query);
    }
    None
}

/// Whether a metric is a counter for certain (`true`), or by its name alone (`false`). `None` if it may be a gauge.
fn is_counter(name: &str) -> Option<bool> {
    if let Some(known) = metric(name) {
        let is_part = of_part(name).is_some();
        return match known.kind {
            MetricType::Counter => Some(true),
            MetricType::Histogram => is_part.then_some(true),
            MetricType::Gauge => None,
        };
    }
    if TORCH_SERVE.contains(&name) {
        return Some(true);
    }
    // Recorded series are rates as a rule, and what kube-state-metrics or a queue counts goes up and down.
    let is_level = name.contains(':')
        || name.starts_with("kube_")
        || !matches!(Sense::of_counter(name), Sense::None | Sense::Latency)
        || ["current", "size", "capacity", "limit", "free", "memory"].iter().any(|word| name.contains(word));
    let is_total = ["requests_total", "tokens_total", "_seconds_count", "_seconds_sum", "_seconds_bucket"];
    (!is_level && is_total.iter().any(|end| name.ends_with(end))).then_some(false)
}

/// The metric whose newest value the result follows: that of `sum(x)`, and not of `sum(rate(x[5m]))` or `x - x offset 5m`.
fn level(expr: &Expr) -> Option<&Selector> {
    match expr {
        Expr::Selector(selector) if !selector.is_shifted => Some(selector),
        Expr::Aggregate(aggregate) => matches!(aggregate.op.as_str(), "sum" | "avg" | "max" | "min")
            .then_some(&aggregate.expr)
            .and_then(level),
        Expr::Call(call) => level_of_call(call),
        Expr::Binary(binary) => level_of_binary(binary),
        _ => None,
    }
}

fn level_of_call(call: &Call) -> Option<&Selector> {
    match (call.function.as_str(), call.args.as_slice()) {
        ("avg_over_time" | "max_over_time" | "last_over_time" | "min_over_time", [Expr::Range(inner, _)]) => {
            level(inner)
        }
        ("abs" | "ceil" | "floor" | "round" | "scalar" | "sort" | "sort_desc" | "clamp_min", [first, ..]) => {
            level(first)
        }
        _ => None,
    }
}

fn level_of_binary(binary: &Binary) -> Option<&Selector> {
    match (binary.op.as_str(), &binary.lhs, &binary.rhs) {
        ("*" | "/", other, Expr::Number(_)) | ("*", Expr::Number(_), other) => level(other),
        // The sum of nothing is 0.
        ("or", other, Expr::Call(call)) if call.function == "vector" => level(other),
        _ => None,
    }
}

/// `delta` of a counter that is known, and the counter.
fn difference(expr: &Expr) -> Option<(&str, &str)> {
    let mut found = None;
    expr.walk(&mut |expr| {
        if let Expr::Call(call) = expr
            && matches!(call.function.as_str(), "delta" | "idelta")
            && let [Expr::Range(inner, _)] = call.args.as_slice()
            && let Expr::Selector(selector) = &**inner
            && let Some(name) = selector.name.as_deref()
            && is_counter(name) == Some(true)
            && found.is_none()
        {
            found = Some((call.function.as_str(), name));
        }
    });
    found
}
