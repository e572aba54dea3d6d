//! A server, its image or its data type does not run on the generation of the GPUs.
//!
//! # Why
//! vLLM ends at start with `Bfloat16 is only supported on GPUs with compute capability of at least 8.0` on a
//! T4 (g4dn), a T4G (g5g) or a V100 (p3), where `--dtype bfloat16` says so, and before 0.8.5 also by default
//! with models that are published in bfloat16, such as Llama 3, Qwen 2 and 3 and Mistral 7B.
//! Each image of Text Embeddings Inference is built for one generation, and ends with `Runtime compute cap 75
//! is not compatible with compile time compute cap 80` on another: a tag without a prefix is for A100, A10G
//! and L4, `turing-` for T4, `86-` for A10G and L4, `89-` for L4 and L40S, `hopper-` for H100. The container
//! restarts again and again on a node that costs money.
//!
//! The GPUs are those of the instance types on which the pod can run. Where only some of them are too old or
//! too new, it is advice: Karpenter starts the cheapest, which is often the oldest.
//!
//! # Fix
//! Write `--dtype half`, take the image for the GPU, or choose another GPU.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: small, labels: {app: small}}
//!  spec:
//!    nodeSelector: {node.kubernetes.io/instance-type: g4dn.xlarge}
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.11.0
//!        args:
//!          - --model=Qwen/Qwen2.5-1.5B-Instruct
//! -        - --dtype=bfloat16 # <-
//! +        - --dtype=half
//!        resources:
//!          requests: {cpu: 3, memory: 12Gi}
//!          limits: {nvidia.com/gpu: 1, memory: 12Gi}
//! ```
//!
//! # References
//! - <https://github.com/vllm-project/vllm/issues/1157>
//! - <https://github.com/vllm-project/vllm/pull/17265>
//! - <https://huggingface.co/docs/text-embeddings-inference/supported_models>
//! - <https://github.com/huggingface/text-embeddings-inference/issues/268>

use crate::catalog::{InstanceType, Label};
use crate::rules::gpu::{gpu_templates, selected_types};
use crate::rules::prelude::*;
use crate::workload::command::OptionValue;
use crate::workload::devices::devices_of;
use crate::workload::launcher::Launch;
use crate::workload::server::{Server, is_server, server_of, tag_of};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-generation-unsupported",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("gpu_generation_unsupported.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// NVIDIA's compute capabilities by the names of GPUs in the catalogue, from NVIDIA's list, times ten.
const CAPABILITIES: [(&str, u32); 14] = [
    ("k80", 37),
    ("m60", 52),
    ("v100", 70),
    ("t4", 75),
    ("t4g", 75),
    ("a100", 80),
    ("a10g", 86),
    ("l4", 89),
    ("l40s", 89),
    ("h100", 90),
    ("h200", 90),
    ("b200", 100),
    ("b300", 103),
    ("rtx-pro-server-6000", 120),
];

/// Prefixes of the tags of TEI, with the capabilities on which such an image starts (`compute_cap.rs`, README).
const TEI: [(&str, u32, u32); 4] =
    [("turing-", 75, 75), ("86-", 86, 89), ("89-", 89, 89), ("hopper-", 90, 90)];

/// Beginnings of the names of models that are published in bfloat16.
const BFLOAT16: [&str; 6] = [
    "meta-llama/llama-3",
    "meta-llama/meta-llama-3",
    "qwen/qwen2",
    "qwen/qwen3",
    "mistralai/mistral-7b-",
    "microsoft/phi-3",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object) {
        for container in template.containers() {
            inspect(&template, &container, ctx);
        }
    }
    None
}

/// The capabilities on which a container starts, and what says so.
struct Need<'a> {
    from: u32,
    to: u32,
    node: Node<'a>,
    what: String,
    help: &'static str,
}

