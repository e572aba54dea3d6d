//! A total is compared with the share of one replica, which runs to the maximum.
//!
//! # Why
//! With `Value` the HPA multiplies the replicas that are ready by `value / target`. Requests a second of all
//! clients, or tokens of all servers, stay the same when a replica is added: above the target each step
//! multiplies again, up to the maximum, although a few replicas would do; below it replicas go to the
//! minimum. `Value` is right for what falls when replicas are added, such as an average or a latency.
//!
//! It is an error for the rate of a counter, a warning for work in progress and for metrics that only their
//! name describes, and information for queues and other gauges: a queue does fall, but slower than replicas
//! are added. `selenium-grid` counts the sessions of all browsers, running ones as well, with a target of 1.
//! A `cron` trigger with `Value` asks for its replicas times those that run. Failures and two replicas at
//! most are left alone, and so are metrics whose name says that they are a mean, a time, a ratio or a part
//! for one replica, such as `average_queue_size` and `queue_lag_minutes`.
//!
//! # Fix
//! Write `metricType: AverageValue`, or `averageValue` in an HPA: the total is then divided by the target.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: gateway, namespace: edge}
//!  spec:
//!    scaleTargetRef: {name: gateway}
//!    minReplicaCount: 2
//!    maxReplicaCount: 40
//!    triggers:
//!      - type: prometheus
//! -      metricType: Value # <-
//! +      metricType: AverageValue
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//!          query: sum(rate(http_requests_total{service="gateway"}[2m]))
//!          threshold: "50"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>

use crate::promql::load::{Amount, Load};
use crate::rules::autoscaling::signals::{Comparison, Signal, replica_range, signals};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "total-as-value",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("total_as_value.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (floor, most) = replica_range(object)?;
    // With one step between them, the target switches between the minimum and the maximum.
    if most <= floor + 1 {
        return None;
    }
    cron(object, most, ctx);
    for signal in signals(object).iter().filter(|signal| signal.comparison == Comparison::Multiplied) {
        let Load::Total(amount) = signal.load else { continue };
        let (severity, what) = match amount {
            Amount::Arrivals if !signal.is_by_name => (Severity::Error, "above it replicas grow"),
            Amount::Arrivals | Amount::InProgress => (Severity::Warning, "above it replicas grow"),
            Amount::Waiting => (Severity::Info, "while more waits, replicas grow"),
            Amount::Other => (Severity::Info, "above it replicas may grow"),
        };
        let message = format!(
            "a total for all replicas is compared with {}, meant for one: {what} to the maximum of {most}",
            signal.target
        );
        report(object, signal, message, ctx).severity(severity);
    }
    None
}

fn report<'c>(
    object: &Object,
    signal: &Signal<'_>,
    message: String,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let fix = Fix::unsafe_("divide the total").set(&signal.metric_type(), json!("AverageValue"));
    let is_hpa = object.is(Kind::HPA);
    let finding = ctx.report(&signal.metric_type(), message);
    if is_hpa {
        finding
            .help("write `type: AverageValue` with `averageValue`: the total is then divided by it")
            .fix(fix.move_to(&signal.holder.get("value"), &signal.holder.get("averageValue")))
    } else {
        finding.help("write `metricType: AverageValue`: the total is then divided by the threshold").fix(fix)
    }
}

/// The metric of a `cron` trigger is its number of replicas, and its target is 1.
fn cron(object: &Object, most: i64, ctx: &mut Context<'_>) {
    if crate::keda::uses_modifiers(object) != Some(false) {
        return;
    }
    for trigger in triggers(object).filter(|trigger| trigger.kind() == Some("cron")) {
        let metric_type = trigger.node.get("metricType");
        let wanted = trigger.metadata().get("desiredReplicas");
        let wanted = wanted.text().and_then(crate::keda::value::whole).filter(|wanted| *wanted > 1);
        if let (Some("Value"), Some(wanted)) = (metric_type.text(), wanted) {
            let message = format!(
                "with `Value` the window multiplies the replicas by {wanted} again and again, up to {most}"
            );
            ctx.report(&metric_type, message)
                .help("remove `metricType`: `AverageValue`, the default, asks for `desiredReplicas`")
                .fix(Fix::unsafe_("ask for `desiredReplicas`").remove(&metric_type));
        }
    }
}
