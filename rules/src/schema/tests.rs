//! Violations of small objects, independent of the messages of the rules.

use serde_json::json;

use super::{ViolationKind, fields_at};
use crate::kind::definitions::CustomResourceDefinitions;
use crate::object::Object;
use crate::source::{Source, read};
use crate::tree::pointer::Pointer;

fn object(text: &str) -> Object {
    let source = std::sync::Arc::new(Source::from_text("a.yaml", text));
    let documents = read(&source);
    Object::from_document(&source, &documents[0], false).remove(0)
}

fn violations(text: &str) -> Vec<String> {
    let object = object(text);
    let short = |problem: &ViolationKind| match problem {
        ViolationKind::Type { expected } => format!("not {}", expected.join("|")),
        ViolationKind::Invalid { message, .. } => message.clone(),
        other => format!("{other:?}").split([' ', '{']).next().unwrap_or("").to_owned(),
    };
    let mut out: Vec<String> = super::violations(&object, &CustomResourceDefinitions::default())
        .iter()
        .map(|v| format!("{} {}", v.pointer, short(&v.kind)))
        .collect();
    out.sort();
    out
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 1.0
  paused: null
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}, creationTimestamp: null}
    spec:
      containers:
        - name: a
          image: a
          resources: {limits: {cpu: 0.5, memory: 1Gi, nvidia.com/gpu: 1}}
          ports: [{containerPort: 80, protocol: TCP}]
          readinessProbe: {httpGet: {port: http, path: /}}
status: {anything: goes}
";

#[test]
fn an_ordinary_deployment_is_right() {
    assert_eq!(violations(DEPLOYMENT), Vec::<String>::new());
}

#[test]
fn each_mistake_has_its_place() {
    for (from, to, expected) in [
        ("replicas: 1.0", "replicas: '1'", "/spec/replicas not integer"),
        ("replicas: 1.0", "replicas: 1.5", "/spec/replicas not integer"),
        ("replicas: 1.0", "replicas: -1", "/spec/replicas Range"),
        ("replicas: 1.0", "replica: 1", "/spec/replica Unknown"),
        ("cpu: 0.5", "cpu: half", "/spec/template/spec/containers/0/resources/limits/cpu Format"),
        ("image: a", "image: 1", "/spec/template/spec/containers/0/image not string"),
        ("name: a\n", "nam: a\n", "/spec/template/spec/containers/0/nam Unknown"),
        ("protocol: TCP", "protocol: HTTP", "/spec/template/spec/containers/0/ports/0/protocol Enum"),
        (
            "containerPort: 80",
            "containerPort: 70000",
            "/spec/template/spec/containers/0/ports/0/containerPort Range",
        ),
        (
            "metadata: {name: a}",
            "metadata: {name: A}",
            "/metadata/name `A` is not a valid Deployment name: upper-case letters are not allowed",
        ),
        ("metadata: {name: a}", "metadata: {namespace: a}", "/metadata/name Missing"),
        ("metadata: {name: a}", "metadata: {name: a, label: {}}", "/metadata/label Unknown"),
        (
            "metadata: {name: a}",
            "metadata: {name: a, labels: {a/b/c: x}}",
            "/metadata/labels/a~1b~1c `a/b/c` is not a valid label key",
        ),
        ("selector: {matchLabels: {app: a}}", "x: 1", "/spec/selector Missing"),
    ] {
        let text = DEPLOYMENT.replacen(from, to, 1);
        assert!(text != DEPLOYMENT, "{from}");
        let found = violations(&text);
        assert!(found.iter().any(|v| v == expected), "{to}: {found:?}");
    }
}

#[test]
fn placeholders_are_unknown() {
    for (from, to) in [
        ("replicas: 1.0", "replicas: '${REPLICAS}'"),
        ("cpu: 0.5", "cpu: '${CPU}'"),
        ("metadata: {name: a}", "metadata: {name: '{{ name }}'}"),
        ("protocol: TCP", "protocol: '${PROTOCOL}'"),
        ("ports: [{containerPort: 80, protocol: TCP}]", "ports: '${PORTS}'"),
        ("ports: [{containerPort: 80, protocol: TCP}]", "ports: [{'${PORT}': 1}]"),
    ] {
        let text = DEPLOYMENT.replacen(from, to, 1);
        assert!(text != DEPLOYMENT, "{from}");
        assert_eq!(violations(&text), Vec::<String>::new(), "{to}");
    }
}

