//! A liveness probe restarts a model server that is only busy.
//!
//! # Why
//! A liveness probe that fails ends the container, with all open requests, and the model is loaded again on a
//! GPU that waits for it. A readiness endpoint answers no while models are loaded or the engine is full, and
//! `/health_generate` of SGLang waits for the engine, until 0.5.1 unlike `/health`: neither means that the server
//! is dead. And a server in Python answers `/health` from the process that takes the requests: without
//! `timeoutSeconds`, one second is all that it has under load. This is reported where fifteen seconds of it are
//! enough for a restart.
//!
//! # Fix
//! Ask the liveness endpoint of the server, and leave the readiness endpoint to the readiness probe. Write
//! `timeoutSeconds: 5` or more.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: sglang
//!            image: lmsysorg/sglang:v0.4.9
//!            command: [python3, -m, sglang.launch_server]
//!            args: [--model-path, mistralai/Mistral-7B-v0.3, --host, 0.0.0.0]
//!            startupProbe: {httpGet: {path: /health, port: 30000}, failureThreshold: 90}
//!            readinessProbe: {httpGet: {path: /health, port: 30000}}
//!            livenessProbe:
//!              timeoutSeconds: 10
//!              httpGet:
//! -              path: /health_generate # <-
//! +              path: /health
//!                port: 30000
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>
//! - <https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/README.html>

use super::serving::{ALL_SERVER_KINDS, model_server, serving_templates};
use crate::rules::prelude::*;
use crate::workload::server::health::{answers_late, has_own_health};
use crate::workload::server::serving_container;

pub(crate) static RULE: Rule = Rule {
    id: "liveness-restarts-busy-server",
    kinds: ALL_SERVER_KINDS,
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("liveness_restarts_busy_server.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Servers in Python, which answer probes from the process that takes the requests.
const IN_PYTHON: [ServerId; 4] =
    [ServerId::Vllm, ServerId::Sglang, ServerId::LmDeploy, ServerId::TensorRtLlm];

/// Seconds of load after which no server should be restarted.
const SHORT: i64 = 15;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    model_server(object, ctx)?;
    for template in serving_templates(object) {
        if !uses_device(&template) {
            continue;
        }
        let Some(container) = serving_container(&template) else { continue };
        let Some(server) = server_of(&container) else { continue };
        let probe = container.get("livenessProbe");
        if asks_readiness(server, &container, &probe, ctx).is_none() {
            hurries(server, &container, &probe, ctx);
        }
    }
    None
}

/// Reports a probe that asks whether the server can take requests.
fn asks_readiness(
    server: &Server,
    container: &Node<'_>,
    probe: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let field = probe.path(&["httpGet", "path"]);
    let path = field.text()?;
    let of_model = path.starts_with("/v2/models/") && path.ends_with("/ready");
    let (live, is_sure) = match (server.id, path) {
        (ServerId::Triton, _) if of_model || path == "/v2/health/ready" => {
            // Models are loaded while the server runs only in these modes.
            let mode = Launch::of(container).map(|launch| launch.option(&["model-control-mode"]));
            ("/v2/health/live", mode.is_some_and(|mode| mode.is("explicit") || mode.is("poll")))
        }
        (ServerId::Nim, "/v1/health/ready") => ("/v1/health/live", false),
        (ServerId::Sglang, "/health_generate") if has_own_health(container) => ("/health", true),
        _ => return None,
    };
    let message = match server.id {
        ServerId::Sglang => {
            format!("`{path}` waits behind other requests: the liveness probe restarts a busy server")
        }
        _ => {
            let name = server.name;
            format!("`{path}` says whether {name} takes requests: the liveness probe restarts one that loads")
        }
    };
    ctx.report(&field, message)
        .severity(if is_sure { Severity::Warning } else { Severity::Info })
        .help(format!("ask `{live}`"))
        .fix(Fix::unsafe_(format!("ask `{live}`")).set(&field, json!(live)));
    Some(())
}

/// Reports a probe that gives a busy server one second.
fn hurries(server: &Server, container: &Node<'_>, probe: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let timeout = probe.get("timeoutSeconds");
    let path = probe.path(&["httpGet", "path"]);
    // The rule probe-timeout-short reports these.
    let is_late = path.text().is_some_and(|path| answers_late(container, path).is_some());
    if !IN_PYTHON.contains(&server.id)
        || is_late
        || !probe.get("httpGet").is_set()
        || timeout.is_unknown()
        || timeout.int_or(1)? > 1
    {
        return None;
    }
    let (period, failures) =
        (probe.get("periodSeconds").int_or(10)?, probe.get("failureThreshold").int_or(3)?);
    let patience = period.checked_mul(failures).filter(|patience| *patience <= SHORT)?;
    let message = format!(
        "the liveness probe restarts a busy server: {patience} s in which {} takes over 1 s to answer",
        server.name
    );
    ctx.report(if timeout.is_set() { &timeout } else { probe }, message)
        .help("write `timeoutSeconds: 5` or more, and more failures")
        .fix(Fix::unsafe_("wait five seconds for an answer").set(&timeout, json!(5)));
    Some(())
}
