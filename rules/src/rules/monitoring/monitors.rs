//! The scrape configurations of dcgm-exporter among the objects.

use crate::cluster::query::Query;
use crate::rules::prelude::*;

pub(in crate::rules) fn endpoints(monitor: &Object) -> impl Iterator<Item = Node<'_>> {
    let field = if monitor.is(Kind::POD_MONITOR) { "podMetricsEndpoints" } else { "endpoints" };
    monitor.root().items_at(&["spec", field])
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
        let relabels = ["relabelings", "metricRelabelings"].iter().any(|list| endpoint.get(list).is_set());
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
    const KINDS: &'static [Kind] = &[Kind::SERVICE_MONITOR, Kind::POD_MONITOR];

    fn is_satisfied(monitor: &Object) -> bool {
        is_dcgm(monitor)
    }
}
