//! Pods with several GPUs have 64 MiB of shared memory.
//!
//! # Why
//! `/dev/shm` is 64 MiB in a container. NCCL moves data between GPUs through it, the workers of a
//! PyTorch DataLoader hand over their batches in it, and tensor-parallel servers use it between their
//! processes: they fail with `Bus error` or hang at the start. It is a warning for training and for
//! servers that are known to need it; for other pods with several GPUs it is advice. Pods of Ray get
//! the memory from KubeRay. Single GPUs are left alone, and servers such as Ollama and llama.cpp, which use
//! all GPUs from one process.
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
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>

use super::gpu_sharing_mismatch::{SHARING_SOURCES, counts_shares};
use crate::rules::gpu::is_left_alone;
use crate::rules::prelude::*;
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
    if gpus < 2 || is_one_process(container) {
        return None;
    }
    let launch = Launch::of(container);
    let known =
        launch.is_some_and(|launch| launch.program.server().is_none_or(|server| server.shares_memory));
    let trains = ctx.class_of(object).is(WorkloadClass::Training);
    let severity = if known || trains { Severity::Warning } else { Severity::Info };
    // Two shares may be one GPU. Where only some nodes share theirs, a server over several GPUs is on the others.
    match counts_shares(template, "nvidia.com/gpu", ctx) {
        Some(true) => return None,
        None if severity == Severity::Info => return None,
        _ => {}
    }
    let name = container.get("name").text().unwrap_or("main");
    let owner = object.display_name();
    let volumes = template.spec.get("volumes");
    let taken = volumes.items().any(|volume| volume.get("name").text() == Some("shm"));
    let message = format!("container `{name}` of `{owner}` has {gpus} GPUs and 64 MiB of shared memory");
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
