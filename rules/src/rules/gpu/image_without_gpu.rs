//! An image is built for CPUs, or for GPUs of another vendor than it is given.
//!
//! # Why
//! Projects publish an image for each kind of processor, and the tag tells them apart: `cpu-1.8` of TEI,
//! `server` beside `server-cuda` of llama.cpp, `-rocm` of Ollama and TGI. KServe's Hugging Face server has
//! no CUDA since 0.15 unless its tag ends in `-gpu`, and TensorFlow's, Immich's and Whisper's images have none
//! unless their tag says `gpu` or `cuda`. Such a program does not see the GPU: it ends with an
//! error about `libcuda.so.1`, or it answers at the speed of the CPU on a node whose GPU is paid for.
//!
//! # Fix
//! Take the image for the GPU, or request no GPU.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: embed}
//!  spec:
//!    containers:
//!      - name: tei
//! -      image: ghcr.io/huggingface/text-embeddings-inference:cpu-1.8 # <-
//! +      image: ghcr.io/huggingface/text-embeddings-inference:1.8
//!        args: [--model-id, BAAI/bge-base-en-v1.5]
//!        readinessProbe: {httpGet: {path: /health, port: 80}}
//!        resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://huggingface.co/docs/text-embeddings-inference/supported_models>
//! - <https://github.com/ggml-org/llama.cpp/blob/master/docs/docker.md>
//! - <https://docs.ollama.com/docker>
//! - <https://github.com/kserve/kserve/issues/4640>

use crate::rules::prelude::*;
use crate::workload::devices::extended_resources_of;
use crate::workload::image::is_in_private_registry;
use crate::workload::mig::is_mig_resource;

pub(crate) static RULE: Rule = Rule {
    id: "image-without-gpu",
    kinds: WORKLOAD_KINDS,
    reads: kinds![WORKLOAD_KINDS, RUNTIMES],
    docs: docs(include_str!("image_without_gpu.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// The processors that an image is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Cpu,
    Amd,
    Nvidia,
}

/// Images that a word of their tag, or of their name, says are built for certain processors; without words every tag is. A word may
/// go on after the sign: `rocm630`. Sources: the pages of the projects on their images, read in November 2026.
const BUILDS: [(&str, &[&str], Build); 21] = [
    ("huggingface/text-embeddings-inference", &["cpu"], Build::Cpu),
    ("huggingface/text-generation-inference", &["cpu"], Build::Cpu),
    ("huggingface/text-generation-inference", &["rocm"], Build::Amd),
    ("lmsysorg/sglang", &["xeon", "cpu"], Build::Cpu),
    ("lmsysorg/sglang", &["rocm"], Build::Amd),
    ("lmsysorg/sglang", &["cu12", "cu13"], Build::Nvidia),
    ("michaelf34/infinity", &["cpu"], Build::Cpu),
    ("michaelf34/infinity", &["amd"], Build::Amd),
    ("ollama/ollama", &["rocm"], Build::Amd),
    ("ggml-org/llama.cpp", &["rocm"], Build::Amd),
    ("ggml-org/llama.cpp", &["cuda"], Build::Nvidia),
    ("vllm-cpu-release-repo", &[], Build::Cpu),
    ("vllm/vllm-openai-cpu", &[], Build::Cpu),
    ("vllm/vllm-openai-rocm", &[], Build::Amd),
    ("rocm/vllm", &[], Build::Amd),
    ("rocm/pytorch", &[], Build::Amd),
    ("nvidia/cuda", &[], Build::Nvidia),
    ("immich-app/immich-machine-learning", &["rocm"], Build::Amd),
    ("immich-app/immich-machine-learning", &["cuda"], Build::Nvidia),
    ("fedirz/faster-whisper-server", &["cpu"], Build::Cpu),
    ("speaches-ai/speaches", &["cpu"], Build::Cpu),
];

/// Images whose tag without a word is the one for CPUs: `v2.3.1` beside `v2.3.1-cuda`, `2.19.0` beside `2.19.0-gpu`. Each with the words of
/// its tags that keep it so, besides numbers and names of releases.
const PLAIN: [(&str, &[&str]); 5] = [
    ("immich-app/immich-machine-learning", &[]),
    ("onerahmet/openai-whisper-asr-webservice", &[]),
    ("tensorflow/tensorflow", &["jupyter"]),
    ("kubeflownotebookswg/jupyter-pytorch-full", &[]),
    ("kubeflownotebookswg/jupyter-tensorflow-full", &[]),
];

/// The first release of KServe with images of its Hugging Face server with and without CUDA (kserve/kserve, issue 4640).
const FIRST_OF_TWO: Version = Version::new(0, 15);

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.containers() {
        inspect(&container, ctx);
    }
    None
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = container.get("image");
    let image = image_of(container)?;
    let (resource, vendor) = vendor_of(container)?;
    let build = build_of(container, &image).filter(|build| *build != vendor)?;
    let what = match build {
        Build::Cpu => "CPUs",
        Build::Amd => "AMD's GPUs",
        Build::Nvidia => "NVIDIA's GPUs",
    };
    let message = format!("the image is built for {what}, and the container gets `{resource}`");
    let help = match (image.last(), vendor) {
        ("huggingfaceserver", Build::Nvidia) => "take the tag that ends in `-gpu`, or request no GPU",
        ("llama.cpp", Build::Nvidia) => "take the tag with `-cuda`, or request no GPU",
        ("text-embeddings-inference", Build::Nvidia) => {
            "take the tag without `cpu-`, for the generation of the GPU, or request no GPU"
        }
        _ => "take the image for that GPU, or request none",
    };
    ctx.report(&node, message).help(help);
    None
}

/// The vendor of the only kind of GPU that a container requests, and the resource.
fn vendor_of<'a>(container: &Node<'a>) -> Option<(&'a str, Build)> {
    let vendor = |name: &&'a str| match *name {
        "nvidia.com/gpu" | "nvidia.com/gpu.shared" => Some((*name, Build::Nvidia)),
        "amd.com/gpu" => Some((*name, Build::Amd)),
        name if is_mig_resource(name) => Some((name, Build::Nvidia)),
        _ => None,
    };
    let resources = extended_resources_of(container);
    let mut found = resources.iter().filter(|name| devices_of(container, name).is_some()).filter_map(vendor);
    let first = found.next()?;
    found.all(|(_, other)| other == first.1).then_some(first)
}

