//! A load balancer sends requests to ports of nodes, and the Service has none.
//!
//! # Why
//! With `target-type: instance`, the default of the AWS Load Balancer Controller, an Application Load
//! Balancer sends requests to a port of each node, which only Services of type `NodePort` or `LoadBalancer`
//! have. With a Service of type `ClusterIP` the controller reports an error and creates nothing: the Ingress
//! stays without an address. Targets of type `ip` are the pods themselves, which also spares the hop over
//! another node, and lets the load balancer stop sending requests to a pod that ends.
//!
//! Where no annotation says so, it is advice: the class or the controller's `defaultTargetType` may have `ip`
//! as the default, as EKS Auto Mode has. Where IngressClassParams are in the input nothing is said.
//!
//! # Fix
//! Write `alb.ingress.kubernetes.io/target-type: ip`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: Ingress
//!  metadata:
//!    name: chat
//!    namespace: models
//!    annotations:
//!      alb.ingress.kubernetes.io/scheme: internal
//! -    alb.ingress.kubernetes.io/target-type: instance # <-
//! +    alb.ingress.kubernetes.io/target-type: ip
//!  spec:
//!    ingressClassName: alb
//!    defaultBackend: {service: {name: chat, port: {number: 80}}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {app: chat}
//!    ports: [{port: 80, targetPort: 8000}]
//! ```
//!
//! # References
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/how-it-works/#ingress-traffic>
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/>
//! - <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/1695>

use super::ingress::{CONTROLLER_KINDS, Controller, backends, controller, has_class_params, installs_any};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "alb-target-cluster-ip",
    kinds: &[Kind::INGRESS],
    reads: kinds![
        CONTROLLER_KINDS,
        [
            Kind::SERVICE,
            Kind::AUTO_MODE_NODE_CLASS,
            Kind::INGRESS_CLASS_PARAMS,
            Kind::AUTO_MODE_INGRESS_CLASS_PARAMS
        ]
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("alb_target_cluster_ip.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

const TARGET: &str = "alb.ingress.kubernetes.io/target-type";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let annotations = object.path(&["metadata", "annotations"]);
    let is_open = object.may_lack_fields() || annotations.has_unknown_key() || has_class_params(ctx);
    if is_open || controller(object, ctx) != Some(Controller::Alb) {
        return None;
    }
    let of_ingress = object.annotation(TARGET);
    // Another default holds in EKS Auto Mode, and may where the input installs the controller.
    if !of_ingress.is_set()
        && (ctx.cluster().has_any(Kind::AUTO_MODE_NODE_CLASS)
            || installs_any(ctx, "aws-load-balancer-controller"))
    {
        return None;
    }
    for backend in backends(object) {
        let Some(name) = backend.named_service() else { continue };
        let Some(service) = ctx.partner(Kind::SERVICE, object.namespace_or_default(), name) else { continue };
        let kind = service.path(&["spec", "type"]);
        let has_no_port = !kind.is_set() || kind.text() == Some("ClusterIP");
        // The annotation of a Service comes before that of the Ingress.
        let of_service = service.annotation(TARGET);
        let is_instance = !of_ingress.is_set() || of_ingress.text() == Some("instance");
        if service.may_lack_fields() || !has_no_port || !is_instance || of_service.is_set() {
            continue;
        }
        let name = ellipsize(name);
        let by_default = if of_ingress.is_set() { "" } else { "by default " };
        let message = format!(
            "{by_default}the load balancer sends requests to nodes, and Service `{name}` has no port there: it is a `ClusterIP`"
        );
        let finding = ctx.report(&of_ingress, message);
        finding
            .help(format!("write `{TARGET}: ip`"))
            .fix(Fix::unsafe_("send requests to the pods").set(&of_ingress, json!("ip")))
            .related(service, &service.path(&["metadata", "name"]), "the Service");
        if !of_ingress.is_set() {
            finding.severity(Severity::Info);
        }
        return None;
    }
    None
}
