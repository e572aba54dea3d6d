//! Evaluation of label selectors as in the API server.

use std::collections::BTreeMap;

use crate::steps;
use crate::tree::node::Node;

/// Maximum number of labels of a selector for which labels are compared one after the other, and not by an index.
const FEW: usize = 8;

/// The value of a label; null is the empty string.
fn text<'a>(node: &Node<'a>) -> Option<&'a str> {
    if node.is_null() { Some("") } else { node.text() }
}

/// Whether a selector matches labels; `None` if that depends on a placeholder or the selector is invalid. An
/// absent selector matches nothing, an empty one everything.
pub fn matches(selector: &Node<'_>, labels: &[(&str, Node<'_>)]) -> Option<bool> {
    if !selector.is_set() {
        return Some(false);
    }
    if !selector.is_mapping() {
        return None;
    }
    let wanted = selector.get("matchLabels").entries();
    let by_name: Option<BTreeMap<&str, &Node<'_>>> = (wanted.len() > FEW && labels.len() > FEW)
        .then(|| labels.iter().rev().map(|(k, v)| (*k, v)).collect());
    steps::take(if by_name.is_some() { 4 * labels.len() } else { 0 });
    let value = |key: &str| match &by_name {
        Some(labels) => labels.get(key).copied(),
        None => {
            steps::take(labels.len() / 4);
            labels.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
        }
    };
    let mut unknown = false;
    for (key, wanted) in wanted {
        let Some(found) = value(key) else {
            return Some(false);
        };
        match (text(&wanted), text(found)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(_), Some(_)) => return Some(false),
            _ => unknown = true,
        }
    }
    for expression in selector.get("matchExpressions").items() {
        let key = expression.get("key").text()?;
        let found = value(key);
        let among = || -> Option<bool> {
            let label = text(found?)?;
            let mut wanted = expression.get("values").items();
            Some(wanted.any(|v| text(&v) == Some(label)))
        };
        let holds = match expression.get("operator").text()? {
            "Exists" => Some(found.is_some()),
            "DoesNotExist" => Some(found.is_none()),
            "In" if found.is_none() => Some(false),
            "NotIn" if found.is_none() => Some(true),
            "In" => among(),
            "NotIn" => among().map(|m| !m),
            _ => return None,
        };
        match holds {
            Some(true) => {}
            Some(false) => return Some(false),
            None => unknown = true,
        }
    }
    (!unknown).then_some(true)
}

/// Whether labels include those that a Service selects; `None` if that depends on a placeholder. An empty selector
/// matches nothing.
pub fn includes(wanted: &[(&str, Node<'_>)], labels: &[(&str, Node<'_>)]) -> Option<bool> {
    let mut unknown = wanted.is_empty();
    steps::take(wanted.len() * labels.len() / 4);
    for (key, wanted) in wanted {
        let Some((_, found)) = labels.iter().find(|(label, _)| label == key) else {
            return Some(false);
        };
        match (text(wanted), text(found)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(_), Some(_)) => return Some(false),
            _ => unknown = true,
        }
    }
    (!unknown).then_some(true)
}

/// Whether a selector has a label that a controller sets on pods, so that templates do not have it.
pub(crate) fn is_set_by_controllers<'a>(mut keys: impl Iterator<Item = &'a str>) -> bool {
    const LABELS: [&str; 5] = [
        "job-name",
        "controller-uid",
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
    ];
    const DOMAINS: [&str; 7] = [
        "batch.kubernetes.io",
        "apps.kubernetes.io",
        "statefulset.kubernetes.io",
        "jobset.sigs.k8s.io",
        "leaderworkerset.sigs.k8s.io",
        "training.kubeflow.org",
        "ray.io",
    ];
    keys.any(|key| {
        let domain = key.split_once('/').map(|(domain, _)| domain);
        LABELS.contains(&key) || domain.is_some_and(|domain| DOMAINS.contains(&domain))
    })
}
