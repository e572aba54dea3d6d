//! Requests go around the interceptor of KEDA's HTTP add-on, or it knows no target.
//!
//! # Why
//! An HTTPScaledObject counts the requests that its interceptor sees. A route that sends its host straight to
//! the Service of the target never passes there: with a minimum of 0 nothing is counted, nothing starts, and
//! clients get 503 for ever. Nothing is said of a host that also has a route to the interceptor, nor where
//! charts may bring one.
//!
//! The interceptor knows a request by its host, and by the path if `pathPrefixes` are given. It answers 404
//! to a host that no HTTPScaledObject lists. Nothing is said of that where charts or InterceptorRoutes may
//! add hosts.
//!
//! # Fix
//! Send the host to `keda-add-ons-http-interceptor-proxy`. An Ingress in another namespace needs a Service of
//! the type ExternalName for that, an HTTPRoute a ReferenceGrant. List each host in `spec.hosts`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: Ingress
//!  metadata: {name: docs, namespace: web}
//!  spec:
//!    ingressClassName: nginx
//!    rules:
//!      - host: docs.example.com
//!        http:
//!          paths:
//!            - path: /
//!              pathType: Prefix
//!              backend:
//!                service:
//! -                name: docs # <-
//! +                name: docs-interceptor
//!                  port: {number: 8080}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: docs-interceptor, namespace: web}
//!  spec:
//!    type: ExternalName
//!    externalName: keda-add-ons-http-interceptor-proxy.keda.svc.cluster.local
//!    ports: [{name: http, port: 8080}]
//!  ---
//!  apiVersion: http.keda.sh/v1alpha1
//!  kind: HTTPScaledObject
//!  metadata: {name: docs, namespace: web}
//!  spec:
//!    hosts: [docs.example.com]
//!    scaleTargetRef: {name: docs, kind: Deployment, apiVersion: apps/v1, service: docs, port: 8080}
//!    replicas: {min: 0, max: 4}
//! ```
//!
//! # References
//! - <https://keda.sh/http-add-on/latest/reference/httpscaledobject/>
//! - <https://github.com/kedacore/http-add-on/blob/main/docs/walkthrough.md>

