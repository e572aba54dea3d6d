//! Which resources workloads ask for.

use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::object::Object;
use crate::workload::gpu::{EFA, resources_asked};
use crate::workload::template::{WORKLOAD_KINDS, templates};

use super::Kept;
use crate::cluster::relation::{Change, Counts, Relation};

/// The extended resources that some workload asks for.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) asked: Counts<String>,
    /// The workloads that ask for EFA.
    pub(super) of_efa: Relation<0, Object>,
}

impl Kept for Resources {
    fn new(index: &Index) -> Resources {
        let mut out = Resources {
            asked: Counts::new("resources asked for"),
            of_efa: Relation::new("workloads that ask for EFA"),
        };
        for kind in WORKLOAD_KINDS {
            for object in index.of(*kind) {
                out.change(Change::Come, object, &mut Touched::unwanted());
            }
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if object.is_partial() || !WORKLOAD_KINDS.iter().any(|kind| object.is(*kind)) {
            return;
        }
        let mut names: Vec<&str> = Vec::new();
        for template in templates(object) {
            names.extend(resources_asked(&template));
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            if name == EFA {
                self.of_efa.change(change, [], object, touched);
            }
            self.asked.change(change, name.to_owned(), touched);
        }
    }
}
