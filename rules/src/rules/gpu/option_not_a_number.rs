//! An option that reads one number has a list of them.
//!
//! # Why
//! `vllm bench serve --max-concurrency 1,4,8` looks like a sweep, and is an error: the option reads one
//! whole number. The program prints its usage and ends, before it has sent a request or loaded a model. A
//! container then crash-loops, and a script that repeats the command in a loop, or ignores its failure,
//! runs for weeks without a result.
//!
//! # Fix
//! Write one number, and run the program once for each, as a loop of the shell does.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: measure}
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: vllm/vllm-openai:v0.11.0
//!            command: [vllm, bench, serve, --base-url, "http://chat:8000", --model, example/chat]
//! -          args: [--num-prompts, "64", --max-concurrency, "1,4,8"] # <-
//! +          args: [--num-prompts, "64", --max-concurrency, "8"]
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/cli/bench/serve/>
//! - <https://docs.sglang.ai/references/bench_serving.html>

use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name};

pub(crate) static RULE: Rule = Rule {
    id: "option-not-a-number",
    docs: docs(include_str!("option_not_a_number.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Options that read one number: `arg_utils.py` and `benchmarks/serve.py` of vLLM (commit 009e6d4a), `server_args.py` and `bench_serving.py`
/// of SGLang.
const VLLM: [&str; 15] = [
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "gpu-memory-utilization",
    "max-model-len",
    "max-num-batched-tokens",
    "max-num-seqs",
    "port",
    "seed",
    "max-concurrency",
    "num-prompts",
    "num-warmups",
    "random-input-len",
    "random-output-len",
    "request-rate",
];
const SGLANG: [&str; 14] = [
    "tp",
    "tp-size",
    "tensor-parallel-size",
    "dp-size",
    "context-length",
    "mem-fraction-static",
    "chunked-prefill-size",
    "max-running-requests",
    "port",
    "max-concurrency",
    "num-prompts",
    "random-input-len",
    "random-output-len",
    "request-rate",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        let words = words(&container);
        for command in words.split(|word| word.text == ";") {
            of_command(command, ctx);
        }
    }
    None
}

/// The program of a command with its options that have one number.
fn options_of(command: &[Word<'_>]) -> Option<(&'static str, usize, &'static [&'static str])> {
    command.iter().enumerate().find_map(|(at, word)| {
        let next = command.get(at + 1).map(|word| word.text.as_str());
        match (base_name(&word.text), next) {
            ("vllm", Some("serve")) => Some(("vllm serve", at, &VLLM[..])),
            // `sweep` reads its parameters from files.
            ("vllm", Some("bench")) if command.get(at + 2)?.text != "sweep" => {
                Some(("vllm bench", at, &VLLM[..]))
            }
            ("vllm.entrypoints.openai.api_server", _) => Some(("vLLM", at, &VLLM[..])),
            ("sglang.launch_server", _) => Some(("SGLang", at, &SGLANG[..])),
            ("sglang.bench_serving", _) => Some(("bench_serving", at, &SGLANG[..])),
            _ => None,
        }
    })
}

fn of_command(command: &[Word<'_>], ctx: &mut Context<'_>) -> Option<()> {
    let (program, at, names) = options_of(command)?;
    for name in names {
        let OptionValue::Text(value, node) = option(&command[at..], &[name]) else { continue };
        if is_list(&value) {
            let message =
                format!("`{program}` reads one number in `--{name}`, not `{}`, and ends", ellipsize(&value));
            let object = ctx.object().clone();
            let finding = ctx.report(&node, message);
            finding.identified_by(*name).help("write one number, and run the program once for each");
            // Where the option is in a script.
            let script = node.text().filter(|text| *text != value);
            let at = script.and_then(|text| Some((text.find(&value)?, text.matches(&value).count())));
            if let Some((at, 1)) = at {
                finding.at_part(&object, &node, at..at + value.len());
            }
        }
    }
    None
}

/// Whether a text is numbers with commas between them.
fn is_list(text: &str) -> bool {
    let is_number =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.contains(',') && text.split(',').all(|part| is_number(part.trim()))
}
