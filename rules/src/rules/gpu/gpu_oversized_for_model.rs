//! The GPU of a server has several times the memory that its model needs.
//!
//! # Why
//! A model of 7B parameters in bf16 has 15 GB of weights. On a GPU with 80 GB it leaves four fifths to the KV
//! cache, which few loads fill, at ten times the price of a GPU on which the same model runs with room for
//! requests. It is information: a larger GPU also answers faster, and a cache that is really full is a
//! reason for it.
//!
//! # Fix
//! Select a smaller GPU, or give several replicas a share of the large one.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: summarize}
//! spec:
//!   backoffLimit: 2
//!   activeDeadlineSeconds: 7200
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector: {node.kubernetes.io/instance-type: p5.4xlarge}
//!       containers:
//!         - name: vllm
//!           image: vllm/vllm-openai:v0.11.0
//!           args: [--model, mistralai/Mistral-7B-v0.3]
//!           resources:
//!             requests: {cpu: 3, memory: 24Gi}
//!             limits:
//!               memory: 24Gi
//!               nvidia.com/gpu: 1 # <-
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: summarize}
//! spec:
//!   backoffLimit: 2
//!   activeDeadlineSeconds: 7200
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector: {node.kubernetes.io/instance-type: g6.2xlarge}
//!       containers:
//!         - name: vllm
//!           image: vllm/vllm-openai:v0.11.0
//!           args: [--model, mistralai/Mistral-7B-v0.3]
//!           resources:
//!             requests: {cpu: 3, memory: 24Gi}
//!             limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::catalog::{self, Label};
use crate::cluster::placement::requests_of;
use crate::karpenter::scheduling::{SchedulerOptions, allocatable};
use crate::rules::gpu::gpu_sharing_mismatch::{SHARING_SOURCES, counts_shares};
use crate::rules::gpu::{dollars, gigabytes, gpu_templates, label_of_nodes, memory_of, selected_types};
use crate::rules::prelude::*;
use crate::workload::environment::entry;
use crate::workload::mig::{CONFIG_LABEL, divides_gpus};
use crate::workload::model::weights_of;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-oversized-for-model",
    kinds: WORKLOAD_KINDS,
    reads: kinds![
        SHARING_SOURCES,
        [Kind::NAMESPACE, Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::DAEMON_SET, Kind::CLUSTER_POLICY]
    ],
    params: &[Param {
        name: "times",
        description: "how many times the memory for weights and a cache a GPU has at least to be far too large",
        default: ParamDefault::Int { default: 4, min: 2, max: 100 },
    }],
    docs: docs(include_str!("gpu_oversized_for_model.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

/// The memory, in percent of the weights, with which a server answers several requests at a time.
const WITH_CACHE: u64 = 140;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // The overlay may serve another model.
    if object.is_patched_by_kustomize() {
        return None;
    }
    for template in gpu_templates(object, ctx) {
        let mut containers = template.containers().filter(|container| gpus_of(container).is_some());
        if let (Some(container), None) = (containers.next(), containers.next()) {
            inspect(object, &template, &container, ctx);
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let devices = gpus_of(container)?;
    let launch = Launch::of(container)?;
    let (weights, model) = weights_of(&launch, container)?;
    // Several GPUs are for latency, or for more requests at a time.
    if devices.count != 1 || launch.gpus_of_model(container)? != 1 {
        return None;
    }
    // A long context and many sequences are what the memory is for.
    if launch.has(&[
        "max-num-seqs",
        "kv-cache-dtype",
        "num-gpu-blocks-override",
        "max-total-tokens",
        "data-parallel-size",
    ]) {
        return None;
    }
    let needed = weights.megabytes().saturating_mul(WITH_CACHE) / 100;
    let times = u64::try_from(ctx.int("times")).ok()?;
    let (types, pool) = selected_types(template, ctx)?;
    let need = Need::of(template)?;
    let region = ctx.platform().region.as_deref();
    let price = |one: &&'static InstanceType| Some(one.list_price(region)?.micro_dollars);
    let cheapest = |types: &TypeSet, memory: u64| {
        let holds = types.iter().filter(|one| need.is_met(one) && memory_of(one) >= memory);
        holds.filter_map(|one| Some((price(&one)?, one))).min_by_key(|(price, one)| (*price, one.name))
    };
    // What Karpenter starts for the pod, and what would do.
    let (paid, own) = cheapest(&types, 0)?;
    if memory_of(own) < needed.saturating_mul(times) {
        return None;
    }
    let offered = region.and_then(catalog::offered_in).copied().unwrap_or_else(TypeSet::full);
    let (enough, smaller) = cheapest(&offered.offered(), needed)?;
    if enough.saturating_mul(2) > paid || may_have_part(template, container, ctx) {
        return None;
    }
    let message = format!(
        "{} parameters in {} need {} GB, and the GPU of `{}` has {} GB",
        weights.parameters_text(),
        weights.precision.name(),
        gigabytes(weights.megabytes()),
        own.name,
        gigabytes(memory_of(own))
    );
    let finding = ctx.report(&devices.node, message);
    finding
        .help(format!(
            "`{}` with {} GB costs {} dollars an hour, not {}",
            smaller.name,
            gigabytes(memory_of(smaller)),
            dollars(enough),
            dollars(paid)
        ))
        .related(object, &model, "the model");
    if let Some(pool) = pool {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "takes the pods");
    }
    None
}

/// Labels of GPU feature discovery on nodes whose GPUs are divided or shared.
const OF_PARTS: [&str; 5] = [
    "nvidia.com/mig.strategy",
    "nvidia.com/mig.capable",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu.replicas",
    "nvidia.com/device-plugin.config",
];

/// Whether the pod may get a part of a GPU: a MIG device, or a share.
fn may_have_part(template: &Template<'_>, container: &Node<'_>, ctx: &Context<'_>) -> bool {
    let names_device = |name: &str| {
        let value = entry(container, name).map(|entry| entry.get("value"));
        value.is_some_and(|value| value.raw_text().is_some_and(|text| text.contains("MIG")))
    };
    let product = template.spec.path(&["nodeSelector", "nvidia.com/gpu.product"]);
    let selects_part = || {
        let is_part = |text: &str| text.contains("MIG") || text.ends_with("-SHARED");
        product.raw_text().is_some_and(is_part)
            || referenced_labels(template).iter().any(|label| OF_PARTS.contains(&label.key))
    };
    let divides = |object: &Object| {
        let policy = object.path(&["spec", "mig", "strategy"]);
        ctx.pairs_with(object)
            && (policy.is_set() && policy.text() != Some("none")
                || templates(object).iter().flat_map(Template::all_containers).any(|one| divides_gpus(&one)))
    };
    let cluster = ctx.cluster();
    ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"].into_iter().any(names_device)
        || selects_part()
        || label_of_nodes(template, CONFIG_LABEL, ctx).is_some()
        || counts_shares(template, "nvidia.com/gpu", ctx) != Some(false)
        || [Kind::DAEMON_SET, Kind::CLUSTER_POLICY].into_iter().flat_map(|kind| cluster.of(kind)).any(divides)
}

/// What the pod requests beside the memory of its GPU.
struct Need {
    cpu: i128,
    memory: i128,
    amd64: bool,
}

impl Need {
    fn of(template: &Template<'_>) -> Option<Need> {
        let requests = requests_of(template)?;
        let amount = |name: &str| requests.get(name).copied().unwrap_or(0);
        // Images of servers for GPUs are for amd64 unless the pods select another architecture.
        let arm = template.spec.path(&["nodeSelector", "kubernetes.io/arch"]).text() == Some("arm64");
        Some(Need { cpu: amount("cpu"), memory: amount("memory"), amd64: !arm })
    }

    fn is_met(&self, one: &'static InstanceType) -> bool {
        let node = allocatable(one, None, &SchedulerOptions::default());
        // GPUs before Ampere have no bfloat16, in which most models are published.
        let old = ["t4", "t4g", "v100", "m60", "k80"];
        let is_old = matches!(one.label("karpenter.k8s.aws/instance-gpu-name"), Label::Is(name) if old.contains(&name));
        one.nvidia_gpu >= 1
            && !is_old
            && self.cpu <= node.cpu
            && self.memory <= node.memory
            && (one.arch == "amd64" || !self.amd64)
    }
}
