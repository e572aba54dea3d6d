//! The launcher of an MPIJob requests GPUs that it cannot use.
//!
//! # Why
//! The launcher of an MPIJob starts the ranks in the workers and runs none itself. The MPI Operator empties
//! `NVIDIA_VISIBLE_DEVICES` and `NVIDIA_DRIVER_CAPABILITIES` in its first container, after the variables of the
//! manifest, so that its processes see no GPU. The GPUs are reserved and paid for all the same, and Karpenter
//! may start a whole node for them.
//!
//! # Fix
//! Leave the GPUs out of the launcher. If it is to run ranks as well, set `runLauncherAsWorker: true` (MPI
//! Operator 0.5 and later).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v2beta1
//!  kind: MPIJob
//!  metadata: {name: recommender, namespace: ranking}
//!  spec:
//!    slotsPerWorker: 1
//!    runPolicy: {cleanPodPolicy: Running, backoffLimit: 2, activeDeadlineSeconds: 86400}
//!    mpiReplicaSpecs:
//!      Launcher:
//!        replicas: 1
//!        template:
//!          metadata:
//!            annotations: {karpenter.sh/do-not-disrupt: "true"}
//!          spec:
//!            terminationGracePeriodSeconds: 120
//!            containers:
//!              - name: launcher
//!                image: registry.example.com/ranking/train:1.9.0
//!                command: [mpirun, -np, "2", python, train.py, --save-to=s3://runs/recommender]
//! -              resources: {requests: {cpu: 2, memory: 4Gi}, limits: {nvidia.com/gpu: 1}} # <-
//! +              resources: {requests: {cpu: 2, memory: 4Gi}}
//!      Worker:
//!        replicas: 2
//!        template:
//!          metadata:
//!            annotations: {karpenter.sh/do-not-disrupt: "true"}
//!          spec:
//!            terminationGracePeriodSeconds: 120
//!            containers:
//!              - name: worker
//!                image: registry.example.com/ranking/train:1.9.0
//!                resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/>
//! - <https://github.com/kubeflow/mpi-operator>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "mpi-launcher-gpu-hidden",
    kinds: &[Kind::MPI_JOB],
    docs: docs(include_str!("mpi_launcher_gpu_hidden.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// What the MPI Operator does (`newLauncherPodTemplate`, read in November 2026); v1 is of the Training Operator.
fn check(job: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = job.get("spec");
    let as_worker = spec.get("runLauncherAsWorker");
    if job.version() != "v2beta1"
        || job.is_partial()
        || as_worker.is_unknown()
        || as_worker.bool() == Some(true)
    {
        return None;
    }
    let groups = spec.get("mpiReplicaSpecs");
    // Without workers the launcher may be a program of its own.
    let workers =
        groups.path(&["Worker", "replicas"]).int_or(1).filter(|_| groups.get("Worker").is_mapping())?;
    if workers < 1 || groups.has_unknown_key() {
        return None;
    }
    let container = groups.path(&["Launcher", "template", "spec", "containers"]).items().next()?;
    let resources = container.get("resources");
    let requested = ["limits", "requests"].into_iter().flat_map(|field| resources.get(field).entries());
    let (name, amount) = requested.into_iter().find(|(name, amount)| {
        let is_gpu = *name == "nvidia.com/gpu" || name.starts_with("nvidia.com/mig-");
        is_gpu && Quantity::at(amount).is_some_and(|amount| !amount.is_zero())
    })?;
    let message = format!(
        "no rank of `{}` runs in its launcher, and the MPI Operator hides `{name}` from it",
        job.display_name()
    );
    ctx.report(&amount, message)
        .help("leave GPUs out of the launcher, or set `runLauncherAsWorker: true` to run ranks in it");
    None
}
