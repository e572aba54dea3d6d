//! Pods that name hosts may not ask DNS.
//!
//! # Why
//! Once a NetworkPolicy with `Egress` selects a pod, it may only connect to what some policy allows. The
//! name of a Service or of another host is first looked up in DNS, over UDP at port 53 of the pods of CoreDNS:
//! where no policy allows that, each connection fails with a name that cannot be resolved, also to what is
//! allowed. Resolvers use TCP only for answers that are too long for UDP.
//!
//! In OpenShift the pods of DNS listen on 5353 in `openshift-dns`. A policy is about the port of the pods, so
//! that one that allows 53 there, the port of the Service, allows nothing.
//!
//! All policies of the input that select the pods are taken together. It is reported where a variable or an
//! argument of a container has the name of a host. Policies of other kinds, and of Kyverno, may allow it.
//!
//! # Fix
//! Allow UDP and TCP 53 to the namespace `kube-system`, best by one policy for all pods of the namespace. With
//! NodeLocal DNSCache allow its address, `169.254.20.10/32`, too.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: NetworkPolicy
//!  metadata: {name: worker, namespace: jobs}
//!  spec:
//!    podSelector: {matchLabels: {app: worker}}
//!    policyTypes: [Egress]
//! -  egress: # <-
//! +  egress:
//!      - to: [{podSelector: {matchLabels: {app: queue}}}]
//!        ports: [{port: 6379}]
//! +    - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]
//! +      ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: worker, namespace: jobs, labels: {app: worker}}
//!  spec:
//!    containers:
//!      - name: worker
//!        image: example.com/worker:1.0.0
//!        env: [{name: QUEUE_HOST, value: queue.jobs.svc.cluster.local}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-egress-traffic>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html>
//! - <https://github.com/aws/aws-network-policy-agent/issues/230>

use crate::facts::url::host;
use crate::rules::prelude::*;
use crate::workload::admission_webhook::NAMESPACE_NAME;
use crate::workload::command::items;
use crate::workload::selector;

/// The kinds of policies beside those of Kubernetes, and those of Kyverno, which makes such policies.
pub(super) const POLICY_SOURCES: &[Kind] =
    kinds![Kind::OTHER_NETWORK_POLICIES, [Kind::KYVERNO_CLUSTER_POLICY, Kind::KYVERNO_POLICY]];

