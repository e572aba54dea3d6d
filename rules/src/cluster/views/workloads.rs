//! Workloads by the labels that they require of their nodes, and by the labels of their pods.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use litemap::LiteMap;

use crate::cluster::table::{Row, View, ViewSlot};
use crate::karpenter::nodepool::{NODEPOOL_LABEL, NodePool};
use crate::karpenter::provider::is_custom;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

#[derive(Debug)]
pub struct Workload {
    pub object: Object,
    /// Labels that it requires of its nodes: node selectors and required affinity.
    required_labels: RequiredLabels,
    kind_index: usize,
}

/// The values of each label that a workload accepts on its nodes.
pub(super) type RequiredLabels = LiteMap<String, Vec<String>>;

impl Workload {
    fn new(object: &Object) -> Workload {
        let kind_index = WORKLOAD_KINDS.iter().position(|kind| object.is(*kind));
        Workload {
            object: object.clone(),
            required_labels: required_node_labels(object),
            kind_index: kind_index.unwrap_or(WORKLOAD_KINDS.len()),
        }
    }

    /// The order of the rows of a key, first by kind.
    pub(crate) fn cmp_index_order(&self, other: &Workload) -> Ordering {
        self.kind_index
            .cmp(&other.kind_index)
            .then_with(|| self.object.sort_key().cmp(&other.object.sort_key()))
    }

    pub(super) fn is_compatible(&self, labels: &[(&str, &str)]) -> bool {
        is_compatible(&self.required_labels, labels)
    }
}

impl Row for Arc<Workload> {
    fn of(object: &Object) -> Arc<Workload> {
        Arc::new(Workload::new(object))
    }

    fn object(&self) -> &Object {
        &self.object
    }

    fn cmp_index_order(&self, other: &Arc<Workload>) -> Ordering {
        Workload::cmp_index_order(self, other)
    }
}

/// Workloads by the labels that they require of their nodes, and by the labels of their pods.
pub(crate) struct Workloads;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkloadKey {
    /// By a label that they may require of their nodes: key and value.
    RequiredLabel(String, String),
    /// By a label of their pods: namespace, key and value.
    PodLabel(String, String, String),
    /// By namespace: workloads whose pods have a label with a placeholder as key or value.
    UnknownPodLabels(String),
    /// Workloads whose namespace is a placeholder.
    UnknownNamespace,
    /// Workloads with an unknown namespace, by a label of their pods: key and value.
    UnknownNamespaceLabel(String, String),
    UnknownNamespaceUnknownLabels,
    Namespace(String),
    /// By namespace: Rollouts that start pods with their own labels in a canary step.
    Experiment(String),
}

impl View for Workloads {
    const SLOT: ViewSlot = ViewSlot::Workloads;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    type Row = Arc<Workload>;
    type Key = WorkloadKey;

    fn keys(workload: &Arc<Workload>) -> Vec<WorkloadKey> {
        let namespace = workload.object.namespace_or_default();
        let required = label_pairs(&workload.required_labels)
            .map(|(key, value)| WorkloadKey::RequiredLabel(key.to_owned(), value.to_owned()));
        let pod_labels = pod_labels(&workload.object).into_iter().map(|(key, value)| {
            WorkloadKey::PodLabel(namespace.to_owned(), key.to_owned(), value.to_owned())
        });
        let all = WorkloadKey::Namespace(namespace.to_owned());
        let unknown_labels = templates(&workload.object).iter().any(has_unknown_labels);
        let unknown_labels = unknown_labels.then(|| WorkloadKey::UnknownPodLabels(namespace.to_owned()));
        let unknown_namespace = keys_of_unknown_namespace(&workload.object);
        let canary = workload.object.path(&["spec", "strategy", "canary", "steps"]);
        let experiment = canary.items().any(|step| step.get("experiment").is_set());
        let experiment = experiment.then(|| WorkloadKey::Experiment(namespace.to_owned()));
        let unknown = unknown_labels.into_iter().chain(unknown_namespace);
        required.chain(pod_labels).chain([all]).chain(unknown).chain(experiment).collect()
    }
}

