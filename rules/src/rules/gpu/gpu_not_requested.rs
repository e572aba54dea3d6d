//! Pods that use a GPU request none.
//!
//! # Why
//! A node selector brings a pod to a node with GPUs and gives it none of them: only a request in the limits
//! of a container does. On nodes whose container runtime shows all GPUs to images of CUDA, the pod works all the
//! same, on GPUs that the scheduler gave to others: they run out of memory, and the pod is in no account. On
//! others `nvidia-smi` is not found. It is reported for pods that select nodes with accelerators and run
//! `nvidia-smi`, a server of models or an image of CUDA; and for a TrainJob without `resourcesPerNode` whose
//! runtime, in the input, runs on such nodes and requests no GPU either.
//!
//! # Fix
//! Request the GPU in the limits of the container.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: encode}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector:
//!          karpenter.k8s.aws/instance-gpu-manufacturer: nvidia
//!        containers:
//! -        - name: main # <-
//! +        - name: main
//!            image: nvidia/cuda:12.8.1-runtime-ubuntu24.04
//!            command: [ffmpeg, -hwaccel, cuda, -i, /in.mp4, /out.mp4]
//! -          resources: {requests: {cpu: 4, memory: 16Gi}}
//! +          resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/>
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>

use super::gpu_taint_tolerated_without_gpu::{TAINTS, uses_a_gpu};
use crate::cluster::runtimes::RUNTIMES;
use crate::rules::gpu::{is_left_alone, pools_by_label};
use crate::rules::prelude::*;
use crate::workload::class::{command_line, has_word, repository};
use crate::workload::gpu_nodes::requires_gpu_nodes;
use crate::workload::server::server_of;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-not-requested",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL, RUNTIMES[0], RUNTIMES[1], RUNTIMES[2], RUNTIMES[3]],
    docs: docs(include_str!("gpu_not_requested.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.kind() == "TrainJob" {
        return of_train_job(object, ctx);
    }
    // What operators add to the pods of these kinds is not known.
    let merged = matches!(object.kind(), "InferenceService" | "LLMInferenceService")
        || object.group() == "trainer.kubeflow.org";
    if is_left_alone(object) || merged || uses_accelerators(object) {
        return None;
    }
    for template in templates(object) {
        // The rule on tolerations reports the others, apart from those of tests.
        let tolerates = template
            .spec
            .get("tolerations")
            .items()
            .any(|toleration| toleration.get("key").text().is_none_or(|key| TAINTS.contains(&key)));
        let host = ["hostPID", "hostIPC"].iter().any(|field| template.spec.get(field).bool() == Some(true));
        if uses_a_gpu(&template) || !requires_gpu_nodes(&template) || host || tolerates && !is_test(object) {
            continue;
        }
        let Some((container, sign)) = template.containers().find_map(|c| Some((c.clone(), sign_of(&c)?)))
        else {
            continue;
        };
        let message = format!("`{}` {sign} on nodes with GPUs, and requests none", object.display_name());
        ctx.report(&container, message)
            .help("request it in the limits of the container, such as `nvidia.com/gpu: 1`");
    }
    None
}

/// Reports a TrainJob whose runtime runs on nodes with GPUs, if neither requests one.
fn of_train_job(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if uses_accelerators(object) {
        return None;
    }
    let templates = templates(object);
    let (template, container) = templates.iter().find_map(|template| {
        let container = template.containers().find(|c| c.get("name").text().is_some_and(is_trainer))?;
        Some((template, container))
    })?;
    let tolerates = template
        .spec
        .get("tolerations")
        .items()
        .any(|toleration| toleration.get("key").text().is_some_and(|key| TAINTS.contains(&key)));
    let of_gpus = |pool: &&Object| NodePool::new(pool).is_some_and(|pool| pool.is_gpu_intended());
    let pool = pools_by_label(template, ctx).into_iter().find(of_gpus);
    if !tolerates && pool.is_none() && !requires_gpu_nodes(template) {
        return None;
    }
    let message = format!(
        "`{}` requests no GPU, and neither does its runtime, which runs on nodes with GPUs",
        object.display_name()
    );
    let finding = ctx.report(&container, message);
    finding.help("write `resourcesPerNode` with the GPUs of a node: torchrun starts a process for each");
    if let Some(pool) = pool {
        finding.related(pool, &pool.path(&["metadata", "name"]), "its pool");
    }
    None
}

/// Whether a container of a runtime is the one that a TrainJob's trainer changes.
fn is_trainer(name: &str) -> bool {
    matches!(name, "node" | "trainer")
}

/// What shows that a container uses a GPU.
fn sign_of(container: &Node<'_>) -> Option<String> {
    let line = command_line(container);
    if has_word(&line, "nvidia-smi") {
        return Some("runs `nvidia-smi`".to_owned());
    }
    // Servers that are also run on CPUs are no evidence.
    let server = server_of(container)
        .filter(|server| matches!(server.name, "vLLM" | "SGLang" | "TensorRT-LLM" | "NIM"));
    if let Some(server) = server {
        return Some(format!("runs {}", server.name));
    }
    let image = container.get("image");
    let image = image.text()?;
    let is_cuda = repository(image) == "nvidia/cuda" || repository(image).ends_with("/nvidia/cuda");
    (is_cuda && !line.contains("sleep")).then(|| "runs an image of CUDA".to_owned())
}
