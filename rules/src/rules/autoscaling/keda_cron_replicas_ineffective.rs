//! The window of a `cron` trigger changes nothing.
//!
//! # Why
//! A window cannot lower the number of replicas. The HPA takes the largest number that a trigger asks for,
//! and never less than `minReplicaCount`: `desiredReplicas: 1` at night beside a minimum of 1 keeps nothing
//! down, and the other triggers scale as on any day. Above `maxReplicaCount` the HPA stops at the maximum, so
//! that the pods that the window is meant for never come. With `idleReplicaCount` a window of the minimum
//! still starts the workload.
//!
//! # Fix
//! To have fewer replicas at some hours, lower `minReplicaCount` and let windows raise it in the other hours.
//! Raise `maxReplicaCount` to what a window asks for.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: web, namespace: shop}
//!  spec:
//!    scaleTargetRef: {name: web}
//!    minReplicaCount: 2
//! -  maxReplicaCount: 8
//! +  maxReplicaCount: 12
//!    triggers:
//!      - type: cron
//!        metadata:
//!          timezone: Europe/Oslo
//!          start: 0 7 * * 1-5
//!          end: 0 19 * * 1-5
//! -        desiredReplicas: "12" # <-
//! +        desiredReplicas: "12"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cron/>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>

use crate::keda::value::whole;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-cron-replicas-ineffective",
    kinds: &[Kind::SCALED_OBJECT],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_cron_replicas_ineffective.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if uses_modifiers(object) != Some(false) || object.is_partial() {
        return None;
    }
    let spec = object.get("spec");
    let (least, most) = (spec.get("minReplicaCount"), spec.get("maxReplicaCount"));
    let idle = spec.get("idleReplicaCount");
    let wakes = idle.is_set() || idle.is_unknown();
    for trigger in triggers(object).filter(|trigger| trigger.kind() == Some("cron")) {
        let node = trigger.metadata().get("desiredReplicas");
        // Another target multiplies.
        if trigger.node.get("metricType").text().is_some_and(|text| text == "Value") {
            continue;
        }
        let Some(wanted) = node.text().and_then(|text| whole(text.trim())).filter(|wanted| *wanted > 0)
        else {
            continue;
        };
        match (least.int_or(0), most.int_or(100)) {
            (Some(min), _) if wanted <= min && !wakes => {
                let message =
                    format!("a window of {wanted} never changes anything: `minReplicaCount` is {min}");
                ctx.report(&node, message).help(
                    "a window cannot lower replicas: lower `minReplicaCount`, and raise it by windows at other hours",
                );
            }
            (_, Some(max)) if wanted > max => {
                let message =
                    format!("the window asks for {wanted} replicas, and `maxReplicaCount` is {max}");
                ctx.report(&node, message)
                    .help(format!("write `maxReplicaCount: {wanted}`, or fewer `desiredReplicas`"))
                    .fix(Fix::unsafe_(format!("raise the maximum to {wanted}")).set(&most, json!(wanted)));
            }
            _ => {}
        }
    }
    None
}
