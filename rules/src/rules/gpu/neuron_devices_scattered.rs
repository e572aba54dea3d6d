//! A container gets some of a node's Neuron devices from the default scheduler.
//!
//! # Why
//! Neuron's runtime needs devices that are connected with each other. The kubelet takes any that are free:
//! once several pods share a node, those of one container may lie apart, and the runtime ends. Neuron's
//! scheduler extension chooses neighbours on Inf1, Inf2 and Trn1, and is required for containers with
//! more than one device or core, unless they have all of the node. On EKS it runs in a second scheduler,
//! which pods name in `schedulerName`, since the default one cannot be extended. On `trn1.32xlarge` it
//! gives 1, 4, 8 or all 16 devices, and no other number.
//!
//! # Fix
//! Install the extension and name its scheduler. Or ask for one device, or for all of the instance type.
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
//!        nodeSelector: {node.kubernetes.io/instance-type: inf2.48xlarge}
//! +      schedulerName: neuron-scheduler
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 40, memory: 160Gi}
//!              limits: {aws.amazon.com/neuron: 4} # <-
//! ```
//!
//! # References
//! - <https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/tutorials/k8s-neuron-scheduler.html>
//! - <https://github.com/aws-neuron/aws-neuron-sdk/issues/110>
//! - <https://github.com/aws/containers-roadmap/issues/1735>

use super::{gpu_templates, selected_types};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "neuron-devices-scattered",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE, Kind::NODE_POOL],
    docs: docs(include_str!("neuron_devices_scattered.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// Resources of Neuron's device plugin, each with the one by which the catalogue counts it, and what it is.
const RESOURCES: [(&str, &str, &str); 3] = [
    ("aws.amazon.com/neuron", "aws.amazon.com/neuron", "devices"),
    ("aws.amazon.com/neurondevice", "aws.amazon.com/neuron", "devices"),
    ("aws.amazon.com/neuroncore", "aws.amazon.com/neuroncore", "cores"),
];
/// Families for which the manual of the extension describes what it chooses. Later ones join cores.
const FAMILIES: [&str; 4] = ["inf1", "inf2", "trn1", "trn1n"];
/// The numbers of devices that the extension gives on `trn1.32xlarge` and `trn1n.32xlarge`.
const OF_TRN1: [i64; 4] = [1, 4, 8, 16];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Volcano schedules its own Jobs.
    if object.is(Kind::VOLCANO_JOB)
        || object.path(&["spec", "schedulerName"]).is_set() && !object.is(Kind::POD)
        || is_for_scheduler(&object.get("metadata"))
    {
        return None;
    }
    for template in gpu_templates(object, ctx) {
        let scheduler = template.spec.get("schedulerName");
        let is_named = scheduler.is_set() && scheduler.text() != Some("default-scheduler");
        if is_named || is_for_scheduler(&template.metadata) {
            continue;
        }
        for container in template.all_containers() {
            inspect(object, &template, &container, ctx);
        }
    }
    None
}

/// Whether labels or annotations are those of another scheduler. KubeRay and the webhooks of Volcano and YuniKorn then write its name
/// into the pods.
fn is_for_scheduler(metadata: &Node<'_>) -> bool {
    const SIGNS: [&str; 4] =
        ["ray.io/scheduler-name", "volcano.sh/", "yunikorn.apache.org/", "kai.scheduler/"];
    ["labels", "annotations"].into_iter().any(|field| {
        let entries = metadata.get(field).entries();
        entries.iter().any(|(key, _)| SIGNS.iter().any(|sign| key.starts_with(sign)))
    })
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (resource, counted, what, devices) = RESOURCES.iter().find_map(|(resource, counted, what)| {
        Some((*resource, *counted, *what, devices_of(container, resource)?))
    })?;
    let count = devices.count;
    if count < 2 {
        return None;
    }
    let (types, pool) = selected_types(template, ctx)?;
    // The others have no node for the pod.
    let large: Vec<_> = types.iter().filter(|one| i64::from(one.devices(counted)) >= count).collect();
    let is_part =
        large.iter().all(|one| FAMILIES.contains(&one.family()) && i64::from(one.devices(counted)) > count);
    let first = large.first().filter(|_| is_part)?;
    let is_trn1 = large.iter().all(|one| one.family().starts_with("trn1"));
    let help = if is_trn1 && what == "devices" && !OF_TRN1.contains(&count) {
        format!(
            "name a scheduler with Neuron's extension and ask for 1, 4, 8 or 16: it gives no other number on `{}`",
            first.name
        )
    } else {
        format!(
            "name a scheduler with Neuron's extension, or ask for 1 or all of the {what} of the instance type"
        )
    };
    let message = format!(
        "`{}` gets {count} of the {} {what} of `{}`, which may not be contiguous: Neuron needs adjacent ones",
        object.display_name(),
        first.devices(counted),
        first.name
    );
    let finding = ctx.report(&devices.node, message);
    finding.identified_by(resource).help(help);
    if let Some(pool) = pool {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "the pool");
    }
    None
}
