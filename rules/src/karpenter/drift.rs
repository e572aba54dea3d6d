//! Whether an edit of a live NodePool or EC2NodeClass replaces nodes (docs/facts.md, "Drift").
//!
//! Karpenter stores a hash of the fields that a node was created from. The order of lists and empty values do
//! not change the hash. A node whose hash differs has drifted and is replaced within the disruption budgets.
//! Requirements are not hashed: a node drifts if its labels no longer meet them. Values are compared as the
//! API server stores them, with its defaults.

use serde_json::{Map, Value};

use crate::catalog;
use crate::catalog::TypeSet;
use crate::karpenter::requirement::{Operator, Requirement, Requirements, normalise};
use crate::karpenter::scheduling;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::pointer::Pointer;

const TEMPLATE: &[&str] = &["spec", "template"];
/// Fields of the node template of a NodePool that are part of the hash.
const HASHED_FIELDS: [&[&str]; 7] = [
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["spec", "taints"],
    &["spec", "startupTaints"],
    &["spec", "nodeClassRef"],
    &["spec", "expireAfter"],
    &["spec", "terminationGracePeriod"],
];

/// Fields of an EC2NodeClass that are not part of the hash: Karpenter compares what they select instead.
const UNHASHED_FIELDS: [&str; 6] = [
    "amiFamily",
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
    "ipPrefixCount",
];

/// Whether nodes created from `before` are replaced when the object becomes `after`. `true` if `after` is
/// another kind or version of object, `false` for kinds from which no node is created. What a change selects
/// (AMIs, subnets, security groups, reservations) is not known here.
pub fn replaces_nodes(before: &Value, after: &Value) -> bool {
    let text = |name: &str| before.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split('/').next().unwrap_or_default();
    let ours = matches!(group, "karpenter.sh" | "karpenter.k8s.aws");
    let becomes_another = ["apiVersion", "kind"].iter().any(|name| before.get(name) != after.get(name));
    if ours && becomes_another {
        return true;
    }
    match (group, text("kind")) {
        ("karpenter.sh", "NodePool") => pool_drifts(&value_at(before, TEMPLATE), &value_at(after, TEMPLATE)),
        // A Provisioner has these fields directly below `spec`, not in a template.
        ("karpenter.sh", "Provisioner") => {
            let spec = |object: &Value| value_at(object, &["spec"]);
            let (old, new) = (spec(before), spec(after));
            let mut fields = ["labels", "annotations", "taints", "startupTaints"].iter();
            fields.any(|name| normalized(&value_at(&old, &[name])) != normalized(&value_at(&new, &[name])))
        }
        ("karpenter.k8s.aws", "EC2NodeClass") => {
            node_class_hash_input(before) != node_class_hash_input(after)
        }
        _ => false,
    }
}

/// Whether a field is part of the hash of a NodePool or EC2NodeClass, so that changing it replaces nodes.
pub fn is_hashed(object: &Object, field: &Pointer) -> bool {
    let steps: Vec<&str> = field.steps().iter().map(String::as_str).collect();
    if object.is(Kind::NODE_POOL) {
        let template = steps.strip_prefix(TEMPLATE);
        template.is_some_and(|steps| HASHED_FIELDS.iter().any(|path| steps.starts_with(path)))
    } else if object.is(Kind::EC2_NODE_CLASS) {
        matches!(steps.as_slice(), ["spec", name, ..] if !UNHASHED_FIELDS.contains(name))
    } else {
        false
    }
}

fn pool_drifts(old: &Value, new: &Value) -> bool {
    let group = value_at(old, &["spec", "nodeClassRef", "group"]);
    let auto_mode = group.as_str() == Some("eks.amazonaws.com");
    let Some(had) = template_requirements(old, auto_mode) else {
        return false;
    };
    let nodes = admitted_types(&had);
    if nodes.is_empty() {
        return false;
    }
    let hash = |template: &Value, path: &[&str]| hash_input(path, &value_at(template, path));
    if HASHED_FIELDS.iter().any(|path| hash(old, path) != hash(new, path)) {
        return true;
    }
    let Some(wants) = template_requirements(new, auto_mode) else {
        return true;
    };
    // Keys that the instance type decides are compared by the admitted types, so that a value which no type
    // has can be removed.
    !nodes.is_subset(&admitted_types(&wants)) || !old_implies_new(&had, &wants)
}

