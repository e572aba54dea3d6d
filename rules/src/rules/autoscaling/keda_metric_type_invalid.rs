//! A trigger has a metric type that KEDA does not accept for it.
//!
//! # Why
//! `metricType` tells the HPA what to compute. A `cpu` or `memory` trigger needs `Utilization` or
//! `AverageValue`, any other trigger accepts `AverageValue` or `Value`, and a ScaledJob, which has no
//! HPA, accepts none. With another one KEDA builds no scaler, and nothing is scaled.
//!
//! # Fix
//! Write one that the trigger has: `AverageValue` for a total that the replicas share, `Value` for an
//! average or a ratio, `Utilization` for a percentage of the request.
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
//! -      metricType: Value # <-
//! +      metricType: Utilization
//!        metadata: {value: "70"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>
//! - <https://keda.sh/docs/latest/scalers/cpu/>

use crate::keda::with_article;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-metric-type-invalid",
    fix: Some(Safety::Safe),
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_metric_type_invalid.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    trigger.scaler(ctx.platform().keda)?;
    let kind = trigger.kind()?;
    let node = trigger.node.get("metricType");
    if node.is_unknown() {
        return None;
    }
    let written = node.text().filter(|t| !t.is_empty());
    if ctx.object().is(Kind::SCALED_JOB) {
        written?;
        ctx.report(&node, "`metricType` is not allowed in a ScaledJob: KEDA creates no Job with it")
            .help("remove it")
            .fix(Fix::safe("remove `metricType`").remove(&node));
        return None;
    }
    let none_such =
        |text: &str| format!("{} trigger has no metric type `{}`", with_article(kind), ellipsize(text));
    match (trigger.is_resource(), written) {
        (true, Some("AverageValue" | "Utilization")) | (false, None | Some("AverageValue" | "Value")) => {}
        // The deprecated location of the metric type is reported by keda-removed-field.
        (true, None) if trigger.metadata().get("type").is_set() => {}
        (true, None) if trigger.metadata().get("metricType").is_set() => {
            let misplaced = trigger.metadata().get("metricType");
            ctx.report(
                &node,
                format!("{} trigger reads `metricType` beside `type`, not in metadata", with_article(kind)),
            )
            .help("move it beside `type`")
            .fix(Fix::unsafe_("move it beside `type`").move_to(&misplaced, &node));
        }
        (true, None) => {
            ctx.report(&node, format!("{} trigger needs a `metricType`", with_article(kind)))
                .help("write `metricType: Utilization` or `metricType: AverageValue`");
        }
        (true, Some(other)) => {
            ctx.report(&node, none_such(other)).help("write `Utilization` or `AverageValue`");
        }
        // These scalers do not read it.
        (false, Some(_)) if matches!(kind, "pulsar" | "splunk-observability" | "external-mock") => {}
        (false, Some(other)) => {
            ctx.report(&node, none_such(other))
                .help("write `AverageValue` for a total, `Value` for an average or a ratio");
        }
    }
    None
}
