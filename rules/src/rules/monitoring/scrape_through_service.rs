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

use crate::facts::url;
use crate::rules::prelude::*;
use crate::source::with_embedded;

pub(crate) static RULE: Rule = Rule {
    id: "scrape-through-service",
    kinds: &[Kind::SCRAPE_CONFIG, Kind::OPENTELEMETRY_COLLECTOR, Kind::CONFIG_MAP],
    reads: kinds![[Kind::SERVICE], WORKLOAD_KINDS],
    docs: docs(include_str!("scrape_through_service.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::SCRAPE_CONFIG) {
        for list in object.root().items_at(&["spec", "staticConfigs"]) {
            targets(&list, &mut |target, text| report(object, target, text, ctx));
        }
    } else if object.is(Kind::OPENTELEMETRY_COLLECTOR) {
        let jobs = object.root().items_at(&[
            "spec",
            "config",
            "receivers",
            "prometheus",
            "config",
            "scrape_configs",
        ]);
        for list in jobs.flat_map(|job| job.get("static_configs").items().collect::<Vec<_>>()) {
            targets(&list, &mut |target, text| report(object, target, text, ctx));
        }
    } else {
        for (_, entry) in object.get("data").entries() {
            let Some(text) =
                entry.raw_text().filter(|text| is_scrape_config(text)).and_then(|_| entry.text())
            else {
                continue;
            };
            let _ = with_embedded(text, |root| {
                for list in root
                    .items_at(&["scrape_configs"])
                    .flat_map(|job| job.get("static_configs").items().collect::<Vec<_>>())
                {
                    // The place of a text in a ConfigMap is the text.
                    targets(&list, &mut |_, text| report(object, &entry, text, ctx));
                }
                Some(())
            });
        }
    }
    None
}

/// Whether a text may be a configuration of Prometheus with targets in the cluster.
fn is_scrape_config(text: &str) -> bool {
    text.contains("scrape_configs") && text.contains("static_configs") && text.contains(".svc")
}

fn targets<'a>(list: &Node<'a>, visit: &mut impl FnMut(&Node<'a>, &str)) {
    for target in list.get("targets").items() {
        if let Some(text) = target.text() {
            visit(&target, text);
        }
    }
}

/// Reports a target that is the address of a Service in front of a DaemonSet.
fn report(object: &Object, place: &Node<'_>, target: &str, ctx: &mut Context<'_>) {
    let host = url::host(target);
    let Some((name, namespace)) = url::service_of(host) else { return };
    let namespace = namespace.unwrap_or(object.namespace_or_default());
    let Some(service) = ctx.partner(Kind::SERVICE, namespace, name) else { return };
    let spec = service.get("spec");
    let headless = spec.get("clusterIP").text() == Some("None");
    if headless || spec.get("clusterIP").is_unknown() || spec.get("type").text() == Some("ExternalName") {
        return;
    }
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    let Some(set) = workloads.iter().map(|workload| &workload.object).find(|one| one.is(Kind::DAEMON_SET))
    else {
        return;
    };
    let message = format!(
        "Service `{}` sends each scrape to one pod of DaemonSet `{}`",
        service.display_name(),
        set.display_name()
    );
    ctx.report(place, message)
        .help("discover the pods: a ServiceMonitor, or `kubernetes_sd_configs` with the role `endpoints`")
        .identified_by(host.to_owned())
        .related(service, &service.path(&["metadata", "name"]), "the Service")
        .related(set, &set.path(&["metadata", "name"]), "its pods");
}
