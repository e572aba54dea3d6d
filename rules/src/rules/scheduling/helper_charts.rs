//! The tolerations that the values of a chart give to the DaemonSets of a node's helpers.

use super::gpu_helper_missing::{brings, pool_of_mounts, pool_of_tenants, tolerate, user_data_has};
use super::node_helpers::{
    Helper, has_devices, helper_of_image, helpers, lacking_label, pool_noun, untolerated,
};
use crate::cluster::pod_policies::{PodPart, may_change_some_pods};
use crate::cluster::values::chart_version;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::Toleration;
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, Merged, installs, merged};
use crate::workload::template::REQUIRED_AFFINITY;

/// A helper that a chart brings.
struct Chart {
    name: &'static str,
    /// The image of the helper, as [`Helper::image`].
    image: &'static str,
    /// The part of the chart, for the message.
    part: &'static str,
    /// The device whose nodes need it. `None` if all with accelerators do.
    device: Option<&'static str>,
    /// The field of its values that switches the helper on or off, and whether it is on without.
    switch: (&'static [&'static str], bool),
    /// The field of its values with the tolerations.
    tolerations: &'static [&'static str],
    /// The taint that it tolerates without such a value, from its `values.yaml` (read in November 2026): the key, and the value if
    /// it tolerates only that. The effect is [`NO_SCHEDULE`].
    default: Option<(&'static str, &'static str)>,
}

const NO_SCHEDULE: &str = "NoSchedule";
const NVIDIA: Option<&str> = Some("nvidia.com/gpu");
const NFD: &str = "node-feature-discovery";

const CHARTS: [Chart; 6] = [
    Chart {
        name: "nvidia-device-plugin",
        image: "k8s-device-plugin",
        part: "",
        device: NVIDIA,
        switch: (&["devicePlugin", "enabled"], true),
        tolerations: &["tolerations"],
        default: Some(("nvidia.com/gpu", "")),
    },
    Chart {
        name: "gpu-operator",
        image: "k8s-device-plugin",
        part: "",
        device: NVIDIA,
        switch: (&["devicePlugin", "enabled"], true),
        tolerations: &["daemonsets", "tolerations"],
        default: Some(("nvidia.com/gpu", "")),
    },
    Chart {
        name: "dcgm-exporter",
        image: "dcgm-exporter",
        part: "",
        device: NVIDIA,
        switch: (&[], true),
        tolerations: &["tolerations"],
        default: None,
    },
    Chart {
        name: "gpu-operator",
        image: NFD,
        part: "the NFD worker of ",
        device: NVIDIA,
        switch: (&["nfd", "enabled"], true),
        tolerations: &[NFD, "worker", "tolerations"],
        default: Some(("nvidia.com/gpu", "")),
    },
    Chart {
        name: "nvidia-device-plugin",
        image: NFD,
        part: "the NFD worker of ",
        device: NVIDIA,
        switch: (&["gfd", "enabled"], false),
        tolerations: &["nfd", "worker", "tolerations"],
        default: Some(("nvidia.com/gpu", "present")),
    },
    Chart {
        name: NFD,
        image: NFD,
        part: "the worker of ",
        device: None,
        switch: (&["worker", "enable"], true),
        tolerations: &["worker", "tolerations"],
        default: None,
    },
];

impl Chart {
    /// Whether the values switch the helper on. `None` if that is not known.
    fn is_on(&self, values: &ChartValues<'_, '_>) -> Option<bool> {
        let (path, default) = self.switch;
        let switch = values.root.path(path);
        if path.is_empty() || !switch.is_set() && !values.may_differ {
            return Some(default);
        }
        switch.bool()
    }

    fn is_needed(&self, ctx: &Context<'_>) -> bool {
        let runs_operator = || {
            let operator = |object: &Object| installs(object, "gpu-operator");
            ctx.cluster().has_any(Kind::CLUSTER_POLICY) || chart_installers(ctx.cluster()).any(operator)
        };
        match self.image {
            // NVIDIA's programs select the labels that it writes.
            NFD => self.name != NFD || runs_operator(),
            image => image == "k8s-device-plugin",
        }
    }

    /// Whether the nodes of a pool need the helper. Those of a pool that gives its nodes the labels of NFD do not need its worker.
    fn concerns(&self, pool: &NodePool<'_>) -> bool {
        let is_label =
            |key: &str| key.starts_with("feature.node.kubernetes.io/") || key == "nvidia.com/gpu.present";
        if self.image == NFD && pool.labels().entries().iter().any(|(key, _)| is_label(key)) {
            return false;
        }
        match self.device {
            Some(device) => has_devices(pool, device),
            None => pool.hardware() == Hardware::Accelerated,
        }
    }
}

