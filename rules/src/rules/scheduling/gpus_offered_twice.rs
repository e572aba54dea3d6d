//! NVIDIA's DRA driver and its device plugin offer the same GPUs.
//!
//! # Why
//! The DRA driver offers each GPU of a node to claims, and the device plugin offers each to requests of
//! `nvidia.com/gpu`. Neither knows what the other has given away: two pods get one GPU, and the second runs out
//! of memory or slows the first down. The chart of the driver forbids GPUs for claims for this reason, and
//! `gpuResourcesEnabledOverride: true` states that there is no device plugin.
//!
//! Where the driver selects its nodes it is left alone, because the plugin may run on the others, and so it is
//! where a DeviceClass stands for the extended resource (`DRAExtendedResource`).
//!
//! # Fix
//! Turn GPUs off in the driver, which then serves ComputeDomains alone, or turn the plugin off
//! (`devicePlugin.enabled: false` in the GPU operator).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: dra-driver, namespace: nvidia}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: nvidia-dra-driver-gpu
//!        version: 25.12.0
//!        sourceRef: {kind: HelmRepository, name: nvidia}
//!    values:
//! -    gpuResourcesEnabledOverride: true # <-
//!      resources:
//!        gpus:
//! -        enabled: true
//! +        enabled: false
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: gpu-operator, namespace: nvidia}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: gpu-operator
//!        version: v25.10.1
//!        sourceRef: {kind: HelmRepository, name: nvidia}
//!    values: {driver: {enabled: false}, toolkit: {enabled: false}}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/aicr/pull/332>
//! - <https://github.com/kubernetes/enhancements/issues/5004>

use super::node_helpers::helpers;
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, find_in_values, is_for_other_cluster};

pub(crate) static RULE: Rule = Rule {
    id: "gpus-offered-twice",
    kinds: &CHART_KINDS,
    reads: &[
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
        Kind::DAEMON_SET,
        Kind::CLUSTER_POLICY,
        Kind::DEVICE_CLASS,
        Kind::NODE_POOL,
    ],
    docs: docs(include_str!("gpus_offered_twice.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The names of the driver's chart.
const DRIVERS: [&str; 2] = ["nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu"];
/// The charts with the plugin, which is on unless `devicePlugin.enabled` is false.
const PLUGINS: [&str; 2] = ["gpu-operator", "nvidia-device-plugin"];
/// The label with which the GPU operator leaves its plugin out of a node.
const DEPLOYED: &str = "nvidia.com/gpu.deploy.device-plugin";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_for_other_cluster(object) {
        return None;
    }
    for chart in DRIVERS {
        for_each_values(object, chart, |values| _ = inspect(values, ctx));
    }
    None
}

fn inspect(values: &ChartValues<'_, '_>, ctx: &mut Context<'_>) -> Option<()> {
    let forced = values.root.get("gpuResourcesEnabledOverride");
    let enabled = values.root.path(&["resources", "gpus", "enabled"]);
    let is_on = forced.bool() == Some(true) && (!enabled.is_set() || enabled.bool() == Some(true));
    let selects = |field: &str| !values.root.path(&["kubeletPlugin", field]).entries().is_empty();
    if !is_on || values.may_differ || ["nodeSelector", "affinity"].into_iter().any(selects) {
        return None;
    }
    let cluster = ctx.cluster();
    let mut classes = cluster.of(Kind::DEVICE_CLASS);
    let mut pools = cluster.of(Kind::NODE_POOL);
    let may_be_apart = classes.any(|class| class.path(&["spec", "extendedResourceName"]).is_set())
        || pools.any(|pool| pool.path(&["spec", "template", "metadata", "labels", DEPLOYED]).is_set());
    let plugin = plugin(ctx).filter(|_| !may_be_apart)?;
    let message = format!(
        "GPUs are offered to claims although the device plugin of `{}` offers them as `nvidia.com/gpu`",
        plugin.display_name()
    );
    report_value(values, &forced, message, ctx)
        .help("write `resources.gpus.enabled: false`, or turn the device plugin off")
        .related(plugin, &plugin.path(&["metadata", "name"]), "the device plugin");
    None
}

/// An object of the cluster that runs NVIDIA's device plugin.
fn plugin<'a>(ctx: &Context<'a>) -> Option<&'a Object> {
    let cluster = ctx.cluster();
    let runs = |set: &&Object| {
        let is_plugin =
            |template: &Template<'_>| helpers(template).any(|helper| helper.image == "k8s-device-plugin");
        !set.may_lack_fields() && templates(set).iter().any(is_plugin)
    };
    let installs = |installer: &&Object| {
        let is_on = |values: &ChartValues<'_, '_>| {
            let switch = values.root.path(&["devicePlugin", "enabled"]);
            (!values.may_differ && (!switch.is_set() || switch.bool() == Some(true))).then_some(())
        };
        !installer.may_lack_fields()
            && PLUGINS.iter().any(|chart| find_in_values(installer, chart, is_on).is_some())
    };
    let deploys = |policy: &&Object| {
        let switch = policy.path(&["spec", "devicePlugin", "enabled"]);
        !policy.may_lack_fields() && (!switch.is_set() || switch.bool() == Some(true))
    };
    let mut sets = cluster.of(Kind::DAEMON_SET).filter(runs);
    let mut installers = chart_installers(cluster).filter(installs);
    let mut policies = cluster.of(Kind::CLUSTER_POLICY).filter(deploys);
    let near = |object: &&Object| ctx.pairs_with(object);
    sets.find(near).or_else(|| installers.find(near)).or_else(|| policies.find(near))
}
