//! Several pods are scraped through the address of a Service.
//!
//! # Why
//! A static target with the name of a Service is its cluster IP, and each scrape goes to one of the pods
//! behind it, another one each time. Of a DaemonSet, which has a pod on each node, the metrics of one node
//! after the other appear as those of a single target: counters jump, and most nodes are missing from every
//! sum. The same holds for the replicas of a server.
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
use crate::rules::gpu::report_place;
use crate::rules::monitoring::monitors::target_label;
use crate::rules::monitoring::scrape_jobs::{JOB_KINDS, for_each_job};
use crate::rules::prelude::*;
use crate::workload::charts::ValuePlace;

pub(crate) static RULE: Rule = Rule {
    id: "scrape-through-service",
    kinds: kinds![[Kind::SCRAPE_CONFIG], JOB_KINDS],
    reads: kinds![[Kind::SERVICE, Kind::HPA, Kind::SCALED_OBJECT], WORKLOAD_KINDS],
    docs: docs(include_str!("scrape_through_service.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::SCRAPE_CONFIG) {
        let lists: Vec<Node<'_>> = object.root().items_at(&["spec", "staticConfigs"]).collect();
        if !writes_address(&object.path(&["spec", "relabelings"])) {
            for target in lists.iter().flat_map(|list| list.get("targets").items()) {
                report(&ValuePlace::of(target.clone()), &target, Some(object.namespace_or_default()), ctx);
            }
        }
    }
    for_each_job(object, &mut |job| {
        if writes_address(&job.node.get("relabel_configs")) {
            return;
        }
        for list in job.node.get("static_configs").items() {
            for target in list.get("targets").items() {
                report(&job.place(&target), &target, job.namespace, ctx);
            }
        }
    });
    None
}

/// Whether relabelings replace the address, so that a target is only what an exporter asks.
fn writes_address(relabelings: &Node<'_>) -> bool {
    relabelings.items().any(|one| one.has_unknown_key() || target_label(&one).text() == Some("__address__"))
}

/// Reports a target that is the address of a Service in front of several pods. A name alone is looked up in the namespace of what scrapes.
fn report(
    place: &ValuePlace<'_>,
    target: &Node<'_>,
    namespace: Option<&str>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let behind = behind(target.text()?, namespace, ctx)?;
    behind.tell(report_place(place, behind.message(), ctx));
    None
}

/// A Service, and the pods behind its address.
struct Behind<'i> {
    service: &'i Object,
    set: &'i Object,
    host: String,
}

/// Deployments whose pods all say the same, of the cluster or of what they are asked for, or that pass on what others say.
const ALIKE: [&str; 3] = ["exporter", "kube-state-metrics", "gateway"];

fn behind<'i>(target: &str, namespace: Option<&str>, ctx: &Context<'i>) -> Option<Behind<'i>> {
    let host = url::host(target);
    let (name, written) = url::service_of(host)?;
    let service = ctx.partner(Kind::SERVICE, written.or(namespace)?, name)?;
    let spec = service.get("spec");
    let headless = spec.get("clusterIP").text() == Some("None");
    if headless || spec.get("clusterIP").is_unknown() || spec.get("type").text() == Some("ExternalName") {
        return None;
    }
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    let has_several = |object: &Object| {
        let is_alike = || ALIKE.iter().any(|word| object.name().contains(word));
        let replicas = || ctx.cluster().views().replicas(object);
        object.is(Kind::DAEMON_SET) || !is_alike() && replicas().is_some_and(|replicas| replicas.min > 1)
    };
    let set = workloads.iter().map(|workload| &workload.object).find(|one| has_several(one))?;
    Some(Behind { service, set, host: host.to_owned() })
}

impl Behind<'_> {
    fn message(&self) -> String {
        format!(
            "Service `{}` sends each scrape to one pod of {} `{}`",
            self.service.display_name(),
            self.set.id().kind,
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