/// The charts of drivers of volumes, called after their images, and whether `node.tolerateAllTaints` decides about the taints. Its
/// default was not always true, so that only a written one counts. Without it, `node.tolerations` tolerates all by default.
const DRIVER_CHARTS: [(&str, bool); 4] = [
    ("aws-ebs-csi-driver", true),
    ("aws-efs-csi-driver", false),
    ("aws-fsx-csi-driver", true),
    ("aws-mountpoint-s3-csi-driver", true),
];

/// Reports the chart of a driver whose DaemonSet does not tolerate a taint of all pools of some pods that mount its volumes.
fn inspect_driver(
    helper: Helper,
    has_switch: bool,
    values: &ChartValues<'_, '_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let node = values.root.get("node");
    let (list, switch) = (node.get("tolerations"), node.get("tolerateAllTaints"));
    let is_decided =
        if has_switch { switch.bool() == Some(false) } else { list.is_set() && !switch.is_set() };
    let is_unknown =
        list.has_unknown() || values.may_differ || values.root.get("additionalDaemonSets").is_set();
    let is_mutated = || may_change_some_pods(ctx.cluster(), PodPart::Tolerations);
    if !is_decided || is_unknown || has_set(helper, ctx) || is_mutated() {
        return None;
    }
    let mut tolerations: Vec<Toleration> = list.items().map(|item| toleration(&item)).collect();
    if has_switch {
        // The value that each chart has by default.
        let (operator, effect) = ("Exists".to_owned(), "NoExecute".to_owned());
        tolerations.push(Toleration { operator, effect, ..Toleration::default() });
    }
    let is_unreached = |pool: &NodePool<'_>| {
        !pool.template_spec().get("taints").has_unknown() && untolerated(&tolerations, pool).is_some()
    };
    let stuck = pool_of_mounts(helper, &is_unreached, ctx);
    let pool = NodePool::new(stuck.or_else(|| pool_of_tenants(helper, &is_unreached, ctx))?)?;
    let severity = if stuck.is_some() { Severity::Warning } else { Severity::Info };
    let (taint, taints) = untolerated(&tolerations, &pool)?;
    let message = format!(
        "`{}` does not tolerate `{}`: nodes of pool `{}` have {}",
        ctx.object().display_name(),
        taints[0].key,
        pool.object().display_name(),
        helper.lacking
    );
    let place = if list.is_set() { list } else { switch };
    report_value(values, &place, message, ctx).severity(severity).help(tolerate(&taints)).related(
        pool.object(),
        &taint,
        "this taint keeps its pods off the nodes",
    );
    Some(())
}

/// Reports a chart whose helper does not tolerate a taint of a pool.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) {
    for (chart, has_switch) in DRIVER_CHARTS {
        for_each_values(object, chart, |values| {
            if let Some(helper) = helper_of_image(chart) {
                inspect_driver(helper, has_switch, values, ctx);
            }
        });
    }
    for chart in &CHARTS {
        for_each_values(object, chart.name, |values| {
            if let Some(helper) = helper_of_image(chart.image) {
                inspect(chart, helper, values, ctx);
            }
        });
    }
}

