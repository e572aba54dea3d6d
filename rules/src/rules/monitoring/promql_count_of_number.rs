//! A query counts the series of a metric whose value is the number that is meant.
//!
//! # Why
//! kube-state-metrics exports one series for each workload, and the number of replicas is its value.
//! `count(kube_deployment_status_replicas_ready{deployment="chat"})` is 1, however many pods are ready: a queue
//! that is divided by it is compared as a whole with what one replica may have, so that an autoscaler goes to
//! its maximum. It is reported where the count is a term of arithmetic, and a matcher selects one workload.
//!
//! # Fix
//! Write `sum` for `count`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    scaleTargetRef: {name: chat}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metricType: Value
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//! -        query: sum(chat_waiting) / count(kube_deployment_status_replicas_ready{deployment="chat"}) # <-
//! +        query: sum(chat_waiting) / sum(kube_deployment_status_replicas_ready{deployment="chat"})
//!          threshold: "5"
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/deployment-metrics.md>
//! - <https://prometheus.io/docs/prometheus/latest/querying/operators/#aggregation-operators>

use crate::promql::identifiers::find_word;
use crate::promql::{Expr, QUERY_KINDS};
use crate::rules::monitoring::severity_in;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "promql-count-of-number",
    kinds: &QUERY_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("promql_count_of_number.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// Beginnings of metrics of kube-state-metrics with one series for each object, and the label with its name.
const OF_OBJECTS: [(&str, &str); 5] = [
    ("kube_deployment_s", "deployment"),
    ("kube_statefulset_", "statefulset"),
    ("kube_replicaset_", "replicaset"),
    ("kube_daemonset_status_", "daemonset"),
    ("kube_horizontalpodautoscaler_s", "horizontalpodautoscaler"),
];
const ARITHMETIC: [&str; 4] = ["+", "-", "*", "/"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Some(metric) = query.parsed.expr().and_then(counted_number) else { continue };
        let node = query.node(object);
        let message = format!("`count` is 1: `{metric}` has one series, whose value is the number of pods");
        let finding = ctx.report(&node, message);
        finding
            .severity(severity_in(query.place, Severity::Warning))
            .at_query(object, query)
            .help("write `sum` for `count`");
        if !query.is_embedded
            && let Some(text) = node.text()
            && let Some(summed) = summed(text, metric)
        {
            finding.fix(Fix::unsafe_("add up the values").set(&node, json!(summed)));
        }
    }
    None
}

/// The first metric with the number of pods of one object that is a term of arithmetic, and is counted.
fn counted_number(expr: &Expr) -> Option<&str> {
    let mut found = None;
    expr.walk(&mut |expr| {
        let Expr::Binary(binary) = expr else { return };
        if ARITHMETIC.contains(&binary.op.as_str()) && found.is_none() {
            found = counted(&binary.lhs).or_else(|| counted(&binary.rhs));
        }
    });
    found
}

fn counted(expr: &Expr) -> Option<&str> {
    let expr = match expr {
        Expr::Call(call) if call.function == "scalar" => call.args.first()?,
        other => other,
    };
    let Expr::Aggregate(aggregate) = expr else { return None };
    let Expr::Selector(selector) = &aggregate.expr else { return None };
    let name = selector.name.as_deref().filter(|_| aggregate.op == "count")?;
    let (_, label) =
        OF_OBJECTS.iter().find(|(begin, _)| name.starts_with(begin) && name.contains("replicas"))?;
    selector.fixes(label).then_some(name)
}

/// The query with `sum` for the `count` before a metric.
fn summed(text: &str, metric: &str) -> Option<String> {
    let at = find_word(text, metric)?;
    let before = text[..at].trim_end().strip_suffix('(')?.trim_end();
    let start = before.strip_suffix("count")?.len();
    let is_whole = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    is_whole.then(|| format!("{}sum{}", &text[..start], &text[start + "count".len()..]))
}
