//! A query is not valid PromQL.
//!
//! # Why
//! Prometheus answers such a query with an error: a KEDA trigger fails at every poll and the replicas
//! stay where they are, the operator leaves the whole file of rules out, a panel stays empty. Nothing
//! in Kubernetes parses a query, so the API server accepts it.
//!
//! Queries with variables or placeholders, LogQL and MetricsQL are not checked.
//!
//! # Fix
//! Correct the syntax. `rate`, `increase` and the `*_over_time` functions need a range:
//! `rate(requests_total[5m])`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: serving, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: latency
//!        rules:
//!          - alert: QueueGrows
//! -          expr: sum(rate(vllm:request_success_total[5m]) < 1 # <-
//! +          expr: sum(rate(vllm:request_success_total[5m])) < 1
//!            for: 10m
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/querying/basics/>
//! - <https://prometheus.io/docs/prometheus/latest/querying/functions/>

use crate::promql::{Parsed, QUERY_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "promql-invalid",
    kinds: &QUERY_KINDS,
    reads: &VICTORIA_METRICS,
    docs: docs(include_str!("promql_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Monitoring)
};

/// Kinds that show that VictoriaMetrics evaluates the queries.
const VICTORIA_METRICS: [Kind; 5] = [
    Kind::VM_RULE,
    Kind::VM_ALERT,
    Kind::VM_AGENT,
    Kind::VM_SINGLE,
    Kind::new("operator.victoriametrics.com", "VMCluster"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Parsed::Invalid(reason) = &query.parsed else { continue };
        // VictoriaMetrics accepts `rate(x)` without a range, and its operator reads PrometheusRules as well.
        if VICTORIA_METRICS.iter().any(|kind| ctx.cluster().has_any(*kind)) {
            return None;
        }
        let help = match query.place {
            QueryPlace::Trigger => "Prometheus rejects the query at every poll, so this trigger never scales",
            QueryPlace::Alert | QueryPlace::Record => {
                "correct the query: Prometheus rejects the whole rule file"
            }
            QueryPlace::Dashboard => "correct the query: the panel shows an error",
            QueryPlace::Adapter => "correct the query: the adapter serves no value, and no HPA scales on it",
        };
        let severity = match query.place {
            QueryPlace::Dashboard => Severity::Warning,
            _ => Severity::Error,
        };
        let of =
            query.title.as_deref().map(|title| format!(" of `{}`", ellipsize(title))).unwrap_or_default();
        let message = format!("the query{of} is not valid PromQL: {reason}");
        let finding = ctx.report(&query.node(object), message);
        finding.help(help).severity(severity).at_query(object, query);
    }
    None
}
