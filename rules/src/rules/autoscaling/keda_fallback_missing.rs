//! A model server has no fallback for the time when its metrics cannot be read.
//!
//! # Why
//! While KEDA cannot read a trigger, the HPA keeps the replicas that there are, whatever the load. A
//! server that scales to zero is not started at all: nobody knows of the requests that wait. A model
//! takes minutes to load, so the load that came meanwhile is served late. With `fallback` KEDA sets a
//! number of replicas instead, after some failed polls; KEDA 2.17 and 2.18 do so only where a pod runs.
//! Nothing is said of triggers that read what the pods alone export and that scale to zero: see
//! `keda-cannot-wake`.
//!
//! # Fix
//! Write `fallback` with the replicas that serve an ordinary load. A Prometheus trigger also needs
//! `ignoreNullValues: "false"`, so that an empty answer counts as a failure.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//! -spec: # <-
//! +spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring:9090
//!          query: sum(vllm:num_requests_waiting)
//!          threshold: "5"
//!          ignoreNullValues: "false"
//! +  fallback: {failureThreshold: 3, replicas: 2}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#fallback>

use crate::keda::meaning::reads_metrics;
use crate::rules::autoscaling::keda_cannot_wake::{self, wakes_by_fallback};
use crate::rules::autoscaling::keda_empty_result_hides_failure::takes_null_for_zero;
use crate::rules::autoscaling::scale_target::{model_server, rests_at_zero, target_name};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-fallback-missing",
    kinds: &[Kind::SCALED_OBJECT],
    reads: keda_cannot_wake::READS_FOR_SERVERS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_fallback_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let fallback = spec.get("fallback");
    if !fallback.is_absent() || spec.has_unknown_key() {
        return None;
    }
    let kinds: Option<Vec<&str>> = triggers(object).map(|trigger: Trigger<'_>| trigger.kind()).collect();
    let kinds = kinds?;
    // Another trigger continues to scale the target, and a queue that fails delivers no work either.
    if kinds.iter().any(|kind| !reads_metrics(kind)) {
        return None;
    }
    let first = kinds.first()?;
    let server = model_server(object, ctx).filter(|server| server.confidence >= Confidence::Medium)?;
    let name = target_name(object);
    // Without pods its triggers fail at all times: a fallback would start them at once, by turns.
    if keda_cannot_wake::is_reported(object, ctx) {
        return None;
    }
    let rests = rests_at_zero(object)? && spec.get("idleReplicaCount").is_absent() && wakes_by_fallback(ctx);
    let (message, severity) = if rests {
        let message =
            format!("`{name}` stays at 0 replicas while its `{first}` trigger fails: there is no `fallback`");
        (message, Severity::Warning)
    } else {
        let message =
            format!("`{name}` keeps its replicas while its `{first}` trigger fails: there is no `fallback`");
        (message, Severity::Info)
    };
    let replicas = min_replicas(object)?.max(2).min(max_replicas(object)?);
    let finding = ctx.report(&fallback, message);
    finding
        .help(format!(
            "write the replicas for an ordinary load, such as `fallback: {{failureThreshold: 3, replicas: {replicas}}}`"
        ))
        .severity(severity);
    let mut fix = Fix::unsafe_("set replicas for failures")
        .set(&fallback, json!({"failureThreshold": 3, "replicas": replicas}));
    // A fallback that no trigger can reach would be a new finding.
    if triggers(object).all(|trigger| takes_null_for_zero(&trigger)) {
        for trigger in triggers(object) {
            fix = fix.set(&trigger.metadata().get("ignoreNullValues"), json!("false"));
        }
    }
    finding.fix(fix);
    server.explain(finding);
    None
}
