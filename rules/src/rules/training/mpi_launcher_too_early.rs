//! The launcher of an MPIJob fails before its workers have nodes.
//!
//! # Why
//! The MPI Operator starts the launcher together with the workers, unless `launcherCreationPolicy` says
//! otherwise. Workers with accelerators wait minutes for nodes that Karpenter starts. `mpirun` cannot reach
//! them and fails within seconds, and a `backoffLimit` of 0 or 1 ends the whole job.
//!
//! # Fix
//! Set `launcherCreationPolicy: WaitForWorkersReady`, or a `backoffLimit` that outlasts the start of nodes:
//! pauses between attempts grow from 10 seconds to minutes.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v2beta1
//!  kind: MPIJob
//!  metadata: {name: bandwidth, namespace: checks}
//!  spec:
//! +  launcherCreationPolicy: WaitForWorkersReady
//! -  runPolicy: {backoffLimit: 0, cleanPodPolicy: Running} # <-
//! +  runPolicy: {backoffLimit: 0, cleanPodPolicy: Running}
//!    mpiReplicaSpecs:
//!      Launcher:
//!        replicas: 1
//!        template:
//!          spec:
//!            restartPolicy: Never
//!            containers:
//!              - name: launcher
//!                image: registry.example.com/nccl-tests:2.17.6
//!                command: [mpirun, -np, "2", all_reduce_perf]
//!                resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2Gi}}
//!      Worker:
//!        replicas: 2
//!        template:
//!          spec:
//!            containers:
//!              - name: worker
//!                image: registry.example.com/nccl-tests:2.17.6
//!                resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.2xlarge, g6.4xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/>
//! - <https://github.com/kubeflow/mpi-operator/blob/master/pkg/apis/kubeflow/v2beta1/types.go>

use crate::cluster::queues::queue_name;
use crate::rules::prelude::*;
use crate::rules::training::starting_pool;
use crate::workload::command::base_name;

pub(crate) static RULE: Rule = Rule {
    id: "mpi-launcher-too-early",
    kinds: &[Kind::MPI_JOB],
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("mpi_launcher_too_early.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Maximum of attempts after the first that end before a node has started.
const FEW: i64 = 1;
/// Commands with which a launcher waits for its workers.
const WAITS: [&str; 9] =
    ["until", "while", "for", "sleep", "nslookup", "ssh", "getent", "timeout", "kubectl"];

/// `LauncherCreationPolicyAtStartup` is the default of v2beta1; v1 is of the Training Operator.
fn check(job: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = job.get("spec");
    let policy = spec.get("launcherCreationPolicy");
    let at_startup = policy.is_absent() || policy.text() == Some("AtStartup");
    if job.version() != "v2beta1" || !at_startup || job.may_lack_fields() || !uses_accelerators(job) {
        return None;
    }
    let backoff = spec.path(&["runPolicy", "backoffLimit"]);
    let attempts = backoff.int().filter(|attempts| *attempts <= FEW)?;
    // Kueue and gangs start all pods when there are nodes.
    let is_held = spec.path(&["runPolicy", "schedulingPolicy"]).is_set()
        || is_suspended(job) != Some(false)
        || queue_name(job).is_set()
        || templates(job).iter().any(|template| {
            let nodes = template.spec.get("nodeSelector");
            template.spec.get("schedulerName").is_set() || nodes.get("eks.amazonaws.com/nodegroup").is_set()
        });
    let launcher = spec.path(&["mpiReplicaSpecs", "Launcher", "template", "spec"]);
    let container = launcher.get("containers").items().next()?;
    let words = words(&container);
    let runs = words.iter().any(|word| matches!(base_name(&word.text), "mpirun" | "mpiexec"));
    let waits = launcher.get("initContainers").is_set()
        || words.iter().any(|word| {
            let name = base_name(&word.text);
            !word.known || name.contains("wait") || WAITS.contains(&name)
        });
    if is_held || !runs || waits || spec.has_unknown_key() {
        return None;
    }
    let pool = starting_pool(job, ctx)?;
    let tries = if attempts == 0 { "one attempt" } else { "two attempts" };
    let message = format!(
        "`mpirun` of `{}` starts before its workers have nodes, and has {tries} to reach them",
        job.display_name()
    );
    ctx.report(&backoff, message).help("set `launcherCreationPolicy: WaitForWorkersReady`").related(
        &pool,
        &pool.path(&["metadata", "name"]),
        "workers wait for nodes of this pool",
    );
    None
}
