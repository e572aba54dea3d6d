//! Configurations of NVIDIA's device plugin that share GPUs, in ConfigMaps and in the values of the charts that write them.

use crate::cluster::versions::Fact;
use crate::facts::text::contains;
use crate::rules::prelude::*;
use crate::rules::scheduling::gpu_helper_missing::user_data_has;
use crate::rules::scheduling::node_helpers::has_devices;
use crate::source::with_embedded;
use crate::workload::charts::{installs, target_namespace, value_fields};
use crate::workload::command::{Word, base_name, command_and_args};
use crate::workload::environment::may_define;

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

/// Whether a chart writes an entry for the nodes without a label: the default that its values name. The chart of the plugin falls back on
/// an entry `default`, and on the only one; see [`by_config`].
pub(super) fn is_of_all_nodes(chart: &Object, entry: &str) -> bool {
    let of_chart = |(name, path): (&str, &[&str])| {
        let of_values = |values: Node<'_>| {
            let (config, is_plugin) = (values.path(path), name == "nvidia-device-plugin");
            match config.get("default").text() {
                Some(default) if !default.is_empty() => default == entry,
                _ if config.get("default").is_unknown() || config.get("fallbackStrategies").is_set() => false,
                _ => is_plugin && (entry == "default" || config.get("map").entries().len() == 1),
            }
        };
        value_fields(chart, name).any(of_values)
    };
    CONFIG_VALUES.into_iter().any(of_chart)
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

/// What may read a configuration of the device plugin.
pub(super) const PLUGIN_KINDS: [Kind; 4] =
    [Kind::DAEMON_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION, Kind::CLUSTER_POLICY];

/// What [`unused`] looks at.
pub(super) const READERS: &[Kind] = kinds![
    PLUGIN_KINDS,
    [Kind::NODE_POOL, Kind::NODE, Kind::EC2_NODE_CLASS, Kind::CONFIG_MAP, Kind::NAMESPACE]
];

/// The label of nodes that selects an entry of the device plugin's ConfigMap.
pub(super) const CONFIG_LABEL: &str = "nvidia.com/device-plugin.config";

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

/// Why a device plugin uses no entry of a ConfigMap.
pub(super) enum Why {
    NoConfiguration,
    /// It names another ConfigMap.
    Other(String),
    /// It names the ConfigMap, and neither a default nor a label of nodes chooses an entry.
    NoDefault,
    /// Its default is an entry that the ConfigMap does not have.
    NoEntry(String),
    /// It looks for the ConfigMap in its own namespace, which is another one.
    Elsewhere(String),
}

/// The device plugin that would be the one to use a ConfigMap, if no plugin of the cluster does.
pub(super) fn unused(map: &Object, ctx: &Context<'_>) -> Option<(Object, Why)> {
    if !map.is(Kind::CONFIG_MAP) {
        return None;
    }
    let plugins = ctx.cluster().satisfying::<DevicePlugins>();
    let reason = |plugin: &Object| {
        let reason = why(plugin, map, ctx)?;
        // Who names the ConfigMap means it, wherever it is.
        let is_named = matches!(reason, Why::NoDefault) && ctx.cluster().pairs(map, plugin);
        if !is_named && !ctx.cluster().likely_pairs(map, plugin) {
            return None;
        }
        Some((plugin.clone(), reason))
    };
    let all: Option<Vec<_>> = plugins.iter().map(|ObjectKey(plugin)| reason(plugin)).collect();
    let is_near = |(plugin, reason): &(Object, Why)| match (plugin.is(Kind::DAEMON_SET), reason) {
        (_, Why::Elsewhere(_)) => true,
        (true, _) => plugin.namespace_or_default() == map.namespace_or_default(),
        (false, _) => {
            target_namespace(plugin).is_none_or(|namespace| namespace == map.namespace_or_default())
        }
    };
    all?.into_iter().find(is_near)
}

