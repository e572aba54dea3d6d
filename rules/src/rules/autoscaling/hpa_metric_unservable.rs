//! A HorizontalPodAutoscaler scales on a metric that nothing serves to it.
//!
//! # Why
//! `Resource` and `ContainerResource` metrics come from `metrics.k8s.io`, which has `cpu` and `memory` and
//! nothing else: an HPA on `nvidia.com/gpu` is accepted, and stays at FailedGetResourceMetric. Metrics that
//! are selected by `scaledobject.keda.sh/name` are served by KEDA under the names that it gives to its own
//! HPAs, such as `s0-prometheus`; KEDA answers no other name. prometheus-adapter serves the names that its
//! rules give, each to `External` metrics or to the others, and Datadog's Cluster Agent the query of a
//! DatadogMetric as `datadogmetric@NAMESPACE:NAME`. For a GPU workload it is also reported, as advice, that
//! `Pods`, `Object` and `External` metrics need an adapter that translates a query into that name.
//!
//! # Fix
//! Export GPU utilization with the DCGM exporter, and read it with a KEDA trigger of type `prometheus`, or
//! with an adapter as a `Pods` metric. Where a ScaledObject has the target, remove the HPA.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}
//!    minReplicas: 2
//!    maxReplicas: 8
//!    metrics:
//! -    - type: Resource
//! -      resource:
//! -        name: nvidia.com/gpu # <-
//! -        target: {type: Utilization, averageUtilization: 70}
//! +    - type: Pods
//! +      pods:
//! +        metric: {name: DCGM_FI_DEV_GPU_UTIL}
//! +        target: {type: AverageValue, averageValue: "70"}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#support-for-metrics-apis>
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/>
//! - <https://docs.datadoghq.com/containers/guide/cluster_agent_autoscaling_metrics/>

use crate::cluster::together::is_in_written_namespace;
use crate::cluster::versions::Fact;
use crate::facts::text::is_digits;
use crate::promql::adapter::{AdapterRules, adapter_rules};
use crate::rules::autoscaling::scale_target::target;
use crate::rules::prelude::*;
use crate::workload::charts::sources;

/// The targets, and the objects that show a metrics adapter.
const READS: [Kind; 9] = [
    Kind::DATADOG_METRIC,
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::REPLICA_SET,
    Kind::LEADER_WORKER_SET,
    Kind::ROLLOUT,
    Kind::HELM_RELEASE,
    Kind::ARGO_APPLICATION,
    Kind::CONFIG_MAP,
];

