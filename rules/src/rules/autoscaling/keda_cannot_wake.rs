//! A ScaledObject scales to zero, and no trigger can scale it up again.
//!
//! # Why
//! `cpu` and `memory` are measured on running pods: with zero replicas there is nothing to measure, so they
//! neither take a workload to zero nor bring it back. The minimum is 0 where it is not written. KEDA's
//! admission rejects a ScaledObject on a Deployment or a StatefulSet that has no other trigger and a
//! minimum of 0.
//!
//! With another target, such as a Rollout, or with `idleReplicaCount: 0`, KEDA accepts it and never goes to zero.
//!
//! The same is true of a query on metrics that only the scaled pods export, such as those of vLLM, or that
//! selects those pods by name, by their label `app` or by their Service, and of a `metrics-api` trigger
//! that asks the Service of the target: without pods there is no answer, KEDA reads 0, and nothing starts.
//! That is an error where the target is known to be that server, and a warning elsewhere. It is not
//! reported where another workload that the query may read runs that server and is not scaled to zero: its
//! load starts the target. A query that gives a value for an absent series, such as `… or vector(1)`, is
//! not reported, nor are metrics of routers and gateways.
//!
//! The use of CPU or memory by the pods is as absent where another service keeps it: Container Insights of
//! CloudWatch, Datadog, or the metrics of GKE.
//!
//! A trigger on a Redis stream with a `consumerGroup` counts pending entries without `lagCount`: those that a
//! consumer has read and not yet acknowledged. New entries are pending for no one while there is no consumer.
//! Another consumer of the group may leave some: nothing is said where another workload of the namespace names
//! the stream or the group.
//!
//! A `fallback` starts pods where a trigger fails without them, but not with KEDA 2.17 and 2.18, which leave it
//! to the HPA: that does nothing at zero replicas.
//!
//! # Fix
//! Write `minReplicaCount: 1` or more, or add a trigger that is there without pods, such as a queue,
//! `cron`, a metric of the gateway in front, or KEDA's HTTP add-on.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: router}
//! -  minReplicaCount: 0 # <-
//! +  minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: cpu
//!        metricType: Utilization
//!        metadata: {value: "70"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://keda.sh/docs/latest/concepts/admission-webhooks/>

use crate::cluster::views::as_target;
use crate::keda::is_redis_stream;
use crate::keda::paused::is_on;
use crate::keda::query::{Series, reads};
use crate::keda::value::{boolean, whole};
use crate::rules::autoscaling::ModelServers;
use crate::rules::autoscaling::scale_target::{rests_at_zero, target, target_name};
use crate::rules::class_evidence::CLASSED_TARGETS;
use crate::rules::partners::{around_scaler, asking, autoscalers, service_asked};
use crate::rules::prelude::*;
use crate::workload::command::command_and_args;
use crate::workload::server::{is_beside_server, likely_server_of, runs};
use crate::workload::template::replicas;

const READS: &[Kind] = kinds![[Kind::SCALED_OBJECT, Kind::HPA, Kind::SERVICE], WORKLOAD_KINDS];

/// What a rule reads that asks this one about model servers.
pub(super) const READS_FOR_SERVERS: &[Kind] =
    kinds![CLASSED_TARGETS, [Kind::SCALED_OBJECT, Kind::HPA, Kind::SERVICE]];

