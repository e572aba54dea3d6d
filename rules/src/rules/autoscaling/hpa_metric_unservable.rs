//! A HorizontalPodAutoscaler scales on a metric that nothing serves to it.
//!
//! # Why
//! `Resource` and `ContainerResource` metrics come from `metrics.k8s.io`, which has `cpu` and `memory` and
//! nothing else: an HPA on `nvidia.com/gpu` is accepted, and stays at FailedGetResourceMetric. Metrics that
//! are selected by `scaledobject.keda.sh/name` are served by KEDA under the names that it gives to its own
//! HPAs, such as `s0-prometheus`; KEDA answers no other name. For a GPU workload it is also reported, as
//! advice, that `Pods`, `Object` and `External` metrics need an adapter that translates a query into that
//! name.
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

use crate::cluster::query::QuerySlot;
use crate::cluster::versions::Fact;
use crate::cluster::views::Predicate;
use crate::facts::text::is_digits;
use crate::keda::ellipsize;
use crate::rules::autoscaling::scale_target::{target, uses_accelerators};
use crate::rules::prelude::*;

/// The targets, and the objects that show a metrics adapter.
const READS: [Kind; 8] = [
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
                keda(object, &metric, ctx).or_else(|| custom(object, &metric.get("name"), ctx));
            }
            Some("Pods") => _ = custom(object, &metric.path(&["pods", "metric", "name"]), ctx),
            Some("Object") => _ = custom(object, &metric.path(&["object", "metric", "name"]), ctx),
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
    let owned = object.path(&["metadata", "ownerReferences"]);
    let index = text.strip_prefix('s').and_then(|rest| rest.split_once('-')).map(|(digits, _)| digits);
    let own = text == "composite-metric" || index.is_some_and(is_digits);
    if !own && !owned.is_set() {
        let message =
            format!("KEDA serves no metric `{}`: its names are such as `s0-prometheus`", ellipsize(text));
        ctx.report(&name, message).help("remove this HPA: KEDA makes one of its own for the ScaledObject");
    }
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
            let mut sources = std::iter::once(spec.get("source")).chain(spec.get("sources").items());
            return sources.any(|source| says(source.get("chart")));
        }
        object.name().contains("adapter")
    }
}

/// Advice on a metric that needs an adapter, for a workload on accelerators.
fn custom(object: &Object, name: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = name.text()?;
    let target = target(object, ctx)?;
    if object.path(&["metadata", "ownerReferences"]).is_set() || !uses_accelerators(target) {
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
