//! A container chooses GPUs by a variable and sees those of others, or none.
//!
//! # Why
//! The device plugin tells the runtime in `NVIDIA_VISIBLE_DEVICES` which GPUs a container gets. A
//! container that writes the variable itself replaces that choice: with `all` it sees every GPU of the
//! node, those of other pods included, and two pods share memory and compute that each was promised
//! alone. It is a warning where the nodes of the pods are known to have more GPUs than the container
//! requests, and advice where they are not known; nothing is reported where the container gets all GPUs
//! of its node anyway.
//!
//! Images of CUDA and of what is built on them set the variable to `all` themselves. With `nvidia.com/gpu:
//! 0` the device plugin leaves it as it is: on a node with GPUs such a container sees all of them. It is a
//! warning where the pods select nodes with GPUs, and information where they only tolerate their taint.
//!
//! `CUDA_VISIBLE_DEVICES` chooses among the GPUs of the container, which CUDA counts from 0, whatever their
//! numbers on the node are. CUDA stops at the first number that is too large: `2,3` in a container with two
//! GPUs hides both, and the program runs on the CPU or ends. With a UUID, `GPU-…` or `MIG-…`, it names one
//! device of one node. The device plugin gives the container whichever is free, mostly another one, which
//! is hidden then. A word such as `all`, which `NVIDIA_VISIBLE_DEVICES` has, is not a number to CUDA, and
//! hides all of them; likewise for the variables of ROCm and of the Neuron runtime.
//!
//! # Fix
//! Remove the variable, or the toleration and the selector of a pod that needs no GPU. `void` and `none` of
//! `NVIDIA_VISIBLE_DEVICES` are for containers that are to see none.
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
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            env:
//!              - {name: BATCH, value: "64"}
//! -            - name: NVIDIA_VISIBLE_DEVICES
//! -              value: all # <-
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html>
//! - <https://github.com/NVIDIA/k8s-device-plugin>
//! - <https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables>
//! - <https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html>

use crate::catalog::GPUS_OF_WHOLE_NODE;
use crate::rules::gpu::{is_left_alone, pools_by_label, selected_types};
use crate::rules::prelude::*;
use crate::rules::scheduling::has_nvidia_gpus;
use crate::workload::devices::extended_resources_of;
use crate::workload::environment::{entry, may_define, variable};
use crate::workload::gpu_nodes::requires_gpu_nodes;
use crate::workload::mig::{is_device_uuid, is_mig_resource};