pub(crate) static RULE: Rule = Rule {
    id: "keda-cannot-wake",
    kinds: &[Kind::SCALED_OBJECT],
    reads: READS,
    rejected_by: &[Authority::KedaAdmission],
    fix: Some(Safety::Unsafe),
    pairs: &[
        Pair { with: SCALABLE_KINDS, partners: autoscalers, beside: around },
        Pair { with: &[Kind::SERVICE], partners: asking, beside: around },
    ],
    docs: docs(include_str!("keda_cannot_wake.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (field, all) = resting_at_zero(object)?;
    if !all.iter().all(Trigger::is_resource) {
        return report_dead_signals(object, &field, ctx);
    }
    if !has_resource_triggers_only(object) {
        return never_at_zero(object, &field, ctx);
    }
    ctx.report(
        &field,
        "the workload can never scale up from 0: `cpu` and `memory` triggers need running pods",
    )
    .help("write `minReplicaCount: 1`, or add a trigger that works at zero replicas")
    .fix(Fix::unsafe_("keep one replica").set(&field, json!(1)));
    None
}

/// Reports a zero that is never reached: where all triggers are `cpu` and `memory`, KEDA counts the object as active
/// (`getScaledObjectState` in `pkg/scaling/scale_handler.go`), and its admission looks at two kinds of targets alone.
fn never_at_zero(object: &Object, field: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kind = object.path(&["spec", "scaleTargetRef", "kind"]);
    if !field.is_set() || kind.is_unknown() || object.may_lack_fields() {
        return None;
    }
    let name = target_name(object);
    ctx.report(field, format!("`{name}` never scales to 0: with `cpu` and `memory` alone KEDA keeps a pod"))
        .rejected_by(None)
        .severity(Severity::Warning)
        .help("add a trigger that knows of load without pods, such as a queue; or write the number that is meant");
    None
}

/// The field by which a ScaledObject rests at zero replicas, and its triggers.
fn resting_at_zero(object: &Object) -> Option<(Node<'_>, Vec<Trigger<'_>>)> {
    let spec = object.get("spec");
    let min = spec.get("minReplicaCount");
    let idle = spec.get("idleReplicaCount");
    let zero = !min.is_unknown() && (!min.is_set() || min.int() == Some(0));
    let list = spec.get("triggers");
    if !(zero || idle.int() == Some(0)) || !list.is_sequence() || !spec.get("scaleTargetRef").is_mapping() {
        return None;
    }
    let all: Vec<Trigger<'_>> = triggers(object).collect();
    // With a maximum of 0 it is switched off.
    if all.is_empty() || spec.get("maxReplicaCount").int() == Some(0) {
        return None;
    }
    Some((if zero { min } else { idle }, all))
}

/// Whether this rule reports that nothing can start a ScaledObject's target. Other rules about its minimum then have nothing to add.
pub(super) fn is_reported(object: &Object, ctx: &Context<'_>) -> bool {
    ctx.is_rule_enabled(RULE.id)
        && resting_at_zero(object).is_some()
        && (has_resource_triggers_only(object)
            || dead_signals(object, starts_pods(object, ctx), ctx).is_some())
}

/// Whether the fallback of a ScaledObject starts its target each time that it rests at zero: its triggers fail without pods.
pub(super) fn is_started_by_fallback(object: &Object, ctx: &Context<'_>) -> bool {
    let fails = |trigger: Trigger<'_>| match trigger.kind() {
        Some("prometheus") => {
            trigger.metadata().get("ignoreNullValues").text().and_then(boolean) == Some(false)
        }
        kind => kind == Some("metrics-api"),
    };
    let replicas = object.path(&["spec", "fallback", "replicas"]).int();
    replicas.is_some_and(|replicas| replicas > 0)
        && starts_pods(object, ctx)
        && triggers(object).any(fails)
        && resting_at_zero(object).is_some()
        && dead_signals(object, false, ctx).is_some_and(|signals| signals.iter().all(|one| one.certain))
}

/// Whether KEDA has a fallback that starts pods where there are none. KEDA 2.17 and 2.18 leave that to the HPA, which does nothing at
/// zero replicas (`scale_scaledobjects.go`); from 2.19 on a trigger in its fallback is active (`getScalerState`).
fn starts_pods(object: &Object, ctx: &Context<'_>) -> bool {
    let fallback = object.path(&["spec", "fallback"]);
    (fallback.is_set() || fallback.is_unknown()) && wakes_by_fallback(ctx)
}

pub(super) fn wakes_by_fallback(ctx: &Context<'_>) -> bool {
    !(Version::new(2, 17)..Version::new(2, 19)).contains(&ctx.platform().keda)
}

/// Whether KEDA rejects the object because all triggers are `cpu` and `memory` and its minimum is 0.
fn has_resource_triggers_only(object: &Object) -> bool {
    let rests = resting_at_zero(object).is_some_and(|(field, all)| {
        let is_minimum = field.pointer().steps().last().is_some_and(|step| step == "minReplicaCount");
        is_minimum && all.iter().all(Trigger::is_resource)
    });
    // KEDA reads only these two kinds, in this version of their group.
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let word = |name: &str, default: &'static str| match reference.get(name).text() {
        Some(text) if !text.is_empty() => Some(text.to_owned()),
        _ if reference.get(name).is_unknown() => None,
        _ => Some(default.to_owned()),
    };
    let kind = word("kind", "Deployment");
    rests
        && word("apiVersion", "apps/v1").as_deref() == Some("apps/v1")
        && matches!(kind.as_deref(), Some("Deployment" | "StatefulSet"))
}

