//! Where a pod speaks of labels of its nodes, and what becomes of it if no node carries the label.

use crate::tree::node::Node;
use crate::workload::template::Template;

/// How a pod uses a label of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelUse {
    /// It must be there, with the right value: node selector, required affinity.
    Required,
    /// It must be missing or differ: required affinity with `NotIn` or `DoesNotExist`.
    Excluded,
    /// It would be nice: preferred affinity.
    Preferred,
    /// Nodes are grouped by it, and the pod waits where they are not.
    Topology,
    /// Nodes are grouped by it where they can be.
    SoftTopology,
}

/// One mention of a label.
#[derive(Clone, Debug)]
pub(crate) struct LabelReference<'a> {
    /// The key.
    pub key: &'a str,
    /// What the pod wants of it.
    pub usage: LabelUse,
    /// Where to report: the scalar that is the key, or the value whose key it is.
    pub node: Node<'a>,
    /// The selector that has the label as its own key; absent where the key is a scalar.
    pub selector: Option<Node<'a>>,
    /// The values; empty for operators without any and for domains.
    pub values: Vec<Node<'a>>,
}

/// Every label of nodes that a pod template speaks of, in the order of the fields.
pub(crate) fn referenced_labels<'a>(template: &Template<'a>) -> Vec<LabelReference<'a>> {
    let mut out = Vec::new();
    let selector = template.spec.get("nodeSelector");
    for (key, value) in selector.entries() {
        out.push(LabelReference {
            key,
            usage: LabelUse::Required,
            node: value.clone(),
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
            topology_key(&term, LabelUse::Topology, &mut out);
        }
        for wish in affinity.items_at(&[kind, preferred]) {
            topology_key(&wish.get("podAffinityTerm"), LabelUse::SoftTopology, &mut out);
        }
    }
    for spread in template.spec.get("topologySpreadConstraints").items() {
        let soft = spread.get("whenUnsatisfiable").text() == Some("ScheduleAnyway");
        let usage = if soft { LabelUse::SoftTopology } else { LabelUse::Topology };
        topology_key(&spread, usage, &mut out);
    }
    out
}

fn expressions<'a>(term: &Node<'a>, required: bool, out: &mut Vec<LabelReference<'a>>) {
    for expression in term.get("matchExpressions").items() {
        let place = expression.get("key");
        let Some(key) = place.text() else {
            continue;
        };
        let absence = matches!(expression.get("operator").text(), Some("NotIn" | "DoesNotExist"));
        out.push(LabelReference {
            key,
            usage: match (required, absence) {
                (false, _) => LabelUse::Preferred,
                (true, true) => LabelUse::Excluded,
                (true, false) => LabelUse::Required,
            },
            node: place,
            selector: None,
            values: expression.get("values").items().collect(),
        });
    }
}

fn topology_key<'a>(term: &Node<'a>, usage: LabelUse, out: &mut Vec<LabelReference<'a>>) {
    let place = term.get("topologyKey");
    if let Some(key) = place.text() {
        out.push(LabelReference { key, usage, node: place, selector: None, values: Vec::new() });
    }
}
