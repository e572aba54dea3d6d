//! Which labels of nodes the pods of the input speak of.

use std::collections::BTreeSet;

use crate::index::Index;
use crate::model::node_labels::mentions;
use crate::model::workload::{templates, workload_kind};
use crate::object::Kind;

/// The label keys that pods select, avoid, prefer or spread over.
#[derive(Debug, Default)]
pub(crate) struct LabelUses {
    keys: BTreeSet<String>,
    /// Whether there is a workload at all that nodes are started for.
    any: bool,
}

impl LabelUses {
    /// Patches count too: what they select is selected in the end.
    pub(crate) fn new(index: &Index) -> LabelUses {
        let mut out = LabelUses::default();
        for object in index.objects() {
            if workload_kind(object).is_none() {
                continue;
            }
            out.any |= !object.is(Kind::DAEMON_SET);
            for template in templates(object) {
                for mention in mentions(&template) {
                    if !out.keys.contains(mention.key) {
                        out.keys.insert(mention.key.to_owned());
                    }
                }
            }
        }
        out
    }

    /// Whether some pod speaks of the label.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Whether the input has workloads, so that their silence means something.
    pub(crate) fn has_workloads(&self) -> bool {
        self.any
    }
}
