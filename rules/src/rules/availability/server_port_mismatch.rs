//! A probe or a Service names a port that the model server does not listen on.
//!
//! # Why
//! A model server listens on the port of its flag or variable, otherwise on that of its image: vLLM and
//! Triton 8000, TGI and TEI 80, SGLang 30000, Ollama 11434, llama.cpp 8080, TensorFlow Serving
//! 8501. A readiness or startup probe of another port never succeeds, so that no request arrives; a liveness
//! probe restarts the server again and again. A Service whose `targetPort` is another one refuses each
//! connection, and one whose `targetPort` is a name that no container has is without endpoints.
//! `containerPort` alone decides nothing, but probes and Services refer to its name, and KServe and Knative
//! send requests to it. `VLLM_PORT` and `SGLANG_PORT` look like the port of the API, and are the first port
//! between processes: the API keeps its own one.
//!
//! Where a script, a variable from elsewhere, a configuration file or a second container may listen as well,
//! nothing is said.
//!
//! # Fix
//! Write the port of the server, or set `--port`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: tgi
//!            image: ghcr.io/huggingface/text-generation-inference:3.0.1
//!            args: [--model-id, mistralai/Mistral-7B-v0.3]
//!            readinessProbe:
//! -            httpGet: {path: /health, port: 8080} # <-
//! +            httpGet: {path: /health, port: 80}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/stable/deployment/k8s/>
//! - <https://docs.vllm.ai/en/latest/configuration/env_vars.html>
//! - <https://huggingface.co/docs/text-generation-inference/reference/launcher>
//! - <https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service>

use super::service_name_breaks_server::replaced_by_link;
use super::serving::{ALL_SERVER_KINDS, is_owned, serving_templates};
use crate::cluster::views::Workload;
use crate::rules::monitoring::pod_monitor_selects_nothing::{
    INJECTED_NAMES, are_injected, has_known_ports, has_plain_pods, ports,
};
use crate::rules::prelude::*;
use crate::workload::environment::{may_define, variable};
use crate::workload::ports::{number, target_of};
use crate::workload::selector;

const KINDS: [Kind; ALL_SERVER_KINDS.len() + 3] =
    joined(ALL_SERVER_KINDS, &[Kind::DAEMON_SET, Kind::POD, Kind::SERVICE]);

pub(crate) static RULE: Rule = Rule {
    id: "server-port-mismatch",
    kinds: &KINDS,
    reads: &with_workloads::<{ WORKLOAD_KINDS.len() + 1 }>(&[Kind::SERVICE]),
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("server_port_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// A container whose server listens on a known port, and which is the only one that may listen on unlisted ports.
struct Serving<'a> {
    server: &'static Server,
    port: i64,
    /// The port for gRPC, if the server has one.
    grpc: Option<i64>,
    /// Whether an argument or a variable sets the port.
    is_set: bool,
    /// Its further ports, as for metrics.
    further: Vec<i64>,
    container: Node<'a>,
    others: Vec<Node<'a>>,
}

impl<'a> Serving<'a> {
    fn of(template: &Template<'a>) -> Option<Serving<'a>> {
        let is_leader = template.is_of_leaders();
        if template.spec.has_unknown_key() {
            return None;
        }
        let mut containers: Vec<Node<'a>> = template.containers().collect();
        let mut serving = (0..containers.len()).filter(|at| server_of(&containers[*at]).is_some());
        let at = serving.next().filter(|_| serving.next().is_none())?;
        let container = containers.remove(at);
        let server = server_of(&container)?;
        if container.has_unknown_key() || starts_others(&container) || is_later_rank(&container, is_leader) {
            return None;
        }
        let (port, node) = server.listens_on(&container)?;
        let grpc = grpc_port(server, &container);
        if has_no_http(server, &container) {
            return None;
        }
        let further = further_ports(server, &container)?;
        containers.extend(template.sidecars());
        Some(Serving { server, port, grpc, is_set: node.is_some(), further, container, others: containers })
    }

    /// Whether something in the pod may listen on a port. Another container without a list of ports may on any.
    fn may_listen(&self, port: i64) -> bool {
        self.has(port)
            || self.is_among_ranks(port)
            || self.others.iter().any(|other| {
                let ports = other.get("ports");
                let lists = |entry: Node<'_>| entry.get("containerPort").int().is_none_or(|p| p == port);
                !ports.is_set() || ports.items().any(lists)
            })
    }

    /// Whether a port is for the other ranks or for Ray: it is in an address or an option of the command line, or Ray's own.
    fn is_among_ranks(&self, port: i64) -> bool {
        let line = command_line(&self.container);
        let mut numbers = line.split(|c: char| !c.is_ascii_digit());
        let is_of_ray = || OF_RAY.iter().any(|part| line.contains(part));
        numbers.any(|number| number.parse() == Ok(port))
            || line.contains("disaggregation-mode") && port == BOOTSTRAP_PORT
            || RAY_PORTS.contains(&port) && is_of_ray()
    }

    /// Whether the server itself listens on a port.
    fn has(&self, port: i64) -> bool {
        self.port == port || self.further.contains(&port)
    }

    /// The end of each message: `TGI listens on 80`.
    fn listens(&self) -> String {
        format!("{} listens on {}", self.server.name, self.port)
    }

    /// The variable of a port between processes that is set to a port on which the container is meant to be asked.
    fn mistaken_variable(&self) -> Option<(&'static str, Node<'a>, i64)> {
        let (_, name) = INTERNAL_PORTS.iter().find(|(of, _)| *of == self.server.id)?;
        let (text, node) = variable(&self.container, name).flatten()?;
        let port: i64 = text.parse().ok().filter(|port| !self.has(*port))?;
        let mut listed = self.container.get("ports").items();
        listed.any(|entry| entry.get("containerPort").int() == Some(port)).then_some((*name, node, port))
    }

    /// What sets the port, for the help.
    fn help(&self, field: &str) -> String {
        let why = if self.is_set { "as its arguments or environment say" } else { "its default" };
        format!("write `{field}: {}`, {why}, or set the port of the server", self.port)
    }
}

/// Variables for ports between the processes of a server, which look like the one of its API.
const INTERNAL_PORTS: [(ServerId, &str); 2] =
    [(ServerId::Vllm, "VLLM_PORT"), (ServerId::Sglang, "SGLANG_PORT")];

/// Further ports of a server: the option that sets each, and the default.
type FurtherPorts = &'static [(&'static str, i64)];

