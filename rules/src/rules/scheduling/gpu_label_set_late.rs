//! A GPU pod selects a label that nodes get only after they have joined.
//!
//! # Why
//! A label such as `nvidia.com/gpu.product` is written by GPU feature discovery after the node has
//! joined the cluster. Karpenter does not know it of a node that it could start, unless the NodePool
//! declares it, so it starts no node for a pod that selects it, and the pod stays Pending. It is a warning where
//! a NodePool has the GPU that `nvidia.com/gpu.product` names; otherwise the pod may be meant for other nodes.
//!
//! # Fix
//! Select GPUs by Karpenter's own labels, such as `karpenter.k8s.aws/instance-gpu-name`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 3
//!    template:
//!      spec:
//!        restartPolicy: Never
//! -      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4} # <-
//! +      nodeSelector: {karpenter.k8s.aws/instance-gpu-name: l4}
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: 3, memory: 12Gi}, limits: {nvidia.com/gpu: 1}}
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
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>
//! - <https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery>

use super::pod_fits_no_pool;
use crate::fit::gpu_name;
use crate::rules::prelude::*;
use crate::workload::node_labels::LabelReference;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-label-set-late",
    kinds: WORKLOAD_KINDS,
    reads: pod_fits_no_pool::READS,
    docs: docs(include_str!("gpu_label_set_late.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

/// Maximum number of NodePools among which a GPU pool is looked for.
const MAX_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // DaemonSet pods run on the nodes that exist; pods with a controller are checked in its template.
    if object.is(Kind::DAEMON_SET)
        || object.controller().is_some()
        || object.may_lack_fields()
        || !ctx.cluster().has_any(Kind::NODE_POOL)
    {
        return None;
    }
    for template in templates(object) {
        let Some(label) = late_label(&template) else { continue };
        let feasibility = ctx.cluster().views().feasibility(ctx.platform());
        if feasibility.has_other_pools()
            || feasibility.declares(label.key)
            || ctx.other_nodes_for(&template).is_some()
        {
            return None;
        }
        let is_gpu_pool = |pool: &&Object| {
            NodePool::new(pool).is_some_and(|pool| pool.hardware() == Hardware::Accelerated)
                && ctx.pairs_with(pool)
        };
        let pools: Vec<&Object> =
            ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED).filter(is_gpu_pool).collect();
        let named = pools.iter().find_map(|pool| Some((*pool, gpu_of_pool(&label, pool)?)));
        let Some(pool) = named.map(|(pool, _)| pool).or_else(|| pools.first().copied()) else { continue };
        if pod_fits_no_pool::is_reported(object, &template, ctx) {
            continue;
        }
        let (key, name) = (label.key, object.display_name());
        let message = format!("nodes get `{key}` after they join, so Karpenter starts none for `{name}`");
        let finding = ctx.report(&label.node, message);
        match named {
            // A pool that has this GPU is there for the pod.
            Some((_, gpu)) => finding
                .severity(Severity::Warning)
                .help(format!("select `karpenter.k8s.aws/instance-gpu-name: {gpu}`")),
            None => {
                finding.help("select `karpenter.k8s.aws/instance-gpu-name` or another label of Karpenter")
            }
        };
        let place = pool.path(&["metadata", "name"]);
        finding.related(pool, &place, "a pool with accelerators, which does not declare the label");
    }
    None
}

/// The GPU of the types of a pool that a label names, such as `l40s` for the product `NVIDIA-L40S`.
fn gpu_of_pool(label: &LabelReference<'_>, pool: &Object) -> Option<&'static str> {
    let types = NodePool::new(pool).filter(|_| label.key == "nvidia.com/gpu.product")?.types()?;
    label.values.iter().filter_map(|value| value.text()).find_map(|product| {
        let product = product.to_ascii_lowercase();
        types.iter().filter_map(gpu_name).find(|name| product.split('-').any(|part| part == *name))
    })
}

/// The first label that a GPU pod requires and that feature discovery sets.
fn late_label<'t>(template: &Template<'t>) -> Option<LabelReference<'t>> {
    let labels = referenced_labels(template);
    // A label of a managed node group means a node that Karpenter does not start.
    let elsewhere = labels.iter().any(|label| label.key.starts_with("eks.amazonaws.com/"));
    if elsewhere || !requests_accelerator(template) {
        return None;
    }
    let terms = template.required_terms();
    // With several terms, nodes need to match only one of them.
    let single_term = terms.items().nth(1).is_none();
    let is_late = |label: &LabelReference<'_>| {
        matches!(label.usage, LabelUse::Required)
            && (single_term || label.selector.is_some())
            && ["nvidia.com/", "feature.node.kubernetes.io/"].iter().any(|start| label.key.starts_with(start))
    };
    labels.into_iter().find(is_late)
}
