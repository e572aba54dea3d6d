//! Outside the windows of `cron` a workload goes to zero, whatever its load.
//!
//! # Why
//! `cpu` and `memory` decide only between the minimum and the maximum: KEDA asks the other triggers whether a
//! workload is to run at all. Beside `cron` alone, with a minimum or an `idleReplicaCount` of 0, the end of the
//! window and `cooldownPeriod` end all pods, also those at work, and no request starts one before the next
//! window. That is right for a workload that is to sleep at night; for one that is to have more replicas by
//! day, zero at night is an outage.
//!
//! # Fix
//! Write `minReplicaCount: 1` and remove `idleReplicaCount`, or add a trigger that knows of load without pods,
//! such as a queue.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: tickets, namespace: shop}
//!  spec:
//!    scaleTargetRef: {name: tickets}
//!    minReplicaCount: 1
//! -  idleReplicaCount: 0 # <-
//!    maxReplicaCount: 10
//!    triggers:
//!      - type: cron
//!        metadata: {timezone: Europe/Paris, start: 45 7 * * *, end: 55 18 * * *, desiredReplicas: "6"}
//!      - type: cpu
//!        metricType: Utilization
//!        metadata: {value: "60"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>
//! - <https://keda.sh/docs/latest/scalers/cron/>
//! - <https://github.com/kedacore/keda/issues/5620>

use crate::rules::autoscaling::scale_target::target_name;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-cron-alone-activates",
    kinds: &[Kind::SCALED_OBJECT],
    docs: docs(include_str!("keda_cron_alone_activates.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (min, idle) = (spec.get("minReplicaCount"), spec.get("idleReplicaCount"));
    // A minimum that nobody writes is reported by keda-replicas-implicit.
    let zero = [&idle, &min].into_iter().find(|field| field.int() == Some(0))?;
    if object.may_lack_fields()
        || uses_modifiers(object) != Some(false)
        || spec.get("fallback").is_set()
        || spec.get("maxReplicaCount").int() == Some(0)
    {
        return None;
    }
    let (of_resources, others): (Vec<Trigger<'_>>, Vec<_>) = triggers(object).partition(Trigger::is_resource);
    let resource = of_resources.first()?.kind()?;
    if others.is_empty() || others.iter().any(|trigger| trigger.kind() != Some("cron")) {
        return None;
    }
    let message = format!(
        "outside the windows of `cron`, `{}` goes to 0 whatever its load: `{resource}` keeps no pod",
        target_name(object)
    );
    let help = match zero.pointer() == idle.pointer() {
        true => "remove `idleReplicaCount` to keep the minimum, unless it is to sleep then",
        false => "write `minReplicaCount: 1` to keep a pod, unless it is to sleep then",
    };
    ctx.report(zero, message).help(help);
    None
}