/// The processors that an image is built for. `None` if its tag does not say.
fn build_of(container: &Node<'_>, image: &ImageRef<'_>) -> Option<Build> {
    let tag = image.tag.unwrap_or_default().to_ascii_lowercase();
    let words: Vec<&str> = tag.split(['-', '_', '.']).collect();
    let has = |sign: &&str| words.iter().any(|word| word.starts_with(sign));
    let is_said = |(name, signs, _): &&(&str, &[&str], Build)| {
        image.is(name) && (signs.is_empty() || signs.iter().any(has))
    };
    if let Some((_, _, build)) = BUILDS.iter().find(is_said) {
        return Some(*build);
    }
    // The plain image of these is the one for CPUs, but for a copy of another one.
    if image_text(container).is_some_and(is_in_private_registry) || image.tag.is_none() {
        return None;
    }
    if image.is("kserve/huggingfaceserver") {
        return (image.version()? >= FIRST_OF_TWO && !has(&"gpu")).then_some(Build::Cpu);
    }
    let is_number = |word: &str| word.strip_prefix('b').is_some_and(|rest| rest.parse::<u32>().is_ok());
    if ["ggml-org/llama.cpp", "ggerganov/llama.cpp"].iter().any(|name| image.is(name)) {
        let is_plain = ["server", "full", "light"].contains(words.first()?)
            && words[1..].iter().all(|word| is_number(word));
        return is_plain.then_some(Build::Cpu);
    }
    if let Some((_, kept)) = PLAIN.iter().find(|(name, _)| image.is(name)) {
        let is_release = |word: &str| {
            word == "release" || word == "latest" || word.trim_start_matches('v').parse::<u32>().is_ok()
        };
        return words.iter().all(|word| is_release(word) || kept.contains(word)).then_some(Build::Cpu);
    }
    let is_plain = image.repository == "tensorflow/serving" && image.version().is_some() && words.len() < 4;
    (is_plain && !has(&"gpu") && !has(&"devel")).then_some(Build::Cpu)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Build, build_of};
    use crate::object::Object;
    use crate::workload::image::image_of;

    #[test]
    fn a_tag_says_what_an_image_is_built_for() {
        for (image, expected) in [
            ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.8", Some(Build::Cpu)),
            ("ghcr.io/huggingface/text-embeddings-inference:turing-1.8", None),
            ("ghcr.io/huggingface/text-embeddings-inference:1.8", None),
            ("kserve/huggingfaceserver:v0.15.2", Some(Build::Cpu)),
            ("kserve/huggingfaceserver:v0.15.2-gpu", None),
            ("kserve/huggingfaceserver:v0.14.1", None),
            ("kserve/huggingfaceserver:latest", None),
            ("registry.example.com/kserve/huggingfaceserver:v0.15.2", None),
            ("ghcr.io/ggml-org/llama.cpp:server", Some(Build::Cpu)),
            ("ghcr.io/ggml-org/llama.cpp:server-b6400", Some(Build::Cpu)),
            ("ghcr.io/ggml-org/llama.cpp:server-cuda-b6400", Some(Build::Nvidia)),
            ("ghcr.io/ggml-org/llama.cpp:server-vulkan", None),
            ("ollama/ollama:0.12.3-rocm", Some(Build::Amd)),
            ("ollama/ollama:0.12.3", None),
            ("tensorflow/serving:2.19.0", Some(Build::Cpu)),
            ("tensorflow/serving:2.19.0-gpu", None),
            ("ghcr.io/immich-app/immich-machine-learning:v2.3.1", Some(Build::Cpu)),
            ("ghcr.io/immich-app/immich-machine-learning:release", Some(Build::Cpu)),
            ("ghcr.io/immich-app/immich-machine-learning:v2.3.1-cuda", Some(Build::Nvidia)),
            ("ghcr.io/immich-app/immich-machine-learning:v2.3.1-openvino", None),
            ("onerahmet/openai-whisper-asr-webservice:v1.9.1", Some(Build::Cpu)),
            ("onerahmet/openai-whisper-asr-webservice:v1.9.1-gpu", None),
            ("tensorflow/tensorflow:2.19.0", Some(Build::Cpu)),
            ("tensorflow/tensorflow:2.19.0-jupyter", Some(Build::Cpu)),
            ("tensorflow/tensorflow:2.19.0-gpu-jupyter", None),
            ("tensorflow/tensorflow:devel", None),
            ("registry.example.com/tensorflow/tensorflow:2.19.0", None),
            ("rocm/vllm:latest", Some(Build::Amd)),
            ("lmsysorg/sglang:v0.5.3-rocm630-mi30x", Some(Build::Amd)),
            ("lmsysorg/sglang:v0.5.3-cu126", Some(Build::Nvidia)),
        ] {
            let object = Object::from_json(&json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p"}, "spec": {"containers": [{"image": image}]}}));
            let object = object.expect("an object");
            let container = object.path(&["spec", "containers"]).index(0);
            let found = image_of(&container).and_then(|image| build_of(&container, &image));
            assert_eq!(found, expected, "{image}");
        }
    }
}
