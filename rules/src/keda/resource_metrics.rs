//! The resource metrics of an autoscaler: use of CPU and memory, counted against what containers request.

use super::{Trigger, triggers};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// A metric whose value is a share of a request, or that KEDA's admission treats as one.
#[derive(Clone, Debug)]
pub struct ResourceMetric<'a> {
    /// Where the resource is named.
    pub node: Node<'a>,
    /// `cpu` or `memory`.
    pub resource: &'a str,
    /// The container that is measured; all of the pod where there is none.
    pub container: Option<&'a str>,
}

impl ResourceMetric<'_> {
    /// Whether it measures a container of the target.
    #[must_use]
    pub fn measures(&self, container: &Node<'_>) -> bool {
        self.container.is_none_or(|name| container.get("name").text() == Some(name))
    }
}

/// The metrics of a ScaledObject or an HPA that can be read.
#[must_use]
pub fn resource_metrics(object: &Object) -> Vec<ResourceMetric<'_>> {
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
