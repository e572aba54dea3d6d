//! A server downloads a model that needs a token, and has none.
//!
//! # Why
//! The owners of some models, such as Llama of Meta and Gemma 1 to 3 of Google, give them only to accounts
//! that have accepted their terms. Without a token of such an account the download ends in `401 Client Error:
//! Cannot access gated repo`, and the container restarts again and again on a node that costs money. The
//! container has a token where one of its variables is `HF_TOKEN` or `HUGGING_FACE_HUB_TOKEN`; names such as
//! `HUGGINGFACEHUB_API_TOKEN`, which is LangChain's, are read by no server. NIM needs `NGC_API_KEY` to download a
//! model from NVIDIA before release 2.0.10.
//!
//! Nothing is said where the token may come from elsewhere: `envFrom`, a script, an agent that injects
//! secrets, a runtime of KServe that is not in the input, a mounted folder for models, which may hold the
//! model or the token already, a mirror. A claim of the input that is made for these pods alone is
//! information, since a person may fill it; one of `volumeClaimTemplates` is empty for each new pod.
//!
//! # Fix
//! Give the container the variable from a Secret.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.11.0
//!        resources: {requests: {cpu: 6, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//! -      args: [--model, meta-llama/Llama-3.1-8B-Instruct, --max-model-len, "8192"] # <-
//! +      args: [--model, meta-llama/Llama-3.1-8B-Instruct, --max-model-len, "8192"]
//! +      env:
//! +        - name: HF_TOKEN
//! +          valueFrom: {secretKeyRef: {name: hugging-face, key: token}}
//! ```
//!
//! # References
//! - <https://huggingface.co/docs/hub/models-gated>
//! - <https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables#hftoken>
//! - <https://docs.nvidia.com/nim/large-language-models/latest/configuration.html>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::cluster::storage::NO_PROVISIONER;
use crate::rules::prelude::*;
use crate::workload::environment::{entry, may_define};
use crate::workload::image::{FIRST_KEYLESS_NIM, nim_release};
use crate::workload::server::is_server;
use crate::workload::template::is_model_of_runtime;

const VOLUMES: [Kind; 3] = [Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME, Kind::STORAGE_CLASS];

