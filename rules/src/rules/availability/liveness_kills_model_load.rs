//! A liveness or startup probe kills a model server before its model is loaded.
//!
//! # Why
//! A liveness probe counts from the start of the container unless a startup probe holds it back. A
//! server that downloads and loads a model for minutes fails it, is killed with the last failure that
//! `failureThreshold` allows, `initialDelaySeconds` and `failureThreshold - 1` times `periodSeconds` after
//! its start, and begins again: the pod restarts in a loop, and each round pays for the GPU. It may start
//! from a warm cache and fail on the next new node. A startup probe ends the container in the same way: it
//! is looked at instead of the liveness probe where there is one. Servers of embedding models load within
//! seconds and are left out, and so are commands that do not ask the server, and programs of your own that a
//! variable such as `VLLM_BASE_URL` or `LLM_API_URL` leads to a model server. The model of an InferenceService
//! is looked at together with its runtime, where the runtime is in the input or is the one that KServe
//! brings for models of Hugging Face.
//!
//! # Fix
//! Add a startup probe with the same request and time for the slowest load: 60 failures every 10
//! seconds are ten minutes. A parameter, `load-seconds`, is the shortest time that a probe has to leave
//! (180). For a model of known size that is downloaded at each start it is two minutes and a second for each
//! 300 MB.
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
//! +            timeoutSeconds: 5
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

use super::server_port_mismatch::is_unanswered;
use super::serving::{ALL_SERVER_KINDS, model_server, serving_templates};
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::gpu::model_downloaded_each_start::may_keep_model;
use crate::rules::prelude::*;
use crate::workload::checkpoint::volume;
use crate::workload::class::{Classified, has_word};
use crate::workload::model::{owner_and_name, published_weights};
use crate::workload::server::serving_container;
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "liveness-kills-model-load",
    kinds: kinds![ALL_SERVER_KINDS, [NIM_SERVICE]],
    reads: kinds![[Kind::NAMESPACE, Kind::PERSISTENT_VOLUME_CLAIM], RUNTIMES],
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

/// Its operator adds a startup probe of twenty minutes, unless that is changed or disabled.
const NIM_SERVICE: Kind = Kind::NIM_SERVICE;

/// The seconds after which a probe has failed often enough.
pub(super) struct Patience {
    pub(super) period: i64,
    /// From the start of the container to the last failure, if each request fails at once.
    pub(super) killed: i64,
    /// From the start of the container to the last failure, if each command takes all its time.
    pub(super) longest: i64,
}

impl Patience {
    /// `None` if a number is unknown.
    pub(super) fn of(probe: &Node<'_>) -> Option<Patience> {
        let number = |field: &str, default: i64| {
            let node = probe.get(field);
            if node.is_set() { node.int() } else { Some(default) }
        };
        let period = number("periodSeconds", 10)?.max(1);
        let failures = number("failureThreshold", 3)?.max(1);
        let timeout = number("timeoutSeconds", 1)?.max(1);
        // The first probe is due after the delay, and the last one fails at the latest with its timeout. A command may use
        // up the timeout of each probe.
        let delay = number("initialDelaySeconds", 0)?;
        let interval = if probe.get("exec").is_set() { period.max(timeout) } else { period };
        let after = |interval: i64| (failures - 1).checked_mul(interval)?.checked_add(delay);
        Some(Patience { period, killed: after(period)?, longest: after(interval)?.checked_add(timeout)? })
    }
}

/// A fast download of a model from Hugging Face and its way to the GPUs, and the seconds of the rest of a start: imports, graphs.
const MEGABYTES_PER_SECOND: i64 = 300;
const START: i64 = 120;

/// The gigabytes of the model that a server downloads at each start of its pod: one that it takes from Hugging Face, where no volume
/// outlives the pod.
fn download_of(object: &Object, template: &Template<'_>, container: &Node<'_>) -> Option<i64> {
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    let (name, _) = launch.model(container)?;
    owner_and_name(&name)?;
    let is_moved = launch.has(&["load-format", "download-dir"]);
    if launch.program.server().is_none() || may_keep_model(object, template, container) || is_moved {
        return None;
    }
    i64::try_from(published_weights(&name)?.megabytes() / 1000).ok()
}

/// The gigabytes of the model that a server reads from a file system of the network, by the name of its folder.
fn read_from_network(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &Context<'_>,
) -> Option<i64> {
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    launch.program.server()?;
    let (path, _) = launch.model(container)?;
    let name = path.strip_prefix('/')?.trim_end_matches('/').rsplit('/').next()?;
    if launch.has(&["load-format"]) || !is_on_network(object, template, container, &path, ctx) {
        return None;
    }
    i64::try_from(published_weights(name)?.megabytes() / 1000).ok()
}

