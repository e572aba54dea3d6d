//! An annotation of an Ingress has a name that ingress-nginx does not read.
//!
//! # Why
//! The controller ignores annotations that it does not know: the limit, the timeout or the redirect stays as
//! it is by default, and no error says so. Names from elsewhere are common, such as `client-max-body-size`,
//! which is what nginx itself and the controller of F5 call `proxy-body-size`.
//!
//! Names that any release from 0.34 to 1.15 read are known. A name that is near to none of them is information.
//! Nothing is said of a class of another controller, such as Tengine or Higress, which reads more names.
//!
//! # Fix
//! Write the name that the controller reads, which the help names if one is near; otherwise remove the
//! annotation.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: Ingress
//!  metadata:
//!    name: labels
//!    annotations:
//! -    nginx.ingress.kubernetes.io/client-max-body-size: 100m # <-
//! +    nginx.ingress.kubernetes.io/proxy-body-size: 100m
//!  spec:
//!    ingressClassName: nginx
//!    defaultBackend: {service: {name: labels, port: {number: 80}}}
//! ```
//!
//! # References
//! - <https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/>

use super::ingress::{Controller, controller};
use crate::facts::suggest::is_within;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ingress-annotation-unknown",
    kinds: &[Kind::INGRESS],
    reads: &[Kind::INGRESS_CLASS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ingress_annotation_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

const PREFIX: &str = "nginx.ingress.kubernetes.io/";
/// The names without the prefix, one a line.
const NAMES: &str = include_str!("ingress-nginx.txt");
/// Names of other controllers and of nginx, each with the one of ingress-nginx.
const ELSEWHERE: [(&str, &str); 4] = [
    ("client-max-body-size", "proxy-body-size"),
    ("limit-burst", "limit-burst-multiplier"),
    ("rate-limit", "limit-rps"),
    ("secure-backends", "backend-protocol"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !matches!(controller(object, ctx)?, Controller::Nginx) {
        return None;
    }
    let annotations = object.path(&["metadata", "annotations"]);
    for (key, node) in annotations.entries() {
        let Some(name) = key.strip_prefix(PREFIX).filter(|name| !is_placeholder(name)) else { continue };
        if !names().any(|known| known == name) {
            report(name, &node, &annotations, ctx);
        }
    }
    None
}

fn names() -> impl Iterator<Item = &'static str> {
    NAMES.lines().filter(|line| !line.starts_with('#'))
}

/// The name that differs by a slip, or in the number or order of its words. Names share words, so a third of the length
/// is no slip: `disable-access-log` is not `enable-access-log`.
fn meant_by(name: &str) -> Option<&'static str> {
    let words = |name: &str| {
        let mut words: Vec<String> =
            name.split('-').map(|word| word.trim_end_matches('s').to_owned()).collect();
        words.sort_unstable();
        words
    };
    let same = names().find(|known| words(known) == words(name));
    same.or_else(|| nearest(name, names()).filter(|known| is_within(name, known, 2)))
}

fn report(name: &str, node: &Node<'_>, annotations: &Node<'_>, ctx: &mut Context<'_>) {
    let of_elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, own)| *own);
    let meant = of_elsewhere.or_else(|| meant_by(&name.to_ascii_lowercase().replace('_', "-")));
    let finding = ctx.report(node, format!("ingress-nginx has no annotation `{}`", ellipsize(name)));
    finding.at_key();
    let Some(meant) = meant else {
        finding
            .severity(Severity::Info)
            .help("remove it: the controller ignores it; some settings are keys of its ConfigMap alone");
        return;
    };
    finding.help(format!("write `{PREFIX}{meant}`"));
    let target = annotations.get(&format!("{PREFIX}{meant}"));
    // The value of a name from elsewhere may be of another form.
    if target.is_absent() && node.is_set() && (of_elsewhere.is_none() || meant == "proxy-body-size") {
        finding.fix(Fix::new(format!("rename it to `{meant}`"), Safety::Unsafe).move_to(node, &target));
    }
}