/// Further ports of servers, as for gRPC and metrics.
const FURTHER_PORTS: [(ServerId, FurtherPorts); 5] = [
    (
        ServerId::Triton,
        &[(GRPC_PORT, 8001), ("metrics-port", 8002), ("sagemaker-port", 8080), ("vertex-ai-port", 8080)],
    ),
    (ServerId::Tgi, &[("prometheus-port", 9000)]),
    (ServerId::Tei, &[("prometheus-port", 9000)]),
    (ServerId::HuggingFace, &[(GRPC_PORT, 8081)]),
    (ServerId::TensorFlow, &[("port", 8500)]),
];

/// The port on which a prefill server of SGLang meets those for decoding.
const BOOTSTRAP_PORT: i64 = 8998;
/// The ports of Ray's head: its store, its dashboard, clients.
const RAY_PORTS: [i64; 3] = [6379, 8265, 10001];
/// What a command line has that starts Ray beside the server, or asks it: Ray's own command, and scripts that are copied for it.
const OF_RAY: [&str; 5] = ["ray start", "ray status", "ray_init", "ray_cluster_size", "multi-node-serving"];

const GRPC_PORT: &str = "grpc-port";

/// Options that open a further port, which is closed without them, and the variable that does so as well.
const OPENED_BY: [(&str, &str, &str); 2] = [
    ("sagemaker-port", "allow-sagemaker", "SAGEMAKER_BIND_TO_PORT"),
    ("vertex-ai-port", "allow-vertex-ai", "AIP_MODE"),
];

fn grpc_port(server: &Server, container: &Node<'_>) -> Option<i64> {
    let (_, ports) = FURTHER_PORTS.iter().find(|(id, _)| *id == server.id)?;
    let (_, default) = ports.iter().find(|(name, _)| *name == GRPC_PORT)?;
    option(&words(container), &[GRPC_PORT]).int_or(*default)
}

/// The further ports of the server of a container. `None` if one is unknown.
fn further_ports(server: &Server, container: &Node<'_>) -> Option<Vec<i64>> {
    let words = words(container);
    let known = FURTHER_PORTS.iter().find(|(id, _)| *id == server.id);
    let ports = known.map(|(_, ports)| *ports).unwrap_or_default();
    let is_closed = |name: &str| {
        OPENED_BY.iter().any(|(port, opens, variable)| {
            *port == name
                && [*opens, name].iter().all(|one| matches!(option(&words, &[one]), OptionValue::Absent))
                && !may_define(container, |name| name == *variable)
        })
    };
    let open = ports.iter().filter(|(name, _)| !is_closed(name));
    open.map(|(name, default)| option(&words, &[name]).int_or(*default)).collect()
}

