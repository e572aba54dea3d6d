//! The keys of mappings whose keys are in no schema: labels, resources, the metadata of triggers.

use gpulint_rules::keda::meaning;
use gpulint_rules::keda::scalers::{self, KeySource};
use gpulint_rules::workload::gpu::RESOURCES;

use super::cursor::Cursor;
use super::fields::written;
use super::item::{Item, ItemKind};
use super::labels;
use super::sketch::KeyPlace;

/// The annotations that configure Karpenter and KEDA on the objects that they act on.
const ANNOTATIONS: &[(&str, &str)] = &[
    ("karpenter.sh/do-not-disrupt", "`\"true\"`: Karpenter does not disrupt the node of the pod by itself"),
    (
        "gpulint.dev/allow",
        "rules that are not reported: `rule-id: reason; other-id until=2027-01-31: reason`",
    ),
];
const KEDA_ANNOTATIONS: &[(&str, &str)] = &[
    ("autoscaling.keda.sh/paused", "`\"true\"`: KEDA stops scaling"),
    ("autoscaling.keda.sh/paused-replicas", "KEDA stops scaling at this number of replicas"),
    (
        "gpulint.dev/allow",
        "rules that are not reported: `rule-id: reason; other-id until=2027-01-31: reason`",
    ),
];

pub(super) fn complete(cursor: &Cursor<'_>, place: &KeyPlace) -> Vec<Item> {
    let written = written(cursor, place);
    let mut keys = Keys { place, written, out: Vec::new() };
    match cursor.pattern().as_slice() {
        [.., "nodeSelector"] => {
            for (key, meaning) in labels::node_keys(cursor) {
                keys.add(&key, meaning);
            }
        }
        [.., "resources", "requests" | "limits"] | ["spec", "capacity"] => {
            for (name, meaning) in RESOURCES {
                keys.add(name, (*meaning).to_owned());
            }
        }
        ["spec", "limits"] if cursor.is_of_karpenter() => {
            let countable =
                RESOURCES.iter().filter(|(name, _)| !name.contains("mig-") && !name.contains("shared"));
            for (name, meaning) in countable {
                keys.add(name, (*meaning).to_owned());
            }
            keys.add("nodes", "nodes of the pool".to_owned());
        }
        [.., "triggers", "[]", "metadata"] => trigger_metadata(cursor, place, &mut keys),
        [.., "matchLabels"] => {
            for key in labels::pod_keys(cursor) {
                keys.add(&key, "label of pods".to_owned());
            }
        }
        ["spec", "selector"] if cursor.kind == Some("Service") => {
            for key in labels::pod_keys(cursor) {
                keys.add(&key, "label of pods".to_owned());
            }
        }
        [.., "metadata", "annotations"] => {
            let is_of_keda = matches!(cursor.kind, Some("ScaledObject" | "ScaledJob"));
            for (name, meaning) in if is_of_keda { KEDA_ANNOTATIONS } else { ANNOTATIONS } {
                keys.add(name, (*meaning).to_owned());
            }
        }
        _ => {}
    }
    keys.out
}

struct Keys<'p> {
    place: &'p KeyPlace,
    written: Vec<&'p str>,
    out: Vec<Item>,
}

impl Keys<'_> {
    fn add(&mut self, key: &str, meaning: String) {
        if self.written.contains(&key) || self.out.iter().any(|item| item.label == key) {
            return;
        }
        let is_name_only = self.place.quoted || self.place.entry.is_some();
        self.out.push(Item {
            span: self.place.word,
            label: key.to_owned(),
            insert: if is_name_only { key.to_owned() } else { format!("{key}: ") },
            kind: ItemKind::Label,
            detail: Some(meaning),
            documentation: None,
        });
    }
}

/// Adds the keys that a trigger reads, required ones first, and then the variables of the target that it
/// reads.
fn trigger_metadata(cursor: &Cursor<'_>, place: &KeyPlace, keys: &mut Keys<'_>) {
    let keda = cursor.platform().keda;
    let Some(scaler) = cursor.beside(place.parent, 1, "type").and_then(|name| scalers::scaler(name, keda))
    else {
        return;
    };
    let mut read: Vec<_> = scaler.keys.iter().filter(|key| key.rejected_since.is_none()).collect();
    read.sort_by_key(|key| !key.required);
    for key in read.iter().filter(|key| key.reads(KeySource::Metadata) && !key.name.contains('*')) {
        keys.add(key.name, meaning::of_key(key));
    }
    for key in read.iter().filter(|key| key.reads(KeySource::Env) && !key.name.contains('*')) {
        let name = format!("{}FromEnv", key.name);
        keys.add(&name, format!("the environment variable of the target that holds `{}`", key.name));
    }
}
