//! The tag of an image is not one that its authors publish.
//!
//! # Why
//! Projects write their tags in one form each: `v0.11.0` for vLLM and SGLang, `0.12.6` for Ollama, `24.12-py3`
//! for Triton. NVIDIA publishes its images of CUDA with all three numbers of the version, and has removed those
//! of the time when it wrote two, such as `11.0-base` and all of CUDA 10. With another form the image
//! cannot be pulled: the pod stays in `ImagePullBackOff`, on a GPU node that was started for it.
//!
//! Images in registries of one's own are left out, as they may have any tag, and so are images that are never
//! pulled.
//!
//! # Fix
//! Write the tag in the form of its project.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat}
//!  spec:
//!    containers:
//!      - name: vllm
//! -      image: vllm/vllm-openai:0.11.0 # <-
//! +      image: vllm/vllm-openai:v0.11.0
//!        args: [--model, Qwen/Qwen3-8B]
//!        resources: {requests: {cpu: 6, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://gitlab.com/nvidia/container-images/cuda/-/blob/master/doc/support-policy.md>
//! - <https://github.com/NVIDIA/nvidia-docker/issues/1735>
//! - <https://hub.docker.com/r/vllm/vllm-openai/tags>
//! - <https://github.com/ollama/ollama/issues/4685>

use crate::facts::text::is_digits;
use crate::lint::finding::Merge;
use crate::rules::prelude::*;
use crate::tree::placeholder::is_stand_in;

pub(crate) static RULE: Rule = Rule {
    id: "image-tag-unpublished",
    kinds: WORKLOAD_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("image_tag_unpublished.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

/// The form of the tags of a repository.
#[derive(Clone, Copy)]
enum Form {
    /// `v0.11.0`
    WithLetter,
    /// `0.12.6`
    WithoutLetter,
    /// `24.12-py3`
    WithVariant,
    /// `12.8.1-base-ubuntu24.04`
    ThreeNumbers,
}

/// Repositories of Docker Hub and of other registries by their whole names, and the form of their tags, as the manifests and issues of
/// their projects write them (November 2026).
const FORMS: [(&str, Form); 9] = [
    ("vllm/vllm-openai", Form::WithLetter),
    ("lmsysorg/sglang", Form::WithLetter),
    ("nvcr.io/nvidia/k8s-device-plugin", Form::WithLetter),
    ("ollama/ollama", Form::WithoutLetter),
    ("ghcr.io/huggingface/text-generation-inference", Form::WithoutLetter),
    ("ghcr.io/huggingface/text-embeddings-inference", Form::WithoutLetter),
    ("nvcr.io/nvidia/tritonserver", Form::WithVariant),
    ("nvcr.io/nvidia/pytorch", Form::WithVariant),
    ("nvidia/cuda", Form::ThreeNumbers),
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        inspect(&container, ctx);
    }
    None
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = container.get("image");
    let text = node.text().filter(|text| !is_stand_in(text, "image"))?;
    // A kustomization writes names and tags of its own.
    let written = ctx.object().as_written().root().at(&node.pointer());
    if written.text() != Some(text) || container.get("imagePullPolicy").text() == Some("Never") {
        return None;
    }
    let image = ImageRef::parse(text);
    let tag = image.tag.filter(|_| image.digest.is_none())?;
    let hosts = ["docker.io/", "index.docker.io/", "registry-1.docker.io/"];
    let name = hosts.iter().find_map(|host| image.name.strip_prefix(host)).unwrap_or(image.name);
    let (_, form) = FORMS.iter().find(|(known, _)| *known == name)?;
    let (form, instead) = match form {
        Form::WithLetter if is_version(tag) => ("begin with `v`", Some(format!("v{tag}"))),
        Form::WithoutLetter => {
            let plain = tag.strip_prefix('v').filter(|plain| is_version(plain))?;
            ("have no `v`", Some(plain.to_owned()))
        }
        Form::WithVariant if is_month(tag) => ("end in a variant", Some(format!("{tag}-py3"))),
        Form::ThreeNumbers if has_two_numbers(tag) => ("have three numbers", None),
        _ => return None,
    };
    let message = format!("image `{name}` has no tag `{}`: its tags {form}", ellipsize(tag));
    // One finding for an image of a file, with its other places.
    let merge = Merge::new(message.clone(), "", |merge| merge.key().to_owned());
    let finding = ctx.report(&node, message).merges(merge);
    match instead {
        Some(tag) => finding.help(format!("write `{tag}`")).fix(
            Fix::unsafe_("write the tag in the form of its project")
                .set(&node, json!(format!("{}:{tag}", image.name))),
        ),
        None => finding.help("write all of the version, such as `12.8.1-base-ubuntu24.04`"),
    };
    None
}

/// Whether a tag is a version alone: `0.11.0`, `0.6.3.post1`, `0.5`.
fn is_version(tag: &str) -> bool {
    let parts: Vec<&str> = tag.split('.').collect();
    let (numbers, last) = match parts.as_slice() {
        [numbers @ .., last] if last.strip_prefix("post").is_some_and(is_digits) => (numbers, None),
        [numbers @ .., last] => (numbers, Some(*last)),
        [] => return false,
    };
    parts.len() > 1 && numbers.iter().all(|part| is_digits(part)) && last.is_none_or(is_digits)
}

/// Whether a tag is a release of the year and month alone: `24.12`.
fn is_month(tag: &str) -> bool {
    tag.split_once('.')
        .is_some_and(|(year, month)| [year, month].iter().all(|part| part.len() == 2 && is_digits(part)))
}

/// Whether the version at the start of a tag has two numbers: `11.0-base`, `12.2-runtime-ubuntu22.04`.
fn has_two_numbers(tag: &str) -> bool {
    let version = tag.split_once('-').map_or(tag, |(version, _)| version);
    version.split_once('.').is_some_and(|(major, minor)| is_digits(major) && is_digits(minor))
}
