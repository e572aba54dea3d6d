//! A PodMonitor finds no pod, or no port of one.
//!
//! # Why
//! `port` of a PodMonitor is the name of a container port, and `portNumber` a number that a container
//! declares under `ports`: the pods have no Service to look it up. If no container has the port, Prometheus
//! drops every pod and reports no error: the queries behind autoscalers and alerts stay empty. The same
//! holds for a VMPodScrape.
//!
//! # Fix
//! Give the container port a name and write that, or declare the port in the container.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm, namespace: serving}
//!  spec:
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//!          - name: vllm
//!            image: example.com/llm:1.4.0
//!            ports: [{name: metrics, containerPort: 8000}]
//!  ---
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PodMonitor
//!  metadata: {name: llm, namespace: serving}
//!  spec:
//!    selector: {matchLabels: {app: llm}}
//!    podMetricsEndpoints:
//! -    - port: "8000" # <-
//! +    - port: metrics
//!        path: /metrics
//! ```
//!
//! # References
//! - <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMetricsEndpoint>
//! - <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#pod>

use crate::cluster::views::Workload;
use crate::rules::availability::intended_workload::workload_elsewhere;
use crate::rules::monitoring::monitors::endpoints;
use crate::rules::monitoring::service_monitor_selects_nothing::{
    Scope, is_for_metrics, looks_in_own_namespace, report_namespace,
};
use crate::rules::prelude::*;
use crate::workload::selector::matches;

pub(crate) static RULE: Rule = Rule {
    id: "pod-monitor-selects-nothing",
    kinds: &[Kind::POD_MONITOR, Kind::VM_POD_SCRAPE],
    reads: kinds![CHART_KINDS, WORKLOAD_KINDS],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("pod_monitor_selects_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// Kinds whose pods have the containers of the template and no others, unless a webhook adds some.
const PLAIN: [Kind; 8] = [
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::DAEMON_SET,
    Kind::REPLICA_SET,
    Kind::JOB,
    Kind::CRON_JOB,
    Kind::POD,
    Kind::ROLLOUT,
];

/// Labels that name a program and that no controller sets or changes while a pod runs.
const NAME_LABELS: [&str; 7] = [
    "app",
    "name",
    "component",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
];

/// Words in names of ports that webhooks add to pods, with their sidecars.
pub(in crate::rules) const INJECTED_NAMES: [&str; 13] = [
    "envoy",
    "istio",
    "linkerd",
    "dapr",
    "proxy",
    "mesh",
    "kuma",
    "consul",
    "sidecar",
    "queue",
    "usermetric",
    "autometric",
    "agent",
];

/// Ports of sidecars that webhooks add: Istio, Linkerd, Dapr, Consul, Kuma, Envoy.
const INJECTED_NUMBERS: [i64; 9] = [4191, 5670, 9090, 9091, 9901, 15014, 15020, 15090, 20200];

/// A container port that an endpoint asks for.
enum Wanted<'a> {
    Name(&'a str),
    Number(i64),
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let selector = object.path(&["spec", "selector"]);
    if object.may_lack_fields() {
        return None;
    }
    let pods = pods(object, &selector, ctx);
    if pods.as_ref().is_some_and(Vec::is_empty) {
        let elsewhere =
            in_other_namespace(object, &selector, ctx).filter(|_| looks_in_own_namespace(object, ctx));
        match elsewhere {
            Some(workload) => report_namespace(object, workload, workload.kind(), ctx),
            None => _ = no_pods(object, &selector, ctx),
        }
    }
    for endpoint in object.root().items_at(&["spec", "podMetricsEndpoints"]) {
        check_endpoint(&endpoint, pods.as_deref().unwrap_or_default(), ctx);
    }
    None
}

/// The field of an endpoint that counts, as the operator reads it, and the port that it asks for.
fn wanted<'a>(endpoint: &Node<'a>) -> Option<(Node<'a>, Wanted<'a>)> {
    let (port, number, target) =
        (endpoint.get("port"), endpoint.get("portNumber"), endpoint.get("targetPort"));
    if port.is_unknown() || number.is_unknown() {
        return None;
    }
    if let Some(name) = port.text().filter(|name| !name.is_empty()) {
        return Some((port, Wanted::Name(name)));
    }
    let node = if number.is_set() { number } else { target };
    let wanted = match node.int() {
        Some(number) => Wanted::Number(number),
        None => Wanted::Name(node.text().filter(|name| !name.is_empty())?),
    };
    Some((node, wanted))
}

/// The pods of a set that a monitor selects; empty if there are none. `None` if others may be selected, or have other ports.
fn pods<'i>(object: &Object, selector: &Node<'_>, ctx: &Context<'i>) -> Option<Vec<Template<'i>>> {
    let cluster = ctx.cluster();
    if selector.has_unknown() || !selector.is_mapping() || object.is_namespace_unknown() {
        return None;
    }
    let namespaces = match Scope::of(object)? {
        Scope::These(namespaces) => namespaces,
        // Pods of any namespace, which the input may not have.
        Scope::All if cluster.is_complete() => {
            return of_workloads(object, selector, all_workloads(ctx), ctx);
        }
        Scope::All => return None,
    };
    let is_named = !selector.get("matchLabels").entries().is_empty();
    if !is_named && !cluster.is_complete() {
        return None;
    }
    let around = namespaces.iter().flat_map(|namespace| cluster.views().workloads_in(namespace));
    of_workloads(object, selector, around.map(|workload: &Workload| &workload.object), ctx)
}

fn all_workloads<'i>(ctx: &Context<'i>) -> impl Iterator<Item = &'i Object> + use<'i> {
    let cluster = ctx.cluster();
    WORKLOAD_KINDS.iter().flat_map(move |kind| cluster.of(*kind))
}

