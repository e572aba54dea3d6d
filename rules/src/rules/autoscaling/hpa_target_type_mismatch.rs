//! The `type` of a metric's target and the amount do not belong together.
//!
//! # Why
//! The API server examines `type` and the amounts apart from each other. For `External`, `Resource` and
//! `ContainerResource` the controller then looks at the amount alone: an `AverageValue` with the number under
//! `value` multiplies the replicas instead of dividing a total, and runs to the maximum. For `Object` it
//! needs both, and without them the metric is invalid and never scales. `Pods` knows `averageValue` alone.
//!
//! # Fix
//! Write the amount under the field that `type` means: `value`, `averageValue` or `averageUtilization`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: worker, namespace: shop}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
//!    minReplicas: 1
//!    maxReplicas: 20
//!    metrics:
//!      - type: External
//!        external:
//!          metric: {name: orders_in_queue}
//!          target:
//! -          type: AverageValue # <-
//! -          value: "30"
//! +          type: AverageValue
//! +          averageValue: "30"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/>
//! - <https://github.com/kubernetes/kubernetes/issues/87797>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "hpa-target-type-mismatch",
    kinds: &[Kind::HPA],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("hpa_target_type_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The field of the amount for each type of a target.
const FIELDS: [(&str, &str); 3] =
    [("Value", "value"), ("AverageValue", "averageValue"), ("Utilization", "averageUtilization")];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for metric in object.path(&["spec", "metrics"]).items() {
        let source = match metric.get("type").text() {
            Some("External") => "external",
            Some("Object") => "object",
            Some("Pods") => "pods",
            Some("Resource") => "resource",
            Some("ContainerResource") => "containerResource",
            _ => continue,
        };
        let target = metric.get(source).get("target");
        if !target.has_unknown_key() {
            check_target(source, &target, ctx);
        }
    }
    None
}

fn check_target(source: &str, target: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kind = target.get("type");
    let text = kind.text()?;
    let (_, wanted) = FIELDS.iter().find(|(known, _)| *known == text)?;
    let wanted_node = target.get(wanted);
    if wanted_node.is_set() || wanted_node.is_unknown() {
        return None;
    }
    let mut written = FIELDS.iter().filter(|(_, field)| target.get(field).is_set());
    let (right, field) = written.next()?;
    // The API server refuses two amounts, or one that the source does not know.
    let is_known = match source {
        "external" | "object" => *field != "averageUtilization",
        "pods" => *field == "averageValue",
        _ => *field != "value",
    };
    if written.next().is_some() || !is_known {
        return None;
    }
    let amount = target.get(field);
    let message = if source == "object" {
        format!(
            "`type: {text}` needs `{wanted}`: with `{field}` alone the metric is invalid and never scales"
        )
    } else {
        format!("`type: {text}` has no effect: the controller reads `{field}`, as with `type: {right}`")
    };
    let finding = ctx.report(&kind, message);
    // A share of the requests is not the amount of one.
    if *wanted == "averageUtilization" || *field == "averageUtilization" || source == "pods" {
        finding
            .help(format!("write `type: {right}`, which is what `{field}` means"))
            .fix(Fix::unsafe_(format!("write `type: {right}`")).set(&kind, json!(right)));
    } else {
        finding
            .help(format!("write the number under `{wanted}`, or `type: {right}`"))
            .fix(Fix::unsafe_(format!("rename `{field}` to `{wanted}`")).move_to(&amount, &wanted_node));
    }
    if source == "object" {
        finding.severity(Severity::Error);
    }
    None
}