/// A source of a trigger that exists only while the target has pods.
struct DeadSignal<'a> {
    /// The description for the message.
    what: String,
    /// Whether the input shows that the target is the only source.
    certain: bool,
    /// The Service of the target.
    service: Option<&'a Object>,
    /// What to write in the trigger, if it can count something else.
    instead: Option<&'static str>,
}

/// What the triggers read, where all of it exists only while the target has pods. `saved`: whether a fallback starts pods.
fn dead_signals<'a>(object: &Object, saved: bool, ctx: &Context<'a>) -> Option<Vec<DeadSignal<'a>>> {
    if uses_modifiers(object)? || is_on(object, "force-activation")? {
        return None;
    }
    let all = triggers(object).filter(|trigger: &Trigger<'_>| !trigger.is_resource());
    let signals: Option<Vec<DeadSignal<'a>>> =
        all.map(|trigger| dead_signal(object, &trigger, saved, ctx)).collect();
    signals.filter(|signals| !signals.is_empty())
}

/// Triggers that read what the target itself exports.
fn report_dead_signals(object: &Object, field: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let signals = dead_signals(object, starts_pods(object, ctx), ctx)?;
    let what = &signals.first()?.what;
    let certain = signals.iter().all(|signal| signal.certain);
    let name = target_name(object);
    let workload = target(object, ctx);
    let finding =
        ctx.report(field, format!("`{name}` can never scale up from 0: {what} only while it has pods"));
    finding
        .help(signals.iter().find_map(|signal| signal.instead).unwrap_or(
            "write `minReplicaCount: 1`, or add a trigger that works at zero replicas, such as a gateway's metric",
        ))
        .rejected_by(None)
        .severity(if certain { Severity::Error } else { Severity::Warning });
    if let Some(workload) = workload {
        finding.related(workload, &workload.path(&["metadata", "name"]), "it scales this");
    }
    if let Some(service) = signals.iter().find_map(|signal| signal.service) {
        finding.related(service, &service.path(&["metadata", "name"]), "the trigger asks this Service");
    }
    if field.pointer().steps().last().is_some_and(|step| step == "minReplicaCount") {
        finding.fix(Fix::unsafe_("keep one replica").set(field, json!(1)));
    }
    None
}

fn dead_signal<'a>(
    object: &Object,
    trigger: &Trigger<'_>,
    saved: bool,
    ctx: &Context<'a>,
) -> Option<DeadSignal<'a>> {
    match trigger.kind()? {
        "prometheus" => {
            // With a fallback KEDA starts pods when a trigger fails.
            let ignore = trigger.metadata().get("ignoreNullValues");
            let fails = ignore.is_unknown() || ignore.text().and_then(boolean) == Some(false);
            if saved && fails {
                return None;
            }
            own_metrics(object, trigger.metadata().get("query").text()?, ctx)
        }
        "metrics-api" if !saved => own_service(object, trigger.metadata().get("url").text()?, ctx),
        "aws-cloudwatch" | "datadog" | "gcp-stackdriver" if !saved => own_use(object, trigger),
        kind if !saved && is_redis_stream(kind) => pending_entries(object, trigger, ctx),
        _ => None,
    }
}

