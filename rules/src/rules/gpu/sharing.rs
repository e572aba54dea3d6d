//! Configurations of NVIDIA's device plugin in ConfigMaps that share GPUs.

use crate::object::Object;
use crate::source::with_embedded;
use crate::tree::node::Node;

/// Calls a function with each configuration of the device plugin that shares GPUs: the entry of the ConfigMap, and its root.
pub(super) fn for_each(object: &Object, mut read: impl FnMut(&Node<'_>, &Node<'_>)) {
    for (_, entry) in object.get("data").entries() {
        let Some(text) = entry.text() else {
            continue;
        };
        // Most ConfigMaps hold something else.
        if !text.contains("sharing") || !(text.contains("timeSlicing") || text.contains("mps")) {
            continue;
        }
        with_embedded(text, |root| {
            let config = root.get("version").text() == Some("v1") && root.get("sharing").is_mapping();
            config.then(|| read(&entry, root))
        });
    }
}
