//! A GPU pool admits only one instance type.
//!
//! # Why
//! GPU capacity runs out by type and zone, often for hours. A pool that can buy one type has
//! nothing to turn to: its pods stay Pending until AWS has that type again, and a quota for the
//! type's family stops it altogether. Types that EC2 no longer offers are not counted. Reserved
//! capacity is bought by type, so a pool of reservations alone is not meant. Where at most three other
//! types have as many GPUs of as much memory, or the pods of the pool request more EFA interfaces than
//! all but three, it is information.
//!
//! # Fix
//! Add sizes or families that the pods can also use, or a pool of lower weight that takes the same
//! pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: llm-serving}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - key: node.kubernetes.io/instance-type
//!            operator: In
//! -          values: [p5.48xlarge] # <-
//! +          values: [p5.48xlarge, p5e.48xlarge, p4d.24xlarge]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 32}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::catalog;
use crate::catalog::{GPUS_OF_WHOLE_NODE, INSTANCE_TYPE};
use crate::karpenter::scheduling::pod_requests;
use crate::rules::prelude::*;
use crate::workload::gpu::EFA;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-single-instance-type",
    reads: kinds![[Kind::NODE_POOL, Kind::NAMESPACE], WORKLOAD_KINDS],
    holds_alone: true,
    docs: docs(include_str!("gpu_pool_single_instance_type.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

/// With at most this number of other types of the size, the pool is not narrow by mistake.
const MAX_PEERS: usize = 3;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let reserved_only = pool.capacity_types() == Some(vec!["reserved"]);
    if pool.is_static() || reserved_only {
        return None;
    }
    let types = pool.types()?;
    if types.len() != 1 || pool.hardware() != Hardware::Accelerated || pool.names_uncatalogued_values() {
        return None;
    }
    let only = types.names().next().unwrap_or_default();
    // A type that no region offers any more is to be replaced, not joined by others.
    if catalog::find(only).is_some_and(InstanceType::is_retired)
        && ctx.is_rule_enabled("requirement-value-not-offered")
    {
        return None;
    }
    let label = pool.labels().get(INSTANCE_TYPE);
    let node = match pool.requirement(INSTANCE_TYPE) {
        Some(requirement) => requirement.get("values"),
        None if label.is_set() => label,
        None => pool.requirements(),
    };
    let name = object.display_name();
    let behind = super::fallback(object, pool, ctx.cluster());
    let noun = pool.noun();
    let message = format!("{noun} `{name}` admits only `{only}`: its pods wait when that type runs out");
    let efa = requested_efa(object, ctx);
    let finding = ctx.report(&node, message);
    finding.help("add sizes or families, or a pool of lower weight that admits the same pods");
    // There are few alternatives to the largest types.
    let peers = catalog::find(only).map(|only| peers(only, efa)).unwrap_or_default();
    // Who wants such a node has chosen its GPU, and there are no other sizes.
    let is_whole = catalog::find(only).is_some_and(|only| only.nvidia_gpu >= GPUS_OF_WHOLE_NODE);
    if is_whole {
        finding
            .severity(Severity::Info)
            .help("reserve capacity, or add another generation with as many GPUs");
    }
    if peers.is_empty() && efa > 0 {
        finding
            .severity(Severity::Info)
            .help(format!("no other type has as much GPU memory and {efa} EFA interfaces: reserve capacity"));
    } else if (1..=MAX_PEERS).contains(&peers.len()) {
        let names: Vec<String> = peers.iter().map(|name| format!("`{name}`")).collect();
        let have = if names.len() == 1 { "has" } else { "have" };
        finding
            .severity(Severity::Info)
            .help(format!("only {} {have} as much GPU memory: add one of them", names.join(", ")));
    }
    if let Some(other) = behind {
        finding
            .severity(Severity::Info)
            .help("a pool of lower weight admits its pods when the type runs out")
            .related(&other, &other.path(&["metadata", "name"]), "this pool");
    }
    None
}

/// The EFA interfaces that each pod with accelerators of a pool requests at least.
fn requested_efa(pool: &Object, ctx: &Context<'_>) -> u32 {
    let users = ctx.cluster().views().accelerators_on(pool, ctx.platform()).admitted;
    let pods = users.iter().flat_map(templates).filter(requests_accelerator);
    let efa = |template: Template<'_>| {
        let milli = to_scheduling_pod(&template).and_then(|pod| pod_requests(&pod).get(EFA).copied());
        u32::try_from(milli.unwrap_or(0) / 1000).unwrap_or(0)
    };
    pods.map(efa).min().unwrap_or(0)
}

/// Names of the other types with at least as many NVIDIA GPUs of at least as much memory each, and these EFA interfaces.
fn peers(only: &InstanceType, efa: u32) -> Vec<&'static str> {
    let serves = |other: &&InstanceType| {
        other.efa >= efa
            && other.nvidia_gpu >= only.nvidia_gpu.max(1)
            && other.gpu_memory_mib >= only.gpu_memory_mib
            && other.arch == only.arch
            && other.name != only.name
            && !other.is_retired()
    };
    catalog::all().iter().filter(serves).map(|other| other.name).collect()
}
