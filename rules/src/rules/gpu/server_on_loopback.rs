//! A model server listens where nobody outside of its pod reaches it.
//!
//! # Why
//! A server that is bound to `127.0.0.1` answers requests from its own pod alone: probes of the kubelet fail, and
//! a Service sends requests to a port on which nobody listens. SGLang is bound to it unless `--host` says
//! otherwise; Ollama, vLLM and others are if a variable or an option says so.
//!
//! # Fix
//! Bind the server to all addresses of the pod: `--host 0.0.0.0`, or `OLLAMA_HOST=0.0.0.0`.
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
//!        readinessProbe: {httpGet: {path: /health, port: 30000}}
//!        resources: {requests: {cpu: 4, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.sglang.ai/advanced_features/server_arguments.html>
//! - <https://github.com/ollama/ollama/blob/main/docs/faq.mdx>

use crate::rules::prelude::*;
use crate::workload::command::{OptionValue, option, words};
use crate::workload::launcher::Launch;
use crate::workload::server::{Server, ServerId, server_of, variable};

pub(crate) static RULE: Rule = Rule {
    id: "server-on-loopback",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("server_on_loopback.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Addresses that only programs of the pod reach.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        if let Some(server) = server_of(&container) {
            inspect(server, template, &container, ctx);
        }
    }
    None
}

/// Reports the address of a server that others are meant to reach: the kubelet with a probe, or by a port.
fn inspect(
    server: &Server,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    // Another container, such as a proxy, may take the requests.
    let alone = template.containers().count() == 1 && template.spec.get("hostNetwork").bool() != Some(true);
    let asks = |probe: &&str| {
        let probe = container.get(probe);
        let host = probe.path(&["httpGet", "host"]);
        (probe.get("httpGet").is_mapping() || probe.get("tcpSocket").is_mapping()) && !host.is_set()
    };
    let probes = ["startupProbe", "readinessProbe", "livenessProbe"];
    if !alone || !probes.iter().any(asks) {
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
    ctx.report(&node, message).help(help);
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
