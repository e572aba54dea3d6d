//! A server loads its model from a path at which nothing is mounted.
//!
//! # Why
//! The images of vLLM, SGLang, TGI, TEI, llama.cpp and Triton contain no models. With an absolute path below no
//! mount of the container the server ends at once, or takes the path for the name of a repository of Hugging
//! Face, and the pod restarts for ever while its GPU is paid for. Often the volume is there, at another path.
//! It is not reported for images of your own, and where another command runs first, which may bring the files.
//!
//! KServe downloads the model of an InferenceService from a `storageUri`, whose scheme names the storage.
//! Without one it takes the text for a path in the image: `models/gemma` is not there, and nothing is
//! downloaded.
//!
//! Triton reads models of an S3 server from `s3://https://HOST:PORT/BUCKET/PATH`. Without the port it takes
//! `https:` for the name of a bucket of AWS, and ends.
//!
//! # Fix
//! Mount the volume at the path, or name the path at which it is mounted. KServe has the files of
//! `storageUri` at `/mnt/models`. Begin a `storageUri` with `s3://`, `hf://`, `pvc://` or the scheme of
//! another storage.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: summary}
//!  spec:
//!    replicas: 1
//!    strategy: {type: Recreate}
//!    selector: {matchLabels: {app: summary}}
//!    template:
//!      metadata: {labels: {app: summary}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: example.com/vllm/vllm-openai:v0.11.0
//! -          args: [--model, /models/qwen3-8b] # <-
//! +          args: [--model, /mnt/models/qwen3-8b]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!            volumeMounts: [{name: models, mountPath: /mnt/models}]
//!        volumes: [{name: models, persistentVolumeClaim: {claimName: summary-models}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/stable/deployment/docker/>
//! - <https://kserve.github.io/website/docs/model-serving/storage/overview>
//! - <https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/model_repository.html>

use std::path::Path;

use crate::cluster::runtimes::model_of;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "model-path-not-mounted",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("model_path_not_mounted.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Servers whose own images contain no models.
const WITHOUT_MODELS: [ServerId; 6] =
    [ServerId::Vllm, ServerId::Sglang, ServerId::Tgi, ServerId::Tei, ServerId::LlamaCpp, ServerId::Triton];
/// Folders of these images, and those of the system.
const OF_IMAGE: [&str; 8] =
    ["/opt", "/usr", "/app", "/workspace", "/vllm-workspace", "/sgl-workspace", "/dev", "/proc"];
/// Where KServe has the files of `storageUri`.
pub(super) const KSERVE_MODELS: &str = "/mnt/models";
const KSERVE: &str = "serving.kserve.io";

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    if object.may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    // Several files of KServe have paths of their own.
    let has_own_paths = |node: Node<'_>| node.get("storageUris").is_set();
    if object.group() == KSERVE
        && ["predictor", "transformer"].iter().any(|part| has_own_paths(object.path(&["spec", part])))
    {
        return None;
    }
    if object.is(Kind::INFERENCE_SERVICE) && template.place.1 == 0 {
        without_scheme(object, ctx);
    }
    for container in template.containers() {
        inspect(&container, ctx);
    }
    None
}

/// Reports a `storageUri` that names no storage: `ValidateStorageURI` of KServe 0.11 to 0.20 takes it for a local path.
fn without_scheme(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (_, model, _) = model_of(object)?;
    let uri = model.get("storageUri");
    let text = uri.text().filter(|text| !text.is_empty() && !text.contains("://"))?;
    if text.starts_with(['/', '.']) {
        return None;
    }
    ctx.report(&uri, format!("`{}` names no storage, so that KServe downloads nothing", ellipsize(text)))
        .help("begin it with the scheme of the storage, such as `s3://`, `hf://` or `pvc://`");
    Some(())
}

/// Reports the address of an S3 server without a port: `s3_regex_` of Triton's core (`src/filesystem/implementations/s3.h`)
/// requires one, and what does not match is a bucket and a path.
fn without_port<'a>(
    launch: &Launch<'a>,
    container: &Node<'a>,
    names: &[&str],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let OptionValue::Text(uri, node) = launch.setting(container, names) else { return None };
    let rest = uri.strip_prefix("s3://")?;
    let (scheme, rest) = ["https", "http"]
        .into_iter()
        .find_map(|scheme| Some((scheme, rest.strip_prefix(scheme)?.strip_prefix("://")?)))?;
    let (host, path) = rest.split_once('/')?;
    if host.is_empty() || host.contains([':', '$', '{']) {
        return None;
    }
    let port = if scheme == "https" { 443 } else { 80 };
    ctx.report(&node, format!("Triton takes `{scheme}:` for a bucket of S3: the address has no port"))
        .help(format!("write `s3://{scheme}://{host}:{port}/{path}`, with the port of the server"));
    Some(())
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let launch = Launch::of(container).filter(|launch| launch.is_first)?;
    let server = launch.program.server()?;
    if server.id == ServerId::Triton {
        without_port(&launch, container, server.model_paths, ctx);
    }
    let mounts = container.get("volumeMounts");
    if !WITHOUT_MODELS.contains(&server.id)
        || !server.is_in_published_image_of(container)
        || mounts.has_unknown()
        || container.get("lifecycle").get("postStart").is_set()
    {
        return None;
    }
    let (path, node) = match launch.model(container) {
        Some(model) => model,
        None => match launch.setting(container, server.model_paths) {
            OptionValue::Text(path, node) => (path, node),
            _ => return None,
        },
    };
    // Triton starts with an empty repository, which clients fill.
    if server.id == ServerId::Triton && matches!(path.trim_end_matches('/'), "" | "/tmp") {
        return None;
    }
    let is_kserve = ctx.object().group() == KSERVE;
    let folders = OF_IMAGE.into_iter().chain(is_kserve.then_some(KSERVE_MODELS));
    if !path.starts_with('/')
        || path.contains("//")
        || folders.into_iter().any(|folder| Path::new(&path).starts_with(folder))
    {
        return None;
    }
    let mounted: Vec<(&str, Node<'_>)> = mounts
        .items()
        .filter_map(|mount| Some((mount.get("mountPath").text()?, mount.get("mountPath"))))
        .collect();
    // A mount below the path is a part of it.
    if mounted
        .iter()
        .any(|(mount, _)| Path::new(&path).starts_with(mount) || Path::new(mount).starts_with(&path))
    {
        return None;
    }
    let others = mounted
        .iter()
        .filter(|(mount, _)| !OF_IMAGE.iter().any(|folder| Path::new(mount).starts_with(folder)));
    let near = match others.collect::<Vec<_>>().as_slice() {
        [(mount, node)] => Some((*mount, node.clone())),
        _ => None,
    };
    let message = format!("{} loads `{}`, and nothing is mounted there", server.name, ellipsize(&path));
    let help = match &near {
        _ if is_kserve => {
            format!("KServe has the files of `storageUri` at `{KSERVE_MODELS}`: name that path")
        }
        Some((mount, _)) => {
            format!("the volume is at `{}`: name a path below it, or mount it there", ellipsize(mount))
        }
        None => "mount a volume with the model there: the image contains none".to_owned(),
    };
    let object = ctx.object();
    let finding = ctx.report(&node, message).help(help);
    if let Some((_, mount)) = near {
        finding.related(object, &mount, "a volume is mounted here");
    }
    None
}
