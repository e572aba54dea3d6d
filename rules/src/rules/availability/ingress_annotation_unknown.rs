//! An annotation of an Ingress or a Service has a name that nothing reads.
//!
//! # Why
//! Controllers ignore annotations that they do not know: the limit, the timeout or the redirect stays as it
//! is by default, and no error says so. Names from elsewhere are common, such as `client-max-body-size`,
//! which is what nginx itself and the controller of F5 call `proxy-body-size`. With `group-name` instead of
//! `group.name`, each Ingress pays for a load balancer of its own.
//!
//! The names are those that any release reads: ingress-nginx 0.34 to 1.15 (`nginx.ingress.kubernetes.io/`),
//! and the AWS Load Balancer Controller 2.0 to 3.5, on an Ingress (`alb.ingress.kubernetes.io/`) and on a
//! Service of the type LoadBalancer (`service.beta.kubernetes.io/aws-load-balancer-`), with those of the
//! older cloud provider. A name that is near to none of them is information. Nothing is said of a class of
//! another controller, such as Tengine or Higress, which reads more names.
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
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/>
//! - <https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/annotations/>

use super::ingress::{Controller, controller};
use crate::facts::suggest::is_within;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ingress-annotation-unknown",
    kinds: &[Kind::INGRESS, Kind::SERVICE],
    reads: &[Kind::INGRESS_CLASS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ingress_annotation_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// What reads the annotations of an object.
struct Reader {
    name: &'static str,
    prefix: &'static str,
    /// The names without the prefix, one a line.
    names: &'static str,
    /// The parts before a dot of names that end in one of the object: of an action, or of a listener.
    with_dot: &'static [&'static str],
    /// Names of other controllers and of older releases, each with the one that is read, and whether the value stays as it is.
    elsewhere: &'static [(&'static str, &'static str, bool)],
    /// How names of a controller of another cloud begin that has the prefix as well.
    of_other_cloud: &'static [&'static str],
    advice: &'static str,
}

const NGINX: Reader = Reader {
    name: "ingress-nginx",
    prefix: "nginx.ingress.kubernetes.io/",
    names: include_str!("ingress-nginx.txt"),
    with_dot: &[],
    elsewhere: &[
        ("client-max-body-size", "proxy-body-size", true),
        ("limit-burst", "limit-burst-multiplier", false),
        ("rate-limit", "limit-rps", false),
        ("secure-backends", "backend-protocol", false),
    ],
    of_other_cloud: &[],
    advice: "remove it: the controller ignores it; some settings are keys of its ConfigMap alone",
};

const ALB: Reader = Reader {
    name: "the AWS Load Balancer Controller",
    prefix: "alb.ingress.kubernetes.io/",
    names: include_str!("ingress-alb.txt"),
    with_dot: &["actions", "conditions", "listener-attributes", "target-control-port", "transforms"],
    elsewhere: &[
        // Release 1.
        ("attributes", "load-balancer-attributes", true),
        ("security-group-inbound-cidrs", "inbound-cidrs", true),
        ("healthcheck-interval", "healthcheck-interval-seconds", true),
        ("healthcheck-timeout", "healthcheck-timeout-seconds", true),
        ("load-balancer-scheme", "scheme", true),
        ("security-group", "security-groups", true),
        ("ssl-cert", "certificate-arn", true),
    ],
    // The ALB of Alibaba Cloud.
    of_other_cloud: &[
        "canary",
        "cookie",
        "cors",
        "healthcheck-enabled",
        "rewrite-target",
        "sticky-session",
        "traffic-limit",
    ],
    advice: "remove it: the controller ignores it; some settings are keys of `load-balancer-attributes` or `target-group-attributes`",
};

