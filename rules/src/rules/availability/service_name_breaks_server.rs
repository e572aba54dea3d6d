//! The name of a Service sets an environment variable that its server cannot parse.
//!
//! # Why
//! Kubernetes sets variables for each Service of the namespace in all containers that start after it: a
//! Service `vllm` gives `VLLM_PORT=tcp://10.100.7.3:8000`. vLLM reads `VLLM_PORT` as its own setting, a
//! number, and exits: the first pods run, and each pod that starts after the Service was made crashes.
//! SGLang, Infinity, NIM (`nim-server`), MLflow and n8n have variables of that form too.
//!
//! # Fix
//! Write `enableServiceLinks: false` in the pod template, which leaves these variables out, or give the
//! Service another name.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//! -metadata:
//! -  name: llm
//! +metadata: {name: llm}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//! +      enableServiceLinks: false
//!        terminationGracePeriodSeconds: 90
//!        containers:
//! -        - name: vllm # <-
//! +        - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: vllm}
//!  spec:
//!    selector: {app: llm}
//!    ports: [{port: 80, targetPort: 8000}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables>
//! - <https://docs.vllm.ai/en/stable/configuration/env_vars/>
//! - <https://github.com/n8n-io/n8n/issues/8650>

use std::borrow::Cow;

use crate::cluster::together::is_renamed;
use crate::rules::prelude::*;
use crate::workload::class::has_word;
use crate::workload::environment::may_define;
use crate::workload::server::flag;

pub(crate) static RULE: Rule = Rule {
    id: "service-name-breaks-server",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::SERVICE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("service_name_breaks_server.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// A server, the name of a Service that breaks it, and the variable that both use.
struct Clash {
    server: &'static str,
    service: Cow<'static, str>,
    variable: &'static str,
}

/// The clashes of model servers, and those of other programs.
fn clashes() -> impl Iterator<Item = Clash> {
    let of_models = Server::all().iter().filter_map(|server| {
        let (variable, service) = server.variable_of_service()?;
        Some(Clash { server: server.name, service: service.into(), variable })
    });
    let others = [("MLflow", "mlflow", "MLFLOW_PORT"), ("n8n", "n8n", "N8N_PORT")];
    of_models.chain(others.map(|(server, service, variable)| Clash {
        server,
        service: service.into(),
        variable,
    }))
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.is_owned() {
        return None;
    }
    for clash in clashes() {
        let Some(service) = linked_service(object, &clash.service, ctx) else { continue };
        for template in templates(object) {
            let links = template.spec.get("enableServiceLinks");
            if links.is_set() || template.spec.has_unknown_key() {
                continue;
            }
            let Some(container) = template.containers().find(|container| reads(container, &clash)) else {
                continue;
            };
            let Clash { server, variable, service: name } = &clash;
            // Charts call the Service after the release, whose name is a guess where the chart alone is known.
            let metadata = service.path(&["metadata", "labels"]);
            let is_of_release = metadata.get("helm.sh/chart").is_set()
                && metadata.get("app.kubernetes.io/instance").text() == Some(&**name);
            let (message, other) = if is_of_release {
                (
                    format!(
                        "when the release is called `{name}`, its Service sets `{variable}` to a URL: new pods of {server} crash"
                    ),
                    "call the release otherwise",
                )
            } else {
                (
                    format!(
                        "Service `{name}` sets `{variable}` to a URL, which {server} reads as a port number: new pods crash"
                    ),
                    "rename the Service",
                )
            };
            // The other containers are ordinary applications.
            let serves_models = server_of(&container).is_some();
            ctx.report(&container.get("name"), message)
                .severity(if serves_models { Severity::Warning } else { Severity::Info })
                .help(format!("write `enableServiceLinks: false` in the pod template, or {other}"))
                .identified_by(name.to_string())
                .related(service, &service.path(&["metadata", "name"]), "the Service")
                .fix(
                    Fix::new("leave the variables of Services out", Safety::Unsafe).set(&links, json!(false)),
                );
        }
    }
    None
}

/// A Service of this name whose address the kubelet puts into the variables of the pods of an object, where their links are on.
pub(super) fn linked_service<'a>(object: &Object, name: &str, ctx: &Context<'a>) -> Option<&'a Object> {
    let explicit = object.namespace().is_some();
    let named = ctx.cluster().all("", "Service", object.namespace_or_default(), name);
    named.iter().find(|service| {
        let spec = service.get("spec");
        let kind = spec.get("type").text();
        // A headless Service and an external name have no address, and set no variables.
        let has_address = spec.get("clusterIP").text() != Some("None") && kind != Some("ExternalName");
        has_address
            && ((explicit && ctx.pairs_with(service)) || ctx.cluster().likely_pairs(object, service))
            && !spec.get("clusterIP").is_unknown()
            && !is_renamed(service)
    })
}

/// Whether the Service that a server's own variable is called after sets it where the pods of a template do not, so that the variable
/// can only be removed with the links of Services.
pub(super) fn replaced_by_link<'a>(
    object: &Object,
    template: &Template<'_>,
    variable: &str,
    ctx: &Context<'a>,
) -> Option<&'a Object> {
    if template.spec.get("enableServiceLinks").bool() == Some(false) {
        return None;
    }
    let mut all = clashes();
    linked_service(object, &all.find(|clash| clash.variable == variable)?.service, ctx)
}

/// Whether a container runs the server and takes the variable from nowhere else.
fn reads(container: &Node<'_>, clash: &Clash) -> bool {
    if may_define(container, |name| name == clash.variable) {
        return false;
    }
    let is_image = |name: &str| image_of(container).is_some_and(|image| image.repository == name);
    match clash.server {
        "MLflow" => {
            let line = command_line(container);
            let port = flag(&line, "--port").or(flag(&line, "-p"));
            (has_word(&line, "mlflow server") || has_word(&line, "mlflow ui")) && port.is_none()
        }
        "n8n" => is_image("n8nio/n8n"),
        // With an option for the port, the others do not read the variable.
        name => server_of(container).is_some_and(|server| {
            let by_option = || matches!(server.listens_on(container), Some((_, Some(_))));
            server.name == name && (matches!(server.id, ServerId::Vllm | ServerId::Sglang) || !by_option())
        }),
    }
}
