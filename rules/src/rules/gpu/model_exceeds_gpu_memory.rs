//! The weights of a model are larger than the memory of the GPUs that load it.
//!
//! # Why
//! vLLM, SGLang, TGI and TensorRT-LLM load all weights into the memory of the GPUs before they answer. Where
//! they do not fit, the server ends with `CUDA out of memory` minutes after the node was started, and starts
//! again. The number of parameters is read from the name of the model, or from a table for DeepSeek, Kimi,
//! Llama 4, GLM and others whose names do not state it, the bytes of each from its quantisation, and the memory
//! from the largest GPU of the instance types on which the pod can run, of which vLLM uses the share that
//! `--gpu-memory-utilization` states. Where the weights fit but leave less than 15 % for the KV cache, it is
//! advice: the server then answers few requests at a time. Models of unknown size are not checked, nor mixtures
//! of experts that data-parallel ranks share, nor llama.cpp, which leaves on the CPU what does not fit.
//!
//! # Fix
//! Spread the model over more GPUs, choose GPUs with more memory, or serve a quantised model.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    nodeSelector:
//!      node.kubernetes.io/instance-type: g5.12xlarge
//!    terminationGracePeriodSeconds: 120
//!    containers:
//!      - name: server
//!        image: vllm/vllm-openai:v0.11.0
//!        args:
//! -        - --model=meta-llama/Llama-3.1-70B-Instruct # <-
//! +        - --model=Qwen/Qwen3-32B
//!          - --tensor-parallel-size=4
//!        ports: [{name: http, containerPort: 8000}]
//!        readinessProbe: {httpGet: {path: /health, port: http}}
//!        startupProbe: {httpGet: {path: /health, port: http}, failureThreshold: 90}
//!        lifecycle: {preStop: {sleep: {seconds: 15}}}
//!        resources:
//!          requests: {cpu: 16, memory: 96Gi}
//!          limits: {nvidia.com/gpu: 4, memory: 96Gi}
//!        volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!    volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/configuration/conserving_memory.html>
//! - <https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html>

use crate::rules::gpu::{LargestGpu, gigabytes, whole_gpu_containers};
use crate::rules::prelude::*;
use crate::workload::devices::Devices;
use crate::workload::model::{ROUNDED, Weights, weights_of};
use crate::workload::processes::is_group;

pub(crate) static RULE: Rule = Rule {
    id: "model-exceeds-gpu-memory",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NAMESPACE, Kind::NODE_POOL], RUNTIMES],
    docs: docs(include_str!("model_exceeds_gpu_memory.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// The share of the memory, in percent, that the weights leave to the KV cache at least.
const CACHE: u64 = 15;

/// Options of servers of embeddings and scores, which have no KV cache that grows with requests.
const POOLING: [&str; 4] = ["task", "runner", "convert", "is-embedding"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for (template, container) in whole_gpu_containers(object, ctx) {
        inspect(object, &template, &container, ctx);
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let devices = gpus_of(container)?;
    let launch = Launch::of(container)?;
    let (weights, node) = weights_of(&launch, container)?;
    let gpus = launch.gpus_of_model(container)?;
    // More GPUs than the container has are those of other pods, or the mistake that gpu-process-count reports.
    if gpus < 1 || gpus > devices.count && !is_group(object, template, &launch) {
        return None;
    }
    let Some(largest) = LargestGpu::of(template, devices.count, ctx) else {
        return beyond_any_gpu(object, container, (&weights, &node), (gpus, &devices), ctx);
    };
    let each = largest.each;
    let all = each * u64::try_from(gpus).ok()?;
    let needed = weights.megabytes();
    let parameters = weights.parameters_text();
    let precision = weights.precision.name();
    let program = launch.program.name();
    let name = object.display_name();
    let (needed_gb, each_gb) = (gigabytes(needed), gigabytes(each));
    let share = launch.memory_share().map(|share| share.percent.unsigned_abs());
    let finding = if needed * (100 - ROUNDED) > all * share.unwrap_or(100) {
        let uses = match share.filter(|share| *share < 100) {
            Some(share) => format!("uses {share} % of {gpus} x {each_gb} GB"),
            None => format!("uses {gpus} x {each_gb} GB"),
        };
        let message = format!(
            "{parameters} parameters in {precision} need {needed_gb} GB of GPU memory, and {program} in `{name}` {uses}"
        );
        ctx.report(&node, message).help(help(needed, each, &devices))
    } else if needed * 100 > all * (100 - CACHE) && !launch.has(&POOLING) {
        let left = all.saturating_sub(needed) * 100 / all;
        let message = format!(
            "{parameters} parameters in {precision} leave {left} % of {gpus} x {each_gb} GB for the KV cache of {program} in `{name}`"
        );
        ctx.report(&node, message)
            .severity(Severity::Info)
            .help("use more GPUs, larger ones or weights of fewer bits for more requests at a time")
    } else {
        return None;
    };
    largest.show(object, &devices, finding);
    None
}

/// The memory, in MB, of the largest GPU that is sold: AMD's MI455X, 2026.
const LARGEST: u64 = 432_000;

/// Reports weights that no GPU has the memory for, whichever the pod gets.
fn beyond_any_gpu(
    object: &Object,
    container: &Node<'_>,
    (weights, node): (&Weights, &Node<'_>),
    (gpus, devices): (i64, &Devices<'_>),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let needed = weights.megabytes();
    // A part of the weights may be in the memory of the node.
    let is_offloaded = Launch::of(container)?.has(&["cpu-offload-gb", "offload-backend"]);
    if is_offloaded || needed * (100 - ROUNDED) <= u64::try_from(gpus).ok()? * LARGEST * 100 {
        return None;
    }
    let (all, each) = (gigabytes(needed), gigabytes(LARGEST));
    let of_gpus = if gpus == 1 { "one GPU".to_owned() } else { format!("{gpus} GPUs") };
    let message = format!(
        "{} parameters in {} need {all} GB of GPU memory: `{}` uses {of_gpus}, and the largest has {each} GB",
        weights.parameters_text(),
        weights.precision.name(),
        object.display_name()
    );
    ctx.report(node, message)
        .help("spread the model over more GPUs or nodes, or use weights of fewer bits")
        .related(object, &devices.node, "the GPUs of the container");
    None
}

/// The help: the number of GPUs that hold the weights and some cache, if one node can have them.
fn help(needed: u64, each: u64, devices: &Devices<'_>) -> String {
    let holds = |gpus: &i64| gpus.unsigned_abs() * each * (100 - CACHE) >= needed * 100;
    match [1i64, 2, 4, 8].into_iter().find(holds) {
        Some(gpus) if gpus <= devices.count => {
            format!("spread the model over {gpus} of the {} GPUs that the container has", devices.count)
        }
        Some(gpus) => format!("use {gpus} GPUs of this size, larger GPUs, or weights of fewer bits"),
        None => "use larger GPUs, several nodes, or weights of fewer bits".to_owned(),
    }
}