/// Whether a path is on a volume that several nodes may mount, as far as the input shows.
fn is_on_network(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    path: &str,
    ctx: &Context<'_>,
) -> bool {
    let has_path = |mount: &Node<'_>| {
        let rest = path.strip_prefix(mount.get("mountPath").text()?.trim_end_matches('/'))?;
        rest.starts_with('/').then_some(rest.len())
    };
    let mounts = container.get("volumeMounts").items();
    let nearest = mounts.filter_map(|mount| Some((has_path(&mount)?, mount))).min_by_key(|(rest, _)| *rest);
    let Some(volume) = nearest.and_then(|(_, mount)| volume(template, mount.get("name").text()?)) else {
        return false;
    };
    let claim = volume.path(&["persistentVolumeClaim", "claimName"]);
    let claim = claim
        .text()
        .and_then(|name| ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), name));
    let is_shared = |claim: &Object| {
        let modes = claim.path(&["spec", "accessModes"]);
        modes.items().any(|mode| matches!(mode.text(), Some("ReadWriteMany" | "ReadOnlyMany")))
    };
    volume.get("nfs").is_set() || claim.is_some_and(is_shared)
}

/// Programs and names with which a command asks a server.
const ASKS: [&str; 6] = ["curl", "wget", "http", "localhost", "127.0.0.1", "grpc_health_probe"];

/// Whether a probe fails until the model is loaded, as far as it shows.
fn waits_for_model(probe: &Node<'_>, server: Option<&Server>) -> bool {
    let exec = probe.get("exec");
    if exec.is_set() {
        let command = exec.get("command");
        return !command.has_unknown()
            && command.items().any(|word| {
                let word = word.text().unwrap_or_default();
                ASKS.iter().any(|sign| word.contains(sign))
                    || word.split_whitespace().any(|part| part == "nc")
            });
    }
    // It may start its engine after its HTTP server, which says that it lives.
    let path = probe.path(&["httpGet", "path"]);
    let is_early = server.is_some_and(|server| server.id == ServerId::HuggingFace)
        && (!probe.get("httpGet").is_set() || matches!(path.text(), None | Some("/" | "/v2/health/live")));
    probe.is_mapping() && !is_early
}

/// Whether KServe's server, which serves models of all tasks, may serve a small one.
fn may_be_small(container: &Node<'_>, server: &Server) -> bool {
    const SIGNS: [&str; 6] = ["bert", "bge", "embed", "minilm", "rerank", "e5-"];
    if server.id != ServerId::HuggingFace {
        return false;
    }
    let words = words(container);
    let generates = match option(&words, &["task"]) {
        OptionValue::Absent => true,
        OptionValue::Text(task, _) => matches!(task.as_str(), "text_generation" | "text-generation"),
        OptionValue::Unknown => false,
    };
    let line = command_line(container).to_ascii_lowercase();
    !generates || SIGNS.iter().any(|sign| line.contains(sign))
}

/// Words in the names of images of programs that load a model with the first request for it.
const LOAD_ON_REQUEST: [&str; 8] = [
    "ollama",
    "localai",
    "local-ai",
    "llama-swap",
    "open-webui",
    "xinference",
    "speaches",
    "faster-whisper-server",
];

/// Whether a server answers before it has loaded a model, as far as its image, under whatever name, and its options
/// show.
pub(super) fn loads_on_request(container: &Node<'_>) -> bool {
    let is_called_so = |image: ImageRef<'_>| {
        let name = image.last().to_ascii_lowercase();
        LOAD_ON_REQUEST
            .iter()
            .any(|word| has_word(&name.replace(['-', '_', '.'], " "), &word.replace('-', " ")))
    };
    let words = words(container);
    let is_explicit = option(&words, &["model-control-mode"]).is("explicit")
        && matches!(option(&words, &["load-model"]), OptionValue::Absent);
    is_explicit || image_of(container).is_some_and(is_called_so)
}

