//! The replicas of a workload need more GPUs than its NodePools may have.
//!
//! # Why
//! Karpenter starts no node that would bring a NodePool beyond its `limits`. Where every pool that the
//! pods fit has a limit on their GPUs, replicas beyond it stay Pending, at the peak for which the maximum
//! was written, and the autoscaler that added them sees no effect. The limit counts whole nodes and the
//! pods of all workloads, so that there may be room for fewer replicas still. Workloads that are certainly
//! applied together, and run all the time on one pool alone, are added up. Jobs of a ScaledJob beyond the limit
//! run after the others: that is information.
//!
//! # Fix
//! Raise the limit of the pool, or lower the maximum to what it has room for. Where the limit is a ceiling
//! on cost, the maximum is the number to change. Nothing is reported where a pool without such a limit, or
//! one that cannot be read, may run the pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//! -  maxReplicaCount: 10 # <-
//! +  maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring:9090
//!          query: sum(vllm:num_requests_waiting)
//!          threshold: "5"
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 32}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: server
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3, --tensor-parallel-size, "4"]
//!            startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 90}
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 4}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 4}
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: llm}
//!  spec:
//!    maxUnavailable: 1
//!    unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector: {matchLabels: {app: llm}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#maxreplicacount>

use crate::cluster::queues::queue_name;
use crate::rules::autoscaling::scale_target::{accelerators_of_replica, target};
use crate::rules::gpu::gpu_sharing_mismatch::SHARING_SOURCES;
use crate::rules::gpu_room::{Asked, Room, amount, unit};
use crate::rules::prelude::*;
use crate::workload::gang::most_of_jobs;