fn value_at(value: &Value, path: &[&str]) -> Value {
    let mut value = value;
    for step in path {
        match value.get(step) {
            Some(next) => value = next,
            None => return Value::Null,
        }
    }
    value.clone()
}

fn hash_input(path: &[&str], value: &Value) -> Value {
    match (path.last(), value) {
        (Some(&"expireAfter"), Value::Null) => Value::from("720h"),
        _ => Some(normalized(value)).filter(|v| !is_empty(v)).unwrap_or_default(),
    }
}

fn node_class_hash_input(object: &Value) -> Value {
    let Value::Object(mut spec) = value_at(object, &["spec"]) else {
        return Value::Null;
    };
    spec.retain(|name, _| !UNHASHED_FIELDS.contains(&name.as_str()));
    let options = spec.remove("metadataOptions");
    let mut metadata = Map::new();
    metadata.insert("httpEndpoint".to_owned(), "enabled".into());
    metadata.insert("httpProtocolIPv6".to_owned(), "disabled".into());
    metadata.insert("httpPutResponseHopLimit".to_owned(), 1.into());
    metadata.insert("httpTokens".to_owned(), "required".into());
    if let Some(Value::Object(written)) = options {
        metadata.extend(written);
    }
    spec.insert("metadataOptions".to_owned(), Value::Object(metadata));
    normalized(&Value::Object(spec))
}

