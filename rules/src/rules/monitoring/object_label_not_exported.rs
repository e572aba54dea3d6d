//! A query reads a label of objects that kube-state-metrics is not told to export.
//!
//! # Why
//! Since 2.0 kube-state-metrics adds no labels of objects to `kube_node_labels`, `kube_pod_labels` and their
//! like by itself: only those that `--metric-labels-allowlist` names for the resource, in charts
//! `metricLabelsAllowlist`. A query that selects by another one finds nothing, so that its alert never fires
//! and its scaler reads no value. One that groups by it puts all series into one. Annotations have an option
//! of their own.
//!
//! # Fix
//! Name the label for its resource: `nodes=[karpenter.sh/nodepool]`. Where Karpenter's own metrics tell it as
//! well (`karpenter_nodes_allocatable` has a label `nodepool`), read these.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: monitoring.coreos.com/v1
//! kind: PrometheusRule
//! metadata: {name: pools, namespace: monitoring}
//! spec:
//!   groups:
//!     - name: pools
//!       rules:
//!         - alert: ManyGpuNodes
//!           expr: count(kube_node_labels{label_karpenter_sh_nodepool="gpu"}) > 8 # <-
//!           for: 10m
//! ---
//! apiVersion: helm.toolkit.fluxcd.io/v2
//! kind: HelmRelease
//! metadata: {name: kps, namespace: monitoring}
//! spec:
//!   interval: 1h
//!   chart:
//!     spec:
//!       chart: kube-prometheus-stack
//!       version: 77.6.2
//!       sourceRef: {kind: HelmRepository, name: prometheus-community}
//!   values: {prometheus: {prometheusSpec: {ruleSelectorNilUsesHelmValues: false}}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: monitoring.coreos.com/v1
//! kind: PrometheusRule
//! metadata: {name: pools, namespace: monitoring}
//! spec:
//!   groups:
//!     - name: pools
//!       rules:
//!         - alert: ManyGpuNodes
//!           expr: count(kube_node_labels{label_karpenter_sh_nodepool="gpu"}) > 8
//!           for: 10m
//! ---
//! apiVersion: helm.toolkit.fluxcd.io/v2
//! kind: HelmRelease
//! metadata: {name: kps, namespace: monitoring}
//! spec:
//!   interval: 1h
//!   chart:
//!     spec:
//!       chart: kube-prometheus-stack
//!       version: 77.6.2
//!       sourceRef: {kind: HelmRepository, name: prometheus-community}
//!   values:
//!     prometheus: {prometheusSpec: {ruleSelectorNilUsesHelmValues: false}}
//!     kube-state-metrics:
//!       metricLabelsAllowlist: ["nodes=[karpenter.sh/nodepool]"]
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/kube-state-metrics/blob/main/docs/developer/cli-arguments.md>
//! - <https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/cluster/node-metrics.md>

use crate::promql::QUERY_KINDS;
use crate::promql::expr::{Expr, Grouping, MatchOp, Matcher, Selector, Side};
use crate::rules::monitoring::kube_state_metrics::{STATE_METRICS_KINDS, StateMetrics, lacking, may_carry};
use crate::rules::monitoring::severity_in;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "object-label-not-exported",
    kinds: &QUERY_KINDS,
    reads: STATE_METRICS_KINDS,
    docs: docs(include_str!("object_label_not_exported.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut reported: Vec<&str> = Vec::new();
    for query in queries(object) {
        let reads = query.parsed.expr().map(label_reads).unwrap_or_default();
        let lacked = reads.iter().find_map(|read| Some((read, lacking(&read.metrics, read.label, ctx)?)));
        let Some((Read { label, metrics }, exporter)) = lacked else { continue };
        let (label, metric) = (*label, metrics[0]);
        // The panels of a dashboard are one text.
        if query.is_embedded && reported.contains(&label) {
            continue;
        }
        reported.push(label);
        let message = format!("`{metric}` has no `{label}`: kube-state-metrics is not told to export it");
        let finding = ctx.report(&query.node(object), message);
        finding.severity(severity_in(query.place, Severity::Warning)).identified_by(label);
        finding.at_query(object, query).help(exporter.help(metric, label));
        relate(finding, &exporter);
    }
    None
}

fn relate(finding: &mut Finding, StateMetrics { object: ObjectKey(object), .. }: &StateMetrics) {
    let values = object.path(&["spec", "values"]);
    let node = if values.is_set() { values } else { object.path(&["metadata", "name"]) };
    finding.related(object, &node, "this is the kube-state-metrics of the cluster");
}

/// A label by which a query selects, groups or joins.
struct Read<'e> {
    label: &'e str,
    metrics: Vec<&'e str>,
}

