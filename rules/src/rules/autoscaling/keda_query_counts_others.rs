//! A query also counts the pods of another server.
//!
//! # Why
//! `sum(vllm:num_requests_waiting)` adds up every vLLM that Prometheus scrapes. Where a second workload of the
//! set exports the same metric, the load of one scales the other: two ScaledObjects with one query grow and
//! shrink together, whoever has the requests. So do matchers on `namespace`, `container`, `job` or `pod` that
//! hold for both. A matcher on another label, such as `model_name`, is taken as a choice, and a monitor that
//! scrapes the target alone as well. Metrics that many programs export, such as `http_requests_total`, are
//! reported without a matcher where another ScaledObject has the same query for another target, and so are
//! two HPAs that read one External metric of their servers without a selector. The metrics of a proxy, such as
//! `nginx_ingress_controller_requests`, are those of all services behind it unless a matcher selects one.
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
//!          - {name: vllm, image: "example.com/vllm:v0.11.0", args: [serve, a/chat, --max-model-len=8192]}
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
//!          - {name: vllm, image: "example.com/vllm:v0.11.0", args: [serve, a/code, --max-model-len=8192]}
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/querying/basics/#instant-vector-selectors>
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>

use crate::promql::Query;
use crate::promql::expr::Selector;
use crate::rules::autoscaling::ModelServers;
use crate::rules::autoscaling::scale_target::target;
use crate::rules::autoscaling::scraped_labels::{SCRAPE_KINDS, holds, scrapes_of, value_of_pods};
use crate::rules::availability::selected_workloads::are_versions;
use crate::rules::monitoring::monitors::{MONITORS, is_of_pods};
use crate::rules::prelude::*;
use crate::workload::selector;
use crate::workload::server::{likely_server_of, runs};

pub(crate) static RULE: Rule = Rule {
    id: "keda-query-counts-others",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: kinds![SCRAPE_KINDS, [Kind::SCALED_OBJECT, Kind::HPA], WORKLOAD_KINDS],
    docs: docs(include_str!("keda_query_counts_others.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::HPA) {
        return of_hpa(object, ctx);
    }
    whole_proxy(object, ctx);
    let workload = target(object, ctx)?;
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let selectors = expr.selectors();
        let found = selectors.iter().find_map(|selector| {
            let metric = selector.name.as_deref()?;
            let other =
                match Server::of_metric(metric).filter(|server| runs(workload, server, likely_server_of)) {
                    Some(server) => other_server(workload, server, selector, ctx),
                    None => other_with_query(object, query, selector, ctx).cloned(),
                };
            Some((*selector, metric, other?))
        });
        let Some((selector, metric, other)) = found else { continue };
        let metric = ellipsize(metric);
        let other_name = other.display_name();
        let message = match narrows(selector) {
            false => format!("`{metric}` without a matcher also counts the pods of `{other_name}`"),
            true => format!("the matchers of `{metric}` also select the pods of `{other_name}`"),
        };
        ctx.report(&query.node(object), message)
            .help(format!(
                "add `{{namespace=\"{}\", pod=~\"{}-.*\"}}` to the metric",
                workload.namespace_or_default(),
                workload.name()
            ))
            .related(&other, &other.path(&["metadata", "name"]), "it exports the same metric");
    }
    None
}

/// Metrics of proxies that many services share, by the beginnings of their names, with a label that selects one service.
const PROXIES: [(&str, &str); 10] = [
    ("nginx_ingress_controller_request", "ingress"),
    ("istio_request", "destination_workload"),
    ("envoy_cluster_upstream_rq", "envoy_cluster_name"),
    ("traefik_service_request", "service"),
    ("haproxy_backend_http_", "proxy"),
    ("haproxy_server_http_", "proxy"),
    ("kong_http_requests_total", "service"),
    ("apisix_http_status", "service"),
    ("skipper_serve_host_", "host"),
    ("aws_applicationelb_request_count", "dimension_LoadBalancer"),
];

/// Labels of such metrics that select no service.
const OF_REQUESTS: [&str; 11] = [
    "status",
    "code",
    "response_code",
    "response_flags",
    "method",
    "le",
    "reporter",
    "protocol",
    "request_protocol",
    "controller_class",
    "ingress_class",
];

/// Reports the sum over all that a proxy serves.
fn whole_proxy(object: &Object, ctx: &mut Context<'_>) {
    for query in queries(object) {
        let found = query.parsed.expr().and_then(|expr| match expr.selectors().as_slice() {
            [only] => {
                let metric = only.name.as_deref()?;
                let (_, label) = PROXIES.iter().find(|(start, _)| metric.starts_with(start))?;
                let selects = only.matchers.iter().any(|m| {
                    !matches!(m.label.as_str(), "cluster" | "prometheus")
                        && !OF_REQUESTS.contains(&m.label.as_str())
                });
                (!selects).then_some((metric, label))
            }
            _ => None,
        });
        let Some((metric, label)) = found else { continue };
        // Several that scale with one query do so on purpose.
        let mut others = ctx.cluster().of(Kind::SCALED_OBJECT).filter(|other| other.name() != object.name());
        if others.any(|other| queries(other).iter().any(|one| one.text == query.text)) {
            continue;
        }
        let metric = ellipsize(metric);
        ctx.report(
            &query.node(object),
            format!("`{metric}` counts the requests of every service behind the proxy"),
        )
        .help(format!("add a matcher that selects the service, such as `{label}=\"…\"`"));
    }
}

