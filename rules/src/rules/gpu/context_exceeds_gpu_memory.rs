//! The KV cache of one request of full length exceeds what the model leaves.
//!
//! # Why
//! vLLM reserves nothing for a request, but checks at start that the KV cache holds one of the greatest length:
//! otherwise it ends with `The model's max seq len (131072) is larger than the maximum number of tokens that
//! can be stored in KV cache`, minutes after the node was started, and starts again. Without `--max-model-len`
//! that length is the one of the model, 131072 tokens for Llama 3.1, of which each needs 128 KiB with 8B
//! parameters. Layers and heads are known for Llama 3, Qwen 2.5 and 3, DeepSeek's distilled models and Mistral
//! 7B; the memory is that of the largest GPU on which the pod can run. What vLLM needs beside weights and cache
//! is not counted, so that a length that is not reported may still be too large.
//!
//! # Fix
//! Write `--max-model-len` with the length that clients use, or spread the model over more GPUs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    nodeSelector: {node.kubernetes.io/instance-type: g5.2xlarge}
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.11.0
//!        args:
//! -        - --model=deepseek-ai/DeepSeek-R1-Distill-Llama-8B # <-
//! +        - --model=deepseek-ai/DeepSeek-R1-Distill-Llama-8B
//! +        - --max-model-len=16384
//!        resources:
//!          requests: {cpu: 6, memory: 24Gi}
//!          limits: {nvidia.com/gpu: 1, memory: 24Gi}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/configuration/conserving_memory.html#context-length-and-batch-size>
//! - <https://github.com/vllm-project/vllm/issues/2418>

use crate::rules::gpu::server_options_contradict::exceeds_context;
use crate::rules::gpu::{LargestGpu, gigabytes, whole_gpu_containers};
use crate::rules::prelude::*;
use crate::workload::attention::{attention_of, tokens};
use crate::workload::model::{ROUNDED, weights_of};

pub(crate) static RULE: Rule = Rule {
    id: "context-exceeds-gpu-memory",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NAMESPACE, Kind::NODE_POOL], RUNTIMES],
    docs: docs(include_str!("context_exceeds_gpu_memory.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// Options with which the cache is smaller, or is divided in a way that the others do not show.
const ELSEWHERE: [&str; 9] = [
    "rope-scaling",
    "rope-theta",
    "config-format",
    "decode-context-parallel-size",
    "dcp",
    "num-gpu-blocks-override",
    "kv-transfer-config",
    "runner",
    "task",
];

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
    let launch = Launch::of(container).filter(|launch| !launch.has(&ELSEWHERE))?;
    // vLLM alone; nothing where variables may set further options.
    let share = launch.memory_share()?.percent.unsigned_abs();
    let (weights, model) = weights_of(&launch, container)?;
    let (name, _) = launch.model(container)?;
    let attention = attention_of(&name)?;
    let gpus = u64::try_from(launch.gpus_of_model(container)?).ok()?;
    // With more GPUs than heads some of these are held twice.
    if gpus < 1 || gpus > attention.cached_heads || i64::try_from(gpus).ok()? > devices.count {
        return None;
    }
    let (length, node) = match launch.option(&["max-model-len"]) {
        OptionValue::Absent => (attention.context, model),
        OptionValue::Unknown => return None,
        OptionValue::Text(text, node) => (tokens(&text)?, node),
    };
    // vLLM does not get as far as the memory.
    if ctx.is_rule_enabled("server-options-contradict") && exceeds_context(&launch, container).is_some() {
        return None;
    }
    let stated = match launch.option(&["kv-cache-dtype"]) {
        OptionValue::Absent => "auto".to_owned(),
        OptionValue::Unknown => return None,
        OptionValue::Text(text, _) => text,
    };
    let is_small = match stated.as_str() {
        "auto" => has_small_cache(&name),
        text if text.starts_with("fp8") => true,
        _ => return None,
    };
    let token = attention.bytes_of_token() / if is_small { 2 } else { 1 };
    let largest = LargestGpu::of(template, devices.count, ctx).filter(|gpu| gpu.instance.nvidia_gpu > 0)?;
    let each = largest.each;
    let left = (each * gpus * share / 100).checked_sub(weights.megabytes() * (100 - ROUNDED) / 100)?;
    let need = length.checked_mul(token)? / 1_000_000;
    if need <= left {
        return None;
    }
    let message = format!(
        "a request of {length} tokens needs {} GB of KV cache, and the model leaves {} GB of {gpus} x {} GB",
        gigabytes(need),
        gigabytes(left),
        gigabytes(each)
    );
    // The largest power of two that leaves a third for what vLLM needs beside the cache.
    let most = left * 1_000_000 / token * 2 / 3;
    let finding = ctx.report(&node, message);
    match most.checked_ilog2().filter(|power| *power >= 11) {
        Some(power) => finding.help(format!("write `--max-model-len {}`, or use more GPUs", 1u64 << power)),
        None => finding.help("use more GPUs, larger ones or weights of fewer bits"),
    };
    largest.show(object, &devices, finding);
    None
}

/// Whether a checkpoint may ask for a cache of fp8, which `auto` follows: those that NVIDIA makes with its Model Optimizer do.
fn has_small_cache(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    model.starts_with("nvidia/") && ["fp8", "fp4"].iter().any(|word| model.contains(word))
}
