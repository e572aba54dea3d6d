//! The resource metrics of an autoscaler: CPU and memory utilization relative to the requests of containers.

use super::{Trigger, triggers};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// A metric whose value is a percentage of a request, or that KEDA's admission webhook treats as one.
#[derive(Clone, Debug)]
pub(crate) struct ResourceMetric<'a> {
    /// The node that names the resource.
    pub node: Node<'a>,
    /// `cpu` or `memory`.
    pub resource: &'a str,
    /// The container that is measured; `None` for the whole pod.
    pub container: Option<&'a str>,
}

impl ResourceMetric<'_> {
    pub(crate) fn measures(&self, container: &Node<'_>) -> bool {
        self.container.is_none_or(|name| container.get("name").text() == Some(name))
    }
}

/// The resource metrics of a ScaledObject or HPA. Metrics that cannot be read are left out.
pub(crate) fn resource_metrics(object: &Object) -> Vec<ResourceMetric<'_>> {
    if object.is(Kind::HPA) {
        object.path(&["spec", "metrics"]).items().filter_map(of_hpa_metric).collect()
    } else {
        triggers(object).filter_map(of_trigger).collect()
    }
}

fn of_trigger(trigger: Trigger<'_>) -> Option<ResourceMetric<'_>> {
    let container = trigger.metadata().get("containerName");
    if !trigger.is_resource() || container.is_unknown() {
        return None;
    }
    Some(ResourceMetric {
        node: trigger.node.get("type"),
        resource: trigger.kind()?,
        container: container.text().filter(|t| !t.is_empty()),
    })
}

fn of_hpa_metric(metric: Node<'_>) -> Option<ResourceMetric<'_>> {
    let (body, container) = match metric.get("type").text()? {
        "Resource" => (metric.get("resource"), None),
        "ContainerResource" => {
            let body = metric.get("containerResource");
            let container = body.get("container").text()?;
            (body, Some(container))
        }
        _ => return None,
    };
    let node = body.get("name");
    let resource = node.text().filter(|name| matches!(*name, "cpu" | "memory"))?;
    let share = body.path(&["target", "type"]).text() == Some("Utilization");
    share.then_some(ResourceMetric { node, resource, container })
}

/// A metric that is a percentage of the requests of containers.
#[derive(Clone, Debug)]
pub(crate) struct Utilization<'a> {
    /// The node of the percentage; that of the metrics for an HPA without any, which scales on CPU.
    pub node: Node<'a>,
    /// `cpu` or `memory`.
    pub resource: &'a str,
    /// The container that is measured; `None` for the whole pod.
    pub container: Option<&'a str>,
    /// The target; `None` if it is not known.
    pub percent: Option<i64>,
}

/// The target of an HPA without a metric.
const DEFAULT_PERCENT: i64 = 80;

/// The targets of a ScaledObject or HPA that are percentages of requests. Metrics that cannot be read are left out.
pub(crate) fn utilizations(object: &Object) -> Vec<Utilization<'_>> {
    if !object.is(Kind::HPA) {
        return triggers(object).filter_map(utilization_of_trigger).collect();
    }
    let spec = object.get("spec");
    let (metrics, old) = (spec.get("metrics"), spec.get("targetCPUUtilizationPercentage"));
    let (node, percent) = if old.is_set() {
        let percent = old.int();
        (old, percent)
    } else if metrics.is_absent() && object.version().starts_with("v2") && !object.is_partial() {
        (metrics, Some(DEFAULT_PERCENT))
    } else {
        return metrics.items().filter_map(utilization_of_metric).collect();
    };
    vec![Utilization { node, resource: "cpu", container: None, percent }]
}

fn utilization_of_trigger(trigger: Trigger<'_>) -> Option<Utilization<'_>> {
    let metadata = trigger.metadata();
    let kind = trigger.node.get("metricType");
    let kind = if kind.is_set() { kind } else { metadata.get("type") };
    if kind.text() != Some("Utilization") {
        return None;
    }
    let ResourceMetric { resource, container, .. } = of_trigger(trigger)?;
    let node = metadata.get("value");
    let percent = node.text().and_then(|text| text.trim().parse().ok());
    Some(Utilization { node, resource, container, percent })
}

fn utilization_of_metric(metric: Node<'_>) -> Option<Utilization<'_>> {
    let field = if metric.get("type").text()? == "Resource" { "resource" } else { "containerResource" };
    let body = metric.get(field);
    let old = body.get("targetAverageUtilization");
    let node = if old.is_set() { old } else { body.path(&["target", "averageUtilization"]) };
    let ResourceMetric { resource, container, .. } = of_hpa_metric(metric)?;
    let percent = node.int();
    Some(Utilization { node, resource, container, percent })
}
