//! A PodDisruptionBudget protects pods that are not ready.
//!
//! # Why
//! Without `unhealthyPodEvictionPolicy` a running pod that is not ready can be evicted only while
//! enough others are healthy. A model server that crashes in a loop, or is still loading, then keeps
//! its GPU node from being drained: consolidation and new AMIs wait for a pod that serves nobody. It is
//! reported for budgets of workloads with accelerators.
//!
//! # Fix
//! Write `unhealthyPodEvictionPolicy: AlwaysAllow`. Pods that are still loading can be evicted then, so
//! give them time with the pool's `consolidateAfter`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: llm}
//!  spec:
//! -  maxUnavailable: 1 # <-
//! +  maxUnavailable: 1
//! +  unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector: {matchLabels: {app: llm}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    replicas: 2
//!    strategy:
//!      rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/454>

use crate::cluster::views::disruptions::{allows_none, selected_pods};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-unhealthy-policy",
    kinds: &[Kind::PDB],
    reads: kinds![[Kind::HPA, Kind::SCALED_OBJECT, Kind::NAMESPACE], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("pdb_unhealthy_policy.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let policy = spec.get("unhealthyPodEvictionPolicy");
    let unclear = object.is_partial() || spec.has_unknown_key() || object.version() != "v1";
    // A budget that allows no eviction at all is reported by pdb-blocks-evictions.
    if unclear || policy.is_set() || allows_none(object) {
        return None;
    }
    let most = spec.get("maxUnavailable");
    let least = spec.get("minAvailable");
    if most.is_set() == least.is_set() {
        return None;
    }
    let (workloads, _) = ctx.cluster().views().selected_by(object);
    // A training run that is not ready is lost with its pod.
    let workload = workloads.iter().find(|workload| {
        !ctx.class_of(&workload.object).is(WorkloadClass::Training)
            && templates(&workload.object).iter().any(uses_device)
    })?;
    // A budget that allows all evictions does not protect pods that are not ready.
    let count = most.int().zip(selected_pods(&workloads, ctx.cluster()));
    if count.is_some_and(|(most, pods)| most >= pods.ceiling) {
        return None;
    }
    let whose = &workload.object;
    let message = format!(
        "a pod of `{}` that crashes or still loads keeps its node from being drained",
        whose.display_name()
    );
    let node = if most.is_set() { &most } else { &least };
    ctx.report(node, message)
        .help("write `unhealthyPodEvictionPolicy: AlwaysAllow`")
        .fix(
            Fix::new("let pods that are not ready be evicted", Safety::Unsafe)
                .set(&policy, json!("AlwaysAllow")),
        )
        .related(whose, &whose.path(&["metadata", "name"]), "its pods");
    None
}
