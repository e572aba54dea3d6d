//! Pods ask for a MIG slice on nodes whose GPUs have none.
//!
//! # Why
//! Only some GPUs can be divided: on EC2 those of p4d, p4de, p5, p5e, p5en, p6, g7 and g7e. T4, A10G, L4
//! and L40S have no MIG, and each GPU that has it offers its own profiles: `1g.5gb` is one of an A100
//! with 40 GB (p4d), not of one with 80 GB (p4de) or an H100. Pods that ask for another one on such nodes
//! stay Pending.
//!
//! # Fix
//! Select nodes whose GPU offers the profile, or ask for a whole GPU.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector: {node.kubernetes.io/instance-type: g5.48xlarge}
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//! -            limits: {nvidia.com/mig-1g.10gb: 1} # <-
//! +            limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/tesla/mig-user-guide/>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::catalog::Label;
use crate::rules::gpu::{gpu_templates, pools_by_label, types_by_label};
use crate::rules::partners::{node_pools, selecting};
use crate::rules::prelude::*;
use crate::workload::mig::{is_product_without_mig, offers, profile_of_resource};

pub(crate) static RULE: Rule = Rule {
    id: "mig-incapable-gpu",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE, Kind::NODE_POOL],
    pairs: &[Pair { with: &[Kind::NODE_POOL], partners: selecting, beside: node_pools }],
    docs: docs(include_str!("mig_incapable_gpu.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

/// Labels whose values name the model of a GPU.
const PRODUCTS: [&str; 3] =
    ["nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object, ctx) {
        for (resource, devices) in pod_devices(&template) {
            if let Some(profile) = profile_of_resource(resource) {
                inspect(object, &template, &profile, &devices.node, ctx);
            }
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    profile: &str,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = object.display_name();
    let help = "select nodes whose GPU offers the profile, or ask for a whole GPU";
    // Several terms are alternatives.
    let is_one_term = template.required_terms().items().count() < 2;
    for label in referenced_labels(template) {
        let is_required = label.usage == LabelUse::Required && (is_one_term || label.selector.is_some());
        if is_required && PRODUCTS.contains(&label.key) {
            let values: Option<Vec<&str>> = label.values.iter().map(Node::text).collect();
            let values = values?;
            if !values.is_empty() && values.iter().all(|value| is_product_without_mig(value)) {
                let gpu = values[0];
                ctx.report(node, format!("`{name}` asks for a MIG slice on `{gpu}`, which has no MIG"))
                    .at_key()
                    .help(help);
                return None;
            }
        }
    }
    if let Some(types) = types_by_label(template) {
        let gpu = without(&types, profile)?;
        let message =
            format!("`{name}` asks for the MIG profile `{profile}`, which its `{gpu}` GPUs do not offer");
        ctx.report(node, message).at_key().help(help);
        return None;
    }
    let pools = pools_by_label(template, ctx);
    let mut gpu = None;
    for pool in &pools {
        let types = NodePool::new(pool)?.types()?;
        gpu = Some(without(&types, profile)?);
    }
    let (pool, gpu) = pools.first().zip(gpu)?;
    let owner = pool.display_name();
    let message = format!(
        "`{name}` asks for the MIG profile `{profile}`, which the `{gpu}` GPUs of pool `{owner}` do not offer"
    );
    ctx.report(node, message).at_key().help(help).related(
        pool,
        &pool.path(&["metadata", "name"]),
        "the pool",
    );
    None
}

/// A GPU of some instance types, if none of them offers the profile; `None` if one may.
pub(super) fn without(types: &TypeSet, profile: &str) -> Option<&'static str> {
    let mut found = None;
    for instance in types.iter() {
        let gpu = match instance.label("karpenter.k8s.aws/instance-gpu-name") {
            Label::Is(gpu) => gpu,
            Label::Absent => continue,
            _ => return None,
        };
        let memory = match instance.label("karpenter.k8s.aws/instance-gpu-memory") {
            Label::Is(memory) => memory,
            _ => "",
        };
        if offers(gpu, memory, profile) != Some(false) {
            return None;
        }
        found = Some(gpu);
    }
    found
}