/// Whether a container of Triton has no HTTP server on its port, or may not: `serve` is the script for SageMaker.
fn has_no_http(server: &Server, container: &Node<'_>) -> bool {
    let words = words(container);
    server.id == ServerId::Triton
        && (!matches!(option(&words, &["allow-http"]), OptionValue::Absent)
            || words.iter().any(|word| word.text == "serve")
            || words.is_empty())
}

/// Whether a script starts programs in the background, which may listen as well: `proxy & vllm serve`. `2>&1` and `&&`
/// start none.
pub(in crate::rules) fn starts_others(container: &Node<'_>) -> bool {
    let line = command_line(container);
    let bytes = line.as_bytes();
    let joins = |byte: Option<&u8>| matches!(byte, Some(b'&' | b'>'));
    (0..bytes.len()).any(|at| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        bytes[at] == b'&' && !joins(before) && !joins(bytes.get(at + 1))
    })
}

/// Whether a container may be another rank than the first, which answers no requests, or listens on a socket. The leader of
/// a group is the first.
fn is_later_rank(container: &Node<'_>, is_leader: bool) -> bool {
    let words = words(container);
    let first = is_leader || option(&words, &["node-rank"]).int_or(0) == Some(0);
    !first
        || words.iter().any(|word| word.text == "--headless")
        || !matches!(option(&words, &["uds"]), OptionValue::Absent)
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    if object.is(Kind::SERVICE) {
        return check_service(object, ctx);
    }
    for template in serving_templates(object) {
        let Some(serving) = Serving::of(&template) else { continue };
        match serving.mistaken_variable() {
            Some((name, node, port)) => {
                let message = format!("`{name}` is the port between processes: {}", serving.listens());
                let service = replaced_by_link(object, &template, name, ctx);
                let how = if service.is_some() { "with `enableServiceLinks: false`, " } else { "" };
                ctx.report(&node, message)
                    .help(format!("{how}remove the variable, and start the server with `--port {port}`"));
            }
            None => {
                check_probes(object, &serving, ctx);
            }
        }
    }
    None
}

/// Whether an operator sends requests to the pods by the container port: KServe's predictor of one's own, and Knative.
fn is_behind_proxy(object: &Object) -> bool {
    ALL_SERVER_KINDS[REPLICATED_KINDS.len()..].iter().any(|kind| object.is(*kind))
}

