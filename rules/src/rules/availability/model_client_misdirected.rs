//! A client of a model server asks a port, a path or a model that is not there.
//!
//! # Why
//! A client knows the server by a URL and a name. At a port that the Service does not have nothing answers:
//! `port` counts there, not the `targetPort` at which the pods listen. LiteLLM with `openai/` or
//! `hosted_vllm/`, and Open WebUI, add `/chat/completions` to the URL, which vLLM, SGLang, TGI and NIM have
//! below `/v1` alone: without it they answer 404. LiteLLM sends what follows the provider in `model` as the
//! name of the model. vLLM answers 404 to each name but those of `--served-model-name`, or that of the
//! model without the option, and of its adapters. LiteLLM starts and Open WebUI loads all the same: only
//! requests fail. AIBrix finds the pods of a model by their label `model.aibrix.ai/name`, and asks them by that
//! name. The router of vLLM's production stack looks for servers in the namespace `default`, unless
//! `--k8s-namespace` names another one.
//!
//! Where something else answers at the port, such as a router, or a variable may change the names, nothing
//! is said.
//!
//! # Fix
//! Write a port of the Service, `/v1` at the end of the URL, and a name that the server has.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: litellm, namespace: models}
//!  data:
//!    config.yaml: |
//!      model_list:
//!        - model_name: chat
//!          litellm_params:
//!            model: hosted_vllm/Qwen/Qwen3-8B
//! -          api_base: http://chat.models.svc # <-
//! +          api_base: http://chat.models.svc/v1
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {app: chat}
//!    ports: [{name: http, port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, namespace: models, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: example.com/vllm:v0.11.0
//!        command: [vllm, serve, Qwen/Qwen3-8B]
//! ```
//!
//! # References
//! - <https://docs.litellm.ai/docs/providers/openai_compatible>
//! - <https://docs.openwebui.com/getting-started/env-configuration/>
//! - <https://docs.vllm.ai/en/latest/serving/openai_compatible_server/>

use std::ops::Range;

