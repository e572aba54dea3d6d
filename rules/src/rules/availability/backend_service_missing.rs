//! A route sends requests to a Service or a port that is not there.
//!
//! # Why
//! An Ingress names a Service of its own namespace, and a port of that Service: `port`, not the
//! `targetPort` at which the pods listen. With another number each request ends in 502 or 503, and the AWS
//! Load Balancer Controller creates no load balancer at all. `ingress-nginx` alone also finds a port by its
//! `targetPort`, so there nothing is said. KEDA's HTTP add-on connects to the Service at the port that
//! `scaleTargetRef` of an HTTPScaledObject, or `target` of an InterceptorRoute, names, and so for the
//! fallbacks: its interceptor wakes the workload, waits for it, and then answers 502.
//! `KEDA_HTTP_DIRECT_POD_ROUTING` sends requests to the pods themselves: where the input has it, nothing is
//! said of a Service with one port that has no name.
//!
//! The API server calls a webhook at port 443 of its Service, or at `clientConfig.service.port`: where the
//! Service has no such port, each call fails.
//!
//! A Gateway answers 500 to requests of an HTTPRoute, a GRPCRoute or an AIGatewayRoute that names a port which
//! the Service does not have, or an InferencePool of another API group: `inference.networking.x-k8s.io` had
//! the pools before v1, and `inference.networking.k8s.io` has them since. These are errors.
//!
//! A Service that is not in the input is reported only if the one that is meant is: a Service of that name in
//! another namespace, or one whose name differs by an ending such as `-svc`, where no operator may make it of
//! an object with such a name, such as an InferenceService; an InferencePool only beside one of the other
//! group, or one whose name has a letter more or less. The add-on's interceptor,
//! `keda-add-ons-http-interceptor-proxy`, is where the add-on is installed, if the input shows that.
//!
//! # Fix
//! Write the name or the number of a port of the Service, and keep the route in the namespace of the Service.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: http.keda.sh/v1alpha1
//!  kind: HTTPScaledObject
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    hosts: [chat.example.com]
//!    scaleTargetRef:
//!      name: chat
//!      kind: Deployment
//!      apiVersion: apps/v1
//!      service: chat
//! -    port: 8000 # <-
//! +    port: 80
//!    replicas: {min: 1, max: 4}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {app: chat}
//!    ports: [{name: http, port: 80, targetPort: 8000}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/ingress/#resource-backend>
//! - <https://keda.sh/http-add-on/latest/reference/httpscaledobject/>
//! - <https://github.com/kubernetes/ingress-nginx/blob/main/internal/ingress/controller/controller.go>
//! - <https://gateway-api.sigs.k8s.io/reference/spec/#httpbackendref>
//! - <https://gateway-api-inference-extension.sigs.k8s.io/guides/ga-migration/>

use super::gateway_route::{POOLS, RouteBackend, backends_of};
use super::ingress::{Backend, Controller, backends, controller, fallback};
use crate::cluster::together::is_in_written_namespace;
use crate::cluster::versions::Fact;
use crate::rules::autoscaling::{is_made_by_operator, is_named_after};
use crate::rules::prelude::*;
use crate::workload::charts::{installs, is_for_other_cluster, target_namespace};

