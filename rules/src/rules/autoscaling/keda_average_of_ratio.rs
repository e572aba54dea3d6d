//! An average or a ratio is divided as if it were a total of all replicas.
//!
//! # Why
//! With `AverageValue`, KEDA's default, the HPA computes `value / threshold` replicas, however many run:
//! right for totals such as the length of a queue. A mean of percentages never exceeds 100, so with a
//! threshold of 70 the trigger never asks for more than two replicas, and takes replicas away from a
//! busy service. A latency below its threshold asks for one replica, although many keep it low. With
//! `Value` the HPA compares the value with the threshold and scales the current number.
//!
//! The form of a query decides: outermost means, quantiles and ratios, and the bounds of what they read.
//! Without a query (CloudWatch, Azure Monitor, metrics of an HPA) the name of the metric does. Means of
//! queues, quotients of two metrics and a maximum of two replicas are left alone.
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

use crate::promql::load::{Load, Share};
use crate::rules::autoscaling::signals::{Comparison, Signal, replica_range, signals};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-average-of-ratio",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_average_of_ratio.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (floor, most) = replica_range(object)?;
    let is_only = triggers(object).count() == 1;
    for signal in signals(object).iter().filter(|signal| signal.comparison == Comparison::Divided) {
        let Load::Share { of, certain } = signal.load else { continue };
        // The mean of a queue grows with the load as well; and two metrics may be work and the capacity of one replica.
        if of == Share::Waiting || (of == Share::Quotient && signal.target >= 1.0) {
            continue;
        }
        let (message, severity) = match signal.bound {
            Some(bound) => match bounded(bound, signal.target, floor, most) {
                Some(reachable) => {
                    let is_stuck = reachable <= floor && is_only;
                    let severity = if is_stuck { Severity::Error } else { Severity::Warning };
                    (message_of_bound(bound, signal.target, reachable), severity)
                }
                None => continue,
            },
            // With two replicas at most it is a switch.
            None if most <= 2 || most <= floor + 1 => continue,
            None => {
                let message = format!(
                    "{} is divided by {} as a total would be: the replicas asked for do not follow the load",
                    of.name(),
                    signal.target
                );
                (message, if certain { Severity::Warning } else { Severity::Info })
            }
        };
        let help = if object.is(Kind::HPA) {
            "write `type: Value` with `value`, which scales the current replicas"
        } else {
            "write `metricType: Value` beside `type`: the value is an average already"
        };
        ctx.report(&signal.measured, message).help(help).severity(severity).fix(fix(object, signal));
    }
    None
}

/// The replicas that a bounded value can ask for, if these are fewer than the maximum.
fn bounded(bound: f64, threshold: f64, floor: i64, most: i64) -> Option<i64> {
    // A threshold that is never reached is reported by threshold-unit-mismatch.
    if threshold > bound || threshold < bound / 1000.0 {
        return None;
    }
    // Between 1 and 1000.
    let reachable = (bound / threshold).ceil() as i64;
    (reachable < most && floor < most).then_some(reachable)
}

fn message_of_bound(bound: f64, threshold: f64, reachable: i64) -> String {
    let replicas = if reachable == 1 { "1 replica".to_owned() } else { format!("{reachable} replicas") };
    format!("a value up to {bound} is divided by {threshold}: this never asks for more than {replicas}")
}

fn fix(object: &Object, signal: &Signal<'_>) -> Fix {
    let fix = Fix::unsafe_("compare the average as it is").set(&signal.metric_type(), json!("Value"));
    if !object.is(Kind::HPA) {
        return fix;
    }
    fix.move_to(&signal.holder.get("averageValue"), &signal.holder.get("value"))
}
