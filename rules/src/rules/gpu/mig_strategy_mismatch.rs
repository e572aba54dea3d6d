//! Pods ask for a MIG resource that the device plugin does not advertise.
//!
//! # Why
//! Under the MIG strategy `single` the device plugin advertises all slices as `nvidia.com/gpu`, and under
//! `none` whole GPUs. Only `mixed` gives each profile a resource of its own: a pod that asks for
//! `nvidia.com/mig-1g.10gb` under another strategy stays Pending. `single` is the default of the GPU
//! Operator's chart, and `none` that of the device plugin alone. Under `mixed`, nodes whose label
//! `nvidia.com/mig.config` divides all their GPUs have no `nvidia.com/gpu` any more: a pod that asks for it
//! never starts there, although Karpenter starts a node for it. Under `single` all slices of a node need one
//! profile: with `all-balanced` the device plugin stops, and the nodes have no GPU.
//!
//! A strategy of the operator, of the chart or of the plugin's container comes before that of a configuration
//! in a ConfigMap.
//!
//! # Fix
//! Set the strategy `mixed`, or ask for `nvidia.com/gpu`, which is one slice under `single`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: nvidia.com/v1
//!  kind: ClusterPolicy
//!  metadata: {name: cluster-policy}
//!  spec:
//! -  mig: {strategy: single}
//! +  mig: {strategy: mixed}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//!              limits: {nvidia.com/mig-1g.10gb: 1} # <-
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html>
//! - <https://github.com/NVIDIA/k8s-device-plugin>

use crate::rules::gpu::sharing::{PLUGIN_KINDS, device_plugins, is_plugin};
use crate::rules::gpu::{gpu_templates, label_of_nodes};
use crate::rules::prelude::*;
use crate::workload::environment::known;
use crate::workload::mig::{CONFIG_LABEL, profile_of_resource};

