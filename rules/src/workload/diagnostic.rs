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

/// Whether the command of a container does nothing but wait: `sleep infinity`, or a script of a shell that says a word and
/// sleeps.
fn only_sleeps(container: &Node<'_>) -> bool {
    let lists = ["command", "args"].into_iter().flat_map(|list| container.get(list).items());
    let words: Option<Vec<String>> = lists.map(|word| word.raw_text().map(str::to_owned)).collect();
    let Some(words) = words else {
        return false;
    };
    let is_shell = |word: &str| matches!(word.rsplit('/').next(), Some("sh" | "bash" | "ash"));
    let script = match words.as_slice() {
        [shell, rest @ ..] if is_shell(shell) => rest.iter().rfind(|word| !word.starts_with('-')),
        _ => None,
    };
    let script = script.cloned().unwrap_or_else(|| words.join(" "));
    let mut waits = false;
    for command in script.split(['&', ';', '|', '\n']) {
        let mut words =
            command.split_whitespace().skip_while(|word| matches!(*word, "do" | "exec" | "while"));
        match words.next() {
            Some("sleep" | "tail") => waits = true,
            None | Some("echo" | "trap" | "wait" | ":" | "true" | "done" | "exit") => {}
            Some(_) => return false,
        }
    }
    waits
}
