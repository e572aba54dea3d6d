//! Pods that use a GPU request none.
//!
//! # Why
//! A node selector brings a pod to a node with GPUs and gives it none of them: only a request in the limits
//! of a container does. On nodes whose container runtime shows all GPUs to images of CUDA, the pod works all the
//! same, on GPUs that the scheduler gave to others: they run out of memory, and the pod is in no account. On
//! others `nvidia-smi` is not found. It is reported for pods that select nodes with accelerators and run
//! `nvidia-smi`, a server of models, a launcher of training or an image for accelerators, also where they
//! tolerate the taint of such nodes or set `NVIDIA_VISIBLE_DEVICES: all`; and for a TrainJob without
//! `resourcesPerNode` whose runtime, in the input, runs on such nodes and requests no GPU either.
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

use super::gpu_taint_tolerated_without_gpu::{TAINTS, has_access_to_gpus};
use crate::cluster::runtimes::RUNTIMES;
use crate::facts::image::ImageRef;
use crate::rules::gpu::{is_left_alone, pools_by_label};
use crate::rules::prelude::*;
use crate::workload::class::{command_line, has_word};
use crate::workload::gpu_nodes::requires_gpu_nodes;
use crate::workload::launcher::Launch;
use crate::workload::server::{ServerId, server_of};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-not-requested",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL, RUNTIMES[0], RUNTIMES[1], RUNTIMES[2], RUNTIMES[3]],
    docs: docs(include_str!("gpu_not_requested.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
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
        let host = ["hostPID", "hostIPC"].iter().any(|field| template.spec.get(field).bool() == Some(true));
        if host || has_access_to_gpus(&template) || !requires_gpu_nodes(&template) || shares_gpus(&template) {
            continue;
        }
        let Some((container, sign)) = template.containers().find_map(|c| Some((c.clone(), sign_of(&c)?)))
        else {
            continue;
        };
        let Sign { what, resource } = sign;
        let devices = if resource == NEURON { "Neuron devices" } else { "GPUs" };
        let message =
            format!("`{}` {what} on nodes with {devices}, and requests none", object.display_name());
        ctx.report(&container, message)
            .help(format!("request it in the limits of the container, such as `{resource}: 1`"));
    }
    None
}

/// Whether a variable gives a container some GPUs of its node, so that several pods may share them on purpose.
fn shares_gpus(template: &Template<'_>) -> bool {
    let mut variables = template.all_containers().flat_map(|container| container.get("env").items());
    variables.any(|variable| {
        let is_choice = variable.get("name").raw_text().is_some_and(|name| name.contains("VISIBLE_DEVICES"));
        is_choice && variable.get("value").text() != Some("all")
    })
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

const NVIDIA: &str = "nvidia.com/gpu";
const AMD: &str = "amd.com/gpu";
const NEURON: &str = "aws.amazon.com/neuron";

/// What shows that a container uses an accelerator, and the resource that it should request.
struct Sign {
    what: String,
    resource: &'static str,
}

/// Programs that show the accelerators of a node.
const TOOLS: [(&str, &str); 5] = [
    ("nvidia-smi", NVIDIA),
    ("rocm-smi", AMD),
    ("amd-smi", AMD),
    ("neuron-ls", NEURON),
    ("neuron-top", NEURON),
];

/// Servers that nobody runs on CPUs, or not on a node with GPUs.
const SERVERS: [ServerId; 6] =
    [ServerId::Vllm, ServerId::Sglang, ServerId::TensorRtLlm, ServerId::Nim, ServerId::Tgi, ServerId::Triton];

/// What shows that a container uses an accelerator. Servers that are also run on CPUs are no evidence.
fn sign_of(container: &Node<'_>) -> Option<Sign> {
    let line = command_line(container);
    let of_image = container.get("image").text().and_then(accelerator_of_image);
    if let Some((tool, resource)) = TOOLS.iter().find(|(tool, _)| has_word(&line, tool)) {
        return Some(Sign { what: format!("runs `{tool}`"), resource });
    }
    let resource = of_image.map_or(NVIDIA, |(resource, _)| resource);
    if let Some(server) = server_of(container).filter(|server| SERVERS.contains(&server.id)) {
        return Some(Sign { what: format!("runs {}", server.name), resource });
    }
    // A launcher with a number of processes for each node.
    let launch = Launch::of(container).filter(|launch| launch.program.server().is_none());
    if let Some(launch) = launch.filter(|launch| launch.gpus().is_some_and(|(_, node)| node.is_some())) {
        return Some(Sign { what: format!("runs {}", launch.program.name()), resource });
    }
    let (resource, name) = of_image.filter(|_| !line.contains("sleep"))?;
    Some(Sign { what: format!("runs an image {name}"), resource })
}

/// The accelerator that an image is made for, as its resource and in words.
fn accelerator_of_image(image: &str) -> Option<(&'static str, &'static str)> {
    let image = ImageRef::parse(image);
    let of_cuda = image.tag.is_some_and(|tag| tag.contains("cuda"));
    if image.is("nvidia/cuda") || image.is("nvidia/pytorch") || image.is("pytorch/pytorch") && of_cuda {
        return Some((NVIDIA, "of CUDA"));
    }
    if image.repository.split('/').any(|part| part == "rocm") {
        return Some((AMD, "of ROCm"));
    }
    image.repository.ends_with("-neuronx").then_some((NEURON, "for Neuron"))
}
