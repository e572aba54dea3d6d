//! Every field of the core types that not every supported version of Kubernetes has, in an object of each kind that
//! reaches it, at every supported version: unknown where the version does not have it, and only there. API versions likewise.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpulint_rules::platform::{Platform, Product, Version};
use gpulint_rules::{Engine, Object, Settings};
use gpulint_testing::cluster;
use serde_json::{Map, Value, json};

fn read(file: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn schemas(file: &str) -> String {
    read(&format!("schemas/core/{file}"))
}

/// The cells of a table.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect()
}

/// One rule at each supported version of Kubernetes.
fn engines(rule: &str) -> Vec<(Version, Engine)> {
    let at = |kubernetes| {
        let platform = Platform { kubernetes, ..Platform::default().with_all_stated() };
        let select = vec![rule.to_owned()];
        (kubernetes, Engine::new(Settings { select, platform, ..Settings::default() }))
    };
    Product::Kubernetes.supported().map(at).collect()
}

/// The schema behind a reference; other schemas are returned unchanged.
fn resolved<'t>(types: &'t Value, schema: &'t Value) -> &'t Value {
    schema["$ref"].as_str().map_or(schema, |name| &types[name])
}

/// A value that a schema accepts, with the required fields alone.
fn sample(types: &Value, schema: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        return match name.rsplit('.').next() {
            Some("Quantity" | "IntOrString") => json!(1),
            Some("Time" | "MicroTime") => json!("2026-01-01T00:00:00Z"),
            _ => sample(types, &types[name]),
        };
    }
    match schema["type"].as_str() {
        Some("string") => json!("a"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(types, &schema["items"])]),
        _ => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let fields = required.map(|name| (name.to_owned(), sample(types, &schema["properties"][name])));
            Value::Object(fields.collect())
        }
    }
}

/// The shortest path of fields from a kind to each type. `[]` is an item of a list.
fn paths(types: &Value, root: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::from([(root.to_owned(), Vec::new())]);
    let mut queue = VecDeque::from([root.to_owned()]);
    while let Some(name) = queue.pop_front() {
        let path = found[&name].clone();
        for (field, schema) in types[&name]["properties"].as_object().into_iter().flatten() {
            let (next, steps) = match schema["items"]["$ref"].as_str() {
                Some(next) => (Some(next), vec![field.clone(), "[]".to_owned()]),
                None => (schema["$ref"].as_str(), vec![field.clone()]),
            };
            let Some(next) = next else { continue };
            if !found.contains_key(next) {
                found.insert(next.to_owned(), [path.clone(), steps].concat());
                queue.push_back(next.to_owned());
            }
        }
    }
    found
}

/// Writes a value at a path, and the required fields of all that is on the way.
fn write(types: &Value, schema: &Value, at: &mut Value, path: &[String], value: &Value) {
    let schema = resolved(types, schema);
    let Some((step, rest)) = path.split_first() else {
        *at = value.clone();
        return;
    };
    if at.is_null() {
        *at = sample(types, schema);
    }
    if step == "[]" {
        let items = at.as_array_mut().unwrap();
        write(types, &schema["items"], &mut items[0], rest, value);
    } else {
        let field = &schema["properties"][step];
        let child = at.as_object_mut().unwrap().entry(step.clone()).or_insert(Value::Null);
        write(types, field, child, rest, value);
    }
}

/// Whether a version is one of those from `since` to `until`; `-` is no bound.
fn has(version: Version, since: &str, until: &str) -> bool {
    Version::parse(since).is_none_or(|since| since <= version)
        && Version::parse(until).is_none_or(|until| version <= until)
}

/// The first version of each feature gate.
fn first_versions_of_gates() -> BTreeMap<String, Version> {
    let table = schemas("gates.tsv");
    let first = |row: Vec<&str>| {
        let version = row[1].split('=').next().and_then(Version::parse);
        (row[0].to_owned(), version.unwrap())
    };
    rows(&table).into_iter().map(first).collect()
}

#[test]
fn each_version_has_the_fields_that_are_its_own() {
    let types: Value = serde_json::from_str(&schemas("types.json")).unwrap();
    let fields = schemas("fields.tsv");
    let rows = rows(&fields);
    let gates = first_versions_of_gates();
    let engines = engines("unknown-field");
    let (mut cases, mut reached) = (0, BTreeSet::new());
    for (kind, root) in types["roots"].as_object().unwrap() {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        let paths = paths(&types, root.as_str().unwrap());
        for row in &rows {
            let [of, field, since, until, of_gates] = row[..] else { panic!("{row:?}") };
            let needed: Vec<Version> =
                of_gates.split(',').filter_map(|gate| gates.get(gate).copied()).collect();
            let Some(path) = paths.get(of) else { continue };
            // The fields of a status are not checked.
            if path.iter().any(|step| step == "status") {
                continue;
            }
            let path = [path.clone(), vec![field.to_owned()]].concat();
            let mut object = Value::Object(Map::new());
            let value = sample(&types, &types[of]["properties"][field]);
            write(&types, &json!({"$ref": root}), &mut object, &path, &value);
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind);
            object["metadata"] = json!({"name": "a"});
            let object = Object::from_json(&object).unwrap();
            let pointer = format!("/{}", path.join("/").replace("[]", "0"));
            reached.insert((of, field));
            for (version, engine) in &engines {
                cases += 1;
                let found = engine.check_object(&object, &cluster(engine, [&object]));
                let is_unknown =
                    found.iter().any(|f| f.location.pointer().is_some_and(|at| at.to_string() == pointer));
                // A field came with its gate.
                let is_in = has(*version, since, until) && needed.iter().all(|first| first <= version);
                assert_eq!(is_unknown, !is_in, "{kind} {pointer} in {version}: {found:#?}");
            }
        }
    }
    assert!(cases > 1_000, "{cases} cases");
    let unreached: Vec<_> = rows.iter().filter(|row| !reached.contains(&(row[0], row[1]))).collect();
    assert!(unreached.iter().all(|row| row[0].ends_with("Status")), "{unreached:?}");
}

#[test]
fn each_version_serves_the_api_versions_that_are_its_own() {
    let table = read("src/kind/api_minors.tsv");
    let engines = engines("api-version-not-served");
    let mut cases = 0;
    for row in rows(&table) {
        let [api_version, kind, since, until, default] = row[..] else { panic!("{row:?}") };
        // dra-api-version reports these, and EKS turns on the last.
        let claims = ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"];
        if claims.contains(&kind) || (kind, default) == ("VolumeAttributesClass", "off") {
            continue;
        }
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let object = Object::from_json(&object).unwrap();
        for (version, engine) in &engines {
            cases += 1;
            let found = engine.check_object(&object, &cluster(engine, [&object]));
            let is_served = has(*version, since, until) && default == "on";
            assert_eq!(found.is_empty(), is_served, "{kind} {api_version} in {version}: {found:#?}");
        }
    }
    assert!(cases > 200, "{cases} cases");
}
