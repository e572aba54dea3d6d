//! Pods ask for a GPU under a name that no device plugin has.
//!
//! # Why
//! The API server accepts any resource name with a domain. A pod that asks for `nvidia.com/gpus` or
//! `nvidia.com/mig-1g10gb` waits for a node that has such a resource, and none ever does. A MIG
//! profile that is spelled well but that no GPU offers is a warning.
//!
//! # Fix
//! Write the name that the device plugin advertises: `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`,
//! `aws.amazon.com/neuron`.
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
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//!              limits:
//! -              nvidia.com/gpus: 1 # <-
//! +              nvidia.com/gpu: 1
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/>
//! - <https://docs.nvidia.com/datacenter/tesla/mig-user-guide/>
//! - <https://github.com/NVIDIA/k8s-device-plugin>

use crate::facts::text::is_digits;
use crate::rules::prelude::*;
use crate::workload::mig::{is_known_profile, profile_of_resource};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-resource-unknown",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::CONFIG_MAP, Kind::DEVICE_CLASS, Kind::NODE_OVERLAY],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_resource_unknown.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Gpu)
};

/// Vendors, and the resources that their device plugins advertise. Resources of their other plugins are not listed.
const RESOURCES: [&str; 7] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "nvidia.com/gpu.shared",
    "google.com/tpu",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        for side in ["limits", "requests"] {
            for (name, amount) in container.path(&["resources", side]).entries() {
                let listed = side == "requests" && container.path(&["resources", "limits", name]).is_set();
                if !listed && name.contains('/') {
                    inspect(name, &amount, ctx);
                }
            }
        }
    }
    None
}

fn inspect(name: &str, amount: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(profile) = profile_of_resource(name) {
        if is_known_profile(&profile) || is_defined(name, ctx) {
            return None;
        }
        ctx.report(amount, format!("no GPU has the MIG profile `{profile}`"))
            .at_key()
            .severity(Severity::Warning)
            .help("name a profile that the GPU offers, such as `nvidia.com/mig-1g.10gb` on H100");
        return None;
    }
    let meant = meant(name)?;
    if is_defined(name, ctx) {
        return None;
    }
    let resources = ctx.object().root().at(&parent(amount));
    let target = resources.get(&meant);
    let finding =
        ctx.report(amount, format!("no device plugin has a resource `{name}`: the pods stay Pending"));
    finding.at_key().help(format!("write `{meant}`"));
    if target.is_absent() {
        finding.fix(Fix::new(format!("ask for `{meant}`"), Safety::Unsafe).move_to(amount, &target));
    }
    None
}

fn parent(node: &Node<'_>) -> crate::tree::pointer::Pointer {
    let pointer = node.pointer();
    let steps = pointer.steps();
    crate::tree::pointer::Pointer::from_steps(steps[..steps.len().saturating_sub(1)].iter().cloned())
}

/// The resource that a misspelled name stands for.
pub(in crate::rules) fn meant(name: &str) -> Option<String> {
    if RESOURCES.contains(&name) {
        return None;
    }
    let (domain, device) = name.split_once('/')?;
    let vendor = match domain {
        "nvidia.com" | "nvidia" | "www.nvidia.com" | "k8s.nvidia.com" => "nvidia.com",
        "amd.com" | "amd" => "amd.com",
        "aws.amazon.com" | "amazon.com" | "aws" | "amazonaws.com" => "aws.amazon.com",
        "habana.ai" | "habana" => "habana.ai",
        _ => return None,
    };
    let device = device.to_ascii_lowercase();
    let plain = match (vendor, device.as_str()) {
        ("nvidia.com" | "amd.com", "gpu" | "gpus" | "gpu-count" | "gpu_count") => "gpu",
        ("aws.amazon.com", "neuron" | "neurons" | "neuron-device" | "neurondevices") => "neuron",
        ("aws.amazon.com", "neuroncore" | "neuroncores" | "neuron-core" | "neuron-cores") => "neuroncore",
        ("habana.ai", "gaudi" | "gaudis") => "gaudi",
        ("nvidia.com", device) => return mig(device),
        _ => return None,
    };
    Some(format!("{vendor}/{plain}")).filter(|meant| meant != name)
}

/// The resource of a MIG profile that is misspelled: `mig-1g10gb`, `mig-1g-10gb`, `mig.1g.10gb`, `1g.10gb`.
fn mig(device: &str) -> Option<String> {
    let rest = device
        .strip_prefix("mig-")
        .or_else(|| device.strip_prefix("mig."))
        .or_else(|| device.strip_prefix("mig_"))?;
    let (slices, rest) = rest.split_once('g')?;
    let memory = rest.trim_start_matches(['.', '-', '_']);
    let memory = memory.strip_suffix("gb")?;
    (is_digits(slices) && is_digits(memory)).then(|| format!("nvidia.com/mig-{slices}g.{memory}gb"))
}

/// The ConfigMaps that may be configurations of a device plugin that renames resources.
struct DevicePluginConfigs;

impl Predicate for DevicePluginConfigs {
    const SLOT: QuerySlot = QuerySlot::DevicePluginConfigs;
    const KINDS: &'static [Kind] = &[Kind::CONFIG_MAP];

    fn is_satisfied(map: &Object) -> bool {
        renaming(map).next().is_some()
    }
}

/// The texts of a ConfigMap that mention renaming.
fn renaming(map: &Object) -> impl Iterator<Item = &str> {
    let texts = map.get("data").entries().into_iter().filter_map(|(_, value)| value.raw_text());
    texts.filter(|text| text.contains("rename"))
}

/// Whether a device plugin's configuration of the input gives shares of a GPU another name than `nvidia.com/gpu`.
pub(super) fn renames_shares(ctx: &Context<'_>) -> bool {
    let renames = |text: &str| text.contains("renameByDefault: true");
    let maps = ctx.cluster().satisfying::<DevicePluginConfigs>();
    maps.iter().any(|ObjectKey(map)| ctx.pairs_with(map) && renaming(map).any(renames))
}

/// Whether a DeviceClass, a NodeOverlay or a device plugin's configuration of the input defines a resource.
pub(crate) fn is_defined(name: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let classes = cluster.of(Kind::DEVICE_CLASS);
    let short = name.split_once('/').map_or(name, |(_, short)| short);
    let renames = |map: &Object| renaming(map).any(|text| text.contains(short));
    classes.into_iter().any(|class| class.path(&["spec", "extendedResourceName"]).text() == Some(name))
        || cluster.views().is_overlaid(name)
        || cluster.satisfying::<DevicePluginConfigs>().iter().any(|ObjectKey(map)| renames(map))
}
