//! A threshold is on another scale than its metric.
//!
//! # Why
//! Some metrics are percentages from 0 to 100 (`DCGM_FI_DEV_GPU_UTIL`), others ratios from 0 to 1
//! (`DCGM_FI_PROF_GR_ENGINE_ACTIVE`, `vllm:kv_cache_usage_perc` in spite of its name). A ratio is never
//! above 70, so that trigger never scales and that alert never fires; a percentage is nearly always above
//! 0.9. The framebuffer of a GPU (`DCGM_FI_DEV_FB_FREE`) is counted in MiB, so that a number of bytes or of
//! KiB is larger than any value. A HorizontalPodAutoscaler reads them through an adapter, mostly on the
//! same scale.
//!
//! # Fix
//! Write the threshold on the metric's scale, or multiply the query by 100.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: serving, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: cache
//!        rules:
//!          - alert: CacheFull
//! -          expr: avg(vllm:kv_cache_usage_perc) > 90 # <-
//! +          expr: avg(vllm:kv_cache_usage_perc) > 0.9
//!            for: 10m
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>
//! - <https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html>

use crate::keda::value::number;
use crate::promql::bound::{MOST_FRAMEBUFFER, upper_bound};
use crate::promql::metrics::{Unit, metric};
use crate::promql::{Expr, PROMETHEUS_RULE_KINDS, QueryPlace};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "threshold-unit-mismatch",
    kinds: kinds![
        PROMETHEUS_RULE_KINDS,
        [Kind::CONFIG_MAP, Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::HPA]
    ],
    docs: docs(include_str!("threshold_unit_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::HPA) {
        check_hpa(object, ctx);
        return None;
    }
    let modifiers = uses_modifiers(object) != Some(false);
    for query in queries(object).iter().filter(|query| query.place != QueryPlace::Dashboard) {
        let Some(expr) = query.parsed.expr() else { continue };
        if query.place == QueryPlace::Trigger {
            let metadata = query.entry(object).get("metadata");
            for key in ["threshold", "activationThreshold"] {
                let node = metadata.get(key);
                let threshold = node.text().and_then(|text| number(text.trim()));
                if let Some(fault) = threshold.and_then(|threshold| Fault::of(expr, ">", threshold))
                    // The formula's target is compared instead.
                    && !(modifiers && key == "threshold")
                {
                    let what = fault.metric;
                    let (message, help) = match fault.scale {
                        Scale::Above(bound) => (
                            format!(
                                "`{what}` is at most {bound} here, so `{key}` {} is never reached",
                                fault.number
                            ),
                            fault.help(),
                        ),
                        Scale::Percent => (
                            format!(
                                "`{what}` goes from 0 to 100, and `{key}` {} is a share of 1",
                                fault.number
                            ),
                            fault.help(),
                        ),
                    };
                    ctx.report(&node, message).help(help);
                }
            }
            continue;
        }
        let mut found = None;
        expr.walk(&mut |expr| {
            if let Expr::Binary(binary) = expr
                && found.is_none()
            {
                found = match (&binary.lhs, &binary.rhs) {
                    (value, Expr::Number(n)) => {
                        Fault::of(value, &binary.op, *n).map(|f| (f, binary.op.as_str()))
                    }
                    (Expr::Number(n), value) => {
                        let op = mirrored(&binary.op);
                        Fault::of(value, op, *n).map(|fault| (fault, op))
                    }
                    _ => None,
                };
            }
        });
        if let Some((fault, op)) = found {
            let what = fault.metric;
            let outcome = if op.starts_with('<') || op == "!=" { "always" } else { "never" };
            let message = match fault.scale {
                Scale::Above(bound) => {
                    format!("`{what}` is at most {bound} here, so `{op} {}` is {outcome} true", fault.number)
                }
                Scale::Percent => {
                    format!("`{what}` goes from 0 to 100, so `{op} {}` is nearly always true", fault.number)
                }
            };
            ctx.report(&query.node(object), message).help(fault.help()).at_query(object, query);
        }
    }
    None
}

/// The targets of an HPA on metrics whose scale is known. An adapter may compute another value under the name of the metric.
fn check_hpa(object: &Object, ctx: &mut Context<'_>) {
    for entry in object.path(&["spec", "metrics"]).items() {
        for (source, key) in ["pods", "object", "external"]
            .into_iter()
            .flat_map(|source| ["value", "averageValue"].map(|key| (source, key)))
        {
            let node = entry.path(&[source, "target", key]);
            let name = entry.path(&[source, "metric", "name"]);
            let (Some(name), Some(written)) = (name.text(), node.string_or_number()) else { continue };
            // Google's adapter puts a prefix before the name and the type after it.
            let google = name.strip_prefix("prometheus.googleapis.com|");
            let name = google.map_or(name, |rest| rest.split('|').next().unwrap_or(rest));
            let (Some(known), Ok(quantity)) = (metric(name), Quantity::decode(&written)) else { continue };
            let number = quantity.nano() as f64 / 1e9;
            // The GPUs of a pod may be added up, so a number just above 1 proves nothing.
            let (scale, right) = match known.unit {
                Unit::Ratio if (10.0..=100.0).contains(&number) => ("0 to 1", number / 100.0),
                Unit::Percent if (0.1..1.0).contains(&number) => ("0 to 100", number * 100.0),
                _ => continue,
            };
            let outcome = if known.unit == Unit::Ratio { "never reached" } else { "nearly always exceeded" };
            ctx.report(&node, format!("`{name}` goes from {scale}, so a target of {written} is {outcome}"))
                .help(format!("write `\"{}\"`, unless the adapter changes the scale", rounded(right)))
                .severity(Severity::Warning);
        }
    }
}

/// What is wrong with a threshold.
#[derive(Clone, Copy)]
enum Scale {
    /// It is above the largest value.
    Above(f64),
    /// It is a share of 1, and the value a percentage.
    Percent,
}

struct Fault<'e> {
    metric: &'e str,
    scale: Scale,
    number: f64,
}

impl<'e> Fault<'e> {
    /// What is wrong with comparing a value with a number.
    fn of(value: &'e Expr, op: &str, number: f64) -> Option<Fault<'e>> {
        let metric = value.selectors().first()?.name.as_deref()?;
        let bound = upper_bound(value)?;
        let compares = matches!(op, ">" | ">=" | "<" | "<=" | "==" | "!=");
        let is_above = matches!(op, ">" | ">=");
        if compares && number > bound {
            return Some(Fault { metric, scale: Scale::Above(bound), number });
        }
        // A number below 0.1 may test whether there is any load at all.
        let is_share = is_above && bound == 100.0 && (0.1..1.0).contains(&number);
        is_share.then_some(Fault { metric, scale: Scale::Percent, number })
    }

    fn help(&self) -> String {
        match self.scale {
            Scale::Above(bound) if bound <= 1.0 && self.number <= 100.0 => {
                format!("write {}, or multiply the query by 100", rounded(self.number / 100.0))
            }
            Scale::Above(MOST_FRAMEBUFFER) => {
                "write MiB, in which DCGM counts the memory of GPUs, and not bytes or KiB".to_owned()
            }
            Scale::Above(_) => "compare with a number that the query can have".to_owned(),
            Scale::Percent => format!("write {}, or divide the query by 100", rounded(self.number * 100.0)),
        }
    }
}

/// Without the digits that binary fractions add.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// The comparison with its sides exchanged.
fn mirrored(op: &str) -> &'static str {
    match op {
        ">" => "<",
        ">=" => "<=",
        "<" => ">",
        "<=" => ">=",
        "==" => "==",
        "!=" => "!=",
        _ => "",
    }
}
