//! Scheduling constraints of pods: node selectors, affinity, tolerations, topology spread.

use std::collections::BTreeSet;

use crate::lint::fix::{Fix, Safety};
use crate::tree::node::Node;
use crate::workload::gpu::is_extended;
use crate::workload::template::{PREFERRED_AFFINITY, REQUIRED_AFFINITY};

use super::pod::PodSpecOwner;
use super::selector::{labels, requirement, selector};
use super::syntax::{DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME};
use super::{Checker, mapping_items, may_hold_more_fields, quote};

pub(super) fn placement<'a>(spec: &Node<'a>, of: PodSpecOwner, report: &mut Checker<'a>) {
    labels(&spec.get("nodeSelector"), report);
    // Most pods have no affinity; its absent fields have long names that would be copied.
    let affinity = spec.get("affinity");
    if affinity.is_mapping() {
        nodes(&affinity.get("nodeAffinity"), report);
        for kind in ["podAffinity", "podAntiAffinity"] {
            let block = affinity.get(kind);
            for term in mapping_items(&block.get(REQUIRED_AFFINITY)) {
                pods(&term, report);
            }
            for weighted in mapping_items(&block.get(PREFERRED_AFFINITY)) {
                pods(&weighted.get("podAffinityTerm"), report);
            }
        }
    }
    for toleration in mapping_items(&spec.get("tolerations")) {
        tolerate(&toleration, of, report);
    }
    spread(&spec.get("topologySpreadConstraints"), report);
}

/// `matchLabelKeys` of a Pod: for each key among the labels of the Pod the API server adds an expression to
/// the selector, and rejects a second expression for that key. For templates this happens when the pod is
/// created.
pub(super) fn own_labels<'a>(labels: &Node<'a>, spec: &Node<'a>, report: &mut Checker<'a>) {
    let mut blocks: Vec<Node<'a>> = mapping_items(&spec.get("topologySpreadConstraints")).collect();
    for kind in ["podAffinity", "podAntiAffinity"] {
        let block = spec.path(&["affinity", kind]);
        blocks.extend(mapping_items(&block.get(REQUIRED_AFFINITY)));
        blocks.extend(mapping_items(&block.get(PREFERRED_AFFINITY)).map(|w| w.get("podAffinityTerm")));
    }
    for block in blocks {
        let chosen = block.get("labelSelector");
        for node in block.get("matchLabelKeys").items() {
            let Some(key) = node.text().filter(|key| labels.get(key).is_set()) else { continue };
            let mut expressions = mapping_items(&chosen.get("matchExpressions"));
            if chosen.get("matchLabels").get(key).is_set()
                || expressions.any(|e| e.get("key").text() == Some(key))
            {
                let message = format!("{} stands in `labelSelector` as well", quote(key));
                report
                    .error(&node, message)
                    .help("its value comes from the pod: remove the key from one of the two");
            }
        }
    }
}

fn nodes<'a>(affinity: &Node<'a>, report: &mut Checker<'a>) {
    let required = affinity.get(REQUIRED_AFFINITY);
    let terms = required.get("nodeSelectorTerms");
    if terms.is_sequence() && terms.items().next().is_none() {
        report
            .error(&terms, "`nodeSelectorTerms` needs a term")
            .help("write what the node must have, or leave the block out");
    }
    for term in mapping_items(&terms) {
        node_term(&term, true, report);
    }
    for preferred in mapping_items(&affinity.get(PREFERRED_AFFINITY)) {
        node_term(&preferred.get("preference"), false, report);
    }
}

fn node_term<'a>(term: &Node<'a>, strict: bool, report: &mut Checker<'a>) {
    const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    for expression in mapping_items(&term.get("matchExpressions")) {
        report.check_syntax(&expression.get("key"), &QUALIFIED_NAME);
        requirement(&expression, OPERATORS, report);
        if strict {
            for value in expression.get("values").items() {
                report.check_syntax(&value, &LABEL_VALUE);
            }
        }
    }
    for field in mapping_items(&term.get("matchFields")) {
        report.strict_choice(&field.get("key"), &["metadata.name"]);
        report.strict_choice(&field.get("operator"), &["In", "NotIn"]);
        let values = field.get("values");
        let count = values.items().count();
        if count != 1 && !values.is_unknown() {
            let message = "a field of a node is compared with one value";
            if values.is_set() {
                report.error(&values, message);
            } else {
                report.missing(&field, "values", message);
            }
        }
        for value in values.items() {
            report.check_syntax(&value, &DNS_SUBDOMAIN);
        }
    }
}