use super::serving::{is_owned, serving_templates};
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::command::{Word, may_have_more_options};
use crate::workload::environment::may_define;
use crate::workload::ports::{number, target_of};
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "model-client-misdirected",
    kinds: kinds![[Kind::CONFIG_MAP], WORKLOAD_KINDS],
    reads: kinds![[Kind::SERVICE], WORKLOAD_KINDS],
    docs: docs(include_str!("model_client_misdirected.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Servers that have the API of OpenAI below `/v1` alone. llama.cpp and Infinity have it at the root as well or instead.
const BELOW_V1: [ServerId; 7] = [
    ServerId::Vllm,
    ServerId::Sglang,
    ServerId::Tgi,
    ServerId::Nim,
    ServerId::TensorRtLlm,
    ServerId::LmDeploy,
    ServerId::Ollama,
];

/// Providers of LiteLLM that send requests to the path of `api_base` with `/chat/completions` or the like behind it (`litellm/llms`,
/// 1.40 to 1.80).
const PROVIDERS: [&str; 3] = ["openai", "hosted_vllm", "text-completion-openai"];
/// Kinds of models in LiteLLM that it asks in that way. It finds the path for reranking by itself.
const MODES: [&str; 3] = ["chat", "completion", "embedding"];

/// The variables of Open WebUI with the URL of a server, or several of them with `;` between.
const OF_WEB_UI: [&str; 2] = ["OPENAI_API_BASE_URL", "OPENAI_API_BASE_URLS"];
/// Variables of the client library of OpenAI, and of programs with others.
const OF_LIBRARIES: [&str; 3] = ["OPENAI_BASE_URL", "OPENAI_API_BASE", "VLLM_API_BASE"];

/// Where a client sends its requests.
struct Call<'t> {
    client: &'static str,
    url: &'t str,
    /// The place of the URL in a text, if it is in one.
    part: Option<Range<usize>>,
    /// Whether the client adds the rest of the path behind `/v1`, and not that itself.
    needs_v1: bool,
    /// The provider and the name of the model, if these are known.
    model: Option<(&'t str, &'t str)>,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.is_namespace_unknown() {
        return None;
    }
    if object.is(Kind::CONFIG_MAP) {
        for (_, entry) in object.get("data").entries() {
            of_litellm(&entry, ctx);
        }
        return None;
    }
    for template in templates(object) {
        of_aibrix(&template, ctx);
        for container in template.all_containers() {
            of_environment(&container, ctx);
            of_router(&container, ctx);
        }
    }
    None
}

/// Reports the name by which AIBrix's gateway finds pods and asks them, where their server has another one. Source: aibrix 0.4
/// `pkg/constants/model.go`, and its page on deployments.
fn of_aibrix(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let label = template.metadata.get("labels").get("model.aibrix.ai/name");
    let name = label.text()?;
    let mut servers = template.containers().filter(|container| server_of(container).is_some());
    let container = servers.next().filter(|_| servers.next().is_none())?;
    let names = served_names(&container).filter(|names| !names.iter().any(|served| served == name))?;
    let served = names.first()?;
    let message = format!(
        "vLLM answers 404: AIBrix asks for model `{}`, which it calls `{}`",
        ellipsize(name),
        ellipsize(served)
    );
    let object = ctx.object();
    ctx.report(&label, message)
        .help(format!("write `--served-model-name {name}`, or the name that vLLM has as the label"))
        .related(object, &container.get("name"), "the server");
    None
}

/// Reports a router that looks for servers in another namespace than its own, for want of an option. Source: `parsers/parser.py` of
/// vllm-project/production-stack 0.1.
fn of_router(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let words = words(container);
    let is_router = words.iter().any(|word| word.text == "vllm-router")
        || image_of(container).is_some_and(|image| image.last() == "lmstack-router");
    let discovery = option(&words, &["service-discovery"]);
    let is_closed = matches!(option(&words, &["k8s-namespace"]), OptionValue::Absent)
        && matches!(option(&words, &["config", "dynamic-config-json"]), OptionValue::Absent)
        && !may_have_more_options(&words);
    let object = ctx.object();
    let namespace = object.namespace().filter(|name| *name != "default" && !is_placeholder(name))?;
    if !is_router || !discovery.is("k8s") || !is_closed || object.may_lack_fields() {
        return None;
    }
    let runs_vllm = |other: &Object| {
        let mut containers =
            templates(other).into_iter().flat_map(|template| template.containers().collect::<Vec<_>>());
        other.namespace() == Some(namespace)
            && containers
                .any(|container| server_of(&container).is_some_and(|server| server.id == ServerId::Vllm))
            && ctx.pairs_with(other)
    };
    let engine =
        REPLICATED_KINDS.iter().find_map(|kind| ctx.cluster().of(*kind).find(|other| runs_vllm(other)))?;
    ctx.report(
        &discovery.node()?,
        format!("the router looks for servers in `default`, and runs in `{namespace}`"),
    )
    .help(format!("add `--k8s-namespace {namespace}`"))
    .related(engine, &engine.path(&["metadata", "namespace"]), "a server that it does not find");
    None
}

/// The models in a configuration of LiteLLM.
fn of_litellm(entry: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    entry.raw_text().filter(|text| text.contains("litellm_params") && text.contains("api_base"))?;
    with_embedded(entry.text()?, |root| {
        for one in root.get("model_list").items() {
            let params = one.get("litellm_params");
            let base = params.get("api_base");
            let Some((url, model)) = base.text().zip(params.get("model").text()) else { continue };
            // Another provider that is set leaves the whole of `model` as the name.
            let provider = params.get("custom_llm_provider");
            let is_own = |first: &str| !provider.is_set() || provider.text() == Some(first);
            let model = model.split_once('/').filter(|(first, _)| PROVIDERS.contains(first) && is_own(first));
            let mode = one.path(&["model_info", "mode"]);
            let is_plain = !mode.is_set() || mode.text().is_some_and(|mode| MODES.contains(&mode));
            let part = base.span().map(|span| span.start as usize..span.end as usize);
            let needs_v1 = model.is_some() && is_plain;
            inspect(entry, &Call { client: "LiteLLM", url, part, needs_v1, model }, ctx);
        }
        Some(())
    })
}

fn of_environment(container: &Node<'_>, ctx: &mut Context<'_>) {
    let is_web_ui = image_of(container).is_some_and(|image| image.last().contains("open-webui"));
    for entry in container.get("env").items() {
        let Some(name) = entry.get("name").text() else { continue };
        let of_web_ui = OF_WEB_UI.contains(&name);
        if !of_web_ui && !OF_LIBRARIES.contains(&name) {
            continue;
        }
        let value = entry.get("value");
        let needs_v1 = of_web_ui && is_web_ui;
        let client = if needs_v1 { "Open WebUI" } else { "the client" };
        for url in value.text().unwrap_or_default().split(';') {
            inspect(&value, &Call { client, url: url.trim(), part: None, needs_v1, model: None }, ctx);
        }
    }
}

fn inspect(place: &Node<'_>, call: &Call<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (host, port, path) = parts(call.url)?;
    let service = service_of(host, ctx)?;
    let spec = service.get("spec");
    let ports = spec.get("ports");
    let is_open = service.may_lack_fields()
        || spec.get("type").text() == Some("ExternalName")
        // The name of a headless Service leads to the ports of the pods.
        || spec.get("clusterIP").text() == Some("None")
        || ports.has_unknown()
        || ports.items().next().is_none();
    if is_open {
        return None;
    }
    let Some(entry) = ports.items().find(|entry| entry.get("port").int() == Some(port)) else {
        return wrong_port(place, call, service, port, ctx);
    };
    let targets = targets(service, &target_of(&entry), ctx)?;
    let first = targets.first()?;
    if call.needs_v1 && path.trim_end_matches('/').is_empty() && targets.iter().all(Target::is_below_v1) {
        let url = call.url.trim_end_matches('/');
        let message = format!(
            "{} answers 404: {} does not add `/v1` to `{}`",
            first.server.name,
            call.client,
            ellipsize(url)
        );
        report(place, call, message, ctx).help(format!("write `{url}/v1`")).related(
            first.owner,
            &first.container.get("name"),
            "the server",
        );
        return None;
    }
    let (provider, model) = call.model.filter(|(_, model)| !model.contains('*'))?;
    let named = targets.iter().map(|target| served_names(&target.container));
    let named: Vec<Vec<String>> = named.collect::<Option<_>>()?;
    if named.iter().flatten().any(|served| served == model) {
        return None;
    }
    let served = named.first()?.first()?;
    let message = format!(
        "vLLM answers 404: {} asks for model `{}`, which it calls `{}`",
        call.client,
        ellipsize(model),
        ellipsize(served)
    );
    report(place, call, message, ctx).help(format!("write `model: {provider}/{served}`")).related(
        first.owner,
        &first.container.get("name"),
        "the server",
    );
    None
}

/// Reports a port that the Service does not have, if a model server is behind it.
fn wrong_port(
    place: &Node<'_>,
    call: &Call<'_>,
    service: &Object,
    port: i64,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    let runs_server = |template: &Template<'_>| template.containers().any(|one| server_of(&one).is_some());
    if !workloads.iter().any(|workload| templates(&workload.object).iter().any(runs_server)) {
        return None;
    }
    let ports = service.path(&["spec", "ports"]);
    let mut all = ports.items();
    let only = all.next().and_then(|entry| entry.get("port").int()).filter(|_| all.next().is_none());
    let help = match only {
        Some(own) => format!("write port {own}, which leads to the pods"),
        None => "write one of its ports".to_owned(),
    };
    let message =
        format!("Service `{}` has no port {port}, at which {} asks", ellipsize(service.name()), call.client);
    report(place, call, message, ctx).help(help).related(service, &ports, "its ports");
    None
}

fn report<'c>(
    place: &Node<'_>,
    call: &Call<'_>,
    message: String,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let object = ctx.object();
    let finding = ctx.report(place, message).identified_by(call.url);
    match &call.part {
        Some(part) => finding.at_key().at_part(object, place, part.clone()),
        None => finding,
    }
}

