//! The scrape configurations of dcgm-exporter among the objects.

use crate::kind::Kind;
use crate::object::Object;
use crate::rules::prelude::*;

pub(super) const SERVICE_MONITOR: Kind = Kind::new("monitoring.coreos.com", "ServiceMonitor");
pub(super) const POD_MONITOR: Kind = Kind::new("monitoring.coreos.com", "PodMonitor");

/// The endpoints that a monitor scrapes.
pub(super) fn endpoints(monitor: &Object) -> impl Iterator<Item = Node<'_>> {
    let field = if monitor.is(POD_MONITOR) { "podMetricsEndpoints" } else { "endpoints" };
    monitor.root().items_at(&["spec", field])
}

/// Whether a monitor selects dcgm-exporter.
pub(super) fn is_dcgm(monitor: &Object) -> bool {
    let labels = monitor.path(&["spec", "selector", "matchLabels"]);
    labels.entries().iter().any(|(_, value)| value.text().is_some_and(|text| text.contains("dcgm-exporter")))
}

/// Whether the workload labels of the exporter's metrics keep their names: `pod` instead of `exported_pod`. `None` where
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

/// The monitors of dcgm-exporter.
pub(super) fn dcgm_monitors<'i>(ctx: &Context<'i>) -> impl Iterator<Item = &'i Object> {
    let index = ctx.index();
    index.of(SERVICE_MONITOR).chain(index.of(POD_MONITOR)).filter(|monitor| is_dcgm(monitor))
}
