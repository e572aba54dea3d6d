//! An alert on XID errors fires long after the error, and misses an equal one.
//!
//! # Why
//! `DCGM_FI_DEV_XID_ERRORS` is the code of the last XID error of a GPU. DCGM does not set it back to 0, so an
//! alert on its value fires from the first error until the exporter or the driver starts again. A second error
//! with the same code changes nothing, and nobody sees it.
//!
//! # Fix
//! Let dcgm-exporter count the errors of a window, `DCGM_EXP_XID_ERRORS_COUNT`, with a line in its list of
//! metrics, and alert on that. Without it, `changes(DCGM_FI_DEV_XID_ERRORS[10m]) > 0` ends ten minutes after
//! the error; equal errors are missed still.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: gpu-errors, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: errors
//!        rules:
//!          - alert: GpuXidError
//! -          expr: DCGM_FI_DEV_XID_ERRORS > 0 # <-
//! +          expr: changes(DCGM_FI_DEV_XID_ERRORS[10m]) > 0
//!            labels: {severity: critical}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/deploy/xid-errors/index.html>
//! - <https://github.com/NVIDIA/dcgm-exporter>

use crate::promql::expr::Expr;
use crate::promql::{PROMETHEUS_RULE_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "xid-alert-never-clears",
    kinds: kinds![PROMETHEUS_RULE_KINDS, [Kind::CONFIG_MAP]],
    docs: docs(include_str!("xid_alert_never_clears.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// The code of the last XID error of a GPU.
const LAST_ERROR: &str = "DCGM_FI_DEV_XID_ERRORS";

/// Functions over a window whose result stays above 0 as long as the samples do.
const OVER_TIME: [&str; 4] = ["max_over_time", "min_over_time", "avg_over_time", "last_over_time"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object).iter().filter(|query| query.place == QueryPlace::Alert) {
        if !query.parsed.expr().is_some_and(stays_true) {
            continue;
        }
        let message = format!("`{LAST_ERROR}` keeps the last code: the alert does not end after the error");
        let finding = ctx.report(&query.node(object), message);
        finding.identified_by(query.text.as_str()).help(format!(
            "alert on `DCGM_EXP_XID_ERRORS_COUNT`, which counts a window, or on `changes({LAST_ERROR}[10m]) > 0`"
        ));
        finding.at_query(object, query);
    }
    None
}

/// Whether an expression has a result from the first error on.
fn stays_true(expr: &Expr) -> bool {
    let binary = match expr {
        Expr::Aggregate(aggregate) => return stays_true(&aggregate.expr),
        Expr::Binary(binary) => binary,
        _ => return false,
    };
    if binary.op == "or" {
        return stays_true(&binary.lhs) || stays_true(&binary.rhs);
    }
    let (value, number, op) = match (&binary.lhs, &binary.rhs) {
        (value, Expr::Number(number)) => (value, *number, binary.op.as_str()),
        (Expr::Number(number), value) => {
            let swapped = match binary.op.as_str() {
                "<" => ">",
                "<=" => ">=",
                op @ ("==" | "!=") => op,
                _ => return false,
            };
            (value, *number, swapped)
        }
        _ => return false,
    };
    let is_error = match op {
        ">" => number >= 0.0,
        ">=" | "==" => number > 0.0,
        "!=" => number == 0.0,
        _ => false,
    };
    is_error && !binary.is_bool && (keeps_code(value) || counts_errors(value))
}

/// Whether a value is the last code, or is derived from it without a look at its changes.
fn keeps_code(value: &Expr) -> bool {
    match value {
        Expr::Selector(selector) => selector.name.as_deref() == Some(LAST_ERROR) && !selector.is_shifted,
        Expr::Range(inner, _) => keeps_code(inner),
        Expr::Aggregate(aggregate) => {
            matches!(aggregate.op.as_str(), "max" | "min" | "sum" | "avg" | "topk")
                && keeps_code(&aggregate.expr)
        }
        Expr::Call(call) => {
            OVER_TIME.contains(&call.function.as_str())
                && matches!(call.args.as_slice(), [arg] if keeps_code(arg))
        }
        Expr::Binary(_) | Expr::Number(_) | Expr::Text | Expr::Negative(_) => false,
    }
}

/// `count(DCGM_FI_DEV_XID_ERRORS > 0)`
fn counts_errors(value: &Expr) -> bool {
    matches!(value, Expr::Aggregate(aggregate) if aggregate.op == "count" && stays_true(&aggregate.expr))
}
