//! NodeOverlays by the properties that rules search for.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;

/// NodeOverlays by their weight, because those of equal weight can conflict, and by what they change.
pub(crate) struct Overlays;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OverlayKey {
    /// By `spec.weight`, unless it is a placeholder.
    Weight(i64),
    /// By a resource of `spec.capacity`.
    Capacity(String),
    /// Overlays whose capacity, or a key of it, is a placeholder.
    UnknownCapacity,
}

impl View for Overlays {
    const SLOT: ViewSlot = ViewSlot::Overlays;
    const KINDS: &'static [Kind] = &[Kind::NODE_OVERLAY];
    type Row = Object;
    type Key = OverlayKey;

    fn keys(object: &Object) -> Vec<OverlayKey> {
        let weight = object.path(&["spec", "weight"]);
        let weight = if weight.is_set() { weight.int() } else { Some(0) };
        let capacity = object.path(&["spec", "capacity"]);
        let resources = capacity.entries().into_iter().filter(|(_, amount)| amount.is_set());
        let mut keys: Vec<OverlayKey> =
            resources.map(|(resource, _)| OverlayKey::Capacity(resource.to_owned())).collect();
        keys.extend(weight.map(OverlayKey::Weight));
        let is_unknown = capacity.is_unknown() || capacity.has_unknown_key();
        keys.extend(is_unknown.then_some(OverlayKey::UnknownCapacity));
        keys
    }
}
