//! KServe's storage initializer has too little memory for a model that it downloads.
//!
//! # Why
//! KServe downloads the model of an InferenceService in an init container, whose memory limit is 1Gi unless
//! the ClusterStorageContainer says more. Hugging Face's library keeps parts of several files in memory while
//! it writes them: at 1Gi the container is killed with models of more than 8 GB or so, and 40 GB were seen to
//! need 16Gi. The pod starts the download again and again, on a node whose GPUs wait.
//!
//! The init container of an LLMInferenceService is another one, from `storageInitializer` in the ConfigMap
//! `inferenceservice-config`, with 1Gi as well: the ClusterStorageContainer does not change it.
//!
//! It is reported for `hf://` models of known size and images of KServe 0.15 to 0.20: from 10 GB on below
//! 2Gi, and from 30 GB on at 2Gi. Other sources are left alone, and so are containers with settings of the
//! library that reduce what it keeps.
//!
//! # Fix
//! Raise the limit. `HF_HUB_DISABLE_XET: "1"` needs less memory and takes longer.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: serving.kserve.io/v1alpha1
//!  kind: ClusterStorageContainer
//!  metadata: {name: default}
//!  spec:
//!    container:
//!      name: storage-initializer
//!      image: kserve/storage-initializer:v0.17.0
//!      resources:
//!        requests: {cpu: 100m, memory: 100Mi}
//! -      limits: {cpu: 1, memory: 1Gi} # <-
//! +      limits: {cpu: 1, memory: 16Gi}
//!    supportedUriFormats: [{prefix: "hf://"}, {prefix: "s3://"}]
//!  ---
//!  apiVersion: serving.kserve.io/v1beta1
//!  kind: InferenceService
//!  metadata:
//!    name: qwen
//!    annotations: {serving.kserve.io/deploymentMode: RawDeployment}
//!  spec:
//!    predictor:
//!      minReplicas: 1
//!      maxReplicas: 2
//!      model:
//!        modelFormat: {name: huggingface}
//!        storageUri: hf://Qwen/Qwen2.5-72B-Instruct-AWQ
//!        args: [--model_name=qwen, --tensor-parallel-size=4, --max-model-len=8192]
//!        resources:
//!          requests: {cpu: 16, memory: 96Gi, nvidia.com/gpu: 4}
//!          limits: {cpu: 16, memory: 96Gi, nvidia.com/gpu: 4}
//! ```
//!
//! # References
//! - <https://github.com/kserve/kserve/issues/5162>
//! - <https://github.com/kserve/kserve/issues/5326>
//! - <https://github.com/huggingface/huggingface_hub/issues/3300>

use crate::facts::quantity::amount;
use crate::platform::VersionRange;
use crate::rules::availability::kserve::CONFIG;
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::environment::may_define;
use crate::workload::model::{ROUNDED, published_weights};

