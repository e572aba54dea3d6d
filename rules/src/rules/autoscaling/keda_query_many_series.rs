//! The query of a trigger returns something other than one series.
//!
//! # Why
//! KEDA expects exactly one series. A query that keeps labels returns one for each pod or GPU: it works
//! with one replica and fails with "multiple elements" as soon as the service has scaled out. A number
//! without labels, as `scalar()` gives it, cannot be decoded at all, and a range such as `x[5m]` counts
//! as 0.
//!
//! A metric of an application that a query selects by its labels may have one series: that is advice, also
//! inside a function such as `max_over_time`. A metric of the blackbox exporter is not reported where the
//! Probes of its job have one target, or where one target of all Probes matches the instance that it selects.
//!
//! # Fix
//! Aggregate: `sum(…)` for what adds up, `avg(…)` or `max(…)` for shares. Wrap a number in `vector(…)`.
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
//! -        query: vllm:num_requests_waiting # <-
//! +        query: sum(vllm:num_requests_waiting)
//!          threshold: "5"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/prometheus/>
//! - <https://prometheus.io/docs/prometheus/latest/querying/operators/#aggregation-operators>

use regex::Regex;

use crate::promql::expr::{Expr, MatchOp, Matcher, ResultType, Selector};
use crate::promql::metrics::{Unit, metric};
use crate::promql::series::{Series, series};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-query-many-series",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: &[Kind::PROBE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_query_many_series.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let node = query.node(object);
        let wrap = |function: &str| {
            let text = json!(format!("{function}({})", query.text));
            Fix::unsafe_(format!("wrap it in `{function}`")).set(&node, text)
        };
        match expr.result() {
            ResultType::Scalar => {
                ctx.report(&node, "KEDA cannot read this query: its result is a number, not a series")
                    .help("wrap it in `vector(…)`")
                    .severity(Severity::Error)
                    .fix(wrap("vector"));
                continue;
            }
            ResultType::Range => {
                ctx.report(&node, "the result of this query is a range of samples, which KEDA reads as 0")
                    .help("apply a function such as `avg_over_time` or `rate` to it, and aggregate")
                    .severity(Severity::Error);
                continue;
            }
            // The result is a string, which KEDA cannot read, so it is not a mistake that people make.
            ResultType::Text => continue,
            ResultType::Vector => {}
        }
        let found = series(expr);
        if !matches!(found, Series::Many | Series::EachPod) {
            continue;
        }
        let selector = expr.sole_selector();
        if selector.is_some_and(|selector| has_one_target(selector, ctx)) {
            continue;
        }
        let name = selector.and_then(|selector| selector.name.as_deref());
        let is_plain = matches!(expr, Expr::Selector(_));
        let certain = found == Series::EachPod && is_plain;
        let message = match name.filter(|_| certain) {
            Some(name) => format!("`{name}` has one series for each pod or GPU: KEDA fails with two"),
            None => "the query may return several series, and KEDA fails with more than one".to_owned(),
        };
        // A metric of an application that is selected by its labels may have one series.
        let is_narrow = keeps_series(expr) && selector.is_some_and(|selector| !selector.matchers.is_empty());
        let severity = match () {
            () if certain => Severity::Error,
            () if is_narrow => Severity::Info,
            () => Severity::Warning,
        };
        let unit = name.and_then(metric).map(|metric| metric.unit);
        let (function, help) = match unit {
            Some(Unit::Percent | Unit::Ratio) => {
                (Some("avg"), "aggregate it: `avg(…)`, with `metricType: Value`")
            }
            Some(Unit::Count) => (Some("sum"), "aggregate it: `sum(…)`"),
            _ => (None, "aggregate it, with `sum(…)` for what adds up, `max(…)` for the rest"),
        };
        let finding = ctx.report(&node, message);
        finding.help(help).severity(severity);
        if let Some(function) = function {
            finding.fix(wrap(function));
        }
    }
    None
}

/// Whether an expression has the series of its only selector: the selector itself, or functions of it.
fn keeps_series(expr: &Expr) -> bool {
    match expr {
        Expr::Selector(_) => true,
        Expr::Range(inner, _) | Expr::Negative(inner) => keeps_series(inner),
        Expr::Call(call) => {
            let mut vectors = call.args.iter().filter(|arg| !matches!(arg, Expr::Number(_) | Expr::Text));
            vectors.next().is_some_and(keeps_series) && vectors.next().is_none()
        }
        _ => false,
    }
}

/// Whether a selector names an instance, and one target of all Probes of the input matches it: the operator writes the target there.
/// The query may be in a component that is used from other folders than that of the Probe.
fn selects_one_target(selector: &Selector, ctx: &Context<'_>) -> bool {
    let is_instance = |matcher: &&Matcher| matcher.label == "instance";
    let Some(instance) = selector.matchers.iter().find(is_instance) else { return false };
    let pattern = match instance.op {
        MatchOp::Equal => regex::escape(&instance.value),
        MatchOp::Matches => instance.value.clone(),
        _ => return false,
    };
    let Ok(pattern) = Regex::new(&format!("^(?:{pattern})$")) else { return false };
    let mut targets = 0;
    for probe in ctx.cluster().of(Kind::PROBE) {
        let list = probe.path(&["spec", "targets", "staticConfig", "static"]);
        if !list.is_sequence() || list.has_unknown() {
            return false;
        }
        targets +=
            list.items().filter(|target| target.text().is_some_and(|text| pattern.is_match(text))).count();
    }
    targets == 1
}

/// The metrics of the blackbox exporter that have more than one series for each target.
const OF_SEVERAL_SERIES: [&str; 4] = [
    "probe_http_duration_seconds",
    "probe_icmp_duration_seconds",
    "probe_dns_duration_seconds",
    "probe_grpc_duration_seconds",
];

/// Whether a selector reads a metric of the blackbox exporter, and the Probes of its job have one target between them.
fn has_one_target(selector: &Selector, ctx: &Context<'_>) -> bool {
    let is_of_target = |name: &&str| name.starts_with("probe_") && !OF_SEVERAL_SERIES.contains(name);
    if selector.name.as_deref().filter(is_of_target).is_none() {
        return false;
    }
    let job = selector.matchers.iter().find(|matcher| matcher.label == "job" && matcher.op == MatchOp::Equal);
    let Some(job) = job else { return selects_one_target(selector, ctx) };
    let probes = ctx.cluster().of(Kind::PROBE).filter(|probe| {
        let name = probe.path(&["spec", "jobName"]);
        // Without a name the operator's own name of the scrape job is left.
        let of_operator = || format!("probe/{}/{}", probe.namespace_or_default(), probe.name());
        name.is_unknown()
            || match name.text().filter(|name| !name.is_empty()) {
                Some(name) => name == job.value,
                None => job.value == of_operator(),
            }
    });
    let mut targets = 0;
    for probe in probes.filter(|probe| ctx.pairs_with(probe)) {
        let list = probe.path(&["spec", "targets", "staticConfig", "static"]);
        if !list.is_sequence() || list.has_unknown() {
            return false;
        }
        targets += list.items().count();
    }
    targets == 1
}
