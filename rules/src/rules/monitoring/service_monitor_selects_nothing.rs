//! A ServiceMonitor finds no Service, or no port of one.
//!
//! # Why
//! A ServiceMonitor selects Services by their own labels, not pods, and names a port of the Service. If no
//! Service has the labels, or the Service has no port of that name, Prometheus scrapes nothing and reports
//! no error: the queries behind autoscalers and alerts stay empty. Without `namespaceSelector` it looks in
//! its own namespace alone. `targetPort`, in the place of `port`, is a port that a container of the pods
//! declares. All of this holds for a VMServiceScrape as well.
//!
//! # Fix
//! Write the Service with the labels and the port name, or a PodMonitor, which selects pods. The GPU
//! operator's Service calls its port `gpu-metrics`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: dcgm-exporter, namespace: monitoring, labels: {app: dcgm-exporter}}
//!  spec:
//!    selector: {app: dcgm-exporter}
//!    ports: [{name: metrics, port: 9400}]
//!  ---
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: ServiceMonitor
//!  metadata: {name: dcgm-exporter, namespace: monitoring}
//!  spec:
//!    selector: {matchLabels: {app: dcgm-exporter}}
//!    endpoints:
//! -    - port: gpu-metrics # <-
//! +    - port: metrics
//!        honorLabels: true
//! ```
//!
//! # References
//! - <https://prometheus-operator.dev/docs/developer/getting-started/>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html>

use crate::rules::gitops::{DELIVERERS, gets_labels};
use crate::rules::monitoring::pod_monitor_selects_nothing::{
    check_endpoint, has_known_ports, has_plain_pods,
};
use crate::rules::prelude::*;
use crate::workload::class::is_controller;
use crate::workload::selector::{includes, matches};

