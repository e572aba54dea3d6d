//! The extended resources that workloads request.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::gpu::requested_extended_resources;
use crate::workload::template::{WORKLOAD_KINDS, templates};

pub(crate) struct ExtendedResources;

impl View for ExtendedResources {
    const SLOT: ViewSlot = ViewSlot::ExtendedResources;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    type Row = Object;
    type Key = String;

    fn keys(object: &Object) -> Vec<String> {
        let templates = templates(object);
        templates.iter().flat_map(requested_extended_resources).map(str::to_owned).collect()
    }
}
