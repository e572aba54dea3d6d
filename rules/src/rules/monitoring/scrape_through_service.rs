//! A DaemonSet is scraped through the address of a Service.
//!
//! # Why
//! A static target with the name of a Service is its cluster IP, and each scrape goes to one of the pods
//! behind it, another one each time. Of a DaemonSet, which has a pod on each node, the metrics of one node
//! after the other appear as those of a single target: counters jump, and most nodes are missing from every
//! sum.
//!
//! # Fix
//! Discover the pods: a ServiceMonitor or PodMonitor, `kubernetes_sd_configs` with the role `endpoints`, or
//! a headless Service with `dns_sd_configs`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: node-metrics, namespace: monitoring}
//!  spec:
//!    selector: {matchLabels: {app: node-metrics}}
//!    template:
//!      metadata: {labels: {app: node-metrics}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/node-metrics:1.4.0
//!            resources: {requests: {cpu: 50m, memory: 64Mi}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: node-metrics, namespace: monitoring}
//!  spec:
//!    selector: {app: node-metrics}
//!    ports: [{name: metrics, port: 9100}]
//!  ---
//!  apiVersion: monitoring.coreos.com/v1alpha1
//!  kind: ScrapeConfig
//!  metadata: {name: node-metrics, namespace: monitoring}
//!  spec:
//! -  staticConfigs:
//! -    - targets:
//! -        - node-metrics.monitoring.svc:9100 # <-
//! +  kubernetesSDConfigs: [{role: Endpoints, namespaces: {names: [monitoring]}}]
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#static_config>
//! - <https://prometheus-operator.dev/docs/developer/scrapeconfig/>

use std::ops::Range;

use crate::facts::url;
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::{ChartValues, target_namespace};

pub(crate) static RULE: Rule = Rule {
    id: "scrape-through-service",
    kinds: &[
        Kind::SCRAPE_CONFIG,
        Kind::OPENTELEMETRY_COLLECTOR,
        Kind::CONFIG_MAP,
        Kind::SECRET,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
    ],
    reads: kinds![[Kind::SERVICE], WORKLOAD_KINDS],
    docs: docs(include_str!("scrape_through_service.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    if object.is(Kind::SCRAPE_CONFIG) {
        for list in object.root().items_at(&["spec", "staticConfigs"]) {
            targets(&list, &mut |target, text| _ = report(target, text, namespace, ctx));
        }
    } else if object.is(Kind::OPENTELEMETRY_COLLECTOR) {
        let config = object.path(&["spec", "config", "receivers", "prometheus", "config"]);
        of_jobs(&config, &mut |target, text| _ = report(target, text, namespace, ctx));
    } else if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        CHARTS.iter().for_each(|(chart, path)| of_chart(object, chart, path, ctx));
    } else {
        let field = if object.is(Kind::SECRET) { "stringData" } else { "data" };
        for (_, entry) in object.get(field).entries() {
            let text = entry.raw_text().filter(|text| is_scrape_config(text));
            if let Some(text) = text.and_then(|_| entry.text()) {
                of_text(text, &mut |text, part| {
                    if let (Some(finding), Some(part)) = (report(&entry, text, namespace, ctx), part) {
                        finding.at_part(object, &entry, part);
                    }
                });
            }
        }
    }
    None
}

/// Charts of Prometheus, and the values with scrape configurations: a list, the text of one, or what has a list.
const CHARTS: [(&str, &[&str]); 3] = [
    ("kube-prometheus-stack", &["prometheus", "prometheusSpec", "additionalScrapeConfigs"]),
    ("prometheus", &["extraScrapeConfigs"]),
    ("prometheus", &["serverFiles", "prometheus.yml"]),
];

