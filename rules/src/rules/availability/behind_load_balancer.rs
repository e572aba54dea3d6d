//! Servers to whose pods a load balancer of AWS sends requests, and which end as soon as they are told to.

use super::graceful_shutdown_missing::add_hook;
use super::ingress::{CONTROLLER_KINDS, Controller, backends, controller};
use super::serving::{is_owned, serving_templates};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::template::DEFAULT_GRACE;

pub(super) const READS: &[Kind] = kinds![CONTROLLER_KINDS, [Kind::SERVICE, Kind::INGRESS]];

const ALB_TARGET: &str = "alb.ingress.kubernetes.io/target-type";
const NLB_TARGET: &str = "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type";

/// Parts of the names of options and variables of programs that wait by themselves after SIGTERM.
const WAITS: [&str; 7] = ["shutdown", "drain", "grace", "lameduck", "lame-duck", "termination", "sigterm"];
/// Words in images of proxies that finish their requests while they are removed.
const PROXIES: [&str; 8] =
    ["controller", "envoy", "gateway", "haproxy", "istio", "kong", "traefik", "oauth2-proxy"];

/// Reports a server of several replicas that gets requests while it ends.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) || !runs_forever(object) {
        return None;
    }
    let replicas = ctx.cluster().views().replicas(object)?;
    let templates = serving_templates(object);
    let [template] = templates.as_slice() else { return None };
    if replicas.min < 2 || template.spec.is_unknown() || template.spec.has_unknown_key() {
        return None;
    }
    let mut all = template.all_containers();
    if all.any(|container| container.path(&["lifecycle", "preStop"]).is_set() || waits(&container)) {
        return None;
    }
    let mut containers = template.containers();
    let container = containers.find(|container| container.get("ports").items().next().is_some())?;
    let lifecycle = container.get("lifecycle");
    if container.has_unknown_key() || lifecycle.is_unknown() {
        return None;
    }
    let grace = template.grace_seconds()?;
    let (holder, field) = sender(object, template, ctx)?;
    let hook = lifecycle.get("preStop");
    let field_of_grace = template.spec.get("terminationGracePeriodSeconds");
    let message = format!(
        "pods of `{}` get SIGTERM while the load balancer still sends them requests",
        object.display_name()
    );
    let severity = if is_example(object) { Severity::Info } else { Severity::Warning };
    ctx.report(&hook, message)
        .severity(severity)
        .help("sleep 15 s in a preStop hook, and leave time for requests in `terminationGracePeriodSeconds`")
        .related(holder, &field, "the load balancer sends requests to the pods themselves")
        .fix(add_hook(&hook, &field_of_grace, grace <= DEFAULT_GRACE));
    Some(())
}

/// Whether a container waits by itself when it is told to end, as far as its options show.
fn waits(container: &Node<'_>) -> bool {
    let is_sign = |text: &str| {
        let text = text.to_ascii_lowercase();
        WAITS.iter().any(|sign| text.contains(sign))
    };
    let of_environment = container.get("env").items().any(|one| one.get("name").text().is_some_and(is_sign));
    let is_proxy = image_of(container).is_none_or(|image| {
        let name = image.last().to_ascii_lowercase();
        PROXIES.iter().any(|word| name.contains(word))
    });
    of_environment || is_proxy || is_sign(&command_line(container))
}

/// What makes a load balancer send requests to the pods of a template, with the field that says so.
fn sender<'c>(object: &Object, template: &Template<'_>, ctx: &Context<'c>) -> Option<(&'c Object, Node<'c>)> {
    let namespace = object.namespace_or_default();
    let cluster = ctx.cluster();
    let is_ip = |field: &Node<'_>| field.text().is_some_and(|text| text == "ip");
    cluster.views().services_of(namespace, template).into_iter().find_map(|service| {
        if !ctx.pairs_with(service) {
            return None;
        }
        let of_network = service.annotation(NLB_TARGET);
        if is_ip(&of_network) && service.path(&["spec", "type"]).text() == Some("LoadBalancer") {
            return Some((service, of_network));
        }
        let of_service = service.annotation(ALB_TARGET);
        cluster.in_namespace(Kind::INGRESS, namespace).find_map(|ingress| {
            let own = ingress.annotation(ALB_TARGET);
            // The annotation of a Service comes before that of the Ingress.
            let target = if of_service.is_set() { (service, of_service.clone()) } else { (ingress, own) };
            let is_target = is_ip(&target.1)
                && ctx.pairs_with(ingress)
                && backends(ingress).iter().any(|backend| backend.named_service() == Some(service.name()))
                && controller(ingress, ctx) == Some(Controller::Alb);
            is_target.then_some(target)
        })
    })
}