fn need<'a>(container: &Node<'a>) -> Option<Need<'a>> {
    let server: &Server = server_of(container)?;
    if server.name == "TEI" {
        let node = container.get("image");
        let tag = tag_of(node.text()?).filter(|_| server.is_in_image_of(container))?;
        let known = TEI.iter().find(|(prefix, _, _)| tag.starts_with(prefix));
        let (from, to) = match known {
            Some((_, from, to)) => (*from, *to),
            // A version, or `latest`; other prefixes are for CPUs or for several generations.
            None if tag == "latest" || tag.contains('.') && tag.split('.').next()?.parse::<u32>().is_ok() => {
                (80, 89)
            }
            None => return None,
        };
        let what = format!("the image of TEI with tag `{}`", ellipsize(tag));
        let help = "take the image for the GPU: its tag begins with `turing-`, `86-`, `89-` or `hopper-`";
        return Some(Need { from, to, node, what, help });
    }
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    if !is_server(container, "vLLM") || launch.has(&["device"]) {
        return None;
    }
    let help = "start it with `--dtype half`, or choose a GPU of another generation";
    match launch.option(&["dtype"]) {
        OptionValue::Text(dtype, node) if dtype == "bfloat16" => {
            Some(Need { from: 80, to: u32::MAX, node, what: "vLLM with bfloat16".to_owned(), help })
        }
        OptionValue::Absent if is_before_fallback(container) && !launch.has(&["quantization", "q"]) => {
            let (model, node) = launch.model(container)?;
            let model = model.to_ascii_lowercase();
            let is_other = ["awq", "gptq", "int4", "int8", "w4a16", "bnb", "fp8", "gguf"]
                .iter()
                .any(|word| model.contains(word));
            let is_half = BFLOAT16.iter().any(|begin| model.starts_with(begin)) && !is_other;
            let what = "this vLLM with a model in bfloat16".to_owned();
            is_half.then_some(Need { from: 80, to: u32::MAX, node, what, help })
        }
        _ => None,
    }
}

/// Whether an image of vLLM is older than the release that falls back to float16.
fn is_before_fallback(container: &Node<'_>) -> bool {
    let image = container.get("image");
    let Some(tag) = image.text().filter(|image| image.contains("vllm/vllm-openai:")).and_then(tag_of) else {
        return false;
    };
    let mut numbers = tag.trim_start_matches('v').split('.').map_while(|part| part.parse::<u32>().ok());
    matches!(
        (numbers.next(), numbers.next(), numbers.next()),
        (Some(0), Some(0..8), _) | (Some(0), Some(8), Some(0..5))
    )
}

fn gpu_name(one: &InstanceType) -> Option<&str> {
    match one.label("karpenter.k8s.aws/instance-gpu-name") {
        Label::Is(name) => Some(name),
        _ => None,
    }
}

fn capability(one: &InstanceType) -> Option<u32> {
    let name = gpu_name(one)?;
    CAPABILITIES.iter().find(|(known, _)| *known == name).map(|(_, capability)| *capability)
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let devices = devices_of(container, "nvidia.com/gpu")?;
    let need = need(container)?;
    let (types, pool) = selected_types(template, ctx)?;
    let mut wrong: Option<(&InstanceType, u32)> = None;
    let mut some_fit = false;
    for one in types.iter().filter(|one| i64::from(one.nvidia_gpu) >= devices.count) {
        let known = capability(one)?;
        if (need.from..=need.to).contains(&known) {
            some_fit = true;
        } else if wrong.is_none() {
            wrong = Some((one, known));
        }
    }
    let (one, capability) = wrong?;
    let gpu = gpu_name(one)?.to_ascii_uppercase();
    let version = format!("{}.{}", capability / 10, capability % 10);
    let message = format!(
        "{} does not start on the {gpu} of `{}`, whose compute capability is {version}",
        need.what, one.name
    );
    let finding = ctx.report(&need.node, message);
    finding.help(need.help);
    if some_fit {
        finding.severity(Severity::Info);
    }
    if let Some(pool) = pool {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "may start such nodes for the pods");
    }
    None
}