/// The host, the port and the path of a URL.
fn parts(url: &str) -> Option<(&str, i64, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, default),
    };
    Some((host, port, path))
}

/// The Service of the input that a host names: `name`, `name.namespace` or `name.namespace.svc` with any domain.
fn service_of<'i>(host: &str, ctx: &Context<'i>) -> Option<&'i Object> {
    let object = ctx.object();
    let mut labels = host.split('.');
    let name = labels.next()?;
    let namespace = labels.next().unwrap_or(object.namespace_or_default());
    if labels.next().is_some_and(|label| label != "svc") {
        return None;
    }
    let service = ctx.partner(Kind::SERVICE, namespace, name)?;
    ctx.cluster().likely_pairs(object, service).then_some(service)
}

/// A model server behind a port of a Service.
struct Target<'i> {
    owner: &'i Object,
    container: Node<'i>,
    server: &'static Server,
}

impl Target<'_> {
    fn is_below_v1(&self) -> bool {
        BELOW_V1.contains(&self.server.id)
            && matches!(option(&words(&self.container), &["root-path"]), OptionValue::Absent)
    }
}

/// The model servers behind a port of a Service. `None` if something else may answer.
fn targets<'i>(service: &'i Object, port: &Node<'i>, ctx: &Context<'i>) -> Option<Vec<Target<'i>>> {
    let (workloads, unknown) = ctx.cluster().views().selected_by_service(service);
    if unknown {
        return None;
    }
    let labels = service.path(&["spec", "selector"]).entries();
    let mut out = Vec::new();
    for workload in workloads {
        let owner: &'i Object = &workload.object;
        if owner.may_lack_fields() || is_owned(owner) || !ctx.cluster().likely_pairs(service, owner) {
            return None;
        }
        for template in serving_templates(owner) {
            if selector::includes(&labels, &template.pod_labels()) != Some(true) {
                continue;
            }
            let containers: Vec<Node<'i>> = template.containers().collect();
            let (reached, _) = containers.iter().find_map(|container| number(container, port))?;
            let target = containers.into_iter().find_map(|container| {
                let server = server_of(&container)?;
                let (own, _) = server.listens_on(&container)?;
                (own == reached).then_some(Target { owner, container, server })
            })?;
            out.push(target);
        }
    }
    Some(out)
}

