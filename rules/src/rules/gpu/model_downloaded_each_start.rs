//! A model server downloads its model at each start of its pod.
//!
//! # Why
//! The weights of a model are gigabytes, and a pod without a volume that outlives it takes them from the
//! network whenever it starts: after a rollout, on each node that Karpenter starts, for each replica of an
//! autoscaler. Meanwhile the GPU is paid for and idle, and Hugging Face limits how often an address may ask. An
//! `emptyDir` outlives a container, not its pod. Ollama, to which models are brought while it runs, has none in
//! a new pod.
//!
//! # Fix
//! Mount a claim, a bucket or a disk of the node at the cache of the server, bring the model as an image
//! volume, or load it from a bucket with a streamer (`--load-format runai_streamer`).
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
//! -          args: [--model, mistralai/Mistral-7B-v0.3] # <-
//! +          args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! +          volumeMounts: [{name: models, mountPath: /root/.cache/huggingface}]
//! +      volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
//! ```
//!
//! # References
//! - <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>
//! - <https://docs.vllm.ai/en/stable/models/extensions/runai_model_streamer/>
//! - <https://kubernetes.io/docs/concepts/storage/volumes/>

use super::model_cache_misplaced::downloads;
use super::model_cache_unreachable::is_offline;
use crate::rules::prelude::*;
use crate::workload::environment::may_define;
use crate::workload::model::{owner_and_name, published_weights};
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "model-downloaded-each-start",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("model_downloaded_each_start.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.is_owned() || !runs_forever(object) || is_test(object) {
        return None;
    }
    for template in templates(object) {
        if !uses_device(&template) || template.spec.has_unknown_key() {
            continue;
        }
        for container in template.containers() {
            inspect(object, &template, &container, ctx);
        }
    }
    None
}

/// Whether a volume that outlives a pod, or an image of one's own, may have the model of a server.
pub(in crate::rules) fn may_keep_model(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
) -> bool {
    const OF_POD: [&str; 5] = ["emptyDir", "configMap", "secret", "projected", "downwardAPI"];
    let volumes = template.spec.get("volumes");
    let is_of_pod = |volume: Node<'_>| OF_POD.iter().any(|kind| volume.get(kind).is_set());
    let is_plain = server_of(container).is_some_and(|server| server.is_in_published_image_of(container))
        && !template.spec.get("initContainers").is_set();
    !is_plain
        || volumes.has_unknown()
        || !volumes.items().all(is_of_pod)
        || object.path(&["spec", "volumeClaimTemplates"]).is_set()
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let server = server_of(container)?;
    // Models of embeddings are small.
    let is_small = server.loads_fast && server.id != ServerId::Ollama;
    let cache = server.cache.as_ref().filter(|_| !is_small && !is_model_of_runtime(container))?;
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    if may_keep_model(object, template, container)
        || !downloads(server, container)
        || is_offline(container)?
        || launch.has(&["load-format", "download-dir"])
        || may_define(container, |name| matches!(name, "NIM_MODEL_NAME" | "NIM_MODEL_PATH"))
    {
        return None;
    }
    let folder = cache.folders[0];
    let (message, node) = match launch.model(container) {
        Some((name, node)) => {
            owner_and_name(&name)?;
            let size =
                published_weights(&name).map(|weights| weights.megabytes() / 1000).filter(|size| *size > 0);
            let size = size.map_or_else(String::new, |size| format!(" of {size} GB"));
            (format!("each new pod downloads `{}`{size}: no volume keeps it", ellipsize(&name)), node)
        }
        None if server.model.is_empty() && !server.model_is_positional => {
            let what = match server.id {
                ServerId::Ollama => "starts without models: no volume keeps them",
                _ => "downloads its model: no volume keeps it",
            };
            (format!("each new pod of {} {what}", server.name), container.get("image"))
        }
        None => return None,
    };
    ctx.report(&node, message).help(format!(
        "mount a claim at `{}`, or bring the model as an image volume or from a bucket",
        folder.replace('~', "/root")
    ));
    None
}
