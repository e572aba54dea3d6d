//! Pods ask for a MIG resource that the device plugin does not advertise.
//!
//! # Why
//! Under the MIG strategy `single` the device plugin advertises all slices as `nvidia.com/gpu`, and
//! under `none` whole GPUs. Only `mixed` gives each profile a resource of its own: a pod that asks for
//! `nvidia.com/mig-1g.10gb` under another strategy stays Pending. `single` is the default of the GPU
//! Operator's chart. Under `mixed`, nodes whose label `nvidia.com/mig.config` divides all their GPUs have no
//! `nvidia.com/gpu` any more: a pod that asks for it never starts there, although Karpenter starts a node for it.
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

use crate::rules::gpu::{gpu_templates, label_of_nodes};
use crate::rules::prelude::*;
use crate::workload::devices::pod_devices;
use crate::workload::mig::profile_of_resource;

pub(crate) static RULE: Rule = Rule {
    id: "mig-strategy-mismatch",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::CLUSTER_POLICY, Kind::NODE_POOL],
    docs: docs(include_str!("mig_strategy_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// The label with which NVIDIA's MIG manager divides the GPUs of a node.
const CONFIG_LABEL: &str = "nvidia.com/mig.config";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object) {
        for (resource, devices) in pod_devices(&template) {
            let profile = profile_of_resource(resource);
            if profile.is_none() && resource != "nvidia.com/gpu" {
                continue;
            }
            let mut policies = ctx.cluster().of(Kind::CLUSTER_POLICY);
            let (policy, None) = (policies.next()?, policies.next()) else {
                return None;
            };
            // Nodes may select one of several configurations of the plugin.
            let strategy = policy.path(&["spec", "mig", "strategy"]);
            let named = strategy.text()?;
            if policy.path(&["spec", "devicePlugin", "config"]).is_set() {
                return None;
            }
            match (profile.is_some(), named) {
                (true, "mixed") => continue,
                (true, _) => {
                    let message = format!("no node has `{resource}` under the MIG strategy `{named}`");
                    ctx.report(&devices.node, message)
                        .at_key()
                        .help("set the strategy `mixed`, or ask for `nvidia.com/gpu`")
                        .related(policy, &strategy, "the strategy");
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
                        .related(policy, &strategy, "the strategy");
                }
                (false, _) => {}
            }
        }
    }
    None
}

/// The profile of a configuration that divides every GPU in the same way: `all-1g.5gb`.
fn whole_profile(config: String) -> Option<String> {
    let profile = config.strip_prefix("all-")?;
    profile.starts_with(|c: char| c.is_ascii_digit()).then(|| profile.to_owned())
}
