//! NVIDIA's device plugin rejects a configuration for GPU sharing, or ignores keys.
//!
//! # Why
//! NVIDIA's device plugin shares GPUs by time-slicing or by MPS, not by both at once. MPS works only
//! for whole GPUs under `nvidia.com/gpu`, a shared resource needs at least two replicas, and each of both
//! needs a list of `resources`. The plugin ends with an error at such a configuration, and its nodes
//! advertise no GPU. So does a plugin without
//! `--mps-root`, as in a DaemonSet of one's own: the chart of the plugin sets it, and starts the daemon of MPS
//! as well. That is a warning.
//!
//! A key that it does not know at its place is ignored without a word, which is a warning here.
//! `renameByDefault` and `failRequestsGreaterThanOne` belong to `timeSlicing` or `mps`: under `flags` the
//! resource keeps its name, and a pod that requests `nvidia.com/gpu.shared` waits for ever.
//!
//! A ConfigMap is nothing by itself: where the DaemonSet of the plugin beside it mounts no ConfigMap and
//! names no file, each pod still gets a whole GPU: variables that it has from the ConfigMap (`envFrom`) are
//! not read as a configuration. That is a warning as well, where the ClusterPolicy or the
//! values of the chart do not name the ConfigMap, or name one of another namespace than that of the operator,
//! or a `default` that the ConfigMap does not have: the pods of the plugin then do not start. Where no default
//! chooses one of its entries, and no label `nvidia.com/device-plugin.config` in the input, it is info without
//! `--complete`.
//!
//! # Fix
//! Keep one of `timeSlicing` and `mps`, name `nvidia.com/gpu`, and give it two or more `replicas`. Move a key
//! to the place that the help names. Mount the ConfigMap in the plugin, and name the file in `CONFIG_FILE`;
//! the chart of the plugin does so for `config.name`. The GPU Operator reads `devicePlugin.config.name` and
//! `default`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: device-plugin, namespace: gpu-operator}
//!  data:
//!    any: | # <-
//!      version: v1
//!      sharing:
//!        mps:
//!          resources:
//! -          - {name: nvidia.com/mig-1g.10gb, replicas: 4}
//! +          - {name: nvidia.com/gpu, replicas: 4}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus>
//! - <https://github.com/NVIDIA/k8s-device-plugin/tree/main/api/config/v1>