/// The value without empty values, with the items of lists in sorted order.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(normalized).collect();
            items.sort_by_key(Value::to_string);
            items.dedup();
            Value::Array(items)
        }
        Value::Object(entries) => {
            let mut entries: Vec<(String, Value)> = entries
                .iter()
                .map(|(name, value)| (name.clone(), normalized(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        _ if is_empty(value) => Value::Null,
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        // Numbers and booleans are pointers in Go: a written zero value counts.
        Value::Bool(_) | Value::Number(_) => false,
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

/// The requirements and labels of a node template. `None` if no node can meet them.
fn template_requirements(template: &Value, auto_mode: bool) -> Option<Requirements> {
    let mut all = Requirements::new();
    let mut add = |key: &str, requirement: Requirement| match key.strip_prefix("eks.amazonaws.com/instance-")
    {
        Some(rest) if auto_mode => {
            all.add(&format!("karpenter.k8s.aws/instance-{rest}"), requirement);
        }
        // A label of another provider is treated as a custom label that may have any value.
        None if auto_mode && key.starts_with("karpenter.k8s.aws/") => {}
        _ => all.add(key, requirement),
    };
    let list = value_at(template, &["spec", "requirements"]);
    for item in list.as_array().into_iter().flatten() {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let (Some(key), Some(Ok(operator))) = (text("key"), text("operator").map(str::parse::<Operator>))
        else {
            continue;
        };
        let values = item.get("values").and_then(Value::as_array);
        let values: Vec<String> = values
            .into_iter()
            .flatten()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            // No node has a label value that does not exist.
            .filter(|v| operator != Operator::In || is_possible_value(key, v))
            .collect();
        if operator == Operator::In && values.is_empty() {
            return None;
        }
        add(key, Requirement::new(operator, &values, None));
    }
    let labels = value_at(template, &["metadata", "labels"]);
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str()?;
        if !is_possible_value(key, value) {
            return None;
        }
        add(key, Requirement::is(value));
    }
    Some(all)
}

/// Whether a node can have the value: the catalogue contains it, or does not contain the key.
fn is_possible_value(key: &str, value: &str) -> bool {
    catalog::values(normalise(key)).is_none_or(|values| values.contains(value))
}

/// The instance types that meet the requirements. Requirements on other keys do not reduce them.
fn admitted_types(requirements: &Requirements) -> TypeSet {
    scheduling::admitted_without_class(requirements).types
}

/// Whether every node that meets the old requirements also meets the new ones, on the keys that the instance
/// type does not decide: no new requirement is stricter than the old one.
fn old_implies_new(old: &Requirements, new: &Requirements) -> bool {
    new.iter().filter(|(key, _)| catalog::index(key).is_none()).all(|(key, wanted)| match old.get(key) {
        None => wanted.allows_absence(),
        Some(had) => had == wanted || had.intersect(wanted) == *had,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::replaces_nodes;

    fn of(template: Value) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": template}})
    }

    fn requiring(requirements: Value) -> Value {
        of(json!({"spec": {"requirements": requirements}}))
    }

    #[test]
    fn what_is_hashed_replaces_nodes() {
        let bare = of(json!({}));
        for (template, replaced) in [
            (json!({"metadata": {"labels": {"a": "b"}}}), true),
            (json!({"metadata": {"annotations": {"a": "b"}}}), true),
            (json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}), true),
            (json!({"spec": {"terminationGracePeriod": "24h"}}), true),
            (json!({"spec": {"expireAfter": "Never"}}), true),
            // The default of an absent field, and empty values.
            (json!({"spec": {"expireAfter": "720h"}}), false),
            (json!({"spec": {"taints": []}, "metadata": {"labels": {}}}), false),
        ] {
            assert_eq!(replaces_nodes(&bare, &of(template.clone())), replaced, "{template}");
        }
        let taints = |list: Value| of(json!({"spec": {"taints": list}}));
        let (a, b) = (json!({"key": "a"}), json!({"key": "b", "value": ""}));
        let turned = taints(json!([{"key": "b"}, a]));
        assert!(!replaces_nodes(&taints(json!([a, b])), &turned));
        let mut outside = bare.clone();
        outside["spec"]["limits"] = json!({"cpu": 1});
        outside["spec"]["disruption"] = json!({"consolidateAfter": "1m"});
        assert!(!replaces_nodes(&bare, &outside));
    }

    #[test]
    fn requirements_replace_nodes_that_no_longer_meet_them() {
        let family = |values: Value| json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": values});
        let (one, two) =
            (requiring(json!([family(json!(["g5"]))])), requiring(json!([family(json!(["g5", "g6"]))])));
        assert!(replaces_nodes(&two, &one));
        assert!(!replaces_nodes(&one, &two));
        assert!(replaces_nodes(&requiring(json!([])), &one));
        // No node has an instance family that does not exist, so removing it replaces no nodes.
        let misspelt = requiring(json!([family(json!(["g5", "g6x"]))]));
        assert!(!replaces_nodes(&misspelt, &one));
        assert!(!replaces_nodes(&requiring(json!([family(json!(["g6x"]))])), &two));
        assert!(!replaces_nodes(&one, &requiring(json!([]))));
        let not = json!({"key": "example.com/old", "operator": "DoesNotExist"});
        assert!(!replaces_nodes(&requiring(json!([])), &requiring(json!([not]))));
    }

    #[test]
    fn a_class_is_hashed_but_for_what_it_selects() {
        let class =
            |spec: Value| json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": spec});
        let bare = class(json!({"role": "a", "amiSelectorTerms": [{"alias": "al2023@latest"}]}));
        for (spec, replaced) in [
            (
                json!({"role": "a", "amiSelectorTerms": [{"alias": "al2023@v1"}], "amiFamily": "AL2023"}),
                false,
            ),
            (json!({"role": "a", "metadataOptions": {"httpTokens": "required"}}), false),
            (json!({"role": "a", "metadataOptions": {"httpTokens": "optional"}}), true),
            (json!({"role": "b"}), true),
            (json!({"role": "a", "tags": {"a": "b"}}), true),
        ] {
            assert_eq!(replaces_nodes(&bare, &class(spec.clone())), replaced, "{spec}");
        }
    }
}
