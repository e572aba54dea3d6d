//! Requirements on a custom label whose numeric range is empty, so that Karpenter cannot choose a value for
//! it.

use crate::karpenter::provider::is_custom;
use crate::karpenter::requirement::{Operator, Requirement, is_restricted, normalise};
use crate::karpenter::requirement_list::is_comparison;
use crate::tree::node::Node;

/// A requirement or an expression of an affinity term. `None` if it contains a placeholder or is invalid.
fn parse_requirement<'a>(node: &Node<'a>) -> Option<(&'a str, Requirement)> {
    if node.has_unknown() {
        return None;
    }
    let key = node.get("key").text()?;
    let op = node.get("operator").text()?.parse::<Operator>().ok()?;
    let values: Vec<String> =
        node.get("values").items().filter_map(|v| v.text().map(str::to_owned)).collect();
    if is_comparison(op) && !matches!(values.as_slice(), [v] if v.parse::<i64>().is_ok()) {
        return None;
    }
    Some((normalise(key), Requirement::new(op, &values, None)))
}

/// Whether the key is a label that only people set.
fn is_own(key: &str) -> bool {
    is_custom(key)
        && !is_restricted(key)
        && !key.starts_with("eks.amazonaws.com/")
        && !key.starts_with("karpenter.")
}

/// Finds the requirements that leave a custom key with an empty range. Returns the node of the value, and the
/// key.
pub(crate) fn empty_ranges<'a>(lines: &[Node<'a>], fixed: &[&str]) -> Vec<(Node<'a>, &'a str)> {
    let mut out: Vec<(Node<'a>, &'a str)> = Vec::new();
    // Without a bound there are numbers. A requirement whose key is a placeholder may apply to any key.
    let bounds_own = |line: &Node<'_>| {
        let operator = line.get("operator").text().and_then(|text| text.parse().ok());
        operator.is_some_and(is_comparison)
            && line.get("key").text().is_some_and(|key| is_own(normalise(key)))
    };
    if !lines.iter().any(bounds_own) || lines.iter().any(|l| l.is_unknown() || l.get("key").is_unknown()) {
        return out;
    }
    for first in lines {
        let Some(key) = first.get("key").text().map(normalise) else { continue };
        if !is_own(key) || fixed.contains(&key) || out.iter().any(|(_, k)| *k == key) {
            continue;
        }
        let of_key = || lines.iter().filter(|l| l.get("key").text().map(normalise) == Some(key));
        let parts: Option<Vec<Requirement>> = of_key().map(|l| Some(parse_requirement(l)?.1)).collect();
        let whole = parts.and_then(|p| p.into_iter().reduce(|a, b| a.intersect(&b)));
        if !whole.is_some_and(|r| r.is_empty_range()) {
            continue;
        }
        let culprit =
            of_key().find(|l| parse_requirement(l).is_some_and(|(_, r)| r.is_empty_range())).unwrap_or(first);
        out.push((culprit.get("values").index(0), key));
    }
    out
}
