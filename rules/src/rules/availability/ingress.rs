//! Where an Ingress, or a route of KEDA's HTTP add-on, sends requests, and which controller reads an Ingress.

use crate::cluster::values::{chart_installers, installs};
use crate::rules::prelude::*;

/// The Service that a route names, and the port of it: a number or a name.
pub(super) struct Backend<'a> {
    pub(super) service: Node<'a>,
    pub(super) port: Node<'a>,
}

impl<'a> Backend<'a> {
    /// The name of the Service. `None` where it is that of an action in an annotation, which the controller of load balancers
    /// reads instead.
    pub(super) fn named_service(&self) -> Option<&'a str> {
        self.service.text().filter(|_| self.port.text() != Some("use-annotation"))
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
        let all = paths.iter().map(|path| path.get("backend")).chain([spec.get("defaultBackend")]);
        return all
            .map(|backend| {
                of(&backend.path(&["service", "name"]), &backend.path(&["service", "port"]), "number", "name")
            })
            .collect();
    }
    let target = spec.get(if object.is(Kind::HTTP_SCALED_OBJECT) { "scaleTargetRef" } else { "target" });
    vec![of(&target.get("service"), &target, "port", "portName")]
}

fn of<'a>(service: &Node<'a>, port: &Node<'a>, number: &str, name: &str) -> Backend<'a> {
    let named = port.get(name);
    Backend { service: service.clone(), port: if named.is_set() { named } else { port.get(number) } }
}

/// Controllers whose annotations and defaults are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    /// The AWS Load Balancer Controller, and EKS Auto Mode.
    Alb,
    /// `ingress-nginx` of Kubernetes.
    Nginx,
}

/// The controller of an Ingress, by its class and its annotations. `None` for another one, or one that is not known.
pub(super) fn controller(object: &Object) -> Option<Controller> {
    let annotations = object.path(&["metadata", "annotations"]).entries();
    let has = |prefix: &str| annotations.iter().any(|(key, _)| key.starts_with(prefix));
    let class =
        [object.path(&["spec", "ingressClassName"]), object.annotation("kubernetes.io/ingress.class")];
    let class = class.iter().find_map(Node::text).unwrap_or_default();
    // The controller of F5, whose class is often called `nginx` as well.
    if has("nginx.org/") || has("nginx.com/") {
        return None;
    }
    let is_of = |word: &str| class.split('-').any(|part| part == word);
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
    configs.any(|config| config.path(&["data", setting]).is_set()) || installs_any(ctx, "ingress-nginx")
}

/// Whether the input installs a chart, whose values may set other defaults.
pub(super) fn installs_any(ctx: &Context<'_>, chart: &str) -> bool {
    chart_installers(ctx.cluster()).any(|object| installs(object, chart))
}

/// The containers of the workloads behind the Services of an Ingress, each with its workload.
pub(super) fn containers_behind<'i>(object: &Object, ctx: &Context<'i>) -> Vec<(&'i Object, Node<'i>)> {
    let cluster = ctx.cluster();
    let mut all = Vec::new();
    for backend in backends(object) {
        let Some(name) = backend.named_service() else { continue };
        let Some(service) = cluster.unique(Kind::SERVICE, object.namespace_or_default(), name) else {
            continue;
        };
        let (workloads, _) = cluster.views().selected_by_service(service);
        for workload in workloads.iter().filter(|workload| ctx.pairs_with(&workload.object)) {
            let owner: &Object = &workload.object;
            let containers = templates(owner).into_iter().flat_map(|template| template.containers());
            all.extend(containers.map(|container| (owner, container)));
        }
    }
    all
}
