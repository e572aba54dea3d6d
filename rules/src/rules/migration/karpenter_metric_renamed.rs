//! A query reads a metric that Karpenter no longer exports.
//!
//! # Why
//! Karpenter 1.0 renamed or dropped a third of its metrics. A query for an old name returns
//! nothing, and nothing never fires: the alert on GPU limits stays silent, the autoscaler sees no
//! series, the panel says "no data".
//!
//! # Fix
//! Write the new name. Where the labels changed with it, the selectors and `by` clauses of the
//! query need a look as well; such a fix is unsafe.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: karpenter}
//!  spec:
//!    groups:
//!      - name: capacity
//!        rules:
//!          - alert: PoolNearItsLimit
//! -          expr: karpenter_nodepool_usage / karpenter_nodepools_limit > 0.9 # <-
//! +          expr: karpenter_nodepools_usage / karpenter_nodepools_limit > 0.9
//!            for: 10m
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/metrics/>
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>

use crate::cluster::views::recording_rule_names;
use crate::migration::metrics::{MetricChange, obsolete_metrics, rename};
use crate::promql::PROMETHEUS_RULE_KINDS;
use crate::promql::sources::rule_groups;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-metric-renamed",
    kinds: kinds![
        PROMETHEUS_RULE_KINDS,
        [Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::CONFIG_MAP, Kind::GRAFANA_DASHBOARD]
    ],
    reads: &PROMETHEUS_RULE_KINDS,
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("karpenter_metric_renamed.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::CONFIG_MAP) {
        for (name, text) in object.get("data").entries() {
            if holds_queries(name, &text) {
                inspect(&text, Severity::Info, &[], ctx);
            }
        }
    } else if object.is(Kind::GRAFANA_DASHBOARD) {
        inspect(&object.path(&["spec", "json"]), Severity::Info, &[], ctx);
    } else if object.group() == "keda.sh" {
        for trigger in object.path(&["spec", "triggers"]).items() {
            if trigger.get("type").text() == Some("prometheus") {
                let query = trigger.path(&["metadata", "query"]);
                inspect(&query, Severity::Warning, &[], ctx);
            }
        }
    } else {
        // An object under review is not in the cluster yet.
        let own = recording_rule_names(object);
        for group in rule_groups(object).items() {
            for rule in group.get("rules").items() {
                inspect(&rule.get("expr"), Severity::Warning, &own, ctx);
            }
        }
    }
    None
}

/// Whether an entry of a ConfigMap contains a dashboard or rules and not prose.
fn holds_queries(name: &str, text: &Node<'_>) -> bool {
    let file = [".json", ".yaml", ".yml", ".rules"];
    file.iter().any(|end| name.ends_with(end)) && text.text().is_some_and(|t| t.contains("expr"))
}

/// `own` are the names that the object itself records.
fn inspect(query: &Node<'_>, severity: Severity, own: &[String], ctx: &mut Context<'_>) {
    // A query with a placeholder is checked as well.
    let Some(crate::tree::scalar::Scalar::Str(text)) = query.scalar() else { return };
    let cluster = ctx.cluster();
    for found in obsolete_metrics(text, ctx.platform().karpenter) {
        if cluster.views().is_recorded(found.name) || own.iter().any(|n| n == found.name) {
            continue;
        }
        let old = found.name;
        let message = match found.change {
            MetricChange::Removed(_) => format!("Karpenter no longer exports `{old}`"),
            _ => format!("Karpenter no longer exports a metric under the name `{old}`"),
        };
        let object = ctx.object().clone();
        let finding = ctx.report(query, message).severity(severity).help(found.change.help());
        finding.at_part(&object, query, found.at..found.at + old.len());
        let (new, fix) = match found.change {
            MetricChange::Renamed(new) => (new, Fix::safe(format!("write `{new}`"))),
            MetricChange::Replaced(new) => (new, Fix::unsafe_(format!("write `{new}`; check its labels"))),
            _ => continue,
        };
        finding.fix(fix.set(query, json!(rename(text, old, new))));
    }
}
