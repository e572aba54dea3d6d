//! The entrypoint of a RayJob runs where it has no GPU.
//!
//! # Why
//! Ray runs the entrypoint of a job on the head, unless the job says what it needs there:
//! `entrypointNumCpus`, `entrypointNumGpus` or `entrypointResources`. A script may leave the work to tasks
//! and actors, which Ray places on the GPUs of the workers. `torchrun`, `deepspeed` and `accelerate launch`
//! start their processes beside them, on a head without a GPU: the workers' GPUs are paid for and idle.
//! vLLM and SGLang look for the GPU in their first process, and end there, also where Ray is to run the
//! ranks.
//!
//! A job whose `entrypointNumGpus` no pod of its cluster has is an error: it waits until it is deleted, and
//! the cluster with it.
//!
//! # Fix
//! Give the head a GPU, or write `entrypointNumGpus`, so that Ray starts the entrypoint in a worker with as many.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayJob
//!  metadata: {name: tune}
//!  spec:
//! -  entrypoint: torchrun --nproc_per_node=4 /app/tune.py # <-
//! +  entrypoint: torchrun --nproc_per_node=4 /app/tune.py
//! +  entrypointNumGpus: 4
//!    shutdownAfterJobFinishes: true
//!    rayClusterSpec:
//!      headGroupSpec:
//!        rayStartParams: {}
//!        template:
//!          spec:
//!            containers:
//!              - name: head
//!                image: rayproject/ray:2.46.0
//!                resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi}}
//!      workerGroupSpecs:
//!        - groupName: gpu
//!          replicas: 1
//!          rayStartParams: {}
//!          template:
//!            spec:
//!              containers:
//!                - name: worker
//!                  image: rayproject/ray:2.46.0-gpu
//!                  resources:
//!                    requests: {cpu: 40, memory: 160Gi}
//!                    limits: {memory: 160Gi, nvidia.com/gpu: 4}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/running-applications/job-submission/sdk.html>
//! - <https://github.com/vllm-project/vllm/issues/27318>
//! - <https://github.com/vllm-project/vllm/issues/23967>

use crate::rules::prelude::*;
use crate::workload::command::words_of_line;
use crate::workload::devices::extended_resources_of;
use crate::workload::launcher::{Program, first_program};
use crate::workload::ray::{Extent, gpus_of_group, group_pods};

pub(crate) static RULE: Rule = Rule {
    id: "ray-entrypoint-without-gpu",
    kinds: &[Kind::RAY_JOB],
    docs: docs(include_str!("ray_entrypoint_without_gpu.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let cluster = spec.get("rayClusterSpec");
    let mode = spec.get("submissionMode");
    // In `InteractiveMode` a person submits the job.
    let is_submitted = !mode.is_unknown() && mode.text() != Some("InteractiveMode");
    if object.may_lack_fields()
        || !is_submitted
        || spec.has_unknown_key()
        || !cluster.is_mapping()
        || cluster.has_unknown_key()
        || spec.get("clusterSelector").is_set()
    {
        return None;
    }
    let asked = spec.get("entrypointNumGpus");
    if asked.is_set() {
        return too_few(object, &cluster, &asked, ctx);
    }
    let is_placed = ["entrypointNumCpus", "entrypointResources"].iter().any(|field| spec.get(field).is_set());
    if is_placed { None } else { on_head(object, &cluster, ctx) }
}

/// Reports a job that asks for more GPUs than a pod of its cluster has: Ray reserves them on one node.
fn too_few(object: &Object, cluster: &Node<'_>, asked: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = asked.string_or_number()?;
    let wanted: f64 = text.parse().ok()?;
    let mut most = gpus_of_group(&cluster.get("headGroupSpec"))?;
    for group in cluster.get("workerGroupSpecs").items() {
        let has_pods = group_pods(cluster, &group, Extent::Most) != Some(0);
        most = most.max(if has_pods { gpus_of_group(&group)? } else { 0 });
    }
    if wanted <= most as f64 {
        return None;
    }
    let name = object.display_name();
    let has = if most == 0 { "none has any".to_owned() } else { format!("the largest has {most}") };
    let plural = if wanted > 1.0 { "s" } else { "" };
    let message = format!("the entrypoint of `{name}` waits for a pod with {text} GPU{plural}: {has}");
    ctx.report(asked, message).severity(Severity::Error).help(match most {
        0 => "give the pods of a worker group a GPU, or leave the field out",
        _ => "ask for fewer, or give the pods of a worker group more GPUs",
    });
    None
}

/// Reports a program that works on the GPUs of its own pod, on a head that has none.
fn on_head(object: &Object, cluster: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let entrypoint = object.path(&["spec", "entrypoint"]);
    entrypoint.text()?;
    let words = words_of_line(&entrypoint);
    let program = first_program(&words).filter(|program| match program {
        Program::Server(server) => matches!(server.id, ServerId::Vllm | ServerId::Sglang),
        Program::Worker(..) => false,
        Program::Torchrun | Program::DeepSpeed | Program::Accelerate => true,
    })?;
    let head = cluster.get("headGroupSpec");
    let container = head.path(&["template", "spec", "containers"]).items().next()?;
    let has_none = gpus_of_group(&head) == Some(0)
        && extended_resources_of(&container).is_empty()
        && !container.has_unknown_key();
    // With workers on CPUs alone the program is meant for them.
    let mut groups = cluster.get("workerGroupSpecs").items();
    let is_for_gpus = groups.any(|group| gpus_of_group(&group).is_some_and(|gpus| gpus > 0));
    let chooses = |name: &str| {
        object.path(&["spec", "runtimeEnvYAML"]).raw_text().is_some_and(|text| text.contains(name))
    };
    let on_cpu = ["device", "cpu", "use-cpu"]
        .iter()
        .any(|name| !matches!(option(&words, &[name]), OptionValue::Absent));
    if !has_none || !is_for_gpus || on_cpu || chooses("VLLM_TARGET_DEVICE") {
        return None;
    }
    let message =
        format!("Ray runs {} of `{}` on the head, which has no GPU", program.name(), object.display_name());
    ctx.report(&entrypoint, message)
        .help(match program.server() {
            Some(_) => "give the head a GPU: the first process looks for one there",
            None => "write `entrypointNumGpus` with the GPUs of a worker, so that Ray runs it there",
        })
        .related(object, &container.get("name"), "the head");
    None
}
