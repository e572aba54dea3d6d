//! Facts derived from a NodePool's node template: from its requirements, labels, taints, the reference to its node class and
//! whether it has `replicas`, and from nothing else.

use std::borrow::Cow;
use std::sync::Arc;

use crate::catalog;
use crate::catalog::{CAPACITY_TYPE, INSTANCE_FAMILY, INSTANCE_TYPE, REGION, TypeSet, ZONE, ZONE_ID};
use crate::karpenter::nodepool::{CAPACITY_TYPES, Hardware, NodePool, hardware};
use crate::karpenter::provider::{Provider, is_custom};
use crate::karpenter::requirement::{Operator, Requirement, Requirements, is_well_known, normalise};
use crate::karpenter::requirement_list::RequirementItem;
use crate::karpenter::scheduling;
use crate::object::Object;
use crate::steps;
use crate::tree::node::Node;
use crate::workload::class::{WorkloadClass, purpose, purpose_of_name};

/// Labels that get new values with new instance types.
const GROWING_KEYS: [&str; 7] = [
    "node.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-accelerator-name",
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PoolFacts {
    pub(crate) is_static: bool,
    /// Who creates the nodes.
    pub(crate) provider: Provider,
    pub(crate) has_unknown_types: bool,
    pub(crate) has_unknown_labels: bool,
    /// The value of [`NodePool::admitted_types`], of a pool that is not partial.
    pub(crate) types: Option<TypeSet>,
    /// The hardware of the types that EC2 offers, of a pool that is not partial.
    pub(crate) hardware: Hardware,
    /// Which of [`CAPACITY_TYPES`] it allows. `None` if neither a requirement nor a label is about them.
    pub(crate) capacity_types: Option<[bool; 3]>,
    pub(crate) uncatalogued_keys: Vec<&'static str>,
    /// The purpose that its labels and taints declare.
    pub(crate) declared: DeclaredPurpose,
    /// The constraints that decide which pods this pool can run. `None` if its types are not known, or if there are none.
    pub(crate) audience: Option<Audience>,
}

/// The class of workload that texts name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredPurpose {
    None,
    /// They name this one.
    One(WorkloadClass),
    Several,
}

impl DeclaredPurpose {
    /// The class that a text names.
    pub(crate) fn of(text: &str) -> DeclaredPurpose {
        purpose(text).map_or(DeclaredPurpose::None, DeclaredPurpose::One)
    }

    pub(crate) fn of_name(object: &Object) -> DeclaredPurpose {
        purpose_of_name(object).map_or(DeclaredPurpose::None, DeclaredPurpose::One)
    }

    /// The classes that either names.
    pub(crate) fn and(self, other: DeclaredPurpose) -> DeclaredPurpose {
        match (self, other) {
            (DeclaredPurpose::None, one) | (one, DeclaredPurpose::None) => one,
            (DeclaredPurpose::One(one), DeclaredPurpose::One(other)) if one == other => self,
            _ => DeclaredPurpose::Several,
        }
    }

    pub(crate) fn only(self) -> Option<WorkloadClass> {
        match self {
            DeclaredPurpose::One(class) => Some(class),
            DeclaredPurpose::None | DeclaredPurpose::Several => None,
        }
    }
}

/// The constraints that decide which pods a pool can run, but for [`shared_requirements`]: few pools share a key, and
/// copies of the requirements of all would take a tenth of the memory of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Audience {
    /// The taints that pods have to tolerate and the custom labels that they can select, in order, as one text: for the
    /// lookup of pools that share them. A list of strings would take four times the memory.
    pub(crate) key: Arc<str>,
    /// Which of [`CAPACITY_TYPES`] the nodes can have.
    pub(crate) capacity_types: [bool; 3],
}

impl PoolFacts {
    /// Works out the facts of a pool, which must not call [`NodePool::facts`].
    pub(crate) fn read(pool: &NodePool<'_>) -> PoolFacts {
        let provider = Provider::of_group(&pool.template_spec().path(&["nodeClassRef", "group"]));
        let (requirements, labels) = (pool.requirements(), pool.labels());
        let has_unknown_labels = requirements.has_unknown() || labels.has_unknown();
        let has_unknown_types =
            has_unknown_labels && pool.unknown_keys().any(|key| key.is_none_or(decides_types));
        let items: Vec<RequirementItem<'_>> = requirements.items().map(RequirementItem::new).collect();
        let labels = labels.entries();
        let is_known = provider != Provider::Other && !has_unknown_types;
        let own = is_known.then(|| written_requirements(&items, &labels, provider)).flatten();
        let types = own.as_ref().and_then(types);
        let has_audience = types.is_some_and(|types| !types.is_empty())
            && !has_unknown_labels
            && !pool.template_spec().get("taints").has_unknown();
        let audience = own
            .filter(|_| has_audience)
            .and_then(|own| steps::limited(steps::SHARED, || audience(pool, own)).0);
        PoolFacts {
            is_static: pool.has_replicas(),
            provider,
            has_unknown_types,
            has_unknown_labels,
            types,
            hardware: types.map_or(Hardware::Unknown, |types| hardware(&types.offered())),
            capacity_types: capacity_types(&items, &labels),
            uncatalogued_keys: uncatalogued_keys(&items, &labels, provider),
            declared: declared_purpose(pool, &labels),
            audience,
        }
    }
}