pub(crate) static RULE: Rule = Rule {
    id: "max-replicas-exceed-gpu-limit",
    kinds: &[
        Kind::HPA,
        Kind::SCALED_OBJECT,
        Kind::SCALED_JOB,
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::ROLLOUT,
        Kind::INFERENCE_SERVICE,
        Kind::NODE_POOL,
    ],
    reads: kinds![
        SHARING_SOURCES,
        [
            Kind::NODE_POOL,
            Kind::EC2_NODE_CLASS,
            Kind::HPA,
            Kind::SCALED_OBJECT,
            Kind::DEPLOYMENT,
            Kind::STATEFUL_SET,
            Kind::REPLICA_SET,
            Kind::LEADER_WORKER_SET,
            Kind::ROLLOUT
        ]
    ],
    docs: docs(include_str!("max_replicas_exceed_gpu_limit.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Maximum number of workloads that are added up.
const MAX_ADDED: usize = 256;
/// Maximum number of them to show with a finding.
const MAX_RELATED: usize = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.controller().is_some() || !ctx.cluster().has_any(Kind::NODE_POOL) {
        return None;
    }
    if object.is(Kind::NODE_POOL) {
        return together(object, ctx);
    }
    let (workload, field, most) = replicas(object, ctx)?;
    // A replica of a LeaderWorkerSet is several pods.
    if workload.is_partial() || workload.is(Kind::LEADER_WORKER_SET) {
        return None;
    }
    let (resource, each) = accelerators_of_replica(workload)?;
    let own = templates(workload);
    let [template] = own.as_slice() else { return None };
    let limits = Room::below(Asked::new(most, each), template, resource, ctx)?;
    let most = i128::from(most);
    let (room, all) = (limits.pods(each), limits.total());
    let (name, unit, bound) = (workload.display_name(), unit(resource), limits.words());
    let total = most * i128::from(each);
    let is_of_jobs = workload.is(Kind::SCALED_JOB);
    let what = if is_of_jobs { "Jobs" } else { "replicas" };
    let message = if total <= all {
        let amount = amount(each, resource);
        format!("{most} {what} of `{name}` need {amount} each; {bound} {} room for {room}", limits.verb())
    } else if each == 1 {
        format!("{most} {what} of `{name}` need {total} {unit}, beyond {bound}")
    } else {
        format!("{most} {what} of `{name}` need {total} {unit} ({each} each), beyond {bound}")
    };
    let pointer = field.pointer();
    let key = pointer.steps().last().map_or("replicas", String::as_str);
    let finding = ctx.report(&field, message);
    if is_of_jobs {
        finding
            .severity(Severity::Info)
            .help(format!("lower `{key}` to {room}, or expect the others to run later"));
    } else {
        finding.help(format!("lower `{key}` to {room} or less, or raise the limit"));
    }
    limits.show(resource, finding);
    if !workload.is_same_resource(object) {
        finding.related(workload, &workload.path(&["metadata", "name"]), format!("{each} {unit} a replica"));
    }
    None
}

/// Several workloads that run all the time on a pool alone, each within its limit, and all of them beyond. Only those that are
/// certainly applied together count: the files of a folder may be alternatives.
fn together(pool: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    // Without limits there is nothing to exceed, and the workloads need no look.
    if !pool.path(&["spec", "limits"]).is_set() {
        return None;
    }
    let kinds = [Kind::DEPLOYMENT, Kind::STATEFUL_SET];
    let workloads = || kinds.into_iter().flat_map(|kind| cluster.of(kind));
    if workloads().nth(MAX_ADDED).is_some() {
        return None;
    }
    let mut found: Vec<(&Object, &'static str, i128)> = Vec::new();
    let mut most = None;
    for workload in workloads().filter(|one| cluster.surely_pairs(pool, one) && one.controller().is_none()) {
        let Some((resource, each)) = accelerators_of_replica(workload) else { continue };
        let room = templates(workload).first().and_then(|pod| Room::only_on(pool, pod, resource, ctx));
        let Some(room) = room else { continue };
        let replicas = cluster.views().replicas(workload).map(|replicas| i128::from(replicas.floor));
        let Some(replicas) = replicas.filter(|replicas| *replicas > 0) else { continue };
        // One that is beyond the limit by itself has a finding of its own.
        let counts = replicas <= room.pods(each) && !workload.is_partial();
        if counts
            && found
                .first()
                .is_none_or(|(first, of, _)| *of == resource && cluster.surely_pairs(first, workload))
        {
            found.push((workload, resource, replicas * i128::from(each)));
            most = Some(room.total());
        }
    }
    let (first, resource, _) = *found.first()?;
    let (all, most) = (found.iter().map(|(_, _, devices)| devices).sum::<i128>(), most?);
    if all <= most || found.len() < 2 {
        return None;
    }
    let others = match found.len() - 1 {
        1 => format!("`{}`", found[1].0.display_name()),
        more => format!("{more} more workloads"),
    };
    let unit = unit(resource);
    let message = format!(
        "`{}` and {others} need {all} {unit} together, and the limit is {most}",
        first.display_name()
    );
    let finding = ctx.report(&pool.path(&["spec", "limits", resource]), message);
    finding.help(format!(
        "raise the limit to {all} or more, or run fewer replicas: pods beyond it stay Pending"
    ));
    for (workload, _, devices) in found.iter().take(MAX_RELATED) {
        finding.related(workload, &workload.path(&["spec", "replicas"]), format!("{devices} {unit}"));
    }
    None
}

/// The scaled workload, the field with the maximum number of replicas, and that number.
fn replicas<'a>(object: &'a Object, ctx: &Context<'a>) -> Option<(&'a Object, Node<'a>, i64)> {
    let spec = object.get("spec");
    let field = match object {
        _ if object.is(Kind::HPA) => spec.get("maxReplicas"),
        _ if object.is(Kind::SCALED_OBJECT) => spec.get("maxReplicaCount"),
        // gang-exceeds-gpu-limit looks at a Job of several pods.
        // Kueue suspends the Jobs that its queue has no room for.
        _ if object.is(Kind::SCALED_JOB) && queue_name(object).is_set() => return None,
        _ if object.is(Kind::SCALED_JOB) => {
            let members = most_of_jobs(object)?;
            let [all] = members.as_slice() else { return None };
            let jobs = all.field.int().filter(|jobs| *jobs == all.pods)?;
            return Some((object, all.field.clone(), jobs));
        }
        _ if object.is(Kind::INFERENCE_SERVICE) => {
            // A predictor with workers is several pods.
            let predictor = spec.get("predictor");
            let field = predictor.get("maxReplicas");
            let most = field.int().filter(|_| !predictor.get("workerSpec").is_set())?;
            return Some((object, field, most));
        }
        _ => {
            let replicas = ctx.cluster().views().replicas(object).filter(|replicas| !replicas.autoscaled)?;
            let field = spec.get("replicas");
            return field.is_set().then_some((object, field, replicas.max));
        }
    };
    let most = field.int()?;
    Some((target(object, ctx)?, field, most))
}
