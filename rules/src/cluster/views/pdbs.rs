//! PDBs by the pods that they may select, and pools that protect all of their nodes.

use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;

use super::View;
use super::workloads::{pool_labels, selects_pool};
use crate::cluster::relation::{MultiIndex, Multiset, ObjectChange};

/// PDBs by namespace and their first pair of labels; those without one by namespace.
#[derive(Debug)]
pub(super) struct Pdbs {
    pub(super) by_label: MultiIndex<3, Object>,
    pub(super) without_labels: MultiIndex<1, Object>,
    /// Namespaces that have any.
    pub(super) namespaces: Multiset<String>,
}

impl View for Pdbs {
    fn new(index: &Index) -> Pdbs {
        let mut out = Pdbs {
            by_label: MultiIndex::new("PDBs of a label"),
            without_labels: MultiIndex::new("PDBs without a label"),
            namespaces: Multiset::new("namespaces with PDBs"),
        };
        for pdb in index.of(Kind::PDB) {
            out.apply(ObjectChange::Added, pdb, &mut Invalidations::disabled());
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if object.is_partial() || !object.is(Kind::PDB) {
            return;
        }
        let namespace = object.id().namespace_or_default();
        self.namespaces.apply(change, namespace.to_owned(), touched);
        let selector = object.path(&["spec", "selector", "matchLabels"]);
        let labels = selector.entries().into_iter();
        match labels.filter_map(|(k, v)| Some((k, v.text()?))).next() {
            Some((key, value)) => {
                let key = [namespace, key, value];
                self.by_label.apply(change, key, object, touched);
            }
            None => self.without_labels.apply(change, [namespace], object, touched),
        }
    }
}

/// Pools that protect all of their nodes, by each label through which a workload can choose them.
#[derive(Debug)]
pub(super) struct ProtectedPools(pub(super) MultiIndex<2, Object>);

impl View for ProtectedPools {
    fn new(index: &Index) -> ProtectedPools {
        let mut out = ProtectedPools(MultiIndex::new("protecting pools of a label"));
        for pool in index.of(Kind::NODE_POOL) {
            out.apply(ObjectChange::Added, pool, &mut Invalidations::disabled());
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        for (key, value) in protected_labels(object) {
            self.0.apply(change, [key, value], object, touched);
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
    pairs.retain(|(key, _)| selects_pool(key));
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