/// The names by which vLLM knows its model, and its adapters. `None` for other servers, and if they are not known.
fn served_names(container: &Node<'_>) -> Option<Vec<String>> {
    let launch = Launch::of(container)
        .filter(|launch| launch.program.is(ServerId::Vllm) && !launch.may_have_more_options())?;
    if may_define(container, takes_other_names) {
        return None;
    }
    let words = words(container);
    let mut names = values(&words, "served-model-name")?;
    if names.is_empty() {
        names.push(launch.model(container)?.0);
    }
    if launch.has(&["enable-lora", "lora-modules"]) {
        let adapters = values(&words, "lora-modules")?;
        // Others may be loaded later, and an adapter may be written in JSON.
        if adapters.is_empty() {
            return None;
        }
        for adapter in adapters {
            names.push(adapter.split_once('=')?.0.to_owned());
        }
    }
    Some(names)
}

/// Whether vLLM with a variable may take other names: none are checked, adapters are loaded later, or a plugin finds them
/// (`vllm/envs.py`, 0.11).
fn takes_other_names(variable: &str) -> bool {
    let known = ["VLLM_SKIP_MODEL_NAME_VALIDATION", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_PLUGINS"];
    known.contains(&variable) || variable.starts_with("VLLM_LORA_RESOLVER_")
}

/// The values behind an option that takes several. `None` if one of them is unknown.
fn values(words: &[Word<'_>], wanted: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.text.as_str(), None),
        };
        if name.strip_prefix("--").is_none_or(|name| name.replace('_', "-") != wanted) {
            continue;
        }
        if let Some(value) = value {
            if !word.known {
                return None;
            }
            out.push(value.to_owned());
            continue;
        }
        for next in words[at + 1..].iter().take_while(|next| !next.text.starts_with('-') && next.text != ";")
        {
            if !next.known {
                return None;
            }
            out.push(next.text.clone());
        }
    }
    Some(out)
}
