//! Workloads that only test a GPU: samples, benchmarks, `nvidia-smi`.

use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::class::{WorkloadClass, classify};
use crate::workload::template::templates;

/// What images and commands of such workloads contain.
const SIGNS: [&str; 21] = [
    "nvidia-smi",
    "vectoradd",
    "vector-add",
    "cuda-sample",
    "cuda-test",
    "nvidia/samples",
    "nccl-test",
    "nccl_test",
    "all_reduce_perf",
    "dcgmproftester",
    "gpu-burn",
    "gpu_burn",
    "devicequery",
    "nbody",
    "bandwidthtest",
    "nvbandwidth",
    "neuron-ls",
    "neuron-top",
    "rocm-smi",
    "hl-smi",
    "rocminfo",
];

/// Whether a workload tests the GPU that it requests and does nothing else.
pub(crate) fn is_test(object: &Object) -> bool {
    let class = classify(object).class;
    if matches!(class, WorkloadClass::Training | WorkloadClass::Realtime | WorkloadClass::Interactive) {
        return false;
    }
    let says = |text: &str| {
        let text = text.to_ascii_lowercase();
        SIGNS.iter().any(|sign| text.contains(sign))
    };
    templates(object).iter().flat_map(|t| t.all_containers()).any(|container| {
        let mut words = ["command", "args"].into_iter().flat_map(|list| container.get(list).items());
        container.get("image").raw_text().is_some_and(says) || words.any(|w| w.raw_text().is_some_and(says))
    })
}

/// Whether a workload does nothing but wait, on a node that somebody else uses or looks at.
pub(crate) fn only_waits(object: &Object) -> bool {
    let templates = templates(object);
    !templates.is_empty() && templates.iter().flat_map(|t| t.all_containers()).all(|c| only_sleeps(&c))
}

/// Whether the command of a container does nothing but wait.
fn only_sleeps(container: &Node<'_>) -> bool {
    let lists = ["command", "args"].into_iter().flat_map(|list| container.get(list).items());
    let mut words = Vec::new();
    for node in lists {
        let Some(text) = node.raw_text() else {
            return false;
        };
        words.extend(
            text.split([' ', ';', '\n', '&', '"', '\'']).filter(|word| !word.is_empty()).map(str::to_owned),
        );
    }
    let waits = |word: &str| matches!(word, "sleep" | "tail");
    let is_idle = |word: &String| {
        waits(word)
            || matches!(
                word.as_str(),
                "sh" | "bash"
                    | "/bin/sh"
                    | "/bin/bash"
                    | "-c"
                    | "-f"
                    | "/dev/null"
                    | "infinity"
                    | "inf"
                    | "while"
                    | "true"
                    | "do"
                    | "done"
                    | ":"
                    | "exec"
                    | "trap"
                    | "exit"
                    | "TERM"
                    | "INT"
                    | "EXIT"
                    | "wait"
            )
            || word.trim_end_matches(['s', 'm', 'h', 'd']).bytes().all(|b| b.is_ascii_digit())
    };
    words.iter().any(|word| waits(word)) && words.iter().all(is_idle)
}
