//! Which labels of nodes the pods of the input speak of.

use std::collections::BTreeSet;

use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::cluster::relation::{Multiset, ObjectChange};
use crate::cluster::views::View;
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::node_labels::referenced_labels;
use crate::workload::template::{templates, workload_kind};

/// The label keys that pods select, avoid, prefer or spread over. Patches count too: what they
/// select is selected in the end.
#[derive(Debug)]
pub(crate) struct ReferencedLabels {
    /// How many workloads speak of a key.
    keys: Multiset<String>,
    /// How many workloads there are that nodes are started for.
    workloads: Multiset<()>,
}

impl View for ReferencedLabels {
    fn new(index: &Index) -> ReferencedLabels {
        let mut out = ReferencedLabels {
            keys: Multiset::new("labels that pods speak of"),
            workloads: Multiset::new("workloads at all"),
        };
        for object in index.objects() {
            out.apply(ObjectChange::Added, object, &mut Invalidations::disabled());
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if workload_kind(object).is_none() {
            return;
        }
        if !object.is(Kind::DAEMON_SET) {
            self.workloads.apply(change, (), touched);
        }
        let templates = templates(object);
        let mentioned: BTreeSet<String> = templates
            .iter()
            .flat_map(|template| referenced_labels(template))
            .map(|mention| mention.key.to_owned())
            .collect();
        for key in mentioned {
            self.keys.apply(change, key, touched);
        }
    }
}

impl ReferencedLabels {
    /// Whether some pod speaks of the label.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.contains(&key.to_owned())
    }

    /// Whether the input has workloads, so that their silence means something.
    pub(crate) fn has_workloads(&self) -> bool {
        self.workloads.contains(&())
    }
}
