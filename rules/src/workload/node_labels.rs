//! Where a pod speaks of labels of its nodes, and what becomes of it if no node carries the label.

use crate::tree::node::Node;
use crate::workload::template::Template;

/// How a pod uses a label of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It must be there, with the right value: node selector, required affinity.
    Wanted,
    /// It must be missing or differ: required affinity with `NotIn` or `DoesNotExist`.
    Avoided,
    /// It would be nice: preferred affinity.
    Preferred,
    /// Nodes are grouped by it, and the pod waits where they are not.
    Domain,
    /// Nodes are grouped by it where they can be.
    SoftDomain,
}

/// One mention of a label.
#[derive(Clone, Debug)]
pub(crate) struct Mention<'a> {
    /// The key.
    pub key: &'a str,
    /// What the pod wants of it.
    pub usage: Use,
    /// Where to report: the scalar that is the key, or the value whose key it is.
    pub place: Node<'a>,
    /// The selector that has the label as its own key; absent where the key is a scalar.
    pub selector: Option<Node<'a>>,
    /// The values; empty for operators without any and for domains.
    pub values: Vec<Node<'a>>,
}

/// Every label of nodes that a pod template speaks of, in the order of the fields.
pub(crate) fn mentions<'a>(template: &Template<'a>) -> Vec<Mention<'a>> {
    let mut out = Vec::new();
    let selector = template.spec.get("nodeSelector");
    for (key, value) in selector.entries() {
        out.push(Mention {
            key,
            usage: Use::Wanted,
            place: value.clone(),
            selector: Some(selector.clone()),
            values: vec![value],
        });
    }
    let affinity = template.spec.get("affinity");
    let node = affinity.get("nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for term in node.items_at(&[required, "nodeSelectorTerms"]) {
        expressions(&term, true, &mut out);
    }
    for wish in node.items_at(&[preferred]) {
        expressions(&wish.get("preference"), false, &mut out);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in affinity.items_at(&[kind, required]) {
            domain(&term, Use::Domain, &mut out);
        }
        for wish in affinity.items_at(&[kind, preferred]) {
            domain(&wish.get("podAffinityTerm"), Use::SoftDomain, &mut out);
        }
    }
    for spread in template.spec.get("topologySpreadConstraints").items() {
        let soft = spread.get("whenUnsatisfiable").text() == Some("ScheduleAnyway");
        let usage = if soft { Use::SoftDomain } else { Use::Domain };
        domain(&spread, usage, &mut out);
    }
    out
}

fn expressions<'a>(term: &Node<'a>, required: bool, out: &mut Vec<Mention<'a>>) {
    for expression in term.get("matchExpressions").items() {
        let place = expression.get("key");
        let Some(key) = place.text() else {
            continue;
        };
        let absence = matches!(expression.get("operator").text(), Some("NotIn" | "DoesNotExist"));
        out.push(Mention {
            key,
            usage: match (required, absence) {
                (false, _) => Use::Preferred,
                (true, true) => Use::Avoided,
                (true, false) => Use::Wanted,
            },
            place,
            selector: None,
            values: expression.get("values").items().collect(),
        });
    }
}

fn domain<'a>(term: &Node<'a>, usage: Use, out: &mut Vec<Mention<'a>>) {
    let place = term.get("topologyKey");
    if let Some(key) = place.text() {
        out.push(Mention { key, usage, place, selector: None, values: Vec::new() });
    }
}
