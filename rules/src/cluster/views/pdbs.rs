//! PDBs by the pods that they may select, and pools that protect all of their nodes.

use crate::cluster::table::{View, ViewSlot};
use crate::cluster::views::workloads::{pool_labels, selects_pool};
use crate::karpenter::do_not_disrupt::keeps_busy_nodes;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;

pub(crate) struct Pdbs;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PdbKey {
    /// By namespace and the first label of the selector, key and value.
    Label(String, String, String),
    /// By namespace: PDBs whose selector contains no label.
    WithoutLabel(String),
    Namespace(String),
}

impl View for Pdbs {
    const SLOT: ViewSlot = ViewSlot::Pdbs;
    const KINDS: &'static [Kind] = &[Kind::PDB];
    type Row = Object;
    type Key = PdbKey;

    fn keys(object: &Object) -> Vec<PdbKey> {
        let namespace = object.namespace_or_default().to_owned();
        let labels = object.path(&["spec", "selector", "matchLabels"]).entries();
        let label = labels.into_iter().find_map(|(key, value)| Some((key, value.text()?.to_owned())));
        let selected = match label {
            Some((key, value)) => PdbKey::Label(namespace.clone(), key.to_owned(), value),
            None => PdbKey::WithoutLabel(namespace.clone()),
        };
        vec![selected, PdbKey::Namespace(namespace)]
    }
}

/// Pools that protect all of their nodes, by each label with which a workload can select them.
pub(crate) struct ProtectedPools;

impl View for ProtectedPools {
    const SLOT: ViewSlot = ViewSlot::ProtectedPools;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = (String, String);

    fn keys(object: &Object) -> Vec<(String, String)> {
        let Some(pool) = NodePool::new(object).filter(|_| keeps_busy_nodes(object)) else {
            return Vec::new();
        };
        let labels = pool_labels(&pool, object.name());
        let chosen = labels.into_iter().filter(|(key, _)| selects_pool(key));
        chosen.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}
