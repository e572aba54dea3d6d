//! A LimitRange rejects the pods of a workload, or is rejected by the API server.
//!
//! # Why
//! A LimitRange adds its `default` limit to each container that has none, also to one that requests more: the
//! limit is then below the request, and the API server rejects the pod. So it does with amounts outside
//! `min`, `max` and `maxLimitRequestRatio`, and with sums over the containers outside those of the type Pod.
//! Only events of the controller show it: the Deployment is there, and its pods are not. Of a maximum without
//! a default, Kubernetes makes the default limit.
//!
//! Where a namespace has several LimitRanges, any of their defaults may come first: what is reported is wrong
//! with each of them. A LimitRange whose amounts contradict each other, such as a minimum above the maximum,
//! is rejected itself.
//!
//! # Fix
//! Write the limit of the container, or change the amounts of the LimitRange.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: tokens, namespace: auth}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: tokens}}
//!    template:
//!      metadata: {labels: {app: tokens}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/tokens:2.1.0
//!            resources:
//!              requests: {cpu: 250m, memory: 1Gi} # <-
//! +            limits: {memory: 1Gi}
//!  ---
//!  apiVersion: v1
//!  kind: LimitRange
//!  metadata: {name: defaults, namespace: auth}
//!  spec:
//!    limits:
//!      - type: Container
//!        default: {memory: 512Mi}
//!        defaultRequest: {cpu: 100m, memory: 256Mi}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/policy/limit-range/>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::facts::quantity::amount;
use crate::rules::prelude::*;
use crate::workload::gpu::is_extended;

pub(crate) static RULE: Rule = Rule {
    id: "limit-range-rejects",
    kinds: kinds![[Kind::LIMIT_RANGE], WORKLOAD_KINDS],
    reads: kinds![[Kind::LIMIT_RANGE, Kind::VPA, Kind::NAMESPACE], POD_POLICIES],
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("limit_range_rejects.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// The groups of controllers that take the resources and the security contexts of containers as they are written.
pub(super) const GROUPS: [&str; 8] = [
    "",
    "apps",
    "argoproj.io",
    "batch",
    "jobset.x-k8s.io",
    "keda.sh",
    "kubeflow.org",
    "leaderworkerset.x-k8s.io",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.is_namespace_unknown() {
        return None;
    }
    if object.is(Kind::LIMIT_RANGE) {
        contradiction(object, ctx);
        return None;
    }
    let (cluster, namespace) = (ctx.cluster(), object.namespace_or_default());
    // A VerticalPodAutoscaler changes requests, within the LimitRange, and a policy may change anything before it.
    let is_sized = cluster.in_namespace(Kind::VPA, namespace).next().is_some()
        || may_change_pods(cluster, namespace, PodPart::Resources);
    if is_sized || object.controller().is_some() || !GROUPS.contains(&object.group()) {
        return None;
    }
    let ranges: Vec<&Object> = cluster.in_namespace(Kind::LIMIT_RANGE, namespace).collect();
    let is_read = |range: &Object| {
        let may_change = range.may_lack_fields() || range.is_namespace_unknown();
        !may_change && !has_any_unknown(&range.get("spec")) && cluster.likely_pairs(object, range)
    };
    if ranges.is_empty() || !ranges.iter().all(|range| is_read(range)) {
        return None;
    }
    for template in templates(object) {
        // Resources of the whole pod have rules of their own.
        if template.spec.get("resources").is_set() {
            continue;
        }
        let is_reported = template.all_containers().filter(is_known).any(|one| {
            outside_bounds(&one, &ranges, ctx)
                .or_else(|| above_default_limit(&one, &ranges, ctx))
                .or_else(|| outside_ratio(&one, &ranges, ctx))
                .is_some()
        });
        if !is_reported {
            sums(&template, &ranges, ctx);
        }
    }
    None
}

fn has_any_unknown(node: &Node<'_>) -> bool {
    let children = || node.entries().into_iter().map(|(_, one)| one).chain(node.items());
    node.has_unknown() || node.has_unknown_key() || children().any(|one| has_any_unknown(&one))
}

/// The items of a LimitRange for a type.
fn items<'a>(range: &'a Object, of: &'static str) -> impl Iterator<Item = Node<'a>> {
    range.path(&["spec", "limits"]).items().filter(move |item| item.get("type").text() == Some(of))
}

/// A request or limit of a container, as it is after the LimitRanges of its namespace.
struct Amount<'a> {
    /// What it may be: as written, or the default of any LimitRange.
    values: Vec<Quantity>,
    node: Node<'a>,
    /// The first LimitRange that has a default, if it is not written.
    range: Option<&'a Object>,
}

impl Amount<'_> {
    fn surely(&self, is_wrong: impl Fn(Quantity) -> bool) -> bool {
        !self.values.is_empty() && self.values.iter().all(|value| is_wrong(*value))
    }
}

