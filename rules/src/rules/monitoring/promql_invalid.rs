//! A query is not valid PromQL.
//!
//! # Why
//! Prometheus answers such a query with an error: a KEDA trigger fails at every poll and the replicas
//! stay where they are, the operator leaves the whole file of rules out, a panel stays empty. Nothing
//! in Kubernetes parses a query, so the API server accepts it.
//!
//! Queries with variables or placeholders, LogQL and MetricsQL are not checked, nor is any query where the
//! input has VictoriaMetrics: an object of its operator, its chart or its image, or a data source of Grafana.
//! Nor is a dashboard whose data source may be a VictoriaMetrics elsewhere: one of its queries calls a function
//! that only MetricsQL has, or most of those that need a range have none. A dashboard has one finding.
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

use crate::facts::text::contains;
use crate::promql::sources::is_victoria_metrics;
use crate::promql::{Parsed, QUERY_KINDS, Query, QueryPlace, has_other_dialect};
use crate::rules::prelude::*;
use crate::workload::charts::{CHART_KINDS, sources, spec_of};

pub(crate) static RULE: Rule = Rule {
    id: "promql-invalid",
    kinds: &QUERY_KINDS,
    reads: kinds![OBJECTS, INSTALLERS, RUNNERS, [Kind::CONFIG_MAP]],
    docs: docs(include_str!("promql_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Monitoring)
};

/// The objects of VictoriaMetrics' operator, which show that it evaluates the queries.
const OBJECTS: [Kind; 7] = [
    Kind::VM_RULE,
    Kind::VM_ALERT,
    Kind::VM_AGENT,
    Kind::VM_SINGLE,
    Kind::new("operator.victoriametrics.com", "VMCluster"),
    Kind::VM_SERVICE_SCRAPE,
    Kind::VM_POD_SCRAPE,
];
/// The kinds that may install it, and those that may run it.
const INSTALLERS: &[Kind] = kinds![CHART_KINDS, [Kind::ARGO_APPLICATION_SET]];
const RUNNERS: [Kind; 2] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for together in queries(object).chunk_by(|one, next| next.is_of_dashboard_of(one, object)) {
        let mut invalid = together.iter().filter(|query| matches!(query.parsed, Parsed::Invalid(_)));
        let Some(query) = invalid.next() else { continue };
        let Parsed::Invalid(reason) = &query.parsed else { continue };
        // VictoriaMetrics accepts `rate(x)` without a range, and its operator reads PrometheusRules as well.
        if runs_victoria_metrics(ctx) {
            return None;
        }
        if query.place == QueryPlace::Dashboard && is_of_metricsql(together) {
            continue;
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
        let others = match invalid.count() {
            0 => String::new(),
            1 => " (and 1 more query)".to_owned(),
            more => format!(" (and {more} more queries)"),
        };
        let message = format!("the query{of} is not valid PromQL: {reason}{others}");
        let finding = ctx.report(&query.node(object), message);
        finding.help(help).severity(severity).at_query(object, query);
    }
    None
}

/// Whether the queries of a dashboard are written for VictoriaMetrics, which need not be in the input: one of them has a function of
/// MetricsQL, or most of the calls that need a range have none. Nobody keeps a dashboard of which most panels are broken.
fn is_of_metricsql(queries: &[Query]) -> bool {
    let without = queries.iter().filter(|query| query.parsed.lacks_range()).count();
    let with = queries.iter().filter(|query| query.text.contains('[')).count();
    without > 1 && without > with || queries.iter().any(|query| has_other_dialect(&query.text))
}

/// Whether the input has VictoriaMetrics: an object of its operator, a chart, an image, or a data source of Grafana.
fn runs_victoria_metrics(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let says = |node: Node<'_>| node.raw_text().is_some_and(is_victoria_metrics);
    let by_chart = |object: &Object| {
        let spec = spec_of(object);
        let charts = std::iter::once(spec.path(&["chart", "spec"])).chain(sources(&spec));
        let mut named = charts.flat_map(|chart| ["chart", "path", "repoURL"].map(|field| chart.get(field)));
        is_victoria_metrics(object.name()) || named.any(says)
    };
    let by_image =
        |template: Template<'_>| template.containers().any(|container| says(container.get("image")));
    let by_source = |object: &Object| {
        let mut files = object.get("data").entries().into_iter();
        files.any(|(_, file)| {
            file.raw_text().is_some_and(|text| contains(text, "datasources:") && is_victoria_metrics(text))
        })
    };
    OBJECTS.iter().any(|kind| cluster.has_any(*kind))
        || INSTALLERS.iter().flat_map(|kind| cluster.of(*kind)).any(by_chart)
        || RUNNERS.iter().flat_map(|kind| cluster.of(*kind)).flat_map(templates).any(by_image)
        || cluster.of(Kind::CONFIG_MAP).any(by_source)
}
