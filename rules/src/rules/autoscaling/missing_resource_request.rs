//! An autoscaler measures a resource that the target's containers do not request.
//!
//! # Why
//! The use of CPU or memory is a share of what the containers request. Where one container has no
//! request, an HPA computes nothing for the whole pod. KEDA's admission rejects a ScaledObject with a
//! `cpu` or `memory` trigger whose target has a container with neither request nor limit, unless a
//! LimitRange of the namespace gives one. Nothing is reported where a kustomization of the input patches the
//! request. The HPA of an elastic PyTorchJob (`elasticPolicy.metrics`) measures its
//! workers: without requests the run keeps its size, which is information.
//!
//! A request of the pod itself (`spec.resources`) takes the place of those of its containers for an HPA
//! from Kubernetes 1.34 on, and for KEDA's admission from KEDA 2.21 on, unless the metric names a container.
//!
//! The proxy that Istio adds has requests by default. One of the annotations `sidecar.istio.io/proxyCPU`,
//! `proxyMemory`, `proxyCPULimit` and `proxyMemoryLimit` replaces all of them: with an amount of memory
//! alone the proxy has no CPU request, and an HPA on CPU computes nothing. The sidecar of Dapr has no
//! request without annotations, and one of the OpenTelemetry operator has those of its collector. The proxy
//! of Linkerd has one if an annotation or the values of Linkerd's chart give it, as those for high
//! availability do: without the chart in the input that is information.
//!
//! # Fix
//! Give every container of the target a request for that resource, sidecars included, or name the
//! container to measure in `containerName`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router}
//!  spec:
//!    scaleTargetRef: {name: router}
//!    minReplicaCount: 2
//!    triggers:
//!      - type: cpu # <-
//!        metricType: Utilization
//!        metadata: {value: "70"}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: router}
//!  spec:
//!    selector: {matchLabels: {app: router}}
//!    template:
//!      metadata: {labels: {app: router}}
//!      spec:
//!        containers:
//!          - name: router
//!            image: example.com/router:1.0.0
//! -          resources: {requests: {memory: 1Gi}}
//! +          resources: {requests: {cpu: "1", memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>

use crate::cluster::views::scale_target;
use crate::keda::resource_metrics::{ResourceMetric, resource_metrics, utilizations};
use crate::rules::autoscaling::injected_sidecars::{READS, sidecar_without_request};
use crate::rules::partners::{around_scaler, autoscalers};
use crate::rules::prelude::*;
use crate::workload::istio::proxy_without_request;