/// A request or limit. The API server takes a request from a written limit before a LimitRange adds anything, and completes
/// the defaults of a LimitRange from one another (Kubernetes 1.34, `SetDefaults_LimitRangeItem`).
fn amount_of<'a>(
    container: &Node<'a>,
    side: &str,
    resource: &str,
    ranges: &[&'a Object],
) -> Option<Amount<'a>> {
    let resources = container.get("resources");
    let written = |side: &str| Some(resources.path(&[side, resource])).filter(Node::is_set);
    let fields: &[&str] = match side {
        "limits" => &["default", "max"],
        _ => &["defaultRequest", "default", "max", "min"],
    };
    let own = written(side).or_else(|| if side == "requests" { written("limits") } else { None });
    if let Some(node) = own {
        return Some(Amount { values: Quantity::at(&node).into_iter().collect(), node, range: None });
    }
    let found: Vec<(&Object, Node<'_>)> = all_items(ranges, "Container")
        .into_iter()
        .filter_map(|(range, item)| {
            let mut nodes = fields.iter().map(|field| item.path(&[*field, resource]));
            Some((range, nodes.find(Node::is_set)?))
        })
        .collect();
    let (range, node) = found.first()?.clone();
    let values: Option<Vec<Quantity>> = found.iter().map(|(_, node)| Quantity::at(node)).collect();
    Some(Amount { values: values.unwrap_or_default(), node, range: Some(range) })
}

/// Whether nothing of the resources of a container is a placeholder.
fn is_known(container: &Node<'_>) -> bool {
    !container.has_unknown_key() && !has_any_unknown(&container.get("resources"))
}

/// The items of all LimitRanges for a type, with their LimitRanges.
fn all_items<'a>(ranges: &[&'a Object], of: &'static str) -> Vec<(&'a Object, Node<'a>)> {
    ranges.iter().copied().flat_map(|range| items(range, of).map(move |item| (range, item))).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Min,
    Max,
}

impl Bound {
    fn is_broken(self, value: i128, bound: i128) -> bool {
        match self {
            Bound::Min => value < bound,
            Bound::Max => value > bound,
        }
    }

    fn preposition(self) -> &'static str {
        match self {
            Bound::Min => "below",
            Bound::Max => "above",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Bound::Min => "minimum",
            Bound::Max => "maximum",
        }
    }
}

/// A minimum or maximum of a LimitRange for one resource.
struct ResourceBound<'a> {
    bound: Bound,
    /// `requests` or `limits`.
    side: &'static str,
    resource: &'a str,
    node: Node<'a>,
}

/// The bounds of an item, each for both sides.
fn bounds<'a>(item: &Node<'a>) -> Vec<ResourceBound<'a>> {
    let mut out = Vec::new();
    for (bound, field) in [(Bound::Min, "min"), (Bound::Max, "max")] {
        for (resource, node) in item.get(field).entries() {
            out.extend(["limits", "requests"].map(|side| ResourceBound {
                bound,
                side,
                resource,
                node: node.clone(),
            }));
        }
    }
    out
}

/// Adds a finding about pods. A controller is accepted, and its pods are not.
fn report<'c>(node: &Node<'_>, message: String, ctx: &'c mut Context<'_>) -> &'c mut Finding {
    let authority = ctx.object().is(Kind::POD).then_some(Authority::ApiServer);
    ctx.report(node, message).rejected_by(authority)
}

/// Reports an amount outside of a bound. `what` is the message up to the value of the bound, and `scope` is `container` or `pod`.
fn report_bound(
    place: &Node<'_>,
    what: &str,
    scope: &str,
    range: &Object,
    ResourceBound { bound, side, resource, node }: &ResourceBound<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = bound.name();
    let message = format!(
        "{what} {}, the {name} of a {scope} in `{}`: pods are rejected",
        node.string_or_number()?,
        range.display_name()
    );
    report(place, message, ctx)
        .identified_by(format!("{side}.{resource}"))
        .help(format!("change the {side} of `{resource}`, or the {name}"))
        .related(range, node, format!("the {name}"));
    Some(())
}

