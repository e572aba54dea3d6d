//! A model server listens where nobody outside of its pod reaches it.
//!
//! # Why
//! A server that is bound to `127.0.0.1` answers requests from its own pod alone: probes of the kubelet fail, and
//! a Service sends requests to a port on which nobody listens. SGLang is bound to it unless `--host` says
//! otherwise; Ollama, vLLM and others are if a variable or an option says so. vLLM with the NixlConnector
//! tells its peers `VLLM_NIXL_SIDE_CHANNEL_HOST` as its address, `localhost` by default: a peer in another pod
//! then asks itself, with `0.0.0.0` as well, and computes the prompt again or ends. Nobody gets the address of a
//! server with the role `kv_consumer`. Ranks of a server after the first answer no requests, and are left alone.
//!
//! # Fix
//! Bind the server to all addresses of the pod: `--host 0.0.0.0`, or `OLLAMA_HOST=0.0.0.0`. Take the host of
//! NIXL's side channel from the field `status.podIP`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat}
//!  spec:
//!    restartPolicy: Never
//!    terminationGracePeriodSeconds: 120
//!    containers:
//!      - name: server
//!        image: lmsysorg/sglang:v0.5.3
//!        command:
//! -        - python3 # <-
//! +        - python3
//!          - -m
//!          - sglang.launch_server
//!          - --model-path=Qwen/Qwen3-4B
//! +        - --host=0.0.0.0
//!        readinessProbe: {httpGet: {path: /health, port: 30000}, timeoutSeconds: 5}
//!        resources: {requests: {cpu: 4, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.sglang.ai/advanced_features/server_arguments.html>
//! - <https://github.com/ollama/ollama/blob/main/docs/faq.mdx>
//! - <https://docs.vllm.ai/en/latest/features/nixl_connector_usage.html#environment-variables>

use crate::rules::availability::server_port_mismatch::starts_others;
use crate::rules::prelude::*;
use crate::workload::devices::pods_of;
use crate::workload::environment::{known, variable};
use crate::workload::launcher::is_later_rank;
use crate::workload::server::is_server;

pub(crate) static RULE: Rule = Rule {
    id: "server-on-loopback",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::SERVICE], REPLICATED_KINDS],
    docs: docs(include_str!("server_on_loopback.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Addresses that only programs of the pod reach.
pub(in crate::rules) const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        if let Some(server) = server_of(&container) {
            inspect(server, template, &container, ctx);
        }
    }
    side_channel(template, ctx)
}

/// The address that vLLM tells the peers of its NixlConnector, to which they connect for the first exchange.
const NIXL_HOST: &str = "VLLM_NIXL_SIDE_CHANNEL_HOST";

/// Reports the address of NIXL's side channel that names no pod, where the peers are in other pods. vLLM 0.9 to 0.11 binds to it
/// and passes it on in `kv_transfer_params` (`nixl_connector.py`); its default is `localhost` (`envs.py`).
fn side_channel(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // Other operators, such as those of KServe and Ray, set the variable or may.
    let (object, _) = template.place;
    let is_plain = matches!(object.group(), "apps" | "leaderworkerset.x-k8s.io");
    let container = &nixl_of(template)?;
    let line = command_line(container);
    // A consumer asks the others, and tells them no address.
    let is_settled = line.contains(NIXL_HOST) || line.contains("kv_consumer");
    if !is_plain || template.spec.get("hostNetwork").is_set() || is_settled {
        return None;
    }
    let help = "take it from the pod: `valueFrom: {fieldRef: {fieldPath: status.podIP}}`";
    if let Some((text, node)) = variable(container, NIXL_HOST)? {
        let is_of_no_pod = LOOPBACK.contains(&&*text) || matches!(&*text, "0.0.0.0" | "::");
        if is_of_no_pod {
            let message = format!("vLLM advertises `{text}` as its address: peers connect to themselves");
            ctx.report(&node, message).help(help);
        }
        return None;
    }
    known(container)?;
    if has_peers(object, template, ctx) {
        let message = format!("vLLM advertises `localhost` as its address: `{NIXL_HOST}` is not set");
        ctx.report(container, message).help(help);
    }
    None
}

