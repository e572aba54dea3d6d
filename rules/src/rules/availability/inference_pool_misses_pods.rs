//! An InferencePool names a port or an endpoint picker that is not there.
//!
//! # Why
//! A Gateway sends the requests for an InferencePool to `targetPorts` of the pod that its endpoint picker
//! chooses (`targetPortNumber` before v1). If the server listens on another port, the picker cannot read
//! its metrics, or each request ends in 503. `endpointPickerRef` (`extensionRef` before v1) names the
//! Service of the picker and a port of it; if there is none, `failureMode: FailClose`, the default, rejects
//! all requests.
//!
//! One port is enough. Where the server is not a known one, or a container without a list of ports or a
//! script may listen there, as the routing sidecar of llm-d does, nothing is said.
//!
//! # Fix
//! Write the port of the server, and the name and the port of the picker's Service.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: inference.networking.k8s.io/v1
//!  kind: InferencePool
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {matchLabels: {app: chat}}
//!    targetPorts:
//! -    - number: 8080 # <-
//! +    - number: 8000
//!    endpointPickerRef: {name: chat-picker, port: {number: 9002}}
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, namespace: models, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: example.com/vllm:v0.11.0
//!        command: [vllm, serve, Qwen/Qwen3-8B]
//! ```
//!
//! # References
//! - <https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/>
//! - <https://github.com/kubernetes-sigs/gateway-api-inference-extension/issues/2562>

use super::gateway_route::selected_by_pool;
use super::intended_workload::workload_elsewhere;
use super::server_port_mismatch::starts_others;
use super::serving::{is_owned, serving_templates};
use crate::cluster::together::is_in_written_namespace;
use crate::rules::prelude::*;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "inference-pool-misses-pods",
    kinds: &[Kind::INFERENCE_POOL, Kind::INFERENCE_POOL_ALPHA],
    reads: kinds![
        [
            Kind::SERVICE,
            Kind::INFERENCE_POOL,
            Kind::INFERENCE_POOL_ALPHA,
            Kind::HELM_RELEASE,
            Kind::ARGO_APPLICATION
        ],
        WORKLOAD_KINDS
    ],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("inference_pool_misses_pods.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.is_namespace_unknown() || is_owned(object) {
        return None;
    }
    let spec = object.get("spec");
    if object.is(Kind::INFERENCE_POOL_ALPHA)
        && object.version() == "v1alpha2"
        && spec.is_mapping()
        && !spec.has_unknown_key()
        && spec.get("extensionRef").is_absent()
    {
        ctx.report(
            &spec.get("extensionRef"),
            "`extensionRef` is missing, which an InferencePool of v1alpha2 needs",
        )
        .reports_absence(false)
        .help("name the Service of the endpoint picker: `extensionRef: {name: …}`");
    }
    if elsewhere(object, ctx).is_some() {
        return None;
    }
    target_ports(object, &spec, ctx);
    picker(object, &spec, ctx)
}

/// Reports a pool whose pods are in another namespace: it selects those of its own alone.
fn elsewhere(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let selector = spec.get("selector");
    let map = match selector.get("matchLabels") {
        labels if labels.is_set() => labels,
        _ => selector.clone(),
    };
    let labels = map.entries();
    let (workloads, unknown) = selected_by_pool(object, ctx);
    if unknown || !workloads.is_empty() || labels.is_empty() || selector.has_unknown() {
        return None;
    }
    let named: Vec<&str> =
        labels.iter().filter_map(|(_, value)| value.text()).chain([object.name()]).collect();
    let includes = |own: &[(&str, Node<'_>)]| selector::includes(&labels, own);
    let workload = workload_elsewhere(object, &named, includes, ctx)?;
    let there = workload.namespace_or_default();
    let message = format!(
        "the pods of the pool are in namespace `{}`, and it selects those of `{}` alone",
        ellipsize(there),
        ellipsize(object.namespace_or_default())
    );
    ctx.report(&object.path(&["metadata", "namespace"]), message)
        .help(format!("put it into namespace `{}`", ellipsize(there)))
        .related(workload, &workload.path(&["metadata", "namespace"]), "the pods");
    Some(())
}

/// What is known of the ports of a pod.
enum Listens<'i> {
    /// A container listens on one of those that are asked for, or may.
    Maybe,
    /// Only on others: the first of them, and the container.
    Elsewhere(i64, Node<'i>),
}

fn target_ports(object: &Object, spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let mut nodes: Vec<Node<'_>> = spec.get("targetPorts").items().map(|port| port.get("number")).collect();
    if nodes.is_empty() {
        nodes.push(spec.get("targetPortNumber"));
    }
    let wanted: Vec<i64> = nodes.iter().map(Node::int).collect::<Option<_>>()?;
    let (workloads, unknown) = selected_by_pool(object, ctx);
    if unknown || spec.get("targetPorts").has_unknown() {
        return None;
    }
    let mut first = None;
    for workload in workloads {
        let owner = &workload.object;
        // Operators add containers to their pods.
        let is_open = owner.may_lack_fields()
            || is_owned(owner)
            || !matches!(owner.group(), "" | "apps" | "leaderworkerset.x-k8s.io")
            || !ctx.cluster().likely_pairs(object, owner);
        if is_open {
            return None;
        }
        for template in serving_templates(owner) {
            match listens(&template, &wanted) {
                Listens::Maybe => return None,
                Listens::Elsewhere(port, container) => _ = first.get_or_insert((owner, port, container)),
            }
        }
    }
    let (owner, port, container) = first?;
    let who = server_of(&container).map_or("the container", |server| server.name);
    let message = format!("no pod of the pool listens on port {}: {who} listens on {port}", wanted[0]);
    let finding = ctx.report(&nodes[0], message);
    finding.reports_absence(false).help(format!("write {port}, or set the port of the server")).related(
        owner,
        &container.get("name"),
        "the server",
    );
    if nodes.len() == 1 {
        finding.fix(Fix::unsafe_(format!("send requests to port {port}")).set(&nodes[0], json!(port)));
    }
    None
}

fn listens<'i>(template: &Template<'i>, wanted: &[i64]) -> Listens<'i> {
    if template.spec.has_unknown_key() {
        return Listens::Maybe;
    }
    let mut found = None;
    for container in template.containers().chain(template.sidecars()) {
        let ports = container.get("ports");
        let listed: Option<Vec<i64>> =
            ports.items().map(|entry| entry.get("containerPort").int()).collect::<Option<_>>();
        let server = server_of(&container);
        let own = match server {
            Some(server) => server.listens_on(&container).map(|(port, _)| port),
            None => listed.as_ref().and_then(|listed| listed.first().copied()),
        };
        let lists_wanted = || listed.iter().flatten().any(|port| wanted.contains(port));
        let Some(port) = own.filter(|port| !wanted.contains(port)) else { return Listens::Maybe };
        if container.has_unknown_key()
            || listed.is_none()
            || ports.has_unknown()
            || server.is_none() && lists_wanted()
            || starts_others(&container)
        {
            return Listens::Maybe;
        }
        // A list of ports need not be complete: only that of a known server says where it listens.
        if found.is_none() && server.is_some() {
            found = Some((port, container));
        }
    }
    found.map_or(Listens::Maybe, |(port, container)| Listens::Elsewhere(port, container))
}

