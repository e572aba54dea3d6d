//! The parts of watched objects that stay in memory: as little as rules read.

use gpulint_rules::{Draft, Kind};
use serde_json::{Map, Value};

/// Annotations that no rule reads: the whole object again, and the lease of a leader, which is renewed every few seconds
/// (`LeaderElectionRecordAnnotationKey` of client-go before 0.24, on ConfigMaps and Endpoints).
pub(super) const UNREAD_ANNOTATIONS: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "control-plane.alpha.kubernetes.io/leader"];

/// The kinds of which rules read only a part of the manifest.
struct Part {
    kind: Kind,
    /// The part for the manual.
    words: &'static str,
    /// A field of the objects that have more.
    field: &'static str,
    reduce: fn(&mut Value),
}

static PARTS: [Part; 4] = [
    Part { kind: Kind::NAMESPACE, words: "the metadata", field: "spec", reduce: leave_metadata },
    Part {
        kind: Kind::CONFIG_MAP,
        words: "the keys, and of the values 64 KiB of text",
        field: "binaryData",
        reduce: |map| blank(map, "/binaryData"),
    },
    Part {
        kind: Kind::SEALED_SECRET,
        words: "the keys without their values",
        field: "spec",
        reduce: |sealed| {
            blank(sealed, "/spec/encryptedData");
            blank(sealed, "/spec/template/data");
        },
    },
    Part {
        kind: Kind::MUTATING_WEBHOOK_CONFIGURATION,
        words: "all but certificates",
        field: "webhooks",
        reduce: leave_out_certificates,
    },
];

/// The parts of a kind's objects that stay in memory, in words; empty if it is all but the status and what API servers manage.
pub fn kept(kind: Kind) -> &'static str {
    if kind == Kind::POD {
        return "those that have not ended";
    }
    PARTS.iter().find(|part| part.kind == kind).map_or("", |part| part.words)
}

/// Leaves out what no rule reads of an object of a kind.
pub(super) fn reduce(draft: &mut Draft, group: &str, kind: &str) {
    let part = PARTS.iter().find(|part| part.kind.group == group && part.kind.kind == kind);
    if let Some(part) = part.filter(|part| draft.has(&[part.field])) {
        let mut value = draft.to_json();
        (part.reduce)(&mut value);
        *draft = Draft::of(&value);
    }
}

fn leave_metadata(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|field, _| ["apiVersion", "kind", "metadata"].contains(&field.as_str()));
    }
}

/// Empties the values of a mapping. Its keys stay.
fn blank(object: &mut Value, path: &str) {
    let map = object.pointer_mut(path).and_then(Value::as_object_mut);
    map.into_iter().flat_map(Map::values_mut).for_each(|value| *value = Value::String(String::new()));
}

fn leave_out_certificates(configuration: &mut Value) {
    let webhooks = configuration.pointer_mut("/webhooks").and_then(Value::as_array_mut);
    for client in webhooks.into_iter().flatten().filter_map(|webhook| webhook.get_mut("clientConfig")) {
        client.as_object_mut().map(|client| client.remove("caBundle"));
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::file::File;
    use gpulint_rules::source::Source;
    use gpulint_rules::{Cluster, Engine, Object, Settings};
    use gpulint_testing::{fixtures, relative, yaml_below};
    use serde_json::json;

    use super::*;

    fn reduced(value: &Value) -> Value {
        let mut draft = Draft::of(value);
        let group = value["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
        reduce(&mut draft, group, value["kind"].as_str().unwrap());
        draft.to_json()
    }

    #[test]
    fn no_secret_and_no_certificate_is_kept() {
        let sealed = json!({"apiVersion": "bitnami.com/v1alpha1", "kind": "SealedSecret",
            "metadata": {"name": "broker", "namespace": "ml"},
            "spec": {"encryptedData": {"password": "AgB0"}, "template": {"data": {"url": "amqp://u:{{ .p }}@q"}}}});
        let kept = reduced(&sealed);
        assert_eq!(kept["spec"]["encryptedData"], json!({"password": ""}));
        assert_eq!(kept["spec"]["template"]["data"], json!({"url": ""}));
        let hooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "sidecars"}, "webhooks": [{"name": "a.example.com",
                "clientConfig": {"caBundle": "LS0t", "service": {"name": "sidecars", "namespace": "mesh"}}}]});
        let client = json!({"service": {"name": "sidecars", "namespace": "mesh"}});
        assert_eq!(reduced(&hooks)["webhooks"][0]["clientConfig"], client);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"},
            "spec": {"finalizers": ["kubernetes"]}});
        assert_eq!(
            reduced(&namespace),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        );
    }

    /// A rule that begins to read such a field has a fixture with it.
    #[test]
    fn what_is_left_out_changes_no_finding() {
        let engine = Engine::new(Settings::default());
        let mut asked = 0;
        for path in yaml_below(&fixtures().join("rules")) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let is_reduced = |part: &Part| {
                text.contains(&format!("kind: {}\n", part.kind.kind)) && text.contains(part.field)
            };
            if !PARTS.iter().any(is_reduced) || text.len() > 10_000 {
                continue;
            }
            let objects = File::read(Source::from_text(&relative(&path), &text)).objects;
            let values: Vec<Value> = objects.iter().map(|object| object.root().to_json()).collect();
            let named = |value: &&Value| {
                value["apiVersion"].is_string()
                    && value["kind"].is_string()
                    && value["metadata"]["name"].is_string()
            };
            let filled = |form: fn(&Value) -> Value| {
                let mut cluster = Cluster::new(true);
                let objects = values.iter().filter(named).map(form);
                objects
                    .filter_map(|value| Object::from_json(&value))
                    .for_each(|object| cluster.apply(object));
                cluster
            };
            let (whole, part) = (filled(Value::clone), filled(reduced));
            for object in values.iter().filter(named).filter_map(Object::from_json) {
                let findings = |cluster: &Cluster| {
                    let found = engine.review_object(&object, cluster).findings;
                    found.iter().map(|found| (found.rule.id, found.message.clone())).collect::<Vec<_>>()
                };
                assert_eq!(findings(&whole), findings(&part), "{}", path.display());
                asked += 1;
            }
        }
        assert!(asked > 30, "{asked}");
    }
}