fn of_workloads<'i>(
    object: &Object,
    selector: &Node<'_>,
    workloads: impl Iterator<Item = &'i Object>,
    ctx: &Context<'i>,
) -> Option<Vec<Template<'i>>> {
    let mut pods = Vec::new();
    for workload in workloads {
        for template in templates(workload) {
            if !matches(selector, &template.labels())? {
                if template.metadata.has_unknown() || workload.is_patched_by_kustomize() {
                    return None;
                }
                continue;
            }
            if !has_plain_pods(workload)
                || !has_known_ports(&template)
                || !ctx.cluster().likely_pairs(object, workload)
            {
                return None;
            }
            pods.push(template);
        }
    }
    Some(pods)
}

/// Whether the pods of a workload have the containers that are written, unless a webhook adds some.
pub(in crate::rules) fn has_plain_pods(workload: &Object) -> bool {
    PLAIN.iter().any(|kind| workload.is(*kind)) && !workload.may_lack_fields()
}

pub(in crate::rules) fn has_known_ports(template: &Template<'_>) -> bool {
    template.all_containers().all(|container| !container.get("ports").has_unknown())
        && !template.spec.has_unknown_key()
        && !template.spec.get("containers").is_unknown()
}

pub(in crate::rules) fn ports<'i>(pods: &[Template<'i>]) -> Vec<Node<'i>> {
    let containers = pods.iter().flat_map(Template::all_containers);
    containers.flat_map(|container| container.get("ports").items().collect::<Vec<_>>()).collect()
}