fn inspect(chart: &Chart, helper: Helper, values: &ChartValues<'_, '_>, ctx: &mut Context<'_>) -> Option<()> {
    let _ = inspect_selector(chart, helper, values, ctx);
    let _ = inspect_affinity(chart, helper, values, ctx);
    let list = values.root.path(chart.tolerations);
    let is_off = chart.is_on(values) != Some(true);
    let is_default = merged(values.root, chart.tolerations) == Merged::Default;
    // Not every release of Helm removes a default of a dependency.
    let may_stay = list.is_null() && chart.image == NFD && chart.name != NFD;
    if list.has_unknown()
        || is_off
        || values.may_differ && !list.is_set()
        || may_stay
        || is_installed_twice(helper, ctx)
        || may_change_some_pods(ctx.cluster(), PodPart::Tolerations)
    {
        return None;
    }
    let tolerations: Vec<Toleration> = if !is_default {
        list.items().map(|item| toleration(&item)).collect()
    } else {
        let of_taint = |(key, value): (&str, &str)| Toleration {
            key: key.to_owned(),
            operator: if value.is_empty() { "Exists" } else { "Equal" }.to_owned(),
            value: value.to_owned(),
            effect: NO_SCHEDULE.to_owned(),
        };
        chart.default.map(of_taint).into_iter().collect()
    };
    let (pool, node, taints) = ctx.cluster().of(Kind::NODE_POOL).find_map(|object| {
        let pool = NodePool::new(object)?;
        let needs = chart.concerns(&pool) && !pool.is_auto_mode() && ctx.pairs_with(object);
        if !needs || pool.template_spec().get("taints").has_unknown() || brings(helper, &pool, ctx) {
            return None;
        }
        let (node, taints) = untolerated(&tolerations, &pool)?;
        Some((object, node, taints))
    })?;
    let is_value = |(key, value): (&str, &str)| key == taints[0].key && !value.is_empty();
    let shown = match chart.default {
        Some(default) if is_default && is_value(default) && !taints[0].value.is_empty() => {
            format!("{}={}", taints[0].key, taints[0].value)
        }
        Some((key, _)) if is_default && key == taints[0].key && taints[0].effect != NO_SCHEDULE => {
            format!("{}:{}", taints[0].key, taints[0].effect)
        }
        _ => taints[0].key.clone(),
    };
    let noun = || NodePool::new(pool).map_or("GPU pool", |pool| pool.noun());
    let message = format!(
        "{}`{}` does not tolerate `{}`: nodes of {} `{}` have {}",
        chart.part,
        ctx.object().display_name(),
        shown,
        helper.device.map_or_else(noun, pool_noun),
        pool.display_name(),
        helper.lacking
    );
    let is_needed = chart.is_needed(ctx);
    report_value(values, &list, message, ctx)
        .severity(if is_needed { Severity::Warning } else { Severity::Info })
        .help(tolerate(&taints))
        .related(pool, &node, "this taint keeps its pods off the nodes");
    None
}

/// Reports a chart whose pods select a label that the nodes of no pool with the device have. The pods of the GPU Operator select labels that
/// the operator writes itself.
fn inspect_selector(
    chart: &Chart,
    helper: Helper,
    values: &ChartValues<'_, '_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let selector = values.root.get("nodeSelector");
    let is_unknown = selector.has_unknown() || selector.has_unknown_key() || values.may_differ;
    if chart.name == "gpu-operator" || chart.image == NFD || is_unknown || is_installed_twice(helper, ctx) {
        return None;
    }
    let device = helper.device?;
    let mut first = None;
    for object in ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED) {
        let pool = NodePool::new(object)?;
        // A patch may give it the label.
        if object.may_lack_fields() {
            return None;
        }
        if !has_devices(&pool, device) || pool.is_auto_mode() || brings(helper, &pool, ctx) {
            continue;
        }
        let label = lacking_label(&selector, &pool)?;
        if user_data_has(&pool, label.key, ctx) {
            return None;
        }
        if first.is_none() && ctx.pairs_with(object) {
            let nodes = format!("nodes of {} `{}`", pool_noun(device), object.display_name());
            let message = label.message(&ctx.object().display_name(), &nodes, helper.lacking);
            first = Some((object, label.place.clone(), message, label.help()));
        }
    }
    let (pool, place, message, help) = first?;
    let is_needed = helper.role == super::node_helpers::Role::DevicePlugin;
    report_value(values, &place, message, ctx)
        .severity(if is_needed { Severity::Warning } else { Severity::Info })
        .help(help)
        .related(pool, &pool.path(&["metadata", "name"]), "the pool");
    Some(())
}

/// The labels of which the pods of NVIDIA's device plugin need one by the default `affinity` of its chart, and the first release with
/// it (`values.yaml` of 0.14.5, 0.15.0 and 0.20.0). Node feature discovery writes them, which the chart brings with `gfd.enabled`, or
/// a person: images of EKS do not.
const DISCOVERED: [&str; 3] = [
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/cpu-model.vendor_id",
    "nvidia.com/gpu.present",
];
const FIRST_WITH_AFFINITY: Version = Version::new(0, 15);

