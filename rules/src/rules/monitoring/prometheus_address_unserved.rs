//! The address of Prometheus is not one of the Services that its chart makes.
//!
//! # Why
//! The chart kube-prometheus-stack calls the Service of Prometheus
//! `<release>-kube-prometheus-stack-prometheus`, cut after 26 characters before the last word:
//! `monitoring-kube-prometheus-prometheus` for the release `monitoring`, and
//! `kube-prometheus-stack-prometheus` for a release with the name of the chart. The operator adds
//! `prometheus-operated`. At any other name nobody answers: KEDA's trigger fails and the replicas stay as
//! they are, and each analysis of Argo Rollouts ends in an error, which aborts the rollout.
//!
//! Reported are names with `prometheus` in the namespace into which the input installs the chart, where no
//! Service of the input has the name and no other chart there may make it.
//!
//! # Fix
//! Write the name of the Service, or set `fullnameOverride` in the values of the chart.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: argoproj.io/v1alpha1
//! kind: AnalysisTemplate
//! metadata: {name: success-rate, namespace: shop}
//! spec:
//!   metrics:
//!     - name: success-rate
//!       interval: 1m
//!       successCondition: result[0] >= 0.95
//!       provider:
//!         prometheus:
//!           address: http://monitoring-prometheus.monitoring.svc:9090 # <-
//!           query: sum(rate(requests_total{code!~"5.."}[2m])) / sum(rate(requests_total[2m]))
//! ---
//! apiVersion: argoproj.io/v1alpha1
//! kind: Application
//! metadata: {name: monitoring, namespace: argocd}
//! spec:
//!   project: default
//!   source:
//!     repoURL: https://prometheus-community.github.io/helm-charts
//!     chart: kube-prometheus-stack
//!     targetRevision: 80.4.1
//!   syncPolicy: {syncOptions: [ServerSideApply=true]}
//!   destination: {server: https://kubernetes.default.svc, namespace: monitoring}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: argoproj.io/v1alpha1
//! kind: AnalysisTemplate
//! metadata: {name: success-rate, namespace: shop}
//! spec:
//!   metrics:
//!     - name: success-rate
//!       interval: 1m
//!       successCondition: result[0] >= 0.95
//!       provider:
//!         prometheus:
//!           address: http://monitoring-kube-prometheus-prometheus.monitoring.svc:9090
//!           query: sum(rate(requests_total{code!~"5.."}[2m])) / sum(rate(requests_total[2m]))
//! ```
//!
//! # References
//! - <https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/templates/_helpers.tpl>
//! - <https://argo-rollouts.readthedocs.io/en/stable/analysis/prometheus/>

use crate::cluster::Cluster;
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::facts::url::host;
use crate::rules::monitoring::prometheus_stack::CHART;
use crate::rules::prelude::*;
use crate::workload::charts::{
    chart_sources, installs, is_for_other_cluster, release_name, spec_of, target_namespace,
};

