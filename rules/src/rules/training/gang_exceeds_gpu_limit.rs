//! A group of pods needs more accelerators than the limits of its NodePools allow.
//!
//! # Why
//! The workers of a training run, of a Ray cluster or of a group of a LeaderWorkerSet only work together. If
//! the limits of all NodePools that admit them allow fewer devices than all of them request, Karpenter
//! starts nodes up to the limit and stops: the pods that run hold their accelerators and wait for others that
//! never come. A queue or a scheduler that starts the group together keeps it waiting, but without cost.
//! The pods of a Job that do not depend on each other only run one after another: that is information.
//!
//! # Fix
//! Raise the limit, or make the group smaller.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v1
//!  kind: PyTorchJob
//!  metadata: {name: tune}
//!  spec:
//!    runPolicy: {backoffLimit: 3}
//!    pytorchReplicaSpecs:
//!      Worker:
//! -      replicas: 4 # <-
//! +      replicas: 2
//!        restartPolicy: OnFailure
//!        template:
//!          metadata:
//!            annotations: {karpenter.sh/do-not-disrupt: "true"}
//!          spec:
//!            terminationGracePeriodSeconds: 120
//!            nodeSelector:
//!              karpenter.sh/nodepool: train
//!              topology.kubernetes.io/zone: us-east-1a
//!            volumes:
//!              - {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}
//!              - {name: checkpoints, persistentVolumeClaim: {claimName: checkpoints}}
//!            containers:
//!              - name: pytorch
//!                image: example.com/tune:1.4.0
//!                command: [torchrun, --nproc_per_node=8, train.py]
//!                volumeMounts:
//!                  - {name: shm, mountPath: /dev/shm}
//!                  - {name: checkpoints, mountPath: /checkpoints}
//!                resources:
//!                  requests: {cpu: 90, memory: 600Gi}
//!                  limits: {memory: 600Gi, nvidia.com/gpu: 8}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: train}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        expireAfter: Never
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6e, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 16}
//!    disruption:
//!      consolidationPolicy: WhenEmpty
//!      consolidateAfter: 5m
//!      budgets: [{nodes: "1"}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>

use crate::cluster::queues::{QUEUE_KINDS, may_run_elsewhere};
use crate::rules::gpu::gpu_sharing_mismatch::SHARING_SOURCES;
use crate::rules::gpu_room::{Room, amount, room_below, unit};
use crate::rules::prelude::*;
use crate::rules::training::is_distributed;
use crate::workload::devices::first_accelerator;
use crate::workload::gang::{Demand, Members, demands, is_gang_scheduled, members};

