//! Configurations of NVIDIA's device plugin in ConfigMaps that share GPUs.

use memchr::memmem;

use crate::object::Object;
use crate::source::with_embedded;
use crate::tree::node::Node;

/// Calls a function with each configuration of the device plugin that shares GPUs: the entry of the ConfigMap, and its root.
pub(super) fn for_each(object: &Object, mut read: impl FnMut(&Node<'_>, &Node<'_>)) {
    for (_, entry) in object.get("data").entries() {
        // Most ConfigMaps contain something else, and may be long.
        let Some(text) = entry.raw_text().filter(|text| may_share(text)).and_then(|_| entry.text()) else {
            continue;
        };
        with_embedded(text, |root| {
            let config = root.get("version").text() == Some("v1") && root.get("sharing").is_mapping();
            config.then(|| read(&entry, root))
        });
    }
}

fn may_share(text: &str) -> bool {
    let has = |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    has("sharing") && (has("timeSlicing") || has("mps"))
}
