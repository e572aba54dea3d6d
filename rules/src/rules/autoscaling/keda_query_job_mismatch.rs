//! A query selects by a `job` that the monitors of the set do not give.
//!
//! # Why
//! Prometheus takes the label `job` of a series from the monitor that scrapes it: for a ServiceMonitor it is
//! the name of the Service, for a PodMonitor `namespace/name` of the monitor, unless `jobLabel` names a label.
//! A query with the name of the ServiceMonitor, or the plain name of a PodMonitor, selects nothing: KEDA
//! reads 0 and nothing scales. Monitors whose relabelings write `job` are left alone.
//!
//! # Fix
//! Write the `job` that the monitor gives, or select by `namespace` and `pod`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    scaleTargetRef: {name: chat}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//! -        query: sum(vllm:num_requests_waiting{job="chat-metrics"}) # <-
//! +        query: sum(vllm:num_requests_waiting{job="models/chat-metrics"})
//!          threshold: "5"
//!  ---
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PodMonitor
//!  metadata: {name: chat-metrics, namespace: models}
//!  spec:
//!    selector: {matchLabels: {app: chat}}
//!    podMetricsEndpoints: [{port: http}]
//! ```
//!
//! # References
//! - <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMonitor>
//! - <https://github.com/prometheus-operator/prometheus-operator/blob/main/Documentation/user-guides/getting-started.md>

use crate::promql::expr::MatchOp;
use crate::rules::monitoring::monitors::{POD_MONITOR, SERVICE_MONITOR, endpoints};
use crate::rules::prelude::*;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "keda-query-job-mismatch",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: &[POD_MONITOR, SERVICE_MONITOR, Kind::SERVICE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_query_job_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        for selector in expr.selectors() {
            let Some(job) = selector.matchers.iter().find(|m| m.label == "job" && m.op == MatchOp::Equal)
            else {
                continue;
            };
            if let Some((monitor, right)) = mismatch(&job.value, ctx) {
                let node = query.node(object);
                let given = format!("job=\"{right}\"");
                let message = format!(
                    "no series has `job=\"{}\"`: {} `{}` gives `{given}`",
                    job.value,
                    monitor.kind(),
                    monitor.name()
                );
                let written = format!("job=\"{}\"", job.value);
                let finding = ctx.report(&node, message);
                finding.help(format!("write `{given}`")).related(
                    monitor,
                    &monitor.path(&["metadata", "name"]),
                    "the monitor",
                );
                // The query is written with these quotes and without blanks.
                if query.text.matches(&written).count() == 1 {
                    let text = query.text.replace(&written, &given);
                    finding.fix(Fix::unsafe_(format!("write `{given}`")).set(&node, json!(text)));
                }
                break;
            }
        }
    }
    None
}

/// The monitor that is meant by a job that no monitor gives, and the job that it gives.
fn mismatch<'a>(job: &str, ctx: &Context<'a>) -> Option<(&'a Object, String)> {
    let cluster = ctx.cluster();
    let name = job.rsplit('/').next()?;
    let mut named = [POD_MONITOR, SERVICE_MONITOR]
        .into_iter()
        .flat_map(|kind| cluster.written_as(kind, name).collect::<Vec<_>>())
        .filter(|monitor| ctx.pairs_with(monitor));
    let monitor = named.next().filter(|_| named.next().is_none())?;
    // Another target may have this name: a Service with a monitor of its own, or a plain scrape configuration.
    if writes_job(monitor) || monitor.is_partial() || cluster.written_as(Kind::SERVICE, name).next().is_some()
    {
        return None;
    }
    let right = if monitor.is(POD_MONITOR) {
        format!("{}/{}", monitor.namespace()?, monitor.name())
    } else {
        let wanted = monitor.path(&["spec", "selector"]);
        if monitor.path(&["spec", "namespaceSelector"]).is_set() {
            return None;
        }
        let services = cluster.in_namespace(Kind::SERVICE, monitor.namespace_or_default());
        let mut selected = services.filter(|service| {
            let labels = service.path(&["metadata", "labels"]).entries();
            selector::matches(&wanted, &labels) == Some(true)
        });
        selected.next().filter(|_| selected.next().is_none())?.name().to_owned()
    };
    (right != job).then_some((monitor, right))
}

/// Whether a monitor may give another `job` than the default.
fn writes_job(monitor: &Object) -> bool {
    let spec = monitor.get("spec");
    let label = spec.get("jobLabel");
    let relabels = |endpoint: Node<'_>| {
        ["relabelings", "metricRelabelings"].iter().any(|list| {
            let list = endpoint.get(list);
            list.is_unknown()
                || list
                    .items()
                    .any(|item| matches!(item.get("targetLabel").text(), Some("job")) || item.has_unknown())
        })
    };
    label.is_set() || label.is_unknown() || spec.has_unknown_key() || endpoints(monitor).any(relabels)
}
