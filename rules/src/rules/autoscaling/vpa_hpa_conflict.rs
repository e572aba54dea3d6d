//! A VerticalPodAutoscaler sets the requests of which an HPA takes a share.
//!
//! # Why
//! A utilization is the use divided by the request. Where the VPA lowers a request, the utilization rises
//! and the HPA adds replicas; each of them then uses less, and the VPA lowers the request again, up to the
//! maximum of replicas. The projects advise against both on CPU or memory.
//!
//! # Fix
//! Leave that resource out of `controlledResources`, scale on another metric such as requests per second, or let
//! the VPA only recommend (`updateMode: "Off"`).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling.k8s.io/v1
//!  kind: VerticalPodAutoscaler
//!  metadata: {name: router, namespace: serving}
//!  spec:
//!    targetRef: {apiVersion: apps/v1, kind: Deployment, name: router}
//!    updatePolicy: {updateMode: Recreate}
//!    resourcePolicy:
//!      containerPolicies:
//!        - containerName: "*"
//! -        controlledResources: [cpu, memory] # <-
//! +        controlledResources: [memory]
//!  ---
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: router, namespace: serving}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: router}
//!    minReplicas: 2
//!    maxReplicas: 9
//!    metrics:
//!      - type: Resource
//!        resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/known-limitations.md>
//! - <https://kubernetes.io/docs/concepts/workloads/autoscaling/>

use crate::keda::resource_metrics::{Utilization, utilizations};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "vpa-hpa-conflict",
    kinds: &[Kind::VPA],
    reads: kinds![SCALABLE_KINDS, [Kind::SCALED_OBJECT, Kind::HPA]],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("vpa_hpa_conflict.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The resources that a VPA controls if its policy does not name any.
const CONTROLLED: [&str; 2] = ["cpu", "memory"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.may_lack_fields() || object.is_namespace_unknown() {
        return None;
    }
    let mode = spec.path(&["updatePolicy", "updateMode"]);
    let severity = match mode.text() {
        None if mode.is_absent() && !spec.get("updatePolicy").is_unknown() => Severity::Warning,
        Some("Recreate" | "Auto" | "InPlaceOrRecreate" | "InPlace") => Severity::Warning,
        // The requests of new pods alone.
        Some("Initial") => Severity::Info,
        _ => return None,
    };
    let policies = spec.get("resourcePolicy");
    let key = target(object)?;
    if policies.has_unknown() || spec.has_unknown_key() {
        return None;
    }
    let views = ctx.cluster().views();
    let autoscalers = views.hpas_of(&key).iter().chain(views.scaled_objects_of(&key));
    let autoscalers: Vec<&Object> = autoscalers.filter(|scaler| changes_replicas(scaler)).collect();
    let containers = containers(&key, ctx);
    let all: Vec<(&Object, Utilization<'_>)> = autoscalers
        .into_iter()
        .filter(|scaler| ctx.pairs_with(scaler))
        .flat_map(|scaler| utilizations(scaler).into_iter().map(move |metric| (scaler, metric)))
        .collect();
    let conflicts = all.iter().filter_map(|(scaler, metric)| {
        let place = controlling(&policies, metric, containers.as_deref())?;
        Some((*scaler, metric, place))
    });
    let conflicts: Vec<_> = conflicts.collect();
    let resources: Vec<&str> = conflicts.iter().map(|(_, metric, _)| metric.resource).collect();
    let rest: Vec<&str> =
        CONTROLLED.iter().filter(|resource| !resources.contains(resource)).copied().collect();
    for (number, (scaler, metric, place)) in conflicts.iter().enumerate() {
        if resources[..number].contains(&metric.resource) {
            continue;
        }
        let by = if scaler.is(Kind::HPA) { "HPA" } else { scaler.kind() };
        let name = ellipsize(scaler.name());
        let resource = metric.resource;
        let message =
            format!("the VPA sets the `{resource}` request, of which {by} `{name}` scales on a share");
        let finding = ctx.report(place, message).severity(severity).identified_by(resource);
        finding.related(scaler, &metric.node, "the share of the request");
        if let [other] = rest.as_slice() {
            finding.help(format!("write `controlledResources: [{other}]`, or scale on another metric"));
            if place.is_set() {
                finding.fix(
                    Fix::unsafe_(format!("leave `{resource}` to the autoscaler")).set(place, json!([other])),
                );
            }
        } else {
            finding.help("scale on another metric than use, or write `updateMode: \"Off\"`");
        }
    }
    None
}

type Key = std::sync::Arc<crate::cluster::views::ScaleTarget>;

pub(super) fn target(object: &Object) -> Option<Key> {
    let reference = object.path(&["spec", "targetRef"]);
    let (version, kind) = (reference.get("apiVersion").text()?, reference.get("kind").text()?);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let name = reference.get("name").text()?.to_owned();
    Some(Key::new((object.namespace_or_default().to_owned(), format!("{group}/{kind}"), name)))
}

/// The policy of a VPA for a container, from `containerPolicies`: its own, or else the one for all.
pub(super) fn policy_for<'a>(policies: &Node<'a>, container: &str) -> Option<Node<'a>> {
    let of = |wanted: &str| {
        policies.items().find(|policy| policy.get("containerName").text().unwrap_or("*") == wanted)
    };
    of(container).or_else(|| of("*"))
}