fn check_probes(object: &Object, serving: &Serving<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let mut wrong: Vec<(&str, Node<'_>, i64)> = Vec::new();
    for name in ["readinessProbe", "startupProbe", "livenessProbe"] {
        let probe = serving.container.get(name);
        let handlers = ["httpGet", "tcpSocket", "grpc"].map(|handler| probe.get(handler));
        let Some(handler) = handlers.into_iter().find(Node::is_set) else { continue };
        if handler.get("host").is_set() {
            continue;
        }
        if let Some((port, node)) = number(&serving.container, &handler.get("port"))
            && !serving.may_listen(port)
            && !wrong.iter().any(|(_, known, _)| known.pointer() == node.pointer())
        {
            wrong.push((name, node, port));
        }
    }
    if let Some((name, node, port)) = wrong.first() {
        // The server answers a gRPC probe on another port.
        if serving.container.get(name).get("grpc").is_set()
            && let Some(own) = serving.grpc
        {
            let message = format!("`{name}` of port {port}: {} answers gRPC on {own}", serving.server.name);
            ctx.report(node, message)
                .help(format!("write `port: {own}`, or set the port of the server"))
                .fix(Fix::unsafe_(format!("ask port {own}")).set(node, json!(own)));
            return None;
        }
        let effect = if *name == "livenessProbe" { "restarts it again and again" } else { "never succeeds" };
        let message = format!("`{name}` of port {port} {effect}: {}", serving.listens());
        let mut fix = Fix::unsafe_(format!("ask port {}", serving.port));
        for (_, node, _) in &wrong {
            fix = fix.set(node, json!(serving.port));
        }
        let finding = ctx.report(node, message);
        finding.help(serving.help("port")).fix(fix);
        for (_, other, _) in wrong.iter().skip(1) {
            finding.related(object, other, "and here");
        }
        return None;
    }
    let ports = serving.container.get("ports");
    let listed: Vec<Node<'_>> = ports.items().map(|entry| entry.get("containerPort")).collect();
    let is_wrong = |node: &Node<'_>| node.int().is_some_and(|port| !serving.has(port));
    if !listed.is_empty() && listed.iter().all(is_wrong) {
        let first = &listed[0];
        let number = first.int()?;
        // KServe and Knative send requests to the port that is listed.
        if is_behind_proxy(object) && listed.len() == 1 && !serving.may_listen(number) {
            let message =
                format!("requests are sent to `containerPort: {number}`, and {}", serving.listens());
            ctx.report(first, message).help(serving.help("containerPort"));
            return None;
        }
        let message = format!("`containerPort: {number}` is not a port of the server: {}", serving.listens());
        ctx.report(first, message).severity(Severity::Info).help(serving.help("containerPort"));
    }
    None
}

/// Reports a port by a name that no container of the selected pods has. A webhook may add a sidecar with one.
fn no_such_name(
    service: &Object,
    target: &Node<'_>,
    workloads: &[&Workload],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = target.text()?;
    let first = &workloads.first()?.object;
    let pods: Vec<Template<'_>> = workloads.iter().flat_map(|workload| templates(&workload.object)).collect();
    let has_name = |port: Node<'_>| port.get("name").text() == Some(name);
    // The port of a headless Service is only in its SRV records.
    if service.path(&["spec", "clusterIP"]).text() == Some("None")
        || service.may_lack_fields()
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        || INJECTED_NAMES.iter().any(|word| name.contains(word))
        || are_injected(&pods)
        || !workloads.iter().all(|workload| {
            has_plain_pods(&workload.object) && ctx.cluster().likely_pairs(service, &workload.object)
        })
        || !pods.iter().all(has_known_ports)
        || ports(&pods).into_iter().any(has_name)
    {
        return None;
    }
    let owner = format!("{} `{}`", first.kind(), first.display_name());
    let message =
        format!("no container of {owner} has a port called `{}`: requests to it go nowhere", ellipsize(name));
    ctx.report(target, message).help("write the name or the number of a container port").related(
        first,
        &first.path(&["metadata", "name"]),
        "its pods are selected",
    );
    None
}

fn check_service(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let selector_node = spec.get("selector");
    if spec.get("type").text() == Some("ExternalName") || !selector_node.is_mapping() {
        return None;
    }
    let (workloads, unknown) = ctx.cluster().views().selected_by_service(object);
    if unknown || workloads.iter().any(|workload| is_owned(&workload.object)) {
        return None;
    }
    for port in spec.get("ports").items() {
        no_such_name(object, &port.get("targetPort"), &workloads, ctx);
    }
    let [workload] = workloads.as_slice() else { return None };
    let labels = selector_node.entries();
    let mut selected = serving_templates(&workload.object)
        .into_iter()
        .filter(|template| selector::includes(&labels, &template.pod_labels()) == Some(true));
    let template = selected.next().filter(|_| selected.next().is_none())?;
    let serving = Serving::of(&template)?;
    // A variable that is meant to set the port is reported at the workload.
    let meant = serving.mistaken_variable().map(|(_, _, port)| port);
    let reaches = |port: Node<'_>| {
        let number = number(&serving.container, &target_of(&port));
        number.is_some_and(|(number, _)| number == serving.port)
    };
    let is_spare = spec.get("ports").items().any(reaches);
    for port in spec.get("ports").items() {
        let target = target_of(&port);
        let Some((number, node)) = number(&serving.container, &target) else { continue };
        if serving.may_listen(number) || meant == Some(number) {
            continue;
        }
        let message =
            format!("the Service sends requests to port {number} of the pods, and {}", serving.listens());
        let owner = &workload.object;
        let finding = ctx.report(&target, message);
        // Another port of the Service reaches the server.
        if is_spare {
            finding
                .severity(Severity::Info)
                .help("remove this port: another one reaches the server")
                .related(owner, &serving.container.get("name"), "the server");
        // By its name the number is that of the container.
        } else if target.int().is_some() {
            finding.help(serving.help("targetPort")).fix(
                Fix::unsafe_(format!("send requests to port {}", serving.port))
                    .set(&port.get("targetPort"), json!(serving.port)),
            );
            finding.related(owner, &serving.container.get("name"), "the server");
        } else {
            finding.help(serving.help("containerPort")).related(owner, &node, "the number of that name");
        }
    }
    None
}
