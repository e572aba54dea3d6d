//! Pods that are for nodes which Karpenter does not start.

use crate::karpenter::provider::is_karpenter_label;
use crate::tree::node::Node;
use crate::workload::node_labels::is_of_other_nodes;
use crate::workload::template::Template;

/// The label that keeps the pods of a template on nodes of another kind, such as those of a managed node group: one that an
/// alternative of the pod requires beside no label of Karpenter's.
pub(crate) fn label_of_other_nodes<'a>(template: &Template<'a>) -> Option<(&'a str, Node<'a>)> {
    required_labels(template).into_iter().find_map(|alternative| {
        let of_karpenter = alternative.iter().any(|(key, _)| is_karpenter_label(key));
        alternative.into_iter().find(|(key, _)| !of_karpenter && is_of_other_nodes(key))
    })
}

/// The labels that each alternative of a pod requires of its node.
pub(crate) fn required_labels<'a>(template: &Template<'a>) -> Vec<Vec<(&'a str, Node<'a>)>> {
    let selector = template.spec.get("nodeSelector").entries();
    let terms = template.required_terms();
    let of_term = |term: Node<'a>| {
        let present = term.get("matchExpressions").items().filter_map(|expression| {
            let is_present = matches!(expression.get("operator").text(), Some("In" | "Exists" | "Gt" | "Lt"));
            let key = expression.get("key");
            is_present.then(|| key.text().map(|text| (text, key.clone())))?
        });
        selector.iter().cloned().chain(present).collect()
    };
    let alternatives: Vec<Vec<_>> = terms.items().map(of_term).collect();
    if alternatives.is_empty() { vec![selector.to_vec()] } else { alternatives }
}
