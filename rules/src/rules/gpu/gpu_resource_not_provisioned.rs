//! Pods with accelerators ask for a resource that Karpenter cannot provide.
//!
//! # Why
//! Karpenter knows the devices that an instance type has: `nvidia.com/gpu`, `aws.amazon.com/neuron` and
//! a few more. MIG slices, shared GPUs, names of other plugins and huge pages, for which examples with EFA
//! ask (`hugepages-2Mi`), appear only when a node is running. For a pod that asks for one Karpenter never
//! starts a node: it stays Pending unless a node with a free one is already there. It is an error where the
//! pods select a NodePool by name, and advice where they do not select nodes of Karpenter.
//!
//! # Fix
//! Ask for `nvidia.com/gpu`; run such pods on a managed node group or a static NodePool; or declare the
//! capacity in a NodeOverlay.
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
//!        nodeSelector: {karpenter.sh/nodepool: gpu}
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//!              limits:
//! -              nvidia.com/mig-1g.10gb: 1 # <-
//! +              nvidia.com/gpu: 1
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/729>

use std::collections::BTreeMap;

use crate::karpenter::minors::gate;
use crate::rules::gpu::gpu_resource_unknown::renames_shares;
use crate::rules::gpu::gpu_templates;
use crate::rules::karpenter_in_use::{
    READS, are_no_others, is_on_karpenter, is_surely_on_karpenter, karpenter_object, shown_by,
};
use crate::rules::prelude::*;
use crate::workload::gpu::INSTANCE_RESOURCES;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-resource-not-provisioned",
    kinds: WORKLOAD_KINDS,
    reads: kinds![READS, [Kind::NODE_OVERLAY, Kind::CONFIG_MAP, Kind::PROVISIONER]],
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("gpu_resource_not_provisioned.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object, ctx) {
        if template.spec.get("nodeName").is_set() || !is_on_karpenter(&template, ctx) {
            continue;
        }
        for (resource, devices) in pod_devices(&template) {
            if is_accelerator(resource) && !INSTANCE_RESOURCES.contains(&resource) {
                inspect(object, &template, resource, &devices.node, ctx);
            }
        }
        for (resource, node) in huge_pages(&template) {
            inspect(object, &template, resource, &node, ctx);
        }
    }
    None
}

/// The prefix of the names of huge pages.
pub(in crate::rules) const HUGE_PAGES: &str = "hugepages-";

/// The huge pages that the containers of a pod request, with the first amount of each size. No instance type has any: provider
/// `pkg/providers/instancetype/types.go` (`computeCapacity`).
fn huge_pages<'a>(template: &Template<'a>) -> BTreeMap<&'a str, Node<'a>> {
    let mut out = BTreeMap::new();
    for container in template.all_containers() {
        for side in ["limits", "requests"] {
            for (name, node) in container.path(&["resources", side]).entries() {
                let asks = || Quantity::at(&node).is_some_and(|amount| amount.milli() > 0);
                if name.starts_with(HUGE_PAGES) && asks() {
                    out.entry(name).or_insert(node);
                }
            }
        }
    }
    out
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    resource: &str,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let views = ctx.cluster().views();
    if resource.starts_with("google.com/") || views.may_be_overlaid(resource) {
        return None;
    }
    // Nodes of a static pool exist before the pods.
    if views.has_static_pool() {
        return None;
    }
    let labels = referenced_labels(template);
    let mut required = labels.iter().filter(|label| label.usage == LabelUse::Required);
    let surely = required.any(|label| {
        let pools = label.values.iter().filter_map(Node::text);
        label.key == "karpenter.sh/nodepool" && pools.into_iter().count() > 0
    });
    let is_share = resource.ends_with(".shared");
    let is_karpenters = is_surely_on_karpenter(template, ctx) || are_no_others(template, ctx);
    let severity = match (surely, is_karpenters) {
        (true, _) => Severity::Error,
        (false, true) => Severity::Warning,
        // The plugin of this cluster makes the name.
        (false, false) if is_share && renames_shares(ctx) => Severity::Warning,
        (false, false) => Severity::Info,
    };
    let name = object.display_name();
    let message = format!("`{name}` asks for `{resource}`, for which Karpenter starts no node");
    let beside = |known: &str| pod_devices(template).contains_key(known);
    // An object of the old API is of a Karpenter that knows no NodeOverlays.
    let is_known = gate("NodeOverlay").is_some_and(|gate| gate.state(ctx.platform().karpenter).is_some());
    let has_overlays = is_known && !ctx.cluster().has_any(Kind::PROVISIONER);
    let (help, overlay) = match resource {
        "aws.amazon.com/neurondevice" if beside("aws.amazon.com/neuron") => (
            "remove it: `aws.amazon.com/neuron`, which is requested too, is the resource that Karpenter knows",
            "",
        ),
        name if name.starts_with("aws.amazon.com/") => {
            ("ask for `aws.amazon.com/neuron`", ", or declare the resource in a NodeOverlay")
        }
        _ if is_share => (
            "ask for `nvidia.com/gpu`, with `renameByDefault: false` in the plugin's configuration",
            ", or declare it in a NodeOverlay",
        ),
        name if name.starts_with("nvidia.com/") => {
            ("ask for `nvidia.com/gpu`, use nodes that already exist", ", or declare it in a NodeOverlay")
        }
        name if name.starts_with(HUGE_PAGES) => (
            "remove it",
            ", or declare it in a NodeOverlay for nodes whose image or user data reserves the pages",
        ),
        _ => ("use nodes that already exist", ", or declare the resource in a NodeOverlay"),
    };
    let help = format!("{help}{}", if has_overlays { overlay } else { "" });
    let shown = karpenter_object(ctx);
    let finding = ctx.report(node, message);
    finding.at_key().severity(severity).help(help);
    shown_by(finding, shown);
    None
}
