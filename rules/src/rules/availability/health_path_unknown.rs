//! A probe or a load balancer asks a model server for a path that it does not have.
//!
//! # Why
//! Each server has its own path for health: `/health` for vLLM, SGLang, TGI, TEI, TensorRT-LLM and llama.cpp,
//! `/v2/health/ready` for Triton, `/` for Ollama, `/v1/models/MODEL` for TensorFlow Serving. Another path
//! ends in 404 or 400: a readiness or startup probe never succeeds, so that no request arrives, and a liveness
//! probe restarts the server again and again. An Application Load Balancer asks for `/` and accepts 200 alone
//! unless annotations of the Ingress or of the Service say otherwise: vLLM, Triton and TensorFlow Serving have
//! nothing there, and all targets count as unhealthy. The load balancer then sends requests to each of them,
//! whether it can answer or not; alarms about unhealthy hosts stay on, and where pods have readiness gates of
//! the controller, new ones never become ready. With `--api-key` vLLM answers paths below `/v1` with 401 to a
//! probe without the key.
//!
//! A probe that runs `curl` or `wget` in the image of Ollama fails as well: it has neither. Images with
//! another tag than a version are left alone, because they may be built on it.
//!
//! Paths are compared for servers that run alone in their pod on a known port; a path that is not known to be
//! wrong is left alone.
//!
//! # Fix
//! Write the path of the server, or `alb.ingress.kubernetes.io/healthcheck-path` on the Ingress.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: ollama
//!        image: ollama/ollama:0.12.0
//!        ports: [{containerPort: 11434}]
//!        readinessProbe:
//! -        httpGet: {path: /health, port: 11434} # <-
//! +        httpGet: {path: /, port: 11434}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/stable/deployment/k8s/>
//! - <https://github.com/ollama/ollama/issues/9781>
//! - <https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/README.html>
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/>
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/>

use super::ingress::{Backend, Controller, backends, controller};
use super::server_port_mismatch::starts_others;
use super::serving::{ALL_SERVER_KINDS, is_owned, serving_templates};
use crate::facts::text::is_digits;
use crate::rules::prelude::*;
use crate::workload::command::shell_script;
use crate::workload::ports::{number, target_of};
use crate::workload::server::may_be_rebuilt;

