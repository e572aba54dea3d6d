//! An autoscaler waits for more than its pods can ever report.
//!
//! # Why
//! A utilization is a share of the requests, and no container uses more than its limit: above it, the kernel
//! throttles the CPU of a container and ends one that takes more memory. A target beyond the limits is never
//! reached, so that this metric adds no replica, however high the load is.
//!
//! The same holds for the number of requests that a model server works on, which its own option bounds:
//! `--max-num-seqs` of vLLM, `--max-running-requests` of SGLang, `--parallel` of llama.cpp. With a target
//! of that number or more for each pod, requests wait and no pod is added. Servers with data-parallel ranks
//! are left alone: they have the bound once for each rank.
//!
//! # Fix
//! Write a target that is below the limits, or raise the limits. The HPA acts at 10 % above its target. For
//! a model server read the requests that wait, or write a target below its bound.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: tokenizer, namespace: serving}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: tokenizer}
//!    minReplicas: 2
//!    maxReplicas: 9
//!    metrics:
//!      - type: Resource
//!        resource:
//!          name: memory
//! -        target: {type: Utilization, averageUtilization: 120} # <-
//! +        target: {type: Utilization, averageUtilization: 80}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: tokenizer, namespace: serving}
//!  spec:
//!    selector: {matchLabels: {app: tokenizer}}
//!    template:
//!      metadata: {labels: {app: tokenizer}}
//!      spec:
//!        containers:
//!          - name: tokenizer
//!            image: "example.com/tokenizer:1.0.0"
//!            resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>
//! - <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#how-pods-with-resource-limits-are-run>

use crate::cluster::views::as_target;
use crate::keda::resource_metrics::{Utilization, utilizations};
use crate::promql::Query;
use crate::promql::expr::Expr;
use crate::rules::autoscaling::scale_target::target;
use crate::rules::prelude::*;

pub(super) const READS: &[Kind] = kinds![SCALABLE_KINDS, [Kind::VPA, Kind::NAMESPACE, Kind::LIMIT_RANGE]];

pub(crate) static RULE: Rule = Rule {
    id: "utilization-unreachable",
    kinds: &[Kind::HPA, Kind::SCALED_OBJECT],
    reads: READS,
    docs: docs(include_str!("utilization_unreachable.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    requests(object, ctx);
    let metrics = utilizations(object);
    // Requests are rarely above the limits of the containers beside them.
    if !metrics.iter().any(|metric| metric.percent.is_some_and(|percent| percent > 100)) {
        return None;
    }
    let (workload, template) = with_known_resources(object, ctx)?;
    let namespace = object.namespace_or_default();
    for metric in metrics {
        // A sidecar of a webhook has limits of its own.
        if metric.container.is_none() && may_be_injected(&template, namespace, ctx) {
            continue;
        }
        report(object, workload, &template, &metric, ctx);
    }
    None
}

/// The requests that a server works on, the options that bound them, and the metric of those that wait. Names of metrics have `_` in the
/// place of `:` (`metrics/loggers.py` of vLLM 0.6 to 0.19, `metrics_collector` of SGLang 0.4 to 0.5, `tools/server` of llama.cpp).
const RUNNING: [(ServerId, &str, &[&str], &str); 3] = [
    (ServerId::Vllm, "vllm_num_requests_running", &["max-num-seqs"], "vllm:num_requests_waiting"),
    (ServerId::Sglang, "sglang_num_running_reqs", &["max-running-requests"], "sglang:num_queue_reqs"),
    (
        ServerId::LlamaCpp,
        "llamacpp_requests_processing",
        &["parallel", "np", "n-parallel"],
        "llamacpp:requests_deferred",
    ),
];

/// Reports a target for each pod that is no less than the requests which its server takes at once.
fn requests(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let wanted: Vec<(String, Node<'_>)> =
        if object.is(Kind::HPA) { targets_of_hpa(object) } else { targets_of_triggers(object) };
    let is_running = |(name, _): &(String, Node<'_>)| RUNNING.iter().any(|(_, metric, ..)| name == metric);
    if !wanted.iter().any(is_running) || object.may_lack_fields() {
        return None;
    }
    let workload = target(object, ctx).filter(|workload| !workload.may_lack_fields())?;
    let templates = templates(workload);
    let [template] = templates.as_slice() else { return None };
    let mut launches =
        template.containers().filter_map(|container| Some((Launch::of(&container)?, container)));
    let ((launch, container), None) = (launches.next()?, launches.next()) else { return None };
    let (_, running, options, waiting) = RUNNING.iter().find(|(id, ..)| launch.program.is(*id))?;
    let OptionValue::Text(bound, node) = launch.setting(&container, options) else { return None };
    let bound: i64 = bound.parse().ok()?;
    if launch.is_data_parallel() || launch.may_have_more_options() || bound < 1 {
        return None;
    }
    for (_, place) in wanted.iter().filter(|(name, _)| name == running) {
        let per_pod = Quantity::at(place).filter(|target| target.milli() >= i128::from(bound) * 1000);
        let Some(per_pod) = per_pod else { continue };
        let requests = if bound == 1 { "request" } else { "requests" };
        let message = format!(
            "a pod of {} runs at most {bound} {requests} at once: the target of {} is never passed",
            launch.program.name(),
            per_pod.milli() / 1000
        );
        let lower = if bound > 1 { format!(", or write a target below {bound}") } else { String::new() };
        ctx.report(place, message).help(format!("read `{waiting}`{lower}")).related(
            workload,
            &node,
            "the bound",
        );
    }
    None
}

/// The metrics of an HPA that have a target for each pod, and these targets.
fn targets_of_hpa<'a>(object: &'a Object) -> Vec<(String, Node<'a>)> {
    let of = |entry: Node<'a>| {
        let source = ["pods", "external"].map(|source| entry.get(source)).into_iter().find(Node::is_set)?;
        let name = source.path(&["metric", "name"]).text()?.replace(':', "_");
        Some((name, source.path(&["target", "averageValue"])))
    };
    object.path(&["spec", "metrics"]).items().filter_map(of).collect()
}

/// The metrics that triggers read with a threshold for each pod: a series, or the sum of series, and nothing else.
fn targets_of_triggers<'a>(object: &'a Object) -> Vec<(String, Node<'a>)> {
    let of = |query: &Query| -> Option<(String, Node<'a>)> {
        let plain = match query.parsed.expr()? {
            Expr::Aggregate(aggregate) if aggregate.op == "sum" => &aggregate.expr,
            expr => expr,
        };
        let Expr::Selector(selector) = plain else { return None };
        let entry = query.entry(object);
        let is_each = matches!(entry.get("metricType").text(), None | Some("AverageValue"));
        let name = selector.name.as_deref()?.replace(':', "_");
        (is_each && !entry.get("metricType").is_unknown())
            .then(|| (name, entry.path(&["metadata", "threshold"])))
    };
    queries(object).iter().filter_map(of).collect()
}

/// The target of an autoscaler and the template of its pods, if nothing changes the requests and limits that are written.
pub(super) fn with_known_resources<'a>(
    object: &Object,
    ctx: &Context<'a>,
) -> Option<(&'a Object, Template<'a>)> {
    let workload = target(object, ctx)?;
    if object.may_lack_fields() || workload.may_lack_fields() {
        return None;
    }
    let mut templates = templates(workload).into_iter();
    let (template, None) = (templates.next()?, templates.next()) else { return None };
    let namespace = object.namespace_or_default();
    let changes = ctx.cluster().in_namespace(Kind::LIMIT_RANGE, namespace).next().is_some()
        || !template.spec.get("resources").is_absent()
        || has_vpa(workload, ctx);
    (!changes).then_some((workload, template))
}