/// Workloads are read for the Services that their operators make.
const READS: &[Kind] = kinds![
    [
        Kind::SERVICE,
        Kind::INGRESS_CLASS,
        Kind::INFERENCE_POOL,
        Kind::INFERENCE_POOL_ALPHA,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION
    ],
    WORKLOAD_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "backend-service-missing",
    kinds: &[
        Kind::INGRESS,
        Kind::HTTP_SCALED_OBJECT,
        Kind::INTERCEPTOR_ROUTE,
        Kind::HTTP_ROUTE,
        Kind::GRPC_ROUTE,
        Kind::AI_GATEWAY_ROUTE,
        Kind::VALIDATING_WEBHOOK_CONFIGURATION,
        Kind::MUTATING_WEBHOOK_CONFIGURATION,
    ],
    reads: READS,
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("backend_service_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The Service of KEDA's HTTP add-on that takes requests, as its chart names it.
pub(super) const INTERCEPTOR: &str = "keda-add-ons-http-interceptor-proxy";
/// Kinds with pod templates of which a controller also makes Services: `NAME-head-svc` and `NAME-serve-svc` (KubeRay), or `NAME`.
const MAKERS: [Kind; 4] = [Kind::RAY_CLUSTER, Kind::RAY_SERVICE, Kind::LEADER_WORKER_SET, Kind::JOB_SET];
/// The chart of the add-on.
const ADD_ON: &str = "keda-add-ons-http";
/// Endings of the names of Services that people add and leave out.
const ENDINGS: [&str; 4] = ["-svc", "-service", "-server", ""];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.group() == Kind::VALIDATING_WEBHOOK_CONFIGURATION.group {
        check_webhooks(object, ctx);
        return None;
    }
    if object.may_lack_fields() || object.is_namespace_unknown() {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    if !is_of_gateway(object) {
        for backend in backends(object).into_iter().chain(fallback(object)) {
            check_service(object, &backend, object.namespace_or_default(), &mut names, ctx);
        }
        return None;
    }
    for rule in object.path(&["spec", "rules"]).items() {
        for backend in backends_of(object, &rule) {
            if backend.is(Kind::SERVICE) {
                let service = Backend::of_reference(&backend.node);
                check_service(object, &service, backend.namespace, &mut names, ctx);
            } else if backend.kind == Kind::INFERENCE_POOL.kind {
                check_pool(object, &backend, ctx);
            }
        }
    }
    None
}

/// Whether an object is a route of a Gateway, which may name Services of other namespaces.
fn is_of_gateway(object: &Object) -> bool {
    [Kind::HTTP_ROUTE, Kind::GRPC_ROUTE, Kind::AI_GATEWAY_ROUTE].iter().any(|kind| object.is(*kind))
}

fn check_service<'a>(
    object: &Object,
    backend: &Backend<'a>,
    namespace: &str,
    names: &mut Vec<&'a str>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = backend.named_service()?;
    match ctx.cluster().all("", "Service", namespace, name) {
        [] if !names.contains(&name) && namespace == object.namespace_or_default() => {
            names.push(name);
            report_missing(object, backend, name, ctx);
        }
        [] if !names.contains(&name) => {
            names.push(name);
            report_absent(backend, namespace, name, ctx);
        }
        [service] if ctx.pairs_with(service) => {
            check_port(object, backend, service, ctx);
        }
        _ => {}
    }
    None
}

/// Reports an InferencePool that is not there, if one of the other API group is, or one whose name has a letter more or less.
fn check_pool(object: &Object, backend: &RouteBackend<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let (namespace, name) = (backend.namespace, backend.name);
    let of_group = POOLS.into_iter().find(|kind| backend.is(*kind));
    let is_here = of_group.is_some_and(|kind| cluster.has(kind, namespace, name));
    let may_be_here = may_bring_objects(cluster) || may_be_unread(cluster, "InferencePool", name);
    if is_here || may_be_here || !is_in_written_namespace(object) {
        return None;
    }
    let shown = ellipsize(name);
    let likely = |pool: &&Object| cluster.likely_pairs(object, pool);
    let other = POOLS.iter().find_map(|kind| cluster.unique(*kind, namespace, name));
    if let Some(pool) = other.filter(likely) {
        let group = pool.group();
        let message = format!(
            "InferencePool `{shown}` is one of `{group}`, and this {} names another group",
            object.kind()
        );
        let field = backend.node.get("group");
        let finding = ctx.report(&field, message);
        finding.severity(Severity::Error).related(pool, &pool.path(&["apiVersion"]), "the pool");
        // An AIGatewayRoute accepts the group of v1 alone.
        if object.is(Kind::AI_GATEWAY_ROUTE) && pool.is(Kind::INFERENCE_POOL_ALPHA) {
            finding.help(format!("make the pool one of `{}/v1`", Kind::INFERENCE_POOL.group));
        } else {
            finding
                .help(format!("write `group: {group}`"))
                .fix(Fix::unsafe_(format!("name the pool of `{group}`")).set(&field, json!(group)));
        }
        return None;
    }
    let rules: Vec<Node<'_>> = object.path(&["spec", "rules"]).items().collect();
    let mut alike = cluster.in_namespace(of_group?, namespace).filter(likely).filter(|pool| {
        let other = pool.name();
        let is_other = |one: RouteBackend<'_>| {
            one.group == backend.group && one.kind == backend.kind && one.name == other
        };
        (has_one_letter_more(name, other) || has_one_letter_more(other, name))
            && !rules.iter().any(|rule| backends_of(object, rule).into_iter().any(is_other))
    });
    let pool = alike.next()?;
    let meant = pool.name();
    ctx.report(&backend.node.get("name"), format!("there is no InferencePool `{shown}` here, but `{meant}`"))
        .help(format!("write `{meant}`, or rename the pool"))
        .related(pool, &pool.path(&["metadata", "name"]), "the pool")
        .fix(
            Fix::unsafe_(format!("send requests to `{meant}`")).set(&backend.node.get("name"), json!(meant)),
        );
    None
}

