//! A program uses a different number of GPUs than its container requests.
//!
//! # Why
//! A server with `--tensor-parallel-size 4` on one GPU ends at once; eight processes of torchrun on
//! four GPUs fail at the first collective operation. With fewer than the container requests, the other
//! GPUs are paid for and never used: vLLM without the option uses one. More than there are is an error,
//! fewer a warning.
//!
//! # Fix
//! Write the same number in both. Settings that a variable, a configuration file or an operator may
//! change are left alone.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//!        terminationGracePeriodSeconds: 120
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command:
//!              - torchrun
//! -            - --nproc_per_node=8 # <-
//! +            - --nproc_per_node=4
//!              - train.py
//!              - --save-to=s3://runs/bert
//!            resources:
//!              requests: {cpu: 40, memory: 160Gi}
//!              limits: {nvidia.com/gpu: 4}
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes: [{name: shm, emptyDir: {medium: Memory}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html>
//! - <https://docs.pytorch.org/docs/stable/elastic/run.html>

use crate::rules::gpu::gpu_templates;
use crate::rules::prelude::*;
use crate::workload::devices::{gpus_of, pods_of};
use crate::workload::launcher::Launch;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-process-count",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("gpu_process_count.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

/// Environment variables that select among the GPUs of a container.
const CHOICES: [&str; 4] =
    ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object) {
        for container in template.containers() {
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
    if chooses(container) {
        return None;
    }
    let (used, node) = launch.gpus()?;
    let engine = launch.program.server().is_some();
    let has = devices.count;
    let program = launch.program.name();
    let name = object.display_name();
    if used > has {
        let grouped = engine && is_group(object, template, &launch);
        if grouped {
            return None;
        }
        let node = node?;
        let gpus = if has == 1 { "GPU" } else { "GPUs" };
        let message = format!("{program} in `{name}` needs {used} GPUs, and its container has {has} {gpus}");
        ctx.report(&node, message).help(format!("request {used} GPUs, or use {has}")).related(
            object,
            &devices.node,
            "the GPUs of the container",
        );
    } else if used < has && !launch.may_have_more_options() && !is_group(object, template, &launch) {
        // Without an option only vLLM's default is certain, in its own image.
        if node.is_none() && !launch.is_plain_vllm(container) {
            return None;
        }
        // Kubeflow's operator sets the number of processes for torchrun.
        if !engine && object.group() == "kubeflow.org" {
            return None;
        }
        let option = node.unwrap_or_else(|| devices.node.clone());
        let gpus = if used == 1 { "GPU" } else { "GPUs" };
        ctx.report(
            &option,
            format!("{program} in `{name}` uses {used} {gpus} of the {has} that its container has"),
        )
        .severity(Severity::Warning)
        .help(format!("use {has}, or request {used}: the others stay idle"));
    }
    None
}

/// Whether the environment of a container selects among its GPUs.
fn chooses(container: &Node<'_>) -> bool {
    let mut variables = container.get("env").items();
    let mut words = ["command", "args"].into_iter().flat_map(|list| container.get(list).items());
    variables.any(|v| v.get("name").raw_text().is_some_and(|name| CHOICES.contains(&name)))
        || words.any(|w| w.raw_text().is_some_and(|text| CHOICES.iter().any(|c| text.contains(c))))
}

/// Whether several pods may run one engine together, so that the GPUs of one pod are not all of its GPUs.
pub(super) fn is_group(object: &Object, template: &Template<'_>, launch: &Launch<'_>) -> bool {
    let id = object.id();
    let kind = id.kind.as_str();
    let by_kind = matches!(kind, "RayCluster" | "RayService" | "RayJob" | "LLMInferenceService")
        || kind == "LeaderWorkerSet"
            && object.path(&["spec", "leaderWorkerTemplate", "size"]).int_or(1) != Some(1)
        || kind == "InferenceService" && object.path(&["spec", "predictor", "workerSpec"]).is_set()
        || id.group == "jobset.x-k8s.io" && pods_of(object, template) != Some(1);
    let says_ray = |text: &str| text.contains("ray start") || text.contains("ray://") || text == "ray";
    let mut words = template
        .all_containers()
        .flat_map(|c| ["command", "args"].map(|list| c.get(list)))
        .flat_map(|list| list.items());
    by_kind
        || words.any(|w| w.raw_text().is_some_and(says_ray))
        || launch
            .option(&["distributed-executor-backend"])
            .node()
            .is_some_and(|n| n.raw_text().is_some_and(|text| text.contains("ray")))
}