/// The use of CPU, memory or devices by the pods of the target, as a service of metrics keeps it: of Container Insights in CloudWatch,
/// the agent of Datadog, or GKE. A value that KEDA takes where there is none may start pods.
fn own_use<'a>(object: &Object, trigger: &Trigger<'_>) -> Option<DeadSignal<'a>> {
    let name = object.path(&["spec", "scaleTargetRef", "name"]).text()?;
    let metadata = trigger.metadata();
    let is_nothing = |field: &str| {
        let value = metadata.get(field);
        value.is_absent() || value.string_or_number().is_some_and(|text| text.parse() == Ok(0.0))
    };
    // The name of the workload, as a whole or before what its controller adds.
    let is_own =
        |text: &str| text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("-*"));
    let metric = match trigger.kind()? {
        "aws-cloudwatch" => {
            let parts = |field: &str| metadata.get(field).text().map(|text| text.split([';', ',']));
            let mut dimensions = parts("dimensionName")?.zip(parts("dimensionValue")?);
            let metric = metadata.get("metricName").text()?;
            let is_of_pods = ["pod_", "container_"].iter().any(|start| metric.starts_with(start));
            let counts = metadata.get("namespace").text() == Some("ContainerInsights")
                && metadata.get("expression").is_absent()
                && is_of_pods
                && is_nothing("minMetricValue")
                && dimensions.any(|(label, value)| label.trim() == "PodName" && is_own(value.trim()));
            counts.then_some(metric)?
        }
        "datadog" => {
            const LABELS: [&str; 3] = ["kube_deployment:", "kube_stateful_set:", "pod_name:"];
            let query = metadata.get("query").text()?;
            let (metric, rest) = query.split_once(':')?.1.split_once('{')?;
            let mut labels = rest.split([',', '}', ' ']);
            let counts = ["container.", "kubernetes."].iter().any(|start| metric.starts_with(start))
                && query.matches('{').count() == 1
                && is_nothing("metricUnavailableValue")
                && labels.any(|label| LABELS.iter().any(|key| label.strip_prefix(key).is_some_and(is_own)));
            counts.then_some(metric)?
        }
        _ => {
            let filter = metadata.get("filter").text()?;
            let quoted: Vec<&str> = filter.split('"').skip(1).step_by(2).collect();
            let metric = quoted.iter().find(|text| {
                ["kubernetes.io/container/", "kubernetes.io/pod/"].iter().any(|start| text.starts_with(start))
            })?;
            let labels = ["pod_name", "container_name", "top_level_controller_name"];
            let is_own =
                |text: &&str| is_own(text) || text.strip_prefix(name).is_some_and(|rest| rest == "-.*");
            let counts = mentions(filter, &labels) && is_nothing("valueIfNull") && quoted.iter().any(is_own);
            counts.then_some(*metric)?
        }
    };
    Some(DeadSignal {
        what: format!("`{}` is measured", ellipsize(metric)),
        certain: false,
        service: None,
        instead: None,
    })
}

/// A query on series that only the target exports.
fn own_metrics<'a>(object: &Object, query: &str, ctx: &Context<'a>) -> Option<DeadSignal<'a>> {
    let reads = reads(query)?;
    if reads.fills_gaps || reads.series.is_empty() {
        return None;
    }
    let name = object.path(&["spec", "scaleTargetRef", "name"]).text()?;
    let workload = target(object, ctx);
    let mut certain = true;
    for series in &reads.series {
        if let Some(server) = Server::of_metric(series.name) {
            match workload {
                // Another workload scales with the load of a model server.
                Some(workload) if !runs(workload, server, likely_server_of) => return None,
                Some(workload) => certain &= runs(workload, server, server_of),
                None if is_beside_server(name) => return None,
                None => certain &= server.rest_of(name).is_some_and(is_model),
            }
            if is_exported_elsewhere(object, server, series, ctx) {
                return None;
            }
        } else if series.selects_pods_of(name) && !series.name.starts_with("kube_")
            || names_target(object, workload, series, ctx)
        {
            certain = false;
        } else {
            return None;
        }
    }
    let metric = ellipsize(reads.series[0].name);
    Some(DeadSignal { what: format!("`{metric}` exists"), certain, service: None, instead: None })
}

