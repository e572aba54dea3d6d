//! A Gateway ends answers while a model server still generates.
//!
//! # Why
//! Envoy counts the time of a request until the last byte of its answer, so that a stream that still sends
//! tokens ends as well. Envoy Gateway writes no timeout into a route without `timeouts`, for which Envoy
//! has 15 seconds; Envoy AI Gateway writes 60 seconds (since 0.3). The client sees 504 or a stream that
//! breaks off, often tries again, and the server generates the answer once more.
//!
//! A Gateway is looked at with its GatewayClass, which names the controller. Where the input has a
//! BackendTrafficPolicy with a request timeout for the route or its Gateway, or an EnvoyPatchPolicy, nothing
//! is said; nor about rules for paths whose answers are short, such as `/v1/models`, and for `GET` alone.
//!
//! # Fix
//! Write `timeouts.request` as long as the longest answer, such as `600s`, or `0s` for no limit.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: gateway.networking.k8s.io/v1
//!  kind: GatewayClass
//!  metadata: {name: envoy}
//!  spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
//!  ---
//!  apiVersion: gateway.networking.k8s.io/v1
//!  kind: Gateway
//!  metadata: {name: models, namespace: models}
//!  spec:
//!    gatewayClassName: envoy
//!    listeners: [{name: http, port: 80, protocol: HTTP}]
//!  ---
//!  apiVersion: gateway.networking.k8s.io/v1
//!  kind: HTTPRoute
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    parentRefs: [{name: models}]
//!    rules:
//!      - backendRefs: [{name: chat, port: 80}]
//! -      timeouts: {request: 20s} # <-
//! +      timeouts: {request: 600s}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {app: chat}
//!    ports: [{port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, namespace: models, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: example.com/vllm:v0.11.0
//!        command: [vllm, serve, Qwen/Qwen3-8B]
//!        readinessProbe: {httpGet: {path: /health, port: 8000}}
//! ```
//!
//! # References
//! - <https://gateway.envoyproxy.io/docs/tasks/traffic/http-timeouts/>
//! - <https://github.com/envoyproxy/ai-gateway/blob/main/api/v1alpha1/ai_gateway_route.go>
//! - <https://github.com/envoyproxy/ai-gateway/issues/795>

use super::gateway_route::{BACKEND_KINDS, backends_of, containers_of};
use super::ingress::is_watched;
use super::ingress_timeout_short::generator;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gateway-timeout-short",
    kinds: &[Kind::HTTP_ROUTE, Kind::AI_GATEWAY_ROUTE],
    reads: kinds![
        BACKEND_KINDS,
        [Kind::GATEWAY, Kind::GATEWAY_CLASS, Kind::BACKEND_TRAFFIC_POLICY, Kind::ENVOY_PATCH_POLICY],
        WORKLOAD_KINDS
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gateway_timeout_short.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// A written time in seconds that is enough for most answers.
const LONG: i64 = 60;
/// What the fix writes: the time that clients of OpenAI's library wait.
const ENOUGH: &str = "600s";

/// What is known of an implementation of the Gateway API whose timeouts are for whole answers.
#[derive(Clone, Copy)]
struct Proxy {
    name: &'static str,
    /// The seconds of a route without a timeout.
    default: Option<i64>,
}

/// The implementations of the Gateway API, by `controllerName` of their GatewayClass.
const CONTROLLERS: [(&str, Proxy); 3] = [
    ("gateway.envoyproxy.io/gatewayclass-controller", Proxy { name: "Envoy Gateway", default: Some(15) }),
    ("istio.io/gateway-controller", Proxy { name: "Istio", default: None }),
    ("kgateway.dev/kgateway", Proxy { name: "kgateway", default: None }),
];
/// It writes its own default into the HTTPRoute that it makes of an AIGatewayRoute.
const AI_GATEWAY: Proxy = Proxy { name: "Envoy AI Gateway", default: Some(60) };

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.is_namespace_unknown() || is_set_elsewhere(object, ctx) {
        return None;
    }
    let proxy = match object.is(Kind::AI_GATEWAY_ROUTE) {
        true => AI_GATEWAY,
        false => proxy_of(object, ctx)?,
    };
    for rule in object.path(&["spec", "rules"]).items() {
        inspect(object, &rule, proxy, ctx);
    }
    None
}

