//! Workloads by the labels that they ask of their nodes, and by those of their pods.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::karpenter::nodepool::NodePool;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::class::Classified;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

use super::View;
use crate::cluster::relation::{MultiIndex, ObjectChange};

/// A workload with its class.
#[derive(Debug)]
pub struct Workload {
    /// The object.
    pub object: Object,
    /// What work it does.
    pub classified: LazyClass,
    /// Label pairs that it asks of its nodes: node selectors and required affinity.
    required_labels: RequiredLabels,
    /// Which of the kinds it is.
    kind_index: usize,
}

/// The class of an object, made when it is first looked at.
#[derive(Debug)]
pub struct LazyClass(Object);

impl std::ops::Deref for LazyClass {
    type Target = Classified;

    fn deref(&self) -> &Classified {
        self.0.classified()
    }
}

/// The values of each label that a workload takes on its nodes.
pub(super) type RequiredLabels = BTreeMap<String, Vec<String>>;

impl Workload {
    fn new(object: &Object, kind_index: usize) -> Workload {
        Workload {
            object: object.clone(),
            classified: LazyClass(object.clone()),
            required_labels: required_node_labels(object),
            kind_index,
        }
    }

    /// The order in which an index gives them: by kind first.
    pub(crate) fn cmp_index_order(&self, other: &Workload) -> Ordering {
        self.kind_index
            .cmp(&other.kind_index)
            .then_with(|| self.object.sort_key().cmp(&other.object.sort_key()))
    }

    /// Whether it asks for nothing that nodes with these labels do not have.
    pub(super) fn is_compatible(&self, labels: &[(&str, &str)]) -> bool {
        is_compatible(&self.required_labels, labels)
    }
}

/// Every workload, found by its labels.
#[derive(Debug)]
pub(super) struct Workloads {
    pub(super) by_required_label: MultiIndex<2, Arc<Workload>>,
    /// By namespace, key and value.
    pub(super) by_pod_label: MultiIndex<3, Arc<Workload>>,
    pub(super) by_namespace: MultiIndex<1, Arc<Workload>>,
}

impl View for Workloads {
    fn new(index: &Index) -> Workloads {
        let mut out = Workloads {
            by_required_label: MultiIndex::new("workloads that want a label"),
            by_pod_label: MultiIndex::new("workloads whose pods have a label"),
            by_namespace: MultiIndex::new("workloads of a namespace"),
        };
        for (at, kind) in WORKLOAD_KINDS.iter().enumerate() {
            for object in index.of(*kind) {
                let workload = Arc::new(Workload::new(object, at));
                out.apply_workload(ObjectChange::Added, &workload, &mut Invalidations::disabled());
            }
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if let Some(kind) = workload_kind_index(object) {
            self.apply_workload(change, &Arc::new(Workload::new(object, kind)), touched);
        }
    }
}

impl Workloads {
    fn apply_workload(
        &mut self,
        change: ObjectChange,
        workload: &Arc<Workload>,
        touched: &mut Invalidations<'_>,
    ) {
        for (key, value) in label_pairs(&workload.required_labels) {
            let key = [key, value];
            self.by_required_label.apply(change, key, workload, touched);
        }
        let namespace = workload.object.id().namespace_or_default();
        for (key, value) in pod_labels(&workload.object) {
            let key = [namespace, key, value];
            self.by_pod_label.apply(change, key, workload, touched);
        }
        let by_namespace = &mut self.by_namespace;
        by_namespace.apply(change, [namespace], workload, touched);
    }
}

/// The place of a whole object's kind among those of workloads.
fn workload_kind_index(object: &Object) -> Option<usize> {
    if object.is_partial() {
        return None;
    }
    WORKLOAD_KINDS.iter().position(|kind| object.is(*kind))
}

/// What a workload asks of the labels of its nodes.
pub(super) fn required_node_labels(object: &Object) -> RequiredLabels {
    let mut wants = RequiredLabels::new();
    for template in templates(object) {
        for (key, values) in template_required_labels(&template) {
            wants.entry(key).or_default().extend(values);
        }
    }
    wants
}

/// Whether somebody who wants this may run where the labels are these.
pub(super) fn is_compatible(wants: &RequiredLabels, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(key, value)| wants.get(*key).is_none_or(|values| values.iter().any(|v| v == value)))
}

/// Each pair of what is wanted, once.
pub(super) fn label_pairs(wants: &RequiredLabels) -> impl Iterator<Item = (&str, &str)> {
    wants.iter().flat_map(|(key, values)| {
        let values: BTreeSet<&str> = values.iter().map(String::as_str).collect();
        values.into_iter().map(|value| (key.as_str(), value))
    })
}

/// The labels of the pods of a workload, each pair once.
fn pod_labels(object: &Object) -> BTreeSet<(&str, &str)> {
    let mut out = BTreeSet::new();
    for template in templates(object) {
        let labels = template.labels().into_iter();
        out.extend(labels.filter_map(|(key, value)| Some((key, value.text()?))));
    }
    out
}

/// The labels that a pool gives its nodes for sure, its name among them.
pub(super) fn pool_labels<'a>(pool: &NodePool<'a>, name: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut labels: Vec<(&str, &str)> =
        pool.labels().entries().into_iter().filter_map(|(k, v)| Some((k, v.text()?))).collect();
    labels.push((NODEPOOL_LABEL, name));
    labels
}

const NODEPOOL_LABEL: &str = "karpenter.sh/nodepool";

/// Whether who asks for a label means a pool by it, rather than a property of nodes.
pub(super) fn selects_pool(key: &str) -> bool {
    key == NODEPOOL_LABEL || !crate::karpenter::requirement::is_well_known(key)
}

/// Labels that a template asks of its nodes, with the values it takes: its node selector, and
/// `In` expressions of required affinity where there is one term.
fn template_required_labels(template: &Template<'_>) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = template
        .spec
        .get("nodeSelector")
        .entries()
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_owned(), vec![v.text()?.to_owned()])))
        .collect();
    let terms = template.spec.path(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
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
