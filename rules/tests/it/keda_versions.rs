//! Every field and value that a version of KEDA's CRDs added or removed, and every key of every trigger type, under each
//! supported version: silent where the version has it, reported where it has not.

use std::collections::BTreeSet;

use gpulint_rules::keda::scalers::{KeyStatus, names, scaler};
use gpulint_rules::platform::{Product, Version};
use gpulint_rules::{Engine, Object, Settings};
use gpulint_testing::cluster;
use serde_json::{Map, Value, json};

fn engines() -> Vec<(Version, Engine)> {
    let engine = |version| {
        let mut settings = Settings::default();
        settings.platform.state(Product::Keda, version);
        (version, Engine::new(settings))
    };
    Product::Keda.supported().map(engine).collect()
}

/// The pointers at which rules report something.
fn reported(engine: &Engine, object: &Value, rules: &[&str]) -> BTreeSet<String> {
    let object = Object::from_json(object).unwrap();
    let findings = engine.check_object(&object, &cluster(engine, [&object]));
    let of_rules = findings.into_iter().filter(|finding| rules.contains(&finding.rule.id));
    of_rules.filter_map(|finding| Some(finding.location.pointer()?.to_string())).collect()
}

/// An object with a value at a path, and nothing else.
fn object_with(kind: &str, path: &[&str], value: Value) -> Value {
    let root = path.iter().rev().fold(value, |inner, step| match *step {
        "*" => json!([inner]),
        field => json!({field: inner}),
    });
    let mut object = json!({"apiVersion": "keda.sh/v1alpha1", "kind": kind, "metadata": {"name": "a"}});
    object["spec"] = root["spec"].clone();
    object
}

#[test]
fn each_version_has_its_own_fields_and_values() {
    let engines = engines();
    let table = include_str!("../../src/rules/manifest/since-keda.tsv");
    let mut cases = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [kind, path, value, _, first, last] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        // A bound of a later version makes a warning of an error.
        if value.starts_with('(') {
            continue;
        }
        let steps: Vec<&str> = path.split('/').collect();
        let (rules, leaf) = match value {
            "-" => (&["unknown-field", "field-needs-newer-version"][..], json!({})),
            value => (
                &["invalid-value", "field-needs-newer-version", "keda-pod-identity-removed"][..],
                json!(value),
            ),
        };
        let object = object_with(kind.strip_prefix("keda.sh/").unwrap(), &steps, leaf);
        let pointer = format!("/{}", path.replace('*', "0"));
        let last = Version::parse(last);
        for (version, engine) in &engines {
            let is_there = Version::parse(first).is_none_or(|first| first <= *version)
                && last.is_none_or(|last| *version <= last);
            // A value that a later version removes is a warning of its own rule.
            let mut rules = rules.to_vec();
            rules.retain(|rule| !is_there || *rule != "keda-pod-identity-removed");
            let found = reported(engine, &object, &rules);
            assert_eq!(found.contains(&pointer), !is_there, "KEDA {version}: {line}\n{found:?}");
            cases += 1;
        }
    }
    assert!(cases > 700, "{cases}");
}

#[test]
fn each_version_has_its_own_trigger_types_and_keys() {
    let rules = ["keda-trigger-type-unknown", "keda-trigger-key-ignored", "keda-removed-field"];
    let versions: Vec<Version> = Product::Keda.supported().collect();
    let types: BTreeSet<&str> = versions.iter().flat_map(|version| names(*version)).collect();
    let engines = engines();
    let mut cases = 0;
    for kind in types {
        let tables: Vec<_> = versions.iter().filter_map(|version| scaler(kind, *version)).collect();
        if tables[0].open {
            continue;
        }
        let all = tables.iter().flat_map(|table| &table.keys).flat_map(|key| key.names());
        let keys: BTreeSet<&str> = all.filter(|key| !key.contains('*')).collect();
        let metadata: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), json!("1"))).collect();
        let trigger = json!([{"type": kind, "metadata": metadata}]);
        let object = object_with("ScaledObject", &["spec", "triggers"], trigger);
        for (version, engine) in &engines {
            let found = reported(engine, &object, &rules);
            let Some(table) = scaler(kind, *version) else {
                assert!(found.contains("/spec/triggers/0/type"), "KEDA {version} has no {kind}");
                continue;
            };
            for key in &keys {
                // Beside `lagCount` the other targets of a stream are not read.
                if kind.ends_with("-streams") && ["pendingEntriesCount", "streamLength"].contains(key) {
                    continue;
                }
                // A key that is read now and refused later is a warning.
                let is_read = matches!(table.key_status(key), KeyStatus::Read);
                let pointer = format!("/spec/triggers/0/metadata/{key}");
                assert_eq!(found.contains(&pointer), !is_read, "KEDA {version}: {kind} {key}");
                cases += 1;
            }
        }
    }
    assert!(cases > 8000, "{cases}");
}
