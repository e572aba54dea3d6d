//! A trigger treats an average or a ratio as a total over all replicas.
//!
//! # Why
//! With `AverageValue`, the default, the HPA computes `value / threshold` replicas, however many run:
//! right for totals such as the length of a queue. A mean of percentages never exceeds 100, so with a
//! threshold of 70 the trigger never asks for more than two replicas, and takes replicas away from a
//! busy service. With `Value` the HPA compares the value with the threshold and scales the current
//! number.
//!
//! # Fix
//! Write `metricType: Value` beside `type`, or query a total. A fallback with `Value` needs KEDA 2.18.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//!    maxReplicaCount: 10
//!    triggers:
//!      - type: prometheus
//! +      metricType: Value
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//! -        query: avg(DCGM_FI_DEV_GPU_UTIL) # <-
//! +        query: avg(DCGM_FI_DEV_GPU_UTIL)
//!          threshold: "70"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>

use crate::keda::uses_modifiers;
use crate::keda::value::number;
use crate::promql::bound::upper_bound;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-average-of-ratio",
    kinds: &[Kind::SCALED_OBJECT],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_average_of_ratio.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if uses_modifiers(object) != Some(false) {
        return None;
    }
    let spec = object.get("spec");
    let floor = spec.get("minReplicaCount").int_or(0)?.max(1);
    let most = spec.get("maxReplicaCount").int_or(100)?;
    let is_only = triggers(object).count() == 1;
    for query in queries(object) {
        let trigger = query.entry(object);
        let metric_type = trigger.get("metricType");
        let is_divided = !metric_type.is_set() || matches!(metric_type.text(), Some("AverageValue" | ""));
        let Some(expr) = query.parsed.expr().filter(|_| is_divided) else { continue };
        // A bound in the query itself is deliberate.
        if !expr.selectors().iter().any(|selector| selector.name.is_some()) {
            continue;
        }
        let threshold = trigger.path(&["metadata", "threshold"]).text().and_then(|text| number(text.trim()));
        let (Some(bound), Some(threshold)) = (upper_bound(expr), threshold) else { continue };
        // A threshold that is never reached is reported by threshold-unit-mismatch.
        if threshold <= 0.0 || threshold > bound || threshold < bound / 1000.0 {
            continue;
        }
        // Between 1 and 1000.
        let reachable = (bound / threshold).ceil() as i64;
        if reachable >= most || floor >= most {
            continue;
        }
        let stuck = reachable <= floor && is_only;
        let replicas = if reachable == 1 { "1 replica".to_owned() } else { format!("{reachable} replicas") };
        let message = format!(
            "an average up to {bound} is divided by {threshold}: this never asks for more than {replicas}"
        );
        let finding = ctx.report(&query.node(object), message);
        finding
            .help("write `metricType: Value` beside `type`: the value is an average already")
            .severity(if stuck { Severity::Error } else { Severity::Warning })
            .fix(Fix::unsafe_("compare the average as it is").set(&metric_type, json!("Value")));
    }
    None
}
