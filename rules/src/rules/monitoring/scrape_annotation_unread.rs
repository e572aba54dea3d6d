//! An annotation asks for a scrape, and the Prometheus of the set does not read it.
//!
//! # Why
//! `prometheus.io/scrape` is a convention of one scrape configuration that many examples copy, and not a
//! feature of Prometheus. The chart kube-prometheus-stack has no such configuration: its Prometheus scrapes
//! what a ServiceMonitor, a PodMonitor, a Probe or a ScrapeConfig selects. Pods with the annotation alone
//! appear nowhere, so that dashboards, alerts and autoscalers find no series of theirs.
//!
//! It is a warning for pods with accelerators, and otherwise information. Where the set has another
//! collector, which may read the annotation, nothing is reported.
//!
//! # Fix
//! Write a PodMonitor for the pods, or a ServiceMonitor for their Service. Or give the chart a job for the
//! annotation, in `prometheus.prometheusSpec.additionalScrapeConfigs`.
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
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: gateway, namespace: chat}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: gateway}}
//!    template:
//!      metadata:
//!        labels: {app: gateway}
//! -      annotations: {prometheus.io/scrape: "true"} # <-
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/gateway:1.4.0
//!            ports: [{name: metrics, containerPort: 9090}]
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! +---
//! +apiVersion: monitoring.coreos.com/v1
//! +kind: PodMonitor
//! +metadata: {name: gateway, namespace: chat, labels: {release: prometheus}}
//! +spec:
//! +  selector: {matchLabels: {app: gateway}}
//! +  podMetricsEndpoints: [{port: metrics}]
//! ```
//!
//! # References
//! - <https://github.com/prometheus-community/helm-charts/tree/main/charts/kube-prometheus-stack#prometheusioscrape>
//! - <https://prometheus-operator.dev/docs/developer/getting-started/>

use crate::rules::manifest_purpose::is_copy;
use crate::rules::monitoring::monitors::MONITORS;
use crate::rules::monitoring::prometheus_stack::{CHART, COLLECTOR_KINDS, installers, runs_collector};
use crate::rules::prelude::*;
use crate::workload::charts::find_in_values;
use crate::workload::selector::matches;

pub(crate) static RULE: Rule = Rule {
    id: "scrape-annotation-unread",
    kinds: &COLLECTOR_KINDS,
    reads: kinds![
        CHART_KINDS,
        COLLECTOR_KINDS,
        MONITORS,
        [Kind::SCRAPE_CONFIG, Kind::ARGO_APPLICATION_SET, Kind::SERVICE, Kind::CONFIG_MAP]
    ],
    docs: docs(include_str!("scrape_annotation_unread.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

const SCRAPE: &str = "prometheus.io/scrape";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    let template = templates.first()?;
    let scrape = template.annotation(SCRAPE);
    // A sidecar of Istio reads the annotation as well.
    let is_in_mesh = template.annotation("sidecar.istio.io/inject").is_set();
    if scrape.text() != Some("true") || is_in_mesh || object.may_lack_fields() || object.is_owned() {
        return None;
    }
    // Whoever installs a release does not edit it.
    if is_copy(object) && !uses_accelerators(object) {
        return None;
    }
    let stack = only_stack(ctx)?;
    if !has_plain_jobs(&stack)
        || ctx.cluster().has_any(Kind::SCRAPE_CONFIG)
        || runs_collector(ctx)
        || runs_prometheus(ctx)
        || is_selected(object, template, ctx)
    {
        return None;
    }
    let message = format!("{CHART} does not read `{SCRAPE}`, and no monitor selects the pods");
    let severity = if uses_accelerators(object) { Severity::Warning } else { Severity::Info };
    ctx.report(&scrape, message)
        .at_key()
        .severity(severity)
        .help("write a PodMonitor for the pods, or a job for the annotation in `additionalScrapeConfigs`")
        .related(&stack, &stack.path(&["metadata", "name"]), "the only Prometheus of the set");
    None
}

/// The release of the chart beside the object, if it is the only one.
fn only_stack(ctx: &Context<'_>) -> Option<Object> {
    let mut near = installers(ctx)?.into_iter().filter(|stack| ctx.pairs_with(stack));
    let first = near.next()?;
    near.next().is_none().then_some(first)
}

/// Whether a release of the chart has a Prometheus without further jobs.
fn has_plain_jobs(stack: &Object) -> bool {
    let changed = find_in_values(stack, CHART, |values| {
        let prometheus = values.root.get("prometheus");
        let spec = prometheus.get("prometheusSpec");
        let jobs = ["additionalScrapeConfigs", "additionalScrapeConfigsSecret", "additionalConfig"];
        let is_changed = values.may_differ
            || values.root.has_unknown_key()
            || spec.has_unknown_key()
            || jobs.iter().any(|field| spec.get(field).is_set())
            || prometheus.get("enabled").is_unknown()
            || prometheus.get("enabled").bool() == Some(false)
            || prometheus.get("additionalPodMonitors").is_set()
            || prometheus.get("additionalServiceMonitors").is_set()
            // Values below the name of the chart are those of a chart around it.
            || values.root.get(CHART).is_set();
        is_changed.then_some(())
    });
    changed.is_none() && !stack.may_lack_fields() && !stack.path(&["spec", "postRenderers"]).is_set()
}

/// Whether a workload of the input runs a Prometheus of its own, with a configuration that may read the annotation.
fn runs_prometheus(ctx: &Context<'_>) -> bool {
    let workloads = COLLECTOR_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    let is_prometheus = |container: Node<'_>| images_of(&container).any(|image| image.last() == "prometheus");
    workloads.flat_map(templates).any(|template| template.containers().any(is_prometheus))
}

/// Whether a monitor selects the pods, or a Service of theirs, or may do so. Its namespace is left out of account.
fn is_selected(object: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let may_match = |monitor: &Object, labels: &[(&str, Node<'_>)]| {
        let selector = monitor.path(&["spec", "selector"]);
        selector.has_unknown() || matches(&selector, labels) != Some(false)
    };
    let pods = template.pod_labels();
    let services = cluster.views().services_of(object.namespace_or_default(), template);
    let of_services: Vec<Vec<(&str, Node<'_>)>> =
        services.iter().map(|service| service.path(&["metadata", "labels"]).entries()).collect();
    MONITORS.into_iter().flat_map(|kind| cluster.of(kind)).any(|monitor| {
        may_match(monitor, &pods) || of_services.iter().any(|labels| may_match(monitor, labels))
    })
}
