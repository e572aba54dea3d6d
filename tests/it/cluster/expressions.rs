//! CEL: gpulint and the API server parse and evaluate the same expressions alike
//! (`tests/cluster/expressions.yaml`), and with the definitions that Karpenter and KEDA publish, `--crds`
//! rejects the objects that the server rejects.

use std::collections::BTreeSet;
use std::path::Path;

use gpulint_rules::{Cluster, CustomResourceDefinitions, Engine, Object, ObjectId, Settings};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::cases::{Case, Claim, claims, documents, value};
use crate::cluster::judge::{Judge, Verdict};
use crate::cluster::mutants::{mutants, written_mutants};
use crate::cluster::platform;
use crate::cluster::server::assets;

#[derive(Deserialize)]
struct Table {
    syntax: Vec<Syntax>,
    rules: Vec<ValidationRule>,
}

#[derive(Deserialize)]
struct Syntax {
    expression: String,
    #[serde(default)]
    refused: bool,
}

#[derive(Deserialize)]
struct ValidationRule {
    rule: String,
    schema: Value,
    values: Vec<Value>,
    #[serde(default)]
    unknown: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table() -> Table {
    let text = std::fs::read_to_string(root().join("tests/cluster/expressions.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn object(value: &Value) -> Object {
    Object::from_json(value).expect("an object")
}

/// The engine with definitions. If `select` names rules, only these run.
fn engine(definitions: CustomResourceDefinitions, select: &[&str]) -> Engine {
    Engine::new(Settings {
        platform: platform(),
        suppressions: false,
        definitions,
        select: select.iter().map(|id| (*id).to_owned()).collect(),
        ..Settings::default()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_syntax_error_is_one_for_the_server_too() {
    let Some(judge) = Judge::start().await else { return };
    let engine = engine(CustomResourceDefinitions::default(), &["cel-syntax-error"]);
    let mut wrong = Vec::new();
    for Syntax { expression, refused } in table().syntax {
        let class = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "a.example.com"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        });
        let class = object(&class);
        let found = !engine.check_object(&class, &Cluster::new(false)).is_empty();
        let verdict = judge.ask(class.id(), "application/json", &class.root().to_json().to_string()).await;
        if found != refused {
            wrong.push(format!("`{expression}`: the table says {refused}, gpulint {found}"));
        }
        if found && !matches!(verdict, Verdict::Refused(_)) {
            wrong.push(format!("`{expression}`: gpulint reports it, and the server takes it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validation_rules_give_what_the_server_gives() {
    let Some(mut judge) = Judge::start().await else { return };
    let rules = table().rules;
    let properties = rules.iter().enumerate().map(|(at, rule)| {
        let mut schema = rule.schema.clone();
        schema["x-kubernetes-validations"] = json!([{"rule": rule.rule, "message": "the rule fails"}]);
        // The server estimates the cost of a rule by the largest possible value.
        if schema["type"] == "string" {
            schema["maxLength"] = json!(64);
        }
        (format!("r{at}"), schema)
    });
    let properties: serde_json::Map<String, Value> = properties.collect();
    let definition = gpulint_testing::thing_definition(&properties);
    judge.define(&definition).await;
    let engine =
        engine(CustomResourceDefinitions::new([&object(&definition)]).unwrap(), &["crd-validation-rule"]);
    let mut wrong = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let mut reported = false;
        for value in &rule.values {
            let name = format!("r{at}");
            let thing = object(&json!({
                "apiVersion": "cel.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {name: value},
            }));
            let found = !engine.check_object(&thing, &Cluster::new(false)).is_empty();
            reported |= found;
            let body = thing.root().to_json().to_string();
            let verdict = judge.ask(thing.id(), "application/json", &body).await;
            let said = match &verdict {
                Verdict::Refused(refusal) => refusal.message.as_str(),
                _ => "accepted",
            };
            // If the evaluation fails, the server rejects the object, and gpulint reports nothing.
            let fails = said.contains("the rule fails") && !said.contains("evaluating rule");
            let agreed = found == fails || rule.unknown && !found;
            if !agreed {
                wrong.push(format!("`{}` on {value}: gpulint {found}, the server: {said}", rule.rule));
            }
        }
        if rule.unknown && reported {
            wrong.push(format!("`{}` is evaluated", rule.rule));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The definitions that Karpenter, its AWS provider and KEDA publish.
fn published() -> CustomResourceDefinitions {
    let folder = assets("crds").expect("the judge runs");
    let objects: Vec<Object> = gpulint_testing::yaml_below(&folder)
        .iter()
        .flat_map(|path| gpulint_testing::objects(&std::fs::read_to_string(path).unwrap()))
        .collect();
    CustomResourceDefinitions::new(&objects).unwrap()
}

/// Interval at which the mutants of a seed are compared; those of other documents have the interval
/// [`SPARSE`].
const OF_A_SEED: usize = 5;
const SPARSE: usize = 388;

/// The rules that report what a schema rejects.
const OVER_THE_SCHEMA: &[&str] =
    &["crd-validation-rule", "invalid-value", "manifest-incomplete", "unknown-field"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_definitions_reject_what_the_server_rejects() {
    let Some(judge) = Judge::start().await else { return };
    let definitions = published();
    let over_schema = engine(definitions, OVER_THE_SCHEMA);
    let built_in = engine(CustomResourceDefinitions::default(), &[]);
    let (mut wrong, mut unnamed) = (Vec::new(), BTreeSet::new());
    let (mut accepted, mut failed) = (0, 0);
    let mut waiting: Vec<Case> = documents(root(), &root().join("fixtures"));
    waiting.retain(|case| is_published(&case.id) && !case.unexpanded);
    let mut next = Vec::new();
    while let Some(case) = waiting.pop().or_else(|| next.pop()) {
        let verdict = judge.ask(&case.id, case.media, &case.text).await;
        let claimed = claims(&over_schema, &case);
        let mut evaluated = claimed.iter().filter(|claim| claim.rule == "crd-validation-rule").peekable();
        match &verdict {
            Verdict::Accepted => {
                accepted += 1;
                for claim in claimed.iter().filter(|claim| claim.claims_refusal()) {
                    wrong.push(format!(
                        "{}: {} {}, and the server takes it",
                        case.name, claim.rule, claim.message
                    ));
                }
                if case.class == "written" {
                    next.extend(mutants_of(&case));
                }
            }
            Verdict::Refused(refusal) => {
                let same = |message: &str| refusal.message.contains(message.trim_end_matches('…'));
                failed += usize::from(evaluated.clone().any(|claim| same(&claim.message)));
            }
            Verdict::Unserved => {}
        }
        // Without definitions a rule of gpulint reports it, in words of its own.
        if evaluated.peek().is_some() && !claims(&built_in, &case).iter().any(Claim::claims_refusal) {
            unnamed.extend(evaluated.map(|claim| format!("{}: {}", case.name, claim.message)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        accepted > 1000 && failed > 100,
        "{accepted} accepted, {failed} fail a rule with the server's message"
    );
    let unnamed: Vec<String> = unnamed.into_iter().collect();
    assert!(unnamed.is_empty(), "no named rule reports these:\n{}", unnamed.join("\n"));
}

fn is_published(id: &ObjectId) -> bool {
    let current = match id.group.as_str() {
        "karpenter.sh" | "karpenter.k8s.aws" => "v1",
        "keda.sh" => "v1alpha1",
        _ => return false,
    };
    id.version == current || id.kind == "NodeOverlay"
}

fn mutants_of(case: &Case) -> Vec<Case> {
    let Some(value) = value(case) else { return Vec::new() };
    let seed = case.name.starts_with("fixtures/verdicts/");
    let step = if seed { OF_A_SEED } else { SPARSE };
    let mut cases =
        mutants(&case.name, &case.id, &value, |number| (number + case.name.len()).is_multiple_of(step));
    if seed {
        let file = case.name.split('#').next().unwrap_or_default();
        cases.extend(written_mutants(&root().join(file), &case.name, &case.id, &value));
    }
    cases
}
