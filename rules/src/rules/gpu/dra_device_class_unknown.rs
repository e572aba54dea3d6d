//! A claim names a device class that NVIDIA's driver does not install.
//!
//! # Why
//! A claim of a class that does not exist is never allocated, and its pods stay Pending. NVIDIA's
//! driver installs `gpu.nvidia.com`, `mig.nvidia.com`, `vfio.gpu.nvidia.com` and two classes for
//! compute domains. Another name under `nvidia.com` may be a class of your own, but none of the input
//! is called so.
//!
//! The chart of the driver installs the classes for GPUs only with `resources.gpus.enabled`. Where its values in
//! the input turn that off, a claim of them is a warning. Where they leave it on, the chart fails without
//! `gpuResourcesEnabledOverride: true`, and nothing of the driver is installed or upgraded.
//!
//! # Fix
//! Name one of the driver's classes, or add the DeviceClass to the input. Turn the classes on in the values of
//! the chart, on nodes without NVIDIA's device plugin.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaimTemplate
//!  metadata: {name: whole, ownerReferences: []}
//!  spec:
//!    spec:
//!      devices:
//!        requests:
//!          - name: gpu
//!            exactly:
//! -            deviceClassName: gpus.nvidia.com # <-
//! +            deviceClassName: gpu.nvidia.com
//! ```
//!
//! # References
//! - <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu>

use crate::cluster::objects::Lookup;
use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::rules::gpu::dra_claims::NVIDIA_CLASSES;
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::workload::charts::{installs, is_for_other_cluster};
use crate::workload::dra::class_blocks;

pub(crate) static RULE: Rule = Rule {
    id: "dra-device-class-unknown",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: kinds![VERSIONED_CHARTS, [Kind::DEVICE_CLASS]],
    reports_absence: true,
    docs: docs(include_str!("dra_device_class_unknown.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

/// The names of the driver's chart, with the last minor version whose templates were read: `validation.yaml` and
/// `deviceclass-*.yaml` of 25.3 to 25.12, and of 0.4 and 0.5 under the later name.
const CHARTS: [(&str, Version); 2] =
    [("nvidia-dra-driver-gpu", Version::new(25, 12)), ("dra-driver-nvidia-gpu", Version::new(0, 5))];
/// The classes that the chart installs for GPUs.
const OF_GPUS: [&str; 3] = ["gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        return of_chart(object, ctx);
    }
    for block in class_blocks(object) {
        let class = block.get("deviceClassName");
        let Some(name) = class.text() else { continue };
        let vendors = name == "nvidia.com" || name.ends_with(".nvidia.com");
        if OF_GPUS.contains(&name) {
            turned_off(&class, name, ctx);
        }
        if !vendors || NVIDIA_CLASSES.contains(&name) {
            continue;
        }
        if matches!(ctx.cluster().find(Kind::DEVICE_CLASS, "default", name), Lookup::Found(_)) {
            continue;
        }
        let finding =
            ctx.report(&class, format!("NVIDIA's driver has no class `{name}`, nor does the input"));
        match nearest(name, NVIDIA_CLASSES) {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding.help("name `gpu.nvidia.com` or `mig.nvidia.com`, or add the DeviceClass"),
        };
    }
    None
}

/// Whether the values of a chart enable the classes for GPUs. `None` if that is unknown, or the object does not install the driver.
fn enables_gpus(installer: &Object) -> Option<bool> {
    let mut found = None;
    for (chart, _) in CHARTS {
        for_each_values(installer, chart, |values| {
            let enabled = values.root.path(&["resources", "gpus", "enabled"]);
            let is_known = !values.may_differ && !values.root.has_unknown_key() && !enabled.is_unknown();
            found = Some((if enabled.is_set() { enabled.bool() } else { Some(true) }).filter(|_| is_known));
        });
    }
    found?
}

/// Reports a class that the values of the only chart of the driver in the input turn off.
fn turned_off(class: &Node<'_>, name: &str, ctx: &mut Context<'_>) -> Option<()> {
    if matches!(ctx.cluster().find(Kind::DEVICE_CLASS, "default", name), Lookup::Found(_)) {
        return None;
    }
    let is_driver = |one: &&Object| {
        CHARTS.iter().any(|(chart, _)| installs(one, chart))
            && !is_for_other_cluster(one)
            && ctx.pairs_with(one)
    };
    let drivers: Vec<&Object> = chart_installers(ctx.cluster()).filter(is_driver).collect();
    let [driver] = drivers.as_slice() else { return None };
    let is_changed = driver.may_lack_fields() || driver.path(&["spec", "postRenderers"]).is_set();
    if is_changed || enables_gpus(driver)? {
        return None;
    }
    let message = format!("the values of NVIDIA's driver turn class `{name}` off: the pods stay Pending");
    ctx.report(class, message)
        .severity(Severity::Warning)
        .help("write `resources.gpus.enabled: true` and `gpuResourcesEnabledOverride: true` in its values")
        .related(driver, &driver.path(&["metadata", "name"]), "installs the driver");
    None
}

/// Reports values with which the chart of the driver cannot be rendered.
fn of_chart(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_for_other_cluster(object) {
        return None;
    }
    for (chart, last) in CHARTS {
        let version = chart_version(object, chart, ctx.cluster()).and_then(Version::parse);
        if version.is_none_or(|version| version > last) {
            continue;
        }
        let mut places = Vec::new();
        for_each_values(object, chart, |values| {
            let root = values.root;
            let enabled = root.path(&["resources", "gpus", "enabled"]);
            let forced = root.get("gpuResourcesEnabledOverride");
            let is_on = !enabled.is_set() || enabled.bool() == Some(true);
            let is_forced = forced.is_unknown() || forced.is_set() && forced.bool() != Some(false);
            if is_on && !enabled.is_unknown() && !is_forced && !values.may_differ && !root.has_unknown_key() {
                places.push(values.place(&enabled, object));
            }
        });
        for place in places {
            let message = "the chart fails: `resources.gpus.enabled`, true by default, needs `gpuResourcesEnabledOverride`";
            report_place(&place, message.to_owned(), ctx)
                .reports_absence(false)
                .severity(Severity::Warning)
                .help(
                    "write `gpuResourcesEnabledOverride: true`, or turn GPUs off for compute domains alone",
                );
        }
    }
    None
}
