//! Pods select nodes by a label that no labeller of accelerators sets.
//!
//! # Why
//! `nvidia.com/gpu` is the name of a resource, and by custom that of a taint. It is not a label: GPU feature
//! discovery gives nodes `nvidia.com/gpu.present`, `nvidia.com/gpu.product` and others, and the labellers of
//! AMD and Intel have names of their own. Unless somebody writes the label by hand on each node, pods that
//! require it stay Pending, also on nodes that come later. Where the input has NodePools or Nodes, other rules
//! know their labels, and this one is silent.
//!
//! # Fix
//! Select a label that nodes have, such as `nvidia.com/gpu.present: "true"`,
//! `karpenter.k8s.aws/instance-gpu-name` or `feature.node.kubernetes.io/amd-gpu: "true"`. Pods that request the
//! resource need no label: only nodes with it fit.
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
//! -      nodeSelector: {nvidia.com/gpu: "true"} # <-
//! +      nodeSelector: {nvidia.com/gpu.present: "true"}
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery>
//! - <https://github.com/ROCm/k8s-device-plugin/tree/master/cmd/k8s-node-labeller>
//! - <https://intel.github.io/intel-device-plugins-for-kubernetes/cmd/gpu_plugin/labels.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-label-unset",
    reads: &[Kind::NODE_POOL, Kind::NODE],
    reports_absence: true,
    docs: docs(include_str!("gpu_label_unset.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Scheduling)
};

/// Keys that look like those of labellers, and what these set (GPU feature discovery 0.14 to 0.18, AMD's node
/// labeller 1.25 to 1.31, the GPU plugin of Intel 0.30 to 0.34).
const LOOKALIKES: [(&str, &str); 9] = [
    ("nvidia.com/gpu-present", "nvidia.com/gpu.present"),
    ("nvidia.com/gpu-product", "nvidia.com/gpu.product"),
    ("nvidia.com/gpu-type", "nvidia.com/gpu.product"),
    ("nvidia.com/gpu.model", "nvidia.com/gpu.product"),
    ("nvidia.com/gpu.name", "nvidia.com/gpu.product"),
    ("nvidia.com/gpu.type", "nvidia.com/gpu.product"),
    ("amd.com/gpu.present", "feature.node.kubernetes.io/amd-gpu"),
    ("gpu.intel.com/gpu.present", "intel.feature.node.kubernetes.io/gpu"),
    ("gpu.intel.com/present", "intel.feature.node.kubernetes.io/gpu"),
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let knows_nodes = cluster.has_any(Kind::NODE_POOL) || cluster.has_any(Kind::NODE);
    if knows_nodes || ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for label in referenced_labels(template) {
        let (severity, effect) = match label.usage {
            LabelUse::Required => (Severity::Warning, "pods stay Pending unless nodes are labelled by hand"),
            LabelUse::Preferred => (Severity::Info, "it prefers no node unless nodes are labelled by hand"),
            _ => continue,
        };
        let (severity, what, instead) = match LOOKALIKES.iter().find(|(known, _)| *known == label.key) {
            Some((_, instead)) => (Severity::Info, "is a label that no labeller sets", *instead),
            None if is_accelerator(label.key) => {
                (severity, "is a resource, not a label", present_label(label.key)?)
            }
            None => continue,
        };
        ctx.report(&label.node, format!("`{}` {what}: {effect}", label.key))
            .severity(severity)
            .help(format!("select `{instead}`, or leave the selection to the request for the resource"))
            .identified_by(label.key);
    }
    None
}

/// The label of nodes with the devices of a resource.
fn present_label(resource: &str) -> Option<&'static str> {
    let (domain, _) = resource.split_once('/')?;
    Some(match domain {
        "nvidia.com" => "nvidia.com/gpu.present",
        "amd.com" => "feature.node.kubernetes.io/amd-gpu",
        "gpu.intel.com" => "intel.feature.node.kubernetes.io/gpu",
        "aws.amazon.com" => "node.kubernetes.io/instance-type",
        "google.com" => "cloud.google.com/gke-tpu-accelerator",
        "habana.ai" => "node.kubernetes.io/instance-type",
        _ => return None,
    })
}