/// The additional keys of a workload whose namespace is a placeholder.
fn keys_of_unknown_namespace(object: &Object) -> Vec<WorkloadKey> {
    if unknown_namespace(object).is_none() {
        return Vec::new();
    }
    let may_have_any_label = |template: &Template<'_>| {
        has_unknown_labels(template) || template.labels().iter().any(|(_, value)| value.text().is_none())
    };
    let labels = pod_labels(object).into_iter();
    let mut keys: Vec<WorkloadKey> = labels
        .map(|(key, value)| WorkloadKey::UnknownNamespaceLabel(key.to_owned(), value.to_owned()))
        .collect();
    keys.push(WorkloadKey::UnknownNamespace);
    let is_open = templates(object).iter().any(may_have_any_label);
    keys.extend(is_open.then_some(WorkloadKey::UnknownNamespaceUnknownLabels));
    keys
}

pub(super) fn required_node_labels(object: &Object) -> RequiredLabels {
    let templates = templates(object);
    let mut wants: Vec<_> = templates.iter().flat_map(template_required_labels).collect();
    wants.sort_by(|(a, _), (b, _)| a.cmp(b));
    wants.dedup_by(|(key, values), (first, all)| {
        let is_same = key == first;
        if is_same {
            all.append(values);
        }
        is_same
    });
    wants.into_iter().collect()
}

/// Whether nodes with these labels have the required labels.
pub(super) fn is_compatible(wants: &RequiredLabels, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(key, value)| wants.get(*key).is_none_or(|values| values.iter().any(|v| v == value)))
}

/// Each pair of a required label and an accepted value, once.
pub(super) fn label_pairs(wants: &RequiredLabels) -> impl Iterator<Item = (&str, &str)> {
    wants.iter().flat_map(|(key, values)| {
        let values: BTreeSet<&str> = values.iter().map(String::as_str).collect();
        values.into_iter().map(|value| (key.as_str(), value))
    })
}

/// Whether a label of the pods is unknown: its key, its value, or all labels are placeholders.
pub(super) fn has_unknown_labels(template: &Template<'_>) -> bool {
    let labels = template.metadata.get("labels");
    template.metadata.is_unknown() || template.metadata.has_unknown_key() || labels.has_unknown()
}

/// The namespace of an object if it is a placeholder.
pub(super) fn unknown_namespace(object: &Object) -> Option<&str> {
    let namespace = object.path(&["metadata", "namespace"]);
    if object.is_namespace_unknown() { namespace.raw_text() } else { None }
}

/// The labels of the pods of a workload, each pair once.
fn pod_labels(object: &Object) -> BTreeSet<(&str, &str)> {
    let mut out = BTreeSet::new();
    for template in templates(object) {
        let labels = template.pod_labels().into_iter();
        out.extend(labels.filter_map(|(key, value)| Some((key, value.text()?))));
    }
    out
}

/// The labels that a pool's nodes certainly have, including its name.
pub(super) fn pool_labels<'a>(pool: &NodePool<'a>, name: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut labels: Vec<(&str, &str)> =
        pool.labels().entries().into_iter().filter_map(|(k, v)| Some((k, v.text()?))).collect();
    labels.push((NODEPOOL_LABEL, name));
    labels
}

/// Whether requiring this label selects a pool, and not a property of nodes.
pub(super) fn selects_pool(key: &str) -> bool {
    key == NODEPOOL_LABEL || is_custom(key)
}

/// The labels that a template requires of its nodes, with the accepted values: its node selector, and `In`
/// expressions of required affinity if there is only one term.
fn template_required_labels(template: &Template<'_>) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = template
        .spec
        .get("nodeSelector")
        .entries()
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_owned(), vec![v.text()?.to_owned()])))
        .collect();
    let terms = template.required_terms();
    let terms: Vec<Node<'_>> = terms.items().collect();
    if let [term] = terms.as_slice() {
        for expression in term.get("matchExpressions").items() {
            if expression.get("operator").text() == Some("In")
                && let Some(key) = expression.get("key").text()
            {
                let values = expression.get("values").items();
                let values = values.filter_map(|v| v.text().map(str::to_owned)).collect();
                out.push((key.to_owned(), values));
            }
        }
    }
    out
}
