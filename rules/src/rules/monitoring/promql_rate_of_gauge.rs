//! A query takes the rate of a gauge.
//!
//! # Why
//! `rate`, `irate` and `increase` are for counters: they add up what a series rises and treat each fall
//! as a restart. Of a gauge, which goes up and down, they give a number that has little to do with its
//! level. `rate(vllm:num_requests_running[1m])` is near 0 while a server is steadily busy, so an
//! autoscaler scales in under load. In an alert or a recording rule it is a warning, and information in a
//! dashboard: nothing scales by them.
//!
//! # Fix
//! Write `avg_over_time(…)` for the level of a gauge, `deriv(…)` for its slope.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//! -        query: sum(rate(vllm:num_requests_running[1m])) # <-
//! +        query: sum(avg_over_time(vllm:num_requests_running[1m]))
//!          threshold: "4"
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/querying/functions/#rate>
//! - <https://prometheus.io/docs/concepts/metric_types/>

use crate::promql::identifiers::find_word;
use crate::promql::metrics::is_gauge;
use crate::promql::{Expr, QUERY_KINDS, QueryPlace};
use crate::rules::monitoring::severity_in;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "promql-rate-of-gauge",
    kinds: &QUERY_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("promql_rate_of_gauge.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Monitoring)
};

const FOR_COUNTERS: [&str; 3] = ["rate", "irate", "increase"];

/// The code of the last XID error, which is neither a counter nor a level.
const LAST_ERROR: &str = "DCGM_FI_DEV_XID_ERRORS";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Some((function, metric)) = query.parsed.expr().and_then(rate_of_gauge) else { continue };
        let node = query.node(object);
        let message =
            format!("`{function}` of `{metric}`, which is a gauge: the result does not follow its level");
        let finding = ctx.report(&node, message);
        // Only an autoscaler acts on the number.
        let usual = match query.place {
            QueryPlace::Trigger | QueryPlace::Adapter => Severity::Error,
            QueryPlace::Alert | QueryPlace::Record | QueryPlace::Dashboard => Severity::Warning,
        };
        finding.severity(severity_in(query.place, usual)).at_query(object, query);
        if metric == LAST_ERROR {
            finding
                .severity(severity_in(query.place, Severity::Warning))
                .help("its value is the code of the last error: use `changes`, or compare it with 0");
            continue;
        }
        finding.help("write `avg_over_time` for its level, or `deriv` for its slope");
        // A threshold on a rate does not fit a level.
        let compares = query.text.contains(['<', '>']);
        if !query.is_embedded
            && !compares
            && let Some(text) = node.text()
            && let Some(level) = as_level(text, function, metric)
        {
            finding.fix(Fix::unsafe_("take its mean over the window").set(&node, json!(level)));
        }
    }
    None
}

/// The first function for counters that is used on a gauge, and the gauge.
fn rate_of_gauge(expr: &Expr) -> Option<(&str, &str)> {
    let mut found = None;
    expr.walk(&mut |expr| {
        if let Expr::Call(call) = expr
            && FOR_COUNTERS.contains(&call.function.as_str())
            && let [Expr::Range(inner, _)] = call.args.as_slice()
            && let Expr::Selector(selector) = &**inner
            && let Some(name) = selector.name.as_deref()
            && is_gauge(name)
            && found.is_none()
        {
            found = Some((call.function.as_str(), name));
        }
    });
    found
}

/// The query with the function before a metric replaced.
fn as_level(text: &str, function: &str, metric: &str) -> Option<String> {
    let at = find_word(text, metric)?;
    let before = text[..at].trim_end().strip_suffix('(')?.trim_end();
    let start = before.strip_suffix(function)?.len();
    let whole = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    whole.then(|| format!("{}avg_over_time{}", &text[..start], &text[start + function.len()..]))
}
