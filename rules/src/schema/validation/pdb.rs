//! PodDisruptionBudget of `policy/v1` and `policy/v1beta1`.

use serde_json::json;

use super::{Checker, field_name, quote, selector};
use crate::facts::text::is_digits;
use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::tree::node::Node;

pub(crate) fn budget<'a>(object: &'a Object, report: &mut Checker<'a>) {
    let spec = object.get("spec");
    if !spec.is_mapping() {
        return;
    }
    let least = spec.get("minAvailable");
    let most = spec.get("maxUnavailable");
    if least.is_set() && most.is_set() {
        report
            .error(&least, "`minAvailable` and `maxUnavailable` exclude each other")
            .help("keep one: `maxUnavailable` also holds when the number of replicas changes")
            .related(&most, "the other one")
            .fix(Fix::new("keep `maxUnavailable`", Safety::Unsafe).remove(&least));
    }
    amount(&least, report);
    amount(&most, report);
    selector::selector(&spec.get("selector"), report);
}

/// Whether the API server accepts the selector of a PodDisruptionBudget.
pub(crate) fn has_valid_selector(object: &Object) -> bool {
    let mut report = Checker::new(object);
    selector::selector(&object.path(&["spec", "selector"]), &mut report);
    report.into_errors().is_empty()
}

/// An integer of at least 0, or a text with an integer percentage of at most 100.
fn amount<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    let name = field_name(node);
    if let Some(count) = node.int() {
        if count < 0 {
            report
                .error(node, format!("`{name}` {count} is below 0"))
                .help("write 0 or more, or a percentage");
        }
        return;
    }
    let Some(text) = node.text() else { return };
    if let Some(percent) = text.strip_suffix('%')
        && is_digits(percent)
    {
        if percent.parse::<u32>().is_ok_and(|p| p <= 100) {
            return;
        }
        report.error(node, format!("`{name}` {} is above 100 %", quote(text))).help("write 100% at most");
        return;
    }
    if is_digits(text)
        && let Ok(count) = text.parse::<i32>()
    {
        report
            .error(node, format!("`{name}` is a number in quotes: the API server rejects it"))
            .help(format!("write {count} without quotes"))
            .fix(Fix::new("remove the quotes", Safety::Safe).set(node, json!(count)));
        return;
    }
    report
        .error(node, format!("`{name}` {} is neither a number nor a percentage", quote(text)))
        .help("write a whole number without quotes, or a whole percentage such as `50%`");
}