/// Whether a name is another one with one letter more. Digits tell pools of several models apart, and so do single letters: `qwen-v`
/// and `qwen-vl`.
fn has_one_letter_more(longer: &str, shorter: &str) -> bool {
    if shorter.rsplit('-').next().is_none_or(|word| word.len() < 2) {
        return false;
    }
    let mut letters = longer.char_indices().filter(|(_, letter)| letter.is_ascii_alphabetic());
    longer.len() == shorter.len() + 1
        && letters.any(|(at, _)| shorter.starts_with(&longer[..at]) && shorter.ends_with(&longer[at + 1..]))
}

fn check_port(object: &Object, backend: &Backend<'_>, service: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = service.get("spec");
    let ports = spec.get("ports");
    let wanted = backend.port.string_or_number()?;
    // Where the add-on sends requests to the pods themselves, a port without a name is the one of the pods.
    let mut all = ports.items();
    let is_single = all.next().is_some_and(|port| !port.get("name").is_set()) && all.next().is_none();
    let is_open = service.may_lack_fields()
        || object.group() == Kind::INTERCEPTOR_ROUTE.group && is_single && routes_to_pods(ctx)
        || spec.get("type").text() == Some("ExternalName")
        || ports.has_unknown();
    if is_open || ports.items().next().is_none() {
        return None;
    }
    // The add-on resolves a headless Service to the pods themselves. `ingress-nginx`, which another class may be as well,
    // compares the `targetPort` too.
    let reaches_pods = spec.get("clusterIP").text() == Some("None");
    let by_target =
        object.is(Kind::INGRESS) && controller(object, ctx) != Some(Controller::Alb) || reaches_pods;
    let keys: &[&str] = if by_target { &["port", "name", "targetPort"] } else { &["port", "name"] };
    let has =
        |port: &Node<'_>, key: &str| port.get(key).string_or_number().is_some_and(|text| text == wanted);
    let mut items = ports.items();
    if items.any(|port| keys.iter().any(|key| has(&port, key))) {
        return None;
    }
    let owner = ellipsize(service.name());
    let message = format!("Service `{owner}` has no port `{}`", ellipsize(&wanted));
    let listed: Vec<Node<'_>> = ports.items().collect();
    let meant =
        listed.iter().find(|port| has(port, "targetPort")).or(listed.first().filter(|_| listed.len() == 1));
    let field = if backend.port.int().is_some() { "port" } else { "name" };
    let is_sure = is_of_gateway(object) && !backend.is_idle && ctx.cluster().likely_pairs(object, service);
    let finding = ctx.report(&backend.port, message);
    finding.severity(if is_sure { Severity::Error } else { Severity::Warning });
    finding.related(service, &ports, "its ports");
    match meant.map(|port| port.get(field)).and_then(|own| Some((own.string_or_number()?, own))) {
        Some((text, own)) => {
            let why = if meant.is_some_and(|port| has(port, "targetPort")) {
                ": the pods listen on the other one"
            } else {
                ""
            };
            let value = own.int().map_or_else(|| json!(text), |number| json!(number));
            finding.help(format!("write `{text}`, the port of the Service{why}")).fix(
                Fix::unsafe_(format!("send requests to port {text} of the Service"))
                    .set(&backend.port, value),
            );
        }
        None => {
            finding.help("write one of its ports");
        }
    }
    None
}