fn label_reads(expr: &Expr) -> Vec<Read<'_>> {
    let exempted = exempted(expr);
    let is_exempted = |one: &Selector| exempted.iter().any(|known| std::ptr::eq(*known, one));
    let mut out = Vec::new();
    expr.walk(&mut |expr| match expr {
        Expr::Selector(selector) => {
            let Some(metric) = selector.name.as_deref().filter(|_| !is_exempted(selector)) else { return };
            let wanted =
                selector.matchers.iter().filter(|one| may_carry(metric, &one.label) && needs_label(one));
            out.extend(wanted.map(|one| Read { label: &one.label, metrics: vec![metric] }));
        }
        Expr::Aggregate(aggregate) if !aggregate.expr.selectors().into_iter().all(is_exempted) => {
            if let Grouping::By(labels) = &aggregate.grouping {
                out.extend(labels.iter().filter_map(|label| read_of(label, &aggregate.expr)));
            }
        }
        Expr::Binary(binary) => {
            let one = if binary.many == Some(Side::Left) { &binary.rhs } else { &binary.lhs };
            let copied = binary.copied.iter().filter(|_| !one.selectors().into_iter().all(is_exempted));
            out.extend(copied.filter_map(|label| read_of(label, one)));
        }
        _ => {}
    });
    out
}

/// The selectors of what `unless` takes away. A label there is an offer that nobody need use: the alerts of kubernetes-mixin leave out
/// claims with `excluded_from_alerts`.
fn exempted(expr: &Expr) -> Vec<&Selector> {
    let mut out = Vec::new();
    expr.walk(&mut |expr| {
        if let Expr::Binary(binary) = expr
            && binary.op == "unless"
        {
            out.extend(binary.rhs.selectors());
        }
    });
    out
}

/// A label of the result of an expression that only metrics of kube-state-metrics can have brought.
fn read_of<'e>(label: &'e str, expr: &'e Expr) -> Option<Read<'e>> {
    let mut may_come_from_elsewhere = false;
    expr.walk(&mut |expr| match expr {
        Expr::Call(call) => may_come_from_elsewhere |= call.function.starts_with("label_"),
        Expr::Selector(selector) => {
            may_come_from_elsewhere |= selector.name.as_deref().is_none_or(|name| name.contains(':'));
        }
        _ => {}
    });
    let metrics: Vec<&str> =
        expr.metric_names().into_iter().filter(|metric| may_carry(metric, label)).collect();
    (!may_come_from_elsewhere && !metrics.is_empty()).then_some(Read { label, metrics })
}

/// Whether a matcher selects nothing where a series lacks its label.
fn needs_label(matcher: &Matcher) -> bool {
    match matcher.op {
        MatchOp::Equal => !matcher.value.is_empty(),
        MatchOp::NotEqual => matcher.value.is_empty(),
        MatchOp::Matches => {
            let text = matcher.value.trim_start_matches('^').trim_end_matches('$');
            !matches!(text, "" | ".*") && !text.split('|').any(str::is_empty) && !text.contains(['(', '?'])
        }
        MatchOp::NotMatches => false,
    }
}
