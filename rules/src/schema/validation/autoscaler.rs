//! HorizontalPodAutoscaler of `autoscaling/v2`. The rule hpa-replica-bounds checks `minReplicas` and
//! `maxReplicas`.

use crate::facts::quantity::Quantity;
use crate::tree::node::Node;

use super::syntax::{DNS_LABEL, PATH_SEGMENT};
use super::{Checker, mapping_items, may_hold_more_fields, quote, resources};

/// The types of metrics with the fields that describe them, in the order in which the API server checks them.
const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) fn autoscaler<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let target = spec.get("scaleTargetRef");
    reference(&target, false, report);
    for metric in mapping_items(&spec.get("metrics")) {
        one(&metric, report);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let tolerance = spec.path(&["behavior", direction, "tolerance"]);
        let is_negative = tolerance.string_or_number().is_some_and(|text| text.starts_with('-'));
        if is_negative {
            report
                .error(&tolerance, "`tolerance` is below 0")
                .help("write the ratio by which a metric may differ from its target, such as 0.1");
        }
    }
}

/// A reference to an object. `scaleTargetRef` requires an `apiVersion` with a group.
fn reference<'a>(target: &Node<'a>, any_group: bool, report: &mut Checker<'a>) {
    if !target.is_mapping() {
        return;
    }
    for field in ["kind", "name"] {
        report.required_name(target, field, &PATH_SEGMENT);
    }
    let version = target.get("apiVersion");
    let controller = target.get("kind").text() == Some("ReplicationController");
    if target.get("kind").is_unknown() {
        return;
    }
    let text = version.text().unwrap_or_default();
    if text.split('/').count() > 2 {
        report.error(&version, format!("{} is not a version", quote(text)));
    } else if !version.is_unknown() && !text.contains('/') && !any_group && !controller {
        let message = "`apiVersion` must name a group";
        let refusal = if version.is_set() {
            report.error(&version, message)
        } else {
            report.missing(target, "apiVersion", message)
        };
        refusal.help("write `apps/v1` for a Deployment or StatefulSet");
        if matches!(target.get("kind").text(), Some("Deployment" | "StatefulSet" | "ReplicaSet")) {
            let fix = crate::lint::fix::Fix::new("write `apps/v1`", crate::lint::fix::Safety::Safe)
                .set(&version, serde_json::json!("apps/v1"));
            refusal.fix(fix);
        }
    }
}

fn one<'a>(metric: &Node<'a>, report: &mut Checker<'a>) {
    let kind = metric.get("type");
    let wanted = SOURCES.iter().find(|(k, _)| kind.text() == Some(*k));
    if let Some((name, field)) = wanted {
        let block = metric.get(field);
        if !block.is_set() {
            report
                .missing(metric, field, format!("`type: {name}` needs `{field}`"))
                .help(format!("write the metric under `{field}`"));
        }
        for (_, other) in SOURCES {
            let node = metric.get(other);
            if other != field && node.is_set() {
                report
                    .error(&node, format!("`{other}` is not allowed with `type: {name}`"))
                    .help("write one metric an item");
            }
        }
    }
    // Check only the first field that is set, as the API server does.
    let Some((name, field)) = SOURCES.iter().find(|(_, f)| metric.get(f).is_set()) else { return };
    let block = metric.get(field);
    if block.is_mapping() {
        source(name, &block, report);
    }
}

fn source<'a>(kind: &str, block: &Node<'a>, report: &mut Checker<'a>) {
    let target = block.get("target");
    match kind {
        "Resource" | "ContainerResource" => {
            report.required_text(block, "name");
            if kind == "ContainerResource" {
                let name = block.get("name");
                if let Some(text) = name.text().filter(|t| !t.is_empty()) {
                    resources::resource_name(text, &name, report);
                }
                report.required_name(block, "container", &DNS_LABEL);
            }
            either(&target, ("averageUtilization", "averageValue"), true, report);
        }
        _ => {
            let metric = block.get("metric");
            if metric.is_mapping() {
                report.required_name(&metric, "name", &PATH_SEGMENT);
            }
            match kind {
                "Pods" => {
                    if target.is_mapping() && !target.get("averageValue").is_set() {
                        report
                            .missing(&target, "averageValue", "a metric of pods needs `averageValue`")
                            .help("write the value that one pod should have");
                    }
                }
                "Object" => {
                    reference(&block.get("describedObject"), true, report);
                    either(&target, ("averageValue", "value"), false, report);
                }
                _ => either(&target, ("averageValue", "value"), true, report),
            }
        }
    }
    for field in ["value", "averageValue"] {
        let node = target.get(field);
        if node.is_set() && Quantity::at_or_zero(&node).is_some_and(|q| q <= Quantity::ZERO) {
            report.error(&node, format!("`{field}` is not above 0")).help("write a target above 0");
        }
    }
}

/// Requires one of two targets. The API server reports a missing target at the first.
fn either<'a>(target: &Node<'a>, (first, second): (&str, &str), exclusive: bool, report: &mut Checker<'a>) {
    if !target.is_mapping() || may_hold_more_fields(target) {
        return;
    }
    let (a, b) = (target.get(first), target.get(second));
    if !a.is_set() && !b.is_set() {
        report
            .missing(target, first, format!("one of `{first}` and `{second}` is required"))
            .help(format!("write `{first}` or `{second}`"));
    } else if exclusive && a.is_set() && b.is_set() {
        report.error(&b, format!("`{first}` and `{second}` exclude each other")).help("keep one of them");
    }
}
