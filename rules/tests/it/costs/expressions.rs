//! Objects whose cost is in CEL expressions of their own or of the definition of their kind.

use gpulint_rules::{CustomResourceDefinitions, Object, Settings};
use serde_json::{Value, json};

use super::{Judge, LARGEST, MOST_STEPS};

/// Device classes with many expressions: short, long, nested, and invalid ones.
pub(super) fn classes(bytes: usize) -> Vec<(String, Value)> {
    let class = |name: &str, expression: String| {
        let each = expression.len() + 35;
        let selectors: Vec<Value> =
            (0..bytes / each).map(|_| json!({"cel": {"expression": expression}})).collect();
        let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": "gpu.example.com"}, "spec": {"selectors": selectors}});
        (format!("DeviceClass, {name} expressions"), class)
    };
    let nested = |times: usize| format!("{}a{}", "(".repeat(times), ")".repeat(times));
    vec![
        class("short", "a".to_owned()),
        class("plain", "device.driver == \"gpu.example.com\"".to_owned()),
        class("wrong", "device.driver = \"gpu.example.com\"".to_owned()),
        class("long", vec!["device.attributes[\"a\"].b > 1"; 120].join(" && ")),
        class("quoted", format!("a == \"{}\"", "x".repeat(16_000))),
        class("bracketed", nested(5)),
        class("nested", nested(250)),
        class("conditional", format!("{}c", "a ? b : ".repeat(200))),
        class("unclosed", "((((((((((a".to_owned()),
        class("called", format!("{}a{}", "f(".repeat(100), ")".repeat(100))),
        class("listed", format!("[{}a]", "a, ".repeat(4_000))),
        class("chained", format!("a{}", ".b".repeat(500))),
        class("odd", "@#%&*".repeat(3_000)),
    ]
}

/// A definition with rules that loop, and objects with long lists of that kind.
pub(super) fn defined(bytes: usize) -> (Settings, Vec<(String, Value)>) {
    let list = |rule: &str| {
        json!({"type": "array", "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": rule, "message": "fails"}]})
    };
    let rules = [
        ("once", "self.all(a, a != 'b')"),
        ("pattern", "self.all(a, a.matches('^[a-z0-9-]+$'))"),
        ("twice", "self.all(a, self.exists_one(b, a == b))"),
        ("mapped", "self.map(a, a + 'b').size() > 0"),
        ("filtered", "self.filter(a, a.startsWith('b')).size() == 0"),
        ("given", "self.all(a, 'b'.matches(a) || true)"),
        ("contained", "self.all(a, a in self)"),
    ];
    let mut properties: serde_json::Map<String, Value> =
        rules.iter().map(|(name, rule)| ((*name).to_owned(), list(rule))).collect();
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.name != 'b'", "message": "fails"}]});
    properties.insert("items".to_owned(), json!({"type": "array", "items": item}));
    let text = json!({"type": "string",
        "x-kubernetes-validations": [{"rule": "self.split(',').all(a, a != 'b')", "message": "fails"}]});
    properties.insert("text".to_owned(), text);
    let definition = gpulint_testing::thing_definition(&properties);
    let thing = |name: &str, value: Value| {
        let thing = json!({"apiVersion": "cel.example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
            "spec": {name: value}});
        (format!("Thing, {name}"), thing)
    };
    let values: Vec<Value> = (0..bytes / 12).map(|n| format!("name-{n}").into()).collect();
    let mut things: Vec<_> = rules.iter().map(|(name, _)| thing(name, values.clone().into())).collect();
    let items: Vec<Value> = (0..bytes / 20).map(|n| json!({"name": format!("n{n}")})).collect();
    things.push(thing("items", items.into()));
    things.push(thing("text", "a,".repeat(bytes / 2).into()));
    let definition = Object::from_json(&definition).expect("it is an object");
    let definitions = CustomResourceDefinitions::new([&definition]).expect("it is a definition");
    (Settings { definitions, ..Settings::default() }, things)
}

/// Selectors and labels whose keys collide in a hash table.
pub(super) fn alike(bytes: usize) -> Vec<(String, Value)> {
    let labels: serde_json::Map<String, Value> =
        (0..bytes / 70).map(|n| (format!("a{n:07}-middle-{n:07}z"), "a".into())).collect();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}], "nodeSelector": {"a": "b"}}}}});
    vec![("Deployment, labels alike".to_owned(), deployment)]
}

#[test]
fn parsing_and_evaluating_expressions_has_its_cost() {
    let bytes = if cfg!(debug_assertions) { LARGEST / 10 } else { LARGEST };
    let (settings, things) = defined(bytes);
    let judges = [
        (Judge::new(Settings::default(), Vec::new()), [classes(bytes), alike(bytes)].concat()),
        (Judge::new(settings, Vec::new()), things),
    ];
    for (judge, objects) in &judges {
        for (name, object) in objects {
            judge.cost(&json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "spec": {}}));
            let cost = judge.cost(object).expect("it is an object");
            println!("{name}: {}", cost.in_words());
            assert!(cost.steps < MOST_STEPS, "{name}: {}", cost.in_words());
        }
    }
    // A small object is evaluated completely.
    let (settings, things) = defined(1_000);
    let judge = Judge::new(settings, Vec::new());
    for (name, thing) in things {
        let cost = judge.cost(&thing).expect("it is an object");
        assert!(cost.cut_short.is_empty() || name == "Thing, given", "{name}: {}", cost.in_words());
    }
}