use crate::rules::gpu::gpu_sharing_mismatch::SHARING_SOURCES;
use crate::rules::gpu::sharing::{self, Why};
use crate::rules::prelude::*;
use crate::workload::charts::installs;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-sharing-config-invalid",
    kinds: &SHARING_SOURCES,
    reads: sharing::READERS,
    docs: docs(include_str!("gpu_sharing_config_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut first = None;
    sharing::for_each(object, |entry, _| {
        first.get_or_insert_with(|| entry.pointer());
    });
    if let Some(entry) = first.map(|pointer| object.root().at(&pointer))
        && let Some((plugin, why)) = sharing::unused(object, ctx)
    {
        report_unused(&entry, &plugin, &why, ctx);
    }
    sharing::for_each(object, |entry, config| {
        if let Some((message, help)) = fault(config) {
            ctx.report(entry, message).at_key().help(help);
        } else if config.path(&["sharing", "mps", "resources"]).items().next().is_some()
            && !config.path(&["flags", "mpsRoot"]).is_set()
            && let Some(plugin) = sharing::plugin_without_mps(object, ctx)
        {
            let name = plugin.display_name();
            let message =
                format!("the device plugin ends: DaemonSet `{name}` shares by MPS without `--mps-root`");
            ctx.report(entry, message)
                .severity(Severity::Warning)
                .at_key()
                .identified_by("mps-root")
                .help("install the chart `nvidia-device-plugin`, which runs the daemon of MPS too, or use `timeSlicing`")
                .related(&plugin, &plugin.path(&["metadata", "name"]), "the plugin");
        }
        for Ignored { key, node, place, help } in ignored(config) {
            let message = format!("the device plugin ignores `{key}` in {place}");
            let finding = ctx.report(entry, message).severity(Severity::Warning).at_key();
            finding.identified_by(key).help(help);
            if let Some(span) = node.key_span() {
                finding.at_part(object, entry, span.start as usize..span.end as usize);
            }
        }
    });
    None
}

fn report_unused(entry: &Node<'_>, plugin: &Object, why: &Why, ctx: &mut Context<'_>) {
    let who = format!("{} `{}`", plugin.kind(), plugin.display_name());
    let message = match why {
        Why::NoConfiguration => format!("no device plugin reads this: {who} has no configuration"),
        Why::Other(name) => format!("no device plugin reads this: {who} names ConfigMap `{name}`"),
        Why::NoDefault => {
            format!("no node uses this: {who} has no default, and no NodePool the label of an entry")
        }
        Why::NoEntry(default) => {
            format!("the device plugin ends: {who} has the default `{default}`, which is not an entry here")
        }
        Why::Elsewhere(namespace) => {
            format!("no device plugin reads this: {who} looks for it in namespace `{namespace}`")
        }
    };
    let field = match why {
        Why::NoDefault => "default",
        Why::NoConfiguration | Why::Other(_) | Why::NoEntry(_) | Why::Elsewhere(_) => "name",
    };
    let help = match plugin.kind() {
        _ if matches!(why, Why::NoEntry(_)) => "write the name of an entry as the `default`".to_owned(),
        _ if matches!(why, Why::Elsewhere(_)) => {
            "create it in that namespace: without it the pods of the plugin do not start".to_owned()
        }
        "DaemonSet" => "mount the ConfigMap in the plugin, and set `CONFIG_FILE` to its path".to_owned(),
        "ClusterPolicy" => format!("write `{field}` in `devicePlugin.config` of the ClusterPolicy"),
        _ if installs(plugin, "gpu-operator") => {
            format!("write `{field}` in the values' `devicePlugin.config`")
        }
        _ => format!("write `{field}` in the values' `config`"),
    };
    // Nodes of groups that are not in the input may have the label.
    let is_sure = !matches!(why, Why::NoDefault) || ctx.cluster().is_complete();
    let severity = if is_sure { Severity::Warning } else { Severity::Info };
    let finding = ctx.report(entry, message).severity(severity).at_key();
    finding.identified_by("reader").help(help);
    finding.related(plugin, &plugin.path(&["metadata", "name"]), "the plugin");
}

/// The keys of a level of the configuration, from `api/config/v1` of the plugin as of November 2026.
struct Level {
    place: &'static str,
    keys: &'static [&'static str],
}

const ROOT: Level =
    Level { place: "the configuration", keys: &["version", "flags", "resources", "sharing", "imex"] };
const FLAGS: Level = Level {
    place: "`flags`",
    keys: &[
        "migStrategy",
        "failOnInitError",
        "mpsRoot",
        "nvidiaDriverRoot",
        "nvidiaDevRoot",
        "gdrcopyEnabled",
        "gdsEnabled",
        "mofedEnabled",
        "useNodeFeatureAPI",
        "deviceDiscoveryStrategy",
        "plugin",
        "gfd",
    ],
};
const PLUGIN: Level = Level {
    place: "`flags.plugin`",
    keys: &[
        "passDeviceSpecs",
        "deviceListStrategy",
        "deviceIDStrategy",
        "cdiAnnotationPrefix",
        "nvidiaCTKPath",
        "containerDriverRoot",
        "sharedDevicesAllocationPolicy",
    ],
};
const SHARING: Level = Level { place: "`sharing`", keys: &["timeSlicing", "mps"] };
const REPLICATED: [&str; 3] = ["renameByDefault", "failRequestsGreaterThanOne", "resources"];
const TIME_SLICING: Level = Level { place: "`sharing.timeSlicing`", keys: &REPLICATED };
const MPS: Level = Level { place: "`sharing.mps`", keys: &REPLICATED };
const RESOURCE: Level =
    Level { place: "an entry of `resources`", keys: &["name", "rename", "devices", "replicas"] };

/// A key without effect.
struct Ignored<'c> {
    key: &'c str,
    node: Node<'c>,
    place: &'static str,
    help: String,
}

