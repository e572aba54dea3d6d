//! A variable for debugging slows down a program on GPUs.
//!
//! # Why
//! CUDA and PyTorch have variables for the search for a bug. With `CUDA_LAUNCH_BLOCKING=1` the processor
//! waits for each kernel of the GPU, with `PYTORCH_NO_CUDA_MEMORY_CACHING=1` each tensor is allocated by the
//! driver, `VLLM_TRACE_FUNCTION=1` writes each call of a function to a file, and
//! `TORCH_DISTRIBUTED_DEBUG=DETAIL` makes the processes of a group compare each operation. All keep working,
//! and take longer, on a node that costs money by the hour. The manual of vLLM asks to remove them once a bug
//! is found.
//!
//! Pods without a controller, and workloads whose name says that they are for debugging or tests, are left
//! alone.
//!
//! # Fix
//! Remove the variable.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            env:
//!              - {name: BATCH, value: "64"}
//! -            - name: CUDA_LAUNCH_BLOCKING
//! -              value: "1" # <-
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/usage/troubleshooting/>
//! - <https://docs.pytorch.org/docs/stable/cuda_environment_variables.html>
//! - <https://docs.pytorch.org/docs/stable/distributed.html>

use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::environment::entry;

pub(crate) static RULE: Rule = Rule {
    id: "debug-variable-left",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("debug_variable_left.rs")),
    check: Check::PodTemplate(check),
    ..Rule::info(Group::Gpu)
};

/// Variables, the values with which they slow a program down, and what it does then (the pages of the manual).
const VARIABLES: [(&str, &str, &str); 4] = [
    ("CUDA_LAUNCH_BLOCKING", "1", "the processor waits for each kernel of the GPU"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "PyTorch keeps no memory of the GPU for the next tensors"),
    ("VLLM_TRACE_FUNCTION", "1", "vLLM writes each call of a function to a file"),
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "PyTorch compares each operation between all processes"),
];
/// Words in the names of workloads that are there for it.
const PURPOSES: [&str; 6] = ["debug", "test", "repro", "bench", "benchmark", "profile"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let name = object.name();
    let is_for_it = name.split(['-', '_', '.']).any(|word| PURPOSES.contains(&word));
    if object.is(Kind::POD) || is_for_it || is_example(object) || is_test(object) {
        return None;
    }
    for container in template.containers().filter(|_| uses_device(template)) {
        for (name, value, effect) in VARIABLES {
            let Some(written) = entry(&container, name).map(|entry| entry.get("value")) else { continue };
            if written.text() == Some(value) {
                ctx.report(&written, format!("`{name}` is for debugging: {effect}"))
                    .identified_by(name)
                    .help("remove it once the bug is found");
            }
        }
    }
    None
}
