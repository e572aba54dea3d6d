//! The Prometheus that the chart kube-prometheus-stack brings, as far as its values say what it selects.
//!
//! Without a selector in the values its template (`templates/prometheus/prometheus.yaml`, 45 to 80) asks for
//! the label `release` with the name of the release, unless the value that ends in `NilUsesHelmValues` is
//! false.

use std::sync::Arc;

use crate::cluster::query::Query;
use crate::rules::prelude::*;
use crate::workload::charts::{chart_sources, installs, is_for_other_cluster, release_name, spec_of};

pub(super) const CHART: &str = "kube-prometheus-stack";

/// Words in the names of what else may read monitors, as charts and images are named.
const COLLECTORS: [&str; 23] = [
    "adot",
    "alloy",
    "cloudwatch-observability",
    "coralogix",
    "coroot",
    "dash0",
    "datadog",
    "dynatrace",
    "elastic-agent",
    "grafana-agent",
    "grafana/agent",
    "groundcover",
    "k8s-monitoring",
    "mimir",
    "newrelic",
    "opentelemetry",
    "otel",
    "prometheus-operator",
    "signoz",
    "splunk",
    "thanos",
    "victoria",
    "vmagent",
];

/// Charts that bring no Prometheus.
const HARMLESS: [&str; 14] = [
    "aws-ebs-csi-driver",
    "aws-efs-csi-driver",
    "aws-load-balancer-controller",
    "cert-manager",
    "dcgm-exporter",
    "external-dns",
    "external-secrets",
    "gpu-operator",
    "karpenter",
    "keda",
    "kuberay-operator",
    "metrics-server",
    "node-feature-discovery",
    "nvidia-device-plugin",
];

/// The kinds that run a collector.
pub(super) const COLLECTOR_KINDS: [Kind; 3] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET];

/// Whether a workload of the input runs another program that may read monitors.
pub(super) fn runs_collector(ctx: &Context<'_>) -> bool {
    let workloads = COLLECTOR_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    let is_collector = |container: Node<'_>| {
        container.get("image").raw_text().is_some_and(|image| mentions(image, &COLLECTORS))
    };
    workloads.flat_map(templates).any(|template| template.containers().any(is_collector))
}

/// A release of the chart whose Prometheus selects what has the label `release` with its name.
pub(super) struct Release {
    pub(super) installer: Object,
    pub(super) name: String,
}

/// What installs the chart. `None` if another chart of the input may bring a Prometheus with another selector. Read for each monitor
/// again, it took a quarter of a check of 187 monitors beside 330 HelmReleases.
struct Stacks;

impl Query for Stacks {
    const SLOT: QuerySlot = QuerySlot::PrometheusStacks;
    const KINDS: &'static [Kind] = kinds![CHART_KINDS, [Kind::ARGO_APPLICATION_SET]];
    type Key = ();
    type Value = Option<Arc<[ObjectKey]>>;

    fn compute(cluster: &Cluster, (): &()) -> Option<Arc<[ObjectKey]>> {
        let is_stack = |object: &&Object| installs(object, CHART);
        let (stacks, others): (Vec<_>, Vec<_>) = chart_installers(cluster).partition(is_stack);
        let sets = cluster.of(Kind::ARGO_APPLICATION_SET);
        let has_collector = |object: &Object| {
            let spec = spec_of(object);
            let charts = chart_sources(&spec).filter_map(|source| source.get("chart").text());
            let mut named = charts.chain([object.name()]);
            named.any(|name| name == "prometheus" || mentions(name, &COLLECTORS))
        };
        let is_unclear = match stacks.is_empty() {
            true => !others.iter().all(|other| HARMLESS.iter().any(|chart| installs(other, chart))),
            false => others.iter().copied().chain(sets).any(has_collector),
        };
        (!is_unclear).then(|| stacks.into_iter().cloned().map(ObjectKey).collect())
    }
}

/// The releases of the chart, which select by their names with a selector such as `serviceMonitorSelector`. `None` if a chart of the
/// input may bring a Prometheus with another selector.
pub(super) fn releases(selector: &str, ctx: &Context<'_>) -> Option<Vec<Release>> {
    installers(ctx)?.into_iter().map(|installer| release(&installer, selector, ctx)).collect()
}

/// What installs the chart. `None` if another chart of the input may bring a Prometheus, or another collector.
pub(super) fn installers(ctx: &Context<'_>) -> Option<Vec<Object>> {
    let stacks = ctx.cluster().query::<Stacks>(&())?;
    Some(stacks.iter().map(|ObjectKey(installer)| installer.clone()).collect())
}

fn release(installer: &Object, selector: &str, ctx: &Context<'_>) -> Option<Release> {
    if is_for_other_cluster(installer) || !ctx.pairs_with(installer) || installer.may_lack_fields() {
        return None;
    }
    // A renderer may change the Prometheus.
    if installer.path(&["spec", "postRenderers"]).is_set() {
        return None;
    }
    // A chart of a folder has values of its own, and may be one around it.
    if installer.path(&["spec", "chart", "spec", "chart"]).text().is_some_and(|chart| chart != CHART) {
        return None;
    }
    let mut by_release = None;
    for_each_values(installer, CHART, |values| {
        let prometheus = values.root.get("prometheus");
        let spec = prometheus.get("prometheusSpec");
        let of_nil = spec.get(&format!("{selector}NilUsesHelmValues"));
        let written = spec.get(selector);
        let is_empty = !written.is_set() || written.is_mapping() && written.entries().is_empty();
        let ruler = values.root.path(&["thanosRuler", "enabled"]);
        // Values below the name of the chart are those of a chart around it.
        let is_known = !values.may_differ
            && !values.root.get(CHART).is_set()
            && !values.root.has_unknown_key()
            && !spec.has_unknown_key()
            && [&prometheus, &spec, &of_nil, &written].iter().all(|node| !node.is_unknown());
        let selects_release = is_known
            && is_empty
            && !prometheus.get("enabled").is_unknown()
            && prometheus.get("enabled").bool() != Some(false)
            && of_nil.bool() != Some(false)
            && !ruler.is_unknown()
            && ruler.bool() != Some(true);
        by_release = Some(selects_release && by_release != Some(false));
    });
    let name = release_name(installer, CHART)?;
    (by_release == Some(true)).then(|| Release { installer: installer.clone(), name })
}