/// Whether a webhook may add a sidecar to one of the pods.
pub(in crate::rules) fn are_injected(pods: &[Template<'_>]) -> bool {
    let is_sign =
        |key: &str| key.contains("inject") || key.contains("dapr.io/") || key.contains("linkerd.io/");
    pods.iter().any(|pod| {
        let keys = pod.metadata.get("annotations").entries().into_iter().chain(pod.labels());
        keys.into_iter().any(|(key, _)| is_sign(key))
    })
}

/// Reports the port of an endpoint that no container of the pods has.
pub(super) fn check_endpoint(
    endpoint: &Node<'_>,
    pods: &[Template<'_>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (node, wanted) = wanted(endpoint)?;
    let ports = ports(pods);
    match wanted {
        Wanted::Name(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
            number_as_name(&node, name, pods, &ports, ctx);
        }
        Wanted::Name(name) => no_name(&node, name, pods, &ports, ctx)?,
        Wanted::Number(number) => {
            let (first, _) = pods.first()?.place;
            let has = |port: &Node<'_>| port.get("containerPort").int() == Some(number);
            if ports.iter().any(has) || are_injected(pods) || INJECTED_NUMBERS.contains(&number) {
                return None;
            }
            ctx.report(&node, format!("no container of {} declares port {number}", owner(first)))
                .help("declare it under `ports` of the container: Prometheus finds declared ports alone")
                .related(first, &first.path(&["metadata", "name"]), "its pods are not scraped");
        }
    }
    None
}

fn owner(workload: &Object) -> String {
    format!("{} `{}`", workload.kind(), workload.display_name())
}

/// A name of a port has a letter, so that no pod has this one.
fn number_as_name(
    node: &Node<'_>,
    text: &str,
    pods: &[Template<'_>],
    ports: &[Node<'_>],
    ctx: &mut Context<'_>,
) {
    let number: Option<i64> = text.parse().ok();
    let field = node.pointer().steps().last().cloned().unwrap_or_default();
    let message = format!("`{field}` is the name of a container port, and `{}` is a number", ellipsize(text));
    let declared = ports.iter().find(|port| port.get("containerPort").int() == number);
    let finding = ctx.report(node, message).reports_absence(false);
    let workload = pods.first().map(|pod| pod.place.0);
    match declared.map(|port| port.get("name")) {
        Some(name) if name.is_set() => {
            if let Some(name) = name.text() {
                finding
                    .help(format!("write `{}`, the name of the port", ellipsize(name)))
                    .fix(Fix::unsafe_(format!("write `{name}`")).set(node, json!(name)));
            }
        }
        Some(_) => {
            finding.help(format!("give container port {} a name, and write that", ellipsize(text)));
        }
        None => {
            finding.help("write the name of the container port; Prometheus finds no pod otherwise");
        }
    }
    if let Some((port, workload)) = declared.zip(workload).filter(|_| pods.len() == 1) {
        finding.related(workload, port, "the port");
    }
}

fn no_name(
    node: &Node<'_>,
    name: &str,
    pods: &[Template<'_>],
    ports: &[Node<'_>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (first, _) = pods.first()?.place;
    let names: Vec<&str> = ports.iter().filter_map(|port| port.get("name").text()).collect();
    // The operator takes it for a regular expression.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let may_be_injected = are_injected(pods) || INJECTED_NAMES.iter().any(|word| name.contains(word));
    if !is_plain || may_be_injected || names.contains(&name) {
        return None;
    }
    let scraped: Vec<&str> =
        endpoints(ctx.object()).filter_map(|endpoint| endpoint.get("port").text()).collect();
    let message = format!("no container of {} has a port called `{}`", owner(first), ellipsize(name));
    let finding = ctx.report(node, message);
    finding.related(first, &first.path(&["metadata", "name"]), "its pods are not scraped");
    match names.iter().find(|name| is_for_metrics(name) && !scraped.contains(name)) {
        Some(other) if names.len() == 1 => {
            let fix = Fix::unsafe_(format!("write `{other}`")).set(node, json!(other));
            finding.help(format!("write `{other}`")).fix(fix);
        }
        Some(other) => {
            finding.help(format!("write one of its names, such as `{other}`"));
        }
        None => {
            finding.help("give the container port this name, or remove the endpoint");
        }
    }
    None
}

/// A workload whose pods have the labels in a namespace in which the monitor does not look: one of its name, or with the
/// name that a label gives.
fn in_other_namespace<'i>(object: &Object, selector: &Node<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let labels = selector.get("matchLabels").entries();
    let names: Vec<&str> =
        labels.iter().filter_map(|(_, value)| value.text()).chain([object.name()]).collect();
    workload_elsewhere(object, &names, |labels| matches(selector, labels), ctx)
}

/// Reports a selector that matches no pod of the whole cluster.
fn no_pods(object: &Object, selector: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let Scope::These(namespaces) = Scope::of(object)? else { return None };
    let labels = selector.get("matchLabels").entries();
    let is_plain = !selector.get("matchExpressions").is_set()
        && !labels.is_empty()
        && labels.iter().all(|(key, _)| NAME_LABELS.contains(key));
    let makers = cluster.views().pod_makers();
    let makes_here =
        |other: &Object| other.namespace().is_none() || namespaces.contains(&other.namespace_or_default());
    // The pods of a managed cluster's own components are in no manifest.
    if !cluster.is_complete()
        || !is_plain
        || namespaces.contains(&"kube-system")
        || may_bring_objects(cluster)
        || makers.0.iter().any(makes_here)
        || all_workloads(ctx)
            .any(|workload| workload.namespace().is_none() || workload.is_namespace_unknown())
    {
        return None;
    }
    let have: Vec<(String, String)> = namespaces
        .iter()
        .flat_map(|namespace| cluster.views().workloads_in(namespace))
        .flat_map(|workload| templates(&workload.object).iter().flat_map(own_labels).collect::<Vec<_>>())
        .collect();
    let near = labels.iter().find_map(|(key, value)| {
        let values = have.iter().filter(|(label, _)| label == key).map(|(_, value)| value.as_str());
        nearest(value.text()?, values).map(str::to_owned)
    });
    let finding = ctx.report(selector, "no pod has these labels: Prometheus scrapes nothing");
    finding.help(match near {
        Some(near) => format!("did you mean `{}`?", ellipsize(&near)),
        None => "compare it with the labels of the pod templates, and their namespace".to_owned(),
    });
    None
}

fn own_labels(template: &Template<'_>) -> Vec<(String, String)> {
    let labels = template.labels().into_iter();
    labels.filter_map(|(key, value)| Some((key.to_owned(), value.text()?.to_owned()))).collect()
}
