//! Where routes of the Gateway API, and of Envoy AI Gateway, send requests.

use super::ingress::{containers_of_service, containers_of_workloads};
use crate::cluster::views::Workload;
use crate::rules::prelude::*;

/// What [`containers_of`] looks at beside workloads.
pub(super) const BACKEND_KINDS: [Kind; 5] = [
    Kind::SERVICE,
    Kind::INFERENCE_POOL,
    Kind::INFERENCE_POOL_ALPHA,
    Kind::AI_SERVICE_BACKEND,
    Kind::ENVOY_BACKEND,
];

/// InferencePool in both of its API groups.
pub(super) const POOLS: [Kind; 2] = [Kind::INFERENCE_POOL, Kind::INFERENCE_POOL_ALPHA];

/// A reference of a route to the object that gets its requests.
pub(super) struct RouteBackend<'a> {
    pub(super) node: Node<'a>,
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl RouteBackend<'_> {
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.group == kind.group && self.kind == kind.kind
    }

    /// Whether requests go there: with weight 0 they do not.
    pub(super) fn gets_requests(&self) -> bool {
        self.node.get("weight").int() != Some(0)
    }
}

pub(super) fn backends_of<'a>(route: &'a Object, rule: &Node<'a>) -> Vec<RouteBackend<'a>> {
    let default = if route.is(Kind::AI_GATEWAY_ROUTE) { Kind::AI_SERVICE_BACKEND } else { Kind::SERVICE };
    rule.get("backendRefs").items().filter_map(|node| reference(route, node, default)).collect()
}

fn reference<'a>(owner: &'a Object, node: Node<'a>, default: Kind) -> Option<RouteBackend<'a>> {
    let field = |name: &str, default: &'a str| {
        let field = node.get(name);
        if field.is_set() { field.text() } else { Some(default) }
    };
    let group = field("group", default.group)?;
    let kind = field("kind", default.kind)?;
    let namespace = field("namespace", owner.namespace_or_default())?;
    let name = node.get("name").text()?;
    Some(RouteBackend { group, kind, namespace, name, node })
}

/// The containers to which a backend of the input leads, each with its workload.
pub(super) fn containers_of<'i>(
    backend: &RouteBackend<'_>,
    ctx: &Context<'i>,
) -> Option<Vec<(&'i Object, Node<'i>)>> {
    let (namespace, name) = (backend.namespace, backend.name);
    if backend.is(Kind::AI_SERVICE_BACKEND) {
        let object = ctx.partner(Kind::AI_SERVICE_BACKEND, namespace, name)?;
        let next = reference(object, object.path(&["spec", "backendRef"]), Kind::SERVICE)?;
        return if next.is(Kind::AI_SERVICE_BACKEND) { None } else { containers_of(&next, ctx) };
    }
    if backend.is(Kind::ENVOY_BACKEND) {
        let object = ctx.partner(Kind::ENVOY_BACKEND, namespace, name)?;
        let mut endpoints = object.path(&["spec", "endpoints"]).items();
        let address = endpoints.next()?.get("fqdn");
        let host = address.get("hostname").text().filter(|_| endpoints.next().is_none())?;
        let mut labels = host.split('.');
        let (service, namespace) = (labels.next()?, labels.next()?);
        if labels.next() != Some("svc") {
            return None;
        }
        let service = ctx.partner(Kind::SERVICE, namespace, service)?;
        return Some(containers_of_service(service, &address.get("port"), ctx));
    }
    if backend.is(Kind::SERVICE) {
        let service = ctx.partner(Kind::SERVICE, namespace, name)?;
        return Some(containers_of_service(service, &backend.node.get("port"), ctx));
    }
    let pool = ctx.partner(POOLS.into_iter().find(|kind| backend.is(*kind))?, namespace, name)?;
    let (workloads, _) = selected_by_pool(pool, ctx);
    Some(containers_of_workloads(&workloads, None, ctx))
}

/// The workloads whose pods an InferencePool certainly selects, and whether it may select others.
pub(super) fn selected_by_pool<'i>(pool: &Object, ctx: &Context<'i>) -> (Vec<&'i Workload>, bool) {
    let views = ctx.cluster().views();
    // Before v1 the selector is a map of labels.
    let selector = pool.path(&["spec", "selector"]);
    match selector.get("matchLabels").is_set() {
        true => views.selected_by_labels(pool, &selector),
        false => views.selected_by_service(pool),
    }
}
