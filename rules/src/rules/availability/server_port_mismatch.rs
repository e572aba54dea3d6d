//! A probe or a Service names a port that the model server does not listen on.
//!
//! # Why
//! A model server listens on the port of its flag or variable, otherwise on that of its image: vLLM and
//! Triton 8000, TGI and TEI 80, SGLang 30000, Ollama 11434, llama.cpp 8080, TensorFlow Serving
//! 8501. A readiness or startup probe of another port never succeeds, so that no request arrives; a liveness
//! probe restarts the server again and again. A Service whose `targetPort` is another one refuses each
//! connection, and one whose `targetPort` is a name that no container has is without endpoints. A server with
//! several ports answers each kind of request on one of them: Triton HTTP on 8000, gRPC on 8001, metrics on 8002.
//! `containerPort` alone decides nothing, but probes and Services refer to its name, and KServe and Knative
//! send requests to it. `VLLM_PORT` and `SGLANG_PORT` look like the port of the API, and are the first port
//! between processes: the API keeps its own one.
//!
//! A probe with `scheme: HTTPS` fails as surely where the server speaks plain HTTP: vLLM and SGLang use TLS with
//! `--ssl-keyfile` and `--ssl-certfile` alone, and TGI, TEI and Ollama not at all. With these options a probe
//! without the scheme fails.
//!
//! Where a script, a variable from elsewhere, a configuration file or a second container may listen as well,
//! nothing is said.
//!
//! # Fix
//! Write the port of the server, or set `--port`. Write the scheme that the server speaks.
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
use crate::tree::placeholder::is_word_in_capitals;
use crate::workload::environment::{may_define, variable};
use crate::workload::ports::{find, number, target_of};
use crate::workload::selector;
use crate::workload::server::{PortUse, is_allowed};

pub(crate) static RULE: Rule = Rule {
    id: "server-port-mismatch",
    kinds: kinds![ALL_SERVER_KINDS, [Kind::DAEMON_SET, Kind::POD, Kind::SERVICE]],
    reads: kinds![[Kind::SERVICE, Kind::SERVICE_MONITOR], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("server_port_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// A container whose server listens on a known port, and which is the only one that may listen on unlisted ports.
struct Serving<'a> {
    server: &'static Server,
    port: i64,
    /// Whether an argument or a variable sets the port.
    is_set: bool,
    /// Its further ports, as for metrics.
    further: Vec<(PortUse, i64)>,
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
        if has_no_http(server, &container) {
            return None;
        }
        let further = server.further_ports(&container)?;
        containers.extend(template.sidecars());
        Some(Serving { server, port, is_set: node.is_some(), further, container, others: containers })
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
        self.use_of(port).is_some()
    }

    /// The use of a port of the server itself. `None` if it does not listen there.
    fn use_of(&self, port: i64) -> Option<PortUse> {
        let further = || self.further.iter().find(|(_, known)| *known == port);
        if self.port == port { Some(PortUse::Http) } else { further().map(|(of, _)| *of) }
    }

    /// The port that the server has for a use of its own.
    fn port_for(&self, wanted: PortUse) -> Option<i64> {
        match wanted {
            PortUse::Http => Some(self.port),
            _ => self.further.iter().find(|(of, _)| *of == wanted).map(|(_, port)| *port),
        }
    }

    /// Whether something may answer a probe, given its handler and the port that it names.
    fn may_answer(&self, kind: &str, handler: &Node<'_>, port: i64) -> bool {
        match self.use_of(port) {
            None => self.may_listen(port),
            Some(PortUse::Http) => kind != "grpc" || self.port_for(PortUse::Grpc).is_none(),
            Some(PortUse::Grpc) => kind != "httpGet",
            Some(PortUse::Metrics) => {
                let path = handler.get("path");
                let is_known =
                    path.is_absent() || path.text().is_some_and(|path| !path.starts_with("/metrics"));
                kind == "tcpSocket" || kind == "httpGet" && !is_known
            }
            Some(PortUse::Other) => true,
        }
    }

    /// The end of a message: `TGI listens on 80`.
    fn listens(&self) -> String {
        format!("{} listens on {}", self.server.name, self.port)
    }

    /// The end of a message about a port for a use: `Triton answers gRPC on 8001`.
    fn answers(&self, wanted: PortUse, port: i64) -> String {
        let what = match wanted {
            PortUse::Grpc => "answers gRPC",
            PortUse::Metrics => "has its metrics",
            PortUse::Http | PortUse::Other => "answers HTTP",
        };
        format!("{} {what} on {port}", self.server.name)
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

    /// The help for a field that is to have the port of a use.
    fn help_for(&self, wanted: PortUse, port: i64, field: &str) -> String {
        match wanted {
            PortUse::Http => self.help(field),
            _ => format!("write `{field}: {port}`, or set that port of the server"),
        }
    }
}

/// Variables for ports between the processes of a server, which look like the one of its API.
const INTERNAL_PORTS: [(ServerId, &str); 2] =
    [(ServerId::Vllm, "VLLM_PORT"), (ServerId::Sglang, "SGLANG_PORT")];

/// The port on which a prefill server of SGLang meets those for decoding.
const BOOTSTRAP_PORT: i64 = 8998;
/// The ports of Ray's head: its store, its dashboard, clients.
const RAY_PORTS: [i64; 3] = [6379, 8265, 10001];
/// What a command line has that starts Ray beside the server, or asks it: Ray's own command, and scripts that are copied for it.
const OF_RAY: [&str; 5] = ["ray start", "ray status", "ray_init", "ray_cluster_size", "multi-node-serving"];

/// Whether a container of Triton has no HTTP server on its port, or may not: `serve` is the script for SageMaker.
fn has_no_http(server: &Server, container: &Node<'_>) -> bool {
    let words = words(container);
    server.id == ServerId::Triton
        && (is_allowed(&words, "allow-http") != Some(true)
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
                check_schemes(object, &serving, ctx);
            }
        }
    }
    None
}