fn pods<'a>(term: &Node<'a>, report: &mut Checker<'a>) {
    if !term.is_mapping() {
        return;
    }
    let chosen = term.get("labelSelector");
    selector(&chosen, report);
    selector(&term.get("namespaceSelector"), report);
    for namespace in term.get("namespaces").items() {
        report.check_syntax(&namespace, &DNS_LABEL);
    }
    report.required_name(term, "topologyKey", &QUALIFIED_NAME);
    let same = keys(term, "matchLabelKeys", report);
    let other = keys(term, "mismatchLabelKeys", report);
    for (node, key) in same.iter().filter(|(_, k)| other.iter().any(|(_, o)| o == k)) {
        report.error(node, format!("{} stands in `mismatchLabelKeys` as well", quote(key)));
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys`: require a selector, and exclude the keys of the selector.
fn keys<'a>(block: &Node<'a>, field: &str, report: &mut Checker<'a>) -> Vec<(Node<'a>, &'a str)> {
    let list = block.get(field);
    let chosen = block.get("labelSelector");
    if list.items().next().is_none() || chosen.is_unknown() {
        return Vec::new();
    }
    if !chosen.is_set() && !report.partial && !may_hold_more_fields(block) {
        report
            .error(&list, format!("`{field}` needs a `labelSelector` beside it"))
            .help("write the `labelSelector` that the keys narrow");
    }
    let mut out = Vec::new();
    for node in list.items() {
        report.check_syntax(&node, &QUALIFIED_NAME);
        out.extend(node.text().map(|t| (node.clone(), t)));
    }
    out
}

fn tolerate<'a>(toleration: &Node<'a>, of: PodSpecOwner, report: &mut Checker<'a>) {
    let (key, operator) = (toleration.get("key"), toleration.get("operator"));
    let (value, effect) = (toleration.get("value"), toleration.get("effect"));
    report.check_syntax_unless_empty(&key, &QUALIFIED_NAME);
    let how = operator.text().unwrap_or_default();
    let open = may_hold_more_fields(toleration) || report.partial;
    if !key.is_unknown()
        && !operator.is_unknown()
        && key.text().unwrap_or_default().is_empty()
        && matches!(how, "" | "Equal")
        && !open
    {
        let message = "a toleration without `key` needs `operator: Exists`";
        let refusal = if operator.is_set() {
            report.error(&operator, message)
        } else {
            report.missing(toleration, "operator", message)
        };
        refusal.help("name the taint's `key`; without one every taint is tolerated");
        return;
    }
    match how {
        "Exists" if value.text().is_some_and(|v| !v.is_empty()) => {
            let fix = Fix::new("remove `value`", Safety::Unsafe).remove(&value);
            report
                .error(&operator, "`value` is not allowed with `operator: Exists`")
                .help("leave `value` out, or write `operator: Equal`")
                .fix(fix);
        }
        "" | "Equal" if !operator.is_unknown() => {
            if let Some(text) = value.text()
                && !(LABEL_VALUE.accepts)(text)
            {
                // The API server reports this at the operator.
                let node = if operator.is_set() { &operator } else { toleration };
                report
                    .error(node, format!("the `value` {} is not a label value", quote(text)))
                    .help(LABEL_VALUE.help);
            }
        }
        _ => {}
    }
    let seconds = toleration.get("tolerationSeconds");
    // In a Pod, EKS replaces a toleration of a GPU taint that differs from its own only in this field.
    let rewritten = of == PodSpecOwner::Pod
        && how == "Exists"
        && effect.text() == Some("NoSchedule")
        && key.text().is_some_and(is_extended);
    if seconds.is_set() && !rewritten && !effect.is_unknown() && effect.text() != Some("NoExecute") && !open {
        let message = "`tolerationSeconds` needs `effect: NoExecute`";
        let refusal = if effect.is_set() {
            report.error(&effect, message)
        } else {
            report.missing(toleration, "effect", message)
        };
        refusal.help("write `effect: NoExecute`, or leave `tolerationSeconds` out");
    }
}

fn spread<'a>(list: &Node<'a>, report: &mut Checker<'a>) {
    let mut seen = BTreeSet::new();
    for constraint in mapping_items(list) {
        report.required_text(&constraint, "topologyKey");
        let action = constraint.get("whenUnsatisfiable");
        if let (Some(key), Some(action)) = (constraint.get("topologyKey").text(), action.text())
            && !seen.insert((key, action))
        {
            report
                .error(&constraint, format!("a second constraint for {} and `{action}`", quote(key)))
                .help("merge the two, or change one");
        }
        let domains = constraint.get("minDomains");
        if domains.is_set() && action.text().is_some_and(|a| a != "DoNotSchedule") {
            report
                .error(&domains, "`minDomains` needs `whenUnsatisfiable: DoNotSchedule`")
                .help("leave `minDomains` out, or write `DoNotSchedule`");
        }
        let chosen = constraint.get("labelSelector");
        selector(&chosen, report);
        keys(&constraint, "matchLabelKeys", report);
    }
}
