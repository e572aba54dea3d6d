//! A ServiceMonitor scrapes the same pods through two Services.
//!
//! # Why
//! A ServiceMonitor scrapes the pods behind each Service that its labels select. Where a headless Service
//! stands beside an ordinary one with the same labels, each pod is scraped twice, under two values of
//! `service`: a sum over its metrics is twice as large, and so is what an autoscaler computes from it.
//!
//! # Fix
//! Give the Service that is to be scraped a label of its own and select that.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: gateway}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: gateway}}
//!    template:
//!      metadata: {labels: {app: gateway}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/gateway:1.4.0
//!            ports: [{name: metrics, containerPort: 9090}]
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: gateway, labels: {app: gateway}}
//!  spec:
//!    selector: {app: gateway}
//!    ports: [{name: metrics, port: 9090}]
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata:
//!    name: gateway-headless
//! -  labels: {app: gateway}
//! +  labels: {app: gateway-headless}
//!  spec:
//!    clusterIP: None
//!    selector: {app: gateway}
//!    ports: [{name: metrics, port: 9090}]
//!  ---
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: ServiceMonitor
//!  metadata: {name: gateway}
//!  spec:
//! -  selector: {matchLabels: {app: gateway}} # <-
//! +  selector: {matchLabels: {app: gateway}}
//!    endpoints: [{port: metrics}]
//! ```
//!
//! # References
//! - <https://prometheus-operator.dev/docs/developer/getting-started/>

use super::service_monitor_selects_nothing::Scope;
use crate::rules::prelude::*;
use crate::workload::selector::matches;

const READS: [Kind; WORKLOAD_KINDS.len() + 1] = with_workloads(&[Kind::SERVICE]);

pub(crate) static RULE: Rule = Rule {
    id: "service-monitor-doubles",
    kinds: &[Kind::SERVICE_MONITOR],
    reads: &READS,
    docs: docs(include_str!("service_monitor_doubles.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// Maximum number of selected Services that are compared with each other.
const MOST_COMPARED: usize = 16;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let selector = object.path(&["spec", "selector"]);
    if selector.has_unknown() || !selector.is_mapping() || object.is_namespace_unknown() || relabels(object) {
        return None;
    }
    let selected = |service: &&Object| {
        ctx.pairs_with(service)
            && matches(&selector, &service.path(&["metadata", "labels"]).entries()) == Some(true)
    };
    let services: Vec<&Object> =
        Scope::of(object)?.objects(Kind::SERVICE, ctx).filter(selected).take(MOST_COMPARED).collect();
    for (at, first) in services.iter().enumerate() {
        for second in &services[at + 1..] {
            let Some(workload) = same_pods(first, second, ctx) else { continue };
            let Some(port) = scraped_port(object, first, second) else { continue };
            let (a, b) = (first.display_name(), second.display_name());
            let message =
                format!("Services `{a}` and `{b}` have the same pods: port `{port}` is scraped twice");
            ctx.report(&selector, message)
                .help("select a label that only one of them has")
                .related(first, &first.path(&["metadata", "labels"]), "the first Service")
                .related(second, &second.path(&["metadata", "labels"]), "the second Service")
                .related(workload, &workload.path(&["metadata", "name"]), "the pods of both");
            return None;
        }
    }
    None
}

/// Whether relabelling of the endpoints may drop one of the Services.
fn relabels(object: &Object) -> bool {
    let mut endpoints = object.root().items_at(&["spec", "endpoints"]);
    endpoints.any(|endpoint| endpoint.get("relabelings").is_set() || endpoint.has_unknown())
}

/// A workload whose pods both Services select.
fn same_pods<'a>(first: &Object, second: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    if first.namespace_or_default() != second.namespace_or_default() || first.name() == second.name() {
        return None;
    }
    let views = ctx.cluster().views();
    let (of_first, _) = views.selected_by_service(first);
    let (of_second, _) = views.selected_by_service(second);
    let shared = |one: &&&'a crate::cluster::views::Workload| {
        of_second.iter().any(|two| two.object.ptr_eq(&one.object))
    };
    of_first.iter().find(shared).map(|workload| &workload.object)
}

/// The port of an endpoint that both Services have by its name.
fn scraped_port(object: &Object, first: &Object, second: &Object) -> Option<String> {
    let has = |service: &Object, name: &str| {
        service.root().items_at(&["spec", "ports"]).any(|port| port.get("name").text() == Some(name))
    };
    let endpoints = object.root().items_at(&["spec", "endpoints"]);
    let mut ports =
        endpoints.into_iter().filter_map(|endpoint| endpoint.get("port").text().map(str::to_owned));
    ports.find(|port| has(first, port) && has(second, port))
}