const SERVICE: Reader = Reader {
    prefix: "service.beta.kubernetes.io/aws-load-balancer-",
    names: include_str!("service-aws.txt"),
    with_dot: &["listener-attributes"],
    elsewhere: &[
        ("certificate-arn", "ssl-cert", true),
        ("cross-zone-load-balancing", "cross-zone-load-balancing-enabled", true),
        ("healthcheck-interval-seconds", "healthcheck-interval", true),
        ("healthcheck-timeout-seconds", "healthcheck-timeout", true),
        ("load-balancer-attributes", "attributes", true),
        ("tags", "additional-resource-tags", true),
        ("target-type", "nlb-target-type", true),
    ],
    of_other_cloud: &[],
    advice: "remove it: the controller ignores it; some settings are keys of the annotation `attributes` or `target-group-attributes`",
    ..ALB
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let reader = reader(object, ctx)?;
    let annotations = object.path(&["metadata", "annotations"]);
    let keys = annotations.entries();
    let own = || keys.iter().filter_map(|(key, node)| Some((key.strip_prefix(reader.prefix)?, node)));
    let is_of_other = |name: &str| reader.of_other_cloud.iter().any(|word| name.starts_with(*word));
    if own().any(|(name, _)| is_of_other(name)) {
        return None;
    }
    for (name, node) in own() {
        let is_dynamic = name.split_once('.').is_some_and(|(first, _)| reader.with_dot.contains(&first));
        // A null is how a patch removes a key.
        if node.is_set() && !is_placeholder(name) && !is_dynamic && !reader.names().any(|known| known == name)
        {
            report(&reader, name, node, &annotations, ctx);
        }
    }
    None
}

fn reader(object: &Object, ctx: &Context<'_>) -> Option<Reader> {
    if object.is(Kind::INGRESS) {
        return Some(match controller(object, ctx)? {
            Controller::Nginx => NGINX,
            Controller::Alb => ALB,
        });
    }
    let class = object.path(&["spec", "loadBalancerClass"]);
    let is_read =
        class.is_absent() || matches!(class.text(), Some("service.k8s.aws/nlb" | "eks.amazonaws.com/nlb"));
    (is_read && object.path(&["spec", "type"]).text() == Some("LoadBalancer")).then_some(SERVICE)
}

impl Reader {
    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.lines().filter(|line| !line.starts_with('#'))
    }

    /// The name that differs by a slip, or in the number or order of its words. Names share words, so a third of the length
    /// is no slip: `disable-access-log` is not `enable-access-log`.
    fn meant_by(&self, name: &str) -> Option<&'static str> {
        let words = |name: &str| {
            let mut words: Vec<String> =
                name.split(['-', '.']).map(|word| word.trim_end_matches('s').to_owned()).collect();
            words.sort_unstable();
            words
        };
        let same = self.names().find(|known| words(known) == words(name));
        same.or_else(|| nearest(name, self.names()).filter(|known| is_within(name, known, 2)))
    }
}

fn report(reader: &Reader, name: &str, node: &Node<'_>, annotations: &Node<'_>, ctx: &mut Context<'_>) {
    let of_elsewhere = reader.elsewhere.iter().find(|(other, ..)| *other == name);
    let meant = match of_elsewhere {
        Some((_, own, keeps_value)) => Some((*own, *keeps_value)),
        None => reader.meant_by(&name.to_ascii_lowercase().replace('_', "-")).map(|own| (own, true)),
    };
    let finding = ctx.report(node, format!("{} has no annotation `{}`", reader.name, ellipsize(name)));
    finding.at_key();
    let Some((meant, keeps_value)) = meant else {
        finding.severity(Severity::Info).help(reader.advice);
        return;
    };
    let key = format!("{}{meant}", reader.prefix);
    let target = annotations.get(&key);
    finding.help(match target.is_set() {
        true => format!("remove it: `{key}` is there already"),
        false => format!("write `{key}`"),
    });
    // The value of a name from elsewhere may be of another form.
    if target.is_absent() && node.is_set() && keeps_value {
        finding.fix(Fix::new(format!("rename it to `{meant}`"), Safety::Unsafe).move_to(node, &target));
    }
}