pub(crate) static RULE: Rule = Rule {
    id: "egress-without-dns",
    kinds: &[Kind::NETWORK_POLICY],
    reads: kinds![POLICY_SOURCES, [Kind::NETWORK_POLICY], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("egress_without_dns.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if !limits_egress(object) || is_open(object) || POLICY_SOURCES.iter().any(|kind| cluster.has_any(*kind)) {
        return None;
    }
    if of_openshift(object, ctx).is_some() {
        return None;
    }
    let spec = object.get("spec");
    let (workloads, _) = cluster.views().selected_by_labels(object, &spec.get("podSelector"));
    let found = workloads.iter().find_map(|workload| {
        let owner: &Object = &workload.object;
        let is_near = !owner.may_lack_fields() && cluster.likely_pairs(object, owner);
        let mut cut_off = templates(owner).into_iter().filter(|template| is_cut_off(object, template, ctx));
        let named =
            cut_off.find_map(|template| template.containers().find_map(|one| named_hosts(&one).pop()));
        named.filter(|_| is_near).map(|(_, node)| (owner, node))
    });
    let (owner, node) = found?;
    let egress = spec.get("egress");
    let over_tcp = egress.items().any(|rule| reaches_dns(&rule, object) && allows(&rule, "TCP"));
    let way = if over_tcp { "ask DNS over UDP" } else { "ask DNS" };
    let name = ellipsize(owner.name());
    let rule = json!({
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
    });
    let fix = Fix::unsafe_("let the pods ask CoreDNS");
    let fix = match egress.items().next() {
        Some(_) => fix.append(&egress, rule),
        None => fix.set(&egress, json!([rule])),
    };
    // Without rules the types say that nothing may be reached.
    let place = if egress.is_set() { egress } else { spec.get("policyTypes") };
    ctx.report(&place, format!("the pods of `{name}` resolve no names: no policy lets them {way}"))
        .at_key()
        .help("allow UDP and TCP 53 to `kube-system`, here or in a policy for all pods of the namespace")
        .related(owner, &node, "a name that is looked up")
        .fix(fix);
    None
}

/// The namespace of DNS in OpenShift, and the port of its pods. Its Service has 53, but a policy is about the port behind it.
const OPENSHIFT_DNS: (&str, i64) = ("openshift-dns", 5353);

/// Reports a rule that is for the DNS of OpenShift and allows the port of its Service alone.
fn of_openshift(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (namespace, port) = OPENSHIFT_DNS;
    let is_of_dns = |peer: Node<'_>| {
        peer.path(&["namespaceSelector", "matchLabels", NAMESPACE_NAME]).text() == Some(namespace)
    };
    let is_for_dns = |rule: &Node<'_>| {
        let to = rule.get("to");
        to.items().next().is_some() && to.items().all(is_of_dns)
    };
    let allows = |rule: &Node<'_>, wanted: i64| {
        let mut ports = rule.get("ports").items();
        ports.any(|entry| {
            let (first, last) = (entry.get("port"), entry.get("endPort").int());
            first.int().is_none_or(|first| (first..=last.unwrap_or(first)).contains(&wanted))
        })
    };
    let own = rules(object);
    let rule = own.iter().find(|rule| is_for_dns(rule) && allows(rule, 53) && !allows(rule, port))?;
    let ports = rule.get("ports");
    let place = ports.items().next()?.get("port");
    // Any other rule may let the pods ask: one for all namespaces, or one of another policy.
    let namespace_of = object.namespace_or_default();
    let others = ctx.cluster().in_namespace(Kind::NETWORK_POLICY, namespace_of);
    let may_reach = |rule: &Node<'_>| {
        let to = rule.get("to");
        let is_open = to.items().next().is_none()
            || to.items().any(|peer| is_of_dns(peer.clone()) || peer.get("namespaceSelector").is_mapping());
        is_open && (allows(rule, port) || rule.get("ports").items().next().is_none())
    };
    if others.flat_map(rules).chain(own.iter().cloned()).any(|rule| may_reach(&rule)) {
        return None;
    }
    let mut fix = Fix::unsafe_(format!("allow port {port}"));
    for entry in ports.items().filter(|entry| entry.get("port").int() == Some(53)) {
        fix = fix.set(&entry.get("port"), json!(port));
    }
    let message =
        format!("the pods of `{namespace}` listen on {port}: 53 is the port of their Service alone");
    ctx.report(&place, message).help(format!("allow UDP and TCP {port}")).fix(fix);
    Some(())
}

/// Whether a policy names what its pods may connect to: by `policyTypes`, or without it by a rule.
fn limits_egress(policy: &Object) -> bool {
    let (types, egress) = (policy.path(&["spec", "policyTypes"]), policy.path(&["spec", "egress"]));
    if types.is_set() {
        types.items().any(|one| one.text() == Some("Egress"))
    } else {
        egress.items().next().is_some()
    }
}

/// Whether a part of a policy is not known.
fn is_open(policy: &Object) -> bool {
    policy.may_lack_fields() || policy.get("spec").has_unknown()
}

/// Whether the policies that select the pods of a template let them ask no DNS, and one is the first of them that names what else
/// they may reach.
fn is_cut_off(object: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let policy = template.spec.get("dnsPolicy");
    let is_usual = !policy.is_set() || policy.text() == Some("ClusterFirst");
    let has_own =
        ["hostNetwork", "hostAliases", "dnsConfig"].iter().any(|field| template.spec.get(field).is_set());
    if !is_usual || has_own || template.spec.has_unknown_key() {
        return false;
    }
    let labels = template.pod_labels();
    let all = ctx.cluster().in_namespace(Kind::NETWORK_POLICY, object.namespace_or_default());
    let may_select = |policy: &&Object| {
        ctx.pairs_with(policy)
            && selector::matches(&policy.path(&["spec", "podSelector"]), &labels) != Some(false)
    };
    let selecting: Vec<&Object> =
        all.filter(may_select).filter(|policy| limits_egress(policy) || is_open(policy)).collect();
    let asks =
        |policy: &Object| rules(policy).iter().any(|rule| reaches_dns(rule, policy) && allows(rule, "UDP"));
    if selecting.iter().any(|policy| is_open(policy) || asks(policy)) {
        return false;
    }
    let first = selecting.iter().find(|policy| !rules(policy).is_empty()).or(selecting.first());
    first.is_some_and(|first| first.is_same_resource(object))
}