/// Reports an amount of a container that is below a minimum or above a maximum.
fn outside_bounds(container: &Node<'_>, ranges: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    for (range, item) in all_items(ranges, "Container") {
        for one in bounds(&item) {
            let ResourceBound { bound, side, resource, node } = &one;
            let Some(amount) = amount_of(container, side, resource, ranges) else { continue };
            let Some(limit) = Quantity::at(node).map(Quantity::nano) else { continue };
            if !amount.surely(|value| bound.is_broken(value.nano(), limit)) {
                continue;
            }
            let what =
                format!("{} of `{resource}` is {}", amount.node.string_or_number()?, bound.preposition());
            let place = if amount.range.is_none() { amount.node } else { container.get("resources") };
            return report_bound(&place, &what, "container", range, &one, ctx);
        }
    }
    None
}

/// Reports a request without a limit that is above the limit which a LimitRange adds.
fn above_default_limit(container: &Node<'_>, ranges: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    for (resource, request) in container.path(&["resources", "requests"]).entries() {
        let limit = amount_of(container, "limits", resource, ranges);
        let (Some(asked), Some(limit)) = (Quantity::at(&request), limit) else { continue };
        let Some(range) = limit.range.filter(|_| limit.surely(|value| value < asked)) else { continue };
        let message = format!(
            "the request is above {}, the limit that `{}` adds: pods are rejected",
            limit.node.string_or_number()?,
            range.display_name()
        );
        report(&request, message, ctx)
            .help(format!("write a limit of `{resource}`, at least as high as the request"))
            .related(range, &limit.node, "the default limit");
        return Some(());
    }
    None
}

/// Reports a limit that is too many times the request, or one of both that a ratio demands and no one gives.
fn outside_ratio(container: &Node<'_>, ranges: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    for (range, item) in all_items(ranges, "Container") {
        for (resource, node) in item.get("maxLimitRequestRatio").entries() {
            let Some(most) = Quantity::at(&node) else { continue };
            let [limit, request] =
                ["limits", "requests"].map(|side| amount_of(container, side, resource, ranges));
            let is_over = match (&limit, &request) {
                (Some(limit), Some(request)) => {
                    limit.surely(|limit| request.surely(|request| is_above_ratio(limit, request, most)))
                }
                _ => true,
            };
            if !is_over {
                continue;
            }
            let is_given = limit.is_some() && request.is_some();
            let what = if is_given { "more than" } else { "not stated, and may be at most" };
            let message = format!(
                "the limit of `{resource}` is {what} {} times the request, as `{}` demands: pods are rejected",
                node.string_or_number()?,
                range.display_name()
            );
            let written = [limit, request].into_iter().flatten().find(|amount| amount.range.is_none());
            let place = written.map_or_else(|| container.get("resources"), |amount| amount.node);
            report(&place, message, ctx)
                .identified_by(resource)
                .help(format!("write a request and a limit of `{resource}` that are nearer to each other"))
                .related(range, &node, "the ratio");
            return Some(());
        }
    }
    None
}

fn is_above_ratio(limit: Quantity, request: Quantity, most: Quantity) -> bool {
    let times = |a: Quantity, b: i128| a.nano().checked_mul(b);
    match (times(limit, 1_000_000_000), times(most, request.nano())) {
        (Some(limit), Some(most)) => limit > most,
        _ => false,
    }
}

/// Whether a label or an annotation of pods, or of their namespace, asks a webhook for a sidecar: of Istio, Linkerd, Dapr, Vault or
/// OpenTelemetry.
fn has_injector(metadata: &Node<'_>) -> bool {
    const KEYS: [&str; 7] = [
        "dapr.io/enabled",
        "istio-injection",
        "linkerd.io/inject",
        "sidecar.istio.io/inject",
        "sidecar.opentelemetry.io/inject",
        "istio.io/rev",
        "vault.hashicorp.com/agent-inject",
    ];
    let is_on = |node: &Node<'_>| node.is_set() && !matches!(node.raw_text(), Some("false" | "disabled"));
    ["labels", "annotations"].into_iter().any(|field| {
        let list = metadata.get(field);
        list.has_unknown_key() || KEYS.into_iter().any(|key| is_on(&list.get(key)))
    })
}

