//! A trigger value that the API server accepts makes KEDA's operator panic.
//!
//! # Why
//! The `value` of a `cpu` or `memory` trigger with `metricType: AverageValue` is a quantity. KEDA's
//! admission does not read it, and its operator reads it with a function that panics over anything
//! else. The operator restarts and meets the object again, so nothing in the cluster is scaled until
//! the object is deleted.
//!
//! # Fix
//! Write a quantity such as `500m` or `2Gi`. A share of the request is `metricType: Utilization`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router}
//!  spec:
//!    scaleTargetRef: {name: router}
//!    minReplicaCount: 2
//!    triggers:
//!      - type: cpu
//!        metricType: AverageValue
//! -      metadata: {value: 50%} # <-
//! +      metadata: {value: 500m}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#MustParse>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "crashes-keda-operator",
    kinds: &[Kind::SCALED_OBJECT],
    docs: docs(include_str!("crashes_keda_operator.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !trigger.is_resource() || trigger.node.get("metricType").text() != Some("AverageValue") {
        return None;
    }
    let value = trigger.metadata().get("value");
    let text = value.text().filter(|t| !t.is_empty())?;
    if Quantity::parse(text).is_err() {
        ctx.report(&value, format!("`{text}` is not a quantity: KEDA's operator panics on it"))
            .help("write a quantity such as `500m` or `2Gi`, or use `metricType: Utilization`");
    }
    None
}