pub(crate) static RULE: Rule = Rule {
    id: "storage-initializer-memory",
    kinds: &[Kind::CLUSTER_STORAGE_CONTAINER, Kind::CONFIG_MAP],
    reads: &[
        Kind::CLUSTER_STORAGE_CONTAINER,
        Kind::INFERENCE_SERVICE,
        Kind::LLM_INFERENCE_SERVICE,
        Kind::LOCAL_MODEL_CACHE,
    ],
    docs: docs(include_str!("storage_initializer_memory.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

const HUGGING_FACE: &str = "hf://";
/// The releases of KServe whose image has the part of the library that keeps files in memory: hf-xet 1.0.5 to 1.5.1
/// (`python/kserve/poetry.lock` and `python/storage/uv.lock` of v0.15.2 to v0.20.0).
const WITH_XET: VersionRange =
    VersionRange { since: Some(Version::new(0, 15)), until: Some(Version::new(0, 20)) };
/// Memory limits, in bytes, and the size of a model, in MB, from which they were seen to be too small: below the first, and up to the
/// second.
const TOO_SMALL: [(i128, u64); 2] = [(2 << 30, 10_000), ((2 << 30) + 1, 30_000)];

/// A model that a service takes from Hugging Face.
struct Download<'a> {
    service: &'a Object,
    uri: Node<'a>,
    name: String,
    /// The least size of its files, in MB.
    megabytes: u64,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    if object.is(Kind::CONFIG_MAP) {
        return of_config(object, ctx);
    }
    let container = object.path(&["spec", "container"]);
    let limit = container.path(&["resources", "limits", "memory"]);
    let bytes = Quantity::at(&limit)?.value();
    if downloads(object, ctx) && !is_tuned(&container) {
        compare(&limit, bytes, models(ctx), ctx);
    }
    None
}

/// Reports the limit of the init containers of LLMInferenceServices (`attachStorageInitializer` of KServe's `llmisvc`, 0.16 to 0.20).
fn of_config(config: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = config.path(&["data", "storageInitializer"]);
    let text = field.text().filter(|_| config.name() == CONFIG)?;
    let (bytes, release) = with_embedded(text, |root| {
        let image = ImageRef::parse(root.get("image").text()?);
        let bytes = Quantity::at(&root.get("memoryLimit"))?.value();
        Some((bytes, image.version().filter(|_| image.is("kserve/storage-initializer"))?))
    })?;
    if WITH_XET.contains(release) {
        compare(&field, bytes, llm_models(ctx), ctx);
    }
    None
}

/// Reports a limit that is too small for the largest of some models.
fn compare(limit: &Node<'_>, bytes: i128, models: Vec<Download<'_>>, ctx: &mut Context<'_>) -> Option<()> {
    let largest = models.into_iter().max_by_key(|model| model.megabytes)?;
    if !TOO_SMALL.iter().any(|(below, from)| bytes < *below && largest.megabytes >= *from) {
        return None;
    }
    let message = format!(
        "the download of `{}`, {} GB, is killed for its memory: the limit is {}",
        ellipsize(&largest.name),
        largest.megabytes / 1000,
        amount("memory", bytes * 1000)
    );
    ctx.report(limit, message)
        .help("raise the limit: 2Gi are known to suffice for 14 GB, and 16Gi for 40 GB")
        .related(largest.service, &largest.uri, "the model");
    None
}

/// Whether KServe may take a container for models of Hugging Face (`GetStorageContainerSpec`).
fn may_download(object: &Object) -> bool {
    let formats = object.path(&["spec", "supportedUriFormats"]);
    let is_for = |format: Node<'_>| format.get("prefix").text().is_none_or(|own| own == HUGGING_FACE);
    let workload = object.path(&["spec", "workloadType"]);
    formats.items().any(is_for)
        && object.get("disabled").bool() != Some(true)
        && workload.text().is_none_or(|workload| workload == "initContainer")
}

/// Whether KServe takes this container for models of Hugging Face, and its image is of one of the releases.
fn downloads(object: &Object, ctx: &Context<'_>) -> bool {
    let mut others = ctx.cluster().of(Kind::CLUSTER_STORAGE_CONTAINER);
    let is_other = |other: &Object| !other.is_same_resource(object) && may_download(other);
    let is_for = |format: Node<'_>| format.get("prefix").text() == Some(HUGGING_FACE);
    let image = object.path(&["spec", "container"]);
    let image = image_of(&image).filter(|image| image.is("kserve/storage-initializer"));
    let release = image.and_then(|image| image.version());
    may_download(object)
        && object.path(&["spec", "supportedUriFormats"]).items().any(is_for)
        && release.is_some_and(|release| WITH_XET.contains(release))
        && !others.any(is_other)
}

/// Whether a container has settings of the library with which it keeps less, or may have.
fn is_tuned(container: &Node<'_>) -> bool {
    may_define(container, |name| name.starts_with("HF_XET_") || name == "HF_HUB_DISABLE_XET")
}

/// The models of the InferenceServices of the input that KServe downloads from Hugging Face, of known size.
fn models<'a>(ctx: &Context<'a>) -> Vec<Download<'a>> {
    let cluster = ctx.cluster();
    let is_cached = |uri: &str| {
        let mut caches = cluster.of(Kind::LOCAL_MODEL_CACHE);
        caches.any(|cache| cache.path(&["spec", "sourceModelUri"]).text().is_none_or(|own| own == uri))
    };
    let services = cluster.of(Kind::INFERENCE_SERVICE).filter(|service| ctx.pairs_with(service));
    let predictors = services.map(|service| (service, service.path(&["spec", "predictor"])));
    let predictors = predictors.filter(|(_, predictor)| !has_own_container(predictor));
    let uris = predictors.flat_map(|(service, predictor)| {
        let uris = predictor.entries().into_iter().map(|(_, part)| part.get("storageUri"));
        uris.map(move |uri| (service, uri)).collect::<Vec<_>>()
    });
    let uris = uris.filter(|(_, uri)| uri.text().is_some_and(|text| !is_cached(text)));
    uris.filter_map(|(service, uri)| download(service, uri)).collect()
}

/// The models of the LLMInferenceServices of the input.
fn llm_models<'a>(ctx: &Context<'a>) -> Vec<Download<'a>> {
    let services = ctx.cluster().of(Kind::LLM_INFERENCE_SERVICE).filter(|service| ctx.pairs_with(service));
    let downloads = |service: &&Object| {
        let enabled = service.path(&["spec", "storageInitializer", "enabled"]);
        let is_on = !enabled.is_set() || enabled.bool() == Some(true);
        is_on && !service.may_lack_fields() && !has_own_container(&service.path(&["spec", "template"]))
    };
    let uris = services.filter(downloads).map(|service| (service, service.path(&["spec", "model", "uri"])));
    uris.filter_map(|(service, uri)| download(service, uri)).collect()
}

/// Whether a container of a pod takes the place of that of KServe, or changes it.
fn has_own_container(spec: &Node<'_>) -> bool {
    let is_own =
        |container: Node<'_>| container.get("name").text().is_none_or(|name| name == "storage-initializer");
    spec.get("initContainers").items().any(is_own)
}

fn download<'a>(service: &'a Object, uri: Node<'a>) -> Option<Download<'a>> {
    // A revision comes after a colon.
    let name = uri.text()?.strip_prefix(HUGGING_FACE)?.split(':').next()?.to_owned();
    let megabytes = published_weights(&name)?.megabytes() * (100 - ROUNDED) / 100;
    Some(Download { service, uri, name, megabytes })
}