use super::backend_service_missing::INTERCEPTOR;
use super::gateway_route::backends_of;
use super::ingress::is_watched;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "interceptor-bypassed",
    kinds: &[Kind::INGRESS, Kind::HTTP_ROUTE],
    reads: &[
        Kind::INGRESS,
        Kind::HTTP_ROUTE,
        Kind::HTTP_SCALED_OBJECT,
        Kind::INTERCEPTOR_ROUTE,
        Kind::SERVICE,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
    ],
    docs: docs(include_str!("interceptor_bypassed.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

/// With this annotation another ScaledObject scales the target (HTTP add-on 0.8).
const OWN_SCALER: &str = "httpscaledobject.keda.sh/skip-scaledobject-creation";
/// Annotations with which the host that arrives is another one, or requests go elsewhere as well.
const CHANGES_ROUTE: [&str; 2] =
    ["nginx.ingress.kubernetes.io/upstream-vhost", "nginx.ingress.kubernetes.io/canary"];

/// A Service to which a route sends requests.
struct Route<'a> {
    hosts: Vec<Node<'a>>,
    paths: Vec<&'a str>,
    service: Node<'a>,
    namespace: &'a str,
    /// Whether filters may change the host.
    is_filtered: bool,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_changed = CHANGES_ROUTE.into_iter().any(|name| object.annotation(name).is_set());
    if is_changed || object.may_lack_fields() || object.is_namespace_unknown() {
        return None;
    }
    for route in routes(object) {
        let Some(name) = route.service.text().filter(|_| !route.is_filtered) else { continue };
        let found = if is_intercepted(&route, ctx) {
            unknown_host(object, &route, ctx)
        } else if external_name(&route, ctx).is_some() {
            None
        } else {
            bypassed(object, &route, name, ctx)
        };
        if found.is_some() {
            return None;
        }
    }
    None
}

/// The host for which a Service of the type ExternalName stands.
fn external_name<'i>(route: &Route<'_>, ctx: &Context<'i>) -> Option<Node<'i>> {
    let service = ctx.cluster().unique(Kind::SERVICE, route.namespace, route.service.text()?)?;
    Some(service.path(&["spec", "externalName"])).filter(Node::is_set)
}

/// Whether a route goes to the interceptor, by its name or through an ExternalName Service.
fn is_intercepted(route: &Route<'_>, ctx: &Context<'_>) -> bool {
    let is_interceptor = |name: &str| {
        name.strip_prefix(INTERCEPTOR).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    route.service.text().is_some_and(is_interceptor)
        || external_name(route, ctx).is_some_and(|name| name.text().is_some_and(is_interceptor))
}

/// The hosts of all routes to the interceptor: any of them starts the target. An empty one stands for all hosts.
fn intercepted_hosts(ctx: &Context<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for object in [Kind::INGRESS, Kind::HTTP_ROUTE].into_iter().flat_map(|kind| ctx.cluster().of(kind)) {
        for route in routes(object).iter().filter(|route| is_intercepted(route, ctx)) {
            if route.hosts.is_empty() {
                out.push(String::new());
            }
            out.extend(route.hosts.iter().map(|host| bare(host.text().unwrap_or_default())));
        }
    }
    out
}

/// A host without its port, which the interceptor does not compare (`pkg/routing/key.go` of the HTTP add-on).
fn bare(host: &str) -> String {
    host.split(':').next().unwrap_or(host).to_ascii_lowercase()
}

/// Whether a host is one of a list. An empty one and `*` stand for all hosts.
fn is_among(host: &str, hosts: &[String]) -> bool {
    hosts
        .iter()
        .any(|one| one.is_empty() || one.strip_prefix('*').map_or(one == host, |rest| host.ends_with(rest)))
}

fn routes(object: &Object) -> Vec<Route<'_>> {
    let mut out = Vec::new();
    let rules = object.path(&["spec", "rules"]);
    if object.is(Kind::INGRESS) {
        for rule in rules.items() {
            for path in rule.path(&["http", "paths"]).items() {
                out.push(Route {
                    hosts: vec![rule.get("host")],
                    paths: vec![path.get("path").text().unwrap_or("/")],
                    service: path.path(&["backend", "service", "name"]),
                    namespace: object.namespace_or_default(),
                    is_filtered: false,
                });
            }
        }
        return out;
    }
    let hosts: Vec<Node<'_>> = object.path(&["spec", "hostnames"]).items().collect();
    for rule in rules.items() {
        let is_filtered = rule.get("filters").items().next().is_some();
        let matches = rule.get("matches").items();
        let paths: Vec<&str> =
            matches.map(|one| one.path(&["path", "value"]).text().unwrap_or("/")).collect();
        for backend in backends_of(object, &rule) {
            if backend.is(Kind::SERVICE) && backend.node.get("weight").int() != Some(0) {
                let (service, namespace) = (backend.node.get("name"), backend.namespace);
                out.push(Route {
                    hosts: hosts.clone(),
                    paths: paths.clone(),
                    service,
                    namespace,
                    is_filtered,
                });
            }
        }
    }
    out
}

/// Reports a route to the Service of an HTTPScaledObject that rests at zero.
fn bypassed(object: &Object, route: &Route<'_>, service: &str, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if route.paths.iter().any(|path| is_watched(path)) || may_bring_objects(cluster) {
        return None;
    }
    let (scaler, host) =
        cluster.in_namespace(Kind::HTTP_SCALED_OBJECT, route.namespace).find_map(|scaler| {
            let spec = scaler.get("spec");
            let is_target = spec.path(&["scaleTargetRef", "service"]).text() == Some(service);
            let is_at_zero = spec.path(&["replicas", "min"]).int_or(0) == Some(0);
            let own = scaler.annotation(OWN_SCALER);
            let may_differ = scaler.may_lack_fields() || own.is_set() && own.text() != Some("false");
            if !is_target || !is_at_zero || may_differ || !cluster.likely_pairs(object, scaler) {
                return None;
            }
            let prefixes: Vec<Node<'_>> = spec.get("pathPrefixes").items().collect();
            let is_under =
                |path: &&str| prefixes.iter().any(|one| one.text().is_some_and(|one| path.starts_with(one)));
            if !prefixes.is_empty() && !route.paths.iter().any(is_under) {
                return None;
            }
            let listed = |host: &&Node<'_>| {
                let Some(host) = host.text().map(bare) else { return false };
                let mut own = spec.get("hosts").items();
                own.any(|one| one.text().map(bare).as_ref() == Some(&host))
            };
            Some((scaler, route.hosts.iter().find(listed)?))
        })?;
    // Other routes are looked at only if there is something to report.
    if is_among(&bare(host.text()?), &intercepted_hosts(ctx)) {
        return None;
    }
    let message = format!(
        "requests for `{}` never pass the interceptor: with no replicas, nothing starts `{}`",
        ellipsize(host.text()?),
        ellipsize(service)
    );
    ctx.report(&route.service, message)
        .help(format!(
            "send them to `{INTERCEPTOR}`, from another namespace through an ExternalName Service or a ReferenceGrant"
        ))
        .related(scaler, &scaler.path(&["spec", "hosts"]), "it scales by the requests for these hosts");
    Some(())
}

/// Reports a host for which the interceptor has no target, where all HTTPScaledObjects are known.
fn unknown_host(object: &Object, route: &Route<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if may_bring_objects(cluster) || cluster.has_any(Kind::INTERCEPTOR_ROUTE) {
        return None;
    }
    let mut known: Vec<String> = Vec::new();
    for scaler in cluster.of(Kind::HTTP_SCALED_OBJECT) {
        let hosts = scaler.path(&["spec", "hosts"]);
        let count = known.len();
        known.extend(hosts.items().filter_map(|one| one.text().map(bare)));
        // Without hosts it gets all requests, and in the first releases the field was `host`.
        let is_open = known.len() == count || hosts.has_unknown() || scaler.may_lack_fields();
        if is_open || !cluster.likely_pairs(object, scaler) {
            return None;
        }
    }
    let first = cluster.of(Kind::HTTP_SCALED_OBJECT).next()?;
    // A wildcard of the route may stand for hosts that are listed.
    let is_unknown = |host: &&Node<'_>| {
        host.text().is_some_and(|host| !host.starts_with('*') && !is_among(&bare(host), &known))
    };
    let host = route.hosts.iter().find(is_unknown)?;
    let message = format!(
        "no HTTPScaledObject has the host `{}`: the interceptor answers 404",
        ellipsize(host.text()?)
    );
    ctx.report(host, message)
        .severity(Severity::Warning)
        .help("list the host in `spec.hosts` of the HTTPScaledObject of its target")
        .related(first, &first.path(&["spec", "hosts"]), "hosts of the interceptor");
    Some(())
}
