//! Alerts watch for busy GPUs, and none for idle ones.
//!
//! # Why
//! A GPU that nobody uses costs as much as a busy one. Pods that only wait, budgets and floors of
//! autoscalers keep GPU nodes alive for days, and alerts on the upper end do not show it.
//!
//! # Fix
//! Add an alert on low utilization, such as below 20 % for half an hour.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: gpus, namespace: monitoring}
//!  spec:
//! -  groups: # <-
//! +  groups:
//!      - name: load
//!        rules:
//!          - alert: GpusBusy
//!            expr: avg(DCGM_FI_DEV_GPU_UTIL) > 90
//!            for: 5m
//! +        - alert: GpuIdle
//! +          expr: avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 20
//! +          for: 30m
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/dcgm/latest/gpu-telemetry/dcgm-exporter.html>

use crate::promql::expr::{Expr, Selector};
use crate::promql::metrics::{Exporter, Unit, metric};
use crate::promql::{PROMETHEUS_RULE_KINDS, Parsed};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "idle-gpu-alert-missing",
    kinds: &[Kind::PROMETHEUS_RULE],
    reads: &PROMETHEUS_RULE_KINDS,
    reports_absence: true,
    docs: docs(include_str!("idle_gpu_alert_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !BusyGpuAlerts::is_satisfied(object) || IdleGpuAlerts::is_satisfied(object) {
        return None;
    }
    // One finding for all rules of the input.
    let cluster = ctx.cluster();
    if !cluster.satisfying::<IdleGpuAlerts>().is_empty() {
        return None;
    }
    let busy = cluster.satisfying::<BusyGpuAlerts>();
    if busy.first().is_some_and(|ObjectKey(first)| !first.is_same_resource(object)) {
        return None;
    }
    ctx.report(
        &object.path(&["spec", "groups"]),
        "these alerts watch for busy GPUs, and no rule watches for idle ones",
    )
    .help("add an alert such as `avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 20`");
    None
}

/// Whether a query of the object compares the load of GPUs with a number in this direction.
fn compares_load(object: &Object, direction: char) -> bool {
    queries(object).iter().filter_map(|query| query.parsed.expr()).any(|expr| {
        let mut found = false;
        expr.walk(&mut |expr| {
            if let Expr::Binary(binary) = expr {
                let mirrored = matches!(binary.lhs, Expr::Number(_));
                let is_below = binary.op.starts_with('<') != mirrored;
                let is_comparison = binary.op.starts_with(['<', '>']);
                let is_load = [&binary.lhs, &binary.rhs].into_iter().flat_map(Expr::selectors).any(is_load);
                found |= is_comparison && is_load && (direction == '<') == is_below;
            }
        });
        found
    })
}

struct BusyGpuAlerts;

impl Predicate for BusyGpuAlerts {
    const SLOT: QuerySlot = QuerySlot::BusyGpuAlerts;
    const KINDS: &'static [Kind] = &[Kind::PROMETHEUS_RULE];

    fn is_satisfied(object: &Object) -> bool {
        compares_load(object, '>')
    }
}

struct IdleGpuAlerts;

impl Predicate for IdleGpuAlerts {
    const SLOT: QuerySlot = QuerySlot::IdleGpuAlerts;
    const KINDS: &'static [Kind] = &PROMETHEUS_RULE_KINDS;

    fn is_satisfied(object: &Object) -> bool {
        compares_load(object, '<')
            || queries(object).iter().any(|query| {
                !matches!(query.parsed, Parsed::Known(_))
                    && query.text.contains("DCGM_FI_")
                    && query.text.contains('<')
            })
    }
}

fn is_load(selector: &Selector) -> bool {
    let metric = selector.name.as_deref().and_then(metric);
    metric.is_some_and(|metric| {
        metric.exporter == Exporter::Dcgm && matches!(metric.unit, Unit::Percent | Unit::Ratio)
    })
}