/// Parts of the names of metrics that something in front of the target or around it exports, with labels of the target.
const OF_OTHERS: [&str; 27] = [
    "kube_",
    "container_",
    "node_",
    "aws_",
    "probe_",
    "keda_",
    "istio_",
    "envoy_",
    "linkerd",
    "nginx_ingress",
    "nginxplus",
    "traefik_",
    "haproxy_",
    "kong_",
    "contour_",
    "apisix_",
    "cilium_",
    "knative",
    "activator_",
    "interceptor",
    "gateway",
    "ingress",
    "router",
    "proxy",
    "queue",
    "kafka_",
    "upstream",
];

/// Whether a query selects the series that the pods of the target export, by a label that its scraping gives them: the name of the
/// workload, its label `app`, or its only Service, which the Prometheus Operator makes the `job`.
fn names_target(object: &Object, workload: Option<&Object>, series: &Series<'_>, ctx: &Context<'_>) -> bool {
    const APP: [&str; 4] = ["app", "app_kubernetes_io_name", "deployment", "app_name"];
    const SERVICE: [&str; 2] = ["job", "service"];
    // Linkerd's proxies have metrics with these names, and labels of both sides.
    if mentions(series.name, &OF_OTHERS) || ["request_total", "response_total"].contains(&series.name) {
        return false;
    }
    let target = object.path(&["spec", "scaleTargetRef", "name"]).text().unwrap_or_default();
    let templates = workload.map(templates).unwrap_or_default();
    let is_label = |value: &str| {
        templates.iter().any(|template| {
            let labels = template.labels();
            let own = labels.iter().filter(|(key, _)| matches!(*key, "app" | "app.kubernetes.io/name"));
            own.into_iter().any(|(_, own)| own.text() == Some(value))
        })
    };
    let is_service = |value: &str| {
        let Some(workload) = workload else { return false };
        let views = ctx.cluster().views();
        let services =
            templates.iter().flat_map(|one| views.services_of(workload.namespace_or_default(), one));
        let mut named = services.filter(|service| service.name() == value && ctx.pairs_with(service));
        named.next().is_some_and(|service| views.selected_by_service(service).0.len() == 1)
    };
    series.matchers.iter().any(|(label, operator, value)| {
        *operator == "="
            && (APP.contains(label) && (*value == target || is_label(value))
                || SERVICE.contains(label) && is_service(value))
    })
}

/// A count of the entries that consumers have read and not acknowledged (`XPENDING`). A `lagCount` of 0 is as good as absent
/// from KEDA 2.16 on (`redis_streams_scaler.go`).
fn pending_entries<'a>(object: &Object, trigger: &Trigger<'_>, ctx: &Context<'a>) -> Option<DeadSignal<'a>> {
    let metadata = trigger.metadata();
    let group = metadata.get("consumerGroup").text().filter(|group| !group.is_empty())?;
    let lag = metadata.get("lagCount");
    let is_zero = || lag.text().and_then(whole) == Some(0) && ctx.platform().keda >= Version::new(2, 16);
    if lag.is_set() && !is_zero() {
        return None;
    }
    let stream = metadata.get("stream").text()?;
    if is_consumed_elsewhere(object, &[stream, group], ctx) {
        return None;
    }
    Some(DeadSignal {
        what: format!("entries of stream `{}` are pending", ellipsize(stream)),
        certain: false,
        service: None,
        instead: Some("set `lagCount` (Redis 7): it counts entries that no consumer has read"),
    })
}

/// Whether another workload of the namespace may read a stream: it has the name of the stream or of the consumer group, or
/// names one of them in its commands or its environment.
fn is_consumed_elsewhere(object: &Object, names: &[&str], ctx: &Context<'_>) -> bool {
    let target = object.path(&["spec", "scaleTargetRef", "name"]).text();
    let is_named =
        |node: Node<'_>| node.text().is_some_and(|text| names.iter().any(|one| text.contains(*one)));
    let names_one = |container: Node<'_>| {
        let mut words = command_and_args(&container);
        words.any(is_named) || container.get("env").items().any(|one| is_named(one.get("value")))
    };
    let namespace = object.namespace_or_default();
    let mut others = SCALABLE_KINDS.iter().flat_map(|kind| ctx.cluster().in_namespace(*kind, namespace));
    others.any(|other| {
        Some(other.name()) != target
            && ctx.pairs_with(other)
            && (names.contains(&other.name())
                || templates(other).iter().flat_map(Template::all_containers).any(names_one))
    })
}