/// Whether further pods with the NixlConnector are known: of the workload, or of another one of its namespace.
fn has_peers(object: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let is_peer = |other: &Object| {
        !other.is_same_resource(object)
            && other.namespace_or_default() == object.namespace_or_default()
            && ctx.pairs_with(other)
            && templates(other).iter().any(|template| nixl_of(template).is_some())
    };
    pods_of(object, template).is_some_and(|pods| pods > 1)
        || REPLICATED_KINDS.iter().any(|kind| cluster.of(*kind).any(is_peer))
}

/// The only container of a template with the NixlConnector. With several, both sides may be in one pod.
fn nixl_of<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let mut containers = template.containers().filter(has_nixl);
    containers.next().filter(|_| containers.next().is_none())
}

/// Whether a container runs vLLM with the NixlConnector, alone or as one of several.
fn has_nixl(container: &Node<'_>) -> bool {
    let line = command_line(container);
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
    line.contains("kv-transfer-config")
        && words.any(|word| word == "NixlConnector")
        && is_server(container, ServerId::Vllm)
}

/// Reports the address of a server that others are meant to reach: the kubelet with a probe, or a Service.
fn inspect(
    server: &Server,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    // Another container, such as a proxy, may take the requests, or a program that the script starts before the server.
    let alone = template.containers().count() == 1
        && template.sidecars().next().is_none()
        && !starts_others(container)
        && template.spec.get("hostNetwork").bool() != Some(true);
    let asks = |probe: &&str| {
        let probe = container.get(probe);
        let host = probe.path(&["httpGet", "host"]);
        (probe.get("httpGet").is_mapping() || probe.get("tcpSocket").is_mapping()) && !host.is_set()
    };
    let probes = ["startupProbe", "readinessProbe", "livenessProbe"];
    if !alone || is_later_rank(template, container) {
        return None;
    }
    let object = ctx.object();
    let services = ctx.cluster().views().services_of(object.namespace_or_default(), template);
    // The Service of a group gives its pods names, and need not lead to the API of the server.
    let service = services.into_iter().find(|service| {
        ctx.pairs_with(service) && service.path(&["spec", "clusterIP"]).text() != Some("None")
    });
    if service.is_none() && !probes.iter().any(asks) {
        return None;
    }
    let (address, node) = address_of(server, container)?;
    let host = address.trim_start_matches("http://").trim_start_matches('[');
    let host = host.split_once(']').map_or(host, |(host, _)| host);
    let host = if host.contains("::") { host } else { host.split(':').next()? };
    if !LOOPBACK.contains(&host) {
        return None;
    }
    let message =
        format!("{} listens on `{host}` alone, where neither probes nor a Service reach it", server.name);
    let help = if server.id == ServerId::Ollama {
        "write `OLLAMA_HOST=0.0.0.0`"
    } else {
        "start it with `--host 0.0.0.0`"
    };
    let finding = ctx.report(&node, message);
    finding.help(help);
    if let Some(service) = service {
        finding.related(service, &service.path(&["metadata", "name"]), "sends requests to the pods");
    }
    None
}

/// The address to which a server is bound, and what states it. `None` if it is unknown.
fn address_of<'a>(server: &Server, container: &Node<'a>) -> Option<(String, Node<'a>)> {
    if server.id == ServerId::Ollama {
        let (text, node) = variable(container, "OLLAMA_HOST").flatten()?;
        return Some((text.into_owned(), node));
    }
    if ![ServerId::Vllm, ServerId::Sglang, ServerId::TensorRtLlm, ServerId::LlamaCpp].contains(&server.id) {
        return None;
    }
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    match launch.option(&["host"]) {
        OptionValue::Text(text, node) => Some((text, node)),
        // Its image starts no server by itself, so that the command is here.
        OptionValue::Absent if server.id == ServerId::Sglang => {
            let words = words(container);
            let is_absent = matches!(option(&words, &["host"]), OptionValue::Absent);
            let first = words.into_iter().next()?;
            is_absent.then(|| ("127.0.0.1".to_owned(), first.node))
        }
        _ => None,
    }
}
