//! A VerticalPodAutoscaler multiplies a memory limit that is far above its request.
//!
//! # Why
//! Unless `controlledValues` is `RequestsOnly`, the VPA keeps the proportion of limit to request that the pod
//! template has: a limit of eight times the request stays eight times whatever it recommends. `minAllowed` and
//! `maxAllowed` bound the request alone. A limit above the memory of the node bounds nothing: when the
//! container leaks, the node runs out of memory, and other pods are ended.
//!
//! It is a warning where the limit at `maxAllowed` is above the largest node that the pools of the pods admit,
//! else an info. Limits of four times the request and more are looked at, and those of memory alone: a high
//! limit of the CPU does no harm. Nothing is said where a LimitRange has a maximum, to which the VPA keeps.
//!
//! # Fix
//! Write `controlledValues: RequestsOnly`, or a limit closer to the request.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling.k8s.io/v1
//!  kind: VerticalPodAutoscaler
//!  metadata: {name: ranker, namespace: search}
//!  spec:
//!    targetRef: {apiVersion: apps/v1, kind: Deployment, name: ranker}
//!    updatePolicy: {updateMode: Recreate}
//!    resourcePolicy:
//!      containerPolicies:
//! -      - containerName: main # <-
//! +      - containerName: main
//! +        controlledValues: RequestsOnly
//!          controlledResources: [memory]
//!          maxAllowed: {memory: 16Gi}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: ranker, namespace: search}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: ranker}}
//!    template:
//!      metadata: {labels: {app: ranker}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/ranker:3.0.1
//!            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 6Gi}}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/examples.md>
//! - <https://github.com/kubernetes/autoscaler/issues/3930>

use super::vpa_hpa_conflict::{policy_for, sets_resource, target};
use crate::facts::quantity::amount;
use crate::rules::prelude::*;
use crate::rules::scheduling::PLACEMENT_READS;

pub(crate) static RULE: Rule = Rule {
    id: "vpa-scales-limits",
    kinds: &[Kind::VPA],
    reads: kinds![PLACEMENT_READS, [Kind::LIMIT_RANGE]],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("vpa_scales_limits.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The least proportion of limit to request that is reported.
const LEAST: i128 = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (update, resources) = (spec.get("updatePolicy"), spec.get("resourcePolicy"));
    let mode = update.get("updateMode");
    if object.may_lack_fields()
        || object.is_namespace_unknown()
        || spec.has_unknown_key()
        || update.has_unknown()
        || resources.has_unknown()
        || mode.text() == Some("Off")
    {
        return None;
    }
    let key = target(object)?;
    let (namespace, kind, name) = &*key;
    let kind = SCALABLE_KINDS.iter().find(|known| *kind == format!("{}/{}", known.group, known.kind))?;
    let workload = ctx.partner(*kind, namespace, name)?;
    if workload.may_lack_fields() || has_maximum("memory", namespace, ctx) {
        return None;
    }
    let template = templates(workload).into_iter().next()?;
    let scaled: Vec<Scaled<'_>> =
        template.containers().filter_map(|container| Scaled::of(&container, &resources)).collect();
    if scaled.is_empty() {
        return None;
    }
    let room = largest_node(&template, ctx);
    for one in scaled {
        report(&one, room, workload, ctx);
    }
    None
}

/// A container whose limit of memory the VPA multiplies.
struct Scaled<'a> {
    name: &'a str,
    /// Where the VPA would be told to leave it.
    values: Node<'a>,
    has_policy: bool,
    limit: Node<'a>,
    /// The limit in bytes, its proportion to the request, and the limit for the largest request that the policy allows.
    bytes: i128,
    times: i128,
    most: Option<i128>,
}

impl<'a> Scaled<'a> {
    fn of(container: &Node<'a>, resources: &Node<'a>) -> Option<Scaled<'a>> {
        let name = container.get("name").text()?;
        let policy = policy_for(&resources.get("containerPolicies"), name);
        let of_policy = policy.as_ref().unwrap_or(resources);
        let values = of_policy.get("controlledValues");
        let is_left = values.text() == Some("RequestsOnly") || !sets_resource(of_policy, "memory");
        let amounts = container.get("resources");
        let limit = amounts.path(&["limits", "memory"]);
        let bytes = Quantity::at(&limit)?.value();
        let request = Quantity::at(&amounts.path(&["requests", "memory"]))?.value();
        if is_left || request <= 0 || bytes / request < LEAST {
            return None;
        }
        let allowed = of_policy.path(&["maxAllowed", "memory"]);
        let most = if allowed.is_set() { Some(Quantity::at(&allowed)?.value()) } else { None };
        // The limit never grows.
        if most.is_some_and(|most| most <= request) {
            return None;
        }
        let most = most.map(|most| most.saturating_mul(bytes) / request);
        let has_policy = policy.is_some();
        Some(Scaled { name, values, has_policy, limit, bytes, times: bytes / request, most })
    }
}

fn report(one: &Scaled<'_>, room: Option<i128>, workload: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let memory = |bytes: i128| amount("memory", bytes.saturating_mul(1000));
    let (name, times) = (ellipsize(one.name), one.times);
    let (message, severity) = match (one.most, room) {
        (Some(most), Some(room)) if most <= room => return None,
        (Some(most), Some(room)) => (
            format!(
                "at `maxAllowed` the VPA writes a memory limit of {} for `{name}`, and the largest node has {}",
                memory(most),
                memory(room)
            ),
            Severity::Warning,
        ),
        (Some(most), None) => (
            format!(
                "at `maxAllowed` the VPA writes a memory limit of {} for `{name}`: {times} times its request",
                memory(most)
            ),
            Severity::Info,
        ),
        (None, _) => (
            format!(
                "the VPA keeps the memory limit of `{name}` at {times} times its request, without a bound"
            ),
            Severity::Info,
        ),
    };
    let finding = ctx.report(&one.values, message);
    finding
        .severity(severity)
        .identified_by(one.name)
        .help(format!("write `controlledValues: RequestsOnly`: the limit stays at {}", memory(one.bytes)))
        .related(workload, &one.limit, "the limit that is multiplied");
    if one.has_policy {
        finding.fix(Fix::unsafe_("leave the limit alone").set(&one.values, json!("RequestsOnly")));
    }
    None
}

/// Whether a LimitRange may bound a resource of the containers or pods of a namespace: the VPA keeps below it.
pub(super) fn has_maximum(resource: &str, namespace: &str, ctx: &Context<'_>) -> bool {
    let mut ranges = ctx.cluster().of(Kind::LIMIT_RANGE);
    ranges.any(|range| {
        let is_near = range.is_namespace_unknown() || range.namespace_or_default() == namespace;
        let limits = range.path(&["spec", "limits"]);
        let bounds = |one: Node<'_>| one.path(&["max", resource]).is_set();
        is_near && (limits.has_unknown() || limits.items().any(bounds))
    })
}

/// The memory in bytes of the largest node that the pools of pods may start. `None` if that is not known.
fn largest_node(template: &Template<'_>, ctx: &Context<'_>) -> Option<i128> {
    let pools = ctx.pools_for(template)?;
    let types: Option<Vec<TypeSet>> =
        pools.all_nodes()?.iter().map(|pool| NodePool::new(pool.object())?.types()).collect();
    types?.iter().flat_map(TypeSet::iter).map(|one| i128::from(one.memory_mib) << 20).max()
}
