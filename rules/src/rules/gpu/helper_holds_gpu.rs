//! A helper of GPU nodes requests a GPU, which no other pod can get.
//!
//! # Why
//! Exporters, device plugins and feature discovery run on each node beside the pods that work. A device is
//! given to one pod at a time, so that a helper that requests `nvidia.com/gpu: 1` keeps one GPU of each
//! node from them: the only one, or an eighth of a node. On nodes that are full the helper stays Pending
//! and the metrics of just these nodes are missing, and one that runs sees the GPU that it was given and no
//! other, unless it is privileged. Where the GPUs of the set are shared it takes a share, and that is
//! information. The device plugin waits for the resource that nobody but itself offers.
//!
//! # Fix
//! Remove the request. The images of the helpers see all devices by their own `NVIDIA_VISIBLE_DEVICES`, or by a
//! privileged security context where the container runtime ignores the variable.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: gpu-feature-discovery, namespace: gpu}
//!  spec:
//!    selector: {matchLabels: {app: gfd}}
//!    template:
//!      metadata: {labels: {app: gfd}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: nvcr.io/nvidia/gpu-feature-discovery:v0.17.4
//! -          resources:
//! -            requests: {cpu: 50m, memory: 128Mi}
//! -            limits: {memory: 256Mi, nvidia.com/gpu: 1} # <-
//! +          resources: {requests: {cpu: 50m, memory: 128Mi}, limits: {memory: 256Mi}}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/dcgm-exporter/blob/main/dcgm-exporter.yaml>
//! - <https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/>

use crate::rules::gpu::gpu_sharing_mismatch::{SHARING_SOURCES, shares_gpus};
use crate::rules::gpu::report_value;
use crate::rules::gpu::sharing::is_plugin;
use crate::rules::prelude::*;
use crate::workload::devices::{Devices, devices_in, extended_resources_in};

pub(crate) static RULE: Rule = Rule {
    id: "helper-holds-gpu",
    kinds: &[Kind::DAEMON_SET, Kind::CLUSTER_POLICY, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: &SHARING_SOURCES,
    docs: docs(include_str!("helper_holds_gpu.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// Names of images of device plugins, which offer the resource.
const PLUGINS: [&str; 3] = ["k8s-device-plugin", "neuron-device-plugin", "k8s-neuron-device-plugin"];
/// Names of images of other helpers: exporters, discovery, and the detector of problems. Their published manifests request no device.
const HELPERS: [&str; 9] = [
    "dcgm-exporter",
    "device-metrics-exporter",
    "gpu-feature-discovery",
    "neuron-monitor",
    "node-exporter",
    "node-feature-discovery",
    "node-problem-detector",
    "nvidia-gpu-exporter",
    "nvidia_gpu_exporter",
];

/// Charts, and the values with the resources of a helper: the name of its image, and the path.
const CHARTS: [(&str, &str, &[&str]); 7] = [
    ("dcgm-exporter", "dcgm-exporter", &["resources"]),
    ("nvidia-device-plugin", "k8s-device-plugin", &["resources"]),
    ("nvidia-device-plugin", "gpu-feature-discovery", &["gfd", "resources"]),
    ("gpu-operator", "dcgm-exporter", &["dcgmExporter", "resources"]),
    ("gpu-operator", "dcgm", &["dcgm", "resources"]),
    ("gpu-operator", "k8s-device-plugin", &["devicePlugin", "resources"]),
    ("gpu-operator", "gpu-feature-discovery", &["gfd", "resources"]),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::CLUSTER_POLICY) {
        for (_, name, path) in CHARTS.iter().filter(|(chart, ..)| *chart == "gpu-operator") {
            let Some((resource, devices)) = accelerator_in(&object.get("spec").path(path)) else { continue };
            let message = message(name, PLUGINS.contains(name), resource, devices.count);
            let severity = severity(ctx);
            ctx.report(&devices.node, message).severity(severity).help(HELP);
        }
    } else if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        for (chart, name, path) in CHARTS {
            for_each_values(object, chart, |values| {
                if let Some((resource, devices)) = accelerator_in(&values.root.path(path)) {
                    let message = message(name, PLUGINS.contains(&name), resource, devices.count);
                    let severity = severity(ctx);
                    report_value(values, &devices.node, message, ctx).severity(severity).help(HELP);
                }
            });
        }
    } else {
        for template in templates(object) {
            for container in template.all_containers() {
                of_container(&container, ctx);
            }
        }
    }
    None
}

const HELP: &str = "remove the request: the helper sees all devices of its node without one";

/// The severity of the finding: on a GPU that is shared, the helper takes one share.
fn severity(ctx: &Context<'_>) -> Severity {
    if shares_gpus(ctx) { Severity::Info } else { Severity::Warning }
}

fn of_container(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let image = images_of(container).find(|image| is_helper(image.last()))?;
    let (resource, devices) = accelerator_in(&container.get("resources"))?;
    let name = image.last();
    // The image of NVIDIA's plugin has other programs as well.
    let offers = PLUGINS.contains(&name) && (!resource.starts_with("nvidia.com/") || is_plugin(container));
    let message = message(name, offers, resource, devices.count);
    let severity = severity(ctx);
    ctx.report(&devices.node, message).severity(severity).help(HELP);
    None
}

fn is_helper(name: &str) -> bool {
    HELPERS.contains(&name) || PLUGINS.contains(&name)
}

/// The first accelerator that resources request.
fn accelerator_in<'a>(resources: &Node<'a>) -> Option<(&'a str, Devices<'a>)> {
    let mut names = extended_resources_in(resources).into_iter().filter(|name| is_accelerator(name));
    names.find_map(|name| Some((name, devices_in(resources, name)?)))
}

fn message(name: &str, offers: bool, resource: &str, count: i64) -> String {
    if offers {
        return format!("`{name}` requests `{resource}`, which nodes only have once it runs");
    }
    format!("`{name}` takes {count} `{resource}` of each node, which no other pod gets")
}
