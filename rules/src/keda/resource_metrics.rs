//! The resource metrics of an autoscaler: CPU and memory utilization relative to the requests of containers.

use super::{Trigger, triggers};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// A metric whose value is a percentage of a request, or that KEDA's admission webhook treats as one.
#[derive(Clone, Debug)]
pub struct ResourceMetric<'a> {
    /// The node that names the resource.
    pub node: Node<'a>,
    /// `cpu` or `memory`.
    pub resource: &'a str,
    /// The container that is measured; `None` for the whole pod.
    pub container: Option<&'a str>,
}

impl ResourceMetric<'_> {
    pub fn measures(&self, container: &Node<'_>) -> bool {
        self.container.is_none_or(|name| container.get("name").text() == Some(name))
    }
}

/// The resource metrics of a ScaledObject or HPA. Metrics that cannot be read are left out.
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
