//! A query reads a metric that KEDA no longer exports.
//!
//! # Why
//! KEDA 2.14 renamed its metrics, with units and `_total` in their names, and 2.17 removed the old names;
//! those of the metrics adapter went with 2.11. An alert on an old name never fires, so nobody learns
//! that a scaler fails.
//!
//! # Fix
//! Write the new name. The latencies are in seconds now; they were in milliseconds.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: keda, namespace: keda}
//!  spec:
//!    groups:
//!      - name: keda
//!        rules:
//!          - alert: ScaledObjectFails
//! -          expr: increase(keda_scaled_object_errors[10m]) > 0 # <-
//! +          expr: increase(keda_scaled_object_errors_total[10m]) > 0
//!            for: 10m
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/integrations/prometheus/>
//! - <https://github.com/kedacore/keda/blob/main/CHANGELOG.md>

use crate::cluster::views::{PROMETHEUS_RULE_KINDS, recording_rule_names};
use crate::promql::identifiers::{find_word, replace_word};
use crate::promql::{QUERY_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-metric-renamed",
    kinds: &QUERY_KINDS,
    reads: &PROMETHEUS_RULE_KINDS,
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_metric_renamed.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Migration)
};

#[derive(Clone, Copy)]
enum Change {
    /// It has a new name.
    Renamed,
    /// It has a new name, and is in seconds instead of milliseconds.
    InSeconds,
    /// Another metric counts the same errors with more labels, and has to be summed.
    SplitUp,
}

/// The first version without the old name, the old name, and the new name. Sources: KEDA's changelog (2.11: #3930, 2.14: #4854,
/// 2.17: #6339) and its list of metrics.
const METRICS: &[(Version, &str, &str, Change)] = &[
    (V11, "keda_metrics_adapter_scaled_object_errors", "keda_scaled_object_errors_total", Change::Renamed),
    (V11, "keda_metrics_adapter_scaler_errors", "keda_scaler_detail_errors_total", Change::Renamed),
    (V11, "keda_metrics_adapter_scaler_errors_total", "keda_scaler_detail_errors_total", Change::SplitUp),
    (V11, "keda_metrics_adapter_scaler_metrics_value", "keda_scaler_metrics_value", Change::Renamed),
    (V17, "keda_internal_scale_loop_latency", "keda_internal_scale_loop_latency_seconds", Change::InSeconds),
    (V17, "keda_resource_totals", "keda_resource_registered_total", Change::Renamed),
    (V17, "keda_scaled_job_errors", "keda_scaled_job_errors_total", Change::Renamed),
    (V17, "keda_scaled_object_errors", "keda_scaled_object_errors_total", Change::Renamed),
    (V17, "keda_scaler_errors", "keda_scaler_detail_errors_total", Change::Renamed),
    (V17, "keda_scaler_errors_total", "keda_scaler_detail_errors_total", Change::SplitUp),
    (V17, "keda_scaler_metrics_latency", "keda_scaler_metrics_latency_seconds", Change::InSeconds),
    (V17, "keda_trigger_totals", "keda_trigger_registered_total", Change::Renamed),
];
/// The common prefix of all names.
const PREFIX: &str = "keda_";
const V11: Version = Version::new(2, 11);
const V17: Version = Version::new(2, 17);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let index = ctx.cluster();
    let keda = ctx.platform().keda;
    // All names have the same prefix.
    for query in queries(object).iter().filter(|query| query.text.contains(PREFIX)) {
        let in_dashboard = query.place == QueryPlace::Dashboard;
        // Variables do not matter to the names.
        for (gone, old, new, change) in METRICS {
            if keda < *gone || find_word(&query.text, old).is_none() {
                continue;
            }
            let is_own = PROMETHEUS_RULE_KINDS.iter().any(|kind| object.is(*kind))
                && recording_rule_names(object).iter().any(|name| name == old);
            if is_own || index.views().is_recorded(old) {
                continue;
            }
            let node = query.node(object);
            let finding = ctx.report(&node, format!("KEDA {gone} and later do not export `{old}`"));
            finding.help(match change {
                Change::Renamed => format!("write `{new}`"),
                Change::InSeconds => format!("write `{new}`, and thresholds in seconds"),
                Change::SplitUp => format!("write `sum({new})`"),
            });
            finding.identified_by(*old).at_query(object, query);
            if in_dashboard {
                finding.severity(Severity::Info);
            }
            if let (Change::Renamed, Some(text), false) = (change, node.text(), query.is_embedded) {
                let fix = Fix::unsafe_(format!("write `{new}`"));
                finding.fix(fix.set(&node, json!(replace_word(text, old, new))));
            }
        }
    }
    None
}
