//! What an edit of a live NodePool or EC2NodeClass does to running nodes (docs/facts.md, "Drift").
//!
//! Karpenter stores a hash of the fields that a node was created from. A node whose hash differs has drifted and is
//! replaced within the disruption budgets. Requirements are not hashed: a node drifts if its labels no longer meet them. Values
//! are compared as the API server stores them, with its defaults.

mod api;
mod hash;
mod requirements;

use serde_json::Value;

use crate::karpenter::minors;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::{Product, Version};
use crate::tree::pointer::Pointer;

use api::{Field, PoolApi, REQUIREMENTS, template_of};

pub use requirements::Departure;

/// What an edit does to the nodes that a NodePool can have. What a change selects in EC2 (AMIs, subnets, security groups,
/// reservations) is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drift {
    /// No node drifts.
    None,
    /// The labels of some nodes no longer meet the requirements.
    Some,
    /// Every node drifts.
    All,
    /// The API server does not take the edit.
    Refused,
}

/// What becomes of the nodes of a NodePool, with the EC2NodeClass that it uses before and after the edit, as far as they are
/// known.
#[must_use]
pub fn of_pool(
    before: (&Value, Option<&Value>),
    after: (&Value, Option<&Value>),
    karpenter: Version,
) -> Drift {
    let ((old, old_class), (new, new_class)) = (before, after);
    if is_refused(old, new, karpenter) {
        return Drift::Refused;
    }
    let Some(nodes) = requirements::Nodes::of(&template_of(old), old_class) else {
        return Drift::None;
    };
    let class_differs = old_class
        .zip(new_class)
        .is_some_and(|(old, new)| hash::of_node_class(old, karpenter) != hash::of_node_class(new, karpenter));
    if hash::of_pool(old) != hash::of_pool(new) || class_differs {
        return Drift::All;
    }
    nodes.drift(&template_of(new))
}

/// A field of the node template of a pool that decides which nodes drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateField {
    /// A part of the hash.
    Hashed(Field),
    Requirements,
}

/// The fields of a pool that are part of its hash and differ between two versions of it: every node drifts by each of them.
#[must_use]
pub(crate) fn hashed_differences(before: &Value, after: &Value) -> Vec<Field> {
    let fields = PoolApi::of(before).hashed();
    let [before, after] = [before, after].map(hash::of_pool);
    let differs = |at: &usize| before.get(*at) != after.get(*at);
    (0..fields.len()).filter(differs).map(|at| fields[at]).collect()
}

/// The field that a path of a pool is, or is in, if it decides which nodes drift.
#[must_use]
pub(crate) fn template_field(pool: &Object, steps: &[&str]) -> Option<TemplateField> {
    let api = PoolApi::named(pool.kind(), pool.version());
    let path = api.in_template(steps)?;
    let hashed = api.hashed().iter().find(|field| path.starts_with(field));
    let requirements = || path.starts_with(REQUIREMENTS).then_some(TemplateField::Requirements);
    hashed.copied().map(TemplateField::Hashed).or_else(requirements)
}

/// The fields of `spec` of an EC2NodeClass that are part of its hash and differ between two versions of it.
#[must_use]
pub(crate) fn hashed_class_differences(before: &Value, after: &Value, karpenter: Version) -> Vec<String> {
    let [before, after] = [before, after].map(|class| hash::of_node_class(class, karpenter));
    let names =
        |of: &Value| of.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect::<Vec<_>>();
    let mut all: Vec<String> = names(&before).into_iter().chain(names(&after)).collect();
    all.sort();
    all.dedup();
    all.retain(|name| {
        let at = |of: &Value| of.get(name).cloned().unwrap_or_default();
        at(&before) != at(&after)
    });
    all
}

/// Whether Karpenter compares what a field of `spec` of an EC2NodeClass selects in EC2, instead of the field.
#[must_use]
pub(crate) fn is_selected(field: &str) -> bool {
    hash::SELECTORS.contains(&field)
}

/// The nodes of a NodePool, with the EC2NodeClass that it uses if it is known, that the requirements and labels of another
/// version no longer admit. Empty if the NodePool can have no node.
#[must_use]
pub(crate) fn departures(before: (&Value, Option<&Value>), after: &Value) -> Vec<Departure> {
    let (old, new) = (template_of(before.0), template_of(after));
    requirements::Nodes::of(&old, before.1).map_or_else(Vec::new, |nodes| nodes.departures(&new))
}

/// Whether the API server refuses the edit of a NodePool: it may not become static or dynamic, and not change the kind of its
/// class.
pub(crate) fn is_refused(old: &Value, new: &Value, karpenter: Version) -> bool {
    if PoolApi::of(old) != PoolApi::Current {
        return false;
    }
    let at = |pool: &Value, path: &[&str]| value_at(pool, path);
    let is_static = |pool: &Value| !at(pool, &["spec", "replicas"]).is_null();
    let fixed = |what: &str| {
        minors::states(
            karpenter,
            "NodePool",
            "spec/template/spec/nodeClassRef",
            "cel",
            &format!("nodeClassRef.{what} is immutable"),
        ) && {
            let path = ["spec", "template", "spec", "nodeClassRef", what];
            let (old, new) = (at(old, &path), at(new, &path));
            !old.is_null() && old != new
        }
    };
    let has_static = minors::states(karpenter, "NodePool", "spec/replicas", "field", "-");
    has_static && is_static(old) != is_static(new) || fixed("group") || fixed("kind")
}

/// Whether nodes created from `before` are replaced when the object becomes `after`. `true` if `after` is
/// another kind or version of object, `false` for kinds from which no node is created.
#[must_use]
pub fn replaces_nodes(before: &Value, after: &Value) -> bool {
    let text = |name: &str| before.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split('/').next().unwrap_or_default();
    let ours = matches!(group, "karpenter.sh" | "karpenter.k8s.aws");
    let becomes_another = ["apiVersion", "kind"].iter().any(|name| before.get(name) != after.get(name));
    if ours && becomes_another {
        return true;
    }
    let newest = Product::Karpenter.newest();
    match (group, text("kind")) {
        ("karpenter.sh", "NodePool" | "Provisioner") => {
            of_pool((before, None), (after, None), newest) != Drift::None
        }
        ("karpenter.k8s.aws", "EC2NodeClass" | "AWSNodeTemplate") => {
            hash::of_node_class(before, newest) != hash::of_node_class(after, newest)
        }
        _ => false,
    }
}

/// Whether a field is part of the hash of a NodePool or EC2NodeClass, so that changing it replaces nodes.
#[must_use]
pub(crate) fn is_hashed(object: &Object, field: &Pointer) -> bool {
    let steps: Vec<&str> = field.steps().iter().map(String::as_str).collect();
    if object.is(Kind::NODE_POOL) {
        matches!(template_field(object, &steps), Some(TemplateField::Hashed(_)))
    } else if object.is(Kind::EC2_NODE_CLASS) {
        matches!(steps.as_slice(), ["spec", name, ..] if hash::is_hashed(name))
    } else {
        false
    }
}

/// The value below some steps; null if there is none.
fn value_at(value: &Value, path: &[&str]) -> Value {
    path.iter().try_fold(value, |value, step| value.get(step)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
