//! Compares our schemas of Karpenter's, AWS's and KEDA's kinds with the definitions that a cluster installs:
//! every path, with its type, bounds, enum, pattern, default, list type and required fields. The definitions
//! are downloaded and not kept. Without `KUBEBUILDER_ASSETS` the test compares nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpulint_testing::assets;
use serde_yaml::Value;

/// The group, version, kind, our file if it belongs to another kind, and the file of the definition.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("karpenter.sh", "v1", "NodePool", "karpenter.sh_nodepools"),
    ("karpenter.sh", "v1", "NodeClaim", "karpenter.sh_nodeclaims"),
    ("karpenter.sh", "v1alpha1", "NodeOverlay", "karpenter.sh_nodeoverlays"),
    ("karpenter.k8s.aws", "v1", "EC2NodeClass", "karpenter.k8s.aws_ec2nodeclasses"),
    ("keda.sh", "v1alpha1", "ScaledObject", "keda.sh_scaledobjects"),
    ("keda.sh", "v1alpha1", "ScaledJob", "keda.sh_scaledjobs"),
    ("keda.sh", "v1alpha1", "TriggerAuthentication", "keda.sh_triggerauthentications"),
    ("keda.sh", "v1alpha1", "TriggerAuthentication", "keda.sh_clustertriggerauthentications"),
];

/// Intended differences: the end of a path, the difference, and the reason.
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        ".requirements[].values",
        "maxLength, pattern",
        "keywords for texts on a list say nothing: the API server takes any values",
    ),
    (".spec.replicas", "maximum", "the scale subresource reads 32 bits, and refuses what has more"),
];

/// Fields below which the definition takes anything; ours are those of older definitions.
const OPEN: &[(&str, &str)] = &[("EC2NodeClass", ".spec.kubelet")];

/// Keywords that are not compared, because they do not restrict values or are covered elsewhere: CEL by named
/// rules, `anyOf` by int-or-string, map types by the merge of server-side apply.
const ASIDE: &[&str] = &[
    "description",
    "properties",
    "items",
    "additionalProperties",
    "x-kubernetes-validations",
    "anyOf",
    "x-kubernetes-map-type",
];

type Paths = BTreeMap<String, BTreeMap<String, Value>>;

/// Collects every path below a schema with its keywords. It does not follow references to core types.
fn walk(schema: &Value, path: &str, out: &mut Paths, ends: &mut BTreeSet<String>) {
    let Some(map) = schema.as_mapping() else {
        return;
    };
    if map.contains_key("$ref") {
        ends.insert(path.to_owned());
        return;
    }
    let mut words = BTreeMap::new();
    for (key, value) in map {
        let key = key.as_str().unwrap();
        if ASIDE.contains(&key) {
            continue;
        }
        let mut value = value.clone();
        if matches!(key, "required" | "enum")
            && let Some(list) = value.as_sequence_mut()
        {
            list.sort_by_key(|v| v.as_str().unwrap_or_default().to_owned());
        }
        words.insert(key.to_owned(), value);
    }
    out.insert(path.to_owned(), words);
    for (name, field) in map.get("properties").and_then(Value::as_mapping).into_iter().flatten() {
        let name = name.as_str().unwrap();
        if path.is_empty() && name != "spec" {
            continue;
        }
        walk(field, &format!("{path}.{name}"), out, ends);
    }
    if let Some(items) = map.get("items") {
        walk(items, &format!("{path}[]"), out, ends);
    }
    if let Some(values) = map.get("additionalProperties") {
        walk(values, &format!("{path}{{}}"), out, ends);
    }
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_yaml::from_str(&text).unwrap()
}

#[test]
fn our_schemas_are_those_of_the_definitions() {
    let Some(definitions) = assets("KUBEBUILDER_ASSETS", "crds", "tests/cluster/build") else { return };
    let ours_at = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let mut differences = Vec::new();
    let (mut used, mut open) = (BTreeSet::new(), BTreeSet::new());
    for (group, version, kind, file) in KINDS {
        let ours = read(&ours_at.join(group).join(version).join(format!("{kind}.yaml")));
        let definition = read(&definitions.join(format!("{file}.yaml")));
        let versions = definition["spec"]["versions"].as_sequence().unwrap();
        let theirs = versions
            .iter()
            .find(|v| v["name"].as_str() == Some(version))
            .unwrap_or_else(|| panic!("{file} has no {version}"));
        let (mut a, mut b) = (Paths::new(), Paths::new());
        let mut ends = BTreeSet::new();
        walk(&ours, "", &mut a, &mut ends);
        walk(&theirs["schema"]["openAPIV3Schema"], "", &mut b, &mut BTreeSet::new());
        let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let mut compared = 0;
        for path in paths {
            // Core types are generated. Additional keywords of a definition are in the overlay.
            if ends.iter().any(|end| path.starts_with(end.as_str())) {
                continue;
            }
            compared += 1;
            let difference = match (a.get(path), b.get(path)) {
                (Some(ours), Some(theirs)) => {
                    let words: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
                    words
                        .into_iter()
                        .filter(|word| ours.get(*word) != theirs.get(*word))
                        .cloned()
                        .collect::<Vec<_>>()
                        .join(", ")
                }
                (None, _) => "only in the definition".to_owned(),
                (_, None) => "only ours".to_owned(),
            };
            if difference.is_empty() {
                continue;
            }
            if let Some(at) = OPEN.iter().position(|(of, open)| of == kind && path.starts_with(open)) {
                open.insert(at);
                continue;
            }
            let explained =
                EXPLAINED.iter().position(|(end, what, _)| path.ends_with(end) && difference == *what);
            match explained {
                Some(at) => {
                    used.insert(at);
                }
                None => differences.push(format!("{kind} {path}: {difference}")),
            }
        }
        eprintln!("{kind}: {compared} paths compared");
        assert!(compared > 10, "{kind}: {compared}");
    }
    for (at, explained) in EXPLAINED.iter().enumerate() {
        if !used.contains(&at) {
            differences.push(format!("no longer different: {explained:?}"));
        }
    }
    for (_, closed) in OPEN.iter().enumerate().filter(|(at, _)| !open.contains(at)) {
        differences.push(format!("no longer open: {closed:?}"));
    }
    assert!(differences.is_empty(), "\n{}\n", differences.join("\n"));
}