pub(crate) static RULE: Rule = Rule {
    id: "health-path-unknown",
    kinds: kinds![ALL_SERVER_KINDS, [Kind::DAEMON_SET, Kind::POD, Kind::INGRESS]],
    reads: kinds![[Kind::SERVICE, Kind::INGRESS_CLASS], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("health_path_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Paths for health that some program has.
const USUAL: [&str; 14] = [
    "/",
    "/health",
    "/healthz",
    "/healthcheck",
    "/health/ready",
    "/health/live",
    "/ready",
    "/status",
    "/api/health",
    "/v1/health",
    "/v1/health/ready",
    "/v1/health/live",
    "/v2/health/ready",
    "/v2/health/live",
];

/// The usual paths that a server answers, or may in one of its releases. A server whose routes are not known is not listed.
/// From the routers of vLLM (`api_server.py`), TGI and TEI (`server.rs`), Triton's `http_server.cc` and Ollama's
/// `routes.go`, and the page on TensorFlow Serving's REST API.
const ANSWERED: [(ServerId, &[&str]); 6] = [
    (ServerId::Vllm, &["/health"]),
    (ServerId::Tgi, &["/", "/health"]),
    (ServerId::Tei, &["/", "/health"]),
    (ServerId::Triton, &["/v2/health/ready", "/v2/health/live"]),
    (ServerId::Ollama, &["/"]),
    (ServerId::TensorFlow, &[]),
];

const PATH: &str = "alb.ingress.kubernetes.io/healthcheck-path";
/// Annotations that change what the load balancer asks, or which answers it accepts.
const CHANGES: [&str; 4] = [
    "alb.ingress.kubernetes.io/healthcheck-port",
    "alb.ingress.kubernetes.io/success-codes",
    "alb.ingress.kubernetes.io/healthcheck-protocol",
    "alb.ingress.kubernetes.io/backend-protocol-version",
];

/// Options of vLLM that add routes or move them, or may. With a socket another program answers on the port.
const MOVES: [&str; 4] = ["--middleware", "--root-path", "--config", "--uds"];

/// Whether a server is known to have nothing at a path.
fn is_wrong(server: &Server, path: &str) -> bool {
    let known = ANSWERED.iter().find(|(id, _)| *id == server.id);
    let path = path.split('?').next().unwrap_or_default();
    known.is_some_and(|(_, answered)| USUAL.contains(&path) && !answered.contains(&path))
}

/// The only container of a template with its server and port.
fn lone_server<'a>(template: &Template<'a>) -> Option<(Node<'a>, &'static Server, i64)> {
    let mut containers = template.containers();
    let container = containers.next().filter(|_| containers.next().is_none())?;
    let server = server_of(&container)?;
    // An image that is built on that of the server may have other routes.
    if image_text(&container).is_some_and(may_be_rebuilt) {
        return None;
    }
    let line = command_line(&container);
    let is_open = template.spec.has_unknown_key()
        || container.has_unknown_key()
        || template.sidecars().next().is_some()
        || MOVES.iter().any(|word| line.contains(word))
        || container.get("env").items().any(|entry| entry.get("name").text() == Some("VLLM_PLUGINS"))
        || container.get("envFrom").is_set()
        || starts_others(&container);
    let (port, _) = server.listens_on(&container).filter(|_| !is_open)?;
    Some((container, server, port))
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) {
        return None;
    }
    if object.is(Kind::INGRESS) {
        return check_ingress(object, ctx);
    }
    for template in serving_templates(object) {
        if let Some((container, server, port)) = lone_server(&template) {
            check_probes(object, &container, server, port, ctx);
            check_programs(&container, server, ctx);
        }
    }
    None
}

fn check_probes(
    object: &Object,
    container: &Node<'_>,
    server: &Server,
    port: i64,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let mut found: Vec<(&str, Node<'_>, String)> = Vec::new();
    for name in ["readinessProbe", "startupProbe", "livenessProbe"] {
        let get = container.path(&[name, "httpGet"]);
        let asked = number(container, &get.get("port")).map(|(number, _)| number);
        if !get.is_mapping() || get.get("host").is_set() || asked != Some(port) {
            continue;
        }
        let node = get.get("path");
        let text = if node.is_absent() { "/" } else { node.text().filter(|text| !is_placeholder(text))? };
        let path = format!("/{}", text.trim_start_matches('/'));
        if is_wrong(server, &path) || needs_key(server, container, &get, &path) {
            found.push((name, node, path));
        }
    }
    let (name, node, path) = found.first()?;
    let effect = if *name == "livenessProbe" { "restarts it again and again" } else { "never succeeds" };
    let why = if is_wrong(server, path) { "has no" } else { "asks for its API key at" };
    let message = format!("`{name}` {effect}: {} {why} `{}`", server.name, ellipsize(path));
    let finding = ctx.report(node, message);
    for (_, other, _) in found.iter().skip(1) {
        finding.related(object, other, "and here");
    }
    // The path of TensorFlow Serving has the name of the model.
    if server.id == ServerId::TensorFlow {
        finding.help("write `/v1/models/` and the name of the model");
        return None;
    }
    let mut fix = Fix::unsafe_(format!("ask for `{}`", server.health));
    for (_, other, _) in &found {
        fix = fix.set(other, json!(server.health));
    }
    finding.help(format!("write `path: {}`", server.health)).fix(fix);
    None
}

/// Reports a probe that runs a program which the image of Ollama does not have (its Dockerfile, last asked about in May 2026).
fn check_programs(container: &Node<'_>, server: &Server, ctx: &mut Context<'_>) -> Option<()> {
    if server.id != ServerId::Ollama
        || !is_plain_ollama(container.get("image").text()?)
        || may_add_programs(container)
    {
        return None;
    }
    for name in ["readinessProbe", "startupProbe", "livenessProbe"] {
        let command = container.path(&[name, "exec", "command"]);
        let script = shell_script(command.items());
        let is_shell = script.is_some();
        let Some(item) = script.map(|script| script.node).or_else(|| command.items().next()) else {
            continue;
        };
        let Some(text) = item.text() else { continue };
        let Some(program) = text.split_whitespace().next() else { continue };
        // What follows may succeed.
        if is_shell && text.contains(['|', ';', '\n']) {
            continue;
        }
        if !matches!(program, "curl" | "wget") {
            continue;
        }
        let effect = if name == "livenessProbe" { "restarts it again and again" } else { "never succeeds" };
        let message = format!("`{name}` {effect}: the image of Ollama has no `{program}`");
        ctx.report(&item, message).help("write `httpGet: {path: /, port: 11434}`, or run `ollama list`");
        return None;
    }
    None
}

/// Whether an image is that of Ollama itself. One with another tag than a version may have more programs: images for ROCm had
/// another base in some releases, and `0.12.0-curl` is somebody's own.
fn is_plain_ollama(image: &str) -> bool {
    let is_version = |tag: &str| tag.trim_start_matches('v').split('.').all(is_digits);
    let image = ImageRef::parse(image);
    image.is("ollama/ollama") && image.tag.is_none_or(|tag| tag == "latest" || is_version(tag))
}

/// Whether a container may have more programs than its image: it installs some, or finds them in a volume.
fn may_add_programs(container: &Node<'_>) -> bool {
    let start = container.path(&["lifecycle", "postStart", "exec"]);
    let is_path = |variable: Node<'_>| variable.get("name").text() == Some("PATH");
    let has_programs =
        |mount: Node<'_>| mount.get("mountPath").text().is_none_or(|path| path.contains("bin"));
    [container, &start].iter().any(|one| command_line(one).contains("apt"))
        || container.get("env").items().any(is_path)
        || container.get("volumeMounts").items().any(has_programs)
}

/// Whether vLLM answers a path only to requests with its key, and the probe sends no header.
fn needs_key(server: &Server, container: &Node<'_>, get: &Node<'_>, path: &str) -> bool {
    let by_variable = || {
        container.get("env").items().any(|entry| {
            let is_set =
                entry.get("value").text().is_some_and(|value| !value.is_empty() && !is_placeholder(value))
                    || entry.get("valueFrom").is_set()
                        && entry.path(&["valueFrom", "secretKeyRef", "optional"]).bool() != Some(true);
            entry.get("name").text() == Some("VLLM_API_KEY") && is_set
        })
    };
    // An empty key is none, and comes before the variable.
    let has_key = match option(&words(container), &["api-key"]) {
        OptionValue::Text(key, _) => !key.is_empty(),
        OptionValue::Unknown => true,
        OptionValue::Absent => by_variable(),
    };
    server.id == ServerId::Vllm && has_key && path.starts_with("/v1/") && !get.get("httpHeaders").is_set()
}

fn check_ingress(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let annotations = object.path(&["metadata", "annotations"]);
    let is_open = object.may_lack_fields() || annotations.has_unknown_key();
    if is_open || controller(object, ctx) != Some(Controller::Alb) {
        return None;
    }
    for backend in backends(object) {
        behind(object, &backend, ctx);
    }
    None
}

/// Compares the path of the load balancer's health check with the server behind one Service.
fn behind(object: &Object, backend: &Backend<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let service = ctx.partner(Kind::SERVICE, object.namespace_or_default(), backend.named_service()?)?;
    let places = [object, service];
    let is_changed = places.iter().any(|place| {
        let annotations = place.path(&["metadata", "annotations"]);
        annotations.has_unknown_key() || CHANGES.iter().any(|key| place.annotation(key).is_set())
    });
    // The annotation of a Service comes before that of the Ingress.
    if is_changed || service.may_lack_fields() || service.annotation(PATH).is_set() {
        return None;
    }
    let node = object.annotation(PATH);
    let path = if node.is_absent() { "/" } else { node.text().filter(|text| !is_placeholder(text))? };
    let (workloads, unknown) = ctx.cluster().views().selected_by_service(service);
    let [workload] = workloads.as_slice() else { return None };
    let owner: &Object = &workload.object;
    let all = serving_templates(owner);
    let [template] = all.as_slice() else { return None };
    let (container, server, port) = lone_server(template)?;
    let listed = |port: &Node<'_>| number(&container, &target_of(port)).map(|(number, _)| number);
    let mut ports = service.path(&["spec", "ports"]).items();
    let first = ports.next().filter(|_| ports.next().is_none())?;
    if unknown || listed(&first) != Some(port) || !is_wrong(server, path) || !ctx.pairs_with(owner) {
        return None;
    }
    let by_default = if node.is_absent() { "by default " } else { "" };
    let message = format!(
        "{by_default}the load balancer asks for `{}`, which {} does not answer with 200",
        ellipsize(path),
        server.name
    );
    let finding = ctx.report(&node, message);
    finding.related(owner, &container.get("name"), "the server");
    if server.id == ServerId::TensorFlow {
        finding.help(format!("write `{PATH}: /v1/models/` and the name of the model"));
    } else {
        finding
            .help(format!("write `{PATH}: {}`", server.health))
            .fix(Fix::unsafe_(format!("ask for `{}`", server.health)).set(&node, json!(server.health)));
    }
    None
}
