//! A ServiceMonitor scrapes pods twice: by two Services, or beside a PodMonitor.
//!
//! # Why
//! A ServiceMonitor scrapes the pods behind each Service that its labels select. Where a headless Service
//! stands beside an ordinary one with the same labels, each pod is scraped twice, under two values of
//! `service`: a sum over its metrics is twice as large, and so is what an autoscaler computes from it. So it is
//! where a PodMonitor scrapes the port as well, under another `job`: this is reported where a query of the input
//! sums a metric of the server without `job`, and is not a ratio, a quantile or a comparison with zero.
//!
//! # Fix
//! Give the Service that is to be scraped a label of its own and select that. Of a ServiceMonitor and a
//! PodMonitor keep one.
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

use super::monitor_unselected::{READERS, are_read_together};
use super::service_monitor_selects_nothing::Scope;
use crate::promql::expr::{Aggregate, Expr, Grouping, Selector};
use crate::promql::factor::grown_by;
use crate::promql::{Query, QueryPlace};
use crate::rules::gitops::DELIVERERS;
use crate::rules::prelude::*;
use crate::workload::ports::{number, target_of};
use crate::workload::selector::matches;

/// The kinds with queries that scale or alert.
const WITH_QUERIES: [Kind; 3] = [Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::PROMETHEUS_RULE];

pub(crate) static RULE: Rule = Rule {
    id: "service-monitor-doubles",
    kinds: &[Kind::SERVICE_MONITOR],
    reads: kinds![
        [Kind::SERVICE, Kind::POD_MONITOR],
        WITH_QUERIES,
        READERS,
        [Kind::NAMESPACE],
        DELIVERERS,
        WORKLOAD_KINDS
    ],
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
    for service in &services {
        if beside_pod_monitor(object, service, ctx).is_some() {
            return None;
        }
    }
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

/// Reports a PodMonitor that scrapes a port of the pods of a Service as well, if a query counts what both write.
fn beside_pod_monitor(object: &Object, service: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    for workload in &workloads {
        let workload = &workload.object;
        for template in templates(workload) {
            for container in template.containers() {
                let Some(server) = server_of(&container) else { continue };
                let of_service = scraped_by_service(object, service, &container);
                let doubles = |monitor: &&Object| {
                    !of_service.is_empty()
                        && selects(monitor, workload, &template)
                        && are_read_together(object, monitor, ctx)
                        && scraped_by_pod(monitor, &container).iter().any(|one| of_service.contains(one))
                };
                let Some(monitor) = ctx.cluster().of(Kind::POD_MONITOR).find(doubles) else { continue };
                let Some((reader, query, metric)) = summed(server, ctx) else { continue };
                let message = format!(
                    "PodMonitor `{}` scrapes these pods as well: the sum of `{}` counts each twice",
                    monitor.display_name(),
                    ellipsize(metric)
                );
                ctx.report(&object.path(&["spec", "selector"]), message)
                    .help("keep one of both monitors, or select a `job` in the query")
                    .related(monitor, &monitor.path(&["spec", "selector"]), "it selects the pods")
                    .related(reader, &query.node(reader), "the sum");
                return Some(());
            }
        }
    }
    None
}

/// Whether a PodMonitor certainly selects the pods of a template.
fn selects(monitor: &Object, workload: &Object, template: &Template<'_>) -> bool {
    let selector = monitor.path(&["spec", "selector"]);
    let in_scope = match Scope::of(monitor) {
        None => false,
        Some(Scope::All) => true,
        Some(Scope::These(names)) => names.contains(&workload.namespace_or_default()),
    };
    in_scope
        && !monitor.may_lack_fields()
        && !selector.has_unknown()
        && selector.is_mapping()
        && matches(&selector, &template.labels()) == Some(true)
}

/// The path of an endpoint. `None` if its relabelling may leave out what it scrapes.
fn path_of(endpoint: &Node<'_>) -> Option<String> {
    let path = endpoint.get("path");
    let is_open = endpoint.has_unknown()
        || ["relabelings", "metricRelabelings", "params"].iter().any(|field| endpoint.get(field).is_set());
    if is_open {
        return None;
    }
    Some(if path.is_set() { path.text()?.to_owned() } else { "/metrics".to_owned() })
}

/// The ports of a container, with their paths, that a ServiceMonitor scrapes through a Service.
fn scraped_by_service(object: &Object, service: &Object, container: &Node<'_>) -> Vec<(i64, String)> {
    let ports = service.path(&["spec", "ports"]);
    let scraped = |endpoint: Node<'_>| {
        let name = endpoint.get("port");
        let port = ports.items().find(|port| port.get("name").text() == name.text())?;
        name.text()?;
        Some((number(container, &target_of(&port))?.0, path_of(&endpoint)?))
    };
    object.root().items_at(&["spec", "endpoints"]).filter_map(scraped).collect()
}

/// The ports of a container, with their paths, that a PodMonitor scrapes.
fn scraped_by_pod(monitor: &Object, container: &Node<'_>) -> Vec<(i64, String)> {
    let scraped = |endpoint: Node<'_>| {
        let (name, by_number) = (endpoint.get("port"), endpoint.get("portNumber"));
        let wanted = if name.is_set() { name } else { by_number };
        Some((number(container, &wanted)?.0, path_of(&endpoint)?))
    };
    monitor.root().items_at(&["spec", "podMetricsEndpoints"]).filter_map(scraped).collect()
}

/// A query whose value grows with a sum of a metric of a server over all jobs, with its object and the metric.
fn summed<'i>(server: &Server, ctx: &Context<'i>) -> Option<(&'i Object, &'i Query, &'i str)> {
    let readers = WITH_QUERIES.iter().flat_map(|kind| ctx.cluster().of(*kind));
    readers.filter(|reader| ctx.pairs_with(reader)).find_map(|reader| {
        queries(reader).iter().find_map(|query| {
            // An alert asks whether there is a result.
            let is_alert = query.place == QueryPlace::Alert;
            let grown = |aggregate: &'i Aggregate| metric_over_jobs(aggregate, server).is_some();
            let sum = grown_by(query.parsed.expr()?, &grown, is_alert).filter(|one| one.op == "sum")?;
            Some((reader, query, metric_over_jobs(sum, server)?))
        })
    })
}

/// The metric of a server whose series an aggregation adds up or counts over its jobs. A matcher on one of these labels selects
/// one of the monitors.
fn metric_over_jobs<'e>(aggregate: &'e Aggregate, server: &Server) -> Option<&'e str> {
    const OF_MONITOR: [&str; 4] = ["job", "service", "endpoint", "container"];
    let keeps = |labels: &[String]| labels.iter().any(|label| OF_MONITOR.contains(&label.as_str()));
    let is_over_jobs = matches!(aggregate.op.as_str(), "sum" | "count")
        && match &aggregate.grouping {
            Grouping::All => true,
            Grouping::By(labels) => !keeps(labels),
            Grouping::Without(_) => false,
        };
    let mut is_inner = false;
    aggregate.expr.walk(&mut |expr| is_inner |= matches!(expr, Expr::Aggregate(_)));
    if !is_over_jobs || is_inner {
        return None;
    }
    let of_server = |selector: &&'e Selector| {
        let narrows = selector.matchers.iter().any(|matcher| OF_MONITOR.contains(&matcher.label.as_str()));
        let metric = selector.name.as_deref().and_then(Server::of_metric);
        !narrows && metric.is_some_and(|of| of.id == server.id)
    };
    aggregate.expr.selectors().into_iter().find(of_server)?.name.as_deref()
}