/// The pools, and the runtimes with the pod templates of TrainJobs.
const READS: &[Kind] = kinds![
    SHARING_SOURCES,
    [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::TRAINING_RUNTIME, Kind::CLUSTER_TRAINING_RUNTIME],
    QUEUE_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "gang-exceeds-gpu-limit",
    kinds: WORKLOAD_KINDS,
    reads: READS,
    docs: docs(include_str!("gang_exceeds_gpu_limit.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_gang =
        matches!(object.group(), "batch" | "keda.sh" | "kubeflow.org" | "ray.io" | "batch.volcano.sh")
            || object.is(Kind::LEADER_WORKER_SET)
            || object.is(Kind::JOB_SET);
    if object.may_lack_fields() || object.is_owned() || may_run_elsewhere(object, ctx.cluster()) {
        return None;
    }
    if object.is(Kind::TRAIN_JOB) {
        return train_job(object, ctx);
    }
    if !is_gang || !ctx.cluster().has_any(Kind::NODE_POOL) {
        return None;
    }
    let members = members(object)?;
    for demand in demands(&members, KARPENTER_ACCELERATORS) {
        if let Some(room) = too_small(&members, &demand, ctx) {
            report(object, &demand, &room, ctx);
        }
    }
    None
}

/// The room for the pods with the devices of a demand, if it is too small.
fn too_small(members: &[Members<'_>], demand: &Demand<'_>, ctx: &Context<'_>) -> Option<Room> {
    let has_device = |template: &&Template<'_>| {
        first_accelerator(template).is_some_and(|(resource, _)| resource == demand.resource)
    };
    let templates: Vec<&Template<'_>> =
        members.iter().map(|member| &member.template).filter(has_device).collect();
    room_below(demand, &templates, ctx)
}

fn report(object: &Object, demand: &Demand<'_>, room: &Room, ctx: &mut Context<'_>) {
    let (name, unit) = (object.display_name(), unit(demand.resource));
    let (pods, total, bound) = (demand.pods, demand.total, room.words());
    let message = match demand.each.filter(|_| i128::from(total) <= room.total()) {
        Some(each) => {
            let most = room.pods(each);
            let amount = amount(each, demand.resource);
            format!("{pods} pods of `{name}` need {amount} each; {bound} {} room for {most}", room.verb())
        }
        None => format!("the {pods} pods of `{name}` need {total} {unit} at once, beyond {bound}"),
    };
    let first = &demand.first;
    // Independent pods of a Job wait for each other's devices, and all run in the end.
    let independent = matches!(object.group(), "batch" | "keda.sh") && !is_distributed(object);
    let node = if first.field.is_set() {
        first.field.clone()
    } else {
        first_accelerator(&first.template).map_or(first.field.clone(), |(_, devices)| devices.node)
    };
    let finding = ctx.report(&node, message);
    finding.identified_by(demand.resource);
    if independent {
        finding.severity(Severity::Info).help("raise the limit, or expect the others to run later");
    } else if is_gang_scheduled(object, &first.template) {
        finding.help("raise the limit, or lower the number of pods: the group never starts");
    } else {
        finding.help(
            "raise the limit, or lower the number of pods: those that start hold their devices and wait",
        );
    }
    room.show(demand.resource, finding);
}

/// A TrainJob has the number of nodes and the devices of each, and its runtime the pod template. Which pools admit the pods is
/// not known before the controller has put both together: all pools with such devices count.
fn train_job(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if is_suspended(object) != Some(false) || !ctx.cluster().has_any(Kind::NODE_POOL) {
        return None;
    }
    let trainer = object.path(&["spec", "trainer"]);
    let nodes = trainer.get("numNodes");
    let pods = if nodes.is_set() { nodes.int()? } else { nodes_of_runtime(object, ctx)? };
    let resources = trainer.get("resourcesPerNode");
    for resource in KARPENTER_ACCELERATORS {
        let own = [resources.path(&["limits", resource]), resources.path(&["requests", resource])];
        let Some(field) = own.into_iter().find(Node::is_set) else { continue };
        let each = i64::try_from(Quantity::at(&field)?.value()).ok()?;
        let room = Room::of_any(resource, ctx)?;
        let most = room.pods(each);
        if each < 1 || i128::from(pods) <= most {
            continue;
        }
        let (name, unit) = (object.display_name(), unit(resource));
        let (total, limit) = (i128::from(each).saturating_mul(i128::from(pods)), room.total());
        let message = if total > limit {
            format!(
                "the {pods} nodes of `{name}` need {total} {unit} at once, and all NodePools allow {limit}"
            )
        } else {
            let (amount, bound, verb) = (amount(each, resource), room.words(), room.verb());
            format!("the {pods} nodes of `{name}` need {amount} each; {bound} {verb} room for {most}")
        };
        let finding = ctx.report(if nodes.is_set() { &nodes } else { &field }, message);
        finding.help("raise the limit, or lower the number of nodes").identified_by(*resource);
        room.show(resource, finding);
    }
    None
}

/// The number of nodes that the runtime of a TrainJob has by default.
fn nodes_of_runtime(object: &Object, ctx: &Context<'_>) -> Option<i64> {
    let reference = object.path(&["spec", "runtimeRef"]);
    let (kind, namespace) = match reference.get("kind").text() == Some(Kind::TRAINING_RUNTIME.kind) {
        true => (Kind::TRAINING_RUNTIME, object.namespace_or_default()),
        false => (Kind::CLUSTER_TRAINING_RUNTIME, "default"),
    };
    let runtime = ctx.partner(kind, namespace, reference.get("name").text()?)?;
    runtime.path(&["spec", "mlPolicy", "numNodes"]).int_or(1)
}
