//! A model server aborts its requests when its pod is deleted.
//!
//! # Why
//! When a pod is deleted, SIGTERM and its removal from the endpoints of its Services go out at once.
//! For some seconds load balancers still send requests to a server that has stopped accepting them, and
//! vLLM aborts the answers that it is generating as soon as it gets SIGTERM, unless
//! `--shutdown-timeout` is set. Each rollout, scale-down and consolidation of a node therefore fails
//! requests. Generating a long answer takes longer than the default grace period of 30 seconds. It is a
//! warning for two replicas and more, and information for a single one.
//!
//! # Fix
//! Sleep some seconds in a preStop hook, so that load balancers notice, let the server finish (vLLM:
//! `--shutdown-timeout`, from 0.18 on) and raise `terminationGracePeriodSeconds` above both together.
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
//!        containers:
//! -        - name: vllm # <-
//! +        - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//! +          lifecycle:
//! +            preStop:
//! +              sleep: {seconds: 15}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! +      terminationGracePeriodSeconds: 90
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>
//! - <https://github.com/kserve/kserve/issues/5485>
//! - <https://github.com/vllm-project/vllm/issues/34730>

use super::serving::{model_server, serving_templates, tell_autoscaler};
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::class::command_line;
use crate::workload::server::{flag, server_of, serving_container};
use crate::workload::template::DEFAULT_GRACE;

pub(crate) static RULE: Rule = Rule {
    id: "graceful-shutdown-missing",
    kinds: REPLICATED_KINDS,
    reads: &[Kind::NAMESPACE, Kind::HPA, Kind::SCALED_OBJECT],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("graceful_shutdown_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let classified = model_server(object, ctx)?;
    let replicas = ctx.cluster().views().replicas(object);
    let autoscaler = ctx.cluster().views().autoscaler_of(object);
    for template in serving_templates(object) {
        let grace = template.spec.get("terminationGracePeriodSeconds");
        let is_default = template.grace_seconds().is_some_and(|seconds| seconds <= DEFAULT_GRACE);
        // A proxy without an accelerator answers within seconds.
        if !is_default || !uses_device(&template) {
            continue;
        }
        // A sidecar may delay the end of the pod as well.
        let mut hooks = template.all_containers().map(|container| container.path(&["lifecycle", "preStop"]));
        let Some(container) = serving_container(&template).filter(|_| !hooks.any(|hook| hook.is_set()))
        else {
            continue;
        };
        let server = server_of(&container);
        let line = command_line(&container);
        let flags = server.map_or(&[][..], |server| server.drain_flags);
        let drains = |name: &&str| flag(&line, name).is_some();
        let web = ["--timeout-graceful-shutdown", "--graceful-timeout"];
        if flags.iter().any(drains) || web.iter().any(drains) {
            continue;
        }
        let hook = container.path(&["lifecycle", "preStop"]);
        let who = server.map_or("the server", |server| server.name);
        let message =
            format!("{who} in `{}` gets SIGTERM while requests still arrive", object.display_name());
        let finding = ctx.report(&hook, message);
        finding.help("sleep 15 s in a preStop hook, and raise `terminationGracePeriodSeconds` to 90").fix(
            Fix::new("wait for load balancers, and for requests in flight", Safety::Unsafe)
                .set(&hook, json!({"sleep": {"seconds": 15}}))
                .set(&grace, json!(90)),
        );
        if is_example(object) || replicas.is_none_or(|replicas| replicas.max < 2) {
            finding.severity(Severity::Info);
        }
        tell_autoscaler(finding, autoscaler);
        add_class_evidence(finding, object, &classified);
    }
    None
}