pub(crate) static RULE: Rule = Rule {
    id: "hpa-metric-unservable",
    kinds: &[Kind::HPA],
    reads: &READS,
    docs: docs(include_str!("hpa_metric_unservable.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

/// The label by which KEDA finds the ScaledObject of a metric.
const SCALED_OBJECT: &str = "scaledobject.keda.sh/name";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for metric in object.path(&["spec", "metrics"]).items() {
        match metric.get("type").text() {
            Some("Resource") => resource(&metric.path(&["resource", "name"]), ctx),
            Some("ContainerResource") => resource(&metric.path(&["containerResource", "name"]), ctx),
            Some("External") => {
                let metric = metric.path(&["external", "metric"]);
                keda(object, &metric, ctx)
                    .or_else(|| datadog(&metric.get("name"), ctx))
                    .or_else(|| served(object, &metric.get("name"), true, ctx));
            }
            Some("Pods") => _ = served(object, &metric.path(&["pods", "metric", "name"]), false, ctx),
            Some("Object") => _ = served(object, &metric.path(&["object", "metric", "name"]), false, ctx),
            _ => {}
        }
    }
    None
}

fn resource(name: &Node<'_>, ctx: &mut Context<'_>) {
    if let Some(text) = name.text().filter(|text| !matches!(*text, "cpu" | "memory" | "")) {
        let message =
            format!("`{}` cannot be measured: `metrics.k8s.io` has only `cpu` and `memory`", ellipsize(text));
        ctx.report(name, message).help("export the metric, and read it with KEDA or a metrics adapter");
    }
}

/// A metric of KEDA under a name that KEDA does not serve. `None` if it is not KEDA's.
fn keda(object: &Object, metric: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let labels = metric.path(&["selector", "matchLabels"]);
    let scaled = labels.get(SCALED_OBJECT);
    if !scaled.is_set() {
        return None;
    }
    let name = metric.get("name");
    let text = name.text()?;
    let index = text.strip_prefix('s').and_then(|rest| rest.split_once('-')).map(|(digits, _)| digits);
    let own = text == "composite-metric" || index.is_some_and(is_digits);
    if !own && !object.is_owned() {
        let message =
            format!("KEDA serves no metric `{}`: its names are such as `s0-prometheus`", ellipsize(text));
        ctx.report(&name, message).help("remove this HPA: KEDA makes one of its own for the ScaledObject");
    }
    Some(())
}

/// What a metric of Datadog's Cluster Agent begins with: `datadogmetric@NAMESPACE:NAME`.
const DATADOG: &str = "datadogmetric@";

/// A reference to a DatadogMetric that names no object, while the one that is meant is here. `None` if it is no such reference.
fn datadog(name: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let reference = name.text()?.strip_prefix(DATADOG)?;
    let Some((namespace, metric)) = reference.split_once(':') else {
        let message = format!("`{}` is not a reference to a DatadogMetric", ellipsize(reference));
        ctx.report(name, message)
            .help(format!("write `{DATADOG}NAMESPACE:NAME`"))
            .severity(Severity::Warning);
        return Some(());
    };
    let cluster = ctx.cluster();
    if cluster.has(Kind::DATADOG_METRIC, namespace, metric) {
        return Some(());
    }
    // The agent serves it, from an object elsewhere.
    let mut elsewhere =
        cluster.written_as(Kind::DATADOG_METRIC, metric).filter(|one| is_in_written_namespace(one));
    let found = elsewhere.next().filter(|found| elsewhere.next().is_none() && ctx.pairs_with(found));
    let Some(found) = found else { return Some(()) };
    let meant = format!("{DATADOG}{}:{}", found.namespace_or_default(), found.name());
    let message =
        format!("there is no DatadogMetric `{}` in namespace `{}`", ellipsize(metric), ellipsize(namespace));
    ctx.report(name, message)
        .help(format!("write `{}`", ellipsize(&meant)))
        .severity(Severity::Warning)
        .related(found, &found.path(&["metadata", "name"]), "the one that is meant");
    Some(())
}

/// The kinds of objects that show a metrics adapter.
const ADAPTERS: [Kind; 4] = [Kind::DEPLOYMENT, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION, Kind::CONFIG_MAP];

/// The objects that may be, or install, a metrics adapter.
struct MetricsAdapters;

impl Predicate for MetricsAdapters {
    const SLOT: QuerySlot = QuerySlot::MetricsAdapters;
    const KINDS: &'static [Kind] = &ADAPTERS;

    fn is_satisfied(object: &Object) -> bool {
        let spec = object.get("spec");
        let says = |node: Node<'_>| node.text().is_some_and(|text| text.contains("adapter"));
        if object.is(Kind::CONFIG_MAP) {
            let data = object.get("data").entries();
            return data
                .iter()
                .any(|(_, text)| text.raw_text().is_some_and(|text| text.contains("seriesQuery")));
        }
        if object.is(Kind::HELM_RELEASE) {
            return says(spec.path(&["chart", "spec", "chart"])) || says(spec.path(&["chartRef", "name"]));
        }
        if object.is(Kind::ARGO_APPLICATION) {
            return sources(&spec).any(|source| says(source.get("chart")));
        }
        object.name().contains("adapter")
    }
}

/// A metric that an adapter serves.
fn served(object: &Object, name: &Node<'_>, is_external: bool, ctx: &mut Context<'_>) -> Option<()> {
    by_rules(name, is_external, ctx).or_else(|| custom(object, name, ctx))
}

/// Reports a name that the rules of the adapter do not give. `None` if the rules are not in the input.
fn by_rules(name: &Node<'_>, is_external: bool, ctx: &mut Context<'_>) -> Option<()> {
    let text = name.text()?;
    let adapters = ctx.cluster().satisfying::<MetricsAdapters>();
    let found: Vec<(&Object, &AdapterRules)> = adapters
        .iter()
        .map(|ObjectKey(found)| found)
        .filter(|found| ctx.pairs_with(found))
        .filter_map(|found| Some((found, adapter_rules(found)?)))
        .collect();
    let (first, _) = *found.first()?;
    let rules = || found.iter().flat_map(|(_, all)| &all.rules);
    // A release without rules in its values has those of its chart, or of a ConfigMap elsewhere.
    let is_unclear =
        |found: &Object| CHART_KINDS.iter().any(|kind| found.is(*kind)) && adapter_rules(found).is_none();
    if rules().any(|rule| rule.name.is_none())
        || found.iter().any(|(_, all)| all.has_others)
        || adapters.iter().any(|ObjectKey(found)| is_unclear(found))
    {
        return Some(());
    }
    let gives = |external: bool| {
        rules().any(move |rule| rule.is_external == external && rule.name.as_deref() == Some(text))
    };
    if gives(is_external) {
        return Some(());
    }
    let (kind, list) = if is_external { ("`External`", "externalRules") } else { ("`Pods`", "rules") };
    let (message, help) = if gives(!is_external) {
        let message = format!("the adapter serves `{}`, but not to {kind} metrics", ellipsize(text));
        (message, format!("write the rule under `{list}`, or another `type` of metric"))
    } else if is_external {
        // Another server may have it.
        return Some(());
    } else {
        let names = rules().filter(|rule| !rule.is_external).filter_map(|rule| rule.name.as_deref());
        let names: Vec<&str> = names.collect();
        let near = nearest(text, names.iter().copied()).or_else(|| names.first().copied());
        let message = format!("the adapter serves no metric `{}`", ellipsize(text));
        let help = match near {
            Some(near) => {
                format!("add a rule for it, or write a name that it serves, such as `{}`", ellipsize(near))
            }
            None => "add a rule for it".to_owned(),
        };
        (message, help)
    };
    ctx.report(name, message).help(help).severity(Severity::Warning).related(
        first,
        &first.path(&["metadata", "name"]),
        "the rules of the adapter",
    );
    Some(())
}

/// Advice on a metric that needs an adapter, for a workload on accelerators.
fn custom(object: &Object, name: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // The name is one of the adapter for Cloud Monitoring of Google, so that its author has it.
    let text = name.text().filter(|text| !text.contains(".googleapis.com|"))?;
    let target = target(object, ctx)?;
    if object.is_owned() || !uses_accelerators(target) {
        return None;
    }
    let cluster = ctx.cluster();
    if cluster.is_shown(&Fact::MetricsAdapter) || !cluster.satisfying::<MetricsAdapters>().is_empty() {
        return None;
    }
    let message =
        format!("`{}` must come from a metrics adapter; without one the HPA never scales", ellipsize(text));
    ctx.report(name, message)
        .help("check that a metrics adapter serves this name, or use a KEDA trigger, which needs no adapter")
        .severity(Severity::Info)
        .related(target, &target.path(&["metadata", "name"]), "it requests accelerators");
    None
}
