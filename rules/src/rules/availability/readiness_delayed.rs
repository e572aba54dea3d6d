//! A readiness probe keeps a model server out of its Service for a fixed time.
//!
//! # Why
//! `initialDelaySeconds` of a readiness probe is the time before the first request, whatever the server does: a
//! pod with 900 gets no traffic for a quarter of an hour, although its model is loaded after one minute. Each
//! rollout, each node that is replaced and each step of an autoscaler waits as long, and the GPU is paid for. A
//! readiness probe that fails while the model loads does no harm: it restarts nothing.
//!
//! # Fix
//! Leave the delay out. To keep a liveness probe from a server that loads its model, write a startup probe,
//! which ends as soon as the server answers. A parameter, `seconds`, is the delay from which on this is
//! reported (300).
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
//!            readinessProbe:
//!              httpGet: {path: /health, port: 8000}
//! -            initialDelaySeconds: 900 # <-
//!              periodSeconds: 10
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            volumeMounts: [{name: models, mountPath: /root/.cache/huggingface}]
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!        volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#configure-probes>

use super::serving::{ALL_SERVER_KINDS, is_owned, model_server, serving_templates};
use crate::rules::prelude::*;
use crate::workload::server::serving_container;
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "readiness-delayed",
    kinds: ALL_SERVER_KINDS,
    reads: kinds![[Kind::NAMESPACE], RUNTIMES],
    params: &[Param {
        name: "seconds",
        description: "delay of a readiness probe in seconds from which on it is reported",
        default: ParamDefault::Int { default: 300, min: 1, max: 86_400 },
    }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("readiness_delayed.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    let is_for_models = model_server(object, ctx).is_some();
    for template in serving_templates(object) {
        inspect(&template, is_for_models && uses_device(&template), ctx);
    }
    None
}

fn inspect(template: &Template<'_>, is_for_models: bool, ctx: &mut Context<'_>) -> Option<()> {
    let container = serving_container(template).filter(|container| !is_model_of_runtime(container))?;
    // The number of GPUs may be a placeholder.
    if !is_for_models && server_of(&container).is_none() {
        return None;
    }
    let delay = container.path(&["readinessProbe", "initialDelaySeconds"]);
    let seconds = delay.int().filter(|seconds| *seconds >= ctx.int("seconds"))?;
    let name = container.get("name").text().unwrap_or("main");
    let message =
        format!("`{name}` gets no requests in the first {seconds} s, even if its model is loaded earlier");
    let help = match container.get("startupProbe").is_set() || !container.get("livenessProbe").is_set() {
        true => "remove the delay: a readiness probe that fails restarts nothing",
        false => "remove the delay, and write a startup probe, which ends when the server answers",
    };
    ctx.report(&delay, message)
        .help(help)
        .fix(Fix::unsafe_("ask the server from its start on").remove(&delay));
    None
}
