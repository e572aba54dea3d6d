//! Configurations of NVIDIA's device plugin that share GPUs, in ConfigMaps and in the values of the charts that write them.

use crate::cluster::values::{installs, value_fields};
use crate::facts::text::contains;
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::command::base_name;

/// The entries of the ConfigMap that an object is, or that a chart writes with its values.
pub(super) fn entries(object: &Object) -> Vec<(&str, Node<'_>)> {
    if !object.is(Kind::HELM_RELEASE) && !object.is(Kind::ARGO_APPLICATION) {
        return object.get("data").entries();
    }
    let of_plugin =
        value_fields(object, "nvidia-device-plugin").map(|values| values.path(&["config", "map"]));
    let of_operator = value_fields(object, "gpu-operator").filter_map(|values| {
        let config = values.path(&["devicePlugin", "config"]);
        (config.get("create").bool() == Some(true)).then(|| config.get("data"))
    });
    of_plugin.chain(of_operator).flat_map(|data| data.entries()).collect()
}

/// Calls a function with each configuration of the device plugin that shares GPUs: the entry of the ConfigMap, and its root.
pub(super) fn for_each(object: &Object, mut read: impl FnMut(&Node<'_>, &Node<'_>)) {
    for (_, entry) in entries(object) {
        // Most ConfigMaps contain something else, and may be long.
        let Some(text) = entry.raw_text().filter(|text| may_share(text)).and_then(|_| entry.text()) else {
            continue;
        };
        with_embedded(text, |root| {
            let config = root.get("version").text() == Some("v1") && root.get("sharing").is_mapping();
            config.then(|| read(&entry, root))
        });
    }
}

/// What may read a configuration of the device plugin, and [`plugin_without_config`] looks at.
pub(super) const PLUGIN_KINDS: [Kind; 4] =
    [Kind::DAEMON_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION, Kind::CLUSTER_POLICY];

/// The device plugins of a cluster, and what installs them.
struct DevicePlugins;

impl Predicate for DevicePlugins {
    const SLOT: QuerySlot = QuerySlot::DevicePlugins;
    const KINDS: &'static [Kind] = &PLUGIN_KINDS;

    fn is_satisfied(object: &Object) -> bool {
        if object.is(Kind::DAEMON_SET) {
            return templates(object).iter().flat_map(Template::containers).any(|one| is_plugin(&one));
        }
        let installs_one =
            || ["nvidia-device-plugin", "gpu-operator"].iter().any(|chart| installs(object, chart));
        object.is(Kind::CLUSTER_POLICY) || installs_one()
    }
}

/// The objects of the cluster that run NVIDIA's device plugin, or install it.
pub(super) fn device_plugins(ctx: &Context<'_>) -> Vec<Object> {
    ctx.cluster().satisfying::<DevicePlugins>().iter().map(|plugin| plugin.0.clone()).collect()
}

pub(super) fn is_plugin(container: &Node<'_>) -> bool {
    // The image has other programs as well.
    let words = words(container);
    let other = ["gpu-feature-discovery", "mps-control-daemon", "config-manager"];
    let is_other = words.first().is_some_and(|word| other.contains(&base_name(&word.text)));
    !is_other && container.get("image").raw_text().is_some_and(|image| image.contains("k8s-device-plugin"))
}

/// The device plugin in the namespace of a ConfigMap, if no plugin of the cluster reads a configuration.
pub(super) fn plugin_without_config(map: &Object, ctx: &Context<'_>) -> Option<Object> {
    if !map.is(Kind::CONFIG_MAP) {
        return None;
    }
    let plugins = ctx.cluster().satisfying::<DevicePlugins>();
    if plugins.iter().any(|plugin| !ctx.cluster().likely_pairs(map, &plugin.0) || may_read_config(&plugin.0))
    {
        return None;
    }
    let is_near = |plugin: &&Object| plugin.namespace_or_default() == map.namespace_or_default();
    plugins.iter().map(|plugin| &plugin.0).find(is_near).cloned()
}

/// Whether a plugin may have a configuration: a file beside folders of the node, a variable or an option.
fn may_read_config(plugin: &Object) -> bool {
    let says = |node: &Node<'_>| node.text().is_none_or(|text| text.to_ascii_lowercase().contains("config"));
    let may_read = |container: Node<'_>| {
        let mut words = ["command", "args"].into_iter().flat_map(|field| container.get(field).items());
        container.has_unknown()
            || container.get("envFrom").is_set()
            || container.get("env").items().any(|variable| says(&variable.get("name")))
            || words.any(|word| says(&word))
    };
    !plugin.is(Kind::DAEMON_SET)
        || plugin.is_patched_by_kustomize()
        || templates(plugin).iter().any(|template| {
            let volumes = template.spec.get("volumes");
            volumes.has_unknown()
                || volumes.items().any(|volume| !volume.get("hostPath").is_set())
                || template.all_containers().any(may_read)
        })
}

fn may_share(text: &str) -> bool {
    let has = |word: &str| contains(text, word);
    has("sharing") && (has("timeSlicing") || has("mps"))
}