pub(crate) static RULE: Rule = Rule {
    id: "missing-resource-request",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA, Kind::PYTORCH_JOB],
    reads: kinds![[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::LIMIT_RANGE], READS],
    rejected_by: &[Authority::KedaAdmission],
    depends_on: &[Product::Keda, Product::Kubernetes],
    pairs: &[Pair {
        with: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET],
        partners: autoscalers,
        beside: around_scaler,
    }],
    docs: docs(include_str!("missing_resource_request.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::PYTORCH_JOB) {
        return of_elastic_run(object, ctx);
    }
    let (namespace, target, name) = scale_target(object)?;
    let kind = match target.as_str() {
        "apps/Deployment" => Kind::DEPLOYMENT,
        "apps/StatefulSet" => Kind::STATEFUL_SET,
        _ => return None,
    };
    let workload = ctx.partner(kind, &namespace, &name)?;
    if workload.is_partial() || workload.is_incomplete() {
        return None;
    }
    // A LimitRange that is not in the input may set the request, and only KEDA rejects the object.
    let certain = ctx.cluster().is_complete() && !object.is(Kind::HPA);
    // Most clusters run a version of KEDA that does not count the requests of pods.
    let older = !object.is(Kind::HPA) && !ctx.platform().is_stated(Product::Keda);
    let templates = templates(workload);
    for metric in resource_metrics(object) {
        let resource = metric.resource;
        // An overlay may give the request.
        let is_given = |c: &Node<'_>| {
            let lists = ["requests", "limits"].map(|list| c.get("resources").get(list).get(resource));
            workload.is_patched_by_kustomize() && lists.iter().any(|node| workload.may_be_set_by_patch(node))
        };
        let lacks_request = |c: &Node<'_>| metric.measures(c) && lacks(c, resource) && !is_given(c);
        let requested_by_pod = |template: &&Template<'_>| pod_requests(&template.spec, &metric, object, ctx);
        let (of_pods, own): (Vec<_>, Vec<_>) = templates.iter().partition(requested_by_pod);
        let of_pods = if older { of_pods } else { Vec::new() };
        let found = first_lacking(&own, lacks_request).map(|container| (container, false));
        let found =
            found.or_else(|| first_lacking(&of_pods, lacks_request).map(|container| (container, true)));
        // The HPA controller counts sidecars that are init containers; KEDA's admission does not look at them.
        let sidecar = || own.iter().flat_map(|template| template.sidecars()).find(|one| lacks_request(one));
        let is_sidecar = found.is_none();
        // An average amount is not compared with requests.
        let is_compared = utilizations(object).iter().any(|one| one.resource == resource);
        let found = found.or_else(|| sidecar().filter(|_| is_compared).map(|container| (container, false)));
        if limit_range_gives(resource, &namespace, ctx) {
            continue;
        }
        let Some((container, is_older)) = found else {
            if is_compared && injected_proxy(workload, &own, &metric, ctx).is_none() {
                injected_sidecar(workload, &own, &metric, ctx);
            }
            continue;
        };
        let container_name = ellipsize(container.get("name").text().unwrap_or_default());
        let message = format!(
            "the autoscaler scales on `{resource}`, but container `{container_name}` of `{}` has no `{resource}` request",
            ellipsize(&name)
        );
        let finding = ctx.report(&metric.node, message);
        finding.related(workload, &container, "this container has no request");
        if is_sidecar {
            let help =
                format!("give the sidecar a `{resource}` request: without it the HPA scales on nothing");
            finding.rejected_by(None).severity(Severity::Warning).help(help);
        } else if is_older {
            let help = "KEDA before 2.21 rejects it: give each container a request, or state `platform.keda`";
            finding.rejected_by(None).severity(Severity::Warning).help(help);
        } else {
            finding
                .help(format!("give every container of the target a `{resource}` request"))
                .severity(if certain { Severity::Error } else { Severity::Warning });
        }
    }
    None
}