/// Servers, and the options of which both switch their HTTP port to TLS; none if they have no TLS. Sources: `cli_args.py` of vLLM (0.4
/// to 0.33), `server_args.py` of SGLang (0.5.10; earlier releases have no TLS), `common/arg.cpp` of llama.cpp, the launcher of TGI, the
/// router of TEI, `envconfig/config.go` of Ollama.
const TLS: [(ServerId, &[&str]); 6] = [
    (ServerId::Vllm, &["ssl-keyfile", "ssl-certfile"]),
    (ServerId::Sglang, &["ssl-keyfile", "ssl-certfile"]),
    (ServerId::LlamaCpp, &["ssl-key-file", "ssl-cert-file"]),
    (ServerId::Tgi, &[]),
    (ServerId::Tei, &[]),
    (ServerId::Ollama, &[]),
];

/// Whether the server speaks TLS on its HTTP port. `None` if that is not known.
fn speaks_tls(serving: &Serving<'_>) -> Option<bool> {
    let (_, options) = TLS.iter().find(|(id, _)| *id == serving.server.id)?;
    if options.is_empty() {
        return Some(false);
    }
    let launch = Launch::of(&serving.container).filter(|launch| !launch.may_have_more_options())?;
    let named = options.iter().filter(|option| launch.has(&[option])).count();
    let in_variable = |name: &str| name.starts_with("LLAMA_ARG_SSL");
    if may_define(&serving.container, in_variable) {
        return None;
    }
    match named {
        0 => Some(false),
        set if set == options.len() => Some(true),
        _ => None,
    }
}

/// A probe of the HTTP port of a server that is for another protocol than that of the server: its name, and the field that says so.
fn probe_of_other_protocol<'a>(
    serving: &Serving<'a>,
    name: &'static str,
    tls: bool,
) -> Option<(&'static str, Node<'a>)> {
    let handler = serving.container.path(&[name, "httpGet"]);
    let scheme = handler.get("scheme");
    let asks_tls = match scheme.text() {
        Some("HTTPS") => true,
        Some("HTTP") => false,
        None if scheme.is_absent() && handler.is_mapping() => false,
        _ => return None,
    };
    let (port, _) = number(&serving.container, &handler.get("port"))?;
    let is_wrong = asks_tls != tls && port == serving.port && !handler.get("host").is_set();
    is_wrong.then(|| (name, if scheme.is_set() { scheme } else { handler.get("port") }))
}

/// Reports probes with TLS of a server without it, or the reverse.
fn check_schemes(object: &Object, serving: &Serving<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let tls = speaks_tls(serving)?;
    let probes = ["readinessProbe", "startupProbe", "livenessProbe"];
    let mut wrong = probes.into_iter().filter_map(|name| probe_of_other_protocol(serving, name, tls));
    let (name, place) = wrong.next()?;
    let server = serving.server.name;
    let (message, help) = if tls {
        let message = format!("`{name}` asks for plain HTTP, and the options of {server} switch TLS on");
        (message, "write `scheme: HTTPS` in the probe")
    } else {
        let message = format!("`{name}` asks with TLS, and {server} speaks plain HTTP");
        (message, "write `scheme: HTTP`, or give the server a certificate")
    };
    let finding = ctx.report(&place, message);
    finding.help(help);
    for (_, other) in wrong {
        finding.related(object, &other, "and here");
    }
    None
}

/// Whether an operator sends requests to the pods by the container port: KServe's predictor of one's own, and Knative.
fn is_behind_proxy(object: &Object) -> bool {
    ALL_SERVER_KINDS[REPLICATED_KINDS.len()..].iter().any(|kind| object.is(*kind))
}