/// The names of the External metrics of an HPA that are the sum over all pods of a model server, as they have no selector.
fn sums(hpa: &Object) -> impl Iterator<Item = Node<'_>> {
    let metrics = hpa
        .root()
        .items_at(&["spec", "metrics"])
        .filter(|metric| metric.get("type").text() == Some("External"));
    metrics.map(|metric| metric.path(&["external", "metric"])).filter_map(|metric| {
        let is_whole = metric.get("selector").is_absent() && !metric.has_unknown();
        is_whole.then(|| metric.get("name"))
    })
}

/// Two HPAs of a namespace that read one metric of their servers without a selector get one value.
fn of_hpa(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let workload = target(object, ctx)?;
    for name in sums(object) {
        let Some(text) = name.text() else { continue };
        let Some(server) = Server::of_metric(text).filter(|server| runs(workload, server, likely_server_of))
        else {
            continue;
        };
        let mut others =
            ctx.cluster().in_namespace(Kind::HPA, object.namespace_or_default()).filter(|other| {
                is_another(object, other)
                    && ctx.cluster().surely_pairs(object, other)
                    && sums(other).any(|other| other.text() == Some(text))
            });
        let Some(other) = others.find_map(|other| {
            let other = target(other, ctx)?;
            (is_another(workload, other)
                && runs(other, server, likely_server_of)
                && !are_versions(workload, other))
            .then_some(other)
        }) else {
            continue;
        };
        let message = format!(
            "`{}` without a selector also counts the pods of `{}`",
            ellipsize(text),
            other.display_name()
        );
        ctx.report(&name, message)
            .help("write a `selector` beside `name`, with a label that the series of one server have")
            .related(other, &other.path(&["metadata", "name"]), "its HPA has the same metric");
    }
    None
}

/// Whether a selector has a matcher that may select among the pods of a cluster.
fn narrows(selector: &Selector) -> bool {
    selector.matchers.iter().any(|m| !matches!(m.label.as_str(), "cluster" | "prometheus"))
}

/// Whether all matchers certainly select the series of a workload's pods as well. A matcher on other labels, such as the
/// name of the model, selects on purpose.
fn selects(selector: &Selector, workload: &Object, ctx: &Context<'_>) -> bool {
    let scrape =
        std::cell::LazyCell::new(|| scrapes_of(workload, ctx).and_then(|all| all.into_iter().next()));
    let value = |label: &str| -> Option<String> {
        match label {
            "job" => scrape.as_ref()?.value("job").map(str::to_owned),
            _ => value_of_pods(label, workload),
        }
    };
    selector.matchers.iter().all(|matcher| {
        matches!(matcher.label.as_str(), "cluster" | "prometheus")
            || value(&matcher.label).is_some_and(|value| holds(matcher, &value) == Some(true))
    })
}

/// Metrics that the libraries of many programs export under one name.
const COMMON: [&str; 8] = [
    "http_requests_total",
    "http_request_duration_seconds_count",
    "http_request_duration_seconds_bucket",
    "http_server_requests_seconds_count",
    "http_server_request_duration_seconds_count",
    "http_requests_in_flight",
    "grpc_server_handled_total",
    "grpc_server_started_total",
];

/// The target of another ScaledObject with the same query, which reads a common metric without a matcher: it is the sum over
/// the pods of both.
fn other_with_query<'a>(
    object: &Object,
    query: &Query,
    selector: &Selector,
    ctx: &Context<'a>,
) -> Option<&'a Object> {
    if narrows(selector) || !COMMON.contains(&selector.name.as_deref()?) {
        return None;
    }
    let text = |query: &Query| query.text.split_whitespace().collect::<String>();
    let own = target(object, ctx)?;
    let mut others = ctx.cluster().of(Kind::SCALED_OBJECT).filter(|other| {
        is_another(object, other)
            && ctx.cluster().likely_pairs(object, other)
            && queries(other).iter().any(|one| text(one) == text(query))
    });
    let other = others.find_map(|other| target(other, ctx).filter(|other| is_another(own, other)))?;
    (!are_versions(own, other)).then_some(other)
}

/// Whether two objects of a kind are not versions of one.
fn is_another(a: &Object, b: &Object) -> bool {
    (a.namespace_or_default(), a.name()) != (b.namespace_or_default(), b.name())
}

/// Another workload that is applied with the target, runs the same server, and is scraped as far as monitors show.
fn other_server(
    workload: &Object,
    server: &Server,
    selector: &Selector,
    ctx: &Context<'_>,
) -> Option<Object> {
    const KINDS: [Kind; 3] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::LEADER_WORKER_SET];
    let narrows = narrows(selector);
    let cluster = ctx.cluster();
    let servers = cluster.satisfying::<ModelServers>();
    let found = servers.iter().find(|ObjectKey(other)| {
        KINDS.iter().any(|kind| other.is(*kind))
            && is_another(workload, other)
            && !other.is_partial()
            && crate::workload::template::replicas(other) != Some(0)
            && runs(other, server, likely_server_of)
            && (!narrows || selects(selector, other, ctx) && !are_versions(workload, other))
            && cluster.likely_pairs(workload, other)
            && ctx.pairs_with(other)
            && may_be_scraped(other, ctx)
    });
    found.map(|ObjectKey(other)| other.clone())
}

/// Whether a monitor of the set scrapes the pods of a workload; true without monitors, because annotations or another
/// repository may.
fn may_be_scraped(workload: &Object, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let monitors: Vec<&Object> = MONITORS
        .into_iter()
        .flat_map(|kind| cluster.of(kind).collect::<Vec<_>>())
        .filter(|monitor| ctx.pairs_with(monitor))
        .collect();
    let templates = templates(workload);
    let selects = |monitor: &&Object| {
        let wanted = monitor.path(&["spec", "selector"]);
        if is_of_pods(monitor) {
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