fn ignored<'c>(config: &Node<'c>) -> Vec<Ignored<'c>> {
    let sharing = config.get("sharing");
    let (slicing, mps) = (sharing.get("timeSlicing"), sharing.get("mps"));
    let replicated = if mps.is_set() && !slicing.is_set() { &MPS } else { &TIME_SLICING };
    let mut out = Vec::new();
    let flags = config.get("flags");
    let plugin = flags.get("plugin");
    let mut levels = vec![(config.clone(), &ROOT), (flags, &FLAGS), (plugin, &PLUGIN), (sharing, &SHARING)];
    for (node, level) in [(slicing, &TIME_SLICING), (mps, &MPS)] {
        levels.extend(node.get("resources").items().map(|resource| (resource, &RESOURCE)));
        levels.push((node, level));
    }
    for (mapping, level) in levels {
        for (key, node) in mapping.entries() {
            // Said of the level: it lacks the list in which the key belongs.
            if RESOURCE.keys.contains(&key)
                && [TIME_SLICING.place, MPS.place].contains(&level.place)
                && !mapping.has("resources")
            {
                continue;
            }
            if let Some(help) = misplaced(key, level, replicated) {
                out.push(Ignored { key, node, place: level.place, help });
            }
        }
    }
    out
}

/// The help for a key that does not belong to a level.
fn misplaced(key: &str, level: &Level, replicated: &Level) -> Option<String> {
    // Except below `timeSlicing` and `mps`, the plugin does not distinguish upper and lower case.
    let has = |level: &Level| level.keys.iter().any(|known| known.eq_ignore_ascii_case(key));
    let is_exact = [TIME_SLICING.place, MPS.place, RESOURCE.place].contains(&level.place);
    if level.keys.contains(&key) || !is_exact && has(level) {
        return None;
    }
    // Names and devices of their own are not supported yet, at no place.
    if is_exact && level.place != RESOURCE.place {
        match key {
            "rename" => {
                return Some(
                    "the name cannot be chosen: `renameByDefault: true` appends `.shared`".to_owned(),
                );
            }
            "devices" => return Some("leave it out: all devices of the resource are shared".to_owned()),
            _ => {}
        }
    }
    let belongs = match key {
        "renameByDefault" | "failRequestsGreaterThanOne" => Some(replicated),
        "timeSlicing" | "mps" => Some(&SHARING),
        // These are common words elsewhere.
        "replicas" | "name" if is_exact || level.place == SHARING.place => Some(&RESOURCE),
        "version" | "flags" | "sharing" | "plugin" | "gfd" => None,
        _ => [&FLAGS, &PLUGIN].into_iter().find(|level| level.keys.contains(&key)),
    };
    if let Some(belongs) = belongs {
        return Some(match belongs.place {
            place if place == RESOURCE.place => format!("move it to {place} in {}", replicated.place),
            place => format!("move it to {place}"),
        });
    }
    // A later release may have more flags, and more keys here.
    let near = nearest(key, level.keys.iter().copied())?;
    Some(format!("did you mean `{near}`?"))
}

fn fault(config: &Node<'_>) -> Option<(String, &'static str)> {
    let sharing = config.get("sharing");
    let (slicing, mps) = (sharing.get("timeSlicing"), sharing.get("mps"));
    let has = |kind: &Node<'_>| kind.get("resources").items().next().is_some();
    if has(&slicing) && has(&mps) {
        let message = "`timeSlicing` and `mps` are both set, and the device plugin accepts only one of them";
        return Some((message.to_owned(), "keep one of them"));
    }
    let lacks = |kind: &Node<'_>| {
        !kind.entries().is_empty()
            && !kind.has_unknown_key()
            && !has(kind)
            && !kind.get("resources").is_unknown()
    };
    for (name, kind) in [("timeSlicing", &slicing), ("mps", &mps)] {
        if lacks(kind) {
            let message =
                format!("`sharing.{name}` has no `resources`: the device plugin ends with an error");
            return Some((message, "write `resources: [{name: nvidia.com/gpu, replicas: N}]` there"));
        }
    }
    for resource in mps.get("resources").items() {
        if let Some(name) = resource.get("name").text().filter(|name| *name != "nvidia.com/gpu") {
            let message = format!("MPS shares `nvidia.com/gpu` only, not `{name}`");
            return Some((message, "name `nvidia.com/gpu`"));
        }
    }
    for resource in slicing.get("resources").items() {
        let name = resource.get("name").text().unwrap_or("nvidia.com/gpu");
        if !name.starts_with("nvidia.com/") && name.contains('/') {
            let message = format!("NVIDIA's device plugin has no resource `{name}` to share");
            return Some((message, "name `nvidia.com/gpu`"));
        }
    }
    let mut shared = slicing.get("resources").items().chain(mps.get("resources").items());
    let few = shared.find_map(|r| r.get("replicas").int().filter(|n| *n < 2))?;
    Some((format!("a shared GPU needs 2 or more replicas, not {few}"), "write 2 or more `replicas`"))
}
