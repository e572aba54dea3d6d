//! Workloads by the labels that they ask of their nodes, and by those of their pods.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::karpenter::nodepool::NodePool;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::class::Classified;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

use super::Kept;
use crate::cluster::relation::{Change, Relation};

/// A workload with its class.
#[derive(Debug)]
pub struct Workload {
    /// The object.
    pub object: Object,
    /// What work it does.
    pub classified: ClassOf,
    /// Label pairs that it asks of its nodes: node selectors and required affinity.
    wants: Wants,
    /// Which of the kinds it is.
    kind: usize,
}

/// The class of an object, made when it is first looked at.
#[derive(Debug)]
pub struct ClassOf(Object);

impl std::ops::Deref for ClassOf {
    type Target = Classified;

    fn deref(&self) -> &Classified {
        self.0.classified()
    }
}

/// The values of each label that a workload takes on its nodes.
pub(super) type Wants = BTreeMap<String, Vec<String>>;

impl Workload {
    fn new(object: &Object, kind: usize) -> Workload {
        Workload { object: object.clone(), classified: ClassOf(object.clone()), wants: wants(object), kind }
    }

    /// The order in which an index gives them: by kind first.
    pub(crate) fn order(&self, other: &Workload) -> Ordering {
        self.kind.cmp(&other.kind).then_with(|| self.object.order().cmp(&other.object.order()))
    }

    /// Whether it asks for nothing that nodes with these labels do not have.
    pub(super) fn takes(&self, labels: &[(&str, &str)]) -> bool {
        takes(&self.wants, labels)
    }
}

/// Every workload, found by its labels.
#[derive(Debug)]
pub(super) struct Workloads {
    pub(super) by_wanted_label: Relation<2, Arc<Workload>>,
    /// By namespace, key and value.
    pub(super) by_pod_label: Relation<3, Arc<Workload>>,
    pub(super) by_namespace: Relation<1, Arc<Workload>>,
}

impl Kept for Workloads {
    fn new(index: &Index) -> Workloads {
        let mut out = Workloads {
            by_wanted_label: Relation::new("workloads that want a label"),
            by_pod_label: Relation::new("workloads whose pods have a label"),
            by_namespace: Relation::new("workloads of a namespace"),
        };
        for (at, kind) in WORKLOAD_KINDS.iter().enumerate() {
            for object in index.of(*kind) {
                let workload = Arc::new(Workload::new(object, at));
                out.put(Change::Come, &workload, &mut Touched::unwanted());
            }
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if let Some(kind) = kind(object) {
            self.put(change, &Arc::new(Workload::new(object, kind)), touched);
        }
    }
}

impl Workloads {
    fn put(&mut self, change: Change, workload: &Arc<Workload>, touched: &mut Touched<'_>) {
        for (key, value) in pairs(&workload.wants) {
            let key = [key, value];
            self.by_wanted_label.change(change, key, workload, touched);
        }
        let namespace = workload.object.id().namespace_or_default();
        for (key, value) in pod_labels(&workload.object) {
            let key = [namespace, key, value];
            self.by_pod_label.change(change, key, workload, touched);
        }
        let by_namespace = &mut self.by_namespace;
        by_namespace.change(change, [namespace], workload, touched);
    }
}

/// The place of a whole object's kind among those of workloads.
fn kind(object: &Object) -> Option<usize> {
    if object.is_partial() {
        return None;
    }
    WORKLOAD_KINDS.iter().position(|kind| object.is(*kind))
}

/// What a workload asks of the labels of its nodes.
pub(super) fn wants(object: &Object) -> Wants {
    let mut wants = Wants::new();
    for template in templates(object) {
        for (key, values) in wanted_labels(&template) {
            wants.entry(key).or_default().extend(values);
        }
    }
    wants
}

/// Whether somebody who wants this may run where the labels are these.
pub(super) fn takes(wants: &Wants, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(key, value)| wants.get(*key).is_none_or(|values| values.iter().any(|v| v == value)))
}

/// Each pair of what is wanted, once.
pub(super) fn pairs(wants: &Wants) -> impl Iterator<Item = (&str, &str)> {
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
    labels.push((NAME, name));
    labels
}

const NAME: &str = "karpenter.sh/nodepool";

/// Whether who asks for a label means a pool by it, rather than a property of nodes.
pub(super) fn chooses(key: &str) -> bool {
    key == NAME || !crate::karpenter::requirement::is_well_known(key)
}

/// Labels that a template asks of its nodes, with the values it takes: its node selector, and
/// `In` expressions of required affinity where there is one term.
fn wanted_labels(template: &Template<'_>) -> Vec<(String, Vec<String>)> {
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
