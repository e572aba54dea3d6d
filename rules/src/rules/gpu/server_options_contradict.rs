//! The options of a model server contradict each other, so that it does not start.
//!
//! # Why
//! A server checks its command line before it loads the model, and ends with an error that only its log
//! has: the container restarts again and again on a node that costs money. vLLM requires
//! `--tool-call-parser` with `--enable-auto-tool-choice`, and one API server with
//! `VLLM_ALLOW_RUNTIME_LORA_UPDATING`. Until 0.19 it ends with `--enable-sleep-mode` where PyTorch is to
//! use `expandable_segments`. TGI requires `max-input-tokens` to be less than `max-total-tokens`, which is
//! the length of the question and the answer together; both may be variables. vLLM and SGLang give each GPU
//! as many attention heads of a model, and heads of its KV cache: Qwen2.5-7B has 28, which 8 does not
//! divide, and Phi-4 has 10 in its cache, which 4 does not. Neither takes requests that are longer than the
//! positions of the model's configuration, 40960 tokens for Qwen3-8B, unless a variable allows it. With
//! `HF_HUB_OFFLINE` a model that is named as on Hugging Face has to be in a volume. Images of vLLM, TGI,
//! TEI and Ollama start their program by themselves: where `args` begin with the program or with a shell
//! and `command` is not set, these words are its arguments. Those of Triton, SGLang, PyTorch and CUDA start
//! none: where `args` begin with an option, that is run as the program, and without `args` and `command`
//! the container ends at once. Of AWS's Deep Learning Containers those for SageMaker read variables alone:
//! vLLM starts there with its default model. Triton takes `--load-model` together with
//! `--model-control-mode=explicit`: without it, it loads all models up to 24.05, and ends with an error
//! from 24.06 on. Flags of vLLM and SGLang take no value: after `--enforce-eager true` vLLM ends because of
//! an argument that it does not know, or takes `true` for the name of the model.
//!
//! # Fix
//! Write the missing option, correct the limits, move the program to `command`, begin `args` with it where the
//! image starts none, or write a flag alone: `false` is the flag's absence, or `--no-` before its name with vLLM.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.11.0
//!        resources: {requests: {cpu: 6, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 1}}
//!        args:
//!          - --model=Qwen/Qwen3-8B
//! -        - --enable-auto-tool-choice # <-
//! +        - --enable-auto-tool-choice
//! +        - --tool-call-parser=hermes
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/features/tool_calling.html>
//! - <https://huggingface.co/docs/text-generation-inference/reference/launcher>
//! - <https://aws.github.io/deep-learning-containers/vllm/configuration/>
//! - <https://github.com/triton-inference-server/server/pull/7259>
//! - <https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/>