/// Reports a proxy of Istio without a request, where annotations of the pods leave it none.
fn injected_proxy(
    workload: &Object,
    templates: &[&Template<'_>],
    metric: &ResourceMetric<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    if metric.container.is_some() {
        return None;
    }
    let resource = metric.resource;
    let annotation = templates.iter().find_map(|template| proxy_without_request(template, resource))?;
    let message = format!(
        "the autoscaler scales on `{resource}`, but the proxy of Istio in `{}` has no `{resource}` request",
        workload.display_name()
    );
    let missing = if resource == "cpu" { "proxyCPU" } else { "proxyMemory" };
    let help = format!(
        "write the annotation `sidecar.istio.io/{missing}` as well, or name the container to measure"
    );
    ctx.report(&metric.node, message).rejected_by(None).severity(Severity::Warning).help(help).related(
        workload,
        &annotation,
        "it replaces all requests that the proxy has by default",
    );
    Some(())
}

/// Reports a sidecar without a request that another webhook adds to the pods.
fn injected_sidecar<'a>(
    workload: &'a Object,
    templates: &[&Template<'a>],
    metric: &ResourceMetric<'_>,
    ctx: &mut Context<'a>,
) -> Option<()> {
    if metric.container.is_some() {
        return None;
    }
    let resource = metric.resource;
    let sidecar =
        templates.iter().find_map(|template| sidecar_without_request(workload, template, resource, ctx))?;
    let (what, name) = (sidecar.what, workload.display_name());
    let message = match sidecar.is_certain {
        true => format!(
            "the autoscaler scales on `{resource}`, but {what} in `{name}` has no `{resource}` request"
        ),
        false => format!(
            "the autoscaler scales on `{resource}`, but {what} in `{name}` has no `{resource}` request by default"
        ),
    };
    let (owner, annotation) = sidecar.asked;
    ctx.report(&metric.node, message)
        .rejected_by(None)
        .severity(if sidecar.is_certain { Severity::Warning } else { Severity::Info })
        .help(sidecar.help)
        .related(owner, &annotation, "it adds the sidecar to the pods");
    None
}

/// The metrics of the HPA that Kubeflow's operator makes for the workers of an elastic run, unless it has one size. A run
/// that keeps its size works as well.
fn of_elastic_run(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let workers = object.path(&["spec", "pytorchReplicaSpecs", "Worker", "template", "spec"]);
    let policy = object.path(&["spec", "elasticPolicy"]);
    let bound = |name: &str| policy.get(name).int();
    if object.is_partial()
        || workers.has_unknown_key()
        || !workers.get("resources").is_absent()
        || bound("minReplicas").is_some() && bound("minReplicas") == bound("maxReplicas")
    {
        return None;
    }
    for metric in object.root().items_at(&["spec", "elasticPolicy", "metrics"]) {
        let source = metric.get("resource");
        let name = source.get("name");
        let Some(resource @ ("cpu" | "memory")) = name.text() else { continue };
        if source.path(&["target", "type"]).text() != Some("Utilization")
            || limit_range_gives(resource, object.namespace_or_default(), ctx)
        {
            continue;
        }
        let mut containers = workers.get("containers").items();
        let Some(container) = containers.find(|container| lacks(container, resource)) else { continue };
        let container_name = ellipsize(container.get("name").text().unwrap_or_default());
        let message = format!(
            "the run keeps its size: it scales on `{resource}`, and container `{container_name}` requests none"
        );
        ctx.report(&name, message)
            .help(
                "remove `metrics`; a run that is to grow with its load needs requests in all of its workers",
            )
            .rejected_by(None)
            // A LimitRange elsewhere may give the request, and the run works as it is.
            .severity(Severity::Info)
            .related(object, &container, "this container has no request");
    }
    None
}

/// The first container of some templates that lacks a request.
fn first_lacking<'a>(
    templates: &[&Template<'a>],
    lacks_request: impl Fn(&Node<'a>) -> bool,
) -> Option<Node<'a>> {
    templates.iter().flat_map(|template| template.containers()).find(|container| lacks_request(container))
}

/// The first versions that count the requests of a pod: the HPA controller's, and that of KEDA's admission.
const COUNTED_BY_HPA_SINCE: Version = Version::new(1, 34);
const COUNTED_BY_KEDA_SINCE: Version = Version::new(2, 21);

/// Whether the requests of the pod itself give what the metric measures.
fn pod_requests(pod: &Node<'_>, metric: &ResourceMetric<'_>, object: &Object, ctx: &Context<'_>) -> bool {
    let platform = ctx.platform();
    let resources = pod.get("resources");
    let is_hpa = object.is(Kind::HPA);
    if metric.container.is_some()
        || platform.kubernetes < COUNTED_BY_HPA_SINCE
        || !is_hpa && platform.keda < COUNTED_BY_KEDA_SINCE
        || resources.is_absent()
    {
        return false;
    }
    // A pod with a request for one resource has the sum of its containers for the other, where the HPA controller looks
    // at no single container.
    let has_other = is_hpa
        && ["cpu", "memory"].iter().any(|other| !lacks(pod, other))
        && !pod.get("containers").items().all(|container| lacks(&container, metric.resource));
    !lacks(pod, metric.resource) || has_other
}

/// Whether the container or pod has neither a request nor a limit above 0. A limit is the default of the request.
fn lacks(holder: &Node<'_>, resource: &str) -> bool {
    let resources = holder.get("resources");
    let given = |list: &str| {
        let list = resources.get(list);
        let node = list.get(resource);
        if list.is_unknown() || node.is_unknown() {
            return true;
        }
        match node.string_or_number() {
            // An invalid quantity is reported by invalid-value.
            Some(text) => Quantity::decode(&text).map_or(true, |q| q.nano() > 0),
            None => node.is_set(),
        }
    };
    !resources.is_unknown() && !given("requests") && !given("limits")
}

fn limit_range_gives(resource: &str, namespace: &str, ctx: &Context<'_>) -> bool {
    ctx.cluster()
        .in_namespace(Kind::LIMIT_RANGE, namespace)
        .flat_map(|range| range.path(&["spec", "limits"]).items().collect::<Vec<_>>())
        .filter(|limit| limit.get("type").text() == Some("Container"))
        .any(|limit| ["default", "defaultRequest"].iter().any(|list| limit.get(list).get(resource).is_set()))
}
