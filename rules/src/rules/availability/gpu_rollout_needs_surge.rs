//! A rollout of GPU pods needs more GPUs than the running pods hold.
//!
//! # Why
//! By default a Deployment replaces 25 % of its pods at a time. With up to three replicas this rounds
//! to one new pod before an old one ends: `maxSurge` 1, `maxUnavailable` 0. The new pod needs GPUs of
//! its own, often a whole new instance of a scarce type, and minutes to load a model; until then the
//! rollout waits, and it waits forever where the limits of the NodePools are reached. It is a warning
//! where the limits leave no room, and where the new pods need three GPUs or more, as a rule an instance of their
//! own; otherwise information. A single replica has no better strategy, and one that is written down is left
//! alone. Operators start even more beside the running pods: a RayService a whole second cluster, a
//! LeaderWorkerSet with `maxSurge` groups, KServe and Knative a second revision, a Rollout of Argo its
//! preview. Where the limits leave no room for that, it is a warning as well. The 25 % are also those of the
//! Deployments that KServe makes without Knative; its ConfigMap `inferenceservice-config` may have another
//! strategy for all of them, and nothing is said where the input shows one.
//!
//! # Fix
//! Write `maxSurge: 0` and `maxUnavailable: 1`, where one replica less during a rollout is bearable, or
//! leave room in the limits of the pool.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//! -metadata:
//! -  name: llm # <-
//! +metadata: {name: llm}
//!  spec:
//!    replicas: 3
//! +  strategy:
//! +    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        topologySpreadConstraints:
//!          - maxSkew: 1
//!            topologyKey: topology.kubernetes.io/zone
//!            whenUnsatisfiable: ScheduleAnyway
//!            labelSelector: {matchLabels: {app: llm}}
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
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
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment>
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>

use super::kserve;
use super::replacement::{Replacement, replacement};
use super::rollout::{Rollout, rollout};
use super::serving::{is_owned, tell_autoscaler};
use crate::rules::gpu::gpu_sharing_mismatch::SHARING_SOURCES;
use crate::rules::gpu_room::{Asked, Room, room_below};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::devices::first_accelerator;
use crate::workload::gang::{Members, demands};

/// The pools with their limits, the autoscalers that set the number of pods, and how KServe runs its services.
const READS: &[Kind] = kinds![
    SHARING_SOURCES,
    kserve::READS,
    [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::HPA, Kind::SCALED_OBJECT],
    WORKLOAD_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "gpu-rollout-needs-surge",
    kinds: &[
        Kind::DEPLOYMENT,
        Kind::RAY_SERVICE,
        Kind::LEADER_WORKER_SET,
        Kind::ROLLOUT,
        Kind::INFERENCE_SERVICE,
        Kind::KNATIVE_SERVICE,
    ],
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_rollout_needs_surge.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// From this number of GPUs on the new pods are likely to need a scarce instance.
const MANY: i64 = 3;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    if !object.is(Kind::DEPLOYMENT) {
        return replaced_by_operator(object, ctx);
    }
    let templates = templates(object);
    let [template] = templates.as_slice() else { return None };
    let (resource, each) = devices(template)?;
    let replicas = ctx.cluster().views().replicas(object)?;
    let autoscaler = ctx.cluster().views().autoscaler_of(object);
    if replicas.floor == 0 && !replicas.autoscaled {
        return None;
    }
    let Rollout { surge, unavailable, written } = rollout(object, replicas.min)?;
    if surge == 0 || unavailable > 0 {
        return None;
    }
    let strategy = object.path(&["spec", "strategy", "rollingUpdate"]);
    let extra = surge.checked_mul(each)?;
    let need = replicas.min.checked_mul(each)?.checked_add(extra)?;
    let node = object.path(&["metadata", "name"]);
    let name = object.display_name();
    let pods = replicas.min.checked_add(surge)?;
    let room = Room::below(Asked::new(pods, each), template, resource, ctx);
    let mut fix = Fix::new("end one pod before the new one starts", Safety::Unsafe);
    if let Some(room) = room {
        let lacks = room.shortage(pods, Some(each), need, resource);
        let message = format!("a rollout of `{name}` {lacks}");
        let finding = ctx.report(&node, message);
        tell_autoscaler(finding, autoscaler);
        finding.help("write `maxSurge: 0` and `maxUnavailable: 1`, or raise the limit");
        room.show(resource, finding);
        fix = fix.set(&strategy, json!({"maxSurge": 0, "maxUnavailable": 1}));
        finding.fix(fix);
        return None;
    }
    // Without surge a single replica is an outage: there is nothing better to write.
    if written || replicas.min == 1 {
        return None;
    }
    let message = format!(
        "a rollout of `{name}` needs {extra} more `{resource}` for a while: `maxUnavailable` rounds to 0"
    );
    let finding = ctx.report(&node, message);
    tell_autoscaler(finding, autoscaler);
    finding.help("write `maxSurge: 0` and `maxUnavailable: 1` where one replica less is bearable");
    if extra < MANY || is_example(object) {
        finding.severity(Severity::Info);
    }
    finding.fix(fix.set(&strategy, json!({"maxSurge": 0, "maxUnavailable": 1})));
    None
}

/// The accelerator that a pod requests, and how many of it.
fn devices<'a>(template: &Template<'a>) -> Option<(&'a str, i64)> {
    let mut found: Option<(&str, i64)> = None;
    for container in template.containers() {
        for (name, amount) in container.path(&["resources", "limits"]).entries() {
            if !is_accelerator(name) {
                continue;
            }
            let amount = Quantity::at(&amount)?;
            let amount = i64::try_from(amount.value()).ok()?;
            match &mut found {
                Some((known, sum)) if *known == name => *sum = sum.checked_add(amount)?,
                Some(_) => return None,
                None => found = Some((name, amount)),
            }
        }
    }
    found.filter(|(_, count)| *count > 0)
}

/// Reports an operator that starts new pods beside the old ones, where the limits have no room for both. More pods than the limits
/// allow without a replacement are another mistake.
fn replaced_by_operator(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_patched_by_kustomize() || !ctx.cluster().has_any(Kind::NODE_POOL) {
        return None;
    }
    // The number of replicas of an autoscaler is not that of the manifest.
    if ctx.cluster().views().autoscaler_of(object).is_some() {
        return None;
    }
    let Replacement { peak, event, field, help, frugal } = replacement(object, ctx)?;
    let running = crate::workload::gang::members(object);
    for demand in demands(&peak, KARPENTER_ACCELERATORS) {
        let has_device = |member: &&Members<'_>| {
            first_accelerator(&member.template).is_some_and(|(resource, _)| resource == demand.resource)
        };
        let templates: Vec<&Template<'_>> = peak.iter().filter(has_device).map(|one| &one.template).collect();
        let Some(room) = room_below(&demand, &templates, ctx) else { continue };
        let now =
            running.as_ref().map(|running| demands(running, KARPENTER_ACCELERATORS)).unwrap_or_default();
        if now.iter().any(|now| now.resource == demand.resource && room.is_below(Asked::by(now))) {
            continue;
        }
        let (name, resource) = (object.display_name(), demand.resource);
        let lacks = room.shortage(demand.pods, demand.each, demand.total, resource);
        let message = format!("{event} of `{name}` {lacks}");
        let finding = ctx.report(&field, message);
        finding.help(help);
        room.show(resource, finding);
        if let Some(value) = frugal {
            finding.fix(Fix::new("replace pods without more of them", Safety::Unsafe).set(&field, value));
        }
        return None;
    }
    None
}