pub(crate) static RULE: Rule = Rule {
    id: "visible-devices-all",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE, Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("visible_devices_all.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

const GPU: &str = "nvidia.com/gpu";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !is_left_alone(object, ctx) && !is_test(object) && !object.may_lack_fields() {
        for template in templates(object) {
            for container in template.containers() {
                asks_for_none(object, &template, &container, ctx);
            }
        }
    }
    if !requests_device_plugin(object) || is_left_alone(object, ctx) || is_test(object) {
        return None;
    }
    for template in templates(object) {
        for container in template.all_containers() {
            named_by_uuid(&template, &container, ctx);
            named_by_word(&container, ctx);
            let Some(devices) = devices_of(&container, GPU) else { continue };
            for variable in container.get("env").items() {
                if variable.get("name").text() == Some("NVIDIA_VISIBLE_DEVICES") {
                    inspect(&template, &variable, devices.count, ctx);
                }
            }
            hidden(&container, devices.count, ctx);
        }
    }
    None
}

/// Repositories of images that set the variable to `all` for what runs in them (their Dockerfiles, November 2026).
const WITH_ALL: [&str; 3] = ["nvidia/cuda", "pytorch/pytorch", "vllm/vllm-openai"];
/// The registry of NVIDIA's images with CUDA. Those for clusters are below `k8s/` and `cloud-native/`.
const OF_NVIDIA: &str = "nvcr.io/nvidia/";

/// Reports an explicit request of no GPU in an image that asks the runtime for all of them.
fn asks_for_none(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let amounts = ["limits", "requests"].map(|side| container.path(&["resources", side, GPU]));
    let zero =
        amounts.into_iter().find(|amount| Quantity::at(amount).is_some_and(|amount| amount.is_zero()))?;
    let image = image_of(container)?;
    let has_all = WITH_ALL.iter().any(|name| image.is(name))
        || image.name.strip_prefix(OF_NVIDIA).is_some_and(|rest| !rest.contains('/'));
    let others = pod_devices(template).into_keys().any(is_accelerator);
    if !has_all || others || may_define(container, |name| name == "NVIDIA_VISIBLE_DEVICES") {
        return None;
    }
    let has_gpus = |pool: &Object| NodePool::new(pool).is_some_and(|pool| has_nvidia_gpus(&pool));
    let pools = pools_by_label(template, ctx);
    let selects =
        requires_gpu_nodes(template) || !pools.is_empty() && pools.iter().all(|pool| has_gpus(pool));
    let tolerates = template.spec.get("tolerations").items().any(|one| one.get("key").text() == Some(GPU));
    if !selects && !tolerates {
        return None;
    }
    let name = ellipsize(container.get("name").text().unwrap_or("main"));
    let message = format!(
        "container `{name}` of `{}` sees all GPUs of its node: its image asks for them, and no request replaces that",
        object.display_name()
    );
    ctx.report(&zero, message)
        .severity(if selects { Severity::Warning } else { Severity::Info })
        .help("set `NVIDIA_VISIBLE_DEVICES` to `void`, or run the pod on nodes without GPUs");
    None
}

/// Reports the UUID of a device, which a container of another node, or beside others, does not get. A pod that names its node may have been
/// written for its devices.
fn named_by_uuid(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let requested = extended_resources_of(container);
    if !requested.iter().any(|name| *name == GPU || is_mig_resource(name)) {
        return None;
    }
    let (text, value) = variable(container, "CUDA_VISIBLE_DEVICES")??;
    let first = text.split(',').next()?.trim();
    let is_uuid = (first.starts_with("GPU-") || first.starts_with("MIG-")) && is_device_uuid(first);
    let names_node = template.spec.get("nodeName").is_set()
        || referenced_labels(template).iter().any(|label| label.key == "kubernetes.io/hostname");
    if !is_uuid || names_node || may_see_more(container) || fills_node(container) {
        return None;
    }
    let kind = if first.starts_with("MIG") { "MIG device" } else { "GPU" };
    let message = format!(
        "`CUDA_VISIBLE_DEVICES` names one {kind} of one node, and the device plugin gives the container any of them"
    );
    ctx.report(&value, message)
        .help("remove the variable: CUDA finds the device that the container gets, and no other");
    None
}

/// Whether a container gets all GPUs of its node.
fn fills_node(container: &Node<'_>) -> bool {
    devices_of(container, GPU).is_some_and(|devices| devices.count >= i64::from(GPUS_OF_WHOLE_NODE))
}

/// Whether a container may see other GPUs than those that the device plugin gives it: it names them to the runtime, or it is privileged and sees
/// all of its node.
fn may_see_more(container: &Node<'_>) -> bool {
    let context = container.get("securityContext");
    entry(container, "NVIDIA_VISIBLE_DEVICES").is_some()
        || context.has_unknown()
        || context.get("privileged").bool() == Some(true)
}

/// The prefixes of resources, and the variables with which their runtimes choose among the devices of a container by
/// number. CUDA and ROCr take UUIDs as well (documentation of CUDA 12 and 13, of ROCm 5.4 to 7.1, of the Neuron
/// runtime 2.20 to 2.26).
const CHOICES: [(&str, &[&str], &str); 3] = [
    ("nvidia.com/", &["CUDA_VISIBLE_DEVICES"], "the program sees no GPU"),
    (
        "amd.com/",
        &["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"],
        "the program sees no GPU",
    ),
    ("aws.amazon.com/neuron", &["NEURON_RT_VISIBLE_CORES"], "the runtime does not start"),
];

/// Reports a word in the place of numbers: `all`, `auto`, `true`.
fn named_by_word(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    /// Words that hide all devices on purpose.
    const NONE: [&str; 4] = ["none", "void", "nodevfiles", "null"];
    let requested = extended_resources_of(container);
    let of_vendor = |prefix: &str| requested.iter().any(|name| name.starts_with(prefix));
    let (_, names, effect) = CHOICES.into_iter().find(|(prefix, ..)| of_vendor(prefix))?;
    let line = command_line(container);
    for name in names {
        let Some(Some((text, value))) = variable(container, name) else { continue };
        let first = text.split(',').next().unwrap_or_default().trim();
        let is_word = first.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_device = first.starts_with("GPU-") || first.starts_with("MIG-");
        // A script may replace it.
        let is_set_again = line.contains(&format!("{name}="));
        if !is_word || is_device || is_set_again || NONE.contains(&&*first.to_ascii_lowercase()) {
            continue;
        }
        ctx.report(
            &value,
            format!("`{name}: {}` is not a list of device numbers: {effect}", ellipsize(&text)),
        )
        .help("remove the variable: without it the program uses all devices of its container");
    }
    Some(())
}

/// Reports numbers of GPUs of which the first is too large, so that CUDA shows none.
fn hidden(container: &Node<'_>, gpus: i64, ctx: &mut Context<'_>) -> Option<()> {
    let (text, value) = variable(container, "CUDA_VISIBLE_DEVICES")??;
    let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    let first = *numbers?.first()?;
    if may_see_more(container) || i64::from(first) < gpus {
        return None;
    }
    let last = gpus - 1;
    let has = if last == 0 { "its only GPU is 0".to_owned() } else { format!("its GPUs are 0 to {last}") };
    let message =
        format!("`CUDA_VISIBLE_DEVICES: {}` hides every GPU of the container: {has}", ellipsize(&text));
    ctx.report(&value, message).help("remove the variable: CUDA counts the GPUs of the container from 0");
    None
}

fn inspect(template: &Template<'_>, variable: &Node<'_>, gpus: i64, ctx: &mut Context<'_>) -> Option<()> {
    let value = variable.get("value");
    let text = value.string_or_number()?;
    if matches!(&*text, "" | "void" | "none") || gpus >= i64::from(GPUS_OF_WHOLE_NODE) {
        return None;
    }
    let nodes = selected_types(template, ctx);
    let most = nodes.as_ref().and_then(|(types, _)| types.iter().map(|kind| kind.devices(GPU)).max());
    if most.is_some_and(|most| i64::from(most) <= gpus) {
        return None;
    }
    let severity = if most.is_some() { Severity::Warning } else { Severity::Info };
    let name = ctx.object().display_name();
    let plural = if gpus == 1 { "GPU" } else { "GPUs" };
    let message =
        format!("`{name}` requests {gpus} {plural} and sees `{text}`: it overrides the device plugin");
    let finding = ctx.report(&value, message);
    finding
        .severity(severity)
        .help("remove the variable: the device plugin sets it")
        .fix(Fix::new("leave the choice to the device plugin", Safety::Unsafe).remove(variable));
    if let Some((_, Some(pool))) = nodes {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "its nodes have more GPUs");
    }
    None
}
