//! A server behind a Service has no readiness probe.
//!
//! # Why
//! Without a readiness probe a pod is ready as soon as its container has started. A Service sends requests
//! to a model server that will load its model for minutes, and a rollout removes the old pods while the new
//! ones cannot answer. It is information for a server that loads a model at the first request for it, such
//! as Ollama, which answers a second after its start. It is reported for servers of models (as information
//! for a single replica that no Service of the input selects), and behind such a Service for others with
//! two or more replicas, also by an autoscaler, or with accelerators. A startup probe holds requests back
//! as well. Workers of a LeaderWorkerSet serve nothing, nor do the ranks of a server beside the first.
//! Where the containers only sleep or make load, as `stress-ng` does, nothing answers the Service: that is
//! reported instead.
//!
//! # Fix
//! Add a readiness probe that asks the server itself: `/health` of vLLM, SGLang, TGI and TEI,
//! `/v2/health/ready` of Triton. Give a busy server a few seconds for the answer.
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
//! -        - name: vllm # <-
//! +        - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//! +          readinessProbe:
//! +            httpGet: {path: /health, port: 8000}
//! +            timeoutSeconds: 5
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/#readiness-probe>
//! - <https://docs.vllm.ai/en/stable/deployment/k8s/>

use super::liveness_kills_model_load::loads_on_request;
use super::selected_workloads::{PortMatch, port_of};
use super::serving::{has_silent_pods, is_owned, model_server, serving_templates, tell_autoscaler};
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::manifest_purpose::{is_copy, is_example, is_template};
use crate::rules::prelude::*;
use crate::workload::diagnostic::never_listens;
use crate::workload::launcher::{ServerSize, is_later_rank};
use crate::workload::ports::{self, target_of};
use crate::workload::server::dynamo::is_discovered;
use crate::workload::server::serving_container;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "probe-missing",
    kinds: REPLICATED_KINDS,
    reads: kinds![[Kind::SERVICE, Kind::HPA, Kind::SCALED_OBJECT, Kind::NAMESPACE], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("probe_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Images of servers that answer as soon as they run, from files or with a fixed text.
const INSTANT: [&str; 17] = [
    "nginx",
    "nginx-unprivileged",
    "docker-2048",
    "httpd",
    "caddy",
    "whoami",
    "hello-world",
    "hpa-example",
    "gb-frontend",
    "hello-app",
    "hello-kubernetes",
    "http-echo",
    "http-https-echo",
    "echoserver",
    "echo-server",
    "nginxdemos",
    "static-web-server",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    // The other pods of a group would never be ready.
    if has_silent_pods(object) {
        return None;
    }
    let classified = model_server(object, ctx);
    for template in serving_templates(object) {
        // The fields that another kind of template or an admission webhook adds are not known.
        if template.spec.has_unknown_key() {
            continue;
        }
        if classified.is_some()
            && template.containers().any(|c| server_of(&c).is_some() || uses_device(&template))
        {
            of_model_server(object, &template, ctx);
        } else {
            behind_service(object, &template, ctx);
        }
    }
    None
}

/// Whether a container may be another rank of its server than the first, the only one that answers requests. The leader of
/// a group is the first.
fn may_be_later_rank(object: &Object, container: &Node<'_>) -> bool {
    if object.is(Kind::LEADER_WORKER_SET) || ServerSize::of(container) == ServerSize::OnePod {
        return false;
    }
    let words = words(container);
    let is_first = match option(&words, &["node-rank"]) {
        OptionValue::Absent => replicas(object) == Some(1),
        rank => rank.is("0"),
    };
    !is_first || words.iter().any(|word| word.text == "--headless")
}

/// Whether a port is the one at which the processes of a group find each other, with PyTorch's default number or its name.
fn is_of_group(port: &Node<'_>) -> bool {
    port.get("containerPort").int() == Some(29_500)
        || port.get("name").text().is_some_and(|name| matches!(name, "master" | "rdzv" | "dist-init"))
}

fn has_probe(container: &Node<'_>) -> bool {
    container.get("readinessProbe").is_set()
        || container.get("startupProbe").is_set()
        || container.has_unknown_key()
}

fn of_model_server(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let classified = model_server(object, ctx)?;
    let container = serving_container(template)?;
    let server = server_of(&container);
    let listens = container.get("ports").items().any(|port| !is_of_group(&port));
    if may_be_later_rank(object, &container) || is_later_rank(template, &container) {
        return None;
    }
    // A worker that reads requests from a queue listens on no port, and one of Dynamo gets none before its model is loaded.
    if has_probe(&container) || is_discovered(&container) || (server.is_none() && !listens) {
        return None;
    }
    let views = ctx.cluster().views();
    // Switched off.
    if views.replicas(object).is_some_and(|replicas| replicas.max == 0) {
        return None;
    }
    let replicated = views.replicas(object).is_some_and(|replicas| replicas.max > 1);
    let services = views.services_of(object.namespace_or_default(), template);
    let served = services.into_iter().any(|service| ctx.pairs_with(service));
    let probe = container.get("readinessProbe");
    let name = container.get("name").text().unwrap_or_default();
    // Its probe waits for no model.
    let on_request = loads_on_request(&container);
    let message = match on_request {
        true => {
            format!("container `{name}` has no readiness probe: requests arrive before the server answers")
        }
        false => format!("container `{name}` has no readiness probe: requests arrive while the model loads"),
    };
    let finding = ctx.report(&probe, message);
    match server {
        Some(server) => {
            finding.help(format!("add one: {} answers on `{}` once it is ready", server.name, server.health))
        }
        None => finding.help("add one that succeeds when the model is loaded"),
    };
    if let Some(server) = server
        && let Some(port) = server.port_of(&container)
    {
        let request = json!({"httpGet": {"path": server.health, "port": port}, "timeoutSeconds": 5});
        finding.fix(
            Fix::new(format!("ask `{}` whether the server is ready", server.health), Safety::Unsafe)
                .set(&probe, request),
        );
    }
    if is_example(object) || on_request || (!replicated && !served) {
        finding.severity(Severity::Info);
    }
    tell_autoscaler(finding, views.autoscaler_of(object));
    add_class_evidence(finding, object, &classified);
    None
}

/// A server of several replicas to which a Service of the input sends requests.
fn behind_service(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // The Service waits for all containers that have a probe.
    if template.containers().any(|container| has_probe(&container)) {
        return None;
    }
    let views = ctx.cluster().views();
    // The pods of a StatefulSet start one by one, and may need each other to become ready: a probe would block the first.
    let one_by_one = object.is(Kind::STATEFUL_SET)
        && object.path(&["spec", "podManagementPolicy"]).text() != Some("Parallel");
    // A model takes minutes to load, also where one replica is replaced by another.
    let loads_model = uses_device(template) && !ctx.class_of(object).is(WorkloadClass::Notebook);
    let replicas = views.replicas(object)?;
    // An autoscaler that adds a second one sends it requests too soon as well.
    if (replicas.max < 2 && !(loads_model && replicas.max > 0)) || one_by_one {
        return None;
    }
    let services = views.services_of(object.namespace_or_default(), template);
    // The pods of a headless Service find each other by it before they are ready.
    let is_sender = |service: &&Object| {
        let spec = service.get("spec");
        // A server of SSH answers as soon as it runs.
        let serves = |port: Node<'_>| {
            let is_other = |name: &str| ["metrics", "ssh"].iter().any(|word| name.contains(word));
            let target = target_of(&port);
            ![port.get("name"), target.clone()].iter().any(|one| one.text().is_some_and(is_other))
                && ![port.get("port"), target].iter().any(|one| one.int() == Some(22))
        };
        ctx.pairs_with(service)
            && spec.get("ports").items().any(serves)
            && spec.get("clusterIP").text() != Some("None")
            && spec.get("publishNotReadyAddresses").bool() != Some(true)
    };
    let mut senders: Vec<&Object> = services.into_iter().filter(is_sender).collect();
    // One of the own file is the one that the author thinks of.
    let file = |object: &Object| object.origin().map(|origin| origin.source.path().to_owned());
    senders.sort_by_key(|service| file(service) != file(object));
    let service = *senders.first()?;
    // Another workload has the port: the selector of the Service is too wide, which service-mixes-workloads reports.
    let spec = service.get("spec");
    let (selected, _) = views.selected_by_service(service);
    if port_of(&spec, object) != PortMatch::Listed
        && selected.iter().any(|other| port_of(&spec, &other.object) == PortMatch::Listed)
    {
        return None;
    }
    let container = container_behind(service, template)?;
    // A probe would never succeed.
    if template.containers().all(|container| never_listens(&container)) {
        let port = spec.get("ports").items().next()?;
        let port = target_of(&port).int().map(|port| format!(" on port {port}")).unwrap_or_default();
        let message =
            format!("nothing in the pod listens{port}, where Service `{}` sends", service.display_name());
        ctx.report(&container.get("command"), message)
            .help("remove the Service, or run a server: the command of the container serves nothing")
            .related(service, &service.path(&["spec", "ports"]), "the Service sends requests here");
        return None;
    }
    let probe = container.get("readinessProbe");
    let name = container.get("name").text().unwrap_or_default();
    let message = format!(
        "container `{name}` has no readiness probe: Service `{}` sends requests before it can answer",
        service.display_name()
    );
    let at_once = image_of(&container).is_some_and(|image| INSTANT.contains(&image.last()));
    let severity = match at_once || is_example(object) || is_copy(object) || is_template(object) {
        true => Severity::Info,
        false => Severity::Warning,
    };
    ctx.report(&probe, message)
        .severity(severity)
        .help("add one that succeeds when the server can answer")
        .related(service, &service.path(&["spec", "selector"]), "the Service selects its pods");
    None
}

/// The container that has the first port of a Service, or the only one, which is also the one behind a sidecar.
fn container_behind<'a>(service: &Object, template: &Template<'a>) -> Option<Node<'a>> {
    let containers: Vec<Node<'a>> = template.containers().collect();
    if let [only] = containers.as_slice() {
        return Some(only.clone());
    }
    let target = target_of(&service.path(&["spec", "ports"]).items().next()?);
    containers.into_iter().find(|container| ports::find(container, &target).is_some())
}
