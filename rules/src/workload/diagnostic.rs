//! Workloads that only test a GPU: samples, benchmarks, `nvidia-smi`.

use crate::object::Object;
use crate::workload::class::{WorkloadClass, classify};
use crate::workload::template::templates;

/// What images and commands of such workloads contain.
const SIGNS: [&str; 20] = [
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
