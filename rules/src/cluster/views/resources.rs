//! Which resources workloads ask for.

use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::object::Object;
use crate::workload::gpu::{EFA, requested_extended_resources};
use crate::workload::template::{WORKLOAD_KINDS, templates};

use super::View;
use crate::cluster::relation::{MultiIndex, Multiset, ObjectChange};

/// The extended resources that some workload asks for.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) requested: Multiset<String>,
    /// The workloads that ask for EFA.
    pub(super) efa_workloads: MultiIndex<0, Object>,
}

impl View for Resources {
    fn new(index: &Index) -> Resources {
        let mut out = Resources {
            requested: Multiset::new("resources asked for"),
            efa_workloads: MultiIndex::new("workloads that ask for EFA"),
        };
        for kind in WORKLOAD_KINDS {
            for object in index.of(*kind) {
                out.apply(ObjectChange::Added, object, &mut Invalidations::disabled());
            }
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if object.is_partial() || !WORKLOAD_KINDS.iter().any(|kind| object.is(*kind)) {
            return;
        }
        let mut names: Vec<&str> = Vec::new();
        for template in templates(object) {
            names.extend(requested_extended_resources(&template));
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            if name == EFA {
                self.efa_workloads.apply(change, [], object, touched);
            }
            self.requested.apply(change, name.to_owned(), touched);
        }
    }
}
