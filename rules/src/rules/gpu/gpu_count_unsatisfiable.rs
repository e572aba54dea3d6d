//! A pod asks for a number of accelerators that no node has.
//!
//! # Why
//! The containers of a pod run on one node. No EC2 instance type has more than 8 NVIDIA GPUs, and types
//! have 1, 2, 4 or 8 of them: a pod that asks for 9 never starts, and one that asks for 3 gets a node
//! with 4 or 8, of which the others are paid for. Where the pod selects instance types, their number
//! counts. This is an error where the input shows that Karpenter starts the node; a number between the
//! sizes is advice.
//!
//! # Fix
//! Spread the work over several pods, or ask for 1, 2, 4 or 8.
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
//!        nodeSelector: {karpenter.k8s.aws/instance-family: g6e}
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 40, memory: 160Gi}
//! -            limits: {nvidia.com/gpu: 16} # <-
//! +            limits: {nvidia.com/gpu: 8}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/instance-types/>
//! - <https://aws.amazon.com/ec2/instance-types/#Accelerated_Computing>

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::catalog;
use crate::rules::gpu::{gpu_templates, types_by_label};
use crate::rules::karpenter_in_use::{READS, is_on_karpenter, karpenter_object, shown_by};
use crate::rules::prelude::*;
use crate::workload::gpu::EFA;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-count-unsatisfiable",
    kinds: WORKLOAD_KINDS,
    reads: READS,
    docs: docs(include_str!("gpu_count_unsatisfiable.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object, ctx) {
        for (resource, devices) in pod_devices(&template) {
            if is_counted(resource) {
                inspect(object, &template, resource, devices.count, &devices.node, ctx);
            }
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    resource: &str,
    count: i64,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = object.display_name();
    if let Some(types) = types_by_label(template) {
        let most = most_of(&types, resource);
        if count <= most {
            return None;
        }
        let which = types.iter().max_by_key(|t| t.devices(resource))?;
        let message = match most {
            0 => format!("`{name}` asks for `{resource}` on `{}`, which has none", which.name),
            _ => format!("`{name}` asks for {count} `{resource}`, and `{}` has {most}", which.name),
        };
        ctx.report(node, message).help("ask for what the selected instance types have, or select others");
        return None;
    }
    let offered = offered(resource)?;
    let most = offered.last().copied()?;
    if offered.contains(&count) {
        return None;
    }
    let on_karpenter = is_on_karpenter(template, ctx);
    let shown = karpenter_object(ctx).filter(|_| on_karpenter);
    if count > most {
        let severity = severity(on_karpenter, resource, ctx)?;
        let message =
            format!("`{name}` asks for {count} `{resource}`, and no EC2 instance has more than {most}");
        let finding = ctx.report(node, message);
        finding
            .severity(severity)
            .help("spread the work over several pods: the containers of a pod run on one node");
        shown_by(finding, shown);
    } else if on_karpenter && resource == "nvidia.com/gpu" {
        let next = offered.iter().find(|n| **n > count)?;
        let message =
            format!("`{name}` asks for {count} GPUs, which no EC2 instance has: the next size has {next}");
        let finding = ctx.report(node, message);
        finding
            .severity(Severity::Info)
            .help("ask for 1, 2, 4 or 8, or let other pods use what is left of the node");
        shown_by(finding, shown);
    }
    None
}

/// The most devices of a resource that one of some types has.
fn most_of(types: &TypeSet, resource: &str) -> i64 {
    types.iter().map(|one| i64::from(one.devices(resource))).max().unwrap_or(0)
}

/// How sure it is that no machine has more devices than the largest instance type of EC2: machines elsewhere may.
fn severity(on_karpenter: bool, resource: &str, ctx: &Context<'_>) -> Option<Severity> {
    match (on_karpenter, resource) {
        (true, _) => Some(Severity::Error),
        (false, "nvidia.com/gpu") if ctx.platform().eks => Some(Severity::Warning),
        _ => None,
    }
}

/// Whether a pod is reported because it asks for more devices than a node has.
pub(in crate::rules) fn asks_for_too_many(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    // This rule leaves a pod with EFA and no accelerator alone.
    if !requests_device_plugin(template.place.0) {
        return false;
    }
    let devices = pod_devices(template);
    let mut counts = devices.iter().filter(|(resource, _)| is_counted(resource));
    counts.any(|(resource, devices)| match types_by_label(template) {
        Some(types) => devices.count > most_of(&types, resource),
        None => {
            offered(resource).and_then(BTreeSet::last).is_some_and(|most| devices.count > *most)
                && severity(is_on_karpenter(template, ctx), resource, ctx).is_some()
        }
    })
}

fn is_counted(resource: &str) -> bool {
    KARPENTER_ACCELERATORS.contains(&resource) || resource == EFA
}

/// The counts of a resource that current instance types have.
fn offered(resource: &str) -> Option<&'static BTreeSet<i64>> {
    static OFFERED: LazyLock<HashMap<&'static str, BTreeSet<i64>>> = LazyLock::new(|| {
        let current = || catalog::all().iter().filter(|instance| !instance.is_retired());
        let numbers = |resource: &str| {
            current().map(|instance| i64::from(instance.devices(resource))).filter(|n| *n > 0).collect()
        };
        let resources = KARPENTER_ACCELERATORS.iter().copied().chain([EFA]);
        resources.map(|resource| (resource, numbers(resource))).collect()
    });
    OFFERED.get(resource)
}
