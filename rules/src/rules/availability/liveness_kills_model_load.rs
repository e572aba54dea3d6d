//! A liveness probe kills a model server before its model is loaded.
//!
//! # Why
//! A liveness probe counts from the start of the container unless a startup probe holds it back. A
//! server that downloads and loads a model for minutes fails it, is killed with the last failure that
//! `failureThreshold` allows, `initialDelaySeconds` and `failureThreshold - 1` times `periodSeconds` after
//! its start, and begins again: the pod restarts in a loop, and each round pays for the GPU. It may start
//! from a warm cache and fail on the next new node. Servers of embedding models load within seconds and
//! are left out. A container of an InferenceService is looked at together with its runtime, where the
//! runtime is in the input.
//!
//! # Fix
//! Add a startup probe with the same request and time for the slowest load: 60 failures every 10
//! seconds are ten minutes. A parameter, `load-seconds`, is the shortest time that a liveness probe has
//! to leave (180).
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
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//! -          livenessProbe: # <-
//! +          startupProbe:
//! +            httpGet: {path: /health, port: 8000}
//! +            periodSeconds: 10
//! +            failureThreshold: 60
//! +          livenessProbe:
//!              httpGet: {path: /health, port: 8000}
//!              periodSeconds: 10
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>
//! - <https://docs.vllm.ai/en/stable/deployment/k8s/>

use super::serving::{ALL_SERVER_KINDS, model_server, serving_templates};
use crate::cluster::runtimes::RUNTIMES;
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::prelude::*;
use crate::workload::server::{server_of, serving_container, uses_device};
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "liveness-kills-model-load",
    kinds: ALL_SERVER_KINDS,
    reads: &[Kind::NAMESPACE, RUNTIMES[0], RUNTIMES[1], RUNTIMES[2], RUNTIMES[3]],
    params: &[Param {
        name: "load-seconds",
        description: "seconds that a model server may need to load its model",
        default: ParamDefault::Int { default: 180, min: 1, max: 86_400 },
    }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("liveness_kills_model_load.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let classified = model_server(object, ctx)?;
    for template in serving_templates(object) {
        // Without an accelerator it may be a proxy or serve a small model.
        if !uses_device(&template) {
            continue;
        }
        let Some(container) = serving_container(&template) else {
            continue;
        };
        // The runtime of an InferenceService may have a startup probe.
        if is_model_of_runtime(&container) {
            continue;
        }
        let probe = container.get("livenessProbe");
        let startup = container.get("startupProbe");
        let small = server_of(&container).is_some_and(|server| server.loads_fast);
        if !probe.is_mapping() || startup.is_set() || small {
            continue;
        }
        let number = |field: &str, default: i64| {
            let node = probe.get(field);
            if node.is_set() { node.int() } else { Some(default) }
        };
        let period = number("periodSeconds", 10)?.max(1);
        let failures = number("failureThreshold", 3)?.max(1);
        // The first probe is due after the delay, and the last one fails at the latest with its timeout.
        let delay = number("initialDelaySeconds", 0)?;
        let killed = (failures - 1).checked_mul(period)?.checked_add(delay)?;
        if killed.checked_add(number("timeoutSeconds", 1)?.max(1))? > ctx.int("load-seconds") {
            continue;
        }
        // Knative names the container.
        let server = server_of(&container).map_or("main", |server| server.name);
        let name = container.get("name").text().unwrap_or(server).to_owned();
        let handler = ["httpGet", "tcpSocket", "grpc", "exec"].map(|name| (name, probe.get(name)));
        let finding = ctx.report(
            &probe,
            format!(
                "the liveness probe kills `{name}` about {killed} s after its start if the model is not loaded"
            ),
        );
        finding.help(
            "add a startup probe that leaves time for the slowest load, such as 60 failures every 10 s",
        );
        if let Some((kind, handler)) = handler.into_iter().find(|(_, node)| node.is_set()) {
            let copy = json!({kind: handler.to_json(), "periodSeconds": 10, "failureThreshold": 60});
            finding.fix(Fix::new("add a startup probe of ten minutes", Safety::Unsafe).set(&startup, copy));
        }
        add_class_evidence(finding, object, &classified);
    }
    None
}