/// A probe that nothing answers on its port.
struct WrongProbe<'a> {
    name: &'static str,
    handler: &'static str,
    port: i64,
    /// The number: of the probe, or of the container port that it names.
    node: Node<'a>,
}

/// A probe of a server, if nothing answers on its port.
fn wrong_probe<'a>(serving: &Serving<'a>, name: &'static str) -> Option<WrongProbe<'a>> {
    let probe = serving.container.get(name);
    let handlers = ["httpGet", "tcpSocket", "grpc"].map(|kind| (kind, probe.get(kind)));
    let (handler, node) = handlers.into_iter().find(|(_, node)| node.is_set())?;
    let (port, at) = number(&serving.container, &node.get("port"))?;
    let is_wrong = !node.get("host").is_set() && !serving.may_answer(handler, &node, port);
    is_wrong.then_some(WrongProbe { name, handler, port, node: at })
}

/// The probes of a server that nothing answers on their ports, each port once.
fn wrong_probes<'a>(serving: &Serving<'a>) -> Vec<WrongProbe<'a>> {
    let mut wrong: Vec<WrongProbe<'a>> = Vec::new();
    let probes = ["readinessProbe", "startupProbe", "livenessProbe"];
    for probe in probes.into_iter().filter_map(|name| wrong_probe(serving, name)) {
        if !wrong.iter().any(|known| known.node.pointer() == probe.node.pointer()) {
            wrong.push(probe);
        }
    }
    wrong
}

/// Whether nothing answers the probe of the server of a template in the field `probe` on its port.
pub(super) fn is_unanswered(template: &Template<'_>, probe: &'static str) -> bool {
    Serving::of(template).is_some_and(|serving| wrong_probe(&serving, probe).is_some())
}