/// Whether the interceptor of the add-on may be set to send requests to pods, which is off by default (`interceptor/config/serving.go`
/// of its repository in June 2026, after 0.14).
fn routes_to_pods(ctx: &Context<'_>) -> bool {
    const VARIABLE: &str = "KEDA_HTTP_DIRECT_POD_ROUTING";
    let by_chart = |installer: &Object| {
        let mut is_set = false;
        for_each_values(installer, ADD_ON, |values| {
            let variables = values.root.path(&["interceptor", "extraEnvs"]);
            is_set |= values.may_differ || variables.has_unknown() || variables.get(VARIABLE).is_set();
        });
        is_set
    };
    let has_variable = |container: Node<'_>| {
        container.get("env").items().any(|variable| variable.get("name").text() == Some(VARIABLE))
    };
    let by_set = |workload: &Object| templates(workload).iter().any(|one| one.containers().any(has_variable));
    chart_installers(ctx.cluster()).any(by_chart) || ctx.cluster().of(Kind::DEPLOYMENT).any(by_set)
}

/// Reports a webhook whose Service lacks the port at which the API server calls it.
fn check_webhooks(object: &Object, ctx: &mut Context<'_>) {
    const DEFAULT: i64 = 443;
    for webhook in object.root().items_at(&["webhooks"]) {
        let reference = webhook.path(&["clientConfig", "service"]);
        let (name, namespace, port) =
            (reference.get("name"), reference.get("namespace"), reference.get("port"));
        let (Some(text), Some(namespace), Some(number)) =
            (name.text(), namespace.text(), port.int_or(DEFAULT))
        else {
            continue;
        };
        let Some(service) = ctx.partner(Kind::SERVICE, namespace, text) else { continue };
        let ports = service.path(&["spec", "ports"]);
        let has = |port: &Node<'_>| port.get("port").int() == Some(number);
        let is_open = service.may_lack_fields()
            || object.may_lack_fields()
            || ports.has_unknown()
            || service.path(&["spec", "type"]).text() == Some("ExternalName");
        if is_open || ports.items().next().is_none() || ports.items().any(|port| has(&port)) {
            continue;
        }
        let message =
            format!("Service `{}` has no port `{number}`: each call of the webhook fails", ellipsize(text));
        let mut all = ports.items().map(|port| port.get("port").int());
        let only = all.next().flatten().filter(|_| all.next().is_none());
        let help = match only {
            Some(only) => format!("write `port: {only}`, or give the Service a port {number}"),
            None => "write `port` with one of the ports of the Service".to_owned(),
        };
        let place = if port.is_set() { port } else { name };
        ctx.report(&place, message).help(help).related(service, &ports, "its ports");
    }
}

/// Reports a Service that is not in the namespace of its route, if another one is certainly meant.
fn report_missing(object: &Object, backend: &Backend<'_>, name: &str, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let namespace = object.namespace_or_default();
    if !is_in_written_namespace(object) {
        return None;
    }
    if name == INTERCEPTOR {
        return report_interceptor(object, backend, ctx);
    }
    let mut makers = MAKERS.iter().flat_map(|kind| cluster.in_namespace(*kind, namespace));
    if may_bring_objects(cluster)
        || may_be_unread(cluster, Kind::SERVICE.kind, name)
        || is_made_by_operator(object, name, ctx)
        || makers.any(|maker| is_named_after(name, maker))
    {
        return None;
    }
    let kind = object.kind();
    if let Some(service) = cluster.only_elsewhere(object, Kind::SERVICE, name)
        && service.path(&["spec", "type"]).text() != Some("ExternalName")
    {
        let there = ellipsize(service.namespace_or_default());
        let message = format!(
            "Service `{}` is in namespace `{there}`, and this {kind} in another one",
            ellipsize(name)
        );
        let help = match is_of_gateway(object) {
            true => format!("write `namespace: {there}`, and allow it there with a ReferenceGrant"),
            false => {
                format!(
                    "put the {kind} into namespace `{there}`: it reaches Services of its own namespace alone"
                )
            }
        };
        ctx.report(&backend.service, message).help(help).related(
            service,
            &service.path(&["metadata", "namespace"]),
            "the Service",
        );
        return None;
    }
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let alike = ENDINGS.iter().map(|ending| format!("{stem}{ending}")).filter(|other| other != name);
    let found: Vec<&Object> = alike.flat_map(|other| cluster.all("", "Service", namespace, &other)).collect();
    let [service] = found.as_slice() else { return report_absent(backend, namespace, name, ctx) };
    if !cluster.surely_pairs(object, service) {
        return None;
    }
    let meant = service.name();
    ctx.report(
        &backend.service,
        format!("there is no Service `{}` here, but `{}`", ellipsize(name), ellipsize(meant)),
    )
    .help(format!("write `{meant}`, or rename the Service"))
    .related(service, &service.path(&["metadata", "name"]), "the Service")
    .fix(Fix::unsafe_(format!("send requests to `{meant}`")).set(&backend.service, json!(meant)));
    None
}

