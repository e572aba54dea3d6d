//! A fallback does not cover an empty answer, which counts as 0.
//!
//! # Why
//! Prometheus, Loki and CloudWatch triggers read an empty answer as 0 unless `ignoreNullValues` is
//! `"false"`. The fallback still applies where the server cannot be reached or answers with an error.
//! But a scrape target that is lost gives an empty answer: KEDA sees no failure and scales the service
//! in.
//!
//! # Fix
//! Write `ignoreNullValues: "false"` where an empty answer means that something is broken, or let the
//! query itself tell the two apart, with `or vector(0)` or `absent()`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//! -  fallback: {failureThreshold: 3, replicas: 6} # <-
//! +  fallback: {failureThreshold: 3, replicas: 6}
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring:9090
//!          query: sum(vllm:num_requests_waiting)
//!          threshold: "5"
//! +        ignoreNullValues: "false"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/prometheus/>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#fallback>

use crate::keda::fallback::Fallback;
use crate::keda::value::boolean;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-empty-result-hides-failure",
    kinds: &[Kind::SCALED_OBJECT],
    docs: docs(include_str!("keda_empty_result_hides_failure.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Trigger types that treat an empty result as 0 unless `ignoreNullValues` is false.
const NULL_IS_ZERO: &[&str] = &["prometheus", "loki", "aws-cloudwatch"];
/// Trigger types that treat it as 0 if `ignoreNullValues` is true.
const NULL_MAY_BE_ZERO: &[&str] = &["azure-app-insights", "elasticsearch", "opensearch"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let fallback = Fallback::of(object).filter(|f| !f.modifiers)?;
    // What an empty answer asks for is no less than what the fallback does.
    let min = object.path(&["spec", "minReplicaCount"]).int().unwrap_or(0);
    if fallback.node.get("replicas").int().is_some_and(|replicas| replicas <= min) {
        return None;
    }
    let mut triggers = fallback.triggers.iter().flatten().filter(|t| !t.is_resource()).peekable();
    let kind = triggers.peek()?.kind()?;
    // A fallback takes effect as soon as one trigger can fail.
    if triggers.all(takes_null_for_zero) {
        let message =
            format!("an empty answer of the `{kind}` trigger counts as 0, so the fallback does not cover it");
        ctx.report(&fallback.node, message)
            .help("write `ignoreNullValues: \"false\"` where an empty answer is a failure");
    }
    None
}

/// Whether an empty answer of a trigger counts as 0.
pub(super) fn takes_null_for_zero(trigger: &Trigger<'_>) -> bool {
    let kind = trigger.kind().unwrap_or_default();
    let ignore = trigger.metadata().get("ignoreNullValues");
    let written = ignore.text().and_then(|t| boolean(t.trim()));
    let zero = (NULL_IS_ZERO.contains(&kind) && written != Some(false))
        || (NULL_MAY_BE_ZERO.contains(&kind) && written == Some(true));
    // The query itself may define the result if there is no data.
    let query = trigger.metadata().get("query");
    let guarded =
        query.is_unknown() || query.text().is_some_and(|q| q.contains("vector(") || q.contains("absent"));
    zero && !guarded && !ignore.is_unknown()
}
