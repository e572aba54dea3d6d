//! The labels of nodes that pods of the input refer to.

use crate::cluster::Cluster;
use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::node_labels::{names_karpenter, referenced_labels, requires_other_cloud};
use crate::workload::template::{WORKLOAD_KINDS, templates};

/// Workloads by the label keys that their pods select, avoid, prefer or spread over. Patches are included,
/// because the patched objects will contain these labels.
pub(crate) struct ReferencedLabels;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LabelUse {
    /// Workloads that refer to a label.
    Label(String),
    /// Workloads whose pods can cause Karpenter to start nodes.
    StartsNodes,
    /// Workloads that name Karpenter in a node label.
    Karpenter,
    /// Workloads that require nodes which are not in AWS.
    OtherCloud,
}

impl View for ReferencedLabels {
    const SLOT: ViewSlot = ViewSlot::ReferencedLabels;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    const PARTIAL: bool = true;
    type Row = Object;
    type Key = LabelUse;

    fn keys(object: &Object) -> Vec<LabelUse> {
        let templates = templates(object);
        let labels = templates.iter().flat_map(|template| referenced_labels(template));
        let mut keys: Vec<LabelUse> = labels.map(|label| LabelUse::Label(label.key.to_owned())).collect();
        if !object.is(Kind::DAEMON_SET) {
            keys.push(LabelUse::StartsNodes);
        }
        if templates.iter().any(names_karpenter) {
            keys.push(LabelUse::Karpenter);
        }
        if templates.iter().any(requires_other_cloud) {
            keys.push(LabelUse::OtherCloud);
        }
        keys
    }
}

#[derive(Clone, Copy)]
pub(crate) struct LabelUses<'i>(pub(super) &'i Cluster);

impl LabelUses<'_> {
    /// Whether some pod refers to the label.
    pub(crate) fn contains(self, key: &str) -> bool {
        self.0.table::<ReferencedLabels>().contains(&LabelUse::Label(key.to_owned()))
    }

    /// Whether a workload that fulfils a condition names Karpenter.
    pub(crate) fn name_karpenter(self, is_counted: impl Fn(&Object) -> bool) -> bool {
        self.0.table::<ReferencedLabels>().get(&LabelUse::Karpenter).iter().any(is_counted)
    }

    /// Whether a workload that fulfils a condition requires nodes which are not in AWS.
    pub(crate) fn require_other_cloud(self, is_counted: impl Fn(&Object) -> bool) -> bool {
        self.0.table::<ReferencedLabels>().get(&LabelUse::OtherCloud).iter().any(is_counted)
    }

    /// Whether the input contains workloads. Without workloads, an unused label means nothing.
    pub(crate) fn has_workloads(self) -> bool {
        self.0.table::<ReferencedLabels>().contains(&LabelUse::StartsNodes)
    }
}
