//! A query selects by a `job` or another label that the monitors do not give.
//!
//! # Why
//! Prometheus takes the label `job` of a series from the monitor that scrapes it: for a ServiceMonitor it is
//! the name of the Service, for a PodMonitor `namespace/name` of the monitor, unless `jobLabel` names a label.
//! A query with the name of the ServiceMonitor, or the plain name of a PodMonitor, selects nothing: KEDA
//! reads 0 and nothing scales. Monitors whose relabelings write `job` are left alone. A VMServiceScrape and
//! a VMPodScrape of VictoriaMetrics give what these two give.
//!
//! For metrics of the target's own model server the monitors that scrape its pods are known: there `namespace`,
//! `container`, `service` and labels of the pod are compared as well. A label of the pod is on its series only
//! where `podTargetLabels` names it, and a PodMonitor gives no `service`. Nothing is said where a monitor has
//! relabelings.
//!
//! # Fix
//! Write the label that the monitor gives, or select by `namespace` and `pod`.
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

use crate::promql::Query;
use crate::promql::expr::{MatchOp, Matcher, Selector};
use crate::rules::autoscaling::scale_target::target;
use crate::rules::autoscaling::scraped_labels::{SCRAPE_KINDS, Scrape, scrapes_of};
use crate::rules::monitoring::monitors::{
    MONITORS, RELABELINGS, agents_may_relabel, endpoints, is_of_pods, target_label,
};
use crate::rules::prelude::*;
use crate::workload::selector;
use crate::workload::server::{likely_server_of, runs};

pub(crate) static RULE: Rule = Rule {
    id: "keda-query-job-mismatch",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: kinds![SCRAPE_KINDS, WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_query_job_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let mut selectors = expr.selectors().into_iter();
        selectors.find_map(|selector| {
            of_target(object, query, selector, ctx).or_else(|| by_name(object, query, selector, ctx))
        });
    }
    None
}

/// Reports a metric of the target's own server whose matchers exclude all series that the monitors scrape from its pods.
fn of_target(object: &Object, query: &Query, selector: &Selector, ctx: &mut Context<'_>) -> Option<()> {
    let server = Server::of_metric(selector.name.as_deref()?)?;
    let workload = target(object, ctx)?;
    if selector.matchers.is_empty() || !runs(workload, server, likely_server_of) {
        return None;
    }
    let scrapes = scrapes_of(workload, ctx)?;
    let excluding = |scrape: &Scrape<'_>| selector.matchers.iter().find(|m| scrape.is_excluded_by(m));
    let matchers: Vec<&Matcher> = scrapes.iter().map(excluding).collect::<Option<_>>()?;
    let (matcher, scrape) = (*matchers.first()?, scrapes.first()?);
    // It is that of another target.
    if matcher.label == "job" && names_another(&matcher.value, workload, scrape.monitor, ctx) {
        return None;
    }
    let (kind, name, label) = (scrape.monitor.kind(), scrape.monitor.display_name(), &matcher.label);
    let written = format!("{label}{}\"{}\"", operator(matcher.op), matcher.value);
    let value = scrape.value(label)?;
    let given = format!("{label}=\"{value}\"");
    let node = query.node(object);
    let message = match value {
        "" => format!("no series has `{written}`: {kind} `{name}` gives no label `{label}`"),
        _ => format!("no series has `{written}`: {kind} `{name}` gives `{given}`"),
    };
    let finding = ctx.report(&node, message);
    match value {
        "" if label == "service" => {
            finding.help(format!("select by `namespace` and `pod`: a {kind} knows no Service"))
        }
        "" => finding.help("select by `namespace` and `pod`, or name the pod's label in `podTargetLabels`"),
        _ => finding.help(format!("write `{given}`")),
    };
    if !value.is_empty() && scrapes.len() == 1 {
        rewrite(query, &node, &written, &given, finding);
    }
    let related = "it scrapes the pods of the target";
    finding.related(scrape.monitor, &scrape.monitor.path(&["metadata", "name"]), related);
    Some(())
}

fn operator(op: MatchOp) -> &'static str {
    match op {
        MatchOp::Equal => "=",
        MatchOp::NotEqual => "!=",
        MatchOp::Matches => "=~",
        MatchOp::NotMatches => "!~",
    }
}

/// Whether a job may be that of other pods than the workload's: the name of another Service or monitor.
fn names_another(job: &str, workload: &Object, own: &Object, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let Some(name) = job.rsplit('/').next() else { return false };
    let of_workload: Vec<&Object> = templates(workload)
        .iter()
        .flat_map(|template| cluster.views().services_of(workload.namespace_or_default(), template))
        .collect();
    let mut services = cluster.written_as(Kind::SERVICE, name);
    let mut monitors = MONITORS.into_iter().flat_map(|kind| cluster.written_as(kind, name));
    services.any(|service| !of_workload.iter().any(|one| one.ptr_eq(service)))
        || monitors.any(|monitor| !monitor.ptr_eq(own))
}

/// Reports a job that is the name of a monitor, which gives another one.
fn by_name(object: &Object, query: &Query, selector: &Selector, ctx: &mut Context<'_>) -> Option<()> {
    let job = selector.matchers.iter().find(|m| m.label == "job" && m.op == MatchOp::Equal)?;
    let (monitor, right) = mismatch(&job.value, ctx)?;
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
    rewrite(query, &node, &written, &given, finding);
    Some(())
}

/// Fixes a matcher where the query is written with these quotes and without blanks.
fn rewrite(query: &Query, node: &Node<'_>, written: &str, given: &str, finding: &mut Finding) {
    if query.text.matches(written).count() == 1 {
        let text = query.text.replace(written, given);
        finding.fix(Fix::unsafe_(format!("write `{given}`")).set(node, json!(text)));
    }
}

/// The monitor that is meant by a job that no monitor gives, and the job that it gives.
fn mismatch<'a>(job: &str, ctx: &Context<'a>) -> Option<(&'a Object, String)> {
    let cluster = ctx.cluster();
    let name = job.rsplit('/').next()?;
    let mut named = MONITORS
        .into_iter()
        .flat_map(|kind| cluster.written_as(kind, name).collect::<Vec<_>>())
        .filter(|monitor| ctx.pairs_with(monitor));
    let monitor = named.next().filter(|_| named.next().is_none())?;
    if monitor.group() == Kind::VM_AGENT.group && agents_may_relabel(cluster) {
        return None;
    }
    // Another target may have this name: a Service with a monitor of its own, or a plain scrape configuration.
    if writes_job(monitor) || monitor.is_partial() || cluster.written_as(Kind::SERVICE, name).next().is_some()
    {
        return None;
    }
    let right = if is_of_pods(monitor) {
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
        RELABELINGS.iter().any(|list| {
            let list = endpoint.get(list);
            list.is_unknown()
                || list.items().any(|item| target_label(&item).text() == Some("job") || item.has_unknown())
        })
    };
    label.is_set() || label.is_unknown() || spec.has_unknown_key() || endpoints(monitor).any(relabels)
}
