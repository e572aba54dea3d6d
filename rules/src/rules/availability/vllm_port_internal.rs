//! A variable for traffic between vLLM processes is set as if it were the server's.
//!
//! # Why
//! vLLM takes `VLLM_PORT` and `VLLM_HOST_IP` for the connections between its own processes and nodes, not
//! for its API. `VLLM_PORT: "8080"` does not make the server listen on 8080, and with the port of the server
//! in it the processes look for ports from there on. `VLLM_HOST_IP: 0.0.0.0` is an address at which no other
//! process finds this one.
//!
//! A Service `vllm` of the namespace sets `VLLM_PORT` to a URL, with which vLLM does not start. Where the input
//! has it, a number in the variable is what keeps the pods from that, and the finding is information.
//!
//! # Fix
//! Write the server's port and address as `--port` and `--host`, and leave the variables out. Of several nodes
//! each needs its own address in `VLLM_HOST_IP`: `status.podIP`. Beside a Service `vllm`, write
//! `enableServiceLinks: false` in the pod template first.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    replicas: 1
//!    progressDeadlineSeconds: 1800
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.19.1
//! -          args: [--model, Qwen/Qwen3-8B]
//! -          env: [{name: VLLM_PORT, value: "8000"}] # <-
//! +          args: [--model, Qwen/Qwen3-8B, --port, "8000"]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/stable/configuration/env_vars/>

use std::net::IpAddr;

use super::service_name_breaks_server::replaced_by_link;
use crate::rules::prelude::*;
use crate::workload::command::command_and_args;
use crate::workload::environment::{entry, variable};
use crate::workload::server::is_server;

pub(crate) static RULE: Rule = Rule {
    id: "vllm-port-internal",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::SERVICE],
    docs: docs(include_str!("vllm_port_internal.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        for container in template.containers().filter(|container| is_server(container, ServerId::Vllm)) {
            for (option, name) in [("--port", "VLLM_PORT"), ("--host", "VLLM_HOST_IP")] {
                let found = reference(&container, option, name).or_else(|| value(&container, name));
                let Some((node, message, help)) = found else { continue };
                let service = replaced_by_link(object, &template, name, ctx);
                let finding = ctx.report(&node, message);
                finding.identified_by(name);
                match service {
                    Some(service) => finding
                        .severity(Severity::Info)
                        .help(format!("with `enableServiceLinks: false`, {help}"))
                        .related(service, &service.path(&["metadata", "name"]), "sets it to a URL otherwise"),
                    None => finding.help(help),
                };
            }
        }
    }
    None
}

/// The place of a finding, its message and its help.
type Found<'a> = (Node<'a>, String, String);

/// The item of a container's command line in which an option has a variable of the container as its value.
fn reference<'a>(container: &Node<'a>, option: &str, name: &str) -> Option<Found<'a>> {
    entry(container, name)?;
    // The pod's own address is right for both.
    if option == "--host" && !variable(container, name)?.is_some_and(|(text, _)| is_no_address_of_pod(&text))
    {
        return None;
    }
    let mut follows = false;
    let is_name =
        |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name);
    for item in command_and_args(container) {
        let text = item.raw_text().unwrap_or_default();
        for word in text.split_whitespace() {
            let value = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
            if value.or(follows.then_some(word)).is_some_and(|value| value.contains('$') && is_name(value)) {
                let message = format!("`{option}` is `{name}`, which vLLM takes for its own processes");
                let help = format!(
                    "write the value in `{option}`, or use a variable with another name, and leave `{name}` out"
                );
                return Some((item, message, help));
            }
            follows = word == option;
        }
    }
    None
}

/// Whether a host is not the address of one pod: all addresses, the own machine, or a name.
fn is_no_address_of_pod(host: &str) -> bool {
    let is_name = !host.is_empty() && !host.contains(['$', ':']);
    host.parse::<IpAddr>().map_or(is_name, |ip| ip.is_unspecified() || ip.is_loopback())
}

/// A value with which the variable is certainly meant for the server.
fn value<'a>(container: &Node<'a>, name: &str) -> Option<Found<'a>> {
    let (text, node) = variable(container, name)??;
    let help = if name == "VLLM_HOST_IP" {
        if !matches!(text.as_ref(), "0.0.0.0" | "::") {
            return None;
        }
        "remove it, or take the pod's address from `status.podIP`; the server's address is `--host`"
            .to_owned()
    } else {
        let (port, _) = server_of(container)?.listens_on(container)?;
        if text.parse() != Ok(port) || words(container).iter().any(|word| word.text == "--headless") {
            return None;
        }
        format!("remove it: the server's port is `--port {port}`")
    };
    Some((node, format!("`{name}` is not for the server: vLLM takes it for its own processes"), help))
}
