//! PersistentVolumes by the claim that they are reserved for.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;

pub(crate) struct ReservedVolumes;

impl View for ReservedVolumes {
    const SLOT: ViewSlot = ViewSlot::ReservedVolumes;
    const KINDS: &'static [Kind] = &[Kind::PERSISTENT_VOLUME];
    type Row = Object;
    /// Namespace and name of the claim.
    type Key = (String, String);

    fn keys(volume: &Object) -> Vec<(String, String)> {
        let claim = volume.path(&["spec", "claimRef"]);
        let key = claim.get("namespace").text().zip(claim.get("name").text());
        key.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())).into_iter().collect()
    }
}