/// Whether a VPA may change the requests and limits of a workload.
fn has_vpa(workload: &Object, ctx: &Context<'_>) -> bool {
    let (namespace, kind, name) = &*as_target(workload);
    ctx.cluster().in_namespace(Kind::VPA, namespace).any(|vpa| {
        let target = vpa.path(&["spec", "targetRef"]);
        let is_kind = target.get("kind").text().is_none_or(|own| kind.ends_with(own));
        is_kind && target.get("name").text().is_none_or(|own| own == name)
    })
}

/// Whether labels or annotations of the pods or of their namespace ask for a sidecar.
pub(super) fn may_be_injected(template: &Template<'_>, namespace: &str, ctx: &Context<'_>) -> bool {
    let asks = |key: &str| {
        ["inject", "istio.io", "linkerd.io", "dapr.io", "kuma.io"].iter().any(|word| key.contains(word))
    };
    let asked = |metadata: &Node<'_>| {
        let mut maps = ["labels", "annotations"].into_iter();
        maps.any(|map| metadata.get(map).entries().iter().any(|(key, _)| asks(key)))
    };
    let namespaces = ctx.cluster().all("", "Namespace", "default", namespace);
    asked(&template.metadata) || namespaces.iter().any(|namespace| asked(&namespace.get("metadata")))
}

/// The containers of a pod that a metric adds up, all or one by its name: those that run beside each other.
pub(super) fn counted<'a>(template: &Template<'a>, name: Option<&str>) -> Vec<Node<'a>> {
    let all = template.spec.get("containers").items().chain(template.sidecars());
    let is_counted =
        |container: &Node<'a>| name.is_none_or(|name| container.get("name").text() == Some(name));
    all.filter(is_counted).collect()
}

fn sum(containers: &[Node<'_>], list: &str, resource: &str) -> Option<i128> {
    let amounts = containers.iter().map(|container| {
        let amount = Quantity::at(&container.path(&["resources", list, resource]))?;
        Some(amount.nano()).filter(|amount| *amount > 0)
    });
    amounts.sum()
}

fn report(
    object: &Object,
    workload: &Object,
    template: &Template<'_>,
    metric: &Utilization<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let containers = counted(template, metric.container);
    let percent = i128::from(metric.percent?);
    let resource = metric.resource;
    let (requests, limits) = (sum(&containers, "requests", resource)?, sum(&containers, "limits", resource)?);
    if requests == 0 || limits.checked_mul(100)? >= requests.checked_mul(percent)? {
        return None;
    }
    let share = limits * 100 / requests;
    let (limit, request) = if containers.len() == 1 { ("limit", "request") } else { ("limits", "requests") };
    let what = if resource == "cpu" { "throttled" } else { "ended" };
    let message = format!(
        "{percent} % of the `{resource}` {request} is never reached: pods are {what} at the {limit}, {share} % of it"
    );
    let finding = ctx.report(&metric.node, message);
    let most = share * 10 / 11;
    if share < 100 {
        finding.help(format!("raise the {limit} to the {request} or above"));
    } else {
        let who = if object.is(Kind::HPA) { "the HPA" } else { "KEDA's HPA" };
        finding
            .help(format!("write {most} or less, or raise the {limit}: {who} acts at 10 % above its target"));
    }
    let place = containers.first()?.path(&["resources", "limits", resource]);
    finding.related(workload, &place, format!("the {limit}"));
    None
}
