//! A node is to be divided by a MIG layout that its configuration or its GPU lacks.
//!
//! # Why
//! NVIDIA's MIG manager looks up the label `nvidia.com/mig.config` of a node in `config.yaml` of one
//! ConfigMap: its own, or the one that `migManager.config.name` of the ClusterPolicy, or of the chart's
//! values, names, which replaces its own with all layouts in it. Where the name is not there, or the GPU
//! does not offer a profile of the layout, the label `nvidia.com/mig.config.state` becomes `failed`, the GPUs
//! stay whole, and pods that ask for slices stay Pending. An A100 with 40 GB (p4d) has no `3g.40gb`, and one
//! with 80 GB (p4de) no `3g.20gb`. The layout of nodes without the label, `config.default`, has to be there
//! too.
//!
//! # Fix
//! Name a layout of the ConfigMap that the GPUs of the nodes offer, or add the layout.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: nvidia.com/v1
//!  kind: ClusterPolicy
//!  metadata: {name: cluster-policy}
//!  spec:
//!    mig: {strategy: mixed}
//!    migManager:
//!      config: {name: layouts, default: all-disabled} # <-
//!  ---
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: layouts, namespace: gpu-operator}
//!  data:
//!    config.yaml: |
//!      version: v1
//!      mig-configs:
//!        halves:
//!          - {devices: all, mig-enabled: true, mig-devices: {"3g.40gb": 2}}
//! +      all-disabled:
//! +        - {devices: all, mig-enabled: false}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html>
//! - <https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html>
//! - <https://github.com/NVIDIA/gpu-operator/issues/281>

use super::mig_incapable_gpu::without;
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::value_fields;
use crate::workload::mig::{CONFIG_LABEL, is_known_profile, profile_of_name};

pub(crate) static RULE: Rule = Rule {
    id: "mig-config-unknown",
    kinds: &[Kind::NODE_POOL, Kind::NODE, Kind::CLUSTER_POLICY],
    reads: kinds![[Kind::CLUSTER_POLICY, Kind::CONFIG_MAP], CHART_KINDS],
    docs: docs(include_str!("mig_config_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// A named way to divide the GPUs of a node.
struct Layout {
    name: String,
    /// The profiles that every GPU is to have.
    profiles: Vec<String>,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let place = match object.kind() {
        "NodePool" => object.path(&["spec", "template", "metadata", "labels", CONFIG_LABEL]),
        "Node" => object.path(&["metadata", "labels", CONFIG_LABEL]),
        _ => object.path(&["spec", "migManager", "config", "default"]),
    };
    let wanted = place.text().filter(|name| !name.is_empty())?;
    let shown = ellipsize(wanted);
    let known = layouts(ctx);
    let layout = known.as_ref().and_then(|(_, all)| all.iter().find(|layout| layout.name == wanted));
    if let Some((holder, all)) = known.as_ref().filter(|_| layout.is_none()) {
        let names = || all.iter().map(|layout| layout.name.as_str());
        let near =
            nearest(wanted, names()).map_or_else(|| names().collect::<Vec<_>>().join("`, `"), str::to_owned);
        let message = format!("`{}` has no MIG layout `{shown}`: the GPUs stay whole", holder.display_name());
        ctx.report(&place, message).help(format!("name one that it has: `{}`", ellipsize(&near))).related(
            holder,
            &holder.path(&["metadata", "name"]),
            "the layouts",
        );
        return None;
    }
    let profiles = match layout {
        Some(layout) => layout.profiles.clone(),
        // The layouts of the MIG manager itself: `all-1g.5gb`, `all-1g.5gb.me`.
        None => wanted.strip_prefix("all-").and_then(profile_of_name).into_iter().collect(),
    };
    let types = NodePool::new(object)?.types()?;
    for profile in profiles.iter().filter(|profile| is_known_profile(profile)) {
        let Some(gpu) = without(&types, profile) else { continue };
        let message =
            format!("the `{gpu}` GPUs of the pool do not offer `{profile}` of the MIG layout `{shown}`");
        ctx.report(&place, message).help("name a layout of profiles that this GPU offers");
        return None;
    }
    None
}

/// The layouts of the only MIG manager of the input, and the object that has them. `None` for those of the manager itself, whose
/// number grows with each release.
fn layouts<'i>(ctx: &Context<'i>) -> Option<(&'i Object, Vec<Layout>)> {
    let cluster = ctx.cluster();
    let policies = cluster.of(Kind::CLUSTER_POLICY).map(|one| (one, one.path(&["spec", "migManager"])));
    let by_charts = chart_installers(cluster)
        .flat_map(|one| value_fields(one, "gpu-operator").map(move |values| (one, values.get("migManager"))));
    let mut all = policies.chain(by_charts);
    let (owner, manager) = all.next().filter(|_| all.next().is_none())?;
    if !ctx.pairs_with(owner) || owner.may_lack_fields() || manager.get("enabled").bool() == Some(false) {
        return None;
    }
    let config = manager.get("config");
    let holder = if config.get("create").bool() == Some(true) {
        owner
    } else {
        let mut maps = cluster.written_as(Kind::CONFIG_MAP, config.get("name").text()?);
        maps.next().filter(|map| maps.next().is_none() && ctx.pairs_with(map) && !map.may_lack_fields())?
    };
    let data = if holder.is(Kind::CONFIG_MAP) { holder.get("data") } else { config.get("data") };
    let read = |root: &Node<'_>| {
        let layouts = root.get("mig-configs");
        let is_whole = layouts.is_mapping() && !layouts.has_unknown_key();
        is_whole
            .then(|| layouts.entries().iter().map(|(name, parts)| layout(name, parts)).collect::<Vec<_>>())
    };
    Some((holder, with_embedded(data.get("config.yaml").text()?, read)?))
}

fn layout(name: &str, parts: &Node<'_>) -> Layout {
    // A part may be for some devices, or for GPUs of one model.
    let is_for_all =
        |part: &Node<'_>| part.get("devices").text() == Some("all") && !part.get("device-filter").is_set();
    let devices = parts.items().filter(is_for_all).flat_map(|part| part.get("mig-devices").entries());
    let profiles = devices.filter_map(|(profile, _)| profile_of_name(profile)).collect();
    Layout { name: name.to_owned(), profiles }
}
