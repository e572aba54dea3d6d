//! A path of an Ingress has a wildcard that its type does not allow.
//!
//! # Why
//! The AWS Load Balancer Controller, and that of EKS Auto Mode, take `*` and `?` in a path only with the type
//! `ImplementationSpecific`. With `Prefix` and `Exact` it reports `FailedBuildModel` ("prefix path shouldn't
//! contain wildcards"), and applies nothing: neither this Ingress, nor any change of the others that share
//! its load balancer by `group.name`. Other controllers, such as that of GKE, want `/*`.
//!
//! # Fix
//! A `Prefix` matches all paths below by itself: write `/` for `/*`, and `/api` for `/api/*`. For other
//! patterns write `pathType: ImplementationSpecific`.
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
//!      alb.ingress.kubernetes.io/target-type: ip
//!  spec:
//!    ingressClassName: alb
//!    rules:
//!      - http:
//!          paths:
//! -          - path: /* # <-
//! +          - path: /
//!              pathType: Prefix
//!              backend: {service: {name: chat, port: {number: 80}}}
//! ```
//!
//! # References
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/spec/>
//! - <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2041>

use super::ingress::{Controller, controller};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "alb-path-wildcard",
    kinds: &[Kind::INGRESS],
    reads: &[Kind::INGRESS_CLASS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("alb_path_wildcard.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

const WILDCARDS: [char; 2] = ['*', '?'];

/// `buildPathPatterns` in `pkg/ingress/model_build_listener_rules.go` of the Load Balancer Controller 3.5.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || controller(object, ctx) != Some(Controller::Alb) {
        return None;
    }
    let group = object.annotation("alb.ingress.kubernetes.io/group.name");
    let scope = match group.text() {
        Some(group) => format!("group `{}`", ellipsize(group)),
        None => "the Ingress".to_owned(),
    };
    for rule in object.path(&["spec", "rules"]).items() {
        for entry in rule.path(&["http", "paths"]).items() {
            let (path, kind) = (entry.get("path"), entry.get("pathType"));
            let (Some(text), Some(of_type @ ("Prefix" | "Exact"))) = (path.text(), kind.text()) else {
                continue;
            };
            if text.contains(WILDCARDS) {
                let message = format!(
                    "the load balancer's controller rejects wildcards in paths of type `{of_type}`, and applies nothing of {scope}"
                );
                let finding = ctx.report(&path, message);
                match prefix_of(text).filter(|_| of_type == "Prefix") {
                    Some(prefix) => finding
                        .help(format!("write `{prefix}`: a prefix matches all below by itself"))
                        .fix(Fix::unsafe_(format!("write `{prefix}`")).set(&path, json!(prefix))),
                    None => finding.help("write `pathType: ImplementationSpecific`").fix(
                        Fix::unsafe_("take it as a pattern").set(&kind, json!("ImplementationSpecific")),
                    ),
                };
            }
        }
    }
    None
}

/// The prefix that matches what a path with a wildcard at its end is meant to match.
fn prefix_of(path: &str) -> Option<&str> {
    let prefix = path.strip_suffix("/*").filter(|prefix| !prefix.contains(WILDCARDS))?;
    Some(if prefix.is_empty() { "/" } else { prefix })
}
