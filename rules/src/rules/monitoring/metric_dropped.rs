//! A query reads a metric of containers that kube-prometheus-stack does not keep.
//!
//! # Why
//! By default the chart kube-prometheus-stack removes a part of what the kubelet's cAdvisor exports before
//! Prometheus stores it: `container_spec_*`, `container_cpu_cfs_throttled_seconds_total`, and some metrics
//! of file systems and processes that are always zero or that kube-state-metrics has as well. A rule that
//! reads one of them finds no series: its alert never fires, and no error says so.
//!
//! It is a warning where the chart is in the same set, and information where only the label `release` shows
//! that a rule is meant for the chart.
//!
//! # Fix
//! Read what is kept: `kube_pod_container_resource_limits{resource="memory"}` for a limit, the ratio of
//! `container_cpu_cfs_throttled_periods_total` to `container_cpu_cfs_periods_total` for throttling. Or set
//! `kubelet.serviceMonitor.cAdvisorMetricRelabelings` in the values of the chart.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: prometheus, namespace: monitoring}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: kube-prometheus-stack
//!        version: 88.5.3
//!        sourceRef: {kind: HelmRepository, name: prometheus}
//!    values: {grafana: {enabled: true}}
//!  ---
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: throttled, namespace: monitoring, labels: {release: prometheus}}
//!  spec:
//!    groups:
//!      - name: throttled
//!        rules:
//!          - alert: Throttled
//! -          expr: rate(container_cpu_cfs_throttled_seconds_total[5m]) > 0.5 # <-
//! +          expr: rate(container_cpu_cfs_throttled_periods_total[5m]) > 5
//!            for: 10m
//! ```
//!
//! # References
//! - <https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/values.yaml>

use crate::cluster::values::{CHART_SOURCES, chart_version};
use crate::rules::monitoring::prometheus_stack::{CHART, COLLECTOR_KINDS, runs_collector};
use crate::rules::prelude::*;
use crate::workload::charts::{find_in_values, installs};

pub(crate) static RULE: Rule = Rule {
    id: "metric-dropped",
    kinds: &[Kind::PROMETHEUS_RULE],
    reads: kinds![CHART_KINDS, CHART_SOURCES, COLLECTOR_KINDS, [Kind::SERVICE_MONITOR]],
    docs: docs(include_str!("metric_dropped.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// The first major version of the chart whose defaults have all of these.
const FIRST: Version = Version::new(40, 0);
/// Metrics that `cAdvisorMetricRelabelings` in the values of the chart drop (40.0 to 88.5); names that end in `_` stand for all that begin so.
const DROPPED: [&str; 18] = [
    "container_cpu_cfs_throttled_seconds_total",
    "container_cpu_load_average_10s",
    "container_cpu_system_seconds_total",
    "container_cpu_user_seconds_total",
    "container_fs_io_current",
    "container_fs_io_time_seconds_total",
    "container_fs_io_time_weighted_seconds_total",
    "container_fs_reads_merged_total",
    "container_fs_sector_reads_total",
    "container_fs_sector_writes_total",
    "container_fs_writes_merged_total",
    "container_memory_mapped_file",
    "container_memory_swap",
    "container_file_descriptors",
    "container_tasks_state",
    "container_threads_max",
    "container_spec_",
    "container_spec",
];

fn is_dropped(name: &str) -> bool {
    DROPPED.iter().any(|known| name == *known || known.ends_with('_') && name.starts_with(known))
}

/// What has the same sense, and is kept.
fn kept(name: &str) -> &'static str {
    match name {
        "container_spec_memory_limit_bytes" => {
            "read `kube_pod_container_resource_limits{resource=\"memory\"}`"
        }
        "container_spec_cpu_quota" | "container_spec_cpu_period" | "container_spec_cpu_shares" => {
            "read `kube_pod_container_resource_limits{resource=\"cpu\"}`, or the requests"
        }
        "container_cpu_cfs_throttled_seconds_total" => "divide the throttled periods by all periods",
        "container_cpu_system_seconds_total" | "container_cpu_user_seconds_total" => {
            "read `container_cpu_usage_seconds_total`"
        }
        _ => "set `kubelet.serviceMonitor.cAdvisorMetricRelabelings` in its values to keep it",
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut reported: Vec<&str> = Vec::new();
    for query in queries(object) {
        let names = query.parsed.expr().map(|expr| expr.metric_names()).unwrap_or_default();
        let Some(name) = names.into_iter().find(|name| is_dropped(name) && !reported.contains(name)) else {
            continue;
        };
        let (stack, severity) = stack(object, ctx)?;
        reported.push(name);
        let place = query.node(object);
        let message = format!("{CHART} does not keep `{name}`: the rule finds no series");
        let finding = ctx.report(&place, message);
        finding.at_query(object, query).severity(severity).identified_by(name).help(kept(name));
        if let Some(stack) = stack {
            finding.related(stack, &stack.path(&["metadata", "name"]), "the chart, with its defaults");
        }
    }
    None
}

/// The release of the chart that stores what a query reads, if it is in the input, and the severity of a finding. `None` if another scrape may
/// keep the metrics.
fn stack<'c>(object: &Object, ctx: &Context<'c>) -> Option<(Option<&'c Object>, Severity)> {
    let cluster = ctx.cluster();
    let scrapes_kubelet = |monitor: &Object| {
        let endpoints = monitor.path(&["spec", "endpoints"]);
        endpoints.has_unknown()
            || endpoints
                .items()
                .any(|one| one.get("path").text().is_some_and(|path| path.contains("cadvisor")))
    };
    if cluster.of(Kind::SERVICE_MONITOR).any(scrapes_kubelet) || runs_collector(ctx) {
        return None;
    }
    let mut stacks = chart_installers(cluster).filter(|one| installs(one, CHART) && ctx.pairs_with(one));
    if let Some(stack) = stacks.next() {
        let is_alone = stacks.next().is_none() && !stack.may_lack_fields();
        return (is_alone && has_defaults(stack, cluster)).then_some((Some(stack), Severity::Warning));
    }
    // The label by which the chart selects rules, unless its values say otherwise.
    let is_meant = object.path(&["metadata", "labels", "release"]).is_set()
        && !chart_installers(cluster).any(|one| ctx.pairs_with(one));
    is_meant.then_some((None, Severity::Info))
}

/// Whether a release of the chart has the defaults for metrics of containers.
fn has_defaults(stack: &Object, cluster: &Cluster) -> bool {
    let changes = find_in_values(stack, CHART, |values| {
        let kubelet = values.root.get("kubelet");
        let monitor = kubelet.get("serviceMonitor");
        let is_changed = values.may_differ
            || values.root.has_unknown_key()
            || kubelet.has_unknown()
            || monitor.get("cAdvisorMetricRelabelings").is_set()
            || kubelet.get("enabled").bool() == Some(false)
            || mentions_cadvisor(&values.root.path(&["prometheus", "prometheusSpec"]));
        is_changed.then_some(())
    });
    let version = chart_version(stack, CHART, cluster).and_then(Version::parse);
    changes.is_none() && version.is_none_or(|version| version >= FIRST)
}

/// Whether further scrape configurations read the kubelet.
fn mentions_cadvisor(spec: &Node<'_>) -> bool {
    let field = spec.get("additionalScrapeConfigs");
    field.is_set() && field.to_json().to_string().contains("cadvisor")
        || spec.get("additionalScrapeConfigsSecret").is_set()
}