pub(crate) static RULE: Rule = Rule {
    id: "service-monitor-selects-nothing",
    kinds: &[Kind::SERVICE_MONITOR, Kind::VM_SERVICE_SCRAPE],
    reads: kinds![[Kind::SERVICE, Kind::HELM_RELEASE], DELIVERERS, WORKLOAD_KINDS],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("service_monitor_selects_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// The label of the GPU operator's exporter, and the port of its Service.
const OPERATOR_APP: &str = "nvidia-dcgm-exporter";
const OPERATOR_PORT: &str = "gpu-metrics";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let selector = object.path(&["spec", "selector"]);
    let labels = selector.get("matchLabels");
    if selector.has_unknown() || !selector.is_mapping() || object.is_namespace_unknown() {
        return None;
    }
    let scope = Scope::of(object)?;
    let mut services: Vec<&Object> = Vec::new();
    for service in scope.objects(Kind::SERVICE, ctx) {
        match matches(&selector, &service.path(&["metadata", "labels"]).entries()) {
            Some(true) => services.push(service),
            Some(false) => {}
            None => return None,
        }
    }
    if !services.is_empty() {
        return check_ports(object, &services, ctx);
    }
    if of_ray_workers(&labels) {
        ctx.report(&selector, "KubeRay makes Services for the head of a cluster, and none for its workers")
            .help("write a PodMonitor with these labels")
            .reports_absence(false);
        return None;
    }
    // An empty selector selects every Service, and what applies one may add the labels.
    let is_empty = labels.entries().is_empty() && !selector.get("matchExpressions").is_set();
    if has_unread_near(object, ctx.cluster(), &[Kind::SERVICE]) {
        return None;
    }
    if is_empty || scope.objects(Kind::SERVICE, ctx).any(|service| gets_labels(service, ctx)) {
        return None;
    }
    if looks_in_own_namespace(object, ctx)
        && let Some(service) = in_other_namespace(object, &selector, ctx)
    {
        report_namespace(object, service, "Service", ctx);
        return None;
    }
    let selects_such_pods = |service: &&Object| {
        let wanted = service.path(&["spec", "selector"]).entries();
        !wanted.is_empty() && matches(&selector, &wanted) == Some(true) && !service.may_lack_fields()
    };
    // A chart or an operator makes Services with the labels of its product beside those that people write.
    if !has_labels_of_a_product(&selector)
        && !may_bring_objects(ctx.cluster())
        && let Some(service) = scope.objects(Kind::SERVICE, ctx).find(selects_such_pods)
    {
        let name = service.display_name().to_string();
        let message = format!("Service `{name}` selects pods by these labels and does not have them itself");
        ctx.report(&selector, message)
            .help("add them to `metadata.labels` of the Service, or write a PodMonitor")
            .related(service, &service.path(&["metadata", "name"]), "it is not found");
        return None;
    }
    for kind in [Kind::DAEMON_SET, Kind::DEPLOYMENT, Kind::STATEFUL_SET] {
        let mut workloads = scope.objects(kind, ctx);
        let selected = workloads.find(|workload| {
            let mut templates = templates(workload).into_iter();
            templates.any(|template| matches(&selector, &template.labels()) == Some(true))
        });
        if let Some(workload) = selected {
            // An operator makes the Services of its metrics itself, with labels of its own.
            if is_controller(workload.name()) && has_labels_of_a_product(&selector) {
                return None;
            }
            let name = workload.display_name().to_string();
            ctx.report(
                &selector,
                format!("no Service here has these labels, only the pods of {} `{name}`", kind.kind),
            )
            .help("label a Service for those pods, or write a PodMonitor")
            .related(workload, &workload.path(&["metadata", "name"]), "its pods are not scraped");
            return None;
        }
    }
    if labels.get("app").text() != Some(OPERATOR_APP) {
        return None;
    }
    for endpoint in object.path(&["spec", "endpoints"]).items() {
        let port = endpoint.get("port");
        if let Some(name) = port.text().filter(|name| *name != OPERATOR_PORT) {
            ctx.report(&port, format!("the GPU operator's Service has no port `{}`", ellipsize(name)))
                .help(format!("write `{OPERATOR_PORT}`"))
                .reports_absence(false)
                .fix(Fix::unsafe_(format!("write `{OPERATOR_PORT}`")).set(&port, json!(OPERATOR_PORT)));
        }
    }
    None
}

/// Whether the labels of a selector are those that KubeRay writes on the pods of workers alone. The Services that it makes for a
/// cluster, for the head, for applications and for groups of several hosts, have other ones (`controllers/ray/common/service.go`).
fn of_ray_workers(labels: &Node<'_>) -> bool {
    labels.get("ray.io/node-type").text() == Some("worker")
}

/// Whether all labels of a selector are of the domain of a product, such as `prometheus.kubevirt.io`.
fn has_labels_of_a_product(selector: &Node<'_>) -> bool {
    const COMMON: [&str; 3] = ["kubernetes.io", "k8s.io", "helm.sh"];
    let of_a_product = |key: &str| {
        let domain = key.split('/').next().unwrap_or(key);
        domain.contains('.') && !COMMON.iter().any(|common| domain.ends_with(*common))
    };
    !selector.get("matchExpressions").is_set()
        && selector.get("matchLabels").entries().iter().all(|(key, _)| of_a_product(key))
}

/// A Service with the labels in a namespace in which the monitor does not look: one of its name, or with the name that a
/// label gives.
fn in_other_namespace<'i>(object: &Object, selector: &Node<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let labels = selector.get("matchLabels").entries();
    let names: Vec<&str> =
        labels.iter().filter_map(|(_, value)| value.text()).chain([object.name()]).collect();
    ctx.cluster().likely_elsewhere(object, &[Kind::SERVICE], &names, |service| {
        matches(selector, &service.path(&["metadata", "labels"]).entries()) == Some(true)
    })
}

/// Whether a monitor looks in its own namespace alone, and what is there is in the input.
pub(super) fn looks_in_own_namespace(object: &Object, ctx: &Context<'_>) -> bool {
    let makers = ctx.cluster().views().pod_makers();
    let is_here = |maker: &Object| maker.namespace_or_default() == object.namespace_or_default();
    !makers.0.iter().any(is_here)
        && !object.path(&["spec", "namespaceSelector"]).is_set()
        && object.namespace_or_default() != "kube-system"
        && !may_bring_objects(ctx.cluster())
}

/// Reports a monitor that does not look in the namespace of what it selects.
pub(super) fn report_namespace(object: &Object, found: &Object, what: &str, ctx: &mut Context<'_>) {
    let there = ellipsize(found.namespace_or_default());
    let node = object.path(&["spec", "namespaceSelector"]);
    let message =
        format!("the {what} with these labels is in namespace `{there}`, where this monitor does not look");
    let finding = ctx.report(&node, message);
    finding
        .help(format!(
            "write `namespaceSelector: {{matchNames: [{there}]}}`: without it only its own namespace counts"
        ))
        .related(found, &found.path(&["metadata", "namespace"]), "it is here");
    let value = json!({"matchNames": [found.namespace_or_default()]});
    finding.fix(Fix::unsafe_(format!("look in namespace {there}")).set(&node, value));
}