/// Reports the chart of NVIDIA's device plugin whose pods need labels that nothing writes.
fn inspect_affinity(
    chart: &Chart,
    helper: Helper,
    values: &ChartValues<'_, '_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let root = values.root;
    // The condition of the dependency (`Chart.yaml`, 0.14 to 0.18): the first of them that is set decides.
    let switches = [&["nfd", "enabled"], &["gfd", "enabled"]].map(|path| root.path(path));
    let switch = switches.iter().find(|switch| switch.is_set());
    let selector = root.get("nodeSelector");
    let terms = ["affinity", "nodeAffinity", REQUIRED_AFFINITY, "nodeSelectorTerms"];
    let is_plain =
        !selector.is_unknown() && selector.entries().is_empty() && merged(root, &terms) == Merged::Default;
    if chart.name != "nvidia-device-plugin" || chart.image == NFD || !is_plain || values.may_differ {
        return None;
    }
    if root.has_unknown_key() || switch.is_some_and(|switch| switch.bool() != Some(false)) {
        return None;
    }
    let (object, cluster) = (ctx.object(), ctx.cluster());
    // Without a version it is the newest release.
    let version =
        chart_version(object, chart.name, ctx.cluster()).and_then(|text| Version::parse(text.trim()));
    if version.is_some_and(|version| version < FIRST_WITH_AFFINITY) {
        return None;
    }
    let discovers = |installer: &Object| {
        ["gpu-operator", "gpu-feature-discovery"].iter().any(|name| installs(installer, name))
            || installs(installer, NFD) && labels_by_vendor(installer)
    };
    let has_other_labels = chart_installers(cluster).any(|installer| installs(installer, NFD));
    let of_discovery = helper_of_image(NFD)?;
    if !cluster.is_complete()
        || is_installed_twice(helper, ctx)
        || chart_installers(cluster).any(discovers)
        || has_set(of_discovery, ctx)
        || cluster.has_any(Kind::CLUSTER_POLICY)
    {
        return None;
    }
    let has_label = |pool: &NodePool<'_>| {
        let labels = pool.labels();
        let may_have = |key: &&str| labels.get(key).is_set() || user_data_has(pool, key, ctx);
        labels.has_unknown_key() || labels.is_unknown() || DISCOVERED.iter().any(may_have)
    };
    let mut first = None;
    for found in cluster.of(Kind::NODE_POOL).take(MAX_COMPARED) {
        let pool = NodePool::new(found)?;
        let is_other =
            !has_devices(&pool, "nvidia.com/gpu") || pool.is_auto_mode() || brings(helper, &pool, ctx);
        if is_other {
            continue;
        }
        // Somebody may label the nodes of all pools in one way.
        if found.may_lack_fields() || has_label(&pool) {
            return None;
        }
        if first.is_none() && ctx.pairs_with(found) {
            first = Some(found);
        }
    }
    let pool = first?;
    let message = format!(
        "the pods of `{}` need `{}=true`, which nothing writes: nodes of `{}` have no GPU",
        object.display_name(),
        DISCOVERED[2],
        pool.display_name()
    );
    let help = match has_other_labels {
        true => "write `deviceLabelFields: [vendor]` for `sources.pci` in the values of NFD".to_owned(),
        false => format!(
            "write `gfd.enabled: true`, or the label `{}: \"true\"` in the pool's template",
            DISCOVERED[2]
        ),
    };
    report_value(values, switch.unwrap_or(&switches[1]), message, ctx)
        .severity(Severity::Warning)
        .help(help)
        .related(pool, &pool.path(&["metadata", "name"]), "the pool");
    Some(())
}

/// Whether NFD labels devices by their vendor alone, or may. By default the labels have the class as well, `pci-0302_10de.present`, which
/// no chart of NVIDIA's selects (`sources.pci.deviceLabelFields`, NFD 0.12 to 0.18).
fn labels_by_vendor(installer: &Object) -> bool {
    let mut is_read = false;
    let mut fits = false;
    for_each_values(installer, NFD, |values| {
        is_read = true;
        let fields = values.root.path(&["worker", "config", "sources", "pci", "deviceLabelFields"]);
        let mut names = fields.items();
        let is_vendor =
            names.next().is_some_and(|one| one.text() == Some("vendor")) && names.next().is_none();
        let is_unknown =
            values.may_differ || fields.has_unknown() || values.root.path(&["worker", "config"]).is_unknown();
        fits |= is_vendor || is_unknown;
    });
    fits || !is_read
}

/// Maximum number of NodePools that are compared.
const MAX_COMPARED: usize = 256;

/// Whether something else in the input may run the helper.
fn is_installed_twice(helper: Helper, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let is_installed = |object: &&Object| {
        let mut found = false;
        for chart in CHARTS.iter().filter(|chart| chart.image == helper.image) {
            for_each_values(object, chart.name, |values| found |= chart.is_on(values) != Some(false));
        }
        found
    };
    let releases = chart_installers(cluster).filter(is_installed);
    let has_operator = helper.image != NFD && cluster.has_any(Kind::CLUSTER_POLICY);
    has_operator || releases.count() > 1 || has_set(helper, ctx)
}

/// Whether a DaemonSet of the input runs the helper.
fn has_set(helper: Helper, ctx: &Context<'_>) -> bool {
    let by_set =
        |set: &Object| templates(set).iter().any(|template| helpers(template).any(|one| one == helper));
    ctx.cluster().of(Kind::DAEMON_SET).any(by_set)
}
