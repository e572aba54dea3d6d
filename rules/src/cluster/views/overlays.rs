//! NodeOverlays by weight: those of equal weight can conflict.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;

/// NodeOverlays by `spec.weight`. Those whose weight is a placeholder are not in it.
pub(crate) struct OverlaysByWeight;

impl View for OverlaysByWeight {
    const SLOT: ViewSlot = ViewSlot::OverlaysByWeight;
    const KINDS: &'static [Kind] = &[Kind::NODE_OVERLAY];
    type Row = Object;
    type Key = i64;

    fn keys(object: &Object) -> Vec<i64> {
        let weight = object.path(&["spec", "weight"]);
        if weight.is_set() { weight.int().into_iter().collect() } else { vec![0] }
    }
}