/// Whether the name of a port indicates metrics, or nothing in particular.
pub(super) fn is_for_metrics(name: &str) -> bool {
    ["metric", "prom", "http", "web", "exporter", "monitor", "telemetry"]
        .iter()
        .any(|word| name.contains(word))
}

/// Reports ports that no selected Service has.
fn check_ports(object: &Object, services: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    check_target_ports(object, services, ctx);
    let mut names: Vec<&str> = Vec::new();
    for service in services {
        let ports = service.path(&["spec", "ports"]);
        if ports.has_unknown() || !ports.is_sequence() {
            return None;
        }
        names.extend(ports.items().filter_map(|port| port.get("name").text()));
    }
    let endpoints = object.path(&["spec", "endpoints"]);
    // A port that another endpoint scrapes is not meant by this one.
    let scraped: Vec<&str> = endpoints.items().filter_map(|endpoint| endpoint.get("port").text()).collect();
    for endpoint in endpoints.items() {
        let port = endpoint.get("port");
        let Some(name) = port.text().filter(|name| !names.contains(name)) else { continue };
        let service = services[0];
        let message =
            format!("Service `{}` has no port called `{}`", service.display_name(), ellipsize(name));
        let finding = ctx.report(&port, message);
        finding.related(service, &service.path(&["spec", "ports"]), "its ports");
        match names.as_slice() {
            [] => {
                finding.help("give the Service's port a name, and write that");
            }
            [only] if is_for_metrics(only) && !scraped.contains(only) => {
                finding
                    .help(format!("write `{only}`"))
                    .fix(Fix::unsafe_(format!("write `{only}`")).set(&port, json!(only)));
            }
            _ => match names.iter().find(|name| is_for_metrics(name) && !scraped.contains(name)) {
                Some(metrics) => {
                    finding.help(format!("write one of its names, such as `{metrics}`"));
                }
                // The other ports may have no metrics.
                None => {
                    finding.help("add the port to the Service, or remove the endpoint");
                }
            },
        }
    }
    None
}

/// Reports ports of containers that no pod of the selected Services has.
fn check_target_ports(object: &Object, services: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let endpoints = object.path(&["spec", "endpoints"]);
    // The operator reads the target only where there is no other port.
    let mut by_target = endpoints
        .items()
        .filter(|endpoint| endpoint.get("targetPort").is_set() && endpoint.get("port").is_absent())
        .peekable();
    by_target.peek()?;
    let mut pods = Vec::new();
    for service in services {
        let wanted = service.path(&["spec", "selector"]).entries();
        let (workloads, may_be_others) = ctx.cluster().views().selected_by_service(service);
        if may_be_others || workloads.is_empty() {
            return None;
        }
        for workload in workloads {
            let selected = templates(&workload.object).into_iter();
            let selected = selected.filter(|one| includes(&wanted, &one.labels()) == Some(true));
            let before = pods.len();
            pods.extend(selected);
            let is_known = pods.len() > before
                && has_plain_pods(&workload.object)
                && pods.iter().skip(before).all(has_known_ports);
            if !is_known {
                return None;
            }
        }
    }
    for endpoint in by_target {
        check_endpoint(&endpoint, &pods, ctx);
    }
    None
}

/// The namespaces in which a monitor looks.
pub(in crate::rules) enum Scope<'a> {
    All,
    These(Vec<&'a str>),
}

impl<'a> Scope<'a> {
    /// `None` if they are not known.
    pub(in crate::rules) fn of(object: &'a Object) -> Option<Scope<'a>> {
        let selector = object.path(&["spec", "namespaceSelector"]);
        if selector.has_unknown() {
            return None;
        }
        if selector.get("any").bool() == Some(true) {
            return Some(Scope::All);
        }
        let names: Vec<&str> = selector.get("matchNames").items().filter_map(|name| name.text()).collect();
        Some(Scope::These(if names.is_empty() { vec![object.namespace_or_default()] } else { names }))
    }

    /// The objects of a kind in these namespaces.
    pub(super) fn objects<'i>(
        &self,
        kind: Kind,
        ctx: &Context<'i>,
    ) -> Box<dyn Iterator<Item = &'i Object> + 'i> {
        let cluster = ctx.cluster();
        match self {
            Scope::All => Box::new(cluster.of(kind)),
            Scope::These(names) => {
                let all: Vec<&'i Object> =
                    names.iter().flat_map(|name| cluster.in_namespace(kind, name)).collect();
                Box::new(all.into_iter())
            }
        }
    }
}
