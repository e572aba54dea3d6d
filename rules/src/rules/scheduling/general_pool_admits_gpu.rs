//! GPU pods may start GPU nodes in a general pool.
//!
//! # Why
//! A pool whose requirements do not say which machines it has admits every instance type, those with
//! GPUs too. A GPU pod that has no taint to tolerate there gets its node from this pool whenever it
//! is tried before the GPU pools, or when their limit is reached: without their taint, their GPU
//! limit, their node class with the large root volume, and their disruption budget. Where no GPU pod
//! is in the input nothing is reported, because Karpenter buys the cheapest type that fits.
//!
//! # Fix
//! Require machine categories without GPUs in the general pool: `instance-category In [c, m, r]`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: default}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
//! -      requirements: # <-
//! -        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +      requirements:
//! +        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +        - key: karpenter.k8s.aws/instance-category
//! +          operator: In
//! +          values:
//! +            - c
//! +            - m
//! +            - r
//!    limits: {cpu: 500}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            resources: {requests: {cpu: 3, memory: 12Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>

use crate::cluster::queues::{QUEUE_KINDS, may_run_elsewhere};
use crate::karpenter::requirement::normalise;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "general-pool-admits-gpu",
    reads: kinds![[Kind::NODE_POOL, Kind::NAMESPACE], QUEUE_KINDS, WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("general_pool_admits_gpu.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Scheduling)
};

/// Labels of instance types. A pod that requires one of them has chosen its machines.
const CHOICES: [&str; 3] = [
    "node.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-family",
];
/// Labels of accelerators. A pod that requires one of them has chosen its machines.
const CHOSEN: [&str; 2] = ["instance-gpu-", "instance-accelerator-"];

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let taints = pool.template_spec().get("taints");
    if pool.is_static() || object.is_partial() || taints.is_unknown() || taints.items().next().is_some() {
        return None;
    }
    // A pool that is called after what runs there is no general one.
    if pool.hardware() != Hardware::Mixed || pool.purpose().is_some() {
        return None;
    }
    let requirements = pool.requirements();
    let keys = requirements.items().filter_map(|requirement| requirement.get("key").text());
    let labels = pool.labels();
    let labels = labels.entries();
    let chooses = |key: &str| {
        let key = normalise(key);
        let (domain, name) = key.split_once('/').unwrap_or(("", key));
        CHOICES.contains(&key)
            || CHOSEN.iter().any(|start| name.starts_with(start))
            || domain == "eks.amazonaws.com" && matches!(name, "instance-category" | "instance-family")
    };
    if keys.chain(labels.iter().map(|(key, _)| *key)).any(chooses) {
        return None;
    }
    let views = ctx.cluster().views();
    let used = views.accelerators_on(object, ctx.platform());
    // A pod that selects pools by name or by a custom label has chosen this one.
    let feasibility = views.feasibility(ctx.platform());
    let chosen = |workload: &Object| {
        templates(workload).iter().any(|template| feasibility.pinned_pools_of(template).is_some())
    };
    let mut near = used.admitted.iter().filter(|workload| ctx.pairs_with(workload));
    let workload = near.find(|workload| !chosen(workload) && !may_run_elsewhere(workload, ctx.cluster()))?;
    let (name, asks) = (object.display_name(), workload.display_name());
    let domain = if pool.is_auto_mode() { "eks.amazonaws.com" } else { "karpenter.k8s.aws" };
    let key = format!("{domain}/instance-category");
    let title = "require machines without GPUs; check that no pod needs others";
    ctx.report(&requirements, format!("general pool `{name}` may start GPU nodes, for example for `{asks}`"))
        .help(format!("require `{key} In [c, m, r]`, and leave GPUs to a pool of their own"))
        .related(
            workload,
            &workload.path(&["metadata", "name"]),
            "asks for GPUs, and this pool admits its pods",
        )
        .fix(
            Fix::new(title, Safety::Unsafe)
                .append(&requirements, json!({"key": key, "operator": "In", "values": ["c", "m", "r"]}))
                .replaces_nodes(),
        );
    None
}