fn check_probes(object: &Object, serving: &Serving<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let wrong = wrong_probes(serving);
    if let Some(WrongProbe { name, handler, port, node }) = wrong.first() {
        // The server answers a gRPC probe on another port.
        if *handler == "grpc"
            && let Some(own) = serving.port_for(PortUse::Grpc)
        {
            let message = format!("`{name}` of port {port}: {}", serving.answers(PortUse::Grpc, own));
            ctx.report(node, message)
                .help(format!("write `port: {own}`, or set the port of the server"))
                .fix(Fix::unsafe_(format!("ask port {own}")).set(node, json!(own)));
            return None;
        }
        let effect = if *name == "livenessProbe" { "restarts it again and again" } else { "never succeeds" };
        let why = match serving.has(*port) {
            true => serving.answers(PortUse::Http, serving.port),
            false => serving.listens(),
        };
        let message = match serving.use_of(*port) {
            // What is answered there depends on the release, and on the server in none.
            Some(PortUse::Metrics) => {
                format!("`{name}` asks port {port}, which has metrics and knows nothing of the server: {why}")
            }
            _ => format!("`{name}` of port {port} {effect}: {why}"),
        };
        let of_http: Vec<&WrongProbe<'_>> = wrong.iter().filter(|one| one.handler != "grpc").collect();
        let mut fix = Fix::unsafe_(format!("ask port {}", serving.port));
        for one in &of_http {
            fix = fix.set(&one.node, json!(serving.port));
        }
        let finding = ctx.report(node, message);
        if of_http.is_empty() {
            let (health, server) = (serving.server.health, serving.server.name);
            finding.help(format!("ask `{health}` with `httpGet`: {server} has no port for gRPC"));
        } else {
            finding.help(serving.help("port")).fix(fix);
        }
        for other in wrong.iter().skip(1) {
            finding.related(object, &other.node, "and here");
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
    // A name in capitals is a placeholder that nothing has filled in.
    let name = target.text()?;
    let first = &workloads.first()?.object;
    let pods: Vec<Template<'_>> = workloads.iter().flat_map(|workload| templates(&workload.object)).collect();
    let has_name = |port: Node<'_>| port.get("name").text() == Some(name);
    // The port of a headless Service is only in its SRV records.
    if service.path(&["spec", "clusterIP"]).text() == Some("None")
        || service.may_lack_fields()
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        || is_word_in_capitals(name)
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
    let message = format!(
        "no container of {owner} has a port called `{}`: this port has no endpoints",
        ellipsize(name)
    );
    ctx.report(target, message).help("write the name or the number of a container port").related(
        first,
        &first.path(&["metadata", "name"]),
        "its pods are selected",
    );
    None
}

/// The monitor that scrapes a port of a Service, and the name of the port in it.
fn monitor_of<'i>(service: &Object, port: &Node<'_>, ctx: &Context<'i>) -> Option<(&'i Object, Node<'i>)> {
    let name = port.get("name").text()?;
    let labels = service.path(&["metadata", "labels"]);
    let cluster: &'i Cluster = ctx.cluster();
    cluster.of(Kind::SERVICE_MONITOR).find_map(|monitor| {
        let selector = monitor.path(&["spec", "selector"]);
        let wanted = selector.get("matchLabels").entries();
        let selects = !wanted.is_empty()
            && selector.get("matchExpressions").is_absent()
            && wanted
                .iter()
                .all(|(key, value)| value.text().is_some_and(|text| labels.get(key).text() == Some(text)));
        let is_near = monitor.namespace() == service.namespace()
            || monitor.path(&["spec", "namespaceSelector"]).is_set();
        if !selects || !is_near || !ctx.pairs_with(monitor) {
            return None;
        }
        let mut endpoints = monitor.path(&["spec", "endpoints"]).items();
        let endpoint = endpoints.find(|endpoint| endpoint.get("port").text() == Some(name))?;
        Some((monitor, endpoint.get("port")))
    })
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
    let ports: Vec<Node<'_>> = spec.get("ports").items().collect();
    let uses: Vec<Vec<PortUse>> = ports.iter().map(|port| uses_by_name(port, &serving)).collect();
    // Where several names say what they are for, a port that the server has for another use is a mistake.
    let is_told_apart = uses.iter().filter(|uses| !uses.is_empty()).count() > 1;
    let has_other_use = |number: i64, named: &[PortUse]| {
        is_told_apart
            && named.first().is_some_and(|wanted| serving.port_for(*wanted).is_some())
            && serving.use_of(number).is_some_and(|of| of != PortUse::Other && !named.contains(&of))
    };
    let reached = |(port, named): (&Node<'_>, &Vec<PortUse>)| {
        let (number, _) = number(&serving.container, &target_of(port))?;
        (!has_other_use(number, named)).then_some(number)
    };
    let reached: Vec<i64> = ports.iter().zip(&uses).filter_map(reached).collect();
    for (port, named) in ports.iter().zip(&uses) {
        let target = target_of(port);
        let Some((number, node)) = number(&serving.container, &target) else { continue };
        let own = named.first().and_then(|wanted| Some((*wanted, serving.port_for(*wanted)?)));
        // Its port for that use may be closed, or be another one.
        let may_have_own = named.first().is_some_and(|wanted| serving.server.may_have_port_for(*wanted));
        if own.is_none() && may_have_own && serving.further.iter().any(|(of, _)| *of == PortUse::Other) {
            continue;
        }
        let is_of_other_use = has_other_use(number, named);
        if !is_of_other_use && (serving.may_listen(number) || meant == Some(number)) {
            continue;
        }
        let (wanted, own) = own.unwrap_or((PortUse::Http, serving.port));
        let why = match wanted {
            PortUse::Http if !is_of_other_use => serving.listens(),
            _ => serving.answers(wanted, own),
        };
        let has_none = named.first() == Some(&PortUse::Grpc) && wanted != PortUse::Grpc;
        let owner = &workload.object;
        let message = format!("the Service sends requests to port {number} of the pods, and {why}");
        let scraped = monitor_of(object, port, ctx);
        let finding = ctx.report(&target, message);
        // Another port of the Service reaches the server.
        if reached.contains(&own) {
            finding.related(owner, &serving.container.get("name"), "the server");
            if let Some((monitor, endpoint)) = scraped {
                finding.help("scrape the port that the server has, and remove this one").related(
                    monitor,
                    &endpoint,
                    "scrapes a port where nobody listens",
                );
            } else {
                finding.severity(Severity::Info).help("remove this port: another one reaches the server");
            }
        } else if has_none {
            finding.help(format!("remove this port: {} has none for gRPC", serving.server.name)).related(
                owner,
                &serving.container.get("name"),
                "the server",
            );
        // By its name the number is that of the container.
        } else if target.int().is_some() {
            finding.help(serving.help_for(wanted, own, "targetPort")).fix(
                Fix::unsafe_(format!("send requests to port {own}")).set(&port.get("targetPort"), json!(own)),
            );
            finding.related(owner, &serving.container.get("name"), "the server");
        } else {
            let help = serving.help_for(wanted, own, "containerPort");
            finding.help(help).related(owner, &node, "the number of that name");
        }
    }
    None
}

/// The uses that the names of a port of a Service, and of the container port that it sends requests to, say.
fn uses_by_name(port: &Node<'_>, serving: &Serving<'_>) -> Vec<PortUse> {
    let target = target_of(port);
    let listed = find(&serving.container, &target).map(|entry| entry.get("name"));
    let names = [Some(port.get("name")), Some(target), listed];
    names.into_iter().flatten().filter_map(|name| PortUse::of_name(name.text()?)).collect()
}
