//! A load balancer class names a controller that is missing, or wrong parameters.
//!
//! # Why
//! EKS Auto Mode makes load balancers for `eks.amazonaws.com/alb` and `eks.amazonaws.com/nlb`. The AWS Load
//! Balancer Controller, which has to be installed, has `ingress.k8s.aws/alb` and `service.k8s.aws/nlb`.
//! Without the controller that a class names nobody makes a load balancer, and no event says why. That is
//! reported where all NodePools of the input are of EKS Auto Mode and nothing in it shows the other
//! controller: as an info, unless the input is the whole cluster (`--complete`).
//!
//! Both have parameters of one kind in two API groups, `eks.amazonaws.com` and `elbv2.k8s.aws`, and neither
//! reads those of the other: the Load Balancer Controller answers `references unknown parameters`.
//!
//! # Fix
//! Name the controller that runs, and its parameters. A Service keeps its class: make it anew. A load balancer
//! is not handed over either.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: IngressClass
//!  metadata: {name: public}
//!  spec:
//!    controller: eks.amazonaws.com/alb
//! -  parameters: {apiGroup: elbv2.k8s.aws, kind: IngressClassParams, name: public} # <-
//! +  parameters: {apiGroup: eks.amazonaws.com, kind: IngressClassParams, name: public}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-alb.html>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-nlb.html>
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/ingress_class/>

use super::auto_mode_volume_driver::is_all_auto_mode;
use super::load_balancer_controller_without_vpc::is_load_balancer_controller;
use super::node_helpers::{INSTALLING_KINDS, may_install};
use crate::rules::prelude::*;

pub(super) const LOAD_BALANCER_READS: &[Kind] = kinds![
    [
        Kind::NODE,
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::INGRESS_CLASS,
        Kind::INGRESS_CLASS_PARAMS,
        Kind::GATEWAY_CLASS,
        Kind::SERVICE_ACCOUNT
    ],
    INSTALLING_KINDS,
    WORKLOAD_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-load-balancer",
    kinds: &[Kind::INGRESS_CLASS, Kind::SERVICE],
    reads: LOAD_BALANCER_READS,
    docs: docs(include_str!("auto_mode_load_balancer.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Names of the Load Balancer Controller, each with that of EKS Auto Mode.
const NAMES: [(&str, &str); 2] =
    [("ingress.k8s.aws/alb", "eks.amazonaws.com/alb"), ("service.k8s.aws/nlb", "eks.amazonaws.com/nlb")];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let spec = object.get("spec");
    let is_class = object.is(Kind::INGRESS_CLASS);
    let node = spec.get(if is_class { "controller" } else { "loadBalancerClass" });
    let name = node.text()?;
    let group = spec.path(&["parameters", "apiGroup"]);
    if is_class && let Some(found) = group.text() {
        mismatch(name, &group, found, ctx);
        // Parameters of the controller that is named say that it is meant.
        return None;
    }
    let (_, own) = NAMES.iter().find(|(other, _)| *other == name)?;
    let is_used = is_class || spec.get("type").text() == Some("LoadBalancer");
    if !is_used || !is_all_auto_mode(ctx) || may_have_controller(ctx) {
        return None;
    }
    let is_whole = ctx.cluster().is_complete();
    let pool = ctx.cluster().of(Kind::NODE_POOL).next()?;
    let message = format!("`{name}` is the AWS Load Balancer Controller, and EKS Auto Mode has `{own}`");
    ctx.report(&node, message)
        .severity(if is_whole { Severity::Warning } else { Severity::Info })
        .help(format!("write `{own}`, unless that controller is installed elsewhere"))
        .related(pool, &pool.path(&["metadata", "name"]), "a pool of EKS Auto Mode, as all others");
    None
}

/// Reports parameters of the other group: `Load` in `pkg/ingress/class_loader.go` of the Load Balancer Controller 2.13 fails on
/// them, and the documentation of EKS Auto Mode names its own group.
fn mismatch(controller: &str, group: &Node<'_>, found: &str, ctx: &mut Context<'_>) -> Option<()> {
    let own = match controller {
        "ingress.k8s.aws/alb" => "elbv2.k8s.aws",
        "eks.amazonaws.com/alb" => "eks.amazonaws.com",
        _ => return None,
    };
    let is_known = matches!(found, "elbv2.k8s.aws" | "eks.amazonaws.com");
    if found == own || !is_known {
        return None;
    }
    ctx.report(group, format!("`{controller}` does not read parameters of `{found}`: its own are `{own}`"))
        .help(format!("write `apiGroup: {own}`, or name the controller of these parameters"));
    None
}

/// Whether something in the input shows the Load Balancer Controller. The caller reads [`LOAD_BALANCER_READS`].
pub(super) fn may_have_controller(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let has_parameters = |class: &Object| {
        class.path(&["spec", "parameters", "apiGroup"]).text() == Some("elbv2.k8s.aws")
            && class.path(&["spec", "controller"]).text() == Some("ingress.k8s.aws/alb")
    };
    let is_served = |class: &Object| {
        let name = class.path(&["spec", "controllerName"]);
        name.text().is_some_and(|name| name.starts_with("gateway.k8s.aws/"))
    };
    let is_account = |account: &Object| account.name().contains("aws-load-balancer-controller");
    cluster.has_any(Kind::INGRESS_CLASS_PARAMS)
        || cluster.of(Kind::GATEWAY_CLASS).any(is_served)
        || cluster.of(Kind::SERVICE_ACCOUNT).any(is_account)
        || cluster.of(Kind::INGRESS_CLASS).any(has_parameters)
        || may_install(&["load-balancer"], ctx)
        || cluster.of(Kind::DEPLOYMENT).any(|one| {
            templates(one).iter().flat_map(Template::containers).any(|one| is_load_balancer_controller(&one))
        })
}