pub(crate) static RULE: Rule = Rule {
    id: "prometheus-address-unserved",
    kinds: &[ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: kinds![CHART_KINDS, [Kind::SERVICE]],
    reports_absence: true,
    docs: docs(include_str!("prometheus_address_unserved.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

const ANALYSIS_TEMPLATE: Kind = Kind::new("argoproj.io", "AnalysisTemplate");
const CLUSTER_ANALYSIS_TEMPLATE: Kind = Kind::new("argoproj.io", "ClusterAnalysisTemplate");

/// Words in the names of Services of other programs around Prometheus.
const OTHERS: [&str; 9] = [
    "adapter",
    "alertmanager",
    "blackbox",
    "exporter",
    "kube-state",
    "operator",
    "pushgateway",
    "thanos",
    "webhook",
];

/// The length of the longest name of a Service.
const LONGEST_NAME: usize = 63;

/// Words in the names of charts that may make a Service for Prometheus as well.
const RIVALS: [&str; 5] = ["prometheus", "thanos", "victoria", "mimir", "monitoring"];

/// What installs the chart in a namespace, if nothing else there may make a Service for Prometheus.
struct OnlyStack;

impl Query for OnlyStack {
    const SLOT: QuerySlot = QuerySlot::PrometheusStack;
    const KINDS: &'static [Kind] = &CHART_KINDS;
    type Key = String;
    type Value = Option<ObjectKey>;

    fn compute(cluster: &Cluster, namespace: &String) -> Option<ObjectKey> {
        let is_near = |installer: &&Object| target_namespace(installer).is_none_or(|own| own == namespace);
        let is_rival = |installer: &Object| {
            let spec = spec_of(installer);
            let charts = chart_sources(&spec).filter_map(|source| source.get("chart").text());
            charts.chain([installer.name()]).any(|name| mentions(name, &RIVALS))
        };
        let (stacks, others): (Vec<&Object>, Vec<&Object>) =
            chart_installers(cluster).filter(is_near).partition(|installer| installs(installer, CHART));
        let [stack] = stacks.as_slice() else { return None };
        let is_there = target_namespace(stack) == Some(namespace);
        (is_there && !others.into_iter().any(is_rival)).then(|| ObjectKey((*stack).clone()))
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let spec = object.get("spec");
    let addresses: Vec<Node<'_>> = if object.group() == "argoproj.io" {
        spec.get("metrics").items().map(|one| one.path(&["provider", "prometheus", "address"])).collect()
    } else {
        let of_prometheus = triggers(object).filter(|trigger| trigger.kind() == Some("prometheus"));
        of_prometheus.map(|trigger| trigger.metadata().get("serverAddress")).collect()
    };
    for node in addresses {
        inspect(&node, ctx);
    }
    None
}

fn inspect(node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = host(node.text()?.trim());
    let mut labels = name.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    // Without `svc` it may be a name outside of the cluster, if there is more.
    let is_of_cluster = labels.next().is_none_or(|label| label == "svc");
    if !is_of_cluster
        || !service.contains("prometheus")
        || service.len() > LONGEST_NAME
        || mentions(service, &OTHERS)
    {
        return None;
    }
    let cluster = ctx.cluster();
    let ObjectKey(stack) = &cluster.query::<OnlyStack>(&namespace.to_owned())?;
    if !ctx.pairs_with(stack)
        || cluster.has(Kind::SERVICE, namespace, service)
        || cluster.written_as(Kind::SERVICE, service).next().is_some()
    {
        return None;
    }
    let right = service_of(stack)?;
    if service == right || service == "prometheus-operated" {
        return None;
    }
    let message = format!("{CHART} makes no Service `{service}`, so that nobody answers at this address");
    ctx.report(node, message)
        .help(format!("write `{right}.{namespace}.svc`, or check `kubectl get services -n {namespace}`"))
        .related(stack, &stack.path(&["metadata", "name"]), "installs Prometheus");
    None
}

/// The Service of Prometheus that an installation of the chart makes: `kube-prometheus-stack.fullname` and
/// `templates/prometheus/service.yaml` of the chart, 45 to 80. `None` if values that are not known may change it.
fn service_of(stack: &Object) -> Option<String> {
    /// The most characters of the part before the last word.
    const MOST: usize = 26;
    let spec = spec_of(stack);
    let has_files = chart_sources(&spec).any(|source| {
        ["valueFiles", "fileParameters"].iter().any(|key| source.path(&["helm", key]).is_set())
    });
    if has_files
        || is_for_other_cluster(stack)
        || stack.may_lack_fields()
        || spec.get("valuesFrom").is_set()
        || spec.get("postRenderers").is_set()
        || stack.path(&["spec", "sources"]).items().nth(1).is_some()
    {
        return None;
    }
    let mut is_plain = true;
    let mut written = None;
    for_each_values(stack, CHART, |values| {
        let root = values.root;
        let service = root.path(&["prometheus", "service", "enabled"]);
        let enabled = root.path(&["prometheus", "enabled"]);
        let is_off = |node: &Node<'_>| node.is_unknown() || node.bool() == Some(false);
        let fullname = root.get("fullnameOverride");
        is_plain &= !values.may_differ
            && !root.has_unknown_key()
            && !root.get(CHART).is_set()
            && !["nameOverride", "cleanPrometheusOperatorObjectNames", "extraManifests"]
                .iter()
                .any(|key| root.get(key).is_set())
            && !fullname.is_unknown()
            && !is_off(&service)
            && !is_off(&enabled);
        written = fullname.text().filter(|name| !name.is_empty()).map(str::to_owned).or(written.take());
    });
    if !is_plain {
        return None;
    }
    let full = match written {
        Some(name) => name,
        None => {
            let release = release_name(stack, CHART)?;
            if release.contains(CHART) { release } else { format!("{release}-{CHART}") }
        }
    };
    let part: String = full.chars().take(MOST).collect();
    Some(format!("{}-prometheus", part.strip_suffix('-').unwrap_or(&part)))
}
