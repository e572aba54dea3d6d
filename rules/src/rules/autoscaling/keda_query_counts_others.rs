//! A query without a matcher also counts the pods of another server.
//!
//! # Why
//! `sum(vllm:num_requests_waiting)` adds up every vLLM that Prometheus scrapes. Where a second workload of the
//! set exports the same metric, the load of one scales the other: two ScaledObjects with one query grow and
//! shrink together, whoever has the requests. A matcher on any label but `cluster` is taken as a choice,
//! and a monitor that scrapes the target alone as well.
//!
//! # Fix
//! Select the pods of the target: `{namespace="models", pod=~"chat-.*"}`, or its `model_name`.
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
//! -        query: sum(vllm:num_requests_waiting) # <-
//! +        query: sum(vllm:num_requests_waiting{namespace="models", pod=~"chat-.*"})
//!          threshold: "5"
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat}}
//!      spec:
//!        containers:
//!          - {name: vllm, image: "vllm/vllm-openai:v0.11.0", args: [--model, a/chat]}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: code, namespace: models}
//!  spec:
//!    selector: {matchLabels: {app: code}}
//!    template:
//!      metadata: {labels: {app: code}}
//!      spec:
//!        containers:
//!          - {name: vllm, image: "vllm/vllm-openai:v0.11.0", args: [--model, a/code]}
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/querying/basics/#instant-vector-selectors>
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>

use crate::keda::query::engine_of;
use crate::rules::autoscaling::scale_target::target;
use crate::rules::monitoring::monitors::{POD_MONITOR, SERVICE_MONITOR};
use crate::rules::prelude::*;
use crate::workload::selector;
use crate::workload::server::server_of;

const READS: [Kind; WORKLOAD_KINDS.len() + 3] =
    with_workloads(&[POD_MONITOR, SERVICE_MONITOR, Kind::SERVICE]);

pub(crate) static RULE: Rule = Rule {
    id: "keda-query-counts-others",
    kinds: &[Kind::SCALED_OBJECT],
    reads: &READS,
    docs: docs(include_str!("keda_query_counts_others.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let workload = target(object, ctx)?;
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let open = expr.selectors().into_iter().find_map(|selector| {
            let engine = engine_of(selector.name.as_deref()?)?;
            let chooses =
                selector.matchers.iter().any(|m| !matches!(m.label.as_str(), "cluster" | "prometheus"));
            (!chooses && runs(workload, engine)).then_some((selector.name.clone(), engine))
        });
        let Some((Some(metric), engine)) = open else { continue };
        let Some(other) = other_server(workload, engine, ctx) else { continue };
        let message = format!(
            "`{}` without a matcher also counts the pods of `{}`",
            ellipsize(&metric),
            other.display_name()
        );
        ctx.report(&query.node(object), message)
            .help(format!(
                "add `{{namespace=\"{}\", pod=~\"{}-.*\"}}` to the metric",
                workload.namespace_or_default(),
                workload.name()
            ))
            .related(other, &other.path(&["metadata", "name"]), "it exports the same metric");
    }
    None
}

/// Whether a container of the workload is this model server.
fn runs(workload: &Object, engine: &str) -> bool {
    let name = match engine {
        "vllm" => "vLLM",
        "sglang" => "SGLang",
        "text-generation" => "TGI",
        "triton" => "Triton",
        _ => return false,
    };
    templates(workload)
        .iter()
        .flat_map(Template::containers)
        .any(|container| server_of(&container).is_some_and(|server| server.name == name))
}

/// Another workload that is applied with the target, runs the same server, and is scraped as far as monitors show.
fn other_server<'a>(workload: &Object, engine: &str, ctx: &Context<'a>) -> Option<&'a Object> {
    let cluster = ctx.cluster();
    let kinds =
        [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet")];
    let mut servers = kinds.iter().flat_map(|kind| cluster.of(*kind));
    servers.find(|other| {
        let name = |object: &Object| (object.namespace_or_default().to_owned(), object.name().to_owned());
        name(other) != name(workload)
            && !other.is_partial()
            && crate::workload::template::replicas(other) != Some(0)
            && runs(other, engine)
            && cluster.likely_pairs(workload, other)
            && ctx.pairs_with(other)
            && may_be_scraped(other, ctx)
    })
}

/// Whether a monitor of the set scrapes the pods of a workload; true without monitors, because annotations or another
/// repository may.
fn may_be_scraped(workload: &Object, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let monitors: Vec<&Object> = [POD_MONITOR, SERVICE_MONITOR]
        .into_iter()
        .flat_map(|kind| cluster.of(kind).collect::<Vec<_>>())
        .filter(|monitor| ctx.pairs_with(monitor))
        .collect();
    let templates = templates(workload);
    let selects = |monitor: &&Object| {
        let wanted = monitor.path(&["spec", "selector"]);
        if monitor.is(POD_MONITOR) {
            return templates.iter().any(|t| selector::matches(&wanted, &t.labels()) == Some(true));
        }
        let services = templates
            .iter()
            .flat_map(|template| cluster.views().services_of(workload.namespace_or_default(), template));
        services.into_iter().any(|service| {
            selector::matches(&wanted, &service.path(&["metadata", "labels"]).entries()) == Some(true)
        })
    };
    monitors.is_empty() || monitors.iter().any(selects)
}
