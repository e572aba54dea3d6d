//! An alert on the load of GPUs fires at the first sample.
//!
//! # Why
//! GPU utilization, cache use and power go up and down within seconds. Without `for` an alert fires as
//! soon as one sample crosses its line, and resolves with the next one.
//!
//! # Fix
//! Write how long the condition has to hold, such as `for: 5m`, or smooth the query with
//! `avg_over_time`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: gpus, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: load
//!        rules:
//! -        - alert: GpusBusy # <-
//! -          expr: avg(DCGM_FI_DEV_GPU_UTIL) > 90
//! +        - alert: GpusBusy
//! +          expr: avg(DCGM_FI_DEV_GPU_UTIL) > 90
//! +          for: 5m
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/>

use crate::promql::expr::Expr;
use crate::promql::metrics::{Exporter, Unit, metric};
use crate::promql::{PROMETHEUS_RULE_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-alert-without-for",
    kinds: &PROMETHEUS_RULE_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_alert_without_for.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object).iter().filter(|query| query.place == QueryPlace::Alert) {
        let entry = query.entry(object);
        if entry.get("for").is_set() || entry.get("keep_firing_for").is_set() {
            continue;
        }
        let Some(name) = query.parsed.expr().and_then(compared_load) else { continue };
        let message = format!("this alert on `{name}` has no `for`: it fires at the first sample");
        ctx.report(&entry.get("for"), message)
            .help("write how long the condition has to hold, such as `for: 5m`")
            .fix(Fix::unsafe_("wait for five minutes").set(&entry.get("for"), json!("5m")));
    }
    None
}

/// The GPU load that a query compares without smoothing it over a window.
fn compared_load(expr: &Expr) -> Option<&str> {
    let mut windows = false;
    expr.walk(&mut |expr| windows |= matches!(expr, Expr::Range(..)));
    let Expr::Binary(binary) = expr else { return None };
    let value = match (&binary.lhs, &binary.rhs) {
        (value, Expr::Number(_)) | (Expr::Number(_), value) => value,
        _ => return None,
    };
    let name = value.sole_selector()?.name.as_deref()?;
    let known = metric(name)?;
    let is_load = matches!(known.unit, Unit::Percent | Unit::Ratio) && known.exporter != Exporter::Karpenter;
    (is_load && !windows && binary.op.starts_with(['>', '<'])).then_some(name)
}
