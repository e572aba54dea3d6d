//! KServe's storage initializer has too little memory for a model that it downloads.
//!
//! # Why
//! KServe downloads the model of an InferenceService in an init container, whose memory limit is 1Gi unless
//! the ClusterStorageContainer says more. Hugging Face's library keeps parts of several files in memory while
//! it writes them: at 1Gi the container is killed with models of more than 8 GB or so, and 40 GB were seen to
//! need 16Gi. The pod starts the download again and again, on a node whose GPUs wait.
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
//!          limits: {memory: 96Gi, nvidia.com/gpu: 4}
//! ```
//!
//! # References
//! - <https://github.com/kserve/kserve/issues/5162>
//! - <https://github.com/kserve/kserve/issues/5326>
//! - <https://github.com/huggingface/huggingface_hub/issues/3300>

use crate::facts::quantity::amount;
use crate::platform::VersionRange;
use crate::rules::prelude::*;
use crate::workload::environment::may_define;
use crate::workload::model::{ROUNDED, published_weights};

pub(crate) static RULE: Rule = Rule {
    id: "storage-initializer-memory",
    kinds: &[Kind::CLUSTER_STORAGE_CONTAINER],
    reads: &[Kind::CLUSTER_STORAGE_CONTAINER, Kind::INFERENCE_SERVICE, Kind::LOCAL_MODEL_CACHE],
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

/// A model that an InferenceService takes from Hugging Face.
struct Download<'a> {
    service: &'a Object,
    uri: Node<'a>,
    name: String,
    /// The least size of its files, in MB.
    megabytes: u64,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let container = object.path(&["spec", "container"]);
    let limit = container.path(&["resources", "limits", "memory"]);
    let bytes = Quantity::at(&limit)?.value();
    if object.may_lack_fields() || !downloads(object, ctx) || is_tuned(&container) {
        return None;
    }
    let largest = models(ctx).into_iter().max_by_key(|model| model.megabytes)?;
    if !TOO_SMALL.iter().any(|(below, from)| bytes < *below && largest.megabytes >= *from) {
        return None;
    }
    let message = format!(
        "the download of `{}`, {} GB, is killed for its memory: the limit is {}",
        ellipsize(&largest.name),
        largest.megabytes / 1000,
        amount("memory", bytes * 1000)
    );
    ctx.report(&limit, message)
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
    let release = image.and_then(|image| Version::parse(image.tag?));
    may_download(object)
        && object.path(&["spec", "supportedUriFormats"]).items().any(is_for)
        && release.is_some_and(|release| WITH_XET.contains(release))
        && !others.any(is_other)
}

/// Whether a container has settings of the library with which it keeps less, or may have.
fn is_tuned(container: &Node<'_>) -> bool {
    may_define(container, |name| name.starts_with("HF_XET_") || name == "HF_HUB_DISABLE_XET")
}

/// The models of the input that KServe downloads from Hugging Face, of known size.
fn models<'a>(ctx: &Context<'a>) -> Vec<Download<'a>> {
    let cluster = ctx.cluster();
    let is_cached = |uri: &str| {
        let mut caches = cluster.of(Kind::LOCAL_MODEL_CACHE);
        caches.any(|cache| cache.path(&["spec", "sourceModelUri"]).text().is_none_or(|own| own == uri))
    };
    let services = cluster.of(Kind::INFERENCE_SERVICE).filter(|service| ctx.pairs_with(service));
    let predictors = services.map(|service| (service, service.path(&["spec", "predictor"])));
    // A container of one's own takes the place of that of KServe.
    let is_own =
        |container: Node<'_>| container.get("name").text().is_none_or(|name| name == "storage-initializer");
    let predictors = predictors.filter(|(_, predictor)| !predictor.get("initContainers").items().any(is_own));
    let uris = predictors.flat_map(|(service, predictor)| {
        let uris = predictor.entries().into_iter().map(|(_, part)| part.get("storageUri"));
        uris.map(move |uri| (service, uri)).collect::<Vec<_>>()
    });
    let found = uris.filter_map(|(service, uri)| {
        let text = uri.text().filter(|text| !is_cached(text))?;
        // A revision comes after a colon.
        let name = text.strip_prefix(HUGGING_FACE)?.split(':').next()?.to_owned();
        let megabytes = published_weights(&name)?.megabytes() * (100 - ROUNDED) / 100;
        Some(Download { service, uri, name, megabytes })
    });
    found.collect()
}
