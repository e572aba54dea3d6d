//! Where an Ingress, or a route of KEDA's HTTP add-on, sends requests, and which controller reads an Ingress.

use crate::cluster::views::Workload;
use crate::rules::prelude::*;
use crate::workload::charts::installs;
use crate::workload::command::base_name;
use crate::workload::ports::{self, is_port, target_of};

/// What [`controller`] and [`installs_any`] look at.
pub(super) const CONTROLLER_KINDS: [Kind; 5] = [
    Kind::INGRESS_CLASS,
    Kind::HELM_RELEASE,
    Kind::ARGO_APPLICATION,
    Kind::ARGO_APPLICATION_SET,
    Kind::OCI_REPOSITORY,
];

/// Paths that programs ask for, which watch a server, and those of model servers that generate no text. Their answers are there at
/// once.
const WATCHED: [&str; 25] = [
    "/metrics",
    "/health",
    "/healthz",
    "/ready",
    "/readyz",
    "/livez",
    "/ping",
    "/version",
    "/v1/models",
    "/models",
    "/tokenize",
    "/detokenize",
    "/v1/embeddings",
    "/embeddings",
    "/embed",
    "/api/embed",
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
    "/v1/score",
    "/score",
    "/classify",
    "/pooling",
    "/api/tags",
    "/api/version",
];

/// Whether requests of a path only watch a server, or ask for something else that takes no time.
pub(super) fn is_watched(path: &str) -> bool {
    WATCHED.contains(&path.trim_end_matches('/'))
}

/// The Service that a route names, and the port of it: a number or a name.
pub(super) struct Backend<'a> {
    pub(super) service: Node<'a>,
    pub(super) port: Node<'a>,
    /// Whether no requests go there: with weight 0.
    pub(super) is_idle: bool,
    /// The path of the requests. `None` for all.
    path: Option<&'a str>,
}

impl<'a> Backend<'a> {
    /// The Service and the number of its port that a reference of a route names.
    pub(super) fn of_reference(reference: &Node<'a>) -> Backend<'a> {
        let is_idle = reference.get("weight").int() == Some(0);
        Backend { service: reference.get("name"), port: reference.get("port"), is_idle, path: None }
    }

    /// The name of the Service. `None` where it is that of an action in an annotation, which the controller of load balancers
    /// reads instead.
    pub(super) fn named_service(&self) -> Option<&'a str> {
        self.service.text().filter(|_| self.port.text() != Some("use-annotation"))
    }

    /// Whether only requests that take no time come this way.
    fn is_watched_only(&self) -> bool {
        self.path.is_some_and(is_watched)
    }
}

/// The backends of an Ingress, an HTTPScaledObject or an InterceptorRoute.
pub(super) fn backends(object: &Object) -> Vec<Backend<'_>> {
    let spec = object.get("spec");
    if object.is(Kind::INGRESS) {
        let rules = spec.get("rules");
        let paths: Vec<Node<'_>> = rules
            .items()
            .flat_map(|rule| rule.path(&["http", "paths"]).items().collect::<Vec<_>>())
            .collect();
        let all = paths.iter().map(|path| (path.get("path").text(), path.get("backend")));
        return all
            .chain([(None, spec.get("defaultBackend"))])
            .map(|(path, backend)| {
                let service = backend.get("service");
                Backend { path, ..of(&service.get("name"), &service.get("port"), "number", "name") }
            })
            .collect();
    }
    let target = spec.get(if object.is(Kind::HTTP_SCALED_OBJECT) { "scaleTargetRef" } else { "target" });
    vec![of(&target.get("service"), &target, "port", "portName")]
}

/// The Service that answers where the target of an HTTPScaledObject or an InterceptorRoute is not ready in time.
pub(super) fn fallback(object: &Object) -> Option<Backend<'_>> {
    let (holder, name) = if object.is(Kind::HTTP_SCALED_OBJECT) {
        (object.path(&["spec", "coldStartTimeoutFailoverRef"]), "service")
    } else {
        (object.path(&["spec", "coldStart", "fallback", "service"]), "name")
    };
    holder.is_set().then(|| of(&holder.get(name), &holder, "port", "portName"))
}

fn of<'a>(service: &Node<'a>, port: &Node<'a>, number: &str, name: &str) -> Backend<'a> {
    let named = port.get(name);
    let port = if named.is_set() { named } else { port.get(number) };
    Backend { service: service.clone(), port, is_idle: false, path: None }
}

/// Controllers whose annotations and defaults are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    /// The AWS Load Balancer Controller, and EKS Auto Mode.
    Alb,
    /// `ingress-nginx` of Kubernetes.
    Nginx,
}

/// Words in the classes of controllers whose annotations have the prefix of ingress-nginx, but other names and defaults.
const OTHER_CONTROLLERS: [&str; 10] =
    ["apig", "apisix", "cilium", "haproxy", "higress", "istio", "kong", "mse", "tengine", "traefik"];