#[test]
fn anchors_and_merges_are_read_through() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
    - &one {name: a, image: a, command: [a]}
    - <<: *one
      name: b
    - <<: *one
      name: c
      image: 7
";
    assert_eq!(violations(text), ["/spec/containers/2/image not string"]);
}

#[test]
fn lists_of_a_crd_hold_their_types() {
    let text = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  disruption:
    consolidateAfter: 30d
    budgets: [{nodes: 0, reasons: [Empty, Empty]}]
  limits: {cpu: 1.5}
  template:
    spec:
      nodeClassRef: {group: a, kind: b, name: c, apiVersion: d}
      requirements: []
";
    assert_eq!(
        violations(text),
        [
            "/spec/disruption/budgets/0/nodes not string",
            "/spec/disruption/budgets/0/reasons/1 Duplicate",
            "/spec/disruption/consolidateAfter Pattern",
            "/spec/limits/cpu not integer|string",
            "/spec/template/spec/nodeClassRef/apiVersion Unknown",
        ]
    );
}

#[test]
fn a_patch_misses_nothing() {
    let text = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    spec:
      $setElementOrder/containers: []
      containers: [{name: a, $patch: delete, image: 1}]
";
    let source = std::sync::Arc::new(Source::from_text("a.yaml", text));
    let documents = read(&source);
    let object = Object::from_document(&source, &documents[0], true).remove(0);
    let found: Vec<String> = super::violations(&object, &CustomResourceDefinitions::default())
        .iter()
        .map(|v| v.pointer.to_string())
        .collect();
    assert_eq!(found, ["/spec/template/spec/containers/0/image"]);
}

