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

use crate::catalog::{INSTANCE_FAMILY, INSTANCE_TYPE, Label};
use crate::platform::Release;
use crate::rules::gpu::{selected_types, whole_gpu_containers};
use crate::rules::prelude::*;
use crate::workload::server::is_server;
use crate::workload::server::release::published;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-generation-unsupported",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NAMESPACE, Kind::NODE_POOL], RUNTIMES],
    docs: docs(include_str!("gpu_generation_unsupported.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// NVIDIA's compute capabilities by the names of GPUs in the catalogue, from NVIDIA's list, times ten.
const CAPABILITIES: [(&str, u32); 15] = [
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
    ("rtx-pro-4500", 120),
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

/// Options of vLLM with which a model in bfloat16 may have another type.
const RETYPING: [&str; 3] = ["quantization", "q", "hf-overrides"];

/// The first release of vLLM that takes float16 by itself on a GPU without bfloat16.
const FALLS_BACK: Release = [0, 8, 5];

/// Labels whose values name GPUs, or machines with certain ones.
const OF_GPUS: [&str; 3] = [INSTANCE_TYPE, INSTANCE_FAMILY, GPU_NAME];
const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for (template, container) in whole_gpu_containers(object, ctx) {
        inspect(&template, &container, ctx);
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
    if server_of(container)?.id == ServerId::Tei {
        let node = container.get("image");
        let image = node.text()?;
        // A name of one's own, or words behind the version, may stand for a build for other GPUs.
        let image = ImageRef::parse(image);
        let tag = image.tag.filter(|_| image.last() == "text-embeddings-inference")?;
        let known = TEI.iter().find(|(prefix, _, _)| tag.starts_with(prefix));
        let (from, to) = match known {
            Some((_, from, to)) => (*from, *to),
            // A version, or `latest`; other prefixes are for CPUs or for several generations.
            None if tag == "latest" || is_version(tag.trim_end_matches("-grpc")) => (80, 89),
            None => return None,
        };
        let what = format!("the image of TEI with tag `{}`", ellipsize(tag));
        let help = "take the image for the GPU: its tag begins with `turing-`, `86-`, `89-` or `hopper-`";
        return Some(Need { from, to, node, what, help });
    }
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    if !is_server(container, ServerId::Vllm) || launch.has(&["device"]) {
        return None;
    }
    let help = "start it with `--dtype half`, or choose a GPU of another generation";
    match launch.option(&["dtype"]) {
        OptionValue::Text(dtype, node) if dtype == "bfloat16" => {
            Some(Need { from: 80, to: u32::MAX, node, what: "vLLM with bfloat16".to_owned(), help })
        }
        OptionValue::Absent if is_before_fallback(container) && !launch.has(&RETYPING) => {
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

fn is_version(tag: &str) -> bool {
    tag.contains('.') && tag.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether a container has a release of vLLM before [`FALLS_BACK`].
fn is_before_fallback(container: &Node<'_>) -> bool {
    published(container).is_some_and(|(id, release)| id == ServerId::Vllm && release < FALLS_BACK)
}

fn gpu_name(one: &InstanceType) -> Option<&str> {
    match one.label(GPU_NAME) {
        Label::Is(name) => Some(name),
        _ => None,
    }
}

fn capability(one: &InstanceType) -> Option<u32> {
    let name = gpu_name(one)?;
    CAPABILITIES.iter().find(|(known, _)| *known == name).map(|(_, capability)| *capability)
}

/// Whether labels of a template name GPUs, and not only a category or a number of them.
fn names_gpus(template: &Template<'_>) -> bool {
    referenced_labels(template).iter().any(|label| {
        let key = Provider::naming(label.key).catalogue_key(label.key);
        label.usage == LabelUse::Required && OF_GPUS.contains(&&*key)
    })
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let devices = devices_of(container, "nvidia.com/gpu")?;
    let need = need(container)?;
    let (types, pool) = selected_types(template, ctx)?;
    let mut wrong: Option<(&InstanceType, u32)> = None;
    let mut some_fit = false;
    for one in types.iter().filter(|one| i64::from(one.nvidia_gpu) >= devices.count) {
        match capability(one) {
            Some(known) if !(need.from..=need.to).contains(&known) => {
                wrong = wrong.or(Some((one, known)));
            }
            _ => some_fit = true,
        }
    }
    let (one, capability) = wrong?;
    // A pool that is not in the input may leave the GPUs that fit.
    if some_fit && pool.is_none() && !names_gpus(template) {
        return None;
    }
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