/// What names the endpoint picker of a pool.
fn picker_of<'a>(spec: &Node<'a>) -> Option<Node<'a>> {
    ["endpointPickerRef", "extensionRef"].map(|field| spec.get(field)).into_iter().find(Node::is_set)
}

/// Reports a picker whose Service, or its port, is not there.
fn picker(object: &Object, spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let reference = picker_of(spec)?;
    let is_service = |field: &str, own: &str| reference.get(field).text().is_none_or(|text| text == own);
    if !is_service("kind", Kind::SERVICE.kind) || !is_service("group", "") {
        return None;
    }
    let node = reference.get("name");
    let name = node.text()?;
    let cluster = ctx.cluster();
    let namespace = object.namespace_or_default();
    let [service] = cluster.all("", "Service", namespace, name) else {
        return missing_picker(object, &node, name, ctx);
    };
    if service.may_lack_fields() || !cluster.likely_pairs(object, service) {
        return None;
    }
    let number = ["port", "number"];
    let port = match reference.get("portNumber") {
        port if port.is_set() => port,
        _ => reference.path(&number),
    };
    let wanted = port.int()?;
    let ports = service.path(&["spec", "ports"]);
    let known: Vec<i64> =
        ports.items().map(|entry| entry.get("port").int()).collect::<Option<Vec<_>>>().unwrap_or_default();
    if known.is_empty() || ports.has_unknown() || known.contains(&wanted) {
        return None;
    }
    let message = format!("Service `{}` of the endpoint picker has no port {wanted}", ellipsize(name));
    let finding = ctx.report(&port, message);
    finding.reports_absence(false).related(service, &ports, "its ports");
    match known.as_slice() {
        [only] => finding
            .help(format!("write {only}"))
            .fix(Fix::unsafe_(format!("ask the picker at port {only}")).set(&port, json!(only))),
        _ => finding.help("write one of its ports"),
    };
    None
}

/// Reports a picker whose Service is not there, if one of nearly that name is.
fn missing_picker(object: &Object, node: &Node<'_>, name: &str, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let namespace = object.namespace_or_default();
    let is_here = !cluster.all("", "Service", namespace, name).is_empty();
    if is_here || may_bring_objects(cluster) || !is_in_written_namespace(object) {
        return None;
    }
    // The Service of another pool is not meant: such names are near to each other.
    let pools = [Kind::INFERENCE_POOL, Kind::INFERENCE_POOL_ALPHA];
    let taken: Vec<&str> = pools
        .into_iter()
        .flat_map(|kind| cluster.in_namespace(kind, namespace))
        .filter_map(|pool| picker_of(&pool.get("spec"))?.get("name").text())
        .collect();
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    let likely = |service: &&Object| {
        cluster.likely_pairs(object, service)
            && !taken.contains(&service.name())
            && digits(service.name()) == digits(name)
    };
    let services: Vec<&Object> = cluster.in_namespace(Kind::SERVICE, namespace).filter(likely).collect();
    let meant = nearest(name, services.iter().map(|service| service.name()))?;
    let service = services.iter().find(|service| service.name() == meant)?;
    let message = format!("there is no Service `{}` here, but `{}`", ellipsize(name), ellipsize(meant));
    ctx.report(node, message)
        .help(format!("write `{meant}`: without the endpoint picker the pool gets no requests"))
        .related(service, &service.path(&["metadata", "name"]), "the Service")
        .fix(Fix::unsafe_(format!("ask `{meant}`")).set(node, json!(meant)));
    None
}
