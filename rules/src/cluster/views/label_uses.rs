//! Which labels of nodes the pods of the input speak of.

use std::collections::BTreeSet;

use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::cluster::relation::{Change, Counts};
use crate::cluster::views::Kept;
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::node_labels::mentions;
use crate::workload::template::{templates, workload_kind};

/// The label keys that pods select, avoid, prefer or spread over. Patches count too: what they
/// select is selected in the end.
#[derive(Debug)]
pub(crate) struct LabelUses {
    /// How many workloads speak of a key.
    keys: Counts<String>,
    /// How many workloads there are that nodes are started for.
    any: Counts<()>,
}

impl Kept for LabelUses {
    fn new(index: &Index) -> LabelUses {
        let mut out = LabelUses {
            keys: Counts::new("labels that pods speak of"),
            any: Counts::new("workloads at all"),
        };
        for object in index.objects() {
            out.change(Change::Come, object, &mut Touched::unwanted());
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if workload_kind(object).is_none() {
            return;
        }
        if !object.is(Kind::DAEMON_SET) {
            self.any.change(change, (), touched);
        }
        let templates = templates(object);
        let mentioned: BTreeSet<String> = templates
            .iter()
            .flat_map(|template| mentions(template))
            .map(|mention| mention.key.to_owned())
            .collect();
        for key in mentioned {
            self.keys.change(change, key, touched);
        }
    }
}

impl LabelUses {
    /// Whether some pod speaks of the label.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.has(&key.to_owned())
    }

    /// Whether the input has workloads, so that their silence means something.
    pub(crate) fn has_workloads(&self) -> bool {
        self.any.has(&())
    }
}
