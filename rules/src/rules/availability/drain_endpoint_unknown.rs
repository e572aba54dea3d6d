//! The preStop hook calls an endpoint that vLLM does not have.
//!
//! # Why
//! vLLM has no `/drain` endpoint: it answers 404, `curl` without `--fail` calls that a success, and the
//! server goes on accepting requests until SIGTERM. What helps in such a hook is the sleep after the
//! call.
//!
//! # Fix
//! Remove the call and keep the sleep. From 0.18 on, `--shutdown-timeout` lets vLLM finish open
//! requests.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 120
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle:
//!              preStop:
//!                exec:
//! -                command: [sh, -c, "curl -X POST localhost:8000/drain; sleep 60"] # <-
//! +                command: [sh, -c, "sleep 60"]
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/stable/serving/openai_compatible_server/>
//! - <https://github.com/vllm-project/vllm/issues/34730>

use crate::rules::prelude::*;
use crate::workload::server::is_server;

pub(crate) static RULE: Rule = Rule {
    id: "drain-endpoint-unknown",
    docs: docs(include_str!("drain_endpoint_unknown.rs")),
    check: Check::PodTemplate(check),
    ..Rule::info(Group::Availability)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.containers() {
        let hook = container.path(&["lifecycle", "preStop"]);
        // A fragment may have the name of the container alone.
        let named = !container.get("image").is_set() && container.get("name").text() == Some("vllm");
        if !hook.is_set() || !(named || is_server(&container, ServerId::Vllm)) {
            continue;
        }
        let command = hook.path(&["exec", "command"]);
        let path = hook.path(&["httpGet", "path"]);
        let calls = |word: Node<'_>| word.raw_text().is_some_and(calls_drain);
        let node = if command.items().any(calls) {
            command
        } else if path.text() == Some("/drain") {
            path
        } else {
            continue;
        };
        ctx.report(&node, "vLLM has no `/drain` endpoint: the call fails, and requests are still accepted")
            .help(
                "remove the call and keep the sleep; `--shutdown-timeout` finishes open requests (from 0.18)",
            );
    }
    None
}

fn calls_drain(script: &str) -> bool {
    let mut words = script.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | ')'));
    words.any(|word| {
        let rest = word.strip_prefix("http://").unwrap_or(word);
        let local = ["localhost", "127.0.0.1", "0.0.0.0"].iter().any(|host| rest.starts_with(host));
        local && rest.split(['?', '#']).next().is_some_and(|url| url.ends_with("/drain"))
    })
}