fn rules(policy: &Object) -> Vec<Node<'_>> {
    policy.path(&["spec", "egress"]).items().collect()
}

/// Whether a rule may allow connections to the pods or the address of DNS.
fn reaches_dns(rule: &Node<'_>, policy: &Object) -> bool {
    let may_be = |peer: Node<'_>| {
        let namespace = peer.path(&["namespaceSelector", "matchLabels", "kubernetes.io/metadata.name"]);
        let is_of_dns = |name: &str| name == "kube-system" || name.contains("dns");
        let of_pods = if peer.get("namespaceSelector").is_set() {
            namespace.text().is_none_or(is_of_dns)
        } else {
            policy.namespace().is_none_or(is_of_dns)
        };
        peer.get("ipBlock").is_set() || of_pods
    };
    let to = rule.get("to");
    to.items().next().is_none() || to.items().any(may_be)
}

/// The port of DNS, and that of its pods in OpenShift.
const DNS_PORTS: [i64; 2] = [53, 5353];

/// Whether a rule may allow a protocol at the port of DNS. The default protocol is TCP.
fn allows(rule: &Node<'_>, protocol: &str) -> bool {
    let may_be = |entry: Node<'_>| {
        let (port, last) = (entry.get("port"), entry.get("endPort").int());
        entry.get("protocol").text().unwrap_or("TCP") == protocol
            && port
                .int()
                .is_none_or(|first| DNS_PORTS.iter().any(|dns| (first..=last.unwrap_or(first)).contains(dns)))
    };
    let ports = rule.get("ports");
    ports.items().next().is_none() || ports.items().any(may_be)
}

/// Schemes of addresses whose host a program looks up.
const SCHEMES: [&str; 14] = [
    "http",
    "https",
    "grpc",
    "tcp",
    "redis",
    "rediss",
    "postgres",
    "postgresql",
    "mysql",
    "mongodb",
    "amqp",
    "amqps",
    "nats",
    "kafka",
];

/// The names of hosts in the variables and arguments of a container: those of addresses, and of Services with their domain.
pub(super) fn named_hosts<'a>(container: &Node<'a>) -> Vec<(&'a str, Node<'a>)> {
    let variables = container.get("env").items().map(|entry| entry.get("value"));
    let arguments = items(container).0.into_iter().map(|(_, node)| node);
    let of_node = |node: Node<'a>| {
        let found = hosts_in(node.text().unwrap_or_default());
        found.map(move |host| (host, node.clone())).collect::<Vec<_>>()
    };
    variables.chain(arguments).flat_map(of_node).collect()
}

fn hosts_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ','));
    words.filter_map(|word| {
        let host = host(word);
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
            && host.bytes().any(|byte| byte.is_ascii_alphabetic())
            && host != "localhost";
        let has_scheme = word.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme));
        let is_of_service = host.ends_with(".svc") || host.ends_with(".svc.cluster.local");
        (is_name && (has_scheme || is_of_service)).then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::hosts_in;

    #[test]
    fn names_of_hosts_are_looked_up() {
        for text in [
            "queue.jobs.svc:6379",
            "--url=https://api.example.com/v1",
            "curl http://web/",
            "a.b.svc.cluster.local",
        ] {
            assert!(hosts_in(text).next().is_some(), "{text}");
        }
        for text in [
            "http://10.0.0.4:8080",
            "http://localhost:80",
            "http://$(HOST)/",
            "file:///etc/x",
            "web",
            "0.0.0.0:80",
        ] {
            assert!(hosts_in(text).next().is_none(), "{text}");
        }
    }
}
