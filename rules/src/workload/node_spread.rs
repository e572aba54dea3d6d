//! What keeps pods of one workload off each other's nodes: rules about others, and ports of the node.

use super::selector::matches;
use super::template::{PREFERRED_AFFINITY, REQUIRED_AFFINITY, Template};
use crate::catalog::HOSTNAME;
use crate::tree::node::Node;

/// How many pods of a template may be on a node.
pub(crate) struct NodeSpread<'a> {
    /// The field that says so.
    pub(crate) node: Node<'a>,
    pub(crate) most: i64,
    /// Whether pods wait rather than break it.
    pub(crate) is_required: bool,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    AntiAffinity,
    /// Pods of a spread constraint share nodes once each node has as many.
    Constraint,
    /// A port of the node, which only one pod can have.
    HostPort,
}

impl NodeSpread<'_> {
    /// Whether it holds on each node by itself, however many nodes there are.
    pub(crate) fn holds_on_each_node(&self) -> bool {
        self.is_required && self.cause != Cause::Constraint
    }
}

/// The anti-affinities and spread constraints over nodes that concern the pods of a template themselves, and their first port of
/// the node; required ones first.
///
/// Karpenter can always add a node, so that a constraint of `maxSkew` 1 allows one pod on each
/// (`domainMinCount` of karpenter 1.15, `topologygroup.go`).
pub(crate) fn node_spreads<'a>(template: &Template<'a>) -> Vec<NodeSpread<'a>> {
    let namespace = template.place.0.namespace();
    let labels = template.metadata.get("labels").entries();
    let concerns = |term: &Node<'a>| {
        term.get("topologyKey").text() == Some(HOSTNAME)
            && matches(&term.get("labelSelector"), &labels) == Some(true)
            && !["matchLabelKeys", "mismatchLabelKeys"].iter().any(|key| term.get(key).is_set())
            && is_of_namespace(term, namespace)
    };
    let affinity = template.spec.path(&["affinity", "podAntiAffinity"]);
    let required = affinity.get(REQUIRED_AFFINITY);
    let preferred = affinity.get(PREFERRED_AFFINITY);
    let required = required.items().map(|term| (term, true));
    let preferred = preferred.items().map(|term| (term.get("podAffinityTerm"), false));
    let terms = required
        .chain(preferred)
        .map(|(node, is_required)| (node, Some(1), is_required, Cause::AntiAffinity));
    let spread = template.spec.get("topologySpreadConstraints");
    let constraints = spread.items().map(|constraint| {
        let is_required = constraint.get("whenUnsatisfiable").text() != Some("ScheduleAnyway");
        let most = constraint.get("maxSkew").int();
        (constraint, most, is_required, Cause::Constraint)
    });
    let mut all: Vec<NodeSpread<'a>> = terms
        .chain(constraints)
        .filter(|(node, ..)| concerns(node))
        .filter_map(|(node, most, is_required, cause)| {
            Some(NodeSpread { node: node.get("topologyKey"), most: most?, is_required, cause })
        })
        .chain(host_port(template))
        .collect();
    all.sort_by_key(|one| !one.is_required);
    all
}

/// The first port of the node that the pods of a template take.
fn host_port<'a>(template: &Template<'a>) -> Option<NodeSpread<'a>> {
    let node = node_port(template)?;
    Some(NodeSpread { node, most: 1, is_required: true, cause: Cause::HostPort })
}

/// The field with the first port of the node that a template takes. On the network of the node the ports of containers are those of
/// the node (`SetHostNetworkPorts` of Kubernetes).
pub(crate) fn node_port<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let of_node = template.spec.get("hostNetwork").bool() == Some(true);
    let mut ports = template.lasting_containers().flat_map(|container| container.get("ports").items());
    ports.find_map(|port| {
        let written = port.get("hostPort");
        let field = if of_node && !written.is_set() { port.get("containerPort") } else { written };
        field.int().filter(|number| *number > 0).map(|_| field)
    })
}

/// Whether an affinity term counts pods of a namespace: by default those of the pod's own.
fn is_of_namespace(term: &Node<'_>, namespace: Option<&str>) -> bool {
    let (names, selector) = (term.get("namespaces"), term.get("namespaceSelector"));
    if selector.is_set() {
        // An empty selector selects all namespaces.
        return selector.is_mapping() && selector.entries().is_empty();
    }
    let mut names = names.items().peekable();
    names.peek().is_none() || names.any(|name| namespace.is_some() && name.text() == namespace)
}
