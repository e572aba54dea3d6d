//! Services by the labels that they select.

use crate::cluster::table::{View, ViewSlot};
use crate::kind::Kind;
use crate::object::Object;

/// Services by namespace and the first label of their selector, key and value.
pub(crate) struct Services;

impl View for Services {
    const SLOT: ViewSlot = ViewSlot::Services;
    const KINDS: &'static [Kind] = &[Kind::SERVICE];
    type Row = Object;
    type Key = (String, String, String);

    fn keys(object: &Object) -> Vec<(String, String, String)> {
        let namespace = object.namespace_or_default();
        let labels = object.path(&["spec", "selector"]).entries();
        let first = labels.into_iter().find_map(|(key, value)| Some((key, value.text()?)));
        first
            .map(|(key, value)| (namespace.to_owned(), key.to_owned(), value.to_owned()))
            .into_iter()
            .collect()
    }
}
