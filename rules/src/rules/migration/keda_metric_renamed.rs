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

use crate::cluster::views::recording_rule_names;
use crate::migration::metrics::{MetricChange, gone_from_keda};
use crate::promql::identifiers::{find_word, replace_word};
use crate::promql::{PROMETHEUS_RULE_KINDS, QUERY_KINDS, QueryPlace};
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

/// The common prefix of all names.
const PREFIX: &str = "keda_";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    // All names have the same prefix.
    for query in queries(object).iter().filter(|query| query.text.contains(PREFIX)) {
        let in_dashboard = query.place == QueryPlace::Dashboard;
        // Variables do not matter to the names.
        for (old, gone, change) in gone_from_keda(ctx.platform().keda) {
            if find_word(&query.text, old).is_none() {
                continue;
            }
            let is_own = PROMETHEUS_RULE_KINDS.iter().any(|kind| object.is(*kind))
                && recording_rule_names(object).iter().any(|name| name == old);
            if is_own || cluster.views().is_recorded(old) {
                continue;
            }
            let node = query.node(object);
            let finding = ctx.report(&node, format!("KEDA {gone} and later do not export `{old}`"));
            finding.help(change.help());
            finding.identified_by(*old).at_query(object, query);
            if in_dashboard {
                finding.severity(Severity::Info);
            }
            if let (MetricChange::Renamed(new), Some(text), false) = (change, node.text(), query.is_embedded)
            {
                let fix = Fix::unsafe_(format!("write `{new}`"));
                finding.fix(fix.set(&node, json!(replace_word(text, old, new))));
            }
        }
    }
    None
}
