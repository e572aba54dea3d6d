//! The tolerations that the values of a chart give to the DaemonSets of a node's helpers.

use super::gpu_helper_missing::{brings, tolerate, user_data_has};
use super::node_helpers::{Helper, has_devices, helper_of_image, helpers, lacking_label, untolerated};
use crate::cluster::values::ChartValues;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::Toleration;
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;

/// A chart with a helper.
struct Chart {
    name: &'static str,
    /// The image of the helper, as [`Helper::image`].
    image: &'static str,
    /// The field of its values with the tolerations.
    tolerations: &'static [&'static str],
    /// The key that it tolerates without such a value, from its `values.yaml` (read in November 2026).
    default: Option<&'static str>,
}

const CHARTS: [Chart; 3] = [
    Chart {
        name: "nvidia-device-plugin",
        image: "k8s-device-plugin",
        tolerations: &["tolerations"],
        default: Some("nvidia.com/gpu"),
    },
    Chart {
        name: "gpu-operator",
        image: "k8s-device-plugin",
        tolerations: &["daemonsets", "tolerations"],
        default: Some("nvidia.com/gpu"),
    },
    Chart { name: "dcgm-exporter", image: "dcgm-exporter", tolerations: &["tolerations"], default: None },
];

/// Reports a chart whose helper does not tolerate a taint of a pool.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) {
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
    let list = values.root.path(chart.tolerations);
    let plugin = values.root.path(&["devicePlugin", "enabled"]);
    let is_off = chart.name == "gpu-operator" && (plugin.is_unknown() || plugin.bool() == Some(false));
    if list.has_unknown() || is_off || values.may_differ && !list.is_set() || is_installed_twice(helper, ctx)
    {
        return None;
    }
    let tolerations: Vec<Toleration> = if list.is_set() {
        list.items().map(|item| toleration(&item)).collect()
    } else {
        let of_key = |key: &str| Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            ..Toleration::default()
        };
        chart.default.map(of_key).into_iter().collect()
    };
    let device = helper.device?;
    let (pool, node, taints) = ctx.cluster().of(Kind::NODE_POOL).find_map(|object| {
        let pool = NodePool::new(object)?;
        let needs = has_devices(&pool, device) && !pool.is_auto_mode() && ctx.pairs_with(object);
        if !needs || pool.template_spec().get("taints").has_unknown() || brings(helper, &pool, ctx) {
            return None;
        }
        let (node, taints) = untolerated(&tolerations, &pool)?;
        Some((object, node, taints))
    })?;
    let message = format!(
        "`{}` does not tolerate `{}`: nodes of GPU pool `{}` have {}",
        ctx.object().display_name(),
        taints[0].key,
        pool.display_name(),
        helper.lacking
    );
    let is_needed = helper.role == super::node_helpers::Role::DevicePlugin;
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
    if chart.name == "gpu-operator" || is_unknown || is_installed_twice(helper, ctx) {
        return None;
    }
    let device = helper.device?;
    let mut first: Option<(&Object, String, Node<'_>)> = None;
    for object in ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED) {
        let pool = NodePool::new(object)?;
        // A patch may give it the label.
        if object.may_lack_fields() {
            return None;
        }
        if !has_devices(&pool, device) || pool.is_auto_mode() || brings(helper, &pool, ctx) {
            continue;
        }
        let (place, key) = lacking_label(&selector, &pool)?;
        if user_data_has(&pool, key, ctx) {
            return None;
        }
        if first.is_none() && ctx.pairs_with(object) {
            first = Some((object, key.to_owned(), place));
        }
    }
    let (pool, key, place) = first?;
    let message = format!(
        "`{}` selects `{key}`: nodes of GPU pool `{}` lack it and have {}",
        ctx.object().display_name(),
        pool.display_name(),
        helper.lacking
    );
    let is_needed = helper.role == super::node_helpers::Role::DevicePlugin;
    report_value(values, &place, message, ctx)
        .severity(if is_needed { Severity::Warning } else { Severity::Info })
        .help(format!("add the label `{key}` to the pool's template, or select one that it has"))
        .related(pool, &pool.path(&["metadata", "name"]), "the pool without the label");
    Some(())
}

/// Maximum number of NodePools that are compared.
const MAX_COMPARED: usize = 256;

/// Whether something else in the input may run the helper.
fn is_installed_twice(helper: Helper, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let installs = |object: &&Object| {
        let mut found = false;
        for chart in CHARTS.iter().filter(|chart| chart.image == helper.image) {
            for_each_values(object, chart.name, |_| found = true);
        }
        found
    };
    let releases = chart_installers(cluster).filter(installs);
    let by_set =
        |set: &Object| templates(set).iter().any(|template| helpers(template).any(|one| one == helper));
    cluster.has_any(Kind::CLUSTER_POLICY) || releases.count() > 1 || cluster.of(Kind::DAEMON_SET).any(by_set)
}
