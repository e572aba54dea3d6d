//! Pods with several GPUs, or several data loaders, have 64 MiB of shared memory.
//!
//! # Why
//! `/dev/shm` is 64 MiB in a container. NCCL moves data between GPUs through it, the workers of a
//! PyTorch DataLoader hand over their batches in it, and tensor-parallel servers use it between their
//! processes: they fail with `Bus error` or hang at the start. It is a warning for training and for
//! servers that are known to need it; for other pods with several GPUs it is advice. Pods of Ray get
//! the memory from KubeRay. A single GPU counts where the command line starts two processes or more that load
//! data, such as `--num-workers=8`. Servers such as Ollama and llama.cpp, which use all GPUs from one process,
//! are left alone.
//!
//! # Fix
//! Mount an emptyDir with `medium: Memory` at `/dev/shm`. What is written there counts as memory of the
//! pod.
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
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//! -        - name: trainer # <-
//! +        - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=4, train.py, --save-to=s3://runs/bert]
//!            resources:
//!              requests: {cpu: 40, memory: 160Gi}
//!              limits: {nvidia.com/gpu: 4}
//! +          volumeMounts: [{name: shm, mountPath: /dev/shm}]
//! +      volumes: [{name: shm, emptyDir: {medium: Memory}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/deployment/k8s.html>
//! - <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html>
//! - <https://github.com/pytorch/pytorch/issues/16979>
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>

use super::gpu_sharing_mismatch::{SHARING_SOURCES, counts_shares};
use crate::rules::gpu::is_left_alone;
use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name};
use crate::workload::diagnostic::only_sleeps;
use crate::workload::environment::entry;
use crate::workload::server::is_one_process;
use crate::workload::template::is_model_of_runtime;

static READS: [Kind; SHARING_SOURCES.len() + 3 + RUNTIMES.len()] = joined(
    &SHARING_SOURCES,
    &joined::<{ 3 + RUNTIMES.len() }>(&[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NAMESPACE], &RUNTIMES),
);

pub(crate) static RULE: Rule = Rule {
    id: "shared-memory-small",
    kinds: WORKLOAD_KINDS,
    reads: &READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("shared_memory_small.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // KubeRay, and KServe's configuration of an LLMInferenceService, mount shared memory.
    const MOUNTED: [Kind; 4] =
        [Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE, Kind::LLM_INFERENCE_SERVICE];
    let other = MOUNTED.iter().any(|kind| object.is(*kind));
    if other
        || !requests_device_plugin(object)
        || is_left_alone(object, ctx)
        || object.may_lack_fields()
        || is_test(object)
    {
        return None;
    }
    for template in templates(object) {
        let spec = &template.spec;
        if spec.get("hostIPC").bool() == Some(true)
            || spec.has_unknown_key()
            || spec.get("volumes").is_unknown()
        {
            continue;
        }
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
    let mounts = container.get("volumeMounts");
    // The runtime of an InferenceService may mount it.
    if mounts.has_unknown() || container.has_unknown_key() || is_model_of_runtime(container) {
        return None;
    }
    let at_shm = |mount: Node<'_>| {
        mount
            .get("mountPath")
            .text()
            .is_some_and(|path| matches!(path.trim_end_matches('/'), "/dev/shm" | "/dev"))
    };
    if mounts.items().any(at_shm) {
        return None;
    }
    let gpus = gpus_of(container)?.count;
    let trains = ctx.class_of(object).is(WorkloadClass::Training);
    let loaders = loaders(container, trains).filter(|loaders| *loaders > 1);
    if gpus < 2 && loaders.is_none() || is_one_process(container) || only_sleeps(container) {
        return None;
    }
    let launch = Launch::of(container);
    let known =
        launch.is_some_and(|launch| launch.program.server().is_none_or(|server| server.shares_memory));
    let is_known = known || trains || loaders.is_some();
    let severity = if is_known { Severity::Warning } else { Severity::Info };
    // Two shares may be one GPU. Where only some nodes share theirs, a server over several GPUs is on the others.
    match counts_shares(template, "nvidia.com/gpu", ctx).filter(|_| loaders.is_none()) {
        Some(true) => return None,
        None if severity == Severity::Info => return None,
        _ => {}
    }
    let name = container.get("name").text().unwrap_or("main");
    let owner = object.display_name();
    let volumes = template.spec.get("volumes");
    let taken = volumes.items().any(|volume| volume.get("name").text() == Some("shm"));
    let what = match loaders {
        Some(loaders) if gpus < 2 => format!("loads data with {loaders} processes"),
        _ => format!("has {gpus} GPUs"),
    };
    let message = format!("container `{name}` of `{owner}` {what} and 64 MiB of shared memory");
    let finding = ctx.report(container, message);
    finding
        .severity(severity)
        .help("mount an emptyDir with `medium: Memory` at `/dev/shm`; it counts as memory of the pod");
    if !taken && severity == Severity::Warning {
        let fix = Fix::new("mount shared memory; it counts as memory of the pod", Safety::Unsafe);
        finding.fix(
            fix.append(&mounts, json!({"name": "shm", "mountPath": "/dev/shm"}))
                .append(&volumes, json!({"name": "shm", "emptyDir": {"medium": "Memory"}})),
        );
    }
    None
}

/// Options for the number of processes of a PyTorch DataLoader, in scripts of training alone: those of PyTorch's examples, timm,
/// Lightning and Ultralytics.
const LOADERS: [&str; 5] = ["num-workers", "data-workers", "loader-workers", "workers", "j"];
/// That of Hugging Face's Trainer, which means nothing else.
const LOADERS_OF_TRAINER: &str = "dataloader-num-workers";
/// Programs with workers of another kind.
const WITH_OTHER_WORKERS: [&str; 10] =
    ["uvicorn", "gunicorn", "hypercorn", "celery", "dask", "ray", "make", "ninja", "pytest", "parallel"];

/// The number of processes that load data, by the command line of a container. `None` if it does not say.
fn loaders(container: &Node<'_>, trains: bool) -> Option<i64> {
    let all = words(container);
    // The workers are those of Ray, or threads of TensorFlow.
    let is_tensorflow = image_of(container).is_some_and(|image| image.repository.contains("tensorflow"));
    if is_tensorflow || entry(container, "RAY_ADDRESS").is_some() {
        return None;
    }
    // Another command of the line, such as a download, has workers of its own.
    let is_end = |word: &Word<'_>| matches!(word.text.as_str(), ";" | "&&" | "||" | "|" | "&");
    let words = all.split(is_end).next_back()?;
    if words.iter().any(|word| WITH_OTHER_WORKERS.contains(&base_name(&word.text))) {
        return None;
    }
    let at = |at: usize| {
        let (text, next) = (words[at].text.as_str(), words.get(at + 1).map_or("", |next| next.text.as_str()));
        let is_option = text.starts_with('-');
        let (name, value) = text.split_once('=').or(is_option.then_some((text, next)))?;
        // `data.num_workers=8` sets a field of the configuration of Hydra and of Lightning.
        let name = name.trim_start_matches(['-', '+']).rsplit('.').next()?.replace('_', "-");
        let counts = name == LOADERS_OF_TRAINER || trains && LOADERS.contains(&name.as_str());
        value.parse::<i64>().ok().filter(|_| counts && (is_option || name != "j"))
    };
    (0..words.len()).rev().find_map(at)
}