/// Whether a program of its own asks a model server elsewhere, by a variable with its address: it need not load a model.
fn is_client(container: &Node<'_>) -> bool {
    const SERVERS: [&str; 9] =
        ["LLM", "VLLM", "OPENAI", "TRITON", "OLLAMA", "TGI", "SGLANG", "INFERENCE", "MODEL"];
    const ADDRESSES: [&str; 4] = ["URL", "BASE", "ENDPOINT", "HOST"];
    let is_address = |name: &str| {
        let words: Vec<&str> = name.split('_').collect();
        let (last, before) = match words.as_slice() {
            [before @ .., last] => (*last, before),
            [] => return false,
        };
        ADDRESSES.contains(&last)
            && before.iter().any(|word| SERVERS.contains(word))
            && !words
                .iter()
                .any(|word| matches!(*word, "DOWNLOAD" | "REGISTRY" | "REPO" | "REPOSITORY" | "BUCKET"))
    };
    container.get("env").items().any(|entry| {
        let value = entry.get("value");
        // The address may be in a ConfigMap; a server that listens names its own, without a scheme.
        let leads_elsewhere = match value.raw_text() {
            Some(text) => text.contains("://") && !text.contains("localhost") && !text.contains("://127."),
            None => entry.get("valueFrom").is_set(),
        };
        leads_elsewhere && entry.get("name").text().is_some_and(is_address)
    })
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let classified = model_server(object, ctx)?;
    for template in serving_templates(object) {
        // Without an accelerator it may be a proxy or serve a small model.
        if uses_device(&template) {
            inspect(object, &template, &classified, ctx);
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    classified: &Classified,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let container = serving_container(template)?;
    let startup = container.get("startupProbe");
    // The runtime of an InferenceService may have a startup probe, and may load small models.
    if is_model_of_runtime(&container) {
        return None;
    }
    let server = server_of(&container);
    if server.is_none() && is_client(&container) {
        return None;
    }
    let (field, kind) = match startup.is_set() {
        true => ("startupProbe", "startup"),
        false => ("livenessProbe", "liveness"),
    };
    let probe = container.get(field);
    // It fails whatever time it leaves, which server-port-mismatch reports.
    if is_unanswered(template, field) {
        return None;
    }
    let loads_fast = server.is_some_and(|server| server.loads_fast || may_be_small(&container, server))
        || loads_on_request(&container);
    if !probe.is_mapping() || loads_fast || !waits_for_model(&probe, server) {
        return None;
    }
    let Patience { period, killed, longest } = Patience::of(&probe)?;
    let download = download_of(object, template, &container)
        .or_else(|| read_from_network(object, template, &container, ctx));
    let least = download.map_or(0, |gigabytes| START + gigabytes * 1000 / MEGABYTES_PER_SECOND);
    if longest > ctx.int("load-seconds").max(least) {
        return None;
    }
    // Knative names the container.
    let name = container.get("name").text().unwrap_or(server.map_or("main", |server| server.name));
    let loaded = match download {
        Some(gigabytes) if longest > ctx.int("load-seconds") => format!("its {gigabytes} GB are not loaded"),
        _ => "the model is not loaded".to_owned(),
    };
    let message = format!("the {kind} probe kills `{name}` about {killed} s after its start if {loaded}");
    // The operator writes the pods of a NIMService, whose fields are others.
    let of_operator = object.is(NIM_SERVICE);
    let finding = ctx.report(&probe, message);
    if killed >= MINUTE && server.is_some_and(|server| serves_from_volume(&container, server)) {
        finding.severity(Severity::Info);
    }
    if of_operator {
        finding.help(match startup.is_set() {
            true => {
                "leave time for the slowest load, or leave the probe out: the operator's waits twenty minutes"
            }
            false => "leave `startupProbe` to the operator, whose own one waits twenty minutes for the model",
        });
    } else {
        // Ten minutes, or twice the time that a larger model takes at least.
        advise(finding, &startup, &probe, period, (2 * least / 60).max(10));
    }
    add_class_evidence(finding, object, classified);
    None
}

/// Small models are loaded within a minute.
const MINUTE: i64 = 60;

/// Whether a server of models of any size, mostly small ones, has them on a volume.
fn serves_from_volume(container: &Node<'_>, server: &Server) -> bool {
    let path = Launch::of(container).map(|launch| launch.setting(container, server.model_paths));
    server.id == ServerId::Triton
        && !matches!(path, Some(OptionValue::Text(path, _)) if path.contains("://"))
        && container.get("volumeMounts").items().next().is_some()
}

/// Adds the way to give the model time, and the fix for it.
pub(super) fn advise(finding: &mut Finding, startup: &Node<'_>, probe: &Node<'_>, period: i64, minutes: i64) {
    let time = if minutes == 10 { "ten minutes".to_owned() } else { format!("{minutes} minutes") };
    if startup.is_set() {
        let failures = (60 * minutes - 1) / period + 1;
        finding.help(format!(
            "leave time for the slowest load: `failureThreshold: {failures}` is {time} with its period"
        ));
        finding.fix(
            Fix::unsafe_(format!("let the model load for {time}"))
                .set(&startup.get("failureThreshold"), json!(failures)),
        );
        return;
    }
    let failures = 6 * minutes;
    finding.help(format!(
        "add a startup probe that leaves time for the slowest load, such as {failures} failures every 10 s"
    ));
    let handler = ["httpGet", "tcpSocket", "grpc", "exec"].map(|name| (name, probe.get(name)));
    if let Some((kind, handler)) = handler.into_iter().find(|(_, node)| node.is_set()) {
        // A server that loads its model may take longer than the second that a probe waits by default.
        let timeout = probe.get("timeoutSeconds").int_or(1).unwrap_or(1).max(5);
        let copy = json!({
            kind: handler.to_json(),
            "periodSeconds": 10,
            "timeoutSeconds": timeout,
            "failureThreshold": failures,
        });
        finding.fix(Fix::unsafe_(format!("add a startup probe of {time}")).set(startup, copy));
    }
}