/// Why a plugin uses no entry of a ConfigMap. `None` if it may use one.
fn why(plugin: &Object, map: &Object, ctx: &Context<'_>) -> Option<Why> {
    if plugin.is(Kind::DAEMON_SET) {
        return (!may_read_config(plugin, ctx)).then_some(Why::NoConfiguration);
    }
    if plugin.may_lack_fields() {
        return None;
    }
    if plugin.is(Kind::CLUSTER_POLICY) {
        let config = plugin.path(&["spec", "devicePlugin", "config"]);
        return by_config(&config, map, namespace_of_operator(ctx), false, ctx);
    }
    let mut found = Vec::new();
    for (chart, path) in CONFIG_VALUES {
        for_each_values(plugin, chart, |values| {
            let config = values.root.path(path);
            let is_moved = values.root.get("namespaceOverride").is_set();
            let namespace =
                target_namespace(plugin).filter(|_| !is_moved && config.get("create").is_absent());
            let reason = by_config(&config, map, namespace, chart == "nvidia-device-plugin", ctx);
            found.push(reason.filter(|_| !values.may_differ && !values.root.has_unknown_key()));
        });
    }
    let last = found.pop()?;
    found.is_empty().then_some(last)?
}

/// The namespace in which the GPU Operator of the input runs, and looks for the ConfigMap of a ClusterPolicy.
fn namespace_of_operator<'c>(ctx: &Context<'c>) -> Option<&'c str> {
    /// The namespace of its documentation.
    const USUAL: &str = "gpu-operator";
    let mut installers =
        chart_installers(ctx.cluster()).filter(|one| installs(one, "gpu-operator") && ctx.pairs_with(one));
    if let Some(first) = installers.next() {
        return target_namespace(first).filter(|_| installers.next().is_none());
    }
    let (group, kind) = (Kind::NAMESPACE.group, Kind::NAMESPACE.kind);
    let mut named = ctx.cluster().all(group, kind, "default", USUAL).iter();
    named.any(|one| ctx.pairs_with(one)).then_some(USUAL)
}

/// Whether a ConfigMap lies in another namespace than the one in which a plugin looks for it, and is not copied to that one.
fn is_elsewhere(map: &Object, namespace: &str, ctx: &Context<'_>) -> bool {
    let (group, kind) = (Kind::CONFIG_MAP.group, Kind::CONFIG_MAP.kind);
    let is_copied = |key: &str| key.contains("reflect") || key.contains("replicat");
    let is_other = map.namespace().is_some_and(|own| own != namespace && !own.contains("gpu-operator"));
    is_other
        && ctx.cluster().all(group, kind, namespace, map.name()).is_empty()
        && !map.path(&["metadata", "annotations"]).entries().iter().any(|(key, _)| is_copied(key))
}

/// The values of charts that name the ConfigMap.
const CONFIG_VALUES: [(&str, &[&str]); 2] =
    [("nvidia-device-plugin", &["config"]), ("gpu-operator", &["devicePlugin", "config"])];

/// Why a plugin with such a `config`, in a namespace as far as that is known, uses no entry of a ConfigMap: it mounts the
/// ConfigMap, and `config-manager` ends at an entry that is not there (`updateConfigName` of k8s-device-plugin 0.17). The chart of
/// the plugin falls back on an entry `default`, and on the only entry (0.18, `config.fallbackStrategies`); the GPU Operator waits
/// for the label (its documentation on time-slicing, 25.10).
fn by_config(
    config: &Node<'_>,
    map: &Object,
    namespace: Option<&str>,
    falls_back: bool,
    ctx: &Context<'_>,
) -> Option<Why> {
    if config.has_unknown() || config.has_unknown_key() || config.get("fallbackStrategies").is_set() {
        return None;
    }
    match config.get("name").text().unwrap_or_default() {
        "" => return Some(Why::NoConfiguration),
        name if name != map.name() => return Some(Why::Other(ellipsize(name).into_owned())),
        _ => {}
    }
    if let Some(namespace) = namespace.filter(|namespace| is_elsewhere(map, namespace, ctx)) {
        return Some(Why::Elsewhere(ellipsize(namespace).into_owned()));
    }
    let default = config.get("default").text().filter(|name| !name.is_empty());
    let data = map.get("data");
    let entries = data.entries();
    let lacks = |name: &&str| !entries.iter().any(|(key, _)| key == name);
    if let Some(name) = default.filter(lacks)
        && !data.has_unknown_key()
        && !map.may_lack_fields()
    {
        return Some(Why::NoEntry(ellipsize(name).into_owned()));
    }
    let is_chosen = default.is_some();
    let is_fallback = falls_back && (entries.len() < 2 || entries.iter().any(|(key, _)| *key == "default"));
    (!is_chosen && !is_fallback && !is_labelled(map, ctx)).then_some(Why::NoDefault)
}

