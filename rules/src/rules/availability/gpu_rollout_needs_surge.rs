//! A rollout of GPU pods needs more GPUs than the running pods hold.
//!
//! # Why
//! By default a Deployment replaces 25 % of its pods at a time. With up to three replicas this rounds
//! to one new pod before an old one ends: `maxSurge` 1, `maxUnavailable` 0. The new pod needs GPUs of
//! its own, often a whole new instance of a scarce type, and minutes to load a model; until then the
//! rollout waits, and it waits forever where the limits of the NodePools are reached. It is a warning
//! where the limits leave no room, and where three or more GPUs are in use; information for two
//! replicas of one GPU. A single replica has no better strategy, and one that is written down is left
//! alone.
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

use super::rollout::{Rollout, rollout};
use super::serving::{is_owned, tell_autoscaler};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::gpu::is_accelerator;

/// The pools with their limits, and the autoscalers that set the number of pods.
const READS: [Kind; WORKLOAD_KINDS.len() + 3] =
    with_workloads(&[Kind::NODE_POOL, Kind::HPA, Kind::SCALED_OBJECT]);

pub(crate) static RULE: Rule = Rule {
    id: "gpu-rollout-needs-surge",
    kinds: &[Kind::DEPLOYMENT],
    reads: &READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_rollout_needs_surge.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// From this number of GPUs on another pod is likely to need a scarce instance.
const MANY: i64 = 3;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    let templates = templates(object);
    let [template] = templates.as_slice() else {
        return None;
    };
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
    let tight = room_below(need, template, resource, ctx);
    let mut fix = Fix::new("end one pod before the new one starts", Safety::Unsafe);
    if let Some(room) = tight {
        let message = format!(
            "a rollout of `{name}` needs {need} `{resource}` at once, and the limits of its NodePools allow {}",
            room.gpus
        );
        let finding = ctx.report(&node, message);
        tell_autoscaler(finding, autoscaler);
        finding.help("write `maxSurge: 0` and `maxUnavailable: 1`, or raise the limit");
        for pool in room.pools.iter().take(3) {
            finding.related(pool, &pool.path(&["spec", "limits"]), "the limit");
        }
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
    if need - extra < MANY || is_example(object) {
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

/// What the NodePools that admit the pods may start.
struct Room<'a> {
    gpus: i128,
    pools: Vec<&'a Object>,
}

/// The GPUs that the limits of all pools that admit the pods allow; `None` where these are enough, and where a pool has no
/// limit or is not known.
fn room_below<'a>(need: i64, template: &Template<'_>, resource: &str, ctx: &Context<'a>) -> Option<Room<'a>> {
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let pools = feasibility.feasible_pools_of(template)?;
    if pools.is_empty() || feasibility.has_unreadable_pools() {
        return None;
    }
    let mut room = Room { gpus: 0, pools: Vec::new() };
    for pool in &pools {
        let object = pool.object();
        let limit = NodePool::new(object)?.limits().get(resource);
        let limit = Quantity::at(&limit)?;
        room.gpus += limit.value();
    }
    if i128::from(need) <= room.gpus {
        return None;
    }
    for pool in &pools {
        room.pools.push(ctx.partner(Kind::NODE_POOL, "default", pool.object().name())?);
    }
    Some(room)
}
