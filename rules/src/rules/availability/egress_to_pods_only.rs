//! A rule of a NetworkPolicy that is meant for the internet reaches pods alone.
//!
//! # Why
//! `namespaceSelector: {}` selects the pods of all namespaces, and nothing outside of the cluster: addresses
//! there are matched by an `ipBlock`, or by a rule without `to`. A server that downloads its model from Hugging
//! Face at its start then waits until the connection times out, although its policy allows port 443. It is
//! reported where a comment above the rule says that it is for the internet or names such a site, and no rule of
//! a policy of the namespace allows addresses outside of the cluster.
//!
//! # Fix
//! Write an `ipBlock` of `0.0.0.0/0`, without the private networks that the pods have nothing to do with.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: NetworkPolicy
//!  metadata: {name: loader, namespace: models}
//!  spec:
//!    podSelector: {matchLabels: {app: loader}}
//!    policyTypes: [Egress]
//!    egress:
//!      - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]
//!        ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
//!      # weights from Hugging Face
//! -    - to: [{namespaceSelector: {}}] # <-
//! +    - to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]}}]
//!        ports: [{port: 443}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors>

use crate::rules::comments::comment_above;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "egress-to-pods-only",
    kinds: &[Kind::NETWORK_POLICY],
    reads: kinds![Kind::OTHER_NETWORK_POLICIES, [Kind::NETWORK_POLICY]],
    docs: docs(include_str!("egress_to_pods_only.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Words of a comment that mean something outside of the cluster.
const OUTSIDE: [&str; 12] = [
    "hugging",
    "internet",
    "external",
    "outside",
    "public",
    "github",
    "pypi",
    "docker hub",
    "quay.io",
    "nvcr.io",
    "ngc",
    "openai",
];
/// Ports of sites.
const PORTS: [i64; 2] = [443, 80];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    // Policies of other kinds may allow it.
    if object.may_lack_fields()
        || object.get("spec").has_unknown()
        || Kind::OTHER_NETWORK_POLICIES.into_iter().any(|kind| cluster.has_any(kind))
    {
        return None;
    }
    let egress = object.path(&["spec", "egress"]);
    let (rule, word) = egress.items().find_map(|rule| {
        let is_meant = selects_all_pods(&rule) && is_for_sites(&rule);
        is_meant.then(|| word_above(object, &rule)).flatten().map(|word| (rule, word))
    })?;
    let of_namespace = cluster.in_namespace(Kind::NETWORK_POLICY, object.namespace_or_default());
    let leads_out = |policy: &Object| {
        policy.get("spec").has_unknown()
            || policy.path(&["spec", "egress"]).items().any(|rule| is_open(&rule))
    };
    if of_namespace.into_iter().any(leads_out) {
        return None;
    }
    let selector = rule.get("to").items().next()?.get("namespaceSelector");
    ctx.report(
        &selector,
        "`namespaceSelector: {}` selects only pods: the rule allows nothing outside of the cluster",
    )
    .help(format!("write `ipBlock: {{cidr: 0.0.0.0/0}}` for what the comment above calls `{word}`"));
    None
}

/// Whether the peers of a rule are the pods of all namespaces.
fn selects_all_pods(rule: &Node<'_>) -> bool {
    let is_all = |peer: Node<'_>| {
        let selector = peer.get("namespaceSelector");
        selector.is_mapping()
            && selector.entries().is_empty()
            && peer.get("podSelector").entries().is_empty()
            && !peer.get("ipBlock").is_set()
    };
    let to = rule.get("to");
    to.items().next().is_some() && to.items().all(is_all)
}

fn is_for_sites(rule: &Node<'_>) -> bool {
    let ports = rule.get("ports");
    ports.items().next().is_some()
        && ports.items().all(|entry| entry.get("port").int().is_some_and(|port| PORTS.contains(&port)))
}

/// Whether a rule allows addresses outside of the cluster at the port of a site.
fn is_open(rule: &Node<'_>) -> bool {
    let (to, ports) = (rule.get("to"), rule.get("ports"));
    let is_outside = to.items().next().is_none() || to.items().any(|peer| peer.get("ipBlock").is_set());
    let covers = |entry: Node<'_>| {
        let (first, last) = (entry.get("port"), entry.get("endPort").int());
        first
            .int()
            .is_none_or(|first| PORTS.iter().any(|port| (first..=last.unwrap_or(first)).contains(port)))
    };
    is_outside && (ports.items().next().is_none() || ports.items().any(covers))
}

/// The word for something outside of the cluster in the comment directly above a rule.
fn word_above(object: &Object, rule: &Node<'_>) -> Option<&'static str> {
    let comment = comment_above(object, rule)?;
    OUTSIDE.into_iter().find(|word| comment.contains(word))
}