use super::model_token_missing::{DOWNLOADERS, if_empty};
use crate::facts::text::first_line;
use crate::platform::Release;
use crate::rules::prelude::*;
use crate::workload::attention::{context_of, heads_of, heads_of_folder, tokens};
use crate::workload::command::{Word, base_name};
use crate::workload::environment::{may_define, variable};
use crate::workload::model::owner_and_name;
use crate::workload::server::release::published;
use crate::workload::server::{ignores_arguments, is_server, may_be_rebuilt};
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "server-options-contradict",
    kinds: WORKLOAD_KINDS,
    reads: kinds![
        [Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME, Kind::STORAGE_CLASS],
        WORKLOAD_KINDS,
        RUNTIMES
    ],
    docs: docs(include_str!("server_options_contradict.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Images whose entrypoint is a program, and the beginnings of command lines that repeat it (their Dockerfiles).
const ENTRYPOINTS: [(&str, &[&str]); 4] = [
    ("vllm/vllm-openai", &["vllm", "serve", "python3", "python"]),
    ("huggingface/text-generation-inference", &["text-generation-launcher"]),
    ("huggingface/text-embeddings-inference", &["text-embeddings-router"]),
    ("ollama/ollama", &["ollama"]),
];
const SHELLS: [&str; 2] = ["sh", "bash"];

/// Images that start no program: their entrypoint, if any, runs the arguments (`nvidia_entrypoint.sh` of NVIDIA's images, on which
/// SGLang's is built). With the program that people mean, if it is one.
const WITHOUT_PROGRAM: [(&str, &str); 7] = [
    ("nvidia/tritonserver", "tritonserver"),
    ("nvidia/tensorrt-llm/release", "trtllm-serve"),
    ("lmsysorg/sglang", "python3 -m sglang.launch_server"),
    ("nvidia/pytorch", ""),
    ("nvidia/cuda", ""),
    ("pytorch/pytorch", ""),
    ("rocm/pytorch", ""),
];

/// The limits of TGI: the length of a question, under both of its names, and that of question and answer.
const INPUT: [&str; 2] = ["max-input-tokens", "max-input-length"];
const TOTAL: [&str; 1] = ["max-total-tokens"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    // A runtime of KServe that is not in the input may have further options.
    let is_whole = |container: &Node<'_>| !container.has_unknown_key() && !is_model_of_runtime(container);
    for container in template.containers().filter(is_whole) {
        if repeated(&container, ctx).is_some() || no_program(&container, ctx).is_some() {
            continue;
        }
        let launch = Launch::of(&container);
        if let Some(launch) = &launch {
            flags_with_values(launch, ctx);
        }
        let launch = launch.filter(|launch| !launch.may_have_more_options());
        if let Some(launch) = &launch {
            tools(launch, &container, ctx);
            adapters(launch, &container, ctx);
            sleeping(launch, &container, ctx);
            limits(launch, &container, ctx);
            heads(launch, &container, ctx);
            context(launch, &container, ctx);
            chosen_models(launch, &container, ctx);
        }
        offline(template, &container, launch.as_ref(), ctx);
        unread(&container, ctx);
    }
    None
}

/// Reports arguments that begin with the program that the image starts. `Some` where it does.
fn repeated(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let image = container.get("image");
    let path =
        image.text().filter(|image| !may_be_rebuilt(image)).map(|image| ImageRef::parse(image).repository)?;
    let (_, programs) = ENTRYPOINTS.iter().find(|(name, _)| *name == path)?;
    if container.get("command").is_set() {
        return None;
    }
    let words = words(container);
    let first = words.first().filter(|word| word.known)?;
    let name = base_name(&first.text);
    // `ollama serve` is written as `serve`.
    if !programs.contains(&name) && !SHELLS.contains(&name) {
        return None;
    }
    let program = if path == "vllm/vllm-openai" { "vLLM" } else { programs[0] };
    let message = format!(
        "`{}` is an argument of {program}, which the image starts, and not a program",
        ellipsize(&first.text)
    );
    let help = if SHELLS.contains(&name) || name.starts_with("python") {
        "move the program to `command`"
    } else {
        "write the options of the server alone, or move the program to `command`"
    };
    ctx.report(&first.node, message).help(help);
    Some(())
}

/// Reports an image that starts no program by itself, and gets none. `Some` where it does.
fn no_program(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let image = container.get("image");
    let path =
        image.text().filter(|image| !may_be_rebuilt(image)).map(|image| ImageRef::parse(image).repository)?;
    let (_, program) = WITHOUT_PROGRAM.iter().find(|(name, _)| *name == path)?;
    // The operators of these write the command.
    let object = ctx.object();
    let is_completed = matches!(object.group(), "ray.io" | "trainer.kubeflow.org" | "argoproj.io")
        || object.kind().starts_with("LLMInferenceService");
    let (command, args) = (container.get("command"), container.get("args"));
    if is_completed || command.is_set() || args.is_unknown() {
        return None;
    }
    if let Some(first) = args.items().next() {
        let text = first.text().filter(|text| text.starts_with('-'))?;
        let message = format!(
            "the image starts no program: `{}` is run as one, and does not exist",
            first_line(text, 40)
        );
        ctx.report(&first, message).help(match *program {
            "" => "begin `args` with the program, or write it as `command`".to_owned(),
            program => format!("begin `args` with the program: `{program}`"),
        });
        return Some(());
    }
    // With a terminal the shell of the image waits.
    let waits = ["stdin", "tty"].iter().any(|field| container.get(field).is_set());
    let is_plain = matches!(object.group(), "" | "apps");
    if program.is_empty() || waits || args.is_set() || !is_plain || !runs_forever(object) {
        return None;
    }
    ctx.report(&image, "the image starts no program by itself: the container ends at once".to_owned())
        .help(format!("write `command`, such as `{program}` with its options"));
    Some(())
}

/// Reports arguments for an image whose entrypoint reads none.
fn unread(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let first = container.get("args").items().next().filter(|_| ignores_arguments(container))?;
    let image = container.get("image");
    let object = ctx.object();
    ctx.report(&first, "the image is one for SageMaker, whose entrypoint reads no arguments".to_owned())
        .help("take the tag with `-ec2`, or write the options as variables such as `SM_VLLM_MODEL`")
        .related(object, &image, "the image");
    None
}

/// Triton: `src/command_line_parser.cc` (pull request 7259 of triton-inference-server/server, in 24.06).
fn chosen_models(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !is_server(container, ServerId::Triton) {
        return None;
    }
    let OptionValue::Text(_, node) = launch.option(&["load-model"]) else { return None };
    match launch.option(&["model-control-mode"]) {
        OptionValue::Text(mode, _) if mode.eq_ignore_ascii_case("explicit") => return None,
        OptionValue::Unknown => return None,
        _ => {}
    }
    let release = image_of(container).filter(|image| image.is("nvidia/tritonserver"));
    let outcome = match release.and_then(|image| image.version()) {
        Some(release) if release >= Version::new(24, 6) => "does not start with",
        Some(_) => "loads all models in spite of",
        None => "does not take",
    };
    let message = format!("Triton {outcome} `--load-model` without `--model-control-mode=explicit`");
    ctx.report(&node, message).help("write `--model-control-mode=explicit` as well");
    None
}

/// Flags without a value: those of vLLM are `store_true` or `BooleanOptionalAction` of argparse (`arg_utils.py` and `cli_args.py`, 0.4
/// to 0.33), those of SGLang `store_true` (`server_args.py`, 0.4 to 0.5). vLLM took a value for `--enable-chunked-prefill` until 0.8.
const FLAGS: [(ServerId, &[&str]); 2] = [
    (
        ServerId::Vllm,
        &[
            "disable-custom-all-reduce",
            "disable-log-requests",
            "disable-log-stats",
            "enable-auto-tool-choice",
            "enable-expert-parallel",
            "enable-lora",
            "enable-prefix-caching",
            "enable-sleep-mode",
            "enforce-eager",
            "skip-tokenizer-init",
            "trust-remote-code",
        ],
    ),
    (
        ServerId::Sglang,
        &[
            "disable-cuda-graph",
            "disable-custom-all-reduce",
            "disable-overlap-schedule",
            "disable-radix-cache",
            "enable-dp-attention",
            "enable-metrics",
            "enable-mixed-chunk",
            "enable-torch-compile",
            "skip-tokenizer-init",
            "trust-remote-code",
        ],
    ),
];

/// Reports flags with a value.
fn flags_with_values(launch: &Launch<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const VALUES: [&str; 2] = ["true", "false"];
    let (id, flags) = FLAGS.iter().find(|(id, _)| launch.program.is(*id))?;
    let words = launch.words();
    for (at, word) in words.iter().enumerate() {
        let Some(text) = word.text.strip_prefix("--") else { continue };
        let (name, value, holder) = match text.split_once('=') {
            Some((name, value)) => (name, value, word),
            None => match words.get(at + 1) {
                Some(next) => (text, next.text.as_str(), next),
                None => continue,
            },
        };
        let is_value = VALUES.iter().any(|known| value.eq_ignore_ascii_case(known));
        if !is_value || !flags.contains(&name.replace('_', "-").as_str()) {
            continue;
        }
        let help = match (value.eq_ignore_ascii_case("true"), id) {
            (true, _) => format!("write `--{name}` alone"),
            (false, ServerId::Vllm) if !name.starts_with("disable") => {
                format!("write `--no-{name}`, or leave the flag out")
            }
            (false, _) => "leave the flag out".to_owned(),
        };
        let server = launch.program.name();
        ctx.report(
            &holder.node,
            format!("{server} does not start with `{value}` after `--{name}`, which is a flag"),
        )
        .identified_by(name)
        .help(help);
    }
    Some(())
}

/// vLLM: `validate_parsed_serve_args` in `cli_args.py`.
fn tools(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !is_server(container, ServerId::Vllm) || launch.has(&["tool-call-parser"]) {
        return None;
    }
    let is_flag = |word: &Word<'_>| word.text.replace('_', "-") == "--enable-auto-tool-choice";
    let words = words(container);
    let at = words.iter().position(is_flag)?;
    // A variable behind the flag may hold further options.
    if words.get(at + 1).is_some_and(|next| !next.known) {
        return None;
    }
    let node = words[at].node.clone();
    ctx.report(
        &node,
        "vLLM does not start with `--enable-auto-tool-choice` and without `--tool-call-parser`",
    )
    .help("name the parser of the model, such as `--tool-call-parser hermes`");
    None
}

/// vLLM: `run_multi_api_server` in `cli/serve.py` (0.10 to 0.13), because one process does not tell the others of an adapter.
fn adapters(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const UPDATING: &str = "VLLM_ALLOW_RUNTIME_LORA_UPDATING";
    if !is_server(container, ServerId::Vllm) {
        return None;
    }
    let count = launch.option(&["api-server-count", "asc"]);
    let (number, node) = (count.int_or(1).filter(|number| *number > 1)?, count.node()?);
    let (value, _) = variable(container, UPDATING).flatten()?;
    if value != "1" && !value.eq_ignore_ascii_case("true") {
        return None;
    }
    ctx.report(&node, format!("vLLM does not start with {number} API servers and `{UPDATING}`"))
        .help("run one API server, or load the adapters with `--lora-modules`");
    None
}

/// The first release of vLLM with sleep mode (pull request 11743), and one without the assertion in `CuMemAllocator` (40812).
const ASSERTING: std::ops::Range<Release> = [0, 7, 0]..[0, 20, 0];

/// vLLM: `CuMemAllocator` in `device_allocator/cumem.py`, which reads this variable alone.
fn sleeping(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const SETTINGS: &str = "PYTORCH_CUDA_ALLOC_CONF";
    const WORD: &str = "expandable_segments:True";
    published(container)
        .filter(|_| is_server(container, ServerId::Vllm))
        .filter(|(_, release)| ASSERTING.contains(release))?;
    let option = launch.word_of("enable-sleep-mode")?.node.clone();
    let (value, node) = variable(container, SETTINGS).flatten()?;
    if !value.contains(WORD) {
        return None;
    }
    let object = ctx.object();
    ctx.report(&node, format!("vLLM does not start with `{WORD}` and `--enable-sleep-mode`"))
        .help("remove one of them, or take vLLM 0.20 or later")
        .related(object, &option, "sleep mode");
    None
}

/// TGI: `main` of its launcher.
fn limits(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !is_server(container, ServerId::Tgi) {
        return None;
    }
    let (total, _) = number(launch, container, &TOTAL)?;
    let (input, node) = INPUT.iter().find_map(|name| number(launch, container, &[name]))?;
    if input < total {
        return None;
    }
    let message =
        format!("TGI does not start: `max-input-tokens` {input} is not less than `max-total-tokens` {total}");
    ctx.report(&node, message)
        .help("raise `max-total-tokens`: it is the length of the question and the answer together");
    None
}

fn number<'a>(launch: &Launch<'a>, container: &Node<'a>, names: &[&str]) -> Option<(i64, Node<'a>)> {
    match launch.setting(container, names) {
        OptionValue::Text(text, node) => Some((text.parse().ok()?, node)),
        _ => None,
    }
}

/// vLLM: `verify_with_parallel_config` for the heads, and an assertion of its models for those of the KV cache, which are copied where
/// they are fewer than the GPUs. SGLang divides both without a remainder as well.
fn heads(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ![ServerId::Vllm, ServerId::Sglang].iter().any(|id| is_server(container, *id)) {
        return None;
    }
    let server = launch.program.server()?;
    let tensor = launch.option(server.parallelism.as_ref()?.tensor);
    let (size, node) = (u64::try_from(tensor.int_or(1)?).ok()?, tensor.node()?);
    let (model, _) = launch.model(container)?;
    let (heads, cached) = heads_of(&model).or_else(|| heads_of_folder(&model))?;
    let divides = |size: u64| {
        heads.is_multiple_of(size) && (cached.is_multiple_of(size) || size.is_multiple_of(cached))
    };
    if size < 2 || divides(size) || launch.has(&["enable-dp-attention", "hf-overrides"]) {
        return None;
    }
    let divided = match heads % size {
        0 => format!("{cached} key-value heads"),
        _ => format!("{heads} attention heads"),
    };
    let (name, model) = (server.name, ellipsize(&model));
    let message = format!("{name} does not start: {size} does not divide the {divided} of `{model}`");
    let fitting = (1..size).rev().find(|one| divides(*one) && one.is_power_of_two())?;
    ctx.report(&node, message).help(format!("spread the model over {fitting} GPUs"));
    None
}

/// Servers with the option for the tokens of a request, and the variable with which they only warn of too many.
const LENGTHS: [(ServerId, &str, &str); 2] = [
    (ServerId::Vllm, "max-model-len", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
    (ServerId::Sglang, "context-length", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"),
];
/// Options that change the configuration of a model, or say that it is read from elsewhere.
const RECONFIGURED: [&str; 7] = [
    "hf-overrides",
    "hf-config-path",
    "rope-scaling",
    "rope-theta",
    "config-format",
    "json-model-override-args",
    "revision",
];

/// More tokens than a model has positions for.
pub(super) struct TooLong<'a> {
    length: u64,
    most: u64,
    node: Node<'a>,
    model: String,
    option: &'static str,
    variable: &'static str,
}

/// What is wrong with the length of requests: vLLM (`_get_and_verify_max_len`) and SGLang (`ModelConfig`, since 0.3.5) raise an error
/// where it is more than the model's.
pub(super) fn exceeds_context<'a>(launch: &Launch<'a>, container: &Node<'a>) -> Option<TooLong<'a>> {
    let (_, option, variable) = LENGTHS.into_iter().find(|(id, ..)| launch.program.is(*id))?;
    let OptionValue::Text(text, node) = launch.option(&[option]) else { return None };
    let (model, _) = launch.model(container)?;
    let (length, most) = (tokens(&text)?, context_of(&model)?);
    // A script may export the variable.
    let is_allowed =
        may_define(container, |name| name == variable) || command_line(container).contains(variable);
    let is_wrong = length > most && !is_allowed && !launch.has(&RECONFIGURED);
    is_wrong.then_some(TooLong { length, most, node, model, option, variable })
}

fn context(launch: &Launch<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let found = exceeds_context(launch, container)?;
    let TooLong { length, most, node, model, option, variable } = &found;
    let name = launch.program.name();
    let message =
        format!("{name} does not start: {length} tokens are more than the {most} of `{}`", ellipsize(model));
    ctx.report(node, message).help(format!("write `--{option} {most}`, or use YaRN and set `{variable}`"));
    None
}

/// The variable of huggingface_hub that forbids it to ask for files, and the values that it reads as yes (`constants.py`).
const OFFLINE: &str = "HF_HUB_OFFLINE";
const YES: [&str; 4] = ["1", "on", "yes", "true"];

/// Reports a server that may not download its model, where no volume can have it.
fn offline(
    template: &Template<'_>,
    container: &Node<'_>,
    launch: Option<&Launch<'_>>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (text, node) = variable(container, OFFLINE).flatten()?;
    let server = server_of(container).filter(|server| DOWNLOADERS.contains(&server.id))?;
    // An image of one's own may have the model in it, and another container may fetch it.
    let may_have_it = !server.is_in_image_of(container)
        || image_text(container).is_some_and(may_be_rebuilt)
        || template.containers().nth(1).is_some();
    if !YES.contains(&text.to_ascii_lowercase().as_str()) || may_have_it {
        return None;
    }
    let launch = launch.filter(|launch| launch.is_first)?;
    let (model, _) = launch.model(container)?;
    if owner_and_name(&model).is_none() || launch.has(&["load-format"]) {
        return None;
    }
    if_empty(server, template, container, ctx).filter(|severity| *severity == Severity::Warning)?;
    let name = server.name;
    ctx.report(&node, format!("{name} may not download `{}`, and no volume has it", ellipsize(&model)))
        .help(format!("leave `{OFFLINE}` out, or mount a volume that has the model"));
    None
}