pub(crate) static RULE: Rule = Rule {
    id: "mig-strategy-mismatch",
    kinds: WORKLOAD_KINDS,
    reads: kinds![PLUGIN_KINDS, [Kind::NODE_POOL, Kind::NAMESPACE]],
    docs: docs(include_str!("mig_strategy_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// The configuration of NVIDIA's MIG manager with which each GPU has slices of several profiles. The device plugin then stops under the
/// strategy `single`: "more than one MIG device type present on node" (k8s-device-plugin `internal/rm`).
const SEVERAL_PROFILES: &str = "all-balanced";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object, ctx) {
        for (resource, devices) in pod_devices(&template) {
            let profile = profile_of_resource(resource);
            if profile.is_none() && resource != "nvidia.com/gpu" {
                continue;
            }
            let (policy, strategy, named) = strategy(ctx)?;
            let policy = &policy;
            match (profile.is_some(), named.as_str()) {
                (true, "mixed") => continue,
                (true, _) => {
                    let message =
                        format!("the device plugin has no `{resource}` under the MIG strategy `{named}`");
                    ctx.report(&devices.node, message)
                        .at_key()
                        .help("set the strategy `mixed`, or ask for `nvidia.com/gpu`")
                        .related(policy, &policy.path(&strategy), "the strategy");
                }
                (false, "mixed") => {
                    let Some(profile) = label_of_nodes(&template, CONFIG_LABEL, ctx).and_then(whole_profile)
                    else {
                        continue;
                    };
                    let name = object.display_name();
                    let message = format!(
                        "`{name}` asks for `{resource}`, and its nodes have only `nvidia.com/mig-{profile}`"
                    );
                    ctx.report(&devices.node, message)
                        .at_key()
                        .help("select nodes whose GPUs are whole, or set the strategy `single`")
                        .related(policy, &policy.path(&strategy), "the strategy");
                }
                (false, "single") => {
                    let several = |config: &String| config == SEVERAL_PROFILES;
                    if label_of_nodes(&template, CONFIG_LABEL, ctx).filter(several).is_none() {
                        continue;
                    }
                    let message = format!(
                        "`{SEVERAL_PROFILES}` makes slices of several profiles: under `single` the nodes have no GPU"
                    );
                    ctx.report(&devices.node, message)
                        .at_key()
                        .help("set the strategy `mixed` and ask for a profile, or divide all GPUs in one way")
                        .related(policy, &policy.path(&strategy), "the strategy");
                }
                (false, _) => {}
            }
        }
    }
    None
}

/// The only device plugin of the input, the field with its MIG strategy, and the strategy. `None` if there are several. The command
/// line comes before the environment, and that before a configuration (`NewConfig` in `api/config/v1/config.go` of k8s-device-plugin):
/// the operator sets `MIG_STRATEGY` wherever its field is not empty (`applyMIGConfiguration`, 22.9 to 26.7). Defaults: `values.yaml` of
/// gpu-operator (`single`), and of the plugin itself (`none`).
fn strategy(ctx: &Context<'_>) -> Option<(Object, Vec<&'static str>, String)> {
    let plugins = device_plugins(ctx);
    let [plugin] = plugins.as_slice() else { return None };
    if !ctx.pairs_with(plugin) || plugin.may_lack_fields() {
        return None;
    }
    let mut found = None;
    if plugin.is(Kind::CLUSTER_POLICY) {
        let is_off = plugin.path(&["spec", "devicePlugin", "enabled"]).bool() == Some(false);
        let has_options = plugin.path(&["spec", "devicePlugin", "args"]).is_set();
        let named = plugin.path(&["spec", "mig", "strategy"]).text();
        let named = named.filter(|named| !named.is_empty() && !is_off && !has_options);
        found = named.map(|named| (vec!["spec", "mig", "strategy"], named.to_owned()));
    } else if plugin.is(Kind::DAEMON_SET) {
        let containers: Vec<Node<'_>> = templates(plugin).iter().flat_map(Template::containers).collect();
        let container = containers.iter().find(|one| is_plugin(one))?;
        let (env, words) = (known(container)?, words(container));
        let option = option(&words, &["mig-strategy"]);
        let has_file =
            env.contains_key("CONFIG_FILE") || words.iter().any(|word| word.text.contains("config-file"));
        let named = match option {
            OptionValue::Text(text, _) => Some(text),
            OptionValue::Unknown => None,
            OptionValue::Absent if words.iter().any(|word| !word.known) => None,
            OptionValue::Absent => match env.get("MIG_STRATEGY") {
                Some(value) => value.text().map(str::to_owned),
                None => Some("none".to_owned()).filter(|_| !has_file),
            },
        };
        found = named
            .filter(|_| !plugin.is_patched_by_kustomize())
            .map(|named| (vec!["metadata", "name"], named));
    } else {
        for (chart, field, config, default) in OF_CHARTS {
            for_each_values(plugin, chart, |values| {
                let (node, config) = (values.root.path(field), values.root.path(config));
                let enabled = values.root.path(&["devicePlugin", "enabled"]);
                let is_changed = ["containers", "args"]
                    .iter()
                    .any(|field| values.root.path(&["devicePlugin", field]).is_set());
                let is_on = (!enabled.is_set() || enabled.bool() == Some(true)) && !is_changed;
                // The chart of the plugin leaves the strategy to the configuration unless it is written.
                let is_decided = chart == "gpu-operator" || node.is_set() || !config.is_set();
                let is_known = is_on && is_decided && !values.may_differ && !values.root.has_unknown_key();
                let named = if node.is_set() { node.text() } else { Some(default) };
                let named = named.filter(|_| is_known && !node.is_unknown());
                found = named.map(|named| (vec!["metadata", "name"], named.to_owned()));
            });
        }
    }
    let (field, named) = found?;
    Some((plugin.clone(), field, named))
}

/// The charts that install the device plugin: the fields of the strategy and of its configurations, and the default strategy.
const OF_CHARTS: [(&str, &[&str], &[&str], &str); 2] = [
    ("gpu-operator", &["mig", "strategy"], &["devicePlugin", "config"], "single"),
    ("nvidia-device-plugin", &["migStrategy"], &["config"], "none"),
];

/// The profile of a configuration that divides every GPU in the same way: `all-1g.5gb`.
fn whole_profile(config: String) -> Option<String> {
    let profile = config.strip_prefix("all-")?;
    profile.starts_with(|c: char| c.is_ascii_digit()).then(|| profile.to_owned())
}