/// Whether a VPA sets a resource of the containers that a policy is for.
pub(super) fn sets_resource(policy: &Node<'_>, resource: &str) -> bool {
    let list = policy.get("controlledResources");
    policy.get("mode").text() != Some("Off")
        && (list.is_absent() || list.items().any(|one| one.text() == Some(resource)))
}

/// Whether an autoscaler has a range of replicas.
fn changes_replicas(scaler: &Object) -> bool {
    let spec = scaler.get("spec");
    let (min, max) = if scaler.is(Kind::HPA) {
        (spec.get("minReplicas").int_or(1), spec.get("maxReplicas").int())
    } else {
        (min_replicas(scaler), max_replicas(scaler))
    };
    !scaler.is_partial() && (min.is_none() || max.is_none() || min < max)
}

/// The names of the containers of the target; `None` if they are not known.
fn containers(key: &Key, ctx: &Context<'_>) -> Option<Vec<String>> {
    let (namespace, kind, name) = &**key;
    let kind = SCALABLE_KINDS.iter().find(|known| *kind == format!("{}/{}", known.group, known.kind))?;
    let workload = ctx.partner(*kind, namespace, name)?;
    let templates = templates(workload);
    let containers = templates.iter().flat_map(Template::containers);
    containers.map(|container| container.get("name").text().map(str::to_owned)).collect()
}

/// The `controlledResources` by which a VPA sets what a metric is a share of: those of the policy for a container that is
/// measured. `None` if it leaves the resource alone, or that is not known.
fn controlling<'a>(
    policy: &Node<'a>,
    metric: &Utilization<'_>,
    containers: Option<&[String]>,
) -> Option<Node<'a>> {
    let list = policy.get("containerPolicies");
    let policies: Vec<Node<'a>> = list.items().collect();
    let name = |policy: &Node<'a>| policy.get("containerName").text().unwrap_or("*");
    let sets =
        |policy: &Node<'a>| sets_resource(policy, metric.resource).then(|| policy.get("controlledResources"));
    let of = |container: &str| match policy_for(&list, container) {
        Some(policy) => sets(&policy),
        None => Some(policy.clone()),
    };
    match (metric.container, containers) {
        (Some(container), _) => of(container),
        (None, Some(containers)) => containers.iter().find_map(|container| of(container)),
        (None, None) if policies.is_empty() => Some(policy.clone()),
        // A container that is named is probably there; whether there are others is not known.
        (None, None) => {
            let named = || policies.iter().filter(|policy| name(policy) != "*");
            let of_others = policies.iter().find(|policy| name(policy) == "*");
            let others = || of_others.filter(|_| named().all(|policy| sets(policy).is_some()));
            named().chain(others()).find_map(sets)
        }
    }
}