pub(crate) static RULE: Rule = Rule {
    id: "model-token-missing",
    kinds: WORKLOAD_KINDS,
    reads: kinds![VOLUMES, POD_POLICIES, WORKLOAD_KINDS, RUNTIMES],
    docs: docs(include_str!("model_token_missing.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Beginnings of the names of gated models, in lower case, by their model cards.
const GATED: [&str; 14] = [
    "meta-llama/",
    "google/gemma-2b",
    "google/gemma-7b",
    "google/gemma-1.1-",
    "google/gemma-2-",
    "google/gemma-3-",
    "google/gemma-3n-",
    "google/codegemma-",
    "google/embeddinggemma-",
    "google/medgemma-",
    "google/paligemma",
    "google/shieldgemma-",
    "black-forest-labs/flux.1-dev",
    "stabilityai/stable-diffusion-3",
];

/// Variables of the library of Hugging Face that neither hold a token nor name a place for one.
const NEUTRAL: [&str; 4] = [
    "HF_HUB_ENABLE_HF_TRANSFER",
    "HF_XET_HIGH_PERFORMANCE",
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_DOWNLOAD_TIMEOUT",
];

/// Parts of names of variables that hold a token, name a mirror, or keep the server from downloading.
const SIGNS: [&str; 10] = [
    "TOKEN",
    "HF_",
    "HUGGING",
    "OFFLINE",
    "MODELSCOPE",
    "NGC_",
    "NIM_MODEL",
    "NIM_REPOSITORY",
    "S3_",
    "PROXY",
];

/// Variables with a token for other programs, which the library of Hugging Face does not read (`get_token` of huggingface_hub 0.20 to 1.0).
const OF_OTHERS: [&str; 8] = [
    "HF_API_KEY",
    "HUGGINGFACE_API_KEY",
    "HUGGINGFACEHUB_API_TOKEN",
    "HUGGINGFACE_API_TOKEN",
    "HUGGINGFACE_TOKEN",
    "HUGGING_FACE_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "HF_ACCESS_TOKEN",
];

/// Domains of annotations that ask for a sidecar or for tracing, which bring no token.
const OTHER_INJECTORS: [&str; 4] =
    ["sidecar.istio.io", "linkerd.io", "instrumentation.opentelemetry.io", "sidecar.opentelemetry.io"];

/// Servers that download with the library of Hugging Face.
pub(super) const DOWNLOADERS: [ServerId; 4] =
    [ServerId::Vllm, ServerId::Sglang, ServerId::Tgi, ServerId::Tei];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let is_injected = [template.metadata.get("annotations"), object.path(&["metadata", "annotations"])]
        .iter()
        .any(|all| all.has_unknown_key() || all.entries().iter().any(|(key, _)| injects(key)));
    // A runtime of KServe that is not known may add variables.
    let is_open = object.may_lack_fields()
        || template.spec.has_unknown_key()
        || template.containers().any(|container| is_model_of_runtime(&container));
    let namespace = object.namespace_or_default();
    if is_open || is_injected || may_change_pods(ctx.cluster(), namespace, PodPart::Environment) {
        return None;
    }
    for container in template.containers() {
        inspect(template, &container, ctx);
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let server = server_of(container)?;
    let is_nim = is_server(container, ServerId::Nim);
    // An image of one's own may have the model in it.
    let downloads = DOWNLOADERS.contains(&server.id) || server.id == ServerId::HuggingFace;
    if !is_nim && !downloads || !server.is_in_published_image_of(container) || may_have_token(container) {
        return None;
    }
    let severity = if_empty(server, template, container, ctx)?;
    if is_nim {
        let image = container.get("image");
        let reference = image_of(container).filter(|image| image.name.starts_with("nvcr.io/nim/"))?;
        if nim_release(&reference).is_some_and(|release| release >= FIRST_KEYLESS_NIM) {
            return None;
        }
        let path = reference.repository;
        let message = format!("`{}` needs `NGC_API_KEY` to download its model", ellipsize(path));
        ctx.report(&image, message).severity(severity).help("give the container `NGC_API_KEY` from a Secret");
        return None;
    }
    let launch = Launch::of(container).filter(|launch| launch.is_first && !launch.may_have_more_options())?;
    let (model, node) = launch.model(container)?;
    let lower = model.to_ascii_lowercase();
    if !GATED.iter().any(|begin| lower.starts_with(begin)) || launch.has(&["hf-token", "load-format"]) {
        return None;
    }
    if let Some((name, entry)) = OF_OTHERS.into_iter().find_map(|name| Some((name, entry(container, name)?)))
    {
        let message =
            format!("{} reads no `{name}`, and `{}` is a gated model", server.name, ellipsize(&model));
        ctx.report(&entry.get("name"), message).severity(severity).help("call the variable `HF_TOKEN`");
        return None;
    }
    let message =
        format!("`{}` is a gated model, and {} has no token to download it", ellipsize(&model), server.name);
    ctx.report(&node, message).severity(severity).help("give the container `HF_TOKEN` from a Secret");
    None
}

/// Whether an annotation may ask an agent for a token.
fn injects(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_other = key.split_once('/').is_some_and(|(domain, _)| OTHER_INJECTORS.contains(&domain));
    !is_other && (key.contains("vault") || key.contains("inject"))
}

fn may_have_token(container: &Node<'_>) -> bool {
    let line = command_line(container).to_ascii_lowercase();
    let is_other = |name: &str| NEUTRAL.contains(&name) || OF_OTHERS.contains(&name);
    let is_sign = |name: &str| SIGNS.iter().any(|sign| name.contains(sign)) && !is_other(name);
    container.has_unknown_key()
        || may_define(container, |name| is_sign(&name.to_ascii_uppercase()))
        || ["token", "login", "secret", "source "].iter().any(|word| line.contains(word))
}

/// The severity of a finding about a download, if no volume brings the model or a token: the volumes are empty at first, or claims that nothing else fills.
/// `None` if one may.
pub(super) fn if_empty(
    server: &Server,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &Context<'_>,
) -> Option<Severity> {
    let volumes = template.spec.get("volumes");
    let has_init = template.spec.get("initContainers").is_set();
    if container.get("volumeMounts").has_unknown() {
        return None;
    }
    let mut severity = Severity::Warning;
    for mount in container.get("volumeMounts").items() {
        let path = mount.get("mountPath").text().unwrap_or_default();
        let name = mount.get("name").text();
        let volume = volumes.items().find(|volume| volume.get("name").text() == name);
        let is_empty = volume.as_ref().is_some_and(|volume| volume.get("emptyDir").is_set());
        let of_server = server.cache.as_ref().is_some_and(|cache| {
            cache.folders.iter().any(|folder| {
                let folder = folder.replace('~', "/root");
                folder.starts_with(path) || path.starts_with(&folder)
            })
        });
        let is_known = path == "/dev/shm" || path == "/tmp" && is_empty;
        let may_hold = (!is_empty || has_init) && (of_server || !is_config(path));
        if is_known || path.is_empty() || !may_hold {
            continue;
        }
        let own = new_claim(template, volume.as_ref(), name?, ctx).filter(|_| !has_init)?;
        severity = severity.min(own);
    }
    Some(severity)
}

/// The severity if a volume is a claim that is made for these pods, and that nothing else in the input fills.
fn new_claim(
    template: &Template<'_>,
    volume: Option<&Node<'_>>,
    name: &str,
    ctx: &Context<'_>,
) -> Option<Severity> {
    let (object, _) = template.place;
    let is_new = |spec: &Node<'_>| {
        !spec.has_unknown_key()
            && !["volumeName", "selector", "dataSource", "dataSourceRef"]
                .iter()
                .any(|field| spec.get(field).is_set())
    };
    let Some(volume) = volume else {
        let mut claims = object.path(&["spec", "volumeClaimTemplates"]).items();
        let claim = claims.find(|claim| claim.path(&["metadata", "name"]).text() == Some(name))?;
        return is_new(&claim.get("spec")).then_some(Severity::Warning);
    };
    let cluster = ctx.cluster();
    let namespace = object.namespace_or_default();
    let name = volume.path(&["persistentVolumeClaim", "claimName"]).text()?;
    let claim = cluster.unique(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name)?;
    let spec = claim.get("spec");
    let class = spec.get("storageClassName").text().filter(|class| !class.is_empty())?;
    let is_static = cluster.unique(Kind::STORAGE_CLASS, "default", class).is_some_and(may_be_filled);
    let mut users = cluster.views().users_of_claim(namespace, name).iter();
    // A person may have filled it before.
    let is_empty = is_new(&spec)
        && !is_static
        && cluster.views().volumes_reserved_for(namespace, name).is_empty()
        && !claim.may_lack_fields()
        && cluster.likely_pairs(object, claim)
        && users.all(|user| user.is_same_resource(object));
    is_empty.then_some(Severity::Info)
}

/// Whether volumes of a class may have files from the beginning: those that somebody made, and folders of a file system.
fn may_be_filled(class: &Object) -> bool {
    match class.get("provisioner").text() {
        Some(NO_PROVISIONER) => true,
        Some("efs.csi.aws.com" | "fsx.csi.aws.com") => class.get("parameters").is_set(),
        _ => false,
    }
}

/// Whether a folder is one for settings, which holds neither a model nor a token.
fn is_config(path: &str) -> bool {
    ["/dev/", "/etc/", "/var/log", "/var/run/secrets/eks", "/templates"]
        .iter()
        .any(|begin| path.starts_with(begin))
}
