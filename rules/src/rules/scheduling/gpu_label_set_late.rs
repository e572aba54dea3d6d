//! A GPU pod selects a label that nodes get only after they have joined.
//!
//! # Why
//! A label such as `nvidia.com/gpu.product` is written by GPU feature discovery after the node has
//! joined the cluster. Karpenter does not know it of a node that it could start, unless the NodePool
//! declares it, so it starts no node for a pod that selects it, and the pod stays Pending.
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

use crate::rules::prelude::*;
use crate::workload::node_labels::LabelReference;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-label-set-late",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
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
    // If all pools are known, pod-fits-no-pool reports the pod.
    if ctx.cluster().is_complete_for(Kind::NODE_POOL) && ctx.is_rule_enabled("pod-fits-no-pool") {
        return None;
    }
    for template in templates(object) {
        let Some((key, node)) = late_label(&template) else { continue };
        let feasibility = ctx.cluster().views().feasibility(ctx.platform());
        if feasibility.has_other_pools()
            || feasibility.declares(key)
            || ctx.other_nodes_for(&template).is_some()
        {
            return None;
        }
        let is_gpu_pool = |pool: &&Object| {
            NodePool::new(pool).is_some_and(|pool| pool.hardware() == Hardware::Accelerated)
                && ctx.pairs_with(pool)
        };
        let mut pools = ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED);
        let Some(pool) = pools.find(is_gpu_pool) else { continue };
        let name = object.display_name();
        let message = format!("nodes get `{key}` after they join, so Karpenter starts none for `{name}`");
        ctx.report(&node, message)
            .help("select `karpenter.k8s.aws/instance-gpu-name` or another label of Karpenter")
            .related(pool, &pool.path(&["metadata", "name"]), "a GPU pool, which does not declare the label");
    }
    None
}

/// The first label that a GPU pod requires and that feature discovery sets: its key, and the node of the reference.
fn late_label<'t>(template: &Template<'t>) -> Option<(&'t str, Node<'t>)> {
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
    labels.into_iter().find(is_late).map(|label| (label.key, label.node))
}
