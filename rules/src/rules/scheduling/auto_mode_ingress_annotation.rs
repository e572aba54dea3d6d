//! EKS Auto Mode does not read an annotation of an Ingress.
//!
//! # Why
//! The load balancing of EKS Auto Mode reads most annotations of the AWS Load Balancer Controller, but not
//! these, and no event says so:
//!
//! - `kubernetes.io/ingress.class`: nobody makes a load balancer
//! - `alb.ingress.kubernetes.io/group.name`: each Ingress gets, and pays for, a load balancer of its own
//! - `waf-acl-id` and `web-acl-id`: no web ACL protects the load balancer
//! - `shield-advanced-protection`: Shield Advanced does not protect it
//! - `auth-type: oidc`: requests are not authenticated
//!
//! The AWS Load Balancer Controller reads `kubernetes.io/ingress.class: alb` whatever class has that name:
//! nothing is reported where it, or a class of it, is in the input.
//!
//! The IngressClass of the Ingress has to be in the input, with the controller `eks.amazonaws.com/alb`. A group
//! in the IngressClassParams of the class counts for all its Ingresses, and nothing is said of `group.name`
//! then. Where the input does not have the parameters, it is an info.
//!
//! # Fix
//! Write `spec.ingressClassName`, `spec.group.name` of the IngressClassParams, and
//! `alb.ingress.kubernetes.io/wafv2-acl-arn`. OIDC needs the AWS Load Balancer Controller, or an
//! authentication in the pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: IngressClass
//!  metadata: {name: public}
//!  spec:
//!    controller: eks.amazonaws.com/alb
//!    parameters: {apiGroup: eks.amazonaws.com, kind: IngressClassParams, name: public}
//!  ---
//!  apiVersion: eks.amazonaws.com/v1
//!  kind: IngressClassParams
//!  metadata: {name: public}
//!  spec:
//!    scheme: internet-facing
//! +  group: {name: models}
//!  ---
//!  apiVersion: networking.k8s.io/v1
//!  kind: Ingress
//!  metadata:
//!    name: chat
//!    annotations:
//! -    alb.ingress.kubernetes.io/group.name: models # <-
//!      alb.ingress.kubernetes.io/target-type: ip
//!  spec:
//!    ingressClassName: public
//!    defaultBackend: {service: {name: chat, port: {number: 80}}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-alb.html>

use super::auto_mode_load_balancer::{LOAD_BALANCER_READS, may_have_controller};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-ingress-annotation",
    kinds: &[Kind::INGRESS],
    reads: kinds![LOAD_BALANCER_READS, [Kind::AUTO_MODE_INGRESS_CLASS_PARAMS]],
    docs: docs(include_str!("auto_mode_ingress_annotation.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

const CLASS: &str = "kubernetes.io/ingress.class";
const GROUP: &str = "alb.ingress.kubernetes.io/group.name";

/// An annotation that is not read.
struct Unread {
    key: &'static str,
    /// The value with which it matters. Empty for any.
    value: &'static str,
    effect: &'static str,
    help: &'static str,
}

/// The table "Ingress annotations" in the guide of EKS (`auto-configure-alb.adoc`), without [`CLASS`] and [`GROUP`].
const UNREAD: [Unread; 4] = [
    Unread {
        key: "alb.ingress.kubernetes.io/waf-acl-id",
        value: "",
        effect: "no web ACL protects the load balancer",
        help: "write `alb.ingress.kubernetes.io/wafv2-acl-arn`, with a web ACL of AWS WAF v2",
    },
    Unread {
        key: "alb.ingress.kubernetes.io/web-acl-id",
        value: "",
        effect: "no web ACL protects the load balancer",
        help: "write `alb.ingress.kubernetes.io/wafv2-acl-arn`, with a web ACL of AWS WAF v2",
    },
    Unread {
        key: "alb.ingress.kubernetes.io/shield-advanced-protection",
        value: "true",
        effect: "the load balancer is not protected",
        help: "protect the load balancer in AWS Shield itself, and remove the annotation",
    },
    Unread {
        key: "alb.ingress.kubernetes.io/auth-type",
        value: "oidc",
        effect: "requests are not authenticated",
        help: "authenticate in the pods, or use the AWS Load Balancer Controller for this Ingress",
    },
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let class = class_of(object, ctx)?;
    if class.path(&["spec", "controller"]).text() != Some("eks.amazonaws.com/alb") {
        return None;
    }
    let place = class.path(&["metadata", "name"]);
    let named = object.annotation(CLASS);
    if named.is_set() && object.path(&["spec", "ingressClassName"]).is_absent() {
        // The installed controller reads it, whatever the class says. Only its own annotation `alb` needs no class.
        let is_its_own = named.text() == Some("alb") && has_class_of_controller(ctx);
        if !is_its_own && !may_have_controller(ctx) {
            ctx.report(&named, "EKS Auto Mode does not read this annotation: nobody makes a load balancer")
                .at_key()
                .help(format!("write `ingressClassName: {}` in `spec`", class.display_name()))
                .related(class, &place, "the class");
        }
        return None;
    }
    for unread in &UNREAD {
        let node = object.annotation(unread.key);
        if node.text().is_some_and(|text| unread.value.is_empty() || text == unread.value) {
            ctx.report(&node, format!("EKS Auto Mode does not read this annotation: {}", unread.effect))
                .at_key()
                .help(unread.help)
                .related(class, &place, "the class");
        }
    }
    group(object, class, ctx)
}

/// Whether the set has a class of the AWS Load Balancer Controller, as while a cluster moves to Auto Mode.
fn has_class_of_controller(ctx: &Context<'_>) -> bool {
    let mut classes = ctx.cluster().of(Kind::INGRESS_CLASS);
    classes.any(|class| class.path(&["spec", "controller"]).text() == Some("ingress.k8s.aws/alb"))
}

/// The class of an Ingress: the one that it names, or that of an annotation.
fn class_of<'a>(object: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let names = [object.path(&["spec", "ingressClassName"]), object.annotation(CLASS)];
    let name = names.iter().find(|name| name.is_set())?.text()?;
    ctx.partner(Kind::INGRESS_CLASS, "default", name)
}

/// Reports the name of a group where the class has none.
fn group(object: &Object, class: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.annotation(GROUP);
    node.text()?;
    let parameters = class.path(&["spec", "parameters"]);
    let name = parameters.get("name");
    if parameters.has_unknown() || class.may_lack_fields() {
        return None;
    }
    let found =
        name.text().and_then(|name| ctx.partner(Kind::AUTO_MODE_INGRESS_CLASS_PARAMS, "default", name));
    let group = found.map(|params| (params.may_lack_fields(), params.path(&["spec", "group"])));
    if group.is_some_and(|(may_lack, group)| may_lack || group.is_set() || group.is_unknown()) {
        return None;
    }
    let is_known = found.is_some() || parameters.is_absent();
    let message = "EKS Auto Mode does not read this annotation: the Ingress gets a load balancer of its own";
    let finding = ctx.report(&node, message);
    finding
        .at_key()
        .severity(if is_known { Severity::Warning } else { Severity::Info })
        .help("write `spec.group.name` of the IngressClassParams: a class is a group")
        .related(class, &class.path(&["metadata", "name"]), "the class");
    None
}
