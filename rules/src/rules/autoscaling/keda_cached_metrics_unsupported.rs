//! A trigger that KEDA does not poll uses cached metrics.
//!
//! # Why
//! With `useCachedMetrics` KEDA answers the HPA from the last poll instead of querying again. The
//! metrics of `cpu` and `memory` come from the metrics server and those of `cron` from the clock, so
//! KEDA's admission rejects the field there.
//!
//! # Fix
//! Remove `useCachedMetrics` from these triggers.
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
//!        metricType: Utilization
//! -      useCachedMetrics: true # <-
//!        metadata: {value: "70"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#caching-metrics>

use crate::keda::with_article;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-cached-metrics-unsupported",
    rejected_by: &[Authority::KedaAdmission],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("keda_cached_metrics_unsupported.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cached = trigger.node.get("useCachedMetrics");
    let kind = trigger.kind().filter(|kind| matches!(*kind, "cpu" | "memory" | "cron"))?;
    if cached.bool()? {
        let message = format!("{} trigger cannot use cached metrics: KEDA rejects it", with_article(kind));
        ctx.report(&cached, message)
            .help("leave `useCachedMetrics` out")
            .fix(Fix::safe("remove `useCachedMetrics`").remove(&cached));
    }
    None
}