/// A label of a template: its key and the node of its value.
type Label<'a> = (&'a str, Node<'a>);

/// Whether the values of a label may restrict the instance types. A type is offered in some zone of the region.
fn decides_types(key: &str) -> bool {
    let key = normalise(key);
    !is_custom(key) && ![ZONE, ZONE_ID, REGION].contains(&key)
}

/// The requirements and labels of a pool, combined as Karpenter does, without the labels that Karpenter adds. `None` if it
/// takes too many steps.
fn written_requirements(
    items: &[RequirementItem<'_>],
    labels: &[Label<'_>],
    provider: Provider,
) -> Option<Requirements> {
    let read = || {
        let mut all = Requirements::of(provider);
        let known = items.iter().filter(|item| !item.node.has_unknown());
        for (key, requirement) in known.filter_map(|item| item.key().zip(item.requirement())) {
            all.add(key, requirement);
        }
        for (key, value) in labels {
            if let Some(value) = value.text() {
                all.add(key, Requirement::is(value));
            }
        }
        all
    };
    steps::limited(steps::SHARED, read).0
}

/// The types that requirements leave. `None` if they depend on more.
fn types(requirements: &Requirements) -> Option<TypeSet> {
    let mut requirements = Cow::Borrowed(requirements);
    // Whether reserved capacity restricts the types depends on the reservations of the class.
    if requirements.get(CAPACITY_TYPE).is_some_and(|r| r.has("reserved")) {
        requirements.to_mut().remove(CAPACITY_TYPE);
    }
    let admit = || scheduling::admitted_without_class(&requirements);
    let admitted = steps::limited(steps::SHARED, admit).0?;
    admitted.uncertainties.is_empty().then_some(admitted.types)
}

fn declared_purpose(pool: &NodePool<'_>, labels: &[Label<'_>]) -> DeclaredPurpose {
    let labels = labels.iter().map(|(key, value)| {
        DeclaredPurpose::of(key).and(value.text().map_or(DeclaredPurpose::None, DeclaredPurpose::of))
    });
    let taints = pool.template_spec().get("taints");
    let taints = taints.items().flat_map(|taint| {
        let said = |field: &str| taint.get(field).text().map_or(DeclaredPurpose::None, DeclaredPurpose::of);
        [said("key"), said("value")]
    });
    labels.chain(taints).fold(DeclaredPurpose::None, DeclaredPurpose::and)
}

/// A capacity type is allowed if every requirement on the key allows it.
fn capacity_types(items: &[RequirementItem<'_>], labels: &[Label<'_>]) -> Option<[bool; 3]> {
    let items = items.iter().filter(|item| item.key() == Some(CAPACITY_TYPE));
    let requirements = items.filter_map(RequirementItem::requirement);
    let label = labels.iter().find(|(key, _)| *key == CAPACITY_TYPE);
    let label = label.and_then(|(_, value)| value.text()).map(Requirement::is);
    requirements.chain(label).fold(None, |allowed, one| {
        let before: [bool; 3] = allowed.unwrap_or([true; 3]);
        Some(std::array::from_fn(|at| before[at] && one.has(CAPACITY_TYPES[at])))
    })
}

fn uncatalogued_keys(
    items: &[RequirementItem<'_>],
    labels: &[Label<'_>],
    provider: Provider,
) -> Vec<&'static str> {
    let growing = |key: &str| {
        let key = provider.catalogue_key(key);
        GROWING_KEYS.into_iter().find(|growing| *growing == key)
    };
    let of_items = items.iter().filter(|item| item.operator() == Some(Operator::In)).filter_map(|item| {
        let key = growing(item.key()?)?;
        let mut values = item.values().items().filter_map(|value| value.string_or_number());
        values.any(|value| may_be_new(key, &value)).then_some(key)
    });
    let of_labels = labels.iter().filter_map(|(key, value)| {
        let key = growing(key)?;
        may_be_new(key, value.text()?).then_some(key)
    });
    let mut keys: Vec<&'static str> = Vec::new();
    for key in of_items.chain(of_labels) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Whether a value is well-formed and not in the catalogue. The name of each family has a number (`m5`, `u-6tb1`).
pub(crate) fn may_be_new(key: &str, value: &str) -> bool {
    let known = catalog::values(key).is_some_and(|all| all.contains(value));
    let has_number = |family: &str| family.contains(|c: char| c.is_ascii_digit());
    let may_be_name = match key {
        INSTANCE_FAMILY => has_number(value),
        INSTANCE_TYPE => value.split_once('.').is_some_and(|(family, _)| has_number(family)),
        _ => true,
    };
    !known
        && may_be_name
        && value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c))
}

fn audience(pool: &NodePool<'_>, mut requirements: Requirements) -> Audience {
    add_class_label(pool, &mut requirements);
    // No part of a taint or a label that the API server accepts has a line break.
    let taints = pool.template_spec().get("taints");
    let fields = ["key", "value", "effect"];
    let taints = taints.items().map(|taint| fields.map(|field| taint.get(field).text().unwrap_or_default()));
    let taints = taints.filter(|[.., effect]| *effect != "PreferNoSchedule");
    let mut taints: Vec<String> = taints.map(|taint| taint.join("\n")).collect();
    taints.sort_unstable();
    taints.dedup();
    let mut labels: Vec<String> = Vec::new();
    let mut capacity_types = [true; 3];
    for (name, requirement) in requirements.iter().filter(|(name, _)| !is_added(name)) {
        if name == CAPACITY_TYPE {
            capacity_types = CAPACITY_TYPES.map(|one| requirement.has(one));
        } else if !is_shared(name) {
            steps::take(8 * requirement.values.len());
            labels.push(format!("{name}\n{} {}", requirement.operator(), requirement.values.join(",")));
        }
    }
    labels.sort_unstable();
    let key = format!("{}\n\n{}", taints.join("\n"), labels.join("\n"));
    Audience { key: key.into(), capacity_types }
}

/// The requirements of a pool with an audience on well-known labels, without the capacity type.
pub(crate) fn shared_requirements(pool: &NodePool<'_>) -> Requirements {
    let items: Vec<RequirementItem<'_>> = pool.requirements().items().map(RequirementItem::new).collect();
    let written = written_requirements(&items, &pool.labels().entries(), pool.facts().provider);
    let mut requirements = written.unwrap_or_default();
    add_class_label(pool, &mut requirements);
    requirements.retain(|name, _| !is_added(name) && name != CAPACITY_TYPE && is_shared(name));
    requirements
}

/// Adds the label that Karpenter adds for whatever class a pool names.
fn add_class_label(pool: &NodePool<'_>, requirements: &mut Requirements) {
    let class = pool.template_spec().get("nodeClassRef");
    let part = |field: &str| class.get(field).text().unwrap_or_default();
    let label = format!("{}/{}", part("group"), part("kind").to_lowercase());
    if !is_added(&label) {
        requirements.add(&label, Requirement::is(part("name")));
    }
}

/// Whether Karpenter adds a label, with a value that differs between all pools.
fn is_added(name: &str) -> bool {
    name == "karpenter.sh/nodepool"
        || name.starts_with("karpenter.sh/") && !is_well_known(name)
        || name.ends_with("/ec2nodeclass")
        || name.ends_with("/nodeclass")
}

/// Whether pools with different requirements on a label may still run one pod.
fn is_shared(name: &str) -> bool {
    is_well_known(name) || name.starts_with("eks.amazonaws.com/instance-")
}

#[cfg(test)]
mod tests {
    use super::DeclaredPurpose;
    use crate::karpenter::nodepool::NodePool;
    use crate::object::Object;
    use crate::workload::class::{WorkloadClass, purpose};

    /// The purpose of a pool by all its signs in turn.
    fn by_signs(signs: &[&str]) -> Option<WorkloadClass> {
        let mut classes: Vec<WorkloadClass> = signs.iter().filter_map(|sign| purpose(sign)).collect();
        classes.dedup();
        match classes.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    #[test]
    fn name_labels_and_taints_declare_a_purpose_together() {
        const SIGNS: [&str; 6] = ["gpu", "training", "fine-tune", "llm-serving", "batch", "train-or-serve"];
        for (name, key, value, taint) in (0..6 * 6 * 6 * 6).map(|n| {
            let sign = |at: u32| SIGNS[n / 6_usize.pow(at) % 6];
            (sign(0), sign(1), sign(2), sign(3))
        }) {
            let object = Object::from_json(&serde_json::json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
                "spec": {"template": {
                    "metadata": {"labels": {key: value}},
                    "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}], "requirements": []},
                }},
            }));
            let object = object.unwrap();
            let pool = NodePool::new(&object).unwrap();
            assert_eq!(pool.purpose(), by_signs(&[name, value, key, taint]), "{name} {key} {value} {taint}");
        }
        let one = DeclaredPurpose::of("training");
        assert_eq!(DeclaredPurpose::Several.and(one).only(), None);
        assert_eq!(one.and(DeclaredPurpose::None).only(), Some(WorkloadClass::Training));
    }
}