#[test]
fn fields_are_named_where_they_are_known() {
    let object = Object::from_json(&json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
    let object = object.expect("an object");
    let none = CustomResourceDefinitions::default();
    let names = |pointer: &str| fields_at(&object, &Pointer::parse(pointer).expect("a pointer"), &none);
    assert!(names("").contains(&"spec".to_owned()));
    assert!(names("/metadata").contains(&"labels".to_owned()));
    assert!(names("/spec/template/spec/containers/0").contains(&"image".to_owned()));
    assert!(names("/spec/selector/matchLabels").is_empty());
}

/// Compares with a jsonschema validator of the whole schema: accepted objects are valid, and the violations
/// are equal.
#[expect(clippy::disallowed_methods, reason = "the test reads fixtures")]
mod law {
    use std::sync::LazyLock;

    use serde_json::{Map, Value, json};

    use super::super::acceptor::ValidationOptions;
    use super::super::check::{check, validation_options};
    use super::super::compiled::CompiledSchema;
    use super::super::instance::TreeNode;
    use super::super::keywords::TYPE_KEYWORD;
    use super::super::table::{self, SCHEMAS, SchemaEntry};
    use super::super::violation::Violation;
    use super::super::{errors, structural, violations};
    use crate::kind::definitions::CustomResourceDefinitions;
    use crate::object::Object;
    use crate::source::{Source, read};
    use gpulint_testing::yaml_below;

    /// The schemas of the kind table, each with its referenced types as `$defs`.
    static WHOLE: LazyLock<Vec<CompiledSchema>> = LazyLock::new(|| {
        let whole = |entry: &SchemaEntry| {
            let schema = with_definitions(entry.schema.json_schema());
            CompiledSchema::new(move || schema.clone())
        };
        SCHEMAS.iter().map(whole).collect()
    });

    fn with_definitions(mut schema: Value) -> Value {
        let (mut definitions, mut types) = (Map::new(), Vec::new());
        refer(&mut schema, &mut types);
        while let Some(name) = types.pop() {
            if !definitions.contains_key(&key(&name)) {
                assert!(CompiledSchema::of_type(&name).validator().is_some(), "{name}");
                let mut definition = structural::of_type(&name);
                refer(&mut definition, &mut types);
                definitions.insert(key(&name), definition);
            }
        }
        schema["$defs"] = Value::Object(definitions);
        schema
    }

    fn key(name: &str) -> String {
        name.replace(' ', "-")
    }

    /// Replaces each type reference by a `$ref`.
    fn refer(schema: &mut Value, types: &mut Vec<String>) {
        if let Value::Object(map) = schema
            && let Some(Value::String(name)) = map.remove(TYPE_KEYWORD)
        {
            map.insert("$ref".into(), json!(format!("#/$defs/{}", key(&name))));
            types.push(name);
        }
        match schema {
            Value::Object(map) => map.values_mut().for_each(|value| refer(value, types)),
            Value::Array(items) => items.iter_mut().for_each(|value| refer(value, types)),
            _ => {}
        }
    }

    /// The schema of an object's kind, with its types included.
    fn whole(object: &Object) -> &'static CompiledSchema {
        let at = SCHEMAS.iter().position(|entry| std::ptr::eq(entry, table::find(object.id()).unwrap()));
        &WHOLE[at.unwrap()]
    }

    fn fixtures(folder: &str) -> Vec<Object> {
        let root = gpulint_testing::fixtures();
        let mut out = Vec::new();
        for path in yaml_below(&root.join(folder)) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let source = std::sync::Arc::new(Source::from_text("a.yaml", &text));
            let documents = read(&source);
            let all = documents.iter();
            out.extend(all.flat_map(|d| Object::from_document(&source, d, false)));
        }
        out.retain(|object| table::find(object.id()).is_some());
        out
    }

    /// Whether the acceptor accepts the object, and whether the validator does.
    fn both(object: &Object) -> (bool, bool) {
        let (tree, root) = object.tree();
        let schema = &table::find(object.id()).unwrap().schema;
        let is_valid = whole(object).is_valid(TreeNode::new(tree, root));
        assert_eq!(schema.is_valid(TreeNode::new(tree, root)), is_valid);
        (schema.accepts(tree, root, ValidationOptions::default()).is_valid, is_valid)
    }

    #[test]
    fn what_is_sure_is_valid_and_most_of_what_is_valid_is_sure() {
        let all = fixtures("");
        let (mut valid, mut unsure) = (0, 0);
        for object in &all {
            let (sure, is_valid) = both(object);
            assert!(is_valid || !sure, "{:?}", object.root().to_json().to_string());
            valid += usize::from(is_valid);
            unsure += usize::from(is_valid && !sure);
        }
        assert!(valid > 500, "{valid} of {} fixtures are valid", all.len());
        assert!(unsure * 50 < valid, "{unsure} of {valid} valid objects are not sure");
    }

    fn violations_are_the_same(object: &Object, what: &str) {
        let (tree, root) = object.tree();
        let sorted = |mut violations: Vec<Violation>| {
            violations.sort_by(|a, b| a.pointer.cmp(&b.pointer));
            violations
        };
        let found = violations(object, &CustomResourceDefinitions::default()).into_owned();
        let declared = || Some(table::find(object.id())?.structural());
        let with = check(object, declared, errors::violations(whole(object), tree, root));
        assert_eq!(sorted(found), sorted(with), "{what}");
    }

    /// The pointers of all values in a document, so that a test can replace each of them.
    fn places(value: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.to_owned());
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    places(value, &format!("{at}/{key}"), out);
                }
            }
            Value::Array(items) => {
                for (i, value) in items.iter().enumerate() {
                    places(value, &format!("{at}/{i}"), out);
                }
            }
            _ => {}
        }
    }

    /// Tests objects without their values, in patches, and with kustomizations.
    #[test]
    fn what_is_not_certain_hides_no_violation() {
        let asked = std::env::var("SCHEMA_MUTANTS").ok();
        let most: usize = asked.and_then(|n| n.parse().ok()).unwrap_or(2000);
        let mut mutants = Vec::new();
        for object in fixtures("verdicts") {
            let value = object.root().to_json();
            let mut at = Vec::new();
            places(&value, "", &mut at);
            let whole = at.into_iter().skip(1).filter(|place| !place.starts_with("/apiVersion"));
            mutants.extend(whole.filter(|place| place != "/kind").map(|place| (value.clone(), place)));
        }
        let step = (mutants.len() / most).max(1);
        let mut accepted = 0;
        for (value, place) in mutants.into_iter().step_by(step) {
            let (above, last) = place.rsplit_once('/').unwrap();
            let last = last.replace("~1", "/").replace("~0", "~");
            for change in 0..3 {
                let mut value = value.clone();
                match value.pointer_mut(above) {
                    Some(Value::Object(map)) if change == 0 => _ = map.remove(&last),
                    Some(Value::Object(map)) if change == 1 => {
                        _ = map.insert("$patch".into(), "merge".into())
                    }
                    _ => *value.pointer_mut(&place).unwrap() = "${X}".into(),
                }
                let text = value.to_string();
                let source = Source::from_text("a.json", &text).with_kustomized(accepted % 2 == 0);
                let source = std::sync::Arc::new(source);
                let documents = read(&source);
                for object in Object::from_document(&source, &documents[0], change == 0 && accepted % 3 == 0)
                {
                    let Some(entry) = table::find(object.id()) else { continue };
                    let (tree, root) = object.tree();
                    violations_are_the_same(&object, &format!("{place} of {text}"));
                    accepted +=
                        usize::from(entry.schema.accepts(tree, root, validation_options(&object)).is_valid);
                }
            }
        }
        assert!(accepted > 500, "{accepted}");
    }

    #[test]
    fn whatever_is_broken_is_not_sure() {
        let others = serde_json::json!([
            null, true, -1, 0, 1, 2.5, 3.0, 4_294_967_296_u64, 1e300, "", "x", "10%", "5m", "1Gi",
            "2026-01-02T03:04:05Z", "Zm9v", [], [null], ["x", "x"], [{}, {}], {}, {"x": 1}, {"x": "y"}
        ]);
        let others = others.as_array().unwrap();
        let asked = std::env::var("SCHEMA_MUTANTS").ok();
        let most: usize = asked.and_then(|n| n.parse().ok()).unwrap_or(4000);
        let mut mutants: Vec<(usize, String, usize)> = Vec::new();
        let bases: Vec<Value> = fixtures("verdicts").iter().map(|o| o.root().to_json()).collect();
        for (base, value) in bases.iter().enumerate() {
            let mut at = Vec::new();
            places(value, "", &mut at);
            for place in at {
                mutants.extend((0..others.len()).map(|other| (base, place.clone(), other)));
            }
        }
        let step = (mutants.len() / most).max(1);
        let (mut valid, mut invalid) = (0, 0);
        for (base, place, other) in mutants.into_iter().step_by(step) {
            let mut value = bases[base].clone();
            *value.pointer_mut(&place).unwrap() = others[other].clone();
            let Some(object) = Object::from_json(&value) else { continue };
            if table::find(object.id()).is_none() {
                continue;
            }
            let (sure, is_valid) = both(&object);
            assert!(is_valid || !sure, "{place} of {value}");
            valid += usize::from(is_valid);
            invalid += usize::from(!is_valid);
            violations_are_the_same(&object, &format!("{place} of {value}"));
        }
        assert!(valid > 100 && invalid > 100, "{valid} valid, {invalid} not");
    }

    /// Measures the time that the acceptor saves: `SCHEMA_FILES=DIR cargo test --release -p gpulint-rules
    /// --lib -- --ignored --nocapture accepting_saves_time`.
    #[test]
    #[ignore = "a measurement"]
    fn accepting_saves_time() {
        let time = |what: &str, count: usize, work: &dyn Fn() -> usize| {
            // The first run compiles.
            for run in ["first", "second"] {
                let start = std::time::Instant::now();
                let done = work();
                let all = start.elapsed();
                let each = all / u32::try_from(count.max(1)).unwrap();
                println!("{what}, {run} run: {all:?}, {each:?} each, {done} of {count}");
            }
        };
        let folder = std::env::var("SCHEMA_FILES").unwrap_or_else(|_| "verdicts".to_owned());
        let files = fixtures(&folder);
        let mut pools = fixtures("practices/000");
        pools.retain(|object| object.kind() == "NodePool");
        let schema = |object: &Object| &table::find(object.id()).unwrap().schema;
        let accepts = |object: &Object| {
            let (tree, root) = object.tree();
            schema(object).accepts(tree, root, validation_options(object)).is_valid
        };
        let rejects = |object: &Object| {
            let (tree, root) = object.tree();
            !errors::violations(schema(object), tree, root).is_empty()
        };
        for (name, objects) in [("files", files.iter().collect()), ("NodePools", vec![&pools[0]; 10_000])] {
            let others: Vec<&Object> = objects.iter().copied().filter(|object| !accepts(object)).collect();
            for (what, objects, test) in [
                ("accepted", &objects, &accepts as &dyn Fn(&Object) -> bool),
                ("violations of the others", &others, &rejects),
                ("violations of all", &objects, &rejects),
            ] {
                let count = || objects.iter().filter(|object| test(object)).count();
                time(&format!("{name}, {what}"), objects.len(), &count);
            }
        }
    }
}
