//! A query combines series with and without labels, which never match.
//!
//! # Why
//! An operator between two results combines series whose labels are all the same. `sum(x)` no longer has
//! labels, and series that Prometheus scrapes have at least `instance` and `job`: `sum(x) > y` has no
//! result whatever the values are. An alert with it never fires, a trigger reads 0, a panel stays empty.
//!
//! Metrics that a rule of the input records may have any labels, and so may those with a `:` in their name.
//!
//! # Fix
//! Aggregate both sides by the same labels, or say by which labels series match: `on()` for none, with
//! `group_left` or `group_right` if a side has several series. `scalar(…)` makes a number of a single series.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: cost, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: cost
//!        rules:
//!          - alert: OverBudget
//! -          expr: sum(gpu_daily_cost) > gpu_daily_budget # <-
//! +          expr: sum(gpu_daily_cost) > sum(gpu_daily_budget)
//!            for: 10m
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/querying/operators/#vector-matching>
//! - <https://prometheus.io/docs/concepts/jobs_instances/>

use crate::promql::expr::{Binary, Matching, ResultType};
use crate::promql::labels::{Labels, OF_TARGETS, labels};
use crate::promql::{Expr, PROMETHEUS_RULE_KINDS, QUERY_KINDS, QueryPlace};
use crate::rules::monitoring::{is_recorded_by_rule, severity_in};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "promql-never-matches",
    kinds: &QUERY_KINDS,
    reads: &PROMETHEUS_RULE_KINDS,
    docs: docs(include_str!("promql_never_matches.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        // The adapter fills in the labels by which it groups. Newer versions of Prometheus fill in what does not match.
        if query.place == QueryPlace::Adapter || query.text.contains("fill") {
            continue;
        }
        let Some(expr) = query.parsed.expr() else { continue };
        let is_scraped = |name: &str| !is_recorded_by_rule(name, object, ctx);
        let mut found = None;
        expr.walk(&mut |expr| {
            if let Expr::Binary(binary) = expr
                && found.is_none()
            {
                found = mismatch(binary, &is_scraped);
            }
        });
        let Some(Mismatch { op, aggregated, scraped }) = found else { continue };
        let of = match scraped {
            Some(name) => format!("`{name}` has `instance` and `job`"),
            None => "the other side has `instance` and `job`".to_owned(),
        };
        let message = match aggregated.as_slice() {
            [] => format!("the two sides of `{op}` never match: one is aggregated to no labels, and {of}"),
            kept => {
                let kept = kept.join("`, `");
                format!("the two sides of `{op}` never match: one has only `{kept}`, and {of}")
            }
        };
        let help = match op {
            "unless" => "write `unless on(…)` with the labels of both sides",
            _ => "aggregate both sides by the same labels, or write the labels that match: `on(…)`",
        };
        let finding = ctx.report(&query.node(object), message);
        finding.help(help).severity(severity_in(query.place, Severity::Warning));
        finding.identified_by(query.text.as_str()).at_query(object, query);
    }
    None
}

/// An operator whose sides have no labels in common.
struct Mismatch<'e> {
    op: &'e str,
    aggregated: Vec<&'e str>,
    /// The metric of the other side, if it is one.
    scraped: Option<&'e str>,
}

fn mismatch<'e>(binary: &'e Binary, is_scraped: &dyn Fn(&str) -> bool) -> Option<Mismatch<'e>> {
    let is_vector = |expr: &Expr| expr.result() == ResultType::Vector;
    if binary.matching != Matching::All
        || binary.op == "or"
        || !is_vector(&binary.lhs)
        || !is_vector(&binary.rhs)
    {
        return None;
    }
    let sides = (labels(&binary.lhs, is_scraped), labels(&binary.rhs, is_scraped));
    let (aggregated, scraped) = match sides {
        (Labels::AtMost(kept), Labels::Scraped) => (kept, &binary.rhs),
        (Labels::Scraped, Labels::AtMost(kept)) => (kept, &binary.lhs),
        _ => return None,
    };
    // What is aggregated by one of them may be what the other side lost otherwise.
    if aggregated.iter().any(|label| OF_TARGETS.contains(label)) {
        return None;
    }
    let scraped = scraped.sole_selector().and_then(|selector| selector.name.as_deref());
    Some(Mismatch { op: &binary.op, aggregated, scraped })
}