/// Reports a Service that a whole cluster does not have, in a namespace for which the input has others.
fn report_absent(backend: &Backend<'_>, namespace: &str, name: &str, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let mut others = cluster.in_namespace(Kind::SERVICE, namespace);
    let makes = |kind: &Kind| cluster.in_namespace(*kind, namespace).next().is_some();
    if !cluster.is_complete()
        || cluster.is_shown(&Fact::Elsewhere)
        || may_bring_objects(cluster)
        || MAKERS.iter().any(makes)
        || !cluster.views().pod_makers().0.is_empty()
    {
        return None;
    }
    let other = others.next()?;
    let message = format!("namespace `{}` has no Service `{}`", ellipsize(namespace), ellipsize(name));
    let near = nearest(name, cluster.in_namespace(Kind::SERVICE, namespace).map(Object::name));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "requests that are sent there fail: write the name of a Service that exists".to_owned(),
    };
    let place = other.path(&["metadata", "name"]);
    ctx.report(&backend.service, message).help(help).related(other, &place, "the namespace has this one");
    None
}

/// Reports a route to the interceptor of KEDA's HTTP add-on that is not in its namespace.
fn report_interceptor(object: &Object, backend: &Backend<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    let (source, there) = addon_namespace(object, ctx).filter(|(_, there)| *there != namespace)?;
    // Another chart may bring a Service of that name, which leads there.
    let may_bring = |one: &Object| {
        !installs(one, ADD_ON) && target_namespace(one).is_none_or(|target| target == namespace)
    };
    if chart_installers(ctx.cluster()).any(may_bring) {
        return None;
    }
    let (kind, there) = (object.kind(), ellipsize(there));
    let message =
        format!("Service `{INTERCEPTOR}` is in namespace `{there}`, and this {kind} in another one");
    let help = match () {
        () if object.group() == "gateway.networking.k8s.io" => {
            format!("write `namespace: {there}`, and allow it there with a ReferenceGrant")
        }
        // Its load balancers have pods or nodes as targets, and not the name of a host.
        () if controller(object, ctx) == Some(Controller::Alb) => {
            format!("put the {kind} into namespace `{there}`: it reaches Services of its own namespace alone")
        }
        () => format!(
            "put the {kind} into namespace `{there}`, or name a Service of type `ExternalName` that leads there"
        ),
    };
    let place = source.path(&["metadata", "name"]);
    ctx.report(&backend.service, message).help(help).related(source, &place, "it shows where the add-on is");
    None
}

/// The namespace of KEDA's HTTP add-on, with what shows it: the object that installs it, the Service of its interceptor, or another
/// one that leads to it. `None` if there is none, or not all agree.
fn addon_namespace<'i>(object: &Object, ctx: &Context<'i>) -> Option<(&'i Object, &'i str)> {
    let cluster = ctx.cluster();
    let installers = chart_installers(cluster)
        .filter(|one| installs(one, ADD_ON) && !is_for_other_cluster(one))
        .map(|one| (one, target_namespace(one)));
    let services = cluster.of(Kind::SERVICE).filter_map(|service| {
        let host = service.path(&["spec", "externalName"]);
        if let Some(host) = host.text() {
            let rest = host.strip_prefix(INTERCEPTOR)?.strip_prefix('.')?;
            return Some((service, rest.split('.').next()));
        }
        let own = service.namespace().filter(|_| is_in_written_namespace(service));
        (service.name() == INTERCEPTOR).then_some((service, own))
    });
    let all = installers.chain(services).filter(|(one, _)| ctx.pairs_with(one));
    let all: Vec<(&'i Object, Option<&'i str>)> = all.collect();
    let (source, namespace) = *all.iter().find(|(one, _)| cluster.surely_pairs(object, one))?;
    let namespace = namespace?;
    all.iter().all(|(_, other)| *other == Some(namespace)).then_some((source, namespace))
}