/// The controller of an Ingress, by its class and its annotations. `None` for another one, one that is not known, or nginx where
/// it passes TLS on to the pods without reading requests.
pub(super) fn controller(object: &Object, ctx: &Context<'_>) -> Option<Controller> {
    let annotations = object.path(&["metadata", "annotations"]).entries();
    let has = |prefix: &str| annotations.iter().any(|(key, _)| key.starts_with(prefix));
    let class =
        [object.path(&["spec", "ingressClassName"]), object.annotation("kubernetes.io/ingress.class")];
    let class = class.iter().find_map(Node::text).unwrap_or_default();
    // The controller of F5, whose class is often called `nginx` as well.
    if has("nginx.org/") || has("nginx.com/") {
        return None;
    }
    if object.annotation("nginx.ingress.kubernetes.io/ssl-passthrough").text() == Some("true") {
        return None;
    }
    let known = ctx.partner(Kind::INGRESS_CLASS, "default", class);
    if let Some(name) = known.and_then(|known| known.path(&["spec", "controller"]).text()) {
        return match name {
            "ingress.k8s.aws/alb" | "eks.amazonaws.com/alb" => Some(Controller::Alb),
            // A second one has a name of its own, such as `k8s.io/internal-ingress-nginx`.
            _ if name.starts_with("k8s.io/") && name.contains("nginx") => Some(Controller::Nginx),
            _ => None,
        };
    }
    let is_of = |word: &str| class.split('-').any(|part| part == word);
    if OTHER_CONTROLLERS.into_iter().any(is_of) {
        return None;
    }
    match () {
        () if has("alb.ingress.kubernetes.io/") => Some(Controller::Alb),
        () if has("nginx.ingress.kubernetes.io/") => Some(Controller::Nginx),
        () if is_of("alb") && !is_of("nginx") => Some(Controller::Alb),
        () if is_of("nginx") && !is_of("alb") => Some(Controller::Nginx),
        () => None,
    }
}

/// Whether parameters of a class, which come before the annotations of an Ingress, may hold.
pub(super) fn has_class_params(ctx: &Context<'_>) -> bool {
    [Kind::INGRESS_CLASS_PARAMS, Kind::AUTO_MODE_INGRESS_CLASS_PARAMS]
        .iter()
        .any(|kind| ctx.cluster().has_any(*kind))
}

/// Whether nginx may have another default for a setting: by a ConfigMap, or by values of its chart.
pub(super) fn may_change_default(setting: &str, ctx: &Context<'_>) -> bool {
    let mut configs = ctx.cluster().of(Kind::CONFIG_MAP);
    configs.any(|config| config.path(&["data", setting]).is_set())
        // The chart of Kubernetes and that of Bitnami.
        || ["ingress-nginx", "nginx-ingress-controller"].iter().any(|chart| installs_any(ctx, chart))
}

/// Whether the input installs a chart, whose values may set other defaults.
pub(in crate::rules) fn installs_any(ctx: &Context<'_>, chart: &str) -> bool {
    let cluster = ctx.cluster();
    let is_of_chart = |repository: &Object| {
        repository.path(&["spec", "url"]).text().is_some_and(|url| base_name(url) == chart)
    };
    chart_installers(cluster).chain(cluster.of(Kind::ARGO_APPLICATION_SET)).any(|one| installs(one, chart))
        || cluster.of(Kind::OCI_REPOSITORY).any(is_of_chart)
}

/// The containers that requests through an Ingress arrive at, each with its workload.
pub(super) fn containers_behind<'i>(object: &Object, ctx: &Context<'i>) -> Vec<(&'i Object, Node<'i>)> {
    let namespace = object.namespace_or_default();
    let of = |backend: Backend<'_>| {
        let service = ctx.cluster().unique(Kind::SERVICE, namespace, backend.named_service()?)?;
        Some(containers_of_service(service, &backend.port, ctx))
    };
    let backends = backends(object).into_iter().filter(|backend| !backend.is_watched_only());
    backends.filter_map(of).flatten().collect()
}

/// The containers behind a port of a Service, each with its workload.
pub(super) fn containers_of_service<'i>(
    service: &Object,
    port: &Node<'_>,
    ctx: &Context<'i>,
) -> Vec<(&'i Object, Node<'i>)> {
    let mut ports = service.path(&["spec", "ports"]).items();
    let target = ports.find(|entry| is_port(entry, "port", port)).map(|entry| target_of(&entry));
    let (workloads, _) = ctx.cluster().views().selected_by_service(service);
    containers_of_workloads(&workloads, target.as_ref(), ctx)
}

/// The containers of some workloads that listen on a port, each with its workload; all of them where none lists the port.
pub(super) fn containers_of_workloads<'i>(
    workloads: &[&'i Workload],
    target: Option<&Node<'_>>,
    ctx: &Context<'i>,
) -> Vec<(&'i Object, Node<'i>)> {
    let mut all = Vec::new();
    for workload in workloads.iter().filter(|workload| ctx.pairs_with(&workload.object)) {
        let owner: &Object = &workload.object;
        for template in templates(owner) {
            let is_target =
                |container: &Node<'i>| target.is_some_and(|target| ports::find(container, target).is_some());
            let mut found: Vec<Node<'i>> = template.lasting_containers().filter(is_target).collect();
            // A container may listen on a port that it does not list.
            if found.is_empty() {
                found.extend(template.containers());
            }
            all.extend(found.into_iter().map(|container| (owner, container)));
        }
    }
    all
}