/// Reports a sum over the containers of a pod outside the bounds of the type Pod.
fn sums(template: &Template<'_>, ranges: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    if !template.all_containers().all(|container| is_known(&container)) {
        return None;
    }
    // An init container may ask for more than all others.
    let has_init = template.spec.get("initContainers").items().next().is_some();
    let namespace = ctx.partner(Kind::NAMESPACE, "default", ctx.object().namespace_or_default());
    let is_injected = has_injector(&template.metadata)
        || namespace.is_some_and(|namespace| has_injector(&namespace.get("metadata")));
    for (range, item) in all_items(ranges, "Pod") {
        for one in bounds(&item) {
            let ResourceBound { bound, side, resource, node } = &one;
            let Some(limit) = Quantity::at(node).map(Quantity::nano) else { continue };
            let (sum, first) = sum(template, &one, ranges)?;
            // A maximum demands limits, and a minimum requests.
            let is_demanded = (*side == "limits") == (*bound == Bound::Max);
            let is_wrong = if first.is_some() { bound.is_broken(sum, limit) } else { is_demanded };
            let may_have_more = has_init || is_injected;
            if !is_wrong || may_have_more && (*bound == Bound::Min || first.is_none()) {
                continue;
            }
            let what = match first {
                Some(_) => format!(
                    "{} of `{resource}` in all containers is {}",
                    amount(resource, sum / 1_000_000),
                    bound.preposition()
                ),
                None => format!("no container has {side} of `{resource}` to compare with"),
            };
            let place = first.or_else(|| Some(template.containers().next()?.path(&["resources", side])))?;
            return report_bound(&place, &what, "pod", range, &one, ctx);
        }
    }
    None
}

/// The sum of a request or limit over containers and sidecars in nano units, with the first one that is written: the least
/// that it may be for a maximum, and the most for a minimum.
fn sum<'a>(
    template: &Template<'a>,
    ResourceBound { bound, side, resource, .. }: &ResourceBound<'_>,
    ranges: &[&'a Object],
) -> Option<(i128, Option<Node<'a>>)> {
    let (mut sum, mut first) = (0i128, None);
    for container in template.sidecars().chain(template.containers()) {
        let Some(amount) = amount_of(&container, side, resource, ranges) else { continue };
        let values = amount.values.iter().map(|value| value.nano());
        let value = if *bound == Bound::Max { values.min() } else { values.max() };
        sum = sum.checked_add(value?)?;
        let place = if amount.range.is_none() { amount.node } else { container.get("resources") };
        first.get_or_insert(place);
    }
    Some((sum, first))
}

/// The fields of an item of which the first may not be above the second (Kubernetes 1.34, `ValidateLimitRange`).
const ORDER: [(&str, &str); 6] = [
    ("min", "max"),
    ("min", "defaultRequest"),
    ("min", "default"),
    ("defaultRequest", "default"),
    ("defaultRequest", "max"),
    ("default", "max"),
];

/// Reports amounts of a LimitRange with which the API server rejects it.
fn contradiction(range: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for item in range.path(&["spec", "limits"]).items() {
        let of = item.get("type").text()?;
        if of == "PersistentVolumeClaim" {
            continue;
        }
        for field in ["default", "defaultRequest"] {
            let node = item.get(field);
            if of == "Pod" && !node.entries().is_empty() {
                ctx.report(&node, format!("an item of the type `Pod` may not have `{field}`"))
                    .at_key()
                    .help("move it to an item of the type `Container`");
                return None;
            }
        }
        if misordered(range, &item, ctx).is_some() {
            return None;
        }
        for (resource, node) in item.get("maxLimitRequestRatio").entries() {
            if Quantity::at(&node).is_some_and(|ratio| ratio.nano() < 1_000_000_000) {
                let message =
                    format!("a limit of `{resource}` is never below the request: a ratio is at least 1");
                ctx.report(&node, message).help("write how many times the request a limit may be at most");
                return None;
            }
        }
    }
    None
}

/// Reports the first amount that is above one which it may not exceed.
fn misordered(range: &Object, item: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for (low, high) in ORDER {
        for (resource, node) in item.get(low).entries() {
            let other = item.path(&[high, resource]);
            let (Some(less), Some(more)) = (Quantity::at(&node), Quantity::at(&other)) else { continue };
            // Extended resources and huge pages have a limit equal to the request.
            let is_fixed = is_extended(resource) || resource.starts_with("hugepages-");
            let is_equal_wanted = is_fixed && (low, high) == ("defaultRequest", "default");
            if less > more || is_equal_wanted && less != more {
                let words = if less > more { "is above" } else { "is not equal to" };
                let message = format!(
                    "`{low}` of `{resource}` {words} `{high}`, {}: the API server rejects the LimitRange",
                    other.string_or_number()?
                );
                ctx.report(&node, message)
                    .identified_by(high)
                    .help(format!("change one of them: `{high}` is the larger one"))
                    .related(range, &other, format!("`{high}`"));
                return Some(());
            }
        }
    }
    None
}
