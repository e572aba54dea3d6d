//! Configurations of NVIDIA's device plugin that share GPUs, in ConfigMaps and in the values of the charts that write them.

use memchr::memmem;

use crate::cluster::values::value_fields;
use crate::kind::Kind;
use crate::object::Object;
use crate::source::with_embedded;
use crate::tree::node::Node;

/// The entries of the ConfigMap that an object is, or that a chart writes with its values.
pub(super) fn entries(object: &Object) -> Vec<(&str, Node<'_>)> {
    if !object.is(Kind::HELM_RELEASE) && !object.is(Kind::ARGO_APPLICATION) {
        return object.get("data").entries();
    }
    let of_plugin =
        value_fields(object, "nvidia-device-plugin").map(|values| values.path(&["config", "map"]));
    let of_operator = value_fields(object, "gpu-operator").filter_map(|values| {
        let config = values.path(&["devicePlugin", "config"]);
        (config.get("create").bool() == Some(true)).then(|| config.get("data"))
    });
    of_plugin.chain(of_operator).flat_map(|data| data.entries()).collect()
}

/// Calls a function with each configuration of the device plugin that shares GPUs: the entry of the ConfigMap, and its root.
pub(super) fn for_each(object: &Object, mut read: impl FnMut(&Node<'_>, &Node<'_>)) {
    for (_, entry) in entries(object) {
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