/// Families of models. A target that is not in the input runs a server for sure where it is called after both, as in
/// `vllm-mistral`: programs beside a server have other words in their names.
const FAMILIES: [&str; 7] = ["llama", "mistral", "mixtral", "qwen", "gemma", "deepseek", "phi"];

fn is_model(name: &str) -> bool {
    FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether another workload that a query may read runs a server, and has pods without a request.
fn is_exported_elsewhere(object: &Object, server: &Server, series: &Series<'_>, ctx: &Context<'_>) -> bool {
    let name = object.path(&["spec", "scaleTargetRef", "name"]).text().unwrap_or_default();
    let is_of_namespace = |label: &str| label.ends_with("namespace");
    let names_target = |(label, operator, value): &(&str, &str, &str)| {
        *operator == "=" && *value == name && !is_of_namespace(label)
    };
    if series.selects_pods_of(name) || series.matchers.iter().any(names_target) {
        return false;
    }
    let namespace =
        series.matchers.iter().find(|(label, operator, _)| is_of_namespace(label) && *operator == "=");
    let is_target = |other: &Object| {
        other.name() == name && other.namespace_or_default() == object.namespace_or_default()
    };
    let servers = ctx.cluster().satisfying::<ModelServers>();
    servers.iter().any(|ObjectKey(other)| {
        namespace.is_none_or(|(_, _, value)| *value == other.namespace_or_default())
            && !is_target(other)
            && ctx.pairs_with(other)
            && is_up(other, ctx.cluster())
            && runs(other, server, likely_server_of)
    })
}

/// Whether a workload has pods without a request, as far as is known.
fn is_up(workload: &Object, cluster: &Cluster) -> bool {
    let target = as_target(workload);
    let mut scalers = cluster.views().scaled_objects_of(&target).iter();
    replicas(workload) != Some(0) && !scalers.any(|scaler| rests_at_zero(scaler) == Some(true))
}

/// What the rule reads for a ScaledObject: also the other servers, with their ScaledObjects.
fn around(object: &Object, scaler: &Object, cluster: &Cluster) -> Vec<Object> {
    let mut found = around_scaler(object, scaler, cluster);
    let reads_stream = triggers(scaler).any(|one| one.kind().is_some_and(is_redis_stream));
    if reads_stream {
        let namespace = scaler.namespace_or_default();
        let consumers = SCALABLE_KINDS.iter().flat_map(|kind| cluster.in_namespace(*kind, namespace));
        found.extend(consumers.cloned());
    }
    for ObjectKey(server) in cluster.satisfying::<ModelServers>().iter() {
        found.push(server.clone());
        found.extend_from_slice(cluster.views().scaled_objects_of(&as_target(server)));
    }
    found
}

fn own_service<'a>(object: &Object, url: &str, ctx: &Context<'a>) -> Option<DeadSignal<'a>> {
    let namespace = object.namespace_or_default();
    let service = service_asked(url, namespace)?;
    let what = || format!("`{}` answers", ellipsize(service));
    let name = object.path(&["spec", "scaleTargetRef", "name"]).text()?;
    match (ctx.partner(Kind::SERVICE, namespace, service), target(object, ctx)) {
        (Some(found), Some(workload)) => {
            let selector = found.path(&["spec", "selector"]).entries();
            let templates = templates(workload);
            let selected = templates.iter().any(|template| {
                let labels = template.labels();
                !selector.is_empty()
                    && selector.iter().all(|(key, wanted)| {
                        let found = labels.iter().find(|(label, _)| label == key);
                        found
                            .is_some_and(|(_, value)| value.text().is_some() && value.text() == wanted.text())
                    })
            });
            selected.then(|| DeadSignal {
                what: what(),
                certain: ctx.cluster().is_complete(),
                service: Some(found),
                instead: None,
            })
        }
        (None, _) if service == name => {
            Some(DeadSignal { what: what(), certain: false, service: None, instead: None })
        }
        _ => None,
    }
}
