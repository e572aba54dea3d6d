//! Scaling modifiers drop a resource trigger that names a container.
//!
//! # Why
//! A formula replaces the metrics of a ScaledObject except the resource metrics of its `cpu` and
//! `memory` triggers. With `containerName` such a trigger becomes a container resource metric, which
//! KEDA does not keep beside a formula: the HPA never sees it.
//!
//! # Fix
//! Leave `containerName` out, or remove the formula.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//!    advanced:
//!      scalingModifiers: {formula: waiting / 2, target: "5"}
//!    triggers:
//!      - type: kubernetes-workload
//!        name: waiting
//!        metadata: {podSelector: app=llm-client, value: "4"}
//!      - type: cpu
//!        metricType: Utilization
//!        metadata:
//!          value: "70"
//! -        containerName: main # <-
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#scalingmodifiers>
//! - <https://keda.sh/docs/latest/scalers/cpu/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-container-metric-dropped",
    kinds: &[Kind::SCALED_OBJECT],
    docs: docs(include_str!("keda_container_metric_dropped.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    uses_modifiers(object)?.then_some(())?;
    for trigger in triggers(object).filter(Trigger::is_resource) {
        let container = trigger.metadata().get("containerName");
        if container.is_set() {
            ctx.report(&container, "scaling modifiers drop a resource trigger that names a container")
                .help("leave `containerName` out, or take the formula away");
        }
    }
    None
}
