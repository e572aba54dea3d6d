//! Label selectors: syntax, and whether the selector of a workload matches its template.

use serde_json::Value;

use super::syntax::{LABEL_VALUE, QUALIFIED_NAME};
use super::{Checker, mapping_items, may_hold_more_fields, quote};
use crate::lint::fix::{Fix, Safety};
use crate::tree::node::Node;
use crate::workload::selector::matches;

const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];

/// The keys and values of a map of labels.
pub(crate) fn labels<'a>(map: &Node<'a>, report: &mut Checker<'a>) {
    for (key, value) in map.entries() {
        if crate::tree::placeholder::is_placeholder(key) {
            continue;
        }
        if !(QUALIFIED_NAME.accepts)(key) {
            report
                .error(&value, format!("the key {} is not a qualified name", quote(key)))
                .help(QUALIFIED_NAME.help);
        }
        report.check_syntax(&value, &LABEL_VALUE);
    }
}

pub(crate) fn selector<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    labels(&node.get("matchLabels"), report);
    for expression in mapping_items(&node.get("matchExpressions")) {
        let key = expression.get("key");
        if key.is_set() {
            report.check_syntax(&key, &QUALIFIED_NAME);
        } else {
            report.required(&expression, "key");
        }
        requirement(&expression, OPERATORS, report);
        for value in expression.get("values").items() {
            report.check_syntax(&value, &LABEL_VALUE);
        }
    }
}

/// The operator of a requirement, and the number of values that it allows.
pub(crate) fn requirement<'a>(expression: &Node<'a>, operators: &[&str], report: &mut Checker<'a>) {
    report.required_choice(expression, "operator", operators);
    let values = expression.get("values");
    if values.is_unknown() {
        return;
    }
    let count = values.items().count();
    let Some(operator) = expression.get("operator").text() else { return };
    match operator {
        "In" | "NotIn" if count == 0 => {
            let message = format!("`{operator}` needs `values`");
            if values.is_set() {
                report.error(&values, message);
            } else {
                report.missing(expression, "values", message);
            }
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            report
                .error(&values, format!("`values` is not allowed with `{operator}`"))
                .help("leave `values` out, or write `In`");
        }
        "Gt" | "Lt" if operators.contains(&operator) && count != 1 => {
            let message = format!("`{operator}` requires one value");
            if values.is_set() {
                report.error(&values, message);
            } else {
                report.missing(expression, "values", message);
            }
        }
        _ => {}
    }
}

/// The selector of a workload: not empty, and matching the labels of its template.
pub(crate) fn template_selector<'a>(
    spec: &Node<'a>,
    template: &Node<'a>,
    required: bool,
    report: &mut Checker<'a>,
) {
    let node = spec.get("selector");
    let labels_node = template.path(&["metadata", "labels"]);
    if !node.is_set() {
        if required {
            let labels = labels_node.to_json();
            let refusal = report.required(spec, "selector");
            refusal.help("select the labels of the pod template under `matchLabels`");
            if labels.as_object().is_some_and(|l| !l.is_empty()) && !labels_node.has_unknown() {
                let target = refusal.node.get("matchLabels");
                refusal.fix(
                    Fix::new("select the labels of the pod template", Safety::Unsafe).set(&target, labels),
                );
            }
        }
        return;
    }
    selector(&node, report);
    if !node.is_mapping() || may_hold_more_fields(&node) {
        return;
    }
    let empty = |field: &str| {
        let part = node.get(field);
        !part.is_unknown() && part.entries().is_empty() && part.items().next().is_none()
    };
    if empty("matchLabels") && empty("matchExpressions") {
        if !report.partial && !report.kustomized {
            report
                .error(&node, "`selector` may not be empty")
                .help("select the labels of the pod template under `matchLabels`");
        }
        return;
    }
    selects_template(&node, &labels_node, template, report);
}

/// Reports a selector that does not match the labels of the template.
fn selects_template<'a>(
    node: &Node<'a>,
    labels_node: &Node<'a>,
    template: &Node<'a>,
    report: &mut Checker<'a>,
) {
    if report.partial
        || !template.is_mapping()
        || may_hold_more_fields(template)
        || may_hold_more_fields(&template.get("metadata"))
        || may_hold_more_fields(labels_node)
    {
        return;
    }
    let labels = labels_node.entries();
    if matches(node, &labels) != Some(false) {
        return;
    }
    let wanted = node.get("matchLabels");
    let differs = wanted.entries().into_iter().find(|(key, value)| {
        let label = labels_node.get(key);
        label.is_absent() || label.text().unwrap_or_default() != value.text().unwrap_or_default()
    });
    // The labels of a kustomization are written into templates as well.
    if report.kustomized && differs.as_ref().is_some_and(|(key, _)| labels_node.get(key).is_absent()) {
        return;
    }
    let message = match &differs {
        Some((key, value)) if !labels_node.get(key).is_absent() => format!(
            "the pods' label {} is not {}, as `selector` requires",
            quote(key),
            quote(value.text().unwrap_or_default())
        ),
        Some((key, _)) => format!("the pods lack the label {} of `selector`", quote(key)),
        None => "`selector` does not select the labels of the pods".to_owned(),
    };
    let mut fix = None;
    if node.get("matchExpressions").items().next().is_none() && !wanted.has_unknown() {
        let mut all = match labels_node.to_json() {
            Value::Object(map) => map,
            _ => serde_json::Map::new(),
        };
        for (key, value) in wanted.entries() {
            all.insert(key.to_owned(), value.to_json());
        }
        fix = Some(
            Fix::new("give the pods the labels of the selector", Safety::Unsafe)
                .set(labels_node, Value::Object(all)),
        );
    }
    let refusal = report.error(labels_node, message);
    refusal.help("write the labels of `selector` into the pod template");
    if let Some(fix) = fix {
        refusal.fix(fix);
    }
}
