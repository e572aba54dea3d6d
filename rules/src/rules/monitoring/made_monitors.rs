//! The monitors and rules that charts and the GPU Operator make from values, with the labels that their templates add.
//!
//! Read in: `deployment/templates/service-monitor.yaml` of dcgm-exporter 3.0 to 4.8, `controllers/object_controls.go` and
//! `assets/state-dcgm-exporter` of gpu-operator 23.9 to 26.7, `templates/servicemonitor.yaml` of Karpenter's chart, and the templates of
//! KEDA's chart for its three programs.

use super::monitor_unselected::LABELS;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, ValuePlace, is_for_other_cluster};

/// A monitor that a chart makes.
struct MonitorTemplate {
    chart: &'static str,
    /// The values for it. The values above switch it off as well.
    path: &'static [&'static str],
    kind: Kind,
    /// Whether the values have to switch it on: the chart's own do not, in some versions at least.
    needs_switch: bool,
}

const fn template(chart: &'static str, path: &'static [&'static str], kind: Kind) -> MonitorTemplate {
    MonitorTemplate { chart, path, kind, needs_switch: true }
}

const TEMPLATES: [MonitorTemplate; 10] = [
    MonitorTemplate {
        needs_switch: false,
        ..template("dcgm-exporter", &["serviceMonitor"], Kind::SERVICE_MONITOR)
    },
    template("gpu-operator", &["dcgmExporter", "serviceMonitor"], Kind::SERVICE_MONITOR),
    template("karpenter", &["serviceMonitor"], Kind::SERVICE_MONITOR),
    template("keda", &["prometheus", "operator", "serviceMonitor"], Kind::SERVICE_MONITOR),
    template("keda", &["prometheus", "operator", "podMonitor"], Kind::POD_MONITOR),
    template("keda", &["prometheus", "operator", "prometheusRules"], Kind::PROMETHEUS_RULE),
    template("keda", &["prometheus", "metricServer", "serviceMonitor"], Kind::SERVICE_MONITOR),
    template("keda", &["prometheus", "metricServer", "podMonitor"], Kind::POD_MONITOR),
    template("keda", &["prometheus", "webhooks", "serviceMonitor"], Kind::SERVICE_MONITOR),
    template("keda", &["prometheus", "webhooks", "prometheusRules"], Kind::PROMETHEUS_RULE),
];

/// A monitor or a rule that is made from the values of an object.
pub(super) struct MadeMonitor<'a> {
    pub(super) kind: Kind,
    /// How a message calls what makes it.
    pub(super) maker: String,
    /// The path of the values with its labels.
    pub(super) path: String,
    /// The labels of the values; none if they say nothing about labels.
    pub(super) labels: Vec<(String, String)>,
    pub(super) place: ValuePlace<'a>,
    /// The place of the labels, where a fix can write them.
    pub(super) field: Option<Node<'a>>,
}

/// The monitors that an object makes, whose labels are known beside those that each chart of Helm has.
pub(super) fn made_monitors(object: &Object) -> Vec<MadeMonitor<'_>> {
    if object.is(Kind::CLUSTER_POLICY) {
        return of_policy(object).into_iter().collect();
    }
    let spec = object.get("spec");
    // These give labels to all objects of a release.
    let aside = ["postRenderers", "commonMetadata"].iter().any(|field| spec.get(field).is_set());
    if aside || object.may_lack_fields() || is_for_other_cluster(object) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for template in &TEMPLATES {
        for_each_values(object, template.chart, |values| out.extend(of_values(template, values, object)));
    }
    out
}

fn of_policy(object: &Object) -> Option<MadeMonitor<'_>> {
    let path = ["spec", "dcgmExporter", "serviceMonitor"];
    let monitor = object.path(&path);
    let enabled = monitor.get("enabled");
    let exporter = object.path(&path[..2]).get("enabled");
    if object.may_lack_fields() || enabled.bool() != Some(true) || exporter.bool() == Some(false) {
        return None;
    }
    let field = monitor.get(LABELS);
    Some(MadeMonitor {
        kind: Kind::SERVICE_MONITOR,
        maker: "dcgm-exporter".to_owned(),
        path: format!("{}.{LABELS}", path[1..].join(".")),
        labels: written(&field)?,
        place: ValuePlace::of(enabled),
        field: Some(field),
    })
}

fn of_values<'a>(
    template: &MonitorTemplate,
    values: &ChartValues<'_, 'a>,
    object: &'a Object,
) -> Option<MadeMonitor<'a>> {
    let root = values.root;
    let monitor = root.path(template.path);
    let enabled = monitor.get("enabled");
    let (_, above) = template.path.split_last()?;
    let mut groups = (1..=above.len()).map(|steps| root.path(&above[..steps]).get("enabled"));
    let is_off = |switch: &Node<'_>| switch.is_unknown() || switch.bool() == Some(false);
    // KEDA's chart has a switch for each program beside that of the monitor, which is off by default.
    let lacks_switch = template.chart == "keda" && root.path(above).get("enabled").bool() != Some(true);
    // Values below the name of the chart are those of a chart around it.
    let is_unclear = values.may_differ
        || root.has_unknown_key()
        || root.get(template.chart).is_set()
        || root.get("global").is_set()
        || ["labels", "commonLabels", "customLabels", "extraLabels", LABELS]
            .iter()
            .any(|field| root.get(field).is_set());
    if is_unclear
        || lacks_switch
        || is_off(&enabled)
        || groups.any(|switch| is_off(&switch))
        || template.needs_switch && enabled.bool() != Some(true)
    {
        return None;
    }
    let field = monitor.get(LABELS);
    let at = values.place(&field, object);
    Some(MadeMonitor {
        kind: template.kind,
        maker: format!("chart `{}`", template.chart),
        path: format!("{}.{LABELS}", template.path.join(".")),
        labels: written(&field)?,
        place: values.place(&enabled, object),
        field: (!at.is_in_text).then_some(at.node),
    })
}

/// The labels of a map. `None` if they are not all known.
fn written(labels: &Node<'_>) -> Option<Vec<(String, String)>> {
    if labels.has_unknown() {
        return None;
    }
    let text = |value: Node<'_>| value.raw_text().map(str::to_owned);
    labels.entries().into_iter().map(|(key, value)| Some((key.to_owned(), text(value)?))).collect()
}

/// Whether a label is one that charts of Helm give to their objects by themselves.
pub(super) fn is_of_charts(key: &str) -> bool {
    matches!(key, "app" | "chart" | "heritage" | "component")
        || key.starts_with("app.kubernetes.io/")
        || key.starts_with("helm.sh/")
}
