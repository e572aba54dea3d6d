//! An autoscaler weighs a use that the target's containers never requested.
//!
//! # Why
//! The use of CPU or memory is counted against the containers' requests. Where one container has
//! none, an HPA computes nothing for the whole pod. KEDA's admission refuses a ScaledObject with a
//! `cpu` or `memory` trigger whose target has a container with neither request nor limit, unless
//! a LimitRange of the namespace gives one.
//!
//! # Fix
//! Give every container of the target a request for that resource, sidecars included, or name the
//! one that counts in `containerName`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: router}
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: cpu # <-
//!        metricType: Utilization
//!        metadata: {value: "70"}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: router, namespace: chat}
//!  spec:
//!    selector: {matchLabels: {app: router}}
//!    template:
//!      metadata: {labels: {app: router}}
//!      spec:
//!        containers:
//!          - name: router
//!            image: example.com/router:1.0.0
//! -          resources: {requests: {memory: 1Gi}}
//! +          resources: {requests: {cpu: "1", memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>

use crate::cluster::views::scale_target;
use crate::facts::quantity::Quantity;
use crate::keda::{ellipsize, triggers};
use crate::rules::prelude::*;

const LIMIT_RANGE: Kind = Kind::new("", "LimitRange");

pub(crate) static RULE: Rule = Rule {
    id: "missing-resource-request",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, LIMIT_RANGE],
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("missing_resource_request.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (namespace, reference, name) = scale_target(object)?;
    let kind = match reference.as_str() {
        "apps/Deployment" => Kind::DEPLOYMENT,
        "apps/StatefulSet" => Kind::STATEFUL_SET,
        _ => return None,
    };
    let workload = ctx.index().unique(kind, &namespace, &name)?;
    if workload.is_partial() || workload.is_incomplete() {
        return None;
    }
    let wishes = if object.is(Kind::HPA) { of_metrics(object) } else { of_triggers(object) };
    for wish in wishes {
        // A LimitRange that is not in the input may still fill the request in.
        if limit_range_gives(wish.resource, &namespace, ctx) {
            continue;
        }
        let templates = templates(workload);
        let Some(container) = templates
            .iter()
            .flat_map(|t| t.containers())
            .find(|c| wish.counts(c) && lacks(c, wish.resource, wish.limits_count))
        else {
            continue;
        };
        let certain = ctx.index().is_complete() && !object.is(Kind::HPA);
        let container_name = container.get("name").text().unwrap_or_default();
        let resource = wish.resource;
        let finding = ctx.report(
            &wish.node,
            format!(
                "weighs `{resource}`, and container `{}` of `{}` requests none",
                ellipsize(container_name),
                ellipsize(&name)
            ),
        );
        finding.help(format!("give every container of the target a `{resource}` request")).related(
            workload,
            &container,
            "this container has no request",
        );
        if !certain {
            finding.severity(Severity::Warning);
        }
    }
    None
}

/// A resource whose use is weighed.
struct Wish<'a> {
    node: Node<'a>,
    resource: &'a str,
    /// Of this container alone.
    container: Option<&'a str>,
    /// Whether a limit does as well: it becomes the request.
    limits_count: bool,
}

impl Wish<'_> {
    fn counts(&self, container: &Node<'_>) -> bool {
        self.container.is_none_or(|name| container.get("name").text() == Some(name))
    }
}

fn of_triggers(object: &Object) -> Vec<Wish<'_>> {
    triggers(object)
        .filter_map(|trigger| {
            let container = trigger.metadata().get("containerName");
            let resource = trigger.kind().filter(|_| trigger.is_resource())?;
            (!container.is_unknown()).then(|| Wish {
                node: trigger.node.get("type"),
                resource,
                container: container.text().filter(|t| !t.is_empty()),
                limits_count: true,
            })
        })
        .collect()
}

fn of_metrics(object: &Object) -> Vec<Wish<'_>> {
    let mut wishes = Vec::new();
    for metric in object.path(&["spec", "metrics"]).items() {
        let (body, container) = match metric.get("type").text() {
            Some("Resource") => (metric.get("resource"), None),
            Some("ContainerResource") => {
                let body = metric.get("containerResource");
                let Some(name) = body.get("container").text() else {
                    continue;
                };
                (body, Some(name))
            }
            _ => continue,
        };
        let Some(resource @ ("cpu" | "memory")) = body.get("name").text() else {
            continue;
        };
        if body.path(&["target", "type"]).text() == Some("Utilization") {
            wishes.push(Wish { node: body.get("name"), resource, container, limits_count: true });
        }
    }
    wishes
}

/// Whether the container has neither a request nor, where that counts, a limit above 0.
fn lacks(container: &Node<'_>, resource: &str, limits_count: bool) -> bool {
    let resources = container.get("resources");
    if resources.is_unknown() {
        return false;
    }
    let given = |list: &str| {
        let list = resources.get(list);
        let node = list.get(resource);
        if list.is_unknown() || node.is_unknown() {
            return true;
        }
        match node.string_or_number() {
            // What is no quantity is another rule's.
            Some(text) => Quantity::parse(&text).map_or(true, |q| q.nano() > 0),
            None => node.is_set(),
        }
    };
    !(given("requests") || (limits_count && given("limits")))
}

fn limit_range_gives(resource: &str, namespace: &str, ctx: &Context<'_>) -> bool {
    ctx.index()
        .in_namespace(LIMIT_RANGE, namespace)
        .flat_map(|range| range.path(&["spec", "limits"]).items().collect::<Vec<_>>())
        .filter(|limit| limit.get("type").text() == Some("Container"))
        .any(|limit| ["default", "defaultRequest"].iter().any(|list| limit.get(list).get(resource).is_set()))
}
