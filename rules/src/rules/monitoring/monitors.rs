//! The monitors among the objects: what is scraped, for dcgm-exporter in particular.
//!
//! The operator of VictoriaMetrics gives the labels that the Prometheus Operator gives: `generatePodScrapeConfig` and
//! `generateServiceScrapeConfig` in `internal/controller/operator/factory/vmagent` of its repository, read in November 2026.

use crate::cluster::query::Query;
use crate::rules::prelude::*;

/// The kinds of monitors, of the Prometheus Operator and of that of VictoriaMetrics.
pub(in crate::rules) const MONITORS: [Kind; 4] =
    [Kind::POD_MONITOR, Kind::SERVICE_MONITOR, Kind::VM_POD_SCRAPE, Kind::VM_SERVICE_SCRAPE];

/// The lists of an endpoint that change the labels of its series.
pub(in crate::rules) const RELABELINGS: [&str; 4] =
    ["relabelings", "metricRelabelings", "relabelConfigs", "metricRelabelConfigs"];

/// Whether a monitor selects pods, and not Services.
pub(in crate::rules) fn is_of_pods(monitor: &Object) -> bool {
    monitor.is(Kind::POD_MONITOR) || monitor.is(Kind::VM_POD_SCRAPE)
}

/// Whether agents of VictoriaMetrics may give the series of monitors labels of their own. Which of several agents scrapes what
/// is not known. A rule that calls this reads VMAgents.
pub(in crate::rules) fn agents_may_relabel(cluster: &Cluster) -> bool {
    const LISTS: [&str; 4] =
        ["podScrapeRelabelTemplate", "serviceScrapeRelabelTemplate", "inlineRelabelConfig", "relabelConfig"];
    let relabels = |agent: &Object| {
        agent.may_lack_fields() || LISTS.iter().any(|field| !agent.path(&["spec", field]).is_absent())
    };
    let mut agents = cluster.of(Kind::VM_AGENT);
    agents.next().is_some_and(|agent| relabels(agent) || agents.next().is_some())
}

/// The label that a relabelling writes; VictoriaMetrics reads it by the name of Prometheus as well.
pub(in crate::rules) fn target_label<'a>(relabelling: &Node<'a>) -> Node<'a> {
    let camel = relabelling.get("targetLabel");
    if camel.is_set() { camel } else { relabelling.get("target_label") }
}

pub(super) fn endpoints_field(monitor: &Object) -> &'static str {
    if is_of_pods(monitor) { "podMetricsEndpoints" } else { "endpoints" }
}

pub(in crate::rules) fn endpoints(monitor: &Object) -> impl Iterator<Item = Node<'_>> {
    monitor.root().items_at(&["spec", endpoints_field(monitor)])
}

pub(super) fn is_dcgm(monitor: &Object) -> bool {
    let labels = monitor.path(&["spec", "selector", "matchLabels"]);
    labels.entries().iter().any(|(_, value)| value.text().is_some_and(|text| text.contains("dcgm-exporter")))
}

/// The first monitor of dcgm-exporter, and the result of [`keeps_labels`]. `None` if the monitors differ in it.
pub(super) struct HonorLabels;

impl Query for HonorLabels {
    const SLOT: QuerySlot = QuerySlot::HonorLabels;
    const KINDS: &'static [Kind] = DcgmMonitors::KINDS;
    type Key = ();
    type Value = Option<(ObjectKey, bool)>;

    fn compute(cluster: &Cluster, (): &()) -> Option<(ObjectKey, bool)> {
        let monitors = cluster.satisfying::<DcgmMonitors>();
        let (first, others) = monitors.split_first()?;
        let keeps = keeps_labels(&first.0)?;
        others.iter().all(|other| keeps_labels(&other.0) == Some(keeps)).then(|| (first.clone(), keeps))
    }
}

/// Whether the workload labels of the exporter's metrics keep their names: `pod` instead of `exported_pod`. `None` if
/// endpoints differ, or relabelling may change names.
pub(super) fn keeps_labels(monitor: &Object) -> Option<bool> {
    let mut all: Option<bool> = None;
    for endpoint in endpoints(monitor) {
        let relabels = RELABELINGS.iter().any(|list| endpoint.get(list).is_set());
        let honor = endpoint.get("honorLabels");
        if relabels || endpoint.has_unknown() {
            return None;
        }
        let honors = if honor.is_set() { honor.bool()? } else { false };
        if all.is_some_and(|before| before != honors) {
            return None;
        }
        all = Some(honors);
    }
    all
}

pub(super) struct DcgmMonitors;

impl Predicate for DcgmMonitors {
    const SLOT: QuerySlot = QuerySlot::DcgmMonitors;
    const KINDS: &'static [Kind] = &MONITORS;

    fn is_satisfied(monitor: &Object) -> bool {
        is_dcgm(monitor)
    }
}
