//! PDBs by the pods that they may select, and pools that protect all of their nodes.

use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;

use super::Kept;
use super::workloads::{chooses, pool_labels};
use crate::cluster::relation::{Change, Counts, Relation};

/// PDBs by namespace and their first pair of labels; those without one by namespace.
#[derive(Debug)]
pub(super) struct Pdbs {
    pub(super) by_label: Relation<3, Object>,
    pub(super) others: Relation<1, Object>,
    /// Namespaces that have any.
    pub(super) namespaces: Counts<String>,
}

impl Kept for Pdbs {
    fn new(index: &Index) -> Pdbs {
        let mut out = Pdbs {
            by_label: Relation::new("PDBs of a label"),
            others: Relation::new("PDBs without a label"),
            namespaces: Counts::new("namespaces with PDBs"),
        };
        for pdb in index.of(Kind::PDB) {
            out.change(Change::Come, pdb, &mut Touched::unwanted());
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if object.is_partial() || !object.is(Kind::PDB) {
            return;
        }
        let namespace = object.id().namespace_or_default();
        self.namespaces.change(change, namespace.to_owned(), touched);
        let selector = object.path(&["spec", "selector", "matchLabels"]);
        let labels = selector.entries().into_iter();
        match labels.filter_map(|(k, v)| Some((k, v.text()?))).next() {
            Some((key, value)) => {
                let key = [namespace, key, value];
                self.by_label.change(change, key, object, touched);
            }
            None => self.others.change(change, [namespace], object, touched),
        }
    }
}

/// Pools that protect all of their nodes, by each label through which a workload can choose them.
#[derive(Debug)]
pub(super) struct Protectors(pub(super) Relation<2, Object>);

impl Kept for Protectors {
    fn new(index: &Index) -> Protectors {
        let mut out = Protectors(Relation::new("protecting pools of a label"));
        for pool in index.of(Kind::NODE_POOL) {
            out.change(Change::Come, pool, &mut Touched::unwanted());
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        for (key, value) in protected_labels(object) {
            self.0.change(change, [key, value], object, touched);
        }
    }
}

fn protected_labels(object: &Object) -> Vec<(&str, &str)> {
    if object.is_partial() || !object.is(Kind::NODE_POOL) || !protects_nodes(object) {
        return Vec::new();
    }
    let Some(pool) = NodePool::new(object) else {
        return Vec::new();
    };
    let mut pairs = pool_labels(&pool, object.name());
    pairs.retain(|(key, _)| chooses(key));
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