fn inspect(object: &Object, rule: &Node<'_>, proxy: Proxy, ctx: &mut Context<'_>) -> Option<()> {
    let timeouts = rule.get("timeouts");
    let request = timeouts.get("request");
    let matches: Vec<Node<'_>> = rule.get("matches").items().collect();
    if rule.has_unknown() || !matches.is_empty() && matches.iter().all(is_answered_at_once) {
        return None;
    }
    let seconds = match request.is_set() {
        // Zero is no limit.
        true => Some(GoDuration::parse(request.text()?).ok()?.seconds()).filter(|n| (1..LONG).contains(n))?,
        // Envoy Gateway takes this one for the request then.
        false if timeouts.get("backendRequest").is_set() => return None,
        false => proxy.default?,
    };
    let backends = backends_of(object, rule);
    let backends = backends.iter().filter(|backend| backend.gets_requests());
    let containers = backends.filter_map(|backend| containers_of(backend, ctx)).flatten().collect();
    let (workload, server, _) = generator(containers)?;
    let by_default = if request.is_set() { "" } else { " by default" };
    let name = proxy.name;
    let message = format!(
        "{name} ends requests to {server} after {seconds} s{by_default}, streamed responses included"
    );
    ctx.report(&request, message)
        .help(format!("write `timeouts: {{request: {ENOUGH}}}`"))
        .related(workload, &workload.path(&["metadata", "name"]), "the server")
        .fix(Fix::unsafe_(format!("let answers take {ENOUGH}")).set(&request, json!(ENOUGH)));
    None
}

/// Whether the requests of one `matches` take no time, by their path, or by a method that has no prompt.
fn is_answered_at_once(one: &Node<'_>) -> bool {
    one.path(&["path", "value"]).text().is_some_and(is_watched)
        || matches!(one.get("method").text(), Some("GET" | "HEAD" | "OPTIONS"))
}

/// The implementation of the first Gateway of a route of which the input has the class.
fn proxy_of(object: &Object, ctx: &Context<'_>) -> Option<Proxy> {
    object.path(&["spec", "parentRefs"]).items().find_map(|parent| {
        let is = |field: Node<'_>, default: &str| !field.is_set() || field.text() == Some(default);
        if !is(parent.get("kind"), Kind::GATEWAY.kind) || !is(parent.get("group"), Kind::GATEWAY.group) {
            return None;
        }
        let namespace = parent.get("namespace");
        let namespace = if namespace.is_set() { namespace.text()? } else { object.namespace_or_default() };
        let gateway = ctx.partner(Kind::GATEWAY, namespace, parent.get("name").text()?)?;
        let class = gateway.path(&["spec", "gatewayClassName"]);
        let class = ctx.partner(Kind::GATEWAY_CLASS, "default", class.text()?)?;
        let controller = class.path(&["spec", "controllerName"]);
        let known = CONTROLLERS.iter().find(|(name, _)| controller.text() == Some(*name));
        known.map(|(_, proxy)| *proxy)
    })
}

/// Whether a policy may set the timeout of a route.
fn is_set_elsewhere(object: &Object, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let may_set = |policy: &Object| {
        let spec = policy.get("spec");
        let http = spec.path(&["timeout", "http"]);
        let sets = ["requestTimeout", "maxStreamDuration"].iter().any(|field| http.get(field).is_set());
        let single = spec.get("targetRef");
        let selects = spec.get("targetSelectors").is_set() || spec.has_unknown_key();
        (sets || http.is_unknown() || policy.may_lack_fields())
            && (selects
                || single.is_set() && may_target(policy, &single, object)
                || spec.get("targetRefs").items().any(|target| may_target(policy, &target, object)))
    };
    cluster.has_any(Kind::ENVOY_PATCH_POLICY) || cluster.of(Kind::BACKEND_TRAFFIC_POLICY).any(may_set)
}

/// Whether a target of a policy may be a route, or one of its Gateways. Targets are in the namespace of the policy, which may be
/// given where it is applied.
fn may_target(policy: &Object, target: &Node<'_>, route: &Object) -> bool {
    let is_there = |namespace: Option<&str>| {
        let own = policy.namespace().filter(|_| !policy.is_namespace_unknown());
        own.zip(namespace).is_none_or(|(own, namespace)| own == namespace)
    };
    let name = target.get("name").text();
    match target.get("kind").text() {
        Some(kind) if kind == Kind::GATEWAY.kind => {
            let mut parents = route.path(&["spec", "parentRefs"]).items();
            parents.any(|parent| {
                let namespace = parent.get("namespace");
                let namespace = if namespace.is_set() { namespace.text() } else { route.namespace() };
                (name.is_none() || parent.get("name").text() == name) && is_there(namespace)
            })
        }
        // An AIGatewayRoute becomes an HTTPRoute with its name.
        Some(kind) if kind == Kind::HTTP_ROUTE.kind => {
            name.is_none_or(|name| name == route.name()) && is_there(route.namespace())
        }
        Some(_) => false,
        None => true,
    }
}
