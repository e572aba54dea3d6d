//! llama.cpp computes on the CPU of a node whose GPU it has requested.
//!
//! # Why
//! llama.cpp puts as many layers of a model on the GPU as `--n-gpu-layers` says. Before build b6325 (August 2025)
//! that is none without the option, and with `-1`: the pod becomes ready and answers at the speed of the CPU,
//! while nothing uses the GPU that is paid for. Later builds put all there, or what fits. The server of
//! llama-cpp-python still begins with none.
//!
//! Builds are known from tags such as `server-cuda-b5200`. All images of `ghcr.io/ggerganov`, and those
//! with a commit in their tag such as `server-cuda--b1-6026da5`, are older. Options of a file or of a
//! variable that is not known may say something else, and such containers are left alone.
//!
//! # Fix
//! Write a number that is more than the layers of any model, such as 999, or take a later build.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat}
//!  spec:
//!    terminationGracePeriodSeconds: 120
//!    volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
//!    containers:
//!      - name: server
//! -      image: ghcr.io/ggml-org/llama.cpp:server-cuda-b5200 # <-
//! +      image: ghcr.io/ggml-org/llama.cpp:server-cuda-b5200
//! -      args: [--model=/models/chat-q4_k_m.gguf, --host=0.0.0.0]
//! +      args: [--model=/models/chat-q4_k_m.gguf, --host=0.0.0.0, --n-gpu-layers, "999"]
//!        volumeMounts: [{name: models, mountPath: /models}]
//!        readinessProbe: {httpGet: {path: /health, port: 8080}}
//!        resources: {requests: {cpu: 4, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://github.com/ggml-org/llama.cpp/pull/15434>
//! - <https://llama-cpp-python.readthedocs.io/en/latest/server/#llama_cpp.server.settings.ModelSettings.n_gpu_layers>

use crate::facts::text::is_digits;
use crate::rules::prelude::*;
use crate::workload::command::may_have_more_options;
use crate::workload::environment::variable;
use crate::workload::gpu::has_device;

pub(crate) static RULE: Rule = Rule {
    id: "llama-layers-on-cpu",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("llama_layers_on_cpu.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// The option for the number of layers, and the variable that stands for it (`common/arg.cpp`).
const LAYERS: [&str; 3] = ["n-gpu-layers", "gpu-layers", "ngl"];
const VARIABLE: &str = "LLAMA_ARG_N_GPU_LAYERS";
/// The first build with all layers on the GPU (ggml-org/llama.cpp, pull request 15434).
const FIRST_WITH_ALL: u32 = 6325;

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in
        template.containers().filter(|container| has_device(container) && !container.has_unknown_key())
    {
        match server_of(&container) {
            Some(server) if server.id == ServerId::LlamaCpp => of_llama(&container, ctx),
            _ => of_python(&container, ctx),
        };
    }
    None
}

fn of_llama(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    let image = container.get("image");
    let build = old_build(&image);
    let (node, what) = match layers(launch.option(&LAYERS), container, VARIABLE)? {
        Some((text, node)) if text == "0" => (node, "is set to keep all layers off the GPU".to_owned()),
        Some((text, node)) if text == "-1" => {
            (node, format!("{} takes -1 for no layer on the GPU", build.as_ref()?))
        }
        Some(_) => return None,
        None => (image, format!("{} puts no layer on the GPU without `--n-gpu-layers`", build.as_ref()?)),
    };
    let message = format!("llama.cpp {what}: the CPU computes, and the GPU waits");
    let help = match build {
        Some(_) => format!("write `--n-gpu-layers 999`, or take build b{FIRST_WITH_ALL} or later"),
        None => "write `--n-gpu-layers 999`, or request no GPU".to_owned(),
    };
    ctx.report(&node, message).help(help);
    None
}

/// The server of llama-cpp-python, whose `n_gpu_layers` is 0 by default (`server/settings.py`, 0.2 and 0.3).
fn of_python(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let words = words(container);
    let at = words.iter().position(|word| word.text == "llama_cpp.server")?;
    let is_elsewhere = may_have_more_options(&words[at + 1..])
        || !matches!(option(&words, &["config-file"]), OptionValue::Absent)
        || variable(container, "CONFIG_FILE").is_none_or(|file| file.is_some());
    let found = layers(option(&words, &["n-gpu-layers"]), container, "N_GPU_LAYERS")?;
    let node = match found {
        Some((text, node)) if text == "0" => node,
        None => words[at].node.clone(),
        Some(_) => return None,
    };
    if is_elsewhere {
        return None;
    }
    let message = "llama-cpp-python puts no layer on the GPU without `n_gpu_layers`: the CPU computes, and the GPU waits";
    ctx.report(&node, message).help("write `--n_gpu_layers -1`, which is all of them");
    None
}

/// The number of layers of an option or of a variable, and its place; `Some(None)` without both, `None` if it is unknown.
fn layers<'a>(
    option: OptionValue<'a>,
    container: &Node<'a>,
    name: &str,
) -> Option<Option<(String, Node<'a>)>> {
    match option {
        OptionValue::Text(text, node) => Some(Some((text, node))),
        OptionValue::Unknown => None,
        OptionValue::Absent => Some(variable(container, name)?.map(|(text, node)| (text.into_owned(), node))),
    }
}

/// The build of an image, for messages, if it is older than the first one with all layers on the GPU. The repository moved in February
/// 2025, and tags had commits until 2024 (`docker.yml` of llama.cpp).
fn old_build(image: &Node<'_>) -> Option<String> {
    if let Some(build) = build_of(image) {
        return (build < FIRST_WITH_ALL).then(|| format!("b{build}"));
    }
    let image = ImageRef::parse(image.text()?);
    let of_commit = image.tag.is_some_and(|tag| tag.contains("--b1-"));
    let is_old = of_commit || image.repository.ends_with("ggerganov/llama.cpp");
    is_old.then(|| format!("before b{FIRST_WITH_ALL}"))
}

/// The build that the tag of an image of llama.cpp names: `server-cuda-b5200`.
pub(super) fn build_of(image: &Node<'_>) -> Option<u32> {
    let number = ImageRef::parse(image.text()?).tag?.rsplit('-').next()?.strip_prefix('b')?;
    number.parse().ok().filter(|_| is_digits(number))
}