/// The scrape configurations in the values of a chart.
fn of_chart(object: &Object, chart: &str, path: &[&str], ctx: &mut Context<'_>) {
    let Some(namespace) = target_namespace(object) else { return };
    for_each_values(object, chart, |values| {
        let field = values.root.path(path);
        if let Some(text) = field.text() {
            of_text(text, &mut |text, _| _ = report_in(values, &field, text, namespace, ctx));
        } else {
            of_jobs(&field, &mut |target, text| _ = report_in(values, target, text, namespace, ctx));
        }
    });
}

/// Calls a function with the targets of a text, and their bytes in it.
fn of_text(text: &str, visit: &mut dyn FnMut(&str, Option<Range<usize>>)) {
    let _ = with_embedded(text, |root| {
        of_jobs(root, &mut |target, text| {
            let part = target.span().map(|span| span.start as usize..span.end as usize);
            visit(text, part);
        });
        Some(())
    });
}

/// Calls a function with the targets of scrape configurations: a list of them, or what has the list.
fn of_jobs<'a>(root: &Node<'a>, visit: &mut dyn FnMut(&Node<'a>, &str)) {
    let jobs = if root.is_sequence() { root.clone() } else { root.get("scrape_configs") };
    for list in jobs.items().flat_map(|job| job.get("static_configs").items().collect::<Vec<_>>()) {
        targets(&list, visit);
    }
}

/// Whether a text may be a configuration of Prometheus with targets that it names.
fn is_scrape_config(text: &str) -> bool {
    (text.contains("scrape_configs") || text.contains("job_name")) && text.contains("static_configs")
}

fn targets<'a>(list: &Node<'a>, visit: &mut dyn FnMut(&Node<'a>, &str)) {
    for target in list.get("targets").items() {
        if let Some(text) = target.text() {
            visit(&target, text);
        }
    }
}

/// Reports a target that is the address of a Service in front of a DaemonSet. A name alone is looked up in the namespace of what scrapes.
fn report<'c>(
    place: &Node<'_>,
    target: &str,
    namespace: &str,
    ctx: &'c mut Context<'_>,
) -> Option<&'c mut Finding> {
    let behind = behind(target, namespace, ctx)?;
    Some(behind.tell(ctx.report(place, behind.message())))
}

/// Reports a target in the values of a chart.
fn report_in<'c>(
    values: &ChartValues<'_, '_>,
    place: &Node<'_>,
    target: &str,
    namespace: &str,
    ctx: &'c mut Context<'_>,
) -> Option<&'c mut Finding> {
    let behind = behind(target, namespace, ctx)?;
    Some(behind.tell(report_value(values, place, behind.message(), ctx)))
}

/// A Service, and the DaemonSet behind its address.
struct Behind<'i> {
    service: &'i Object,
    set: &'i Object,
    host: String,
}

fn behind<'i>(target: &str, namespace: &str, ctx: &Context<'i>) -> Option<Behind<'i>> {
    let host = url::host(target);
    let (name, written) = url::service_of(host)?;
    let service = ctx.partner(Kind::SERVICE, written.unwrap_or(namespace), name)?;
    let spec = service.get("spec");
    let headless = spec.get("clusterIP").text() == Some("None");
    if headless || spec.get("clusterIP").is_unknown() || spec.get("type").text() == Some("ExternalName") {
        return None;
    }
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    let set = workloads.iter().map(|workload| &workload.object).find(|one| one.is(Kind::DAEMON_SET))?;
    Some(Behind { service, set, host: host.to_owned() })
}

impl Behind<'_> {
    fn message(&self) -> String {
        format!(
            "Service `{}` sends each scrape to one pod of DaemonSet `{}`",
            self.service.display_name(),
            self.set.display_name()
        )
    }

    fn tell<'f>(&self, finding: &'f mut Finding) -> &'f mut Finding {
        finding
            .help("discover the pods: a ServiceMonitor, or `kubernetes_sd_configs` with the role `endpoints`")
            .identified_by(self.host.clone())
            .related(self.service, &self.service.path(&["metadata", "name"]), "the Service")
            .related(self.set, &self.set.path(&["metadata", "name"]), "its pods")
    }
}
