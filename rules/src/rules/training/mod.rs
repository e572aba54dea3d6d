//! Training runs: where they may run, and what they lose.

pub(crate) mod bare_gpu_pod;
pub(crate) mod bucket_forbids_overwrite;
pub(crate) mod checkpoint_storage;
pub(crate) mod checkpoint_volume_not_shared;
pub(crate) mod cluster_queue_admits_nothing;
pub(crate) mod efa_not_requested;
pub(crate) mod finished_job_kept;
pub(crate) mod gang_exceeds_gpu_limit;
pub(crate) mod gang_larger_than_run;
pub(crate) mod gang_retries_unbounded;
pub(crate) mod gpu_cronjob_overlap;
pub(crate) mod gpu_job_not_queued;
pub(crate) mod gpu_job_unbounded;
pub(crate) mod host_network_without_dns;
pub(crate) mod indexed_job_required;
pub(crate) mod job_backoff_implicit;
pub(crate) mod job_failure_policy;
pub(crate) mod job_rendezvous_mismatch;
mod kueue;
pub(crate) mod mpi_key_unreadable;
pub(crate) mod mpi_launcher_gpu_hidden;
pub(crate) mod mpi_launcher_too_early;
pub(crate) mod nccl_interface_missing;
pub(crate) mod notebook_idle_gpu;
pub(crate) mod queue_missing;
pub(crate) mod queued_without_requests;
mod rank_source;
pub(crate) mod ray_entrypoint_split;
pub(crate) mod spark_gpu_undiscovered;
pub(crate) mod train_job_initializer_missing;
pub(crate) mod training_grace_too_short;
pub(crate) mod training_in_deployment;
pub(crate) mod training_job_rejected;
pub(crate) mod training_on_spot;
pub(crate) mod training_restart_policy;
pub(crate) mod training_sidecar_injected;
pub(crate) mod training_signal_kept;
pub(crate) mod training_topology;
pub(crate) mod volcano_enqueue_before_nodes;
pub(crate) mod volcano_queue_too_small;

use crate::kind::Kind;
use crate::lint::context::Context;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::class::{Evidence, WorkloadClass};
use crate::workload::command::{base_name, words};
use crate::workload::devices::{pods_with_accelerators, uses_accelerators};
use crate::workload::gpu::requests_accelerator;
use crate::workload::template::{is_short_lived, templates};

/// The jobs of Kubeflow's training operator, whose pods wait for each other.
const KUBEFLOW_JOBS: [Kind; 6] =
    [Kind::PYTORCH_JOB, Kind::MPI_JOB, Kind::TF_JOB, Kind::XGBOOST_JOB, Kind::PADDLE_JOB, Kind::JAX_JOB];

/// Kinds that have the spec of a Job.
const JOBS: &[Kind] = &[Kind::JOB, Kind::CRON_JOB, Kind::SCALED_JOB];

/// The spec of a Job, or of the Jobs that an object creates.
fn job_spec(object: &Object) -> Node<'_> {
    if object.is(Kind::CRON_JOB) {
        object.path(&["spec", "jobTemplate", "spec"])
    } else if object.is(Kind::SCALED_JOB) {
        object.path(&["spec", "jobTargetRef"])
    } else {
        object.get("spec")
    }
}

/// Whether an object is a training run on accelerators, with at least medium confidence, and not a short one.
fn trains(object: &Object, ctx: &Context<'_>) -> bool {
    uses_accelerators(object) && !object.is_owned() && !is_short_lived(object) && is_training(object, ctx)
}

/// Whether the class is training, by more than the name of the namespace: that is also the home of what only looks on.
fn is_training(object: &Object, ctx: &Context<'_>) -> bool {
    let classified = ctx.class_of(object);
    classified.is(WorkloadClass::Training) && !matches!(classified.evidence, Evidence::NamespaceName { .. })
}

/// A NodePool that starts nodes for the pods with accelerators of an object. `None` if that is not certain, or if nodes of a
/// static pool may be there before.
fn starting_pool(object: &Object, ctx: &Context<'_>) -> Option<Object> {
    let templates = templates(object);
    let template = templates.iter().find(|template| requests_accelerator(template))?;
    ctx.pools_for(template)?.first_sure().map(|pool| pool.object().clone())
}

/// Launchers of processes that communicate with each other.
const LAUNCHERS: [&str; 8] = [
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed",
    "horovodrun",
    "mpirun",
    "accelerate",
    "colossalai",
];

/// Whether a training run has several pods with accelerators that communicate with each other.
fn is_distributed(object: &Object) -> bool {
    if pods_with_accelerators(object).is_none_or(|pods| pods < 2) {
        return false;
    }
    let has_launcher =
        |container: &Node<'_>| words(container).iter().any(|word| LAUNCHERS.contains(&base_name(&word.text)));
    // Without a launcher the variables of PyTorch and JAX say where the others are.
    let names_others = |container: &Node<'_>| {
        let mut env = container.get("env").items();
        env.any(|entry| {
            matches!(entry.text_at("name"), Some("MASTER_ADDR" | "JAX_COORDINATOR_ADDRESS"))
                && !matches!(entry.text_at("value"), Some("localhost" | "127.0.0.1"))
        })
    };
    // The pods of a Kubeflow job are one process group.
    object.group() == "kubeflow.org"
        || templates(object)
            .iter()
            .flat_map(|t| t.containers())
            .any(|container| has_launcher(&container) || names_others(&container))
}

/// Whether an object is a server with accelerators whose processes are on several pods: a LeaderWorkerSet with groups of
/// more than one.
fn is_serving_group(object: &Object, ctx: &Context<'_>) -> bool {
    let size = object.path(&["spec", "leaderWorkerTemplate", "size"]);
    object.is(Kind::LEADER_WORKER_SET)
        && size.int().is_some_and(|size| size > 1)
        && uses_accelerators(object)
        && !object.is_owned()
        && !ctx.class_of(object).is(WorkloadClass::Training)
}