/// Whether a node may have the label that chooses an entry. It has not where NodePools with GPUs of the input do not give it.
fn is_labelled(map: &Object, ctx: &Context<'_>) -> bool {
    let says = |labels: Node<'_>| {
        labels.is_unknown() || labels.has_unknown_key() || labels.get(CONFIG_LABEL).is_set()
    };
    // A node group of eksctl, Terraform or another operator, or a command in a script.
    if ctx.cluster().is_shown(&Fact::DevicePluginLabel) {
        return true;
    }
    let mut has_pool = false;
    for object in ctx.cluster().of(Kind::NODE_POOL) {
        let Some(pool) = NodePool::new(object).filter(|pool| has_devices(pool, "nvidia.com/gpu")) else {
            continue;
        };
        let requirements = pool.requirement_set();
        if says(pool.labels())
            || requirements.get(CONFIG_LABEL).is_some()
            || object.may_lack_fields()
            || user_data_has(&pool, CONFIG_LABEL, ctx)
        {
            return true;
        }
        has_pool |= ctx.cluster().pairs(map, object);
    }
    !has_pool || ctx.cluster().of(Kind::NODE).any(|node| says(node.path(&["metadata", "labels"])))
}

/// Whether a plugin may have a configuration: a file beside folders of the node, a variable or an option.
fn may_read_config(plugin: &Object, ctx: &Context<'_>) -> bool {
    let says = |node: &Node<'_>| node.text().is_none_or(|text| text.to_ascii_lowercase().contains("config"));
    let may_read = |container: Node<'_>| {
        let mut words = command_and_args(&container);
        container.has_unknown()
            || container.get("envFrom").is_unknown()
            || container.get("envFrom").items().any(|source| may_name_file(plugin, &source, ctx))
            || container.get("env").items().any(|variable| says(&variable.get("name")))
            || words.any(|word| says(&word))
    };
    plugin.is_patched_by_kustomize()
        || templates(plugin).iter().any(|template| {
            let volumes = template.spec.get("volumes");
            volumes.has_unknown()
                || volumes.items().any(|volume| !volume.get("hostPath").is_set())
                || template.all_containers().any(may_read)
        })
}

/// The DaemonSet of the only device plugin, which reads a ConfigMap and says nowhere where the sockets of MPS are: the plugin then ends
/// ("using MPS requires --mps-root to be specified", `cmd/nvidia-device-plugin/main.go` of 0.15 to 0.20). Its chart does, and starts
/// the control daemon of MPS as well.
pub(super) fn plugin_without_mps(map: &Object, ctx: &Context<'_>) -> Option<Object> {
    let plugins = device_plugins(ctx);
    let [plugin] = plugins.as_slice() else { return None };
    let is_beside = plugin.is(Kind::DAEMON_SET)
        && map.is(Kind::CONFIG_MAP)
        && plugin.namespace_or_default() == map.namespace_or_default()
        && !plugin.may_lack_fields()
        && ctx.pairs_with(plugin);
    let templates = templates(plugin);
    let template = templates.first().filter(|_| is_beside)?;
    let volumes = template.spec.get("volumes");
    let mounts_it = |volume: Node<'_>| volume.path(&["configMap", "name"]).text() == Some(map.name());
    let container = template.containers().find(is_plugin)?;
    let says = |word: &Word<'_>| !word.known || word.text.contains("mps-root");
    let is_set = may_define(&container, |name| name == "MPS_ROOT") || words(&container).iter().any(says);
    (volumes.items().any(mounts_it) && !is_set && !container.has_unknown_key()).then(|| plugin.clone())
}

/// Whether variables from a ConfigMap or a Secret may have the one that names the file (`CONFIG_FILE` of the plugin 0.17).
fn may_name_file(plugin: &Object, source: &Node<'_>, ctx: &Context<'_>) -> bool {
    let name = source.path(&["configMapRef", "name"]);
    let namespace = plugin.namespace_or_default();
    let map = name.text().and_then(|name| ctx.cluster().unique(Kind::CONFIG_MAP, namespace, name));
    let Some(map) = map.filter(|map| !map.may_lack_fields()) else { return true };
    let (prefix, data) = (source.get("prefix"), map.get("data"));
    let prefix = if prefix.is_set() { prefix.text() } else { Some("") };
    let is_file = |key: &str| prefix.is_none_or(|prefix| format!("{prefix}{key}") == "CONFIG_FILE");
    data.has_unknown_key() || data.entries().iter().any(|(key, _)| is_file(key))
}

fn may_share(text: &str) -> bool {
    let has = |word: &str| contains(text, word);
    has("sharing") && (has("timeSlicing") || has("mps"))
}
