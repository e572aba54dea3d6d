//! The text of an alert shows a label that its result does not have.
//!
//! # Why
//! `sum(x)` and `avg(x)` have no labels, and `sum by (namespace) (x)` has `namespace` alone. `$labels.instance`
//! in the annotations or labels of such an alert is empty: the message is sent without the GPU, pod or node
//! that it is about. Often the aggregation itself is the mistake: `avg(x) > 90` is about the mean of the
//! whole cluster, and one GPU at 100 % does not move it.
//!
//! # Fix
//! Keep the label, `avg by (instance) (x)`, or leave it out of the text.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: gpus, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: gpus
//!        rules:
//!          - alert: GpuHot
//! -          expr: avg(DCGM_FI_DEV_GPU_TEMP) > 85
//! +          expr: avg by (Hostname) (DCGM_FI_DEV_GPU_TEMP) > 85
//!            for: 10m
//!            annotations:
//! -            summary: GPUs of {{ $labels.Hostname }} are hot # <-
//! +            summary: GPUs of {{ $labels.Hostname }} are hot
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/#templating>
//! - <https://prometheus.io/docs/prometheus/latest/querying/operators/#aggregation-operators>

use crate::promql::labels::{Labels, labels};
use crate::promql::{PROMETHEUS_RULE_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "alert-label-missing",
    kinds: kinds![PROMETHEUS_RULE_KINDS, [Kind::CONFIG_MAP]],
    docs: docs(include_str!("alert_label_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object).iter().filter(|query| query.place == QueryPlace::Alert) {
        let Some(expr) = query.parsed.expr() else { continue };
        let Labels::AtMost(kept) = labels(expr, &|_| false) else { continue };
        // VictoriaMetrics adds the names of the alert and of its group.
        let is_missing =
            |label: &str| !["alertname", "alertgroup"].contains(&label) && !kept.contains(&label);
        let Some(shown) = query.shown_labels.iter().find(|shown| is_missing(&shown.label)) else { continue };
        let has = match kept.as_slice() {
            [] => "no labels".to_owned(),
            kept => format!("only `{}`", kept.join("`, `")),
        };
        let label = &shown.label;
        let node = shown.node(object);
        let message = format!("`$labels.{label}` is empty: the result of the alert has {has}");
        let finding = ctx.report(&node, message).identified_by(query.text.as_str());
        finding.help(format!("keep the label: `… by ({label}) (…)`, or leave it out of the text"));
        if let Some(part) = shown.part.clone().filter(|_| query.is_embedded) {
            finding.at_part(object, &node, part);
        }
    }
    None
}
